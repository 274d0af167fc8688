//! Callers that send while everything is killed: who hears no answer asks again with the same id, or now and then does
//! not.
//!
//! Every lane (sender, destination, priority) belongs to one caller, which sends one message after the other: so the
//! order of a lane is known.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::random::Random;
use serde_json::{Value, json};

use super::field::{Destination, Place, TOPICS};
use super::line::{self, Line};

/// How long a message may take to be accepted, whatever happens meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);

/// What became of a message, as far as its caller knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It was accepted.
    Heard,
    /// The connection broke, and the caller left it at that.
    Unheard,
    /// The caller's time was up, and it left it at that: the daemon may have been at it when the next one came.
    Abandoned,
}

/// A message that was sent, at least once.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) sender: usize,
    pub(super) destination: Destination,
    pub(super) priority: &'static str,
    pub(super) body: String,
    pub(super) meta: Option<Value>,
    pub(super) fate: Fate,
}

/// What all callers share.
#[derive(Default)]
pub(super) struct Shared {
    failure: Mutex<Option<String>>,
    /// Messages that are settled.
    pub(super) settled: AtomicU64,
    /// Answers that were not heard.
    pub(super) lost: AtomicU64,
    /// Asked again, and told that it was known already.
    pub(super) known: AtomicU64,
    /// The callers that are done.
    pub(super) done: AtomicU64,
    /// Answers that were a refusal, by status and word.
    pub(super) refusals: Mutex<BTreeMap<String, u64>>,
}

impl Shared {
    /// Notes the first failure; everybody stops at it.
    pub(super) fn fail(&self, reason: String) {
        self.failure.lock().expect("nobody panics while holding it").get_or_insert(reason);
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("nobody panics while holding it").clone()
    }
}

/// The callers of each host: who writes to whom. To post, nobody must have subscribed.
pub(super) fn parts(sender: usize, hosts: usize) -> Vec<Vec<Destination>> {
    let member = |step: usize| Destination::Member((sender + step) % hosts);
    vec![
        vec![member(1), member(2)],
        vec![member(3), member(4)],
        (0..TOPICS.len()).map(Destination::Topic).collect(),
        vec![Destination::All],
    ]
}

/// Sends so many messages to these destinations.
pub(super) fn call(
    shared: &Shared,
    places: &[Place],
    (sender, part): (usize, usize),
    destinations: &[Destination],
    count: u64,
    seed: u64,
) -> Vec<Sent> {
    let mut random = Random::new(seed);
    let mut line = None;
    let mut all = Vec::new();
    for number in 0..count {
        let mut message = message(&mut random, (sender, part, number), destinations);
        match send(shared, places, &mut line, &message, &mut random) {
            Ok(fate) => message.fate = fate,
            Err(reason) => {
                shared.fail(reason);
                break;
            }
        }
        all.push(message);
        shared.settled.fetch_add(1, Ordering::Relaxed);
    }
    shared.done.fetch_add(1, Ordering::SeqCst);
    all
}

fn message(random: &mut Random, (sender, part, number): (usize, usize, u64), destinations: &[Destination]) -> Sent {
    let id = format!("{sender}-{part}-{number}-{:08x}", random.bits() >> 32);
    let destination = destinations[usize::try_from(random.below(destinations.len() as u64)).expect("an index")];
    let priority = ["now", "next", "low"][usize::try_from(random.below(3)).expect("an index")];
    let size = match random.below(100) {
        0 => random.below(40_000),
        1..20 => random.below(3000),
        _ => random.below(100),
    };
    let filling: String = (0..size).map(|_| char::from(b'a' + (random.bits() % 26) as u8)).collect();
    let meta = (random.below(4) == 0).then(|| json!({"number": number, "of": id}));
    Sent { body: format!("{id} {filling}"), id, sender, destination, priority, meta, fate: Fate::Heard }
}

fn send(
    shared: &Shared,
    places: &[Place],
    line: &mut Option<Line>,
    message: &Sent,
    random: &mut Random,
) -> Result<Fate, String> {
    let (path, body) = request(places, message);
    let forgetful = random.below(5) == 0;
    // Some have no patience at first.
    let mut limit = match random.below(25) {
        0 => Duration::from_micros(random.below(20_000)),
        _ => Duration::from_secs(20),
    };
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(2);
    let mut last = String::from("nobody listened");
    loop {
        if let Some(reason) = shared.failure() {
            return Err(reason);
        }
        if Instant::now() >= end {
            return Err(format!("{} was not accepted in {PATIENCE:?}: {last}", message.id));
        }
        if line.is_none() {
            *line = Line::open(&places[message.sender].socket).ok();
        }
        if let Some(open) = line.as_mut() {
            match open.request("POST", path, &body, limit.max(Duration::from_micros(1))) {
                Ok((200 | 202, answer)) => {
                    if answer["client_message_id"] != *message.id {
                        return Err(format!("{} was answered with {answer}", message.id));
                    }
                    if answer["duplicate"] == true {
                        shared.known.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(Fate::Heard);
                }
                Ok((status @ (429 | 503 | 504), answer)) => {
                    last = format!("{status} {}", answer["error"]);
                    let mut refusals = shared.refusals.lock().expect("nobody panics while holding it");
                    *refusals.entry(last.clone()).or_default() += 1;
                }
                Ok((status, answer)) => return Err(format!("{} got {status} {answer}", message.id)),
                Err(error) => {
                    *line = None;
                    shared.lost.fetch_add(1, Ordering::Relaxed);
                    last = error.to_string();
                    let abandoned = line::timed_out(&error);
                    if forgetful {
                        return Ok(if abandoned { Fate::Abandoned } else { Fate::Unheard });
                    }
                    limit = Duration::from_secs(20);
                }
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

fn request(places: &[Place], message: &Sent) -> (&'static str, String) {
    let mut body = json!({"message": message.body, "priority": message.priority, "client_message_id": message.id});
    if let Some(meta) = &message.meta {
        body["meta"] = meta.clone();
    }
    let path = match message.destination {
        Destination::Member(member) => {
            body["to"] = json!(places[member].key);
            "/v1/send"
        }
        Destination::All => {
            body["to"] = json!("*");
            "/v1/send"
        }
        Destination::Topic(topic) => {
            body["topic"] = json!(TOPICS[topic].0);
            "/v1/topic/post"
        }
    };
    (path, body.to_string())
}
