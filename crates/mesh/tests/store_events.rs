//! Events: kept in a ring, told once and in order, resumed without a gap.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support::hang_limit;
use crate::store_support;

use std::path::Path;
use std::time::Duration;

use hostel_mesh::events::{Event, EventFilter, Events, MOST, MOST_RUNS, NewEvent, RUN, Subscription};
use hostel_mesh::inbox::{Arrival, Content, Inbox, InboxOptions, Plain, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};
use store_support::{DAY, Hands, START, arrival, inbox, inbox_options, post};

async fn threaded(directory: &Path, hands: &Hands) -> Inbox {
    Inbox::open(InboxOptions { inline: false, ..inbox_options(directory, hands) }).await.unwrap().0
}

/// The next event, which must come soon.
async fn next(stream: &mut Subscription) -> Option<Event> {
    tokio::time::timeout(hang_limit(), stream.next()).await.expect("an event or the end")
}

/// Nothing is there to be taken: nothing may come in this time.
async fn is_quiet(stream: &mut Subscription) -> bool {
    tokio::time::timeout(Duration::from_millis(20), stream.next()).await.is_err()
}

async fn tick(events: &Events, number: u64) {
    events.publish(NewEvent::new("tick", json!({"number": number}))).await.unwrap();
}

fn number(event: &Event) -> u64 {
    serde_json::from_str::<Value>(&event.data).unwrap()["number"].as_u64().unwrap()
}

#[tokio::test]
async fn events_are_told_as_they_happen() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    tick(&events, 0).await;
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    assert_eq!(events.streams(), 1);
    tick(&events, 1).await;
    let mut announced = arrival("bob", "x", 1, "");
    let beside = vec![NewEvent::new("file_shared", json!({"fileId": "f"}))];
    announced.content = Content::Open(Plain { body: "hi".to_owned(), events: beside, ..Plain::default() });
    let own = vec![NewEvent::new("member_revoked", json!({}))];
    inbox.store(vec![announced.clone(), announced], own, None).await.unwrap();
    let told: Vec<Event> = vec![
        next(&mut stream).await.unwrap(),
        next(&mut stream).await.unwrap(),
        next(&mut stream).await.unwrap(),
        next(&mut stream).await.unwrap(),
    ];
    let names: Vec<&str> = told.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["tick", "message", "file_shared", "member_revoked"], "the second copy tells nothing");
    assert_eq!(number(&told[0]), 1);
    let data: Value = serde_json::from_str(&told[1].data).unwrap();
    assert_eq!(
        (&data["body"], &data["sender_name"], &data["ts"]),
        (&json!("hi"), &json!("BOB"), &json!(hostel_wire::iso(START)))
    );
    let ids: Vec<(&str, u64)> = told
        .iter()
        .map(|event| event.id.split_once('-').unwrap())
        .map(|(boot, n)| (boot, n.parse().unwrap()))
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1), "{ids:?}");
    assert!(is_quiet(&mut stream).await);
    drop(stream);
    assert_eq!(events.streams(), 0);
}

