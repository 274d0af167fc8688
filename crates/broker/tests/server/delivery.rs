//! How entries get out of the log: offline, in order, within the window, urgent ones first.

use hostel_broker::{Limits, Settings};
use hostel_wire::frames::Group;
use hostel_wire::frames::client::{EntryMark, Resume};
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};

use super::Lab;
use super::peer::{dm, message};

fn quick() -> Settings {
    Settings { limits: Limits { rate_per_s: 0, ..Limits::default() }, ..Settings::default() }
}

#[tokio::test]
async fn what_came_while_one_was_away_is_there_also_after_a_restart() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    for n in 1..=20 {
        a.send(dm(&bob, &format!("m{n}"))).await;
    }
    let epoch = a.epoch();
    drop(a);
    let lab = lab.restart(quick()).await;
    let mut b = bob.link(&lab.host).await;
    assert_eq!(b.epoch(), epoch);
    for n in 1..=20 {
        assert_eq!(b.push().await["client_message_id"], format!("m{n}"));
    }
    let mark = b.news("caught_up").await;
    assert_eq!((&mark["seq"], &mark["eventData"]["seq"]), (&json!(20), &json!(20)));
    drop(b);
    // Its own place decides, whatever was sent before.
    let mut b = bob.link_from(&lab.host, &epoch, 17).await;
    assert_eq!(b.push().await["client_message_id"], "m18");
    // Ids outlive the restart.
    let mut a = lab.alice().await;
    let again = a.send(dm(&bob, "m3")).await;
    assert_eq!((&again["duplicate"], &again["seq"]), (&json!(true), &json!(3)));
}

#[tokio::test]
async fn no_more_is_sent_than_the_window_holds() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    a.say_many((1..=300).map(|n| dm(&bob, &format!("m{n}")))).await;
    for _ in 1..=300 {
        a.hear(|frame| frame["type"] == "ack").await;
    }
    let mut b = bob.link(&lab.host).await;
    let mut last = Value::Null;
    for n in 1..=256 {
        last = b.push().await;
        assert_eq!(last["seq"], n);
    }
    b.no_push().await;
    let (_, metrics) = lab.host.http("GET", "/metrics", &[], b"").await;
    assert!(metrics.as_str().unwrap().contains("broker_queue_depth 256"));
    b.acknowledge(&last["seq"]).await;
    for n in 257..=300 {
        assert_eq!(b.push().await["seq"], n);
    }
    // Acks above the mark count as well.
    b.say_text(&json!({"type": "client_ack", "seq": 256, "above": (257..=300).collect::<Vec<_>>()}).to_string()).await;
    b.ask(json!({"type": "topic_list"})).await;
    let (_, metrics) = lab.host.http("GET", "/metrics", &[], b"").await;
    assert!(metrics.as_str().unwrap().contains("broker_queue_depth 0"));
}

#[tokio::test]
async fn the_window_counts_bytes_too() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    for n in 1..=12 {
        let mut sent = dm(&bob, &format!("m{n}"));
        sent["ciphertext"] = "x".repeat(120_000).into();
        a.send(sent).await;
    }
    let mut b = bob.link(&lab.host).await;
    for n in 1..=9 {
        assert_eq!(b.push().await["seq"], n);
    }
    b.no_push().await;
    b.acknowledge(&json!(9)).await;
    assert_eq!(b.push().await["seq"], 10);
}

