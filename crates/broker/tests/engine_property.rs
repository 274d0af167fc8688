//! The engine against a model: appends, duplicates, guards, lanes, retention, clean ends and crashes, in any order.
//!
//! A life of the engine is a runtime of its own. A crash drops that runtime with everything that waits in it; what was
//! answered must be there in the next life, what was not may be or not, and what is there is in the order of submission.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hostel_broker::engine::{
    Append, AppendError, AppendTicket, Appended, Engine, EngineOptions, Entry, Gate, Guard, SqliteEngine,
};
use hostel_wire::frames::{Kind, Priority};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;
const MESHES: [&str; 2] = ["m", "n"];

#[derive(Debug, Clone)]
struct Message {
    mesh: usize,
    sender: u8,
    /// Whose id it has, if not its own.
    origin: Option<u8>,
    client: u8,
    fingerprint: u8,
    /// The revision of the one record, as it is or as it was.
    guarded: Option<bool>,
    lane: bool,
    life: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Submit(Message),
    /// Waits for everything that was submitted.
    Settle,
    /// Lets the engine work for a moment.
    Yield,
    ChangeRecord,
    Prune(u64),
    Lookup(usize, u8, u8),
}

impl Message {
    fn id(&self) -> Id {
        (self.mesh, self.origin.unwrap_or(self.sender), self.client)
    }
}

