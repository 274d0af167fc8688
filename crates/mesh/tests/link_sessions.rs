//! Sessions of a member, members that leave no trace, the way without a daemon, and files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::cold::Cold;
use hostel_mesh::{Caller, Ending, InboxRequest, Mesh, RegisterRequest, SendRequest, ShareRequest};
use link_support::{Net, TestBroker, cold_options, enrol, holds, hosts, options, quick, soon, until};

fn register(token: char, id: &str, name: &str) -> RegisterRequest {
    RegisterRequest {
        token: std::iter::repeat_n(token, 64).collect(),
        session_id: id.to_owned(),
        display_name: name.to_owned(),
        pid: std::process::id(),
        presence: true,
        ..RegisterRequest::default()
    }
}

#[tokio::test]
async fn a_session_sends_under_its_own_key_and_reads_its_own_mail() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let registered = bob.mesh.session_register(register('b', "s-1", "fix-ci")).await.unwrap();
    assert!(registered.presence_accepted);
    assert_eq!(registered.address, "bob/fix-ci");
    let session = bob.mesh.session_by_token(&"b".repeat(64)).unwrap();
    let caller = Caller::Session(session.clone());
    let request = SendRequest { to: "alice".into(), message: "from the session".into(), ..SendRequest::default() };
    bob.mesh.send(request, &caller).await.unwrap();
    let items = alice.wait_inbox(1).await;
    assert_eq!(items[0].body.as_deref(), Some("from the session"));
    assert_eq!(items[0].sender_name, "bob/fix-ci", "an answer to that name reaches it");
    assert_ne!(items[0].sender_pubkey, bob.mesh.member_pubkey());
    let peers = alice.mesh.peers(false).await.unwrap();
    let seen = peers.iter().find(|peer| peer.session_id.as_deref() == Some("s-1")).unwrap();
    assert_eq!((seen.display_name.as_str(), seen.peer_role.as_str()), ("fix-ci", "session"));
    assert_eq!(seen.pubkey, items[0].sender_pubkey);

    alice.send("bob", "for the member").await;
    alice.send("bob/FIX-CI", "by name").await;
    alice.send(&seen.pubkey, "by key").await;
    let items = bob.wait_inbox(3).await;
    let of_session =
        bob.mesh.inbox(InboxRequest { mark_seen: false, ..InboxRequest::default() }, &caller).await.unwrap();
    let bodies: Vec<_> = of_session.items.iter().filter_map(|item| item.body.as_deref()).collect();
    assert_eq!(bodies, ["by key", "by name"]);
    assert!(
        items.iter().all(|item| (item.recipient_kind == "session") == (item.body.as_deref() != Some("for the member")))
    );

    // The session is taken up again after a restart, with a new key; its mail is still there.
    bob.down().await;
    bob.up().await;
    bob.connected().await;
    let again = bob.mesh.session_by_token(&"b".repeat(64)).unwrap();
    assert_eq!(again, session);
    let request = SendRequest { to: "alice".into(), message: "again".into(), ..SendRequest::default() };
    bob.mesh.send(request, &caller).await.unwrap();
    let items = alice.wait_inbox(2).await;
    assert_ne!(items[0].sender_pubkey, items[1].sender_pubkey);
    assert!(bob.mesh.session_remove(&"b".repeat(64)).await);
    assert!(bob.mesh.session_by_token(&"b".repeat(64)).is_none());
}

#[tokio::test]
async fn what_a_session_owes_when_it_ends_goes_out_as_the_member() {
    let mut broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    bob.mesh.session_register(register('b', "s-1", "short")).await.unwrap();
    let caller = Caller::Session(bob.mesh.session_by_token(&"b".repeat(64)).unwrap());
    broker.down().await;
    let request = SendRequest { to: "alice".into(), message: "left behind".into(), ..SendRequest::default() };
    bob.mesh.send(request, &caller).await.unwrap();
    bob.mesh.session_remove(&"b".repeat(64)).await;
    broker.up().await;
    let items = alice.wait_inbox(1).await;
    assert_eq!(items[0].sender_pubkey, bob.mesh.member_pubkey());
}

#[tokio::test]
async fn who_is_ephemeral_writes_nothing_and_leaves() {
    let broker = TestBroker::start().await;
    let mut members = enrol(&broker, &["alice", "ghost"]).await;
    let (dir, ghost) = members.pop().unwrap();
    let (alice_dir, alice) = members.pop().unwrap();
    let alice = Mesh::open(options(alice_dir.path().join("m"), &alice, Net::new(), quick())).await.unwrap();
    let running = alice.clone();
    let alice_task = tokio::spawn(async move { running.run().await });
    soon("alice", alice.connected()).await;

    let before = std::fs::read_dir(dir.path()).unwrap().count();
    let mut made = options(dir.path().join("unused"), &ghost, Net::new(), quick());
    std::fs::remove_dir(dir.path().join("unused")).unwrap();
    made.dir = None;
    made.leave_on_end = true;
    let mesh = Mesh::open(made).await.unwrap();
    let running = mesh.clone();
    let task = tokio::spawn(async move { running.run().await });
    soon("the ghost", mesh.connected()).await;
    let request = SendRequest { to: "alice".into(), message: "boo".into(), ..SendRequest::default() };
    mesh.send(request, &Caller::Member).await.unwrap();
    mesh.shutdown();
    assert_eq!(soon("its end", task).await.unwrap(), Ending::Shutdown);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), before);
    until("its message and its leaving", async || {
        let boo = alice.inbox(InboxRequest::default(), &Caller::Member).await.unwrap();
        let left = alice.members().iter().any(|member| member.display_name == "ghost" && member.left);
        holds(boo.items.len() == 1 && left, (boo.items.len(), left))
    })
    .await;
    alice.shutdown();
    soon("alice's end", alice_task).await.unwrap();
}