#[tokio::test]
async fn streams_get_what_they_asked_for_and_what_is_theirs() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    tick(&events, 0).await;
    let start = events.subscribe(EventFilter::default(), None).await.unwrap();
    drop(start);
    let work = || Scope::Session("work".to_owned());
    let filters = [
        EventFilter { events: vec!["message".to_owned()], ..EventFilter::default() },
        EventFilter { topic: Some("alerts".to_owned()), ..EventFilter::default() },
        EventFilter { scope: work(), ..EventFilter::default() },
        EventFilter { scope: Scope::Session("other".to_owned()), ..EventFilter::default() },
    ];
    let mut live = Vec::new();
    for filter in &filters {
        live.push(events.subscribe(filter.clone(), None).await.unwrap());
    }
    let first = {
        let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
        tick(&events, 1).await;
        next(&mut stream).await.unwrap().id
    };
    let mine = Arrival { recipient_session: Some("work".to_owned()), ..arrival("bob", "3", 3, "for work") };
    inbox
        .store(
            vec![arrival("bob", "1", 1, "for the member"), post("bob", "2", 2, "alerts", "post"), mine],
            Vec::new(),
            None,
        )
        .await
        .unwrap();
    events.publish(NewEvent { session: Some("work".to_owned()), ..NewEvent::new("private", json!({})) }).await.unwrap();
    events.publish(NewEvent::new("end", json!({}))).await.unwrap();
    let expected = [
        vec!["for the member", "post", "for work"],
        vec!["post"],
        vec!["tick", "post", "for work", "private", "end"],
        vec!["tick", "post", "end"],
    ];
    let shown = |event: Event| {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        data["body"].as_str().map_or(event.name, str::to_owned)
    };
    for ((mut stream, filter), expected) in live.into_iter().zip(&filters).zip(expected) {
        let mut got = Vec::new();
        for _ in &expected {
            got.push(shown(next(&mut stream).await.unwrap()));
        }
        assert_eq!(got, expected, "{filter:?}");
        // The ring says the same.
        let mut stream = events.subscribe(filter.clone(), Some(&first)).await.unwrap();
        let mut again = Vec::new();
        for _ in expected.iter().filter(|what| **what != "tick") {
            again.push(shown(next(&mut stream).await.unwrap()));
        }
        let expected: Vec<&str> = expected.into_iter().filter(|what| *what != "tick").collect();
        assert_eq!(again, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn an_id_is_good_across_restarts() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let first = {
        let inbox = inbox(scratch.path(), &hands).await;
        let mut stream = inbox.events().subscribe(EventFilter::default(), None).await.unwrap();
        for number in 0..3 {
            tick(&inbox.events(), number).await;
        }
        next(&mut stream).await.unwrap().id
    };
    hands.forward(1000);
    let inbox = inbox(scratch.path(), &hands).await;
    let mut stream = inbox.events().subscribe(EventFilter::default(), Some(&first)).await.unwrap();
    tick(&inbox.events(), 3).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(next(&mut stream).await.unwrap());
    }
    assert_eq!(told.iter().map(number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(told[0].id.split('-').next(), first.split('-').next());
    assert_ne!(told[2].id.split('-').next(), first.split('-').next(), "another start");
    assert!(is_quiet(&mut stream).await);
}

#[tokio::test]
async fn an_unknown_id_gets_a_gap_and_goes_on() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    tick(&events, 0).await;
    let known = next(&mut stream).await.unwrap().id;
    let (boot, _) = known.split_once('-').unwrap();
    let future = format!("{boot}-77");
    hands.forward(1000);
    for (id, since) in
        [("nonsense", START + 1000 - DAY), ("", START + 1000 - DAY), ("other-1", START + 1000 - DAY), (&future, START)]
    {
        let mut stream = events.subscribe(EventFilter::default(), Some(id)).await.unwrap();
        tick(&events, 9).await;
        let gap = next(&mut stream).await.unwrap();
        assert_eq!((gap.name.as_str(), gap.id.as_str()), ("gap", ""));
        let data: Value = serde_json::from_str(&gap.data).unwrap();
        assert_eq!(data, json!({"from": id, "resume": format!("/v1/inbox?since={}", hostel_wire::iso(since))}));
        assert_eq!(number(&next(&mut stream).await.unwrap()), 9);
    }
}

#[tokio::test]
async fn a_stream_says_where_it_begins_before_anything_is_told() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    for number in 0..3 {
        let begins = events.subscribe(EventFilter::default(), None).await.unwrap().begins().to_owned();
        tick(&events, number).await;
        let mut again = events.subscribe(EventFilter::default(), Some(&begins)).await.unwrap();
        assert_eq!(again.begins(), begins);
        assert_eq!(self::number(&next(&mut again).await.unwrap()), number, "after {begins}");
    }
    let lost = events.subscribe(EventFilter::default(), Some("other-1")).await.unwrap();
    assert!(lost.begins().ends_with("-3"), "behind the gap: {}", lost.begins());
}

#[tokio::test]
async fn the_ring_forgets_by_number_and_by_age_but_not_its_end() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    tick(&events, 0).await;
    let first = next(&mut stream).await.unwrap().id;
    tick(&events, 1).await;
    let second = next(&mut stream).await.unwrap().id;
    drop(stream);
    let many = (2..=MOST).map(|number| NewEvent::new("tick", json!({"number": number}))).collect();
    events.publish_all(many).await.unwrap();
    let mut stream = events.subscribe(EventFilter::default(), Some(&first)).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().name, "gap", "one too many");
    let mut stream = events.subscribe(EventFilter::default(), Some(&second)).await.unwrap();
    let mut last = String::new();
    for expected in 2..=MOST {
        let event = next(&mut stream).await.unwrap();
        assert_eq!(number(&event), expected);
        last = event.id;
    }
    hands.forward(DAY + 1);
    assert_eq!(events.sweep().await.unwrap(), MOST - 1);
    let mut stream = events.subscribe(EventFilter::default(), Some(&last)).await.unwrap();
    tick(&events, 42).await;
    assert_eq!(number(&next(&mut stream).await.unwrap()), 42, "who was up to date missed nothing");
    drop(inbox);
    let inbox = store_support::inbox(scratch.path(), &hands).await;
    let mut stream = inbox.events().subscribe(EventFilter::default(), Some(&last)).await.unwrap();
    assert_eq!(number(&next(&mut stream).await.unwrap()), 42, "the numbers went on");
}