fn message() -> impl Strategy<Value = Message> {
    let whose = (0..2_u8, proptest::option::weighted(0.3, 0..2_u8));
    let guarded = proptest::option::weighted(0.3, any::<bool>());
    (0..2_usize, whose, 0..12_u8, 0..8_u8, guarded, any::<bool>(), 1..40_u64).prop_map(
        |(mesh, (sender, origin), client, fingerprint, guarded, lane, life)| Message {
            mesh,
            sender,
            origin,
            client,
            // Mostly the same one.
            fingerprint: fingerprint / 6,
            guarded,
            lane,
            life,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => message().prop_map(Step::Submit),
        3 => Just(Step::Settle),
        3 => Just(Step::Yield),
        1 => Just(Step::ChangeRecord),
        1 => (1..60_u64).prop_map(Step::Prune),
        2 => (0..2_usize, 0..2_u8, 0..12_u8).prop_map(|(mesh, sender, client)| Step::Lookup(mesh, sender, client)),
    ]
}

type Id = (usize, u8, u8);

#[derive(Debug, Clone)]
struct Kept {
    id: Id,
    fingerprint: u8,
    seq: u64,
    broker_id: String,
    expires: u64,
    forget: u64,
}

/// What must be true, whatever happened.
#[derive(Default)]
struct Model {
    /// Everything that was ever appended, per mesh, in order.
    logs: [Vec<Kept>; 2],
    /// Ids that were used and are not forgotten.
    used: HashMap<Id, Kept>,
    first: [u64; 2],
    epochs: [Option<String>; 2],
    /// Submitted in this life, not answered.
    open: Vec<Open>,
    submitted: u64,
    revision: u64,
    time: u64,
}

/// A message on its way: what it is, when it was submitted, and its number, which is its content.
#[derive(Debug, Clone)]
struct Open {
    message: Message,
    time: u64,
    number: u64,
}

struct Life {
    engine: SqliteEngine,
    lanes: HashMap<(usize, u8), (Arc<AtomicU64>, u64)>,
    /// Lanes that are shut: they stay so in this life, because nothing comes again at its own place.
    shut: HashSet<(usize, u8)>,
    tickets: Vec<AppendTicket>,
}

impl Model {
    fn append(&self, life: &mut Life, message: &Message) -> Append {
        let gate = message.lane.then(|| {
            let lane = life.lanes.entry((message.mesh, message.sender)).or_default();
            lane.1 += 1;
            Gate { lane: Arc::clone(&lane.0), place: lane.1 }
        });
        let guards = message.guarded.map(|fresh| {
            let revision = if fresh { self.revision } else { self.revision + 1_000_000 };
            Guard { bucket: "x", key: "record".to_owned(), revision }
        });
        Append {
            mesh: MESHES[message.mesh].to_owned(),
            kind: Kind::Dm,
            dest: "bob".to_owned(),
            sender: format!("sender {}", message.sender),
            client_id: format!("id {}", message.client),
            origin: message.origin.map(|origin| format!("sender {origin}")),
            fingerprint: [message.fingerprint; 32],
            priority: Priority::Next,
            audience: Vec::new(),
            bytes: self.submitted.to_string().into(),
            guards: guards.into_iter().collect(),
            writes: Vec::new(),
            gate,
            expires_ms: NOW + self.time + message.life,
            forget_ms: NOW + self.time + 2 * message.life,
            now_ms: NOW + self.time,
        }
    }

    /// An answer has come, in the order of submission.
    fn answered(
        &mut self,
        message: &Message,
        time: u64,
        shut: &mut HashSet<(usize, u8)>,
        answer: Result<Appended, AppendError>,
    ) {
        let id = message.id();
        let lane = (message.mesh, message.sender);
        let known = self.used.get(&id).cloned();
        if message.lane && shut.contains(&lane) {
            assert!(matches!(answer, Err(AppendError::Blocked)), "{message:?}: {answer:?}");
            return;
        }
        match (known, answer) {
            (Some(known), Ok(done)) => {
                assert_eq!(known.fingerprint, message.fingerprint, "{message:?}");
                assert!(done.duplicate);
                assert_eq!((done.seq, &done.id), (known.seq, &known.broker_id));
                assert_eq!(done.history_available, known.seq >= self.first[message.mesh]);
            }
            (Some(known), Err(AppendError::Reused { id })) => {
                assert_ne!(known.fingerprint, message.fingerprint);
                assert_eq!(id, known.broker_id);
            }
            (None, Ok(done)) => {
                assert!(!done.duplicate && message.guarded != Some(false), "{message:?}");
                self.there(message, time, done.seq, done.id);
            }
            (None, Err(AppendError::Stale(_))) => {
                assert_eq!(message.guarded, Some(false));
                if message.lane {
                    shut.insert(lane);
                }
            }
            (known, answer) => panic!("{message:?}: {known:?} {answer:?}"),
        }
    }

    fn there(&mut self, message: &Message, time: u64, seq: u64, broker_id: String) {
        let id = message.id();
        assert_eq!(seq, self.logs[message.mesh].len() as u64 + 1, "{message:?}");
        let expires = NOW + time + message.life;
        let forget = NOW + time + 2 * message.life;
        let kept = Kept { id, fingerprint: message.fingerprint, seq, broker_id, expires, forget };
        self.logs[message.mesh].push(kept.clone());
        self.used.insert(id, kept);
    }

    fn pruned(&mut self, now: u64) {
        for mesh in 0..2 {
            let log = &self.logs[mesh];
            let kept =
                log.iter().skip(self.first[mesh].max(1) as usize - 1).take_while(|one| one.expires <= now).count();
            self.first[mesh] = self.first[mesh].max(1) + kept as u64;
            // Ids go from the beginning as well; one that was used again is further on.
            let mut ids: Vec<_> = self.used.values().filter(|one| one.id.0 == mesh).cloned().collect();
            ids.sort_by_key(|one| one.seq);
            for gone in ids.iter().take_while(|one| one.forget <= now) {
                self.used.remove(&gone.id);
            }
        }
    }

    /// What was submitted and not answered when the engine crashed: some of it may be there.
    fn recover(&mut self, logs: &[Vec<Arc<Entry>>; 2]) {
        let open = std::mem::take(&mut self.open);
        for (mesh, log) in logs.iter().enumerate() {
            let known = self.logs[mesh].len() as u64;
            // In the order of submission.
            let mut candidates = open.iter().filter(|one| one.message.mesh == mesh);
            for entry in log.iter().filter(|entry| entry.seq > known) {
                let found = candidates.find(|one| one.number.to_string().as_bytes() == &entry.bytes[..]);
                let Open { message, time, .. } = found.expect("an entry that nobody submitted, or in another order");
                assert_ne!(message.guarded, Some(false), "{message:?}");
                self.there(message, *time, entry.seq, entry.id.clone());
            }
        }
    }

    async fn check(&mut self, engine: &SqliteEngine) {
        let mut logs: [Vec<Arc<Entry>>; 2] = Default::default();
        for (mesh, log) in logs.iter_mut().enumerate() {
            let bounds = engine.ensure_log(MESHES[mesh]).await.unwrap();
            let epoch = self.epochs[mesh].get_or_insert_with(|| bounds.epoch.clone());
            assert_eq!(*epoch, bounds.epoch);
            let mut after = 0;
            loop {
                let part = engine.read(MESHES[mesh], after, 7, usize::MAX).await.unwrap();
                let Some(last) = part.last() else { break };
                after = last.seq;
                log.extend(part);
            }
        }
        self.recover(&logs);
        for (mesh, log) in logs.iter().enumerate() {
            let first = self.first[mesh].max(1);
            let bounds = engine.bounds(MESHES[mesh]).unwrap();
            assert_eq!((bounds.first_seq, bounds.last_seq), (first, self.logs[mesh].len() as u64));
            let wanted: Vec<_> = self.logs[mesh].iter().skip(first as usize - 1).collect();
            let found: Vec<_> = log.iter().map(|entry| (entry.seq, &entry.id, entry.client_id.clone())).collect();
            let wanted: Vec<_> =
                wanted.iter().map(|one| (one.seq, &one.broker_id, format!("id {}", one.id.2))).collect();
            assert_eq!(found, wanted);
        }
    }
}

async fn settle(model: &mut Model, life: &mut Life) {
    let open = std::mem::take(&mut model.open);
    for (Open { message, time, .. }, ticket) in open.iter().zip(life.tickets.drain(..)) {
        let answer = ticket.done().await;
        model.answered(message, *time, &mut life.shut, answer);
    }
}

async fn live(model: &mut Model, directory: &Path, steps: &[Step], crash: bool) {
    let options = EngineOptions {
        // A crash needs that nobody else goes on writing.
        inline: crash,
        recent_ids: 4,
        recent_bytes: 4000,
        ..EngineOptions::at(directory.join("broker.db"), directory.join("blobs"))
    };
    let engine = SqliteEngine::open(options).await.unwrap();
    model.check(&engine).await;
    let mut life = Life { engine, lanes: HashMap::new(), shut: HashSet::new(), tickets: Vec::new() };
    for step in steps {
        match step {
            Step::Submit(message) => {
                let append = model.append(&mut life, message);
                life.tickets.push(life.engine.submit_append(append).await.unwrap());
                let open = Open { message: message.clone(), time: model.time, number: model.submitted };
                model.open.push(open);
                model.submitted += 1;
            }
            Step::Settle => settle(model, &mut life).await,
            Step::Yield => tokio::task::yield_now().await,
            Step::ChangeRecord => {
                // What is submitted is checked against the record as it is when it is written.
                settle(model, &mut life).await;
                model.revision = life.engine.put("x", "record", Vec::new()).await.unwrap();
            }
            Step::Prune(time) => {
                settle(model, &mut life).await;
                model.time += time;
                while life.engine.prune(NOW + model.time).await.unwrap().more {}
                model.pruned(NOW + model.time);
            }
            Step::Lookup(mesh, sender, client) => {
                settle(model, &mut life).await;
                let (name, id) = (format!("sender {sender}"), format!("id {client}"));
                let found = life.engine.lookup(MESHES[*mesh], &name, &id).await.unwrap();
                let wanted = model.used.get(&(*mesh, *sender, *client));
                assert_eq!(found.as_ref().map(|one| (one.seq, &one.id)), wanted.map(|one| (one.seq, &one.broker_id)));
                let kept = wanted.map(|one| one.seq >= model.first[*mesh].max(1));
                assert_eq!(found.map(|one| one.history_available), kept);
            }
        }
    }
    if !crash {
        settle(model, &mut life).await;
        model.check(&life.engine).await;
        life.engine.close().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_what_was_answered(lives in vec((vec(step(), 1..60), any::<bool>()), 1..6)) {
        let scratch = tempfile::tempdir().unwrap();
        let mut model = Model::default();
        let run = |model: &mut Model, steps: &[Step], crash: bool| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(live(model, scratch.path(), steps, crash));
        };
        for (steps, crash) in &lives {
            run(&mut model, steps, *crash);
        }
        run(&mut model, &[], false);
    }
}