#[tokio::test]
async fn urgent_ones_come_first_in_a_backlog_and_only_once() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let total = 400;
    let urgent = |n: u64| n.is_multiple_of(100);
    a.say_many((1..=total).map(|n| {
        let mut sent = dm(&bob, &format!("m{n}"));
        if urgent(n) {
            sent["priority"] = "now".into();
        }
        sent
    }))
    .await;
    for _ in 1..=total {
        a.hear(|frame| frame["type"] == "ack").await;
    }
    let mut b = bob.link(&lab.host).await;
    let mut ahead = Vec::new();
    for n in (1..=total).filter(|n| urgent(*n)) {
        let push = b.push().await;
        assert_eq!((&push["seq"], &push["ahead"]), (&json!(n), &json!(true)));
        ahead.push(n);
    }
    let mut next = 0;
    for n in (1..=total).filter(|n| !urgent(*n)) {
        let push = b.push().await;
        assert_eq!((&push["seq"], &push["ahead"]), (&json!(n), &Value::Null));
        next += 1;
        if next % 50 == 0 {
            b.say_text(&json!({"type": "client_ack", "seq": n, "above": ahead}).to_string()).await;
        }
    }
    // The mark comes after all of it, and passes the urgent one at the end.
    assert_eq!(b.news("caught_up").await["seq"], total);
    b.no_push().await;
}

#[tokio::test]
async fn a_quiet_reader_is_told_how_far_the_log_is() {
    let lab = Lab::with(quick()).await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let mut c = carol.link(&lab.host).await;
    assert_eq!(c.news("caught_up").await["seq"], 0);
    let mut a = lab.alice().await;
    for part in 0..11 {
        a.say_many((0..100).map(|n| dm(&bob, &format!("m{part}-{n}")))).await;
        for _ in 0..100 {
            a.hear(|frame| frame["type"] == "ack").await;
        }
    }
    let mark = c.news("caught_up").await;
    let told = mark["seq"].as_u64().unwrap();
    assert!((1000..=1100).contains(&told), "{told}");
    c.no_push().await;
}

#[tokio::test]
async fn everybody_is_everybody_but_the_sender_and_who_came_later() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    assert_eq!(a.send(message(&json!({"all": true}), "all", "m1")).await["queued"], true);
    assert_eq!(b.push().await["kind"], "all");
    let carol = lab.join("carol").await;
    let mut c = carol.link(&lab.host).await;
    a.send(message(&json!({"all": true}), "all", "m2")).await;
    assert_eq!(c.push().await["client_message_id"], "m2");
    c.no_push().await;
    a.no_push().await;
}

#[tokio::test]
async fn groups_are_as_they_were_when_it_was_sent() {
    let lab = Lab::with(quick()).await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut a, mut b, mut c) = (lab.alice().await, bob.link(&lab.host).await, carol.link(&lab.host).await);
    b.ask(json!({"type": "join_group", "name": "ops"})).await;
    a.send(message(&json!({"group": "ops"}), "group", "m1")).await;
    c.ask(json!({"type": "join_group", "name": "ops"})).await;
    b.ask(json!({"type": "leave_group", "name": "ops"})).await;
    a.send(message(&json!({"group": "ops"}), "group", "m2")).await;
    let push = b.push().await;
    assert_eq!((&push["client_message_id"], &push["group"]), (&json!("m1"), &json!("ops")));
    b.no_push().await;
    assert_eq!(c.push().await["client_message_id"], "m2");
    c.no_push().await;
}

#[tokio::test]
async fn who_is_barred_is_not_heard() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let none = b.ask(json!({"type": "grant_list"})).await;
    assert_eq!((&none["type"], &none["grants"]), (&json!("grants_list"), &json!([])));
    let set = b.ask(json!({"type": "grant_set", "target": "alice", "capabilities": ["dm"]})).await;
    assert_eq!((&set["type"], &set["name"]), (&json!("ok"), &json!("alice")));
    let listed = b.ask(json!({"type": "grant_list"})).await;
    assert_eq!((&listed["grants"][0]["name"], &listed["grants"][0]["capabilities"]), (&json!("alice"), &json!(["dm"])));
    // Each knows of their own alone.
    assert_eq!(a.ask(json!({"type": "grant_list"})).await["grants"], json!([]));
    let own = b.ask(json!({"type": "grant_set", "target": "bob", "capabilities": []})).await;
    assert_eq!(own["code"], "invalid_argument");
    a.send(message(&json!({"all": true}), "all", "m1")).await;
    a.send(dm(&bob, "m2")).await;
    assert_eq!(b.push().await["client_message_id"], "m2");
    b.ask(json!({"type": "grant_set", "target": lab.alice.key.public().hex(), "capabilities": []})).await;
    let refused = a.send(dm(&bob, "m3")).await;
    assert_eq!((&refused["code"], &refused["permanent"]), (&json!("blocked"), &json!(true)));
    b.ask(json!({"type": "grant_set", "target": "alice"})).await;
    assert_eq!(b.ask(json!({"type": "grant_list"})).await["grants"], json!([]));
    assert_eq!(a.send(dm(&bob, "m3")).await["queued"], true);
    assert_eq!(b.push().await["client_message_id"], "m3");
    let (_, metrics) = lab.host.http("GET", "/metrics", &[], b"").await;
    assert!(metrics.as_str().unwrap().contains("broker_messages_dropped_by_grant_total{cap=\"broadcast\"} 1"));
}