#[tokio::test]
async fn without_a_daemon_one_connects_sends_and_leaves() {
    let broker = TestBroker::start().await;
    let [mut alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.down().await;
    let mut cold = soon("connecting", Cold::connect(cold_options(&alice.membership))).await.unwrap();
    let request =
        |to: &str, message: &str| SendRequest { to: to.into(), message: message.into(), ..SendRequest::default() };
    let sent = cold.send(request("bob", "cold")).await.unwrap();
    assert_eq!(sent.status, "done");
    cold.send(request("*", "cold to all")).await.unwrap();
    assert_eq!(cold.send(request("nobody", "x")).await.unwrap_err().code(), "peer_not_found");
    cold.leave().await;
    bob.wait_inbox(2).await;
    assert_eq!(bob.bodies().await, ["cold", "cold to all"]);
    assert_eq!(bob.inbox().await[0].sender_name, "alice");
}

#[tokio::test]
async fn a_file_is_shared_announced_and_fetched() {
    let broker = TestBroker::start().await;
    let [alice, bob, carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grüße.bin");
    let bytes: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let share = |to: Option<&str>| ShareRequest {
        path: path.to_str().unwrap().to_owned(),
        to: to.map(str::to_owned),
        message: Some("look".to_owned()),
        ..ShareRequest::default()
    };
    let shared = alice.mesh.file_share(share(Some("bob")), &Caller::Member).await.unwrap();
    assert_eq!((shared.name.as_str(), shared.size), ("grüße.bin", 700_000));
    // It is a snapshot: what happens to the file now does not matter.
    std::fs::write(&path, "changed").unwrap();
    let items = bob.wait_inbox(1).await;
    assert_eq!((items[0].kind.as_str(), items[0].body.as_deref()), ("file", Some("look")));
    assert_eq!(items[0].file.as_ref().unwrap()["id"], shared.file_id);
    let out = dir.path().join("out.bin");
    let fetched = bob.mesh.file_get(&shared.file_id, out.to_str().unwrap(), false).await.unwrap();
    assert_eq!((fetched.size, fetched.sha256.as_str()), (700_000, shared.sha256.as_str()));
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    let other = dir.path().join("other.bin");
    let refusal = carol.mesh.file_get(&shared.file_id, other.to_str().unwrap(), false).await.unwrap_err();
    assert_eq!(refusal.code(), "not_shared_with_you");
    assert!(!other.exists());
    assert_eq!(
        bob.mesh.file_get("01h00000000000000000000000", out.to_str().unwrap(), false).await.unwrap_err().code(),
        "file_not_found"
    );
    assert_eq!(bob.mesh.file_get(&shared.file_id, "relative", false).await.unwrap_err().code(), "invalid");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&out, &link).unwrap();
    assert_eq!(
        bob.mesh.file_get(&shared.file_id, link.to_str().unwrap(), false).await.unwrap_err().code(),
        "cannot_write"
    );

    // For everybody, and without a network at first.
    alice.net.cut();
    let for_all = alice.mesh.file_share(share(None), &Caller::Member).await.unwrap();
    alice.net.mend();
    carol.wait_inbox(1).await;
    let fetched = carol.mesh.file_get(&for_all.file_id, other.to_str().unwrap(), false).await.unwrap();
    assert_eq!((fetched.size, std::fs::read_to_string(&other).unwrap().as_str()), (7, "changed"));
    let listed = carol.mesh.file_list().await.unwrap();
    assert_eq!(listed.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), [for_all.file_id.as_str()]);
    // The broker has seen neither.
    for entry in std::fs::read_dir(broker.dir.path().join("blobs")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            let sealed = std::fs::read(entry.path()).unwrap();
            assert!(!sealed.windows(64).any(|window| window == &bytes[..64]));
        }
    }
}

#[tokio::test]
async fn a_session_that_comes_and_goes_keeps_its_order() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    bob.mesh.session_register(register('b', "s-1", "work")).await.unwrap();
    let caller = Caller::Session(bob.mesh.session_by_token(&"b".repeat(64)).unwrap());
    let mut expected = Vec::new();
    for round in 0..6 {
        // Its lane goes from its own connection to the member's and back while messages are under way.
        for n in 0..40 {
            let message = format!("{round}.{n}");
            let request = SendRequest { to: "alice".into(), message: message.clone(), ..SendRequest::default() };
            bob.mesh.send(request, &caller).await.unwrap();
            expected.push(message);
        }
        match round % 2 {
            0 => assert!(bob.mesh.session_remove(&"b".repeat(64)).await),
            _ => drop(bob.mesh.session_register(register('b', "s-1", "work")).await.unwrap()),
        }
    }
    alice.wait_inbox(expected.len()).await;
    assert_eq!(alice.bodies().await, expected);
}
