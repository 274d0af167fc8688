//! A host with a new identity: what its old one had accepted, where a broker was set back and where nothing leaves the
//! host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use std::path::Path;

use hostel_mesh::enrol::Enrol;
use hostel_mesh::home::Membership;
use hostel_mesh::{Caller, Mesh, RegisterRequest, SendRequest};
use hostel_wire::Clock;
use link_support::{Host, Net, TestBroker, copy_files, holds, hosts, options, places, put_back, quick, soon, until};
use rusqlite::Connection;
use tokio::task::JoinHandle;

fn session() -> RegisterRequest {
    RegisterRequest {
        token: "b".repeat(64),
        session_id: "s-1".to_owned(),
        display_name: "fix-ci".to_owned(),
        pid: std::process::id(),
        presence: true,
        ..RegisterRequest::default()
    }
}

async fn remint(root: &Path, membership: &Membership) -> Membership {
    soon("a new identity", Enrol::new(places(root), Clock::system()).remint(membership)).await.unwrap()
}

/// A daemon on a copy of a host's files.
struct Copy {
    mesh: Mesh,
    running: JoinHandle<hostel_mesh::Ending>,
}

impl Copy {
    async fn start(root: &Path, membership: &Membership) -> Self {
        let mesh = Mesh::open(options(root.join("mesh"), membership, Net::new(), quick())).await.unwrap();
        let run = mesh.clone();
        let copy = Self { mesh, running: tokio::spawn(async move { run.run().await }) };
        soon("connecting", copy.mesh.connected()).await;
        copy
    }

    async fn end(self) {
        self.mesh.shutdown();
        soon("the daemon's end", self.running).await.unwrap();
    }
}

/// Has everything sent that is owed, and something more, which has come when everything before it has.
async fn finish(mesh: &Mesh, alice: &Host, word: &str) {
    let request = SendRequest { to: "alice".to_owned(), message: word.to_owned(), ..SendRequest::default() };
    mesh.send(request, &Caller::Member).await.unwrap();
    alice.wait_for(word, |items| items.iter().any(|item| item.body.as_deref() == Some(word))).await;
}

/// A copied host and its original have the same message. One of them sends it, the broker is set back to before that,
/// and the other one comes.
async fn set_back_between(copy_first: bool) {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    broker.down().await;
    bob.send("alice", "one").await;
    bob.down().await;
    broker.up().await;
    let root = tempfile::tempdir().unwrap();
    for part in ["mesh", "config"] {
        std::fs::create_dir(root.path().join(part)).unwrap();
        copy_files(&bob.dir.path().join(part), &root.path().join(part));
    }
    let second = remint(root.path(), &bob.membership).await;
    broker.down().await;
    let before = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), before.path());
    broker.up().await;
    if copy_first {
        let copy = Copy::start(root.path(), &second).await;
        finish(&copy.mesh, &alice, "end of the copy").await;
        copy.end().await;
    } else {
        bob.up().await;
        finish(&bob.mesh, &alice, "end of the original").await;
        bob.down().await;
    }
    let noticed = alice.follow("daemon_reconnect").await;
    broker.down().await;
    put_back(before.path(), broker.dir.path());
    broker.up().await;
    // Numbers of the log that she knows will be given again.
    noticed.await;
    // The log knows nothing of it, and takes it from who comes first now; alice has it.
    let mut ends = ["end of the copy", "end of the original"];
    if copy_first {
        bob.up().await;
        finish(&bob.mesh, &alice, "end of the original").await;
        let copy = Copy::start(root.path(), &second).await;
        finish(&copy.mesh, &alice, "again").await;
        copy.end().await;
    } else {
        ends.reverse();
        let copy = Copy::start(root.path(), &second).await;
        finish(&copy.mesh, &alice, "end of the copy").await;
        copy.end().await;
        bob.up().await;
        finish(&bob.mesh, &alice, "again").await;
    }
    assert_eq!(alice.bodies().await, ["one", ends[0], ends[1], "again"]);
}

#[tokio::test]
async fn a_broker_that_was_set_back_takes_it_from_the_original_and_it_is_known_from_the_copy() {
    set_back_between(true).await;
}