#[tokio::test]
async fn runs_of_hooks_push_nothing_else_out() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    let run = || NewEvent::new(RUN, json!({"hook": "on-dm"}));
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    tick(&events, 0).await;
    let first = next(&mut stream).await.unwrap().id;
    events.publish(run()).await.unwrap();
    let second = next(&mut stream).await.unwrap().id;
    drop(stream);
    // As many as are kept, and two runs to each.
    for part in 0..10 {
        let numbers = 1 + part * (MOST / 10)..=(part + 1) * (MOST / 10);
        let tick = |number: u64| NewEvent::new("tick", json!({"number": number}));
        events.publish_all(numbers.flat_map(|number| [tick(number), run(), run()]).collect()).await.unwrap();
    }
    let mut stream = events.subscribe(EventFilter::default(), Some(&first)).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().name, "gap", "the first is one too many");
    let wanted = EventFilter { events: vec!["tick".to_owned()], ..EventFilter::default() };
    let mut stream = events.subscribe(wanted, Some(&second)).await.unwrap();
    for expected in 1..=MOST {
        assert_eq!(number(&next(&mut stream).await.unwrap()), expected);
    }
    drop(stream);
    // Their own number is bounded as well, and what is left can still be resumed from.
    for _ in 0..9 {
        events.publish_all((0..MOST / 2).map(|_| run()).collect()).await.unwrap();
    }
    tick(&events, 42).await;
    let count = || {
        let connection = rusqlite::Connection::open(scratch.path().join("inbox.db")).unwrap();
        let sql = "SELECT count(*), max(n) - min(n) + 1 FROM events";
        let counted = connection.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        let (count, span) = counted.unwrap();
        (count.cast_unsigned(), span.cast_unsigned())
    };
    let (kept, span) = count();
    assert!(kept <= MOST + MOST_RUNS && kept == span, "{kept} of {span}");
    hands.forward(DAY + 1);
    events.sweep().await.unwrap();
    assert_eq!(count().0, 1);
    // The count is that of what is there: only so many are kept again.
    events
        .publish_all((0..MOST + 5).map(|number| NewEvent::new("tick", json!({"number": number}))).collect())
        .await
        .unwrap();
    assert_eq!(count().0, MOST);
}

#[tokio::test]
async fn who_falls_behind_is_cut_off() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    let many = |count: u64, text: &str| {
        (0..count).map(|number| NewEvent::new("tick", json!({"number": number, "text": text}))).collect::<Vec<_>>()
    };
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    let mut picky = events
        .subscribe(EventFilter { events: vec!["rare".to_owned()], ..EventFilter::default() }, None)
        .await
        .unwrap();
    let mut cut = stream.cut();
    events.publish_all(many(1000, "")).await.unwrap();
    assert_eq!(events.streams(), 2);
    events.publish_all(many(1, "")).await.unwrap();
    // It is heard of also by who does not take events.
    tokio::time::timeout(hang_limit(), cut.wait()).await.unwrap();
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(events.streams(), 1);
    // By bytes as well.
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    events.publish_all(many(3, &"x".repeat(400_000))).await.unwrap();
    assert_eq!(next(&mut stream).await, None);
    // Who did not want all that is not behind.
    events.publish(NewEvent::new("rare", json!({}))).await.unwrap();
    assert_eq!(next(&mut picky).await.unwrap().name, "rare");
    events.close();
    assert_eq!(next(&mut picky).await, None);
    let mut late = events.subscribe(EventFilter::default(), None).await.unwrap();
    assert_eq!(next(&mut late).await, None);
}

