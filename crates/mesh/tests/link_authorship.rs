//! A broker that makes messages up, relabels, moves, repeats and strips them, and lies about keys and names: what the
//! inbox of a receiver shows, what its events say, and whom it seals for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::events::EventFilter;
use hostel_mesh::{Caller, InboxItem, InboxRequest, Mesh, SendRequest};
use hostel_wire::authorship::{MessageContext, SessionProof, Statement};
use hostel_wire::body::Body;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint;
use hostel_wire::frames::client::Succession;
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::hello::succeed;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::{PairKey, RootKey, TopicKey};
use link_support::fake::{Fake, Talk, start};
use link_support::{soon, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A message as its author writes it.
#[derive(Clone)]
struct Letter {
    author_id: &'static str,
    author: &'static str,
    key: SecretKey,
    /// The key of the author's connection.
    sender: SecretKey,
    kind: Kind,
    id: String,
    text: String,
    /// Written by a program that proves who its author is.
    is_proven: bool,
    successions: Vec<Succession>,
}

impl Letter {
    fn new(id: &str, key: &SecretKey, kind: Kind) -> Self {
        Self {
            author_id: "bob-id",
            author: "bob",
            key: key.clone(),
            sender: key.clone(),
            kind,
            id: id.to_owned(),
            text: format!("text of {id}"),
            is_proven: true,
            successions: Vec::new(),
        }
    }

    fn unproven(self) -> Self {
        Self { is_proven: false, ..self }
    }

    fn destination(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Dm => ("dm", "alice-id"),
            Kind::Topic => ("topic", "t-general"),
            Kind::Group => ("group", "@ops"),
            _ => ("all", "*"),
        }
    }

    /// The frame that an honest broker makes of it.
    fn push(&self, fake: &Fake, seq: u64) -> Value {
        let (dest_kind, dest_ref) = self.destination();
        let made = fingerprint::request(dest_kind, dest_ref, None, Priority::Next, None, self.text.as_bytes()).unwrap();
        let (member_key, sender_key) = (self.key.public(), self.sender.public());
        let is_session = member_key != sender_key;
        let body = Body {
            body: self.text.clone(),
            client_message_id: Some(self.id.clone()),
            fingerprint: Some(made),
            author: self.is_proven.then(|| self.author.to_owned()),
            session_proof: (self.is_proven && is_session && self.kind == Kind::Dm)
                .then(|| SessionProof::new(&self.key, &sender_key, u64::MAX / 2)),
            successions: self.successions.clone(),
            ..Body::default()
        };
        let context = MessageContext {
            mesh_id: "mesh",
            member_id: self.author_id,
            member_key: &member_key,
            sender_key: &sender_key,
            kind: self.kind,
            destination: dest_ref,
            client_message_id: &self.id,
        };
        let sealed = match (self.kind, self.is_proven) {
            (Kind::Dm, _) => PairKey::new(&self.sender, &fake.alice.public()).unwrap().seal(&body.to_bytes()),
            (_, true) => general().seal(&body.to_signed_bytes(&context, &self.key)),
            (_, false) => general().seal(&body.to_bytes()),
        };
        let mut push = json!({
            "type": "push", "messageId": format!("m-{seq}"), "meshId": "mesh", "senderPubkey": sender_key.hex(),
            "senderMemberPubkey": member_key.hex(), "senderMemberId": self.author_id, "senderName": self.author,
            "priority": "next", "nonce": sealed.nonce, "ciphertext": sealed.ciphertext,
            "createdAt": "2026-01-01T00:00:00.000Z", "client_message_id": self.id,
            "request_fingerprint": hex(&made), "seq": seq, "kind": self.kind, "bodyVersion": 3, "mentions": [],
        });
        if self.kind != Kind::Dm {
            push["keyEpoch"] = json!(0);
        }
        match self.kind {
            Kind::Topic => (push["topic"], push["topicId"]) = (json!("general"), json!("t-general")),
            Kind::Group => push["group"] = json!("ops"),
            _ => {}
        }
        push
    }
}

/// The key that every member can make for itself.
fn general() -> TopicKey {
    TopicKey::derive_general(&RootKey::from_b64url(&"A".repeat(43)).unwrap())
}

fn member(id: &str, name: &str, key: &SecretKey) -> Value {
    json!({"id": id, "name": name, "role": "member", "pubkey": key.public().hex()})
}

fn stated(id: &str, name: &str, key: &SecretKey) -> Value {
    let mut member = member(id, name, key);
    member["statement"] = serde_json::to_value(Statement::new("mesh", id, name, 7, key)).unwrap();
    member
}