#[tokio::test]
async fn a_session_gets_what_is_its_own_and_is_not_disturbed() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let key = SecretKey::generate();
    let mut a = lab.alice().await;
    let mut session = bob.try_session(&lab.host, &key, |_| {}).await.ok().unwrap();
    let mut b = bob.link(&lab.host).await;
    // To the member: its daemon's alone. To the session: both, with its key.
    a.send(dm(&bob, "m1")).await;
    let to_session = |id: &str| {
        let mut sent = dm(&bob, id);
        sent["to"] = Value::Null;
        sent["targetSpec"] = key.public().hex().into();
        sent
    };
    a.send(to_session("m2")).await;
    assert_eq!(b.push().await["client_message_id"], "m1");
    assert_eq!(b.push().await["recipientPubkey"], key.public().hex());
    assert_eq!(session.push().await["client_message_id"], "m2");
    // While it works only what is urgent comes.
    session.ask(json!({"type": "set_status", "status": "working"})).await;
    a.send(to_session("m3")).await;
    let mut urgent = to_session("m4");
    urgent["priority"] = "now".into();
    a.send(urgent).await;
    let push = session.push().await;
    assert_eq!((&push["client_message_id"], &push["ahead"]), (&json!("m4"), &json!(true)));
    session.no_push().await;
    session.ask(json!({"type": "set_status", "status": "idle"})).await;
    assert_eq!(session.push().await["client_message_id"], "m3");
    session.no_push().await;
    // Its daemon is not held back by its own status.
    b.ask(json!({"type": "presence_set", "status": "dnd"})).await;
    a.send(dm(&bob, "m5")).await;
    b.hear(|frame| frame["client_message_id"] == "m5").await;
    // A session's key leads to its member when it has gone, too.
    drop(session);
    a.send(to_session("m6")).await;
    b.hear(|frame| frame["client_message_id"] == "m6").await;
}

#[tokio::test]
async fn history_is_what_one_may_see() {
    let lab = Lab::with(quick()).await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    for n in 1..=5 {
        a.send(dm(&bob, &format!("b{n}"))).await;
        a.send(dm(&carol, &format!("c{n}"))).await;
    }
    let all = b.ask(json!({"type": "history", "filter": {"dm": true}, "limit": 3})).await;
    let ids: Vec<_> = all["messages"].as_array().unwrap().iter().map(|one| one["client_message_id"].clone()).collect();
    assert_eq!((ids, &all["more"]), (vec![json!("b5"), json!("b4"), json!("b3")], &json!(true)));
    let rest = b.ask(json!({"type": "history", "beforeSeq": all["messages"][2]["seq"], "limit": 200})).await;
    assert_eq!((rest["messages"].as_array().unwrap().len(), &rest["more"]), (2, &json!(false)));
    let newer = b.ask(json!({"type": "history", "afterSeq": 6})).await;
    assert_eq!(newer["messages"].as_array().unwrap().len(), 2);
    let carols = a.ask(json!({"type": "history", "limit": 1})).await["messages"][0]["messageId"].clone();
    assert_eq!(b.ask(json!({"type": "message_status", "messageId": carols})).await["code"], "not_found");
    let status = a.ask(json!({"type": "message_status", "messageId": carols})).await;
    assert_eq!((&status["seq"], &status["delivered"]), (&json!(10), &json!(false)));
    let mut c = carol.link(&lab.host).await;
    for _ in 0..5 {
        c.push().await;
    }
    c.acknowledge(&json!(10)).await;
    c.ask(json!({"type": "topic_list"})).await;
    assert_eq!(a.ask(json!({"type": "message_status", "messageId": carols})).await["status"], "delivered");
}

