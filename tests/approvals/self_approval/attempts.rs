//! What somebody who may not could try, and how they could hide while they do.

use std::path::Path;

use hostel_tests::binary;
use serde_json::{Value, json};

use crate::self_approval::home::{Home, PASSPHRASE};

/// How somebody hides where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evasion {
    None,
    /// A session of its own.
    Setsid,
    /// An orphan.
    DoubleFork,
    /// An orphan in a session of its own, without a single variable.
    DoubleForkEmpty,
    /// The same, with every limit that could tell something set anew.
    DoubleForkLimits,
}

pub(crate) const EVASIONS: [Evasion; 5] =
    [Evasion::None, Evasion::Setsid, Evasion::DoubleFork, Evasion::DoubleForkEmpty, Evasion::DoubleForkLimits];

/// One thing to try.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// Lines on a socket; the last of them matters.
    Lines(&'static str, Vec<String>),
    /// A command of ours that reads the passphrase.
    Command(String),
}

fn line(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn introduction() -> String {
    line(1, "initialize", &json!({"protocol_version": 1}))
}

fn quoted(text: &str) -> String {
    assert!(!text.contains('\''), "{text}");
    format!("'{text}'")
}

impl Attempt {
    #[expect(clippy::needless_pass_by_value, reason = "callers write the params in place")]
    pub(crate) fn native(method: &str, params: Value) -> Self {
        Attempt::Lines("hostel.sock", vec![introduction(), line(2, method, &params)])
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write the params in place")]
    pub(crate) fn zeroclaw(method: &str, params: Value) -> Self {
        Attempt::Lines("zeroclaw.sock", vec![introduction(), line(2, method, &params)])
    }

    /// Shows the passphrase first and decides then.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the params in place")]
    pub(crate) fn unlocked(params: Value) -> Self {
        let unlock = line(2, "approval/unlock", &json!({"passphrase": PASSPHRASE}));
        Attempt::Lines("hostel.sock", vec![introduction(), unlock, line(3, "approval/decide", &params)])
    }

    pub(crate) fn command(home: &Home, arguments: &[&str]) -> Self {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        let program = quoted(&binary::hostel().display().to_string());
        Attempt::Command(format!(
            "HOSTEL_HOME={} HOME=/nonexistent {program} {}",
            quoted(&home.hostel_home().display().to_string()),
            words.join(" ")
        ))
    }

    /// A line of shell that tries it and leaves what was heard in a file.
    pub(crate) fn script(&self, home: &Home, evasion: Evasion, heard: &Path) -> String {
        let heard = heard.display();
        let deed = match self {
            Attempt::Lines(socket, lines) => {
                let lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
                let (speaker, socket) = (binary::speaker(), home.socket(socket));
                format!("'{}' '{}' '{heard}' {}", speaker.display(), socket.display(), lines.join(" "))
            }
            Attempt::Command(command) => {
                format!(
                    "echo '{PASSPHRASE}' | {command} > '{heard}.draft' 2>&1; echo \"exit $?\" >> '{heard}.draft'; mv '{heard}.draft' '{heard}'"
                )
            }
        };
        // In a file of its own: it is full of quotes.
        let script = format!("{heard}.sh");
        std::fs::write(&script, deed).expect("a script");
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        match evasion {
            Evasion::None => format!("sh '{script}'"),
            Evasion::Setsid => format!("setsid --wait sh '{script}'"),
            Evasion::DoubleFork => format!("( ( sh '{script}' & ) & )"),
            Evasion::DoubleForkEmpty => format!("( env -i {path} setsid --fork sh '{script}' & )"),
            Evasion::DoubleForkLimits => {
                format!("( env -i {path} setsid --fork prlimit --locks=77 --nofile=777 sh '{script}' & )")
            }
        }
    }

    /// It was refused, because of who tried.
    pub(crate) fn check_refused(&self, heard: &str, what: &str) {
        self.check_refused_as(heard, "inside this house", what);
    }

    pub(crate) fn check_refused_as(&self, heard: &str, why: &str, what: &str) {
        match self {
            Attempt::Lines(..) => {
                let last = heard.lines().last().unwrap_or_default();
                let answer: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{what}: {heard:?}"));
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                // Who could not unlock is told that it takes the passphrase.
                let locked = matches!(self, Attempt::Lines(_, lines) if lines.len() == 3) && heard.contains(why);
                assert!(message.contains(why) || (locked && answer.get("error").is_some()), "{what}: {heard}");
            }
            Attempt::Command(_) => {
                assert!(heard.contains(why), "{what}: {heard}");
                assert!(!heard.ends_with("exit 0\n"), "{what}: {heard}");
            }
        }
    }
}