#[tokio::test]
async fn a_broker_that_was_set_back_takes_it_from_the_copy_and_it_is_known_from_the_original() {
    set_back_between(false).await;
}

#[tokio::test]
async fn what_stays_on_the_host_is_handed_over_once() {
    let broker = TestBroker::start().await;
    let [mut bob] = hosts(&broker, ["bob"]).await;
    bob.mesh.session_register(session()).await.unwrap();
    for text in ["one", "two"] {
        bob.send("bob/fix-ci", text).await;
    }
    bob.wait_inbox(2).await;
    bob.drained().await;
    bob.down().await;
    // As if it had been killed when the first was handed over and not settled, and the second not even that.
    let outbox = Connection::open(bob.files().outbox()).unwrap();
    assert_eq!(outbox.execute("UPDATE outbox SET status = 'pending', owed = 1", []).unwrap(), 2);
    outbox.close().unwrap();
    let inbox = Connection::open(bob.files().inbox()).unwrap();
    assert_eq!(inbox.execute("DELETE FROM inbox WHERE body = 'two'", []).unwrap(), 1);
    inbox.close().unwrap();
    let second = remint(bob.dir.path(), &bob.membership).await;
    bob.up().await;
    assert_eq!(bob.membership.member_id, second.member_id);
    bob.wait_inbox(2).await;
    bob.drained().await;
    bob.send("bob/fix-ci", "three").await;
    bob.wait_inbox(3).await;
    assert_eq!(bob.bodies().await, ["one", "two", "three"]);
}

#[tokio::test]
async fn what_a_session_had_to_send_arrives_once() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    bob.mesh.session_register(session()).await.unwrap();
    let caller = Caller::Session(bob.mesh.session_by_token(&"b".repeat(64)).unwrap());
    let send = async |mesh: &Mesh, text: &str| {
        let request = SendRequest { to: "alice".to_owned(), message: text.to_owned(), ..SendRequest::default() };
        mesh.send(request, &caller).await.unwrap();
    };
    send(&bob.mesh, "one").await;
    alice.wait_inbox(1).await;
    bob.drained().await;
    bob.net.cut();
    send(&bob.mesh, "two").await;
    bob.down().await;
    // The answer to the first was lost.
    let outbox = Connection::open(bob.files().outbox()).unwrap();
    assert_eq!(outbox.execute("UPDATE outbox SET status = 'pending', owed = 1", []).unwrap(), 2);
    outbox.close().unwrap();
    remint(bob.dir.path(), &bob.membership).await;
    bob.net.mend();
    bob.up().await;
    send(&bob.mesh, "three").await;
    bob.drained().await;
    alice.wait_inbox(3).await;
    assert_eq!(alice.bodies().await, ["one", "two", "three"]);
    assert!(bob.mesh.outbox_list(Some("dead"), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_broker_that_knows_no_origins_is_waited_for_and_nothing_is_given_up() {
    let broker = TestBroker::start().await;
    let [alice, carol, mut bob] = hosts(&broker, ["alice", "carol", "bob"]).await;
    bob.net.cut();
    bob.send("alice", "one").await;
    let other = bob.send("carol", "other").await;
    bob.down().await;
    remint(bob.dir.path(), &bob.membership).await;
    bob.net.set_old(true);
    bob.net.mend();
    bob.up().await;
    let why = "the broker is too old";
    until("the reason to be shown", async || {
        let rows = bob.mesh.outbox_list(Some("pending"), 10).await.unwrap();
        let shown = rows.iter().filter(|row| row.last_error.as_deref().is_some_and(|text| text.contains(why)));
        holds(shown.count() == 2, rows)
    })
    .await;
    // Behind it, in order.
    bob.send("alice", "two").await;
    // Whoever does not want to wait says so: under another id it is another message.
    bob.mesh.outbox_requeue(&other.client_message_id, None).await.unwrap();
    carol.wait_inbox(1).await;
    assert!(alice.bodies().await.is_empty());
    bob.net.set_old(false);
    bob.net.break_all();
    alice.wait_inbox(2).await;
    bob.drained().await;
    assert_eq!((alice.bodies().await, carol.bodies().await), (vec!["one".into(), "two".into()], vec!["other".into()]));
    assert!(bob.mesh.outbox_list(Some("dead"), 10).await.unwrap().is_empty());
}
