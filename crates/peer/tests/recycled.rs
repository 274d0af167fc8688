//! A process id that was given to another process between connecting and being looked at.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use hostel_peer::Standing;

use crate::helper::{Door, can, flush, program, through};

/// Runs in a process namespace of its own, where the next process id can be chosen.
pub(crate) fn in_a_namespace(_socket: &Path) {
    let door = Door::open();
    let mut first = program("client", &door.socket()).spawn().unwrap();
    // The connection waits to be accepted; its maker ends and is reaped meanwhile.
    let (stream, _) = wait_for_byte(&door);
    let peer = hostel_peer::Peer::of_unix(&stream);
    let late = {
        first.kill().unwrap();
        first.wait().unwrap();
        hostel_peer::Peer::of_unix(&stream)
    };
    fs::write("/proc/sys/kernel/ns_last_pid", (first.id() - 1).to_string()).unwrap();
    let mut second = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
    assert_eq!(second.id(), first.id(), "the number was given away again");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = runtime.block_on(async { (peer.standing().await, late.standing().await, late.info().await) });
    // The owner's process of that number would be the owner if it had connected.
    let other = runtime.block_on(hostel_peer::Peer::of_process(second.id()).standing());
    second.kill().unwrap();
    second.wait().unwrap();
    assert_eq!((told, other), ((Standing::Unknown, Standing::Unknown, None), Standing::Owner));
    println!("recycled and recognised");
    flush();
}

fn wait_for_byte(door: &Door) -> (std::os::unix::net::UnixStream, hostel_peer::Peer) {
    let (mut stream, peer) = door.accept();
    stream.read_exact(&mut [0]).unwrap();
    (stream, peer)
}

#[test]
fn a_number_that_was_given_away_again_is_not_the_peer() {
    let mut namespace = vec!["unshare", "--pid", "--fork", "--mount-proc"];
    if !rustix::process::geteuid().is_root() {
        namespace.extend(["--user", "--map-root-user"]);
    }
    if !can(&[&namespace[..], &["sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid"]].concat()) {
        return;
    }
    let mut command = through(&namespace, &program("namespace", Path::new("/")));
    let done = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("recycled and recognised"), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}
