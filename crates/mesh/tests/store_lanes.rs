//! The outbox against a simple model, under random requests, refusals, lost connections, crashes and lost answers: what
//! it hands out is exactly what the model allows, and in the end the broker's log has everything once and in order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use hostel_mesh::outbox::{Lane, NewMessage, Outbox, RefusedRow, RetryRow, Row, RowKey, Status};
use hostel_wire::frames::Priority;
use proptest::prelude::*;
use store_support::{Hands, acked, dm, ids, outbox};

/// What is done.
#[derive(Clone, Debug)]
enum Deed {
    Accept {
        to: usize,
        priority: usize,
    },
    /// The same request again.
    Repeat {
        which: usize,
    },
    Claim {
        rows: usize,
        without: Option<usize>,
    },
    /// The broker takes the first of a lane, and says so or is not heard.
    Take {
        lane: usize,
        heard: bool,
    },
    /// It refuses the first of a lane for now.
    Refuse {
        lane: usize,
    },
    /// It refuses the first of a lane for good.
    Kill {
        lane: usize,
    },
    /// Something is heard about a claim that is long over.
    Echo {
        which: usize,
    },
    Disconnect,
    Crash,
    Pass {
        ms: u64,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    let lane = 0..64_usize;
    prop_oneof![
        8 => (0..3_usize, 0..3_usize).prop_map(|(to, priority)| Deed::Accept { to, priority }),
        1 => (0..64_usize).prop_map(|which| Deed::Repeat { which }),
        6 => (1..8_usize, prop::option::weighted(0.2, 0..3_usize)).prop_map(|(rows, without)| Deed::Claim { rows, without }),
        6 => (lane.clone(), prop::bool::weighted(0.8)).prop_map(|(lane, heard)| Deed::Take { lane, heard }),
        3 => lane.clone().prop_map(|lane| Deed::Refuse { lane }),
        1 => lane.prop_map(|lane| Deed::Kill { lane }),
        1 => (0..64_usize).prop_map(|which| Deed::Echo { which }),
        1 => Just(Deed::Disconnect),
        1 => Just(Deed::Crash),
        3 => prop_oneof![Just(0_u64), Just(200), Just(500), Just(3000), Just(40_000)].prop_map(|ms| Deed::Pass { ms }),
    ]
}

/// A row as the model has it; its place in the list is its age.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    lane: Lane,
    status: Status,
    due: u64,
    attempts: u32,
}

/// What the outbox should be, and what the broker has.
#[derive(Default)]
struct World {
    rows: Vec<Known>,
    /// Sent on the connection that stands, and not heard of yet.
    sent: BTreeMap<Lane, VecDeque<Row>>,
    log: Vec<String>,
    old: Vec<RowKey>,
}

const NAMES: [&str; 3] = ["bob", "carol", "dave"];
const PRIORITIES: [Priority; 3] = [Priority::Now, Priority::Next, Priority::Low];

impl World {
    /// What may be handed out: urgent first, then older, and nothing before what came earlier in its lane.
    fn claimable(&self, now: u64, without: Option<&str>) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|index| (self.rows[*index].lane.priority, *index));
        let (mut held, mut out): (Vec<&Lane>, Vec<String>) = (Vec::new(), Vec::new());
        for row in order.into_iter().map(|index| &self.rows[index]) {
            if row.status != Status::Pending || held.contains(&&row.lane) {
                continue;
            }
            if row.due > now || without == Some(row.lane.dest_ref.as_str()) {
                held.push(&row.lane);
            } else {
                out.push(row.id.clone());
            }
        }
        out
    }

    fn row(&mut self, id: &str) -> &mut Known {
        self.rows.iter_mut().find(|row| row.id == id).unwrap()
    }

    /// The lane that is meant, among those with something sent.
    fn lane(&self, which: usize) -> Option<Lane> {
        let busy: Vec<&Lane> = self.sent.iter().filter(|(_, rows)| !rows.is_empty()).map(|(lane, _)| lane).collect();
        (!busy.is_empty()).then(|| busy[which % busy.len()].clone())
    }

    /// The broker has it; twice is once.
    fn log(&mut self, id: &str) {
        if !self.log.iter().any(|known| known == id) {
            self.log.push(id.to_owned());
        }
    }

    fn back_to_waiting(&mut self) {
        self.old.extend(self.sent.values().flatten().map(|row| row.key));
        self.sent.clear();
        for row in &mut self.rows {
            if row.status == Status::Inflight {
                row.status = Status::Pending;
            }
        }
    }
}

async fn run(directory: &Path, deeds: Vec<Deed>) {
    let hands = Hands::new();
    let mut world = World::default();
    let mut current = outbox(directory, &hands).await;
    for deed in deeds {
        if let Deed::Crash = deed {
            drop(current);
            for row in &mut world.rows {
                if row.status == Status::Inflight {
                    (row.attempts, row.due) = (row.attempts + 1, hands.now() + 500);
                }
            }
            world.back_to_waiting();
            world.old.clear();
            current = outbox(directory, &hands).await;
        } else {
            step(&current, &hands, &mut world, deed).await;
        }
        let count = |status| world.rows.iter().filter(|row| row.status == status).count() as u64;
        let depth = current.depth();
        assert_eq!(
            (depth.pending, depth.inflight, depth.dead),
            (count(Status::Pending), count(Status::Inflight), count(Status::Dead))
        );
    }
    finish(&current, &hands, &mut world).await;
}

