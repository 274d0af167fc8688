//! The inbox: stored once, listed newest first, found by words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use hostel_mesh::inbox::{
    Arrival, Content, From, InboxError, InboxQuery, InboxRow, MissingKey, Page, Plain, Scope, Stored, Unreadable,
};
use hostel_wire::frames::{Kind, Priority};
use serde_json::json;
use store_support::{HOUR, Hands, START, all, arrival, bodies, cursor, inbox, post, sealed, store};

fn to_session(session: &str, arrival: Arrival) -> Arrival {
    Arrival { recipient_session: Some(session.to_owned()), ..arrival }
}

#[tokio::test]
async fn a_message_is_stored_once() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let first = inbox.store(vec![arrival("bob", "x", 1, "one")], Vec::new(), Some(cursor(1, &[]))).await.unwrap();
    assert!(matches!(first.as_slice(), [Stored::New(_)]), "{first:?}");
    // The same again, under another place, with another text, and within one batch; another sender's id is another.
    let again = vec![
        arrival("bob", "x", 2, "one"),
        arrival("bob", "x", 3, "forged"),
        arrival("carol", "x", 4, "two"),
        arrival("carol", "x", 5, "two"),
    ];
    let stored = inbox.store(again, Vec::new(), Some(cursor(3, &[5, 7]))).await.unwrap();
    let new: Vec<bool> = stored.iter().map(|stored| matches!(stored, Stored::New(_))).collect();
    assert_eq!(new, [false, false, true, false]);
    assert_eq!(bodies(&all(&inbox).await), ["two", "one"]);
    assert_eq!((inbox.counts().rows, inbox.counts().duplicates), (2, 3));
    assert_eq!(inbox.cursor().await.unwrap(), cursor(3, &[5, 7]));
    drop(inbox);
    let inbox = store_support::inbox(scratch.path(), &hands).await;
    assert_eq!(inbox.cursor().await.unwrap(), cursor(3, &[5, 7]));
    assert!(matches!(store(&inbox, vec![arrival("bob", "x", 9, "one")]).await.as_slice(), [Stored::Duplicate]));
    assert_eq!(inbox.counts().rows, 2);
}

#[tokio::test]
async fn a_row_is_shown_as_it_came() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let plain = Plain {
        body: "ünïcode \"quoted\"\nand lines".to_owned(),
        meta: Some(json!({"a": [1, {"b": null}]})),
        reply_to_id: Some("r".to_owned()),
        mentions: vec!["bob".to_owned()],
        mention: true,
        session: Some("work".to_owned()),
        file: Some(json!({"id": "f"})),
        sender: None,
        events: Vec::new(),
        ..Plain::default()
    };
    let came = Arrival {
        priority: Priority::Now,
        sender_member_pubkey: Some("member-key".to_owned()),
        content: Content::Open(plain),
        ..arrival("bob", "x", 42, "")
    };
    let stored = store(&inbox, vec![came]).await;
    let [Stored::New(made)] = stored.as_slice() else { panic!("{stored:?}") };
    let listed = all(&inbox).await;
    assert_eq!(listed, [InboxRow::clone(made)], "what was answered is what is stored");
    let row = &listed[0];
    assert_eq!((row.broker_seq, row.received_at, row.created_at, row.seen_at), (42, START, Some(START), None));
    assert_eq!((row.sender_name.as_str(), row.sender_member_pubkey.as_str()), ("BOB", "member-key"));
    assert_eq!((row.recipient_kind(), row.recipient_session.as_deref()), ("session", Some("work")));
    let data: serde_json::Value = serde_json::from_str(&row.event_data(START)).unwrap();
    assert_eq!(data["body"], json!(row.body));
    assert_eq!(
        (&data["meta"], &data["mention"], &data["priority"]),
        (&json!({"a": [1, {"b": null}]}), &json!(true), &json!("now"))
    );
    assert!(!row.event_data(START).contains('\n'), "one line");
}

#[tokio::test]
async fn pages_are_newest_first_and_complete() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    for number in 0..25_u64 {
        store(&inbox, vec![arrival("bob", &format!("m{number}"), number, &format!("{number:02}"))]).await;
        if number % 4 == 3 {
            hands.forward(10);
        }
    }
    let (mut seen, mut at) = (Vec::new(), None);
    loop {
        let query = InboxQuery { limit: 7, cursor: at, ..InboxQuery::default() };
        let page = inbox.list(query).await.unwrap();
        assert!(page.items.len() <= 7);
        seen.extend(page.items.into_iter().map(|row| row.body.unwrap()));
        at = page.next;
        if at.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).rev().map(|number| format!("{number:02}")).collect();
    assert_eq!(seen, expected);
    // By bytes: at least one, and the rest is found behind the cursor.
    let query = InboxQuery { max_bytes: 1, ..InboxQuery::default() };
    let page = inbox.list(query).await.unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (1, true));
    for text in ["", "x", "1-", "-", "zz-1"] {
        let query = InboxQuery { cursor: Some(text.to_owned()), ..InboxQuery::default() };
        assert!(matches!(inbox.list(query).await, Err(InboxError::BadCursor)), "{text}");
    }
}