#[tokio::test]
async fn a_reader_that_wants_no_entries_gets_none() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut session = bob.session(&lab.host).await;
    let mut a = lab.alice().await;
    a.send(message(&json!({"all": true}), "all", "m1")).await;
    session.no_push().await;
    // It can send all the same, and its member hears nothing of that.
    let mut b = bob.link(&lab.host).await;
    assert_eq!(session.send(dm(&lab.alice, "m2")).await["queued"], true);
    let push = a.push().await;
    assert_eq!(push["senderMemberPubkey"], bob.key.public().hex());
    assert_ne!(push["senderPubkey"], push["senderMemberPubkey"]);
    assert_eq!(b.push().await["client_message_id"], "m1");
    b.no_push().await;
}

#[tokio::test]
async fn urgent_ones_come_first_in_a_short_backlog_too() {
    let lab = Lab::with(quick()).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    for (n, priority) in ["now", "next", "now", "low", "now", "next"].into_iter().enumerate() {
        let mut sent = dm(&bob, &format!("m{}", n + 1));
        sent["priority"] = priority.into();
        a.send(sent).await;
    }
    let mut b = bob.link(&lab.host).await;
    let mut got = Vec::new();
    for _ in 0..6 {
        let push = b.push().await;
        got.push((push["seq"].as_u64().unwrap(), push["ahead"] == true));
    }
    assert_eq!(got, [(1, true), (3, true), (5, true), (2, false), (4, false), (6, false)]);
    assert_eq!(b.news("caught_up").await["seq"], 6);
    // One behind the other needs no overtaking.
    let mut live = dm(&bob, "m7");
    live["priority"] = "now".into();
    a.send(live).await;
    assert!(b.push().await["ahead"].is_null());
}

#[tokio::test]
async fn a_reader_that_is_ahead_of_the_log_gives_it_another_epoch() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let epoch = a.epoch();
    assert_eq!(a.send(dm(&bob, "m1")).await["queued"], true);
    // Bob has seen more than there is: somebody has put an earlier copy of the log in its place.
    let mut b = bob.link_from(&lab.host, &epoch, 99).await;
    assert_eq!((&b.welcome["resume"], b.epoch() == epoch), (&json!("reset"), false));
    assert_eq!(b.push().await["client_message_id"], "m1");
    assert_eq!(a.ended().await, (1001, "log_set_back".to_owned()), "everybody comes again");
    let mut a = lab.alice.link_from(&lab.host, &epoch, 1).await;
    assert_eq!((&a.welcome["resume"], a.epoch()), (&json!("reset"), b.epoch()));
    assert_eq!(a.send(dm(&bob, "m1")).await["duplicate"], true, "ids are known all the same");
    // Nobody can do that again and again.
    let mut again = bob.link_from(&lab.host, &b.epoch(), 99).await;
    assert_eq!((&again.welcome["resume"], again.epoch()), (&json!("reset"), a.epoch()));
    assert_eq!(again.push().await["client_message_id"], "m1");
    assert_eq!(a.send(dm(&bob, "m2")).await["queued"], true);
    // It is on disk.
    let epoch = a.epoch();
    drop((a, b, again));
    let lab = lab.restart(Settings::default()).await;
    assert_eq!(lab.alice().await.epoch(), epoch);
    // Whoever was told that more than there is was taken says the same.
    let resume = Resume { epoch: epoch.clone(), seq: 1, confirmed: Some(3), ..Resume::default() };
    let a = lab.alice.link_with(&lab.host, |hello| hello.resume = Some(resume)).await;
    assert_eq!((&a.welcome["resume"], a.epoch() == epoch), (&json!("reset"), false));
}

