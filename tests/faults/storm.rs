//! The traffic of the kill test: children that talk and listen, clients that check every byte.
//!
//! A client here expects to lose its connection at any moment. It comes back with what it knows (the
//! last seq, the bytes it was told were accepted) and fails on the first byte that is not the one that
//! must follow. Nothing is kept in memory but the unconfirmed end of the input.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hostel_tests::chatter::{Checker, Lines};
use hostel_tests::client::{Client, Event, Trouble, base64, number, result_of};
use hostel_tests::frames::{Frame, Payload, Stream, Transcript};
use hostel_tests::random::Random;
use hostel_tests::wait;

/// What all threads of one storm share.
pub(crate) struct Shared {
    pub(crate) socket: PathBuf,
    pub(crate) token: String,
    /// Set when the killing is over and everything should come to its end.
    pub(crate) ending: AtomicBool,
    failure: Mutex<Option<String>>,
    pub(crate) reconnects: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) output: AtomicU64,
    pub(crate) input: AtomicU64,
    pub(crate) spawns: AtomicU64,
    /// Requests answered with an error because the keeper was not there for a moment.
    pub(crate) refusals: AtomicU64,
}

impl Shared {
    pub(crate) fn new(socket: PathBuf, token: &str) -> Self {
        Self {
            socket,
            token: token.to_owned(),
            ending: AtomicBool::new(false),
            failure: Mutex::new(None),
            reconnects: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            output: AtomicU64::new(0),
            input: AtomicU64::new(0),
            spawns: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Notes the first failure; everybody stops at it.
    pub(crate) fn fail(&self, reason: String) {
        let mut failure = self.failure.lock().expect("nobody panics while holding it");
        failure.get_or_insert(reason);
    }

    /// The first failure, if any.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("nobody panics while holding it").clone()
    }

    fn failed(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether a reply is the keeper's absence: counted here, judged when the storm is over.
    fn refused(&self, line: &str) -> bool {
        let absent = line.contains(r#""error":{"code":-32603,"message":"the keeper"#);
        if absent {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        absent
    }

    /// A connection, however long the daemon takes to come back (within reason).
    fn connect(&self) -> Option<Client> {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        let found = wait::attempt_often(Duration::from_secs(30), Duration::from_millis(4), || {
            if self.failed() {
                return Some(None);
            }
            Client::connect(&self.socket, &self.token).ok().map(Some)
        });
        let Some(found) = found else {
            self.fail("nobody accepted a connection for 30 s".to_owned());
            return None;
        };
        let mut client = found?;
        client.allow_torn_end();
        Some(client)
    }
}

/// One chatting child.
#[derive(Debug, Clone)]
pub(crate) struct Chatter {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) record: PathBuf,
    pub(crate) code: i64,
}

impl Chatter {
    pub(crate) fn spawn(&self, client: &mut Client) {
        let record = self.record.to_str().expect("a plain path");
        client.spawn_child(&self.name, &["chatter", record, &self.seed.to_string(), &self.code.to_string()]);
    }

    fn file(&self, stream: &str) -> PathBuf {
        PathBuf::from(format!("{}.{stream}", self.record.display()))
    }
}

/// What one watcher saw in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) out: u64,
    pub(crate) err: u64,
    pub(crate) last_seq: u64,
    pub(crate) exit: Option<i64>,
}

/// One client's view, checked as it grows.
struct View {
    out: Checker,
    err: Checker,
    last_seq: u64,
    exit: Option<i64>,
}

impl View {
    fn new(chatter: &Chatter) -> Self {
        Self {
            out: Checker::new(Lines::new("out", chatter.seed)),
            err: Checker::new(Lines::new("err", chatter.seed)),
            last_seq: 0,
            exit: None,
        }
    }

    fn take(&mut self, frame: &Frame) -> Result<(), String> {
        // The transcript's rules (next seq, nothing after the exit, size), without keeping bytes.
        let mut rules = Transcript::after(self.last_seq);
        rules.exit = self.exit;
        rules.take(frame)?;
        self.last_seq = rules.last_seq;
        self.exit = rules.exit;
        match &frame.payload {
            Payload::Output(Stream::Out, bytes) => self.out.take(bytes),
            Payload::Output(Stream::Err, bytes) => self.err.take(bytes),
            Payload::Exit(_) => Ok(()),
        }
    }
}

/// Follows a child to its end over any number of connections. A `restless` one also leaves by itself,
/// and a few times starts again from the first frame.
pub(crate) fn watch(shared: &Shared, chatter: &Chatter, restless: Option<u64>) -> Option<Seen> {
    let mut view = View::new(chatter);
    let mut random = restless.map(Random::new);
    let mut replays = 0;
    while view.exit.is_none() {
        let mut client = shared.connect()?;
        if let Some(random) = &mut random
            && replays < 8
            && random.below(12) == 0
        {
            replays += 1;
            view = View::new(chatter);
        }
        let mut patience = random.as_mut().map_or(u64::MAX, |random| random.below(3000));
        let params = format!(r#"{{"id":"{}","fromSeq":{}}}"#, chatter.name, view.last_seq);
        let Ok(id) = client.try_begin("process.reattach", &params) else { continue };
        while view.exit.is_none() && patience > 0 {
            patience -= 1;
            match client.try_event(wait::LIMIT) {
                Ok(Event::Frame(frame)) => {
                    shared.frames.fetch_add(1, Ordering::Relaxed);
                    if let Err(reason) = view.take(&frame) {
                        shared.fail(format!("{}: {reason}", chatter.name));
                        return None;
                    }
                }
                Ok(Event::Reply(line)) => {
                    let found = result_of(id, &line).is_some_and(|result| result.starts_with(r#"{"found":true,"#));
                    if !found {
                        shared.fail(format!(
                            "{}: reattach after frame {} was answered with {line}",
                            chatter.name, view.last_seq
                        ));
                        return None;
                    }
                }
                Err(Trouble::Closed) => break,
                Err(Trouble::Late(limit)) => {
                    shared.fail(format!("{}: silent for {limit:?} after frame {}", chatter.name, view.last_seq));
                    return None;
                }
            }
            if shared.failed() {
                return None;
            }
        }
    }
    Some(Seen { out: view.out.bytes, err: view.err.bytes, last_seq: view.last_seq, exit: view.exit })
}

/// Sends numbered lines with offsets until the storm ends, then the word to end; gives the total.
pub(crate) fn feed(shared: &Shared, chatter: &Chatter, seed: u64) -> Option<u64> {
    let mut random = Random::new(seed);
    let mut lines = Lines::small("in", chatter.seed);
    // `unconfirmed` starts at byte `applied` of the whole input.
    let mut unconfirmed: Vec<u8> = Vec::new();
    let mut applied = 0_u64;
    let mut highest = 0_u64;
    let mut all_said = false;
    loop {
        let mut client = shared.connect()?;
        let params = format!(r#"{{"id":"{}","fromSeq":{}}}"#, chatter.name, u64::MAX);
        let state = match client.try_call("process.reattach", &params) {
            Ok(line) => line,
            Err(Trouble::Closed) => continue,
            Err(late) => {
                shared.fail(format!("{}: reattach: {late}", chatter.name));
                return None;
            }
        };
        let Some(result) = result_of(1, &state).filter(|result| result.starts_with(r#"{"found":true,"#)) else {
            shared.fail(format!("{}: reattach was answered with {state}", chatter.name));
            return None;
        };
        let now = number(&result, "stdinApplied");
        if now < applied || now > highest {
            shared
                .fail(format!("{}: stdinApplied is {now}; {applied} were confirmed and {highest} sent", chatter.name));
            return None;
        }
        // Asked on a connection of its own: attaching also subscribes, and input needs no frames.
        drop(client);
        let mut client = shared.connect()?;
        unconfirmed.drain(..usize::try_from(now - applied).expect("it fits in memory"));
        applied = now;
        if all_said && unconfirmed.is_empty() {
            return Some(applied);
        }
        match feed_connection(
            shared,
            chatter,
            &mut client,
            &mut random,
            &mut lines,
            &mut unconfirmed,
            &mut applied,
            &mut highest,
            &mut all_said,
        ) {
            Ok(true) => return Some(applied),
            Ok(false) => {}
            Err(reason) => {
                shared.fail(format!("{}: {reason}", chatter.name));
                return None;
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the loop's state, lent for the life of one connection")]
fn feed_connection(
    shared: &Shared,
    chatter: &Chatter,
    client: &mut Client,
    random: &mut Random,
    lines: &mut Lines,
    unconfirmed: &mut Vec<u8>,
    applied: &mut u64,
    highest: &mut u64,
    all_said: &mut bool,
) -> Result<bool, String> {
    loop {
        if shared.failed() {
            return Ok(false);
        }
        if unconfirmed.len() < 2000 && !*all_said {
            if shared.ending.load(Ordering::SeqCst) {
                unconfirmed.extend_from_slice(b"end\n");
                *all_said = true;
            } else {
                lines.append_next(unconfirmed);
            }
        }
        // A few requests at once, the first sometimes with bytes that were confirmed before.
        let mut requests = Vec::new();
        let mut from = 0;
        for _ in 0..=random.below(3) {
            let to = (from + 1 + random.below(300) as usize).min(unconfirmed.len());
            if from == to {
                break;
            }
            let offset = *applied + from as u64;
            let params =
                format!(r#"{{"id":"{}","data":"{}","offset":{offset}}}"#, chatter.name, base64(&unconfirmed[from..to]));
            *highest = (*highest).max(*applied + to as u64);
            match client.try_begin("process.stdin", &params) {
                Ok(id) => requests.push((id, *applied + to as u64)),
                Err(_) => return Ok(false),
            }
            from = to;
        }
        for (id, end) in requests {
            let line = match client.try_finish(id, wait::LIMIT) {
                Ok(line) => line,
                Err(Trouble::Closed) => return Ok(false),
                Err(late) => return Err(format!("stdin: {late}")),
            };
            let Some(result) = result_of(id, &line) else {
                if shared.refused(&line) {
                    return Ok(false);
                }
                return Err(format!("stdin up to {end} was answered with {line}"));
            };
            let now = number(&result, "applied");
            if now != end {
                return Err(format!("applied is {now} after bytes up to {end} were accepted"));
            }
            let fresh = usize::try_from(now - *applied).expect("it fits in memory");
            unconfirmed.drain(..fresh);
            *applied = now;
            shared.input.fetch_add(fresh as u64, Ordering::Relaxed);
        }
        if *all_said && unconfirmed.is_empty() {
            return Ok(true);
        }
        // A pace, not a synchronisation.
        thread::sleep(Duration::from_micros(random.below(6000)));
    }
}

/// Spawns short children one after the other until the storm ends; each must be told in full.
pub(crate) fn spawn_many(shared: &Shared, seed: u64) -> Option<()> {
    let mut random = Random::new(seed);
    let mut count = 0_u64;
    while !shared.ending.load(Ordering::SeqCst) && !shared.failed() {
        count += 1;
        let name = format!("short{count}");
        let code = random.below(200);
        spawn_one(shared, &name, code)?;
        shared.spawns.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(random.below(10)));
    }
    Some(())
}

fn spawn_one(shared: &Shared, name: &str, code: u64) -> Option<()> {
    let text = format!("I am {name}\n");
    let mut transcript = Transcript::default();
    let mut asked = false;
    while transcript.exit.is_none() {
        let mut client = shared.connect()?;
        let outcome = spawn_or_attach(shared, &mut client, name, &text, code, &mut transcript, &mut asked);
        match outcome {
            Ok(()) | Err(Lost::Closed) => {}
            Err(Lost::Wrong(reason)) => {
                shared.fail(format!("{name}: {reason}"));
                return None;
            }
        }
        if shared.failed() {
            return None;
        }
    }
    if transcript.stdout != text.as_bytes() || transcript.exit != Some(code as i64) {
        shared.fail(format!(
            "{name}: printed {:?} and exited with {:?} instead of {code}",
            String::from_utf8_lossy(&transcript.stdout),
            transcript.exit
        ));
        return None;
    }
    Some(())
}

enum Lost {
    Closed,
    Wrong(String),
}

impl From<Trouble> for Lost {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Closed => Self::Closed,
            late @ Trouble::Late(_) => Self::Wrong(late.to_string()),
        }
    }
}

fn spawn_or_attach(
    shared: &Shared,
    client: &mut Client,
    name: &str,
    text: &str,
    code: u64,
    transcript: &mut Transcript,
    asked: &mut bool,
) -> Result<(), Lost> {
    let mut attached = false;
    if *asked {
        let params = format!(r#"{{"id":"{name}","fromSeq":{}}}"#, transcript.last_seq);
        let line = client.try_call("process.reattach", &params)?;
        attached = line.contains(r#""result":{"found":true,"#);
        if !attached && transcript.frames > 0 {
            return Err(Lost::Wrong(format!("was forgotten after frame {}", transcript.last_seq)));
        }
    }
    if !attached {
        *asked = true;
        let child = hostel_tests::binary::testchild();
        let params = serde_json::json!({"id": name, "command": child, "args": ["say", text, code.to_string()]});
        let line = client.try_call("process.spawn", &params.to_string())?;
        if shared.refused(&line) {
            return Err(Lost::Closed);
        }
        if !line.ends_with(r#""result":{"success":true}}"#) {
            return Err(Lost::Wrong(format!("spawn was answered with {line}")));
        }
    }
    while transcript.exit.is_none() {
        let frame = client.try_frame_of(name, wait::LIMIT)?;
        transcript.take(&frame).map_err(Lost::Wrong)?;
    }
    Ok(())
}

/// Compares what a child wrote down with what was sent and what was seen.
pub(crate) fn compare_with_record(chatter: &Chatter, sent: u64, seen: &[Seen]) -> Result<(), String> {
    let length =
        |stream: &str| fs::metadata(chatter.file(stream)).map(|found| found.len()).map_err(|error| error.to_string());
    let out = Checker::new(Lines::new("out", chatter.seed)).take_file(&chatter.file("out"))?;
    let err = Checker::new(Lines::new("err", chatter.seed)).take_file(&chatter.file("err"))?;
    let read = length("in")?;
    if read != sent {
        return Err(format!("{}: {sent} bytes were accepted, the child read {read}", chatter.name));
    }
    check_input(chatter, &chatter.file("in"), sent)?;
    for view in seen {
        let expected = Seen { out, err, last_seq: view.last_seq, exit: Some(chatter.code) };
        if *view != expected {
            return Err(format!("{}: a client saw {view:?}, the record says {expected:?}", chatter.name));
        }
        if view.last_seq != seen[0].last_seq {
            return Err(format!("{}: clients disagree about the last frame", chatter.name));
        }
    }
    Ok(())
}

fn check_input(chatter: &Chatter, path: &Path, sent: u64) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let Some(body) = bytes.strip_suffix(b"end\n") else {
        return Err(format!("{}: the child's input does not end with the word to end", chatter.name));
    };
    let mut checker = Checker::new(Lines::small("in", chatter.seed));
    checker.take(body).map_err(|reason| format!("{}: what the child read: {reason}", chatter.name))?;
    if checker.bytes + 4 != sent {
        return Err(format!("{}: the child read {} bytes of {sent}", chatter.name, checker.bytes + 4));
    }
    Ok(())
}