/// Who follows a mailbox goes on after the last message it has, whatever comes meanwhile.
#[tokio::test]
async fn a_mailbox_is_followed_oldest_first() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let (mut seen, mut at) = (Vec::new(), None);
    for number in 0..20_u64 {
        let session = if number % 2 == 0 { "work" } else { "other" };
        let arrival = arrival("bob", &format!("m{number}"), number, &number.to_string());
        store(&inbox, vec![to_session(session, arrival), post("bob", &format!("p{number}"), number, "alerts", "x")])
            .await;
        if number % 6 == 5 {
            hands.forward(10);
        }
        if number % 5 != 4 {
            continue;
        }
        let query = InboxQuery {
            session: Some("work".to_owned()),
            oldest_first: true,
            limit: 2,
            cursor: at.clone(),
            ..InboxQuery::default()
        };
        let page = inbox.list(query).await.unwrap();
        assert_eq!(page.items.len(), page.places.len());
        seen.extend(page.items.into_iter().map(|row| row.body.unwrap()));
        at = page.places.last().cloned().or(at);
    }
    assert_eq!(seen, ["0", "2", "4", "6", "8", "10", "12", "14"]);
    let rest = InboxQuery { session: Some("work".to_owned()), oldest_first: true, cursor: at, ..InboxQuery::default() };
    let page = inbox.list(rest).await.unwrap();
    assert_eq!(page.items.iter().filter_map(|row| row.body.as_deref()).collect::<Vec<_>>(), ["16", "18"]);
    assert_eq!(page.next, None);
}

#[tokio::test]
async fn lists_are_filtered() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    store(&inbox, vec![arrival("bob", "1", 1, "dm of bob")]).await;
    hands.forward(1000);
    store(&inbox, vec![post("carol", "2", 2, "alerts", "alert")]).await;
    hands.forward(1000);
    store(
        &inbox,
        vec![post("bob", "3", 3, "general", "general"), to_session("work", arrival("carol", "4", 4, "for work"))],
    )
    .await;
    let list = async |query: InboxQuery| {
        let items = inbox.list(query).await.unwrap().items;
        items.into_iter().map(|row| row.body.unwrap()).collect::<Vec<_>>()
    };
    let all = InboxQuery::default;
    assert_eq!(list(InboxQuery { since: Some(START + 1000), ..all() }).await, ["for work", "general", "alert"]);
    assert_eq!(list(InboxQuery { since: Some(START + 1001), ..all() }).await, ["for work", "general"]);
    assert_eq!(list(InboxQuery { topic: Some("alerts".to_owned()), ..all() }).await, ["alert"]);
    for from in [From::Pubkey("key-of-bob".to_owned()), From::Member("bob".to_owned()), From::Name("bOb".to_owned())] {
        assert_eq!(list(InboxQuery { from: Some(from), ..all() }).await, ["general", "dm of bob"]);
    }
    // A session sees what is its own and what is everybody's; never the member's or another session's.
    let work = InboxQuery { scope: Scope::Session("work".to_owned()), ..all() };
    assert_eq!(list(work).await, ["for work", "general", "alert"]);
    let other = InboxQuery { scope: Scope::Session("other".to_owned()), ..all() };
    assert_eq!(list(other).await, ["general", "alert"]);
    assert_eq!(list(InboxQuery { limit: 1, ..all() }).await, ["for work"]);
}

