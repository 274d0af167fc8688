//! Whatever somebody shows as the place where it stopped reading: a page of the inbox or the stream of events goes on
//! within what there is, or says that it does not know the place. The places that were handed out are always known.
#![no_main]

use std::cell::Cell;

use hostel_fuzz::mesh::runtime;
use hostel_mesh::events::{EventFilter, MOST, NewEvent};
use hostel_mesh::inbox::{Arrival, Content, Inbox, InboxError, InboxOptions, InboxQuery, Plain, Scope};
use hostel_wire::Clock;
use hostel_wire::frames::{Kind, Priority};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::runtime::Runtime;

const ROWS: u64 = 20;

struct World {
    runtime: Runtime,
    inbox: Inbox,
    /// Places that were handed out, and ids of events.
    places: Vec<String>,
    ids: Vec<String>,
    /// Events that came since.
    told: Cell<u64>,
}

fn arrival(number: u64) -> Arrival {
    Arrival {
        sender_member_id: "bob-id".into(),
        client_message_id: format!("c-{number}"),
        origin: None,
        broker_message_id: format!("m-{number}"),
        broker_seq: number,
        kind: Kind::Dm,
        topic: None,
        sender_pubkey: "ab".repeat(32),
        sender_member_pubkey: None,
        sender_name: "bob".into(),
        priority: Priority::Next,
        created_at: None,
        recipient_pubkey: None,
        recipient_session: None,
        content: Content::Open(Plain { body: format!("text {number}"), ..Plain::default() }),
    }
}

impl World {
    fn new() -> Self {
        let runtime = runtime();
        let (inbox, places, ids) = runtime.block_on(async {
            let options = InboxOptions {
                path: ":memory:".into(),
                mesh: "lab".into(),
                clock: Clock::system(),
                ages: Clock::system(),
                retention_days: 0,
                max_bytes: 0,
                inline: true,
            };
            let (inbox, _) = Inbox::open(options).await.expect("an inbox in memory");
            inbox.store((1..=ROWS).map(arrival).collect(), Vec::new(), None).await.expect("rows");
            let events = inbox.events();
            let mut stream = events.subscribe(EventFilter::default(), None).await.expect("a stream");
            let mut ids = Vec::new();
            for number in 0..5 {
                events.publish(NewEvent::new("system", json!({"number": number}))).await.expect("an event");
                ids.push(stream.next().await.expect("it comes").id);
            }
            let mut places = Vec::new();
            loop {
                let query = InboxQuery { limit: 3, cursor: places.last().cloned(), ..InboxQuery::default() };
                let page = inbox.list(query).await.expect("our own place");
                match page.next {
                    Some(next) => places.push(next),
                    None => break,
                }
            }
            assert_eq!(places.len() as u64, ROWS.div_ceil(3) - 1);
            (inbox, places, ids)
        });
        Self { runtime, inbox, places, ids, told: Cell::new(0) }
    }
}

thread_local! {
    static WORLD: World = World::new();
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    WORLD.with(|world| {
        world.runtime.block_on(async {
            for oldest_first in [false, true] {
                let query = InboxQuery {
                    limit: 3,
                    oldest_first,
                    scope: Scope::Member,
                    cursor: Some(text.to_owned()),
                    ..InboxQuery::default()
                };
                match world.inbox.list(query).await {
                    Ok(page) => {
                        assert!(page.items.len() <= 3);
                        assert!(page.items.iter().all(|item| item.body.is_some()));
                    }
                    Err(InboxError::BadCursor) => {
                        assert!(!world.places.iter().any(|place| place == text), "our own place is not known");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            let events = world.inbox.events();
            let mut stream = events.subscribe(EventFilter::default(), Some(text)).await.expect("a stream");
            // Something that comes after everything that is there, so that the stream has a next event for sure.
            events.publish(NewEvent::new("system", json!({"number": 99}))).await.expect("an event");
            let first = stream.next().await.expect("it goes on");
            // Those that were handed out first are forgotten once enough others have come.
            let told = world.told.get() + 1;
            world.told.set(told);
            let known = told < MOST / 2 && world.ids.iter().any(|id| id == text);
            assert!(!known || first.name != "gap", "our own place is not known");
            if first.name == "gap" {
                assert!(first.id.is_empty() && first.data.contains("resume"), "{first:?}");
                assert!(!first.data.contains('\n'));
            }
        });
    });
});
