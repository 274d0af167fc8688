//! The traffic of the sessions' storm: prompts whose answers are known to the letter, and clients who lose their
//! daemon at any moment and go on with what they know.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hostel_tests::random::Random;
use hostel_tests::wait;
use serde_json::{Value, json};

use super::cast::{Answer, Cast};
use super::native::{Native, Trouble};
use super::resident::codecast_address;

/// Prompts of a session that are under way at once, the running one included.
const AT_ONCE: u64 = 4;

/// How long anything may take that a daemon's death does not explain.
const PATIENCE: Duration = Duration::from_secs(60);

/// A prompt and the pieces its answer comes in.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    pub(crate) pieces: Vec<String>,
    /// A tool leaves this line behind.
    pub(crate) trace: Option<String>,
}

/// How a session is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `session/send` on our own socket.
    Native,
    /// `session/prompt` on the zeroclaw socket.
    Zeroclaw,
    /// `session.send` of the codecast door.
    Codecast,
}

/// A session in the storm.
pub(crate) struct Subject {
    pub(crate) letter: char,
    pub(crate) id: String,
    pub(crate) agent: &'static str,
    pub(crate) way: Way,
    /// What was taken, in order.
    pub(crate) taken: Mutex<Vec<Prompt>>,
    /// Turns whose end was seen.
    pub(crate) ended: AtomicU64,
    /// What a codecast client received, one list for each stream and each answer of `session.reconnect`.
    pub(crate) received: Mutex<Vec<Vec<Value>>>,
    /// Nothing more will be sent.
    pub(crate) complete: AtomicBool,
}

impl Subject {
    pub(crate) fn new(letter: char, id: String, agent: &'static str, way: Way) -> Self {
        Self {
            letter,
            id,
            agent,
            way,
            taken: Mutex::default(),
            ended: AtomicU64::new(0),
            received: Mutex::default(),
            complete: AtomicBool::new(false),
        }
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.lock().expect("nobody panics while holding it").len() as u64
    }

    /// Whether everything that was ever taken has come to its end.
    pub(crate) fn rests(&self) -> bool {
        self.complete.load(Ordering::SeqCst) && self.ended.load(Ordering::SeqCst) >= self.taken()
    }

    /// The next prompt.
    fn prompt(&self, number: u64, work: &Path, random: &mut Random) -> Prompt {
        let mark = format!("{}{number}", self.letter);
        let (text, pieces, trace) = match self.way {
            Way::Zeroclaw => echo_prompt(&mark, random),
            Way::Codecast => unique_prompt(&mark, random),
            Way::Native => played_prompt(&mark, work, random),
        };
        Prompt { text, pieces, trace }
    }
}

fn counted(count: u64) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{number} "))
}

fn played_prompt(mark: &str, work: &Path, random: &mut Random) -> (String, Vec<String>, Option<String>) {
    let mut pieces = vec![mark.to_owned()];
    let (step, trace) = match random.below(5) {
        0 | 1 => {
            let count = 4 + random.below(8);
            pieces.extend(counted(count));
            (format!("slow {count} {}", 5 + random.below(30)), None)
        }
        2 => {
            let count = 100 + random.below(400);
            pieces.extend(counted(count));
            (format!("stream {count}"), None)
        }
        3 => {
            pieces.extend(["tool ", "said: "].map(str::to_owned));
            let file = work.join(format!("{}.traces", &mark[..1]));
            (format!("tool echo {mark} >> {}", file.display()), Some(mark.to_owned()))
        }
        _ => {
            pieces.extend(["thought ".to_owned(), "about ".to_owned(), mark.to_owned()]);
            (format!("think {mark}"), None)
        }
    };
    (format!("say {mark}\n{step}"), pieces, trace)
}

/// Pieces that are told apart wherever they turn up: this door's events have no numbers.
fn unique_prompt(mark: &str, random: &mut Random) -> (String, Vec<String>, Option<String>) {
    let mut pieces = Vec::new();
    let mut lines = Vec::new();
    for number in 0..3 + random.below(5) {
        lines.push(format!("say {mark}.{number}"));
        lines.push(format!("slow 1 {}", 5 + random.below(30)));
        pieces.extend([format!("{mark}.{number}"), "0 ".to_owned()]);
    }
    let words: Vec<String> = (0..1 + random.below(100)).map(|number| format!("{mark}.w{number}")).collect();
    lines.push(format!("say {}", words.join(" ")));
    let last = words.len() - 1;
    pieces.extend(words.iter().enumerate().map(|(at, word)| if at < last { format!("{word} ") } else { word.clone() }));
    (lines.join("\n"), pieces, None)
}

fn echo_prompt(mark: &str, random: &mut Random) -> (String, Vec<String>, Option<String>) {
    let whole = |text: &str| vec![text.to_owned()];
    let (text, pieces) = match random.below(6) {
        0 => ("sleep 0.1".to_owned(), vec!["sleeping".to_owned(), " done".to_owned()]),
        1 => ("tool".to_owned(), whole("tool done")),
        2 => ("think".to_owned(), whole("thought done")),
        3 => ("big 64".to_owned(), vec!["x".repeat(32 << 10); 2]),
        4 => {
            let count = 100 + random.below(2000);
            (format!("stream {count}"), counted(count).collect())
        }
        _ => (format!("hello {mark}"), whole(&format!("echo: hello {mark}"))),
    };
    (text, pieces, None)
}