#[tokio::test]
async fn what_is_listed_counts_as_seen_if_that_is_wanted() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    store(
        &inbox,
        vec![
            arrival("bob", "1", 1, "one"),
            post("bob", "2", 2, "t", "two"),
            to_session("work", arrival("bob", "3", 3, "three")),
        ],
    )
    .await;
    assert_eq!(inbox.unseen_by_topic().await.unwrap(), [("t".to_owned(), 1)]);
    let quiet = inbox.list(InboxQuery::default()).await.unwrap();
    assert_eq!(quiet.marked_seen, 0);
    let work = || Scope::Session("work".to_owned());
    let page = inbox.list(InboxQuery { mark_seen: true, scope: work(), ..InboxQuery::default() }).await.unwrap();
    assert_eq!((page.items.len(), page.marked_seen), (2, 1), "a session marks only its own");
    let page = inbox.list(InboxQuery { mark_seen: true, limit: 2, ..InboxQuery::default() }).await.unwrap();
    assert_eq!((bodies(&page.items), page.marked_seen), (vec!["three", "two"], 1));
    assert_eq!(page.items[1].seen_at, None, "as it was before");
    let unread = || InboxQuery { unread_only: true, ..InboxQuery::default() };
    assert_eq!(bodies(&inbox.list(unread()).await.unwrap().items), ["one"]);
    let one = quiet.items[2].id.clone();
    assert_eq!(inbox.seen(vec![one.clone(), one, "nonsense".to_owned()], Scope::Member).await.unwrap(), 1);
    assert_eq!(inbox.list(unread()).await.unwrap(), Page::default());
    assert_eq!(inbox.unseen_by_topic().await.unwrap(), []);
    assert_eq!(all(&inbox).await[1].seen_at, Some(hands.now()));
}

#[tokio::test]
async fn what_is_deleted_stays_away() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    for number in 0..4_u64 {
        store(&inbox, vec![arrival("bob", &format!("m{number}"), number, &format!("secret{number}"))]).await;
        hands.forward(1000);
    }
    let rows = all(&inbox).await;
    assert!(!inbox.delete(&rows[0].id, Scope::Session("work".to_owned())).await.unwrap(), "not a session's business");
    assert!(inbox.delete(&rows[0].id, Scope::Member).await.unwrap());
    assert!(!inbox.delete(&rows[0].id, Scope::Member).await.unwrap());
    assert!(!inbox.delete("nonsense", Scope::Member).await.unwrap());
    assert!(matches!(store(&inbox, vec![arrival("bob", "m3", 9, "secret3")]).await.as_slice(), [Stored::Duplicate]));
    assert_eq!(inbox.delete_before(START + 1000, Scope::Member).await.unwrap(), 1);
    assert_eq!(bodies(&all(&inbox).await), ["secret2", "secret1"]);
    assert_eq!(inbox.search("secret3", 10, Scope::Member).await.unwrap().found, []);
    assert_eq!(inbox.search("secret2", 10, Scope::Member).await.unwrap().found.len(), 1);
}

#[tokio::test]
async fn words_are_found_newest_first() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let mut with_meta = arrival("bob", "5", 5, "plain");
    with_meta.content =
        Content::Open(Plain { body: "plain".to_owned(), meta: Some(json!({"host": "gpu7"})), ..Plain::default() });
    store(
        &inbox,
        vec![
            arrival("bob", "1", 1, "the pod ran out of memory (OOM) at noon"),
            arrival("bob", "2", 2, "all is well"),
            post("carol", "3", 3, "alerts", "OOM again, café closed"),
            to_session("work", arrival("carol", "4", 4, "oom for the session")),
            with_meta,
        ],
    )
    .await;
    let find = async |query: &str| {
        let found = inbox.search(query, 10, Scope::Member).await.unwrap().found;
        found.into_iter().map(|found| found.row.client_message_id).collect::<Vec<_>>()
    };
    assert_eq!(find("oom").await, ["4", "3", "1"]);
    assert_eq!(find("OOM AND memory").await, ["1"]);
    assert_eq!(find("mem*").await, ["1"]);
    assert_eq!(find("\"ran out of\"").await, ["1"]);
    assert_eq!(find("topic:alerts").await, ["3"]);
    assert_eq!(find("CAFE").await, ["3"], "without accents");
    assert_eq!(find("gpu7").await, ["5"]);
    assert_eq!(find("nothing").await, [""; 0]);
    // What FTS5 cannot read is taken as words.
    assert_eq!(find("(OOM)").await, ["4", "3", "1"]);
    assert_eq!(find("memory (OOM").await, ["1"]);
    assert_eq!(find("noon\"").await, ["1"]);
    assert_eq!(find("nocolumn:oom").await, [""; 0]);
    assert_eq!(find("***").await, [""; 0]);
    for query in ["", "  ", "\0"] {
        assert!(matches!(inbox.search(query, 10, Scope::Member).await, Err(InboxError::BadQuery(_))));
    }
    let long = "x".repeat(5000);
    assert!(matches!(inbox.search(&long, 10, Scope::Member).await, Err(InboxError::BadQuery(_))));
    let found = inbox.search("memory", 1, Scope::Member).await.unwrap().found;
    assert_eq!(found[0].snippet, "the pod ran out of [memory] (OOM) at noon");
    let mine = inbox.search("oom", 10, Scope::Session("work".to_owned())).await.unwrap().found;
    assert_eq!(mine.len(), 2);
    assert_eq!(inbox.search("oom", 2, Scope::Member).await.unwrap().found.len(), 2);
}