async fn step(outbox: &Outbox, hands: &Hands, world: &mut World, deed: Deed) {
    match deed {
        Deed::Accept { to, priority } => {
            let id = format!("m{:03}", world.rows.len());
            let message = NewMessage { priority: PRIORITIES[priority], ..dm(&id, NAMES[to], &id) };
            let lane = Lane {
                sender_session: None,
                dest_kind: message.dest_kind,
                dest_ref: message.dest_ref.clone(),
                priority: message.priority,
            };
            outbox.accept(message).await.unwrap();
            world.rows.push(Known { id, lane, status: Status::Pending, due: 0, attempts: 0 });
        }
        Deed::Repeat { which } => {
            if world.rows.is_empty() {
                return;
            }
            let row = &world.rows[which % world.rows.len()];
            let again = NewMessage { priority: row.lane.priority, ..dm(&row.id, &row.lane.dest_ref, &row.id) };
            match outbox.accept(again).await {
                Ok(accepted) => assert_eq!((accepted.status, accepted.duplicate), (row.status, true)),
                Err(_) => assert_eq!(row.status, Status::Dead),
            }
        }
        Deed::Claim { rows, without } => {
            let without = without.map(|which| NAMES[which]);
            let allow = move |lane: &Lane| without != Some(lane.dest_ref.as_str());
            let claimed = outbox.claim(rows, usize::MAX, allow).await.unwrap().rows;
            let mut expected = world.claimable(hands.now(), without);
            expected.truncate(rows);
            assert_eq!(ids(&claimed), expected);
            for row in claimed {
                let known = world.row(&row.client_message_id);
                known.status = Status::Inflight;
                assert_eq!((known.attempts, &known.lane, &row.payload.body), (row.attempts, &row.lane, &known.id));
                world.sent.entry(row.lane.clone()).or_default().push_back(row);
            }
        }
        Deed::Take { lane, heard } => {
            let Some(lane) = world.lane(lane) else { return };
            let first = world.sent[&lane][0].clone();
            world.log(&first.client_message_id);
            if heard {
                let seq = world.log.len() as u64;
                outbox.acked(vec![acked(&first, seq)]).await.unwrap();
                world.row(&first.client_message_id).status = Status::Done;
                world.sent.get_mut(&lane).unwrap().pop_front();
                world.old.push(first.key);
            }
        }
        Deed::Refuse { lane } => {
            let Some(lane) = world.lane(lane) else { return };
            let first = world.sent[&lane][0].clone();
            if world.log.contains(&first.client_message_id) {
                return; // a broker that has it says so
            }
            let code = "rate_limited".to_owned();
            let refused = RetryRow { key: first.key, code, error: String::new(), retry_after_ms: None };
            outbox.retry(vec![refused]).await.unwrap();
            let due = outbox.lookup(&first.client_message_id).await.unwrap().unwrap().next_attempt_at.unwrap();
            for row in world.sent.remove(&lane).unwrap() {
                world.row(&row.client_message_id).status = Status::Pending;
                world.old.push(row.key);
            }
            let known = world.row(&first.client_message_id);
            (known.due, known.attempts) = (due, known.attempts + 1);
            let most = (500_u64 << (known.attempts - 1).min(6)).min(30_000);
            assert!(due - hands.now() <= most && due - hands.now() >= most * 3 / 4, "{}", due - hands.now());
        }
        Deed::Kill { lane } => {
            let Some(lane) = world.lane(lane) else { return };
            let first = world.sent[&lane][0].clone();
            if world.log.contains(&first.client_message_id) {
                return;
            }
            let refused = RefusedRow { key: first.key, code: "blocked".to_owned(), error: String::new() };
            assert_eq!(outbox.refused(vec![refused]).await.unwrap().len(), 1);
            world.row(&first.client_message_id).status = Status::Dead;
            world.sent.get_mut(&lane).unwrap().pop_front();
            world.old.push(first.key);
        }
        Deed::Echo { which } => {
            if let Some(key) = (!world.old.is_empty()).then(|| world.old[which % world.old.len()]) {
                let (code, error) = ("rate_limited".to_owned(), String::new());
                outbox
                    .retry(vec![RetryRow { key, code: code.clone(), error: error.clone(), retry_after_ms: None }])
                    .await
                    .unwrap();
                assert_eq!(outbox.refused(vec![RefusedRow { key, code, error }]).await.unwrap(), []);
                outbox.release(vec![key]).await.unwrap();
            }
        }
        Deed::Disconnect => {
            outbox.release_all().await.unwrap();
            world.back_to_waiting();
        }
        Deed::Crash => {}
        Deed::Pass { ms } => hands.forward(ms),
    }
}

/// A broker that takes everything, until there is nothing left.
async fn finish(outbox: &Outbox, hands: &Hands, world: &mut World) {
    outbox.release_all().await.unwrap();
    world.back_to_waiting();
    for _ in 0..1000 {
        hands.forward(60_000);
        let rows = outbox.claim(5, usize::MAX, |_| true).await.unwrap().rows;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            world.log(&row.client_message_id);
            world.row(&row.client_message_id).status = Status::Done;
        }
        outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    }
    let depth = outbox.depth();
    assert_eq!((depth.pending, depth.inflight), (0, 0));
    let mut once = world.log.clone();
    once.sort();
    let owed = world.rows.iter().filter(|row| row.status != Status::Dead).map(|row| row.id.clone());
    assert_eq!(once, owed.collect::<Vec<_>>());
    let mut last: BTreeMap<&Lane, &str> = BTreeMap::new();
    for id in &world.log {
        let row = world.rows.iter().find(|row| row.id == *id).unwrap();
        let before = last.insert(&row.lane, id);
        assert!(before.is_none_or(|before| before < id.as_str()), "{before:?} then {id}: {:?}", world.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn lanes_keep_their_order_and_nothing_is_lost(deeds in prop::collection::vec(deed(), 1..120)) {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(scratch.path(), deeds));
    }
}