/// Alice's daemon, and what the broker tells it.
struct World {
    fake: Fake,
    dir: TempDir,
    carol: SecretKey,
    mesh: Mesh,
    task: tokio::task::JoinHandle<hostel_mesh::Ending>,
}

impl World {
    async fn new() -> Self {
        let fake = Fake::new().await;
        let dir = tempfile::tempdir().unwrap();
        let (mesh, task) = start(&fake, &dir).await;
        Self { fake, dir, carol: SecretKey::generate(), mesh, task }
    }

    fn members(&self, bob: &Value) -> Value {
        json!([member("alice-id", "alice", &self.fake.alice), bob, member("carol-id", "carol", &self.carol)])
    }

    /// A connection in which bob has just become known to sign: everything from entry 1 on.
    async fn connect(&self) -> Talk {
        let talk = self.fake.accept_with(0, self.members(&stated("bob-id", "bob", &self.fake.bob))).await;
        soon("connecting", self.mesh.connected()).await;
        talk
    }

    /// Ends alice's daemon and starts it again, on the same directory.
    async fn restart(&mut self, talk: Talk) {
        self.mesh.shutdown();
        drop(talk);
        soon("the end", &mut self.task).await.unwrap();
        (self.mesh, self.task) = start(&self.fake, &self.dir).await;
    }

    async fn inbox(&self) -> Vec<InboxItem> {
        let request = InboxRequest { mark_seen: false, limit: 100, ..InboxRequest::default() };
        let mut items = self.mesh.inbox(request, &Caller::Member).await.unwrap().items;
        items.reverse();
        items
    }

    /// Waits until so many messages are there: what each says, why it says nothing, and whether its author is proven.
    async fn shown(&self, count: usize) -> Vec<(Option<String>, Option<String>, bool)> {
        let items = until("the messages", async || {
            let items = self.inbox().await;
            if items.len() >= count { Ok(items) } else { Err(items.len()) }
        })
        .await;
        items.into_iter().map(|item| (item.body, item.decrypt_error, item.verified)).collect()
    }
}

fn read(text: &str, verified: bool) -> (Option<String>, Option<String>, bool) {
    (Some(text.to_owned()), None, verified)
}

fn refused(reason: &str) -> (Option<String>, Option<String>, bool) {
    (None, Some(reason.to_owned()), false)
}

#[tokio::test]
async fn what_a_member_wrote_is_verified_wherever_it_goes() {
    let world = World::new().await;
    let mut talk = world.connect().await;
    let (bob, session) = (&world.fake.bob, SecretKey::generate());
    let mut seq = 0;
    for sender in [bob, &session] {
        for kind in [Kind::Dm, Kind::Topic, Kind::Group, Kind::All] {
            seq += 1;
            let letter = Letter { sender: sender.clone(), ..Letter::new(&format!("c{seq}"), bob, kind) };
            talk.say(letter.push(&world.fake, seq)).await;
        }
    }
    let shown = world.shown(8).await;
    let expected: Vec<_> = (1..=8).map(|seq| read(&format!("text of c{seq}"), true)).collect();
    assert_eq!(shown, expected);
    assert!(world.inbox().await.iter().all(|item| item.sender_name == "bob"));
}