#[tokio::test]
async fn what_waits_for_its_key_is_hidden_until_it_comes() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let waits = |id: &str, seq, epoch| Arrival { content: sealed(epoch), ..post("bob", id, seq, "t", "") };
    let stored = store(&inbox, vec![waits("1", 1, 0), waits("2", 2, 1), waits("3", 3, 1), waits("4", 4, 1)]).await;
    assert!(stored.iter().all(|stored| matches!(stored, Stored::New(_))));
    assert_eq!(all(&inbox).await, []);
    assert_eq!(inbox.unseen_by_topic().await.unwrap(), []);
    assert_eq!(inbox.search("t", 10, Scope::Member).await.unwrap().found, []);
    let missing = |key_epoch, count| MissingKey { topic_id: "t1".to_owned(), key_epoch, count };
    assert_eq!(inbox.missing_keys().await.unwrap(), [missing(0, 1), missing(1, 3)]);
    let waiting = inbox.waiting("t1", 1, 0, 2).await.unwrap();
    assert_eq!(waiting.iter().map(|one| one.client_message_id.as_str()).collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(
        (&waiting[0].sealed, waiting[0].kind),
        (
            &match sealed(1) {
                Content::KeyPending(sealed) => sealed,
                other => panic!("{other:?}"),
            },
            Kind::Topic
        )
    );
    assert_eq!(inbox.waiting("t1", 1, waiting[1].no, 2).await.unwrap().len(), 1);
    hands.forward(HOUR);
    let mut stream = inbox.events().subscribe(hostel_mesh::events::EventFilter::default(), None).await.unwrap();
    let plain = Plain { body: "opened".to_owned(), ..Plain::default() };
    let opened =
        vec![(waiting[0].no, Ok(plain.clone())), (waiting[1].no, Err(Unreadable::Mismatch)), (999, Ok(plain.clone()))];
    let shown = inbox.decrypted(opened).await.unwrap();
    assert_eq!(shown.len(), 2);
    assert_eq!((shown[0].body.as_deref(), shown[0].received_at), (Some("opened"), START));
    let event = stream.next().await.unwrap();
    assert!(event.name == "message" && event.data.contains("opened"), "{event:?}");
    let listed = all(&inbox).await;
    assert_eq!(bodies(&listed), ["-", "opened"]);
    assert_eq!(listed[0].decrypt_error.as_deref(), Some("mismatch"));
    assert_eq!(inbox.search("opened", 10, Scope::Member).await.unwrap().found.len(), 1);
    // Only once.
    assert_eq!(inbox.decrypted(vec![(waiting[0].no, Ok(plain))]).await.unwrap(), []);
    assert!(matches!(store(&inbox, vec![waits("2", 9, 1)]).await.as_slice(), [Stored::Duplicate]));
}

#[tokio::test]
async fn what_cannot_be_opened_is_listed_and_silent() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let mut stream = inbox.events().subscribe(hostel_mesh::events::EventFilter::default(), None).await.unwrap();
    let broken = Arrival { content: Content::Unreadable(Unreadable::Failed), ..arrival("bob", "1", 1, "") };
    store(&inbox, vec![broken, arrival("bob", "2", 2, "fine")]).await;
    let event = stream.next().await.unwrap();
    assert!(event.data.contains("fine"), "{event:?}");
    let listed = all(&inbox).await;
    assert_eq!((listed[1].body.as_ref(), listed[1].decrypt_error.as_deref()), (None, Some("failed")));
}

/// What is found is bounded by its bytes; that there is more is said.
#[tokio::test]
async fn a_search_says_that_there_is_more_than_fits() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let body = format!("needle {}", "hay ".repeat(30_000));
    let one = |number: u64| arrival("bob", &format!("m{number}"), number, &body);
    store(&inbox, (1..11).map(one).collect()).await;
    let few = inbox.search("needle", 100, Scope::Member).await.unwrap();
    assert_eq!((few.found.len(), few.truncated), (10, false));
    store(&inbox, (11..101).map(one).collect()).await;
    let many = inbox.search("needle", 1000, Scope::Member).await.unwrap();
    assert!(many.truncated && many.found.len() > 50 && many.found.len() < 100, "{}", many.found.len());
}
