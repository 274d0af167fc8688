//! Peers of TCP connections.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hostel_peer::{Ends, Peer, Standing, marks};

use crate::helper::{Visit, program, through};

struct Door(TcpListener);

impl Door {
    fn open() -> Self {
        Door(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn client(&self, role: &str) -> Command {
        program(role, &PathBuf::from(self.0.local_addr().unwrap().to_string()))
    }

    fn visit(&self, mut command: Command) -> (Visit, Ends) {
        let child = command.spawn().unwrap();
        let (mut stream, theirs) = self.0.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let ends = Ends { theirs, ours: stream.local_addr().unwrap() };
        (Visit { peer: Peer::of_tcp(ends), child, stream: Some(stream.into()) }, ends)
    }
}

#[tokio::test]
async fn a_local_client_is_as_well_known_as_over_a_unix_socket() {
    let door = Door::open();
    let (visit, ends) = door.visit(door.client("tcp client"));
    assert_eq!(visit.peer.standing().await, Standing::Owner);
    assert_eq!(visit.peer.info().await.unwrap().pid, visit.child.id());
    assert_eq!((visit.peer.ends(), visit.peer.to_string()), (Some(ends), ends.theirs.to_string()));
    let info = visit.peer.info().await.unwrap();
    assert_eq!(visit.peer.belongs_to(info.pid, info.started).await, Some(true));
    drop(visit);
    let mut marked = door.client("tcp client");
    marks::mark_children_of(&mut marked);
    assert_eq!(door.visit(marked).0.peer.standing().await, Standing::Insider);
}

#[tokio::test]
async fn a_client_that_ended_is_unknown() {
    let door = Door::open();
    let (mut visit, _) = door.visit(door.client("tcp client"));
    assert_eq!(visit.peer.standing().await, Standing::Owner);
    visit.child.kill().unwrap();
    visit.child.wait().unwrap();
    assert_eq!(visit.peer.standing().await, Standing::Unknown);
}

#[tokio::test]
async fn an_insider_that_shares_the_connection_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, theirs) = listener.accept().unwrap();
    let ends = Ends { theirs, ours: server.local_addr().unwrap() };
    let heir = Stdio::from(std::os::fd::OwnedFd::from(client.try_clone().unwrap()));
    let mut insider = {
        // It holds the connection as long as it is there.
        let mut command = Command::new("sleep");
        marks::mark_children_of(command.arg("100").stdin(heir));
        command.spawn().unwrap()
    };
    assert_eq!(Peer::of_tcp(ends).standing().await, Standing::Insider, "this process holds it as well");
    insider.kill().unwrap();
    insider.wait().unwrap();
    assert_eq!(Peer::of_tcp(ends).standing().await, Standing::Owner);
    // Whoever has hung up is nobody, though the process lives.
    let peer = Peer::of_tcp(ends);
    assert_eq!(peer.standing().await, Standing::Owner);
    drop(client);
    assert_eq!(peer.standing().await, Standing::Unknown);
}

#[tokio::test]
async fn other_users_are_other_users_and_a_proxy_speaks_for_somebody_elsewhere() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become somebody else");
    }
    let door = Door::open();
    let other = through(&["setpriv", "--reuid=65534", "--clear-groups"], &door.client("tcp client"));
    let (visit, ends) = door.visit(other);
    assert_eq!(visit.peer.standing().await, Standing::OtherUser);
    assert_eq!(Peer::behind_proxies(ends, Arc::new([65534])).standing().await, Standing::Remote);
    assert_eq!(Peer::behind_proxies(ends, Arc::new([65533])).standing().await, Standing::OtherUser);
}

#[test]
fn a_client_that_hides_its_descriptors_is_unknown() {
    // Root sees everything, so an ordinary user has to look.
    let own = std::env::current_exe().unwrap();
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--clear-groups", "--inh-caps=-all"]).arg(own);
            command
        }
        false => Command::new(own),
    };
    let done = command.args(["--exact", "tcp::as_an_ordinary_user", "--nocapture"]).env("PEER_TEST_HIDDEN", "1");
    let done = done.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("hidden and unknown"), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn as_an_ordinary_user() {
    if std::env::var_os("PEER_TEST_HIDDEN").is_none() {
        return;
    }
    let door = Door::open();
    let (visit, _) = door.visit(door.client("hidden tcp client"));
    assert_eq!(visit.peer.standing().await, Standing::Unknown);
    assert!(visit.peer.info().await.is_none());
    println!("hidden and unknown");
}

#[tokio::test]
async fn somebody_elsewhere_is_remote_and_belongs_to_no_tree() {
    let ends = Ends { theirs: "192.0.2.1:1234".parse().unwrap(), ours: "127.0.0.1:2".parse().unwrap() };
    let peer = Peer::of_tcp(ends);
    assert_eq!((peer.standing().await, peer.info().await), (Standing::Remote, None));
    assert_eq!(peer.belongs_to(1, 1).await, Some(false));
}