#[tokio::test]
async fn what_was_told_before_the_end_is_still_taken() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    let events = inbox.events();
    let mut stream = events.subscribe(EventFilter::default(), None).await.unwrap();
    tick(&events, 1).await;
    tick(&events, 2).await;
    events.close();
    assert_eq!(number(&next(&mut stream).await.unwrap()), 1);
    assert_eq!(number(&next(&mut stream).await.unwrap()), 2, "it may say why it is the last");
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(next(&mut stream).await, None);
}

/// Many tasks tell, in transactions that are committed together; streams come and go in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_are_complete_and_in_order_whoever_tells() {
    const TASKS: u64 = 8;
    const EACH: u64 = 60;
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = threaded(scratch.path(), &hands).await;
    let events = inbox.events();
    let mut first = events.subscribe(EventFilter::default(), None).await.unwrap();
    let mut tellers = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (events, inbox) = (events.clone(), inbox.clone());
        tellers.spawn(async move {
            for number in 0..EACH {
                if number % 2 == 0 {
                    events.publish(NewEvent::new("tick", json!({"number": number}))).await.unwrap();
                } else {
                    inbox
                        .store(vec![arrival("bob", &format!("{task}-{number}"), number, "hi")], Vec::new(), None)
                        .await
                        .unwrap();
                }
                // A teller that does not wait for the end tells all the same.
                let half = events.publish(NewEvent::new("half", json!({"number": number})));
                tokio::select! { biased; () = tokio::task::yield_now() => {}, told = half => told.unwrap() }
            }
        });
    }
    let start = next(&mut first).await.unwrap();
    let mut from_start = vec![start.id.clone()];
    let mut resumed = vec![start.id.clone()];
    let mut stream = events.subscribe(EventFilter::default(), Some(&start.id)).await.unwrap();
    let mut step = 0;
    while !tellers.is_empty() {
        tokio::select! {
            done = tellers.join_next() => done.unwrap().unwrap(),
            event = stream.next() => {
                resumed.push(event.unwrap().id);
                step += 1;
                if step % 7 == 0 {
                    stream = events.subscribe(EventFilter::default(), resumed.last().map(String::as_str)).await.unwrap();
                }
            }
        }
    }
    events.publish(NewEvent::new("end", json!({}))).await.unwrap();
    let mut ends = Vec::new();
    for (stream, got) in [(&mut first, &mut from_start), (&mut stream, &mut resumed)] {
        loop {
            let event = next(stream).await.unwrap();
            got.push(event.id);
            if event.name == "end" {
                break;
            }
        }
        let numbers: Vec<u64> = got.iter().map(|id| id.split_once('-').unwrap().1.parse().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        assert!(numbers.len() as u64 > TASKS * EACH);
        ends.push(numbers.len());
    }
    assert_eq!(ends[0], ends[1]);
}

/// What a stream does between events.
#[derive(Clone, Debug)]
enum Deed {
    Tell(usize),
    Take(usize),
    Resume,
    Crash,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (1..40_usize).prop_map(Deed::Tell),
        4 => (1..40_usize).prop_map(Deed::Take),
        2 => Just(Deed::Resume),
        1 => Just(Deed::Crash),
    ]
}

async fn live(directory: &Path, deeds: Vec<Deed>) {
    let hands = Hands::new();
    let mut inbox = inbox(directory, &hands).await;
    let mut stream = inbox.events().subscribe(EventFilter::default(), None).await.unwrap();
    let (mut told, mut got, mut last) = (0_u64, 0_u64, None::<String>);
    for deed in deeds {
        match deed {
            Deed::Tell(count) => {
                for _ in 0..count {
                    told += 1;
                    tick(&inbox.events(), told).await;
                }
            }
            Deed::Take(count) => {
                for _ in 0..count.min((told - got) as usize) {
                    let event = next(&mut stream).await.unwrap();
                    got += 1;
                    assert_eq!(number(&event), got);
                    last = Some(event.id);
                }
            }
            Deed::Resume | Deed::Crash => {
                let Some(last) = &last else { continue };
                if let Deed::Crash = deed {
                    drop(stream);
                    drop(inbox);
                    inbox = store_support::inbox(directory, &hands).await;
                }
                stream = inbox.events().subscribe(EventFilter::default(), Some(last)).await.unwrap();
            }
        }
    }
    while got < told {
        let event = next(&mut stream).await.unwrap();
        got += 1;
        assert_eq!(number(&event), got);
    }
    assert!(is_quiet(&mut stream).await);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_resumed_stream_has_no_gap_and_no_double(deeds in prop::collection::vec(deed(), 1..40)) {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(live(scratch.path(), deeds));
    }
}
