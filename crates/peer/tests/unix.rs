//! Peers of unix sockets.

use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixListener;

use hostel_peer::registry::registry;
use hostel_peer::{Peer, Standing, marks};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::helper::{Door, can, heir, program, through};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn a_process_outside_is_the_owner_and_known() {
    let door = Door::open();
    let visit = door.visit(program("client", &door.socket()));
    assert_eq!(visit.peer.standing().await, Standing::Owner);
    let info = visit.peer.info().await.unwrap();
    assert_eq!((info.pid, visit.peer.pid()), (visit.child.id(), Some(visit.child.id())));
    assert_eq!(info.program, std::env::current_exe().unwrap().display().to_string());
    assert_eq!(visit.peer.belongs_to(info.root_pid, info.root_started).await, Some(true));
    assert_eq!(visit.peer.belongs_to(info.pid, info.started + 1).await, Some(false));
}

#[tokio::test]
async fn a_marked_process_is_an_insider_whatever_it_does() {
    let door = Door::open();
    let client = || program("client", &door.socket());
    let mut attempts = vec![
        ("as it is", client()),
        ("with its memory hidden", program("hidden client", &door.socket())),
        ("with a session of its own", through(&["setsid", "--fork"], &client())),
        ("with an empty environment", through(&["env", "-u", marks::TAG_VARIABLE], &client())),
        ("with lower limits", program("client that lowers its limits", &door.socket())),
        ("forked twice", through(&["sh", "-c", r#""$@" <&0 & exit 0"#, "sh"], &client())),
    ];
    if can(&["unshare", "--user", "--map-root-user", "--pid", "--fork", "true"]) {
        let namespaces = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
        attempts.push(("in namespaces", through(&namespaces, &client())));
        let raise = program("client that raises its limits", &door.socket());
        let raise = match is_root() {
            // Root of the machine could; root of a namespace cannot.
            true => through(&["setpriv", "--reuid=0", "--bounding-set=-sys_resource", "--inh-caps=-all"], &raise),
            false => through(&["unshare", "--user", "--map-root-user"], &raise),
        };
        attempts.push(("with limits it tries to raise", raise));
    }
    for (how, mut attempt) in attempts {
        marks::mark_children_of(&mut attempt);
        let visit = door.visit(attempt);
        assert_eq!(visit.peer.standing().await, Standing::Insider, "{how}");
    }
}

#[tokio::test]
async fn a_tagged_process_is_an_insider() {
    let door = Door::open();
    let mut tagged = program("client", &door.socket());
    tagged.env(marks::TAG_VARIABLE, "0123456789abcdef.77");
    assert_eq!(door.visit(tagged).peer.standing().await, Standing::Insider);
}

#[tokio::test]
async fn what_a_hostel_process_adopted_is_an_insider() {
    let door = Door::open();
    let visit = door.visit(program("adopter", &door.socket()));
    let (adopter, client) = (visit.child.id(), visit.peer.pid().unwrap());
    assert_ne!(adopter, client);
    registry().add(adopter);
    assert_eq!(visit.peer.standing().await, Standing::Insider);
}

#[tokio::test]
async fn another_user_is_another_user_and_a_subordinate_one_too() {
    if !is_root() {
        return println!("skipped: only root can become somebody else");
    }
    let door = Door::open();
    let other = through(&["setpriv", "--reuid=65534", "--clear-groups"], &program("client", &door.socket()));
    let visit = door.visit(other);
    assert_eq!((visit.peer.standing().await, visit.peer.uid()), (Standing::OtherUser, Some(65534)));
}

#[tokio::test]
async fn a_process_that_has_ended_is_unknown_even_if_it_was_the_owner() {
    let door = Door::open();
    let mut visit = door.visit(program("client", &door.socket()));
    assert_eq!(visit.peer.standing().await, Standing::Owner);
    visit.child.kill().unwrap();
    visit.child.wait().unwrap();
    assert_eq!(visit.peer.standing().await, Standing::Unknown);
    assert_eq!(visit.peer.belongs_to(visit.child.id(), 0).await, None);
}

#[tokio::test]
async fn a_connection_that_was_handed_on_is_that_of_whoever_made_it() {
    let door = Door::open();
    let directory = tempfile::tempdir().unwrap();
    let heirs = directory.path().join("heir");
    let listener = UnixListener::bind(&heirs).unwrap();
    let mut testator = heir(program("testator", &door.socket()), &heirs).spawn().unwrap();
    let (stream, peer) = door.accept();
    let (inherited, _) = listener.accept().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut messages = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let parts = &mut [std::io::IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(&inherited, parts, &mut messages, RecvFlags::empty()).unwrap();
    let rights = messages.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    assert!(testator.wait().unwrap().success());
    // This process holds the connection now and would be the owner.
    assert!(rights.is_some());
    assert_eq!(peer.pid(), Some(testator.id()));
    assert_eq!(peer.standing().await, Standing::Unknown);
    assert!(peer.info().await.is_none());
    // Somebody who looks at the connection only now cannot find out more, but the user is known.
    let late = Peer::of_unix(&stream);
    assert_eq!(late.standing().await, Standing::Unknown);
    assert_eq!(late.uid(), Some(rustix::process::geteuid().as_raw()));
}

#[tokio::test]
async fn this_process_itself_and_nobody() {
    assert_eq!(Peer::own().standing().await, Standing::Owner);
    assert_eq!(Peer::own().belongs_to(std::process::id(), 0).await, Some(false));
    assert_eq!(Peer::unknown().standing().await, Standing::Unknown);
    assert_eq!(Peer::unknown().belongs_to(1, 1).await, None);
    assert_eq!(Peer::of_process(u32::MAX).standing().await, Standing::Unknown);
    let (reader, _writer) = std::io::pipe().unwrap();
    assert_eq!(Peer::of_unix(&reader).standing().await, Standing::Unknown, "no socket");
    assert_eq!(
        [Peer::own(), Peer::unknown(), Peer::of_process(std::process::id())].map(|peer| peer.to_string()),
        ["this daemon".to_owned(), "unknown".to_owned(), format!("pid {}", std::process::id())]
    );
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(theirs);
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    assert_eq!(Peer::of_unix(&ours).pid(), Some(std::process::id()), "both ends of a pair are its maker's");
}
