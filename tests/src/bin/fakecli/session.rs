//! Sessions that can be resumed: one file each under `FAKECLI_STATE`.
//!
//! Without that directory nothing is kept and every id can be resumed, except [`UNKNOWN`], which never can.

use std::env;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use crate::out::now_ms;

/// The id no CLI ever finds.
pub(crate) const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";
/// Longest prompt or answer that is kept.
const LONGEST: usize = 1000;

pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) cwd: String,
    /// Prompts and answers so far.
    pub(crate) turns: Vec<(String, String)>,
    /// Tokens read and written over all turns.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// The same of the last turn.
    pub(crate) last: (u64, u64),
}

impl Session {
    /// A new one. `form` has `{}` where the number comes.
    pub(crate) fn create(form: &str, chosen: Option<String>, cwd: &str) -> Self {
        let id = chosen.unwrap_or_else(|| form.replace("{}", &format!("{:012x}", next_number())));
        let session = Session { id, cwd: cwd.to_owned(), turns: Vec::new(), read: 0, written: 0, last: (0, 0) };
        session.save();
        session
    }

    /// An earlier one.
    pub(crate) fn resume(id: &str, cwd: &str) -> Option<Self> {
        let mut session =
            Session { id: id.to_owned(), cwd: cwd.to_owned(), turns: Vec::new(), read: 0, written: 0, last: (0, 0) };
        if id == UNKNOWN {
            return None;
        }
        let Some(path) = session.path() else { return Some(session) };
        let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).expect("a session file is JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        session.cwd = text(&kept["cwd"]);
        session.read = kept["read"].as_u64().unwrap_or(0);
        session.written = kept["written"].as_u64().unwrap_or(0);
        for turn in kept["turns"].as_array().into_iter().flatten() {
            session.turns.push((text(&turn[0]), text(&turn[1])));
        }
        Some(session)
    }

    /// The newest of the state directory.
    pub(crate) fn latest() -> Option<String> {
        let files = fs::read_dir(state()?).ok()?.flatten();
        let sessions = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "json"));
        let newest = sessions.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok())?;
        Some(newest.path().file_stem()?.to_string_lossy().into_owned())
    }

    pub(crate) fn begin(&mut self, prompt: &str) {
        self.turns.push((prompt.chars().take(LONGEST).collect(), String::new()));
        self.last = (words(prompt), 0);
        self.read += self.last.0;
        self.save();
    }

    pub(crate) fn end(&mut self, answer: &str) {
        if let Some(turn) = self.turns.last_mut() {
            turn.1 = answer.chars().take(LONGEST).collect();
        }
        self.last.1 = words(answer);
        self.written += self.last.1;
        self.save();
    }

    fn path(&self) -> Option<PathBuf> {
        // An id comes from the command line and must stay a file name.
        let name: String = self.id.chars().map(|letter| if letter == '/' { '_' } else { letter }).collect();
        Some(state()?.join(format!("{name}.json")))
    }

    fn save(&self) {
        let Some(path) = self.path() else { return };
        let kept = json!({"cwd": self.cwd, "turns": self.turns, "read": self.read, "written": self.written});
        let new = path.with_extension(format!("new{}", std::process::id()));
        fs::write(&new, kept.to_string()).expect("the state directory takes a session");
        fs::rename(new, path).expect("a session file can be replaced");
    }
}

/// A stand-in for tokens.
fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn state() -> Option<PathBuf> {
    let directory = PathBuf::from(env::var_os("FAKECLI_STATE")?);
    fs::create_dir_all(&directory).expect("the state directory can be made");
    Some(directory)
}

/// Never the same twice: counted in the state directory, else made of the process id and the time.
fn next_number() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let Some(directory) = state() else {
        let made = MADE.fetch_add(1, Ordering::SeqCst);
        return (u64::from(std::process::id()) << 24 | (now_ms() & 0xffff) << 8 | (made & 0xff)) & 0xffff_ffff_ffff;
    };
    let path = directory.join("counter");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).expect("the counter opens");
    rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("the counter can be locked");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("the counter is text");
    let number = text.trim().parse::<u64>().unwrap_or(0) + 1;
    file.rewind().expect("a file can be rewound");
    file.write_all(number.to_string().as_bytes()).expect("the counter takes a number");
    number
}