#[tokio::test]
async fn what_was_sent_before_a_ban_is_there_after_it() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let b = bob.link(&lab.host).await;
    let epoch = b.epoch();
    b.bye().await;
    let mut a = lab.alice().await;
    assert_eq!(a.send(dm(&bob, "before")).await["queued"], true);
    assert_eq!(a.ask(json!({"type": "revoke", "target": "bob"})).await["type"], "ok");
    assert_eq!(a.send(dm(&bob, "meanwhile")).await["code"], "recipient_revoked");
    assert_eq!(a.ask(json!({"type": "unban", "target": "bob"})).await["type"], "ok");
    assert_eq!(a.send(dm(&bob, "after")).await["queued"], true);
    let mut b = bob.link_from(&lab.host, &epoch, 0).await;
    assert_eq!(b.push().await["client_message_id"], "before");
    assert_eq!(b.push().await["client_message_id"], "after");
}

#[tokio::test]
async fn a_long_roster_says_when_it_is_whole() {
    let lab = Lab::new().await;
    let registry = lab.host.broker.registry();
    let groups = |name: &str| {
        let group = |number: usize| Group { name: format!("{name}-{number:02}-{}", "x".repeat(40)), role: None };
        (0..64).map(group).collect::<Vec<_>>()
    };
    let mut members = vec![lab.alice.member.clone()];
    for number in 0..30 {
        let peer = lab.join(&format!("m{number}")).await;
        registry.set_groups(&lab.mesh, &peer.member, groups(&format!("g{number}"))).await.unwrap();
        members.push(peer.member);
    }
    let mut a = lab.alice().await;
    let mut part = a.hear(|frame| frame["type"] == "roster").await;
    let (mut heard, mut parts) = (Vec::new(), 1);
    loop {
        assert!(part.to_string().len() < hostel_wire::frames::FRAME_LIMIT);
        heard.extend(part["members"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        if part["more"] != true {
            break;
        }
        part = a.hear(|frame| frame["type"] == "roster_delta").await;
        parts += 1;
    }
    members.sort();
    assert_eq!((heard, parts > 1), (members, true));
}

#[tokio::test]
async fn a_reader_that_knows_another_entry_gives_the_log_another_epoch() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let epoch = a.epoch();
    let ids = [a.send(dm(&bob, "m1")).await, a.send(dm(&bob, "m2")).await].map(|ack| ack["messageId"].clone());
    let resume = |entries: &[(u64, &str)]| Resume {
        epoch: epoch.clone(),
        seq: 2,
        entries: entries.iter().map(|(seq, id)| EntryMark { seq: *seq, id: (*id).to_owned() }).collect(),
        ..Resume::default()
    };
    let ids = ids.map(|id| id.as_str().unwrap().to_owned());
    // What the broker has there, what it has not yet, and nothing at all, as older daemons.
    for entries in [&[(1, ids[0].as_str()), (2, &ids[1])][..], &[]] {
        let b = bob.link_with(&lab.host, |hello| hello.resume = Some(resume(entries))).await;
        assert_eq!((&b.welcome["resume"], b.epoch() == epoch), (&json!("ok"), true), "{entries:?}");
    }
    // The log was put back from a copy, and others have made it as long again.
    let mut b = bob.link_with(&lab.host, |hello| hello.resume = Some(resume(&[(1, &ids[0]), (2, &ids[0])]))).await;
    assert_eq!((&b.welcome["resume"], b.epoch() == epoch), (&json!("reset"), false));
    assert_eq!(b.push().await["client_message_id"], "m1");
    assert_eq!(a.ended().await, (1001, "log_set_back".to_owned()), "everybody comes again");
}