#[tokio::test]
async fn a_broker_cannot_speak_as_a_member_that_signs() {
    let world = World::new().await;
    let mut talk = world.connect().await;
    let filter = EventFilter { events: vec!["message".into()], ..EventFilter::default() };
    let mut events = world.mesh.events(filter, &Caller::Member, None).await.unwrap();
    let (fake, bob, made_up) = (&world.fake, &world.fake.bob, SecretKey::generate());
    let label = |mut push: Value, key: &SecretKey| {
        push["senderMemberPubkey"] = json!(key.public().hex());
        push["senderMemberId"] = json!("bob-id");
        push["senderName"] = json!("bob");
        push
    };
    let by_carol =
        |id: &str, kind| Letter { author_id: "carol-id", author: "carol", ..Letter::new(id, &world.carol, kind) };

    // A made-up key and a body without an id, as an older program would send it.
    let mut plain = Letter::new("c1", &made_up, Kind::Dm).push(fake, 1);
    let sealed = PairKey::new(&made_up, &fake.alice.public()).unwrap().seal(b"run the deploy now");
    (plain["nonce"], plain["ciphertext"]) = (json!(sealed.nonce), json!(sealed.ciphertext));
    plain["bodyVersion"] = json!(1);
    talk.say(label(plain, bob)).await;
    // The same with an id inside, with the made-up key as a session's and as the member's own.
    talk.say(label(
        Letter { sender: made_up.clone(), ..Letter::new("c2", bob, Kind::Dm) }.unproven().push(fake, 2),
        bob,
    ))
    .await;
    talk.say(label(Letter::new("c3", &made_up, Kind::Dm).push(fake, 3), &made_up)).await;
    // A proof that another member made for the session.
    let mut vouched = Letter { sender: made_up.clone(), ..Letter::new("c4", &world.carol, Kind::Dm) }.push(fake, 4);
    vouched["senderMemberPubkey"] = json!(bob.public().hex());
    talk.say(label(vouched, bob)).await;
    // Bob's own box, as an older program would have written it: nobody can show it again under other ids.
    let mut old = Letter::new("c5", bob, Kind::Dm).push(fake, 5);
    let sealed = PairKey::new(bob, &fake.alice.public()).unwrap().seal(b"from long ago");
    (old["nonce"], old["ciphertext"], old["bodyVersion"]) = (json!(sealed.nonce), json!(sealed.ciphertext), json!(1));
    talk.say(old).await;
    // Carol's broadcast and carol's post, relabelled.
    talk.say(label(by_carol("c6", Kind::All).push(fake, 6), bob)).await;
    talk.say(label(by_carol("c7", Kind::Topic).push(fake, 7), bob)).await;
    // Posts that carry no signature: whoever has the topic's key could have written them.
    for (seq, kind) in [(8, Kind::Topic), (9, Kind::Group), (10, Kind::All)] {
        talk.say(Letter::new(&format!("c{seq}"), bob, kind).unproven().push(fake, seq)).await;
    }
    // A post of bob's in another topic, for everybody, and for a group.
    let post = Letter::new("c11", bob, Kind::Topic).push(fake, 11);
    let moved = |seq: u64, change: &dyn Fn(&mut Value)| {
        let mut push = post.clone();
        (push["seq"], push["messageId"], push["client_message_id"]) =
            (json!(seq), json!(format!("m-{seq}")), json!("c11"));
        push["senderMemberId"] = json!("bob-id");
        change(&mut push);
        push
    };
    talk.say(moved(11, &|push| push["topicId"] = json!("t-other"))).await;
    // Under another id.
    talk.say(moved(12, &|push| push["client_message_id"] = json!("c12"))).await;
    // From another connection of bob's than the one it was sent over.
    let mut other_sender = Letter::new("c13", bob, Kind::All).push(fake, 13);
    other_sender["senderPubkey"] = json!(made_up.public().hex());
    talk.say(other_sender).await;
    // Announced as a file.
    let mut as_file = Letter::new("c14", bob, Kind::All).push(fake, 14);
    as_file["kind"] = json!("file");
    talk.say(as_file).await;
    // And at last one that is bob's.
    talk.say(Letter::new("c15", bob, Kind::All).push(fake, 15)).await;

    let expected = vec![
        refused("unsigned"),
        refused("unsigned"),
        refused("unproven_key"),
        refused("bad_signature"),
        refused("unsigned"),
        refused("bad_signature"),
        refused("bad_signature"),
        refused("unsigned"),
        refused("unsigned"),
        refused("unsigned"),
        refused("mismatch"),
        refused("mismatch"),
        refused("bad_signature"),
        refused("bad_signature"),
        read("text of c15", true),
    ];
    let shown = world.shown(15).await;
    assert_eq!(shown.len(), expected.len());
    for (number, (shown, expected)) in shown.iter().zip(&expected).enumerate() {
        assert_eq!(shown, expected, "message c{}", number + 1);
    }
    let told = soon("an event", events.next()).await.unwrap();
    let told: Value = serde_json::from_str(&told.data).unwrap();
    assert_eq!((&told["client_message_id"], &told["verified"]), (&json!("c15"), &json!(true)), "nothing else was told");
}