/// What all threads of a storm share.
pub(crate) struct Shared {
    run: PathBuf,
    work: PathBuf,
    /// Set when the killing is over and everything should come to its end.
    pub(crate) ending: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Updates that were seen.
    pub(crate) updates: AtomicU64,
    /// Prompts that were taken.
    pub(crate) acks: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Acknowledgements that were lost with their daemon.
    pub(crate) unsure: AtomicU64,
    /// Streams that were cut off.
    pub(crate) cut: AtomicU64,
}

impl Shared {
    pub(crate) fn new(run: PathBuf, work: PathBuf) -> Self {
        Self {
            run,
            work,
            ending: AtomicBool::new(false),
            failure: Mutex::default(),
            updates: AtomicU64::new(0),
            acks: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            unsure: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    /// Notes the first failure; everybody stops at it.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.lock().expect("nobody panics while holding it").get_or_insert(reason);
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("nobody panics while holding it").clone()
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst) || self.failure().is_some()
    }

    /// Waits for something that must come, however often the daemon dies meanwhile.
    fn wait<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
        let found = wait::attempt_often(PATIENCE, Duration::from_millis(5), || {
            if self.failure().is_some() { Some(None) } else { probe().map(Some) }
        });
        if found.is_none() {
            self.fail(format!("waited {PATIENCE:?} in vain for {what}"));
        }
        found.flatten()
    }

    /// A connection, however long the daemon takes to come back.
    pub(crate) fn connect(&self, socket: &str) -> Option<Native> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.wait("a connection", || Native::introduced(&self.run.join(socket)).ok())
    }

    fn cast(&self) -> Option<Cast> {
        self.wait("the codecast port", || codecast_address(&self.run.join("http.port")).ok().map(Cast::new))
    }

    /// How many prompts of a session the house has: what an acknowledgement that got lost had said.
    fn count(&self, session: &str) -> Option<u64> {
        self.wait("the session's turns", || {
            let mut native = Native::introduced(&self.run.join("hostel.sock")).ok()?;
            native.listed(session).ok()?["turns"].as_u64()
        })
    }

    fn took(&self, subject: &Subject, prompt: &Prompt) {
        subject.taken.lock().expect("nobody panics while holding it").push(prompt.clone());
        self.acks.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a prompt whose acknowledgement was lost, if the house has it. `None` when the storm has failed.
    fn settle(&self, subject: &Subject, prompt: &Prompt) -> Option<bool> {
        self.unsure.fetch_add(1, Ordering::Relaxed);
        let known = subject.taken();
        let count = self.count(&subject.id)?;
        if count != known && count != known + 1 {
            self.fail(format!(
                "{}: {known} prompts were taken and one may have been, but there are {count}",
                subject.letter
            ));
            return None;
        }
        if count > known {
            self.took(subject, prompt);
        }
        Some(count > known)
    }

    /// Waits until a session may have another prompt. `false` when there is to be none.
    fn room(&self, subject: &Subject) -> bool {
        let free = || subject.taken() < subject.ended.load(Ordering::SeqCst) + AT_ONCE;
        self.wait("room in the queue", || (self.is_ending() || free()).then_some(())).is_some() && !self.is_ending()
    }
}

/// Feeds a session until the storm is over.
pub(crate) fn feed(shared: &Shared, subject: &Subject, seed: u64) {
    let mut random = Random::new(seed);
    let done = match subject.way {
        Way::Native => feed_native(shared, subject, &mut random),
        Way::Zeroclaw => feed_zeroclaw(shared, subject, &mut random),
        Way::Codecast => feed_codecast(shared, subject, &mut random),
    };
    if done.is_none() {
        shared.fail(format!("{}: the feeder gave up", subject.letter));
    }
    subject.complete.store(true, Ordering::SeqCst);
}

fn feed_native(shared: &Shared, subject: &Subject, random: &mut Random) -> Option<()> {
    let mut native = shared.connect("hostel.sock")?;
    while shared.room(subject) {
        let prompt = subject.prompt(subject.taken(), &shared.work, random);
        loop {
            let params = json!({"session_id": subject.id, "prompt": prompt.text});
            match native.call("session/send", params) {
                Ok(_) => {
                    shared.took(subject, &prompt);
                    break;
                }
                Err(Trouble::Lost) => {
                    native = shared.connect("hostel.sock")?;
                    if shared.settle(subject, &prompt)? {
                        break;
                    }
                }
                Err(trouble) => {
                    shared.fail(format!("{}: session/send: {trouble}", subject.letter));
                    return None;
                }
            }
        }
    }
    Some(())
}