#[tokio::test]
async fn older_members_are_heard_and_marked() {
    let world = World::new().await;
    let (fake, bob) = (&world.fake, &world.fake.bob);
    let mut talk = fake.accept_with(0, world.members(&member("bob-id", "bob", bob))).await;
    soon("connecting", world.mesh.connected()).await;
    talk.say(Letter::new("c1", bob, Kind::All).unproven().push(fake, 1)).await;
    let session = Letter { sender: SecretKey::generate(), ..Letter::new("c2", bob, Kind::Dm) };
    talk.say(session.unproven().push(fake, 2)).await;
    // The box proves that one, and its id is inside.
    talk.say(Letter::new("c3", bob, Kind::Dm).unproven().push(fake, 3)).await;
    // From now on it proves what it writes.
    talk.say(Letter::new("c4", bob, Kind::All).push(fake, 4)).await;
    talk.say(Letter::new("c5", bob, Kind::All).unproven().push(fake, 5)).await;
    let shown = world.shown(5).await;
    let expected = [
        read("text of c1", false),
        read("text of c2", false),
        read("text of c3", true),
        read("text of c4", true),
        refused("unsigned"),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn who_has_signed_once_must_sign_for_ever() {
    let mut world = World::new().await;
    let talk = world.connect().await;
    drop(talk);
    // The broker forgets the statement, in the next connection and after a restart of the daemon.
    let bob = world.fake.bob.clone();
    for round in 1..=2_u64 {
        let mut talk = world.fake.accept_with(100, world.members(&member("bob-id", "bob", &bob))).await;
        let id = format!("c{round}");
        talk.say(Letter::new(&id, &bob, Kind::All).unproven().push(&world.fake, round)).await;
        let shown = world.shown(round as usize).await;
        assert_eq!(shown[round as usize - 1], refused("unsigned"), "round {round}");
        world.restart(talk).await;
    }
}

#[tokio::test]
async fn what_was_sent_before_its_author_signed_is_not_lost() {
    let world = World::new().await;
    let (fake, bob) = (&world.fake, &world.fake.bob);
    // Bob's program was replaced by a newer one while alice was away: three entries wait for her.
    let mut talk = fake.accept_with(3, world.members(&stated("bob-id", "bob", bob))).await;
    for seq in 1..=3 {
        talk.say(Letter::new(&format!("c{seq}"), bob, Kind::All).unproven().push(fake, seq)).await;
    }
    talk.say(Letter::new("c4", bob, Kind::All).unproven().push(fake, 4)).await;
    // A number that is long over, and one that is none.
    talk.say(Letter::new("c5", bob, Kind::All).unproven().push(fake, 2)).await;
    talk.say(Letter::new("c6", bob, Kind::All).unproven().push(fake, 0)).await;
    let shown = world.shown(6).await;
    let old: Vec<_> = (1..=3).map(|seq| read(&format!("text of c{seq}"), false)).collect();
    assert_eq!(shown[..3], old);
    assert_eq!(shown[3..], [refused("unsigned"), refused("unsigned"), refused("unsigned")]);
}

/// What alice sends to bob, as the broker gets it.
async fn sealed_for(world: &World, talk: &mut Talk, key: &SecretKey) -> bool {
    let request = SendRequest { to: "bob".into(), message: "secret".into(), ..SendRequest::default() };
    world.mesh.send(request, &Caller::Member).await.unwrap();
    let send = talk.hear_type("send").await;
    talk.take(&send).await;
    let text = |name: &str| send[name].as_str().unwrap().to_owned();
    let pair = PairKey::new(key, &world.fake.alice.public()).unwrap();
    pair.open_parts(&text("nonce"), &text("ciphertext")).is_ok()
}

/// Bob's key, as alice's daemon has it.
fn key_of_bob(world: &World) -> String {
    let members = world.mesh.safety_number("bob").unwrap();
    members["peer"]["pubkey"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn another_key_counts_only_if_its_member_has_signed_it() {
    let world = World::new().await;
    let talk = world.connect().await;
    let number = world.mesh.safety_number("bob").unwrap()["safetyNumber"].clone();
    drop(talk);
    let (fake, old, thief) = (&world.fake, world.fake.bob.clone(), SecretKey::generate());
    let mut talk = fake.accept_with(100, world.members(&stated("bob-id", "bob", &thief))).await;
    talk.say(Letter::new("c1", &thief, Kind::All).push(fake, 1)).await;
    talk.say(Letter::new("c2", &thief, Kind::Dm).push(fake, 2)).await;
    // A rotation that only the new key signed.
    let mut forged = succeed("mesh", "bob-id", &old, &thief, 7);
    forged.signature.clone_from(&forged.proof);
    let stolen = Letter { successions: vec![forged], ..Letter::new("c3", &thief, Kind::All) };
    talk.say(stolen.push(fake, 3)).await;
    talk.say(Letter::new("c4", &old, Kind::All).push(fake, 4)).await;
    let unproven = refused("unproven_key");
    let shown = world.shown(4).await;
    assert_eq!(shown, [unproven.clone(), unproven.clone(), unproven, read("text of c4", true)]);
    assert!(sealed_for(&world, &mut talk, &old).await, "messages go to the key that is known");
    let safety = world.mesh.safety_number("bob").unwrap();
    assert_eq!(safety["safetyNumber"], number);
    assert_eq!(safety["peer"]["claimedPubkey"], thief.public().hex());
    // A person accepts it.
    let trusted = world.mesh.trust("bob").await.unwrap();
    assert_eq!(trusted["peer"]["pubkey"], thief.public().hex());
    assert_ne!(trusted["safetyNumber"], number);
    talk.say(Letter::new("c5", &thief, Kind::All).push(fake, 5)).await;
    assert_eq!(world.shown(5).await[4], read("text of c5", true));
    assert!(sealed_for(&world, &mut talk, &thief).await);
}

#[tokio::test]
async fn a_rotation_is_followed_wherever_it_is_heard_of() {
    for way in ["roster", "body"] {
        let world = World::new().await;
        let talk = world.connect().await;
        drop(talk);
        let (fake, old) = (&world.fake, world.fake.bob.clone());
        let (middle, new) = (SecretKey::generate(), SecretKey::generate());
        let steps = vec![succeed("mesh", "bob-id", &old, &middle, 7), succeed("mesh", "bob-id", &middle, &new, 8)];
        let mut bob = member("bob-id", "bob", &new);
        let mut first = Letter::new("c1", &new, Kind::All);
        match way {
            "roster" => bob["lineage"] = serde_json::to_value(&steps).unwrap(),
            _ => first.successions = steps,
        }
        let mut talk = fake.accept_with(100, world.members(&bob)).await;
        talk.say(first.push(fake, 1)).await;
        // What the earlier key signed came before, and counts.
        talk.say(Letter::new("c2", &old, Kind::All).push(fake, 2)).await;
        talk.say(Letter::new("c3", &new, Kind::Dm).push(fake, 3)).await;
        let shown = world.shown(3).await;
        let expected: Vec<_> = (1..=3).map(|seq| read(&format!("text of c{seq}"), true)).collect();
        assert_eq!(shown, expected, "{way}");
        talk.say(json!({"type": "roster", "rev": 2, "members": world.members(&member("bob-id", "bob", &new))})).await;
        until("the new key", async || {
            let key = key_of_bob(&world);
            if key == new.public().hex() { Ok(()) } else { Err(key) }
        })
        .await;
        assert!(sealed_for(&world, &mut talk, &new).await, "{way}");
    }
}

#[tokio::test]
async fn names_are_their_members_to_give() {
    let world = World::new().await;
    let (fake, bob, carol) = (&world.fake, &world.fake.bob, &world.carol);
    let both = |bob: Value, carol: Value| json!([member("alice-id", "alice", &fake.alice), bob, carol]);
    let talk = fake.accept_with(0, both(stated("bob-id", "bob", bob), stated("carol-id", "carol", carol))).await;
    soon("connecting", world.mesh.connected()).await;
    drop(talk);
    // Swapped, with the statements and without them; and somebody new is called bob.
    let eve = SecretKey::generate();
    for (seq, strip) in [(1, false), (2, true)] {
        let swap = |mut member: Value, name: &str| {
            member["name"] = json!(name);
            if strip {
                member["statement"] = Value::Null;
            }
            member
        };
        let mut members =
            both(swap(stated("bob-id", "bob", bob), "carol"), swap(stated("carol-id", "carol", carol), "bob"));
        members.as_array_mut().unwrap().push(stated("eve-id", "bob", &eve));
        let mut talk = fake.accept_with(100, members).await;
        talk.say(Letter::new(&format!("c{seq}"), bob, Kind::All).push(fake, seq)).await;
        let by_eve = Letter { author_id: "eve-id", author: "bob", ..Letter::new(&format!("e{seq}"), &eve, Kind::All) };
        talk.say(by_eve.push(fake, seq + 10)).await;
        world.shown(seq as usize * 2).await;
        drop(talk);
    }
    let eves = format!("bob-{}", &eve.public().hex()[..8]);
    let names: Vec<String> = world.inbox().await.into_iter().map(|item| item.sender_name).collect();
    assert_eq!(names, ["bob", &eves, "bob", &eves]);
    assert_eq!(key_of_bob(&world), bob.public().hex());
}

#[tokio::test]
async fn what_waited_for_its_key_is_judged_when_it_opens() {
    let world = World::new().await;
    let mut talk = world.connect().await;
    let (fake, bob) = (&world.fake, &world.fake.bob);
    let key = TopicKey::generate();
    let reseal = |mut push: Value| {
        let text = |name: &str| push[name].as_str().unwrap().to_owned();
        let plain = general().open_parts(&text("nonce"), &text("ciphertext")).unwrap();
        let sealed = key.seal(&plain);
        (push["nonce"], push["ciphertext"], push["keyEpoch"]) =
            (json!(sealed.nonce), json!(sealed.ciphertext), json!(1));
        push
    };
    talk.say(reseal(Letter::new("c1", bob, Kind::Group).push(fake, 1))).await;
    talk.say(reseal(Letter::new("c2", bob, Kind::Group).unproven().push(fake, 2))).await;
    let mut moved = Letter::new("c3", bob, Kind::Group).push(fake, 3);
    moved["group"] = json!("others");
    talk.say(reseal(moved)).await;
    let by_carol = Letter { author_id: "carol-id", author: "carol", ..Letter::new("c4", &world.carol, Kind::All) };
    let mut relabelled = by_carol.push(fake, 4);
    relabelled["senderMemberId"] = json!("bob-id");
    relabelled["senderMemberPubkey"] = json!(bob.public().hex());
    talk.say(reseal(relabelled)).await;
    // It is asked for, and comes from bob.
    loop {
        let frame = talk.hear().await;
        let id = frame["_reqId"].clone();
        match frame["type"].as_str() {
            Some("topic_list") => {
                let topics = json!([{"id": "t-general", "name": "general", "epoch": 1, "visibility": "public"}]);
                talk.say(json!({"type": "topic_list_response", "_reqId": id, "topics": topics})).await;
            }
            Some("topic_key_get") => {
                let (blob, nonce) = key.seal_for(bob, &fake.alice.public()).unwrap();
                let seal = json!({"type": "topic_key", "_reqId": id, "topicId": "t-general", "epoch": 1,
                    "memberId": "alice-id", "blob": blob, "nonce": nonce});
                talk.say(seal).await;
                break;
            }
            _ if !id.is_null() => talk.say(json!({"type": "ok", "_reqId": id})).await,
            _ => {}
        }
    }
    let shown = world.shown(4).await;
    let expected = [read("text of c1", true), refused("unsigned"), refused("mismatch"), refused("bad_signature")];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_member_signs_the_name_it_was_given_and_no_other() {
    let mut fake = Fake::new().await;
    fake.features.push("member_statements");
    let dir = tempfile::tempdir().unwrap();
    let (mesh, _task) = start(&fake, &dir).await;
    let bob = member("bob-id", "bob", &fake.bob);
    // The broker calls alice by another member's name.
    let mut talk = fake.accept_with(0, json!([member("alice-id", "carol", &fake.alice), bob.clone()])).await;
    soon("connecting", mesh.connected()).await;
    let request = SendRequest { to: "bob".into(), message: "hello".into(), ..SendRequest::default() };
    mesh.send(request, &Caller::Member).await.unwrap();
    let send = loop {
        let frame = talk.hear().await;
        assert_ne!(frame["type"], "member_state", "she has not agreed to that name");
        if frame["type"] == "send" {
            break frame;
        }
        if let Some(id) = frame.get("_reqId") {
            talk.say(json!({"type": "ok", "_reqId": id})).await;
        }
    };
    let text = |name: &str| send[name].as_str().unwrap().to_owned();
    let pair = PairKey::new(&fake.bob, &fake.alice.public()).unwrap();
    let body = Body::from_bytes(3, &pair.open_parts(&text("nonce"), &text("ciphertext")).unwrap()).unwrap();
    assert_eq!(body.author.as_deref(), Some("alice"));
    drop(talk);
    // By her own name she is called again, and says so.
    let mut talk = fake.accept_with(0, json!([member("alice-id", "alice", &fake.alice), bob])).await;
    let said = loop {
        let frame = talk.hear().await;
        if frame["type"] == "member_state" {
            break frame;
        }
        if let Some(id) = frame.get("_reqId") {
            talk.say(json!({"type": "ok", "_reqId": id})).await;
        }
    };
    let statement: Statement = serde_json::from_value(said.clone()).unwrap();
    assert_eq!(statement.name, "alice");
    assert!(statement.verify("mesh", "alice-id", &fake.alice.public()), "{said}");
}