/// Several prompts at once on one connection, each answered when its turn has ended.
fn feed_zeroclaw(shared: &Shared, subject: &Subject, random: &mut Random) -> Option<()> {
    let mut peer = shared.connect("zeroclaw.sock")?;
    let mut open: VecDeque<(u64, Prompt)> = VecDeque::new();
    loop {
        let mut lost = false;
        while !lost && open.len() < 3 && !shared.is_ending() {
            let prompt = subject.prompt(subject.taken() + open.len() as u64, &shared.work, random);
            match peer.begin("session/prompt", json!({"session_id": subject.id, "prompt": prompt.text})) {
                Ok(id) => open.push_back((id, prompt)),
                Err(_) => lost = true,
            }
        }
        let Some((id, prompt)) = open.front().filter(|_| !lost) else {
            if lost {
                peer = settle_all(shared, subject, &mut open)?;
                continue;
            }
            return Some(());
        };
        match peer.finish(*id) {
            Ok(result) => {
                let expected = prompt.pieces.concat();
                if result["stop_reason"] != "end_turn" || result["content"] != expected.as_str() {
                    shared.fail(format!("{}: {:?} was answered with {result}", subject.letter, prompt.text));
                    return None;
                }
                shared.took(subject, prompt);
                open.pop_front();
            }
            Err(Trouble::Lost) => peer = settle_all(shared, subject, &mut open)?,
            Err(trouble) => {
                shared.fail(format!("{}: session/prompt: {trouble}", subject.letter));
                return None;
            }
        }
    }
}

/// What became of prompts whose connection is gone: they are taken one after the other, so it is a matter of counting.
fn settle_all(shared: &Shared, subject: &Subject, open: &mut VecDeque<(u64, Prompt)>) -> Option<Native> {
    let peer = shared.connect("zeroclaw.sock")?;
    shared.unsure.fetch_add(open.len() as u64, Ordering::Relaxed);
    let known = subject.taken();
    let count = shared.count(&subject.id)?;
    let more = count.checked_sub(known).filter(|more| *more <= open.len() as u64);
    let Some(more) = more else {
        shared.fail(format!("{}: {known} + {} prompts, but there are {count} turns", subject.letter, open.len()));
        return None;
    };
    for (_, prompt) in open.drain(..).take(usize::try_from(more).unwrap_or(0)) {
        shared.took(subject, &prompt);
    }
    Some(peer)
}

/// A stream for the first prompt; those that are sent meanwhile are answered with their place in the queue.
fn feed_codecast(shared: &Shared, subject: &Subject, random: &mut Random) -> Option<()> {
    let following = AtomicU64::new(0);
    thread::scope(|scope| {
        let following = &following;
        while shared.room(subject) {
            let prompt = subject.prompt(subject.taken(), &shared.work, random);
            loop {
                let sent = shared.cast()?.send(&subject.id, &prompt.text);
                let first = sent.and_then(|mut answer| Ok((answer.event()?, answer)));
                match first {
                    Ok((Some(event), _)) if event["type"] == "queued" => shared.took(subject, &prompt),
                    Ok((Some(event), answer)) if event["type"] == "ping" => {
                        shared.took(subject, &prompt);
                        following.fetch_add(1, Ordering::SeqCst);
                        let place = open_list(subject);
                        scope.spawn(move || {
                            follow(shared, subject, answer, place);
                            following.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                    Ok((event, _)) => {
                        shared.fail(format!("{}: session.send was answered with {event:?}", subject.letter));
                        return None;
                    }
                    Err(_) => {
                        if !shared.settle(subject, &prompt)? {
                            continue;
                        }
                        reconnect(shared, subject)?;
                    }
                }
                break;
            }
            // Nobody follows: now and then the queue goes on without a reader, mostly a new stream is waited for.
            while following.load(Ordering::SeqCst) == 0 && !shared.is_ending() {
                reconnect(shared, subject)?;
                let idle = subject.ended.load(Ordering::SeqCst) >= subject.taken();
                if idle || random.below(20) == 0 {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Some(())
    })
}

/// A new list for what is received, and its place.
fn open_list(subject: &Subject) -> usize {
    let mut received = subject.received.lock().expect("nobody panics while holding it");
    received.push(Vec::new());
    received.len() - 1
}

/// Reads a stream to its end, or until its daemon dies.
fn follow(shared: &Shared, subject: &Subject, mut answer: Answer, place: usize) {
    loop {
        match answer.event() {
            Ok(Some(event)) => subject.received.lock().expect("nobody panics while holding it")[place].push(event),
            Ok(None) => return,
            Err(_) => {
                shared.cut.fetch_add(1, Ordering::Relaxed);
                reconnect(shared, subject);
                return;
            }
        }
    }
}

/// Fetches what no stream has brought.
pub(crate) fn reconnect(shared: &Shared, subject: &Subject) -> Option<usize> {
    let fetched = shared.wait("session.reconnect", || {
        let cast = codecast_address(&shared.run.join("http.port")).ok().map(Cast::new)?;
        cast.call("session.reconnect", &json!({"sessionId": subject.id})).ok()
    });
    let events = fetched?["bufferedEvents"].as_array().cloned().unwrap_or_default();
    let count = events.len();
    let place = open_list(subject);
    subject.received.lock().expect("nobody panics while holding it")[place] = events;
    Some(count)
}
