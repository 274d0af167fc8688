//! What the tests can read afterwards: one JSON line per start, prompt and end in the file `FAKECLI_LOG` names.
//!
//! Each line is one write to a file opened for appending, so many processes may share it.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::{Value, json};

/// Longest part of a prompt that is written down; its length is always told.
const LONGEST: usize = 2000;
/// Beginnings of the variables that are written down.
const VARIABLES: [&str; 12] = [
    "TERM",
    "HOME",
    "IS_SANDBOX",
    "CLAUDE",
    "ANTHROPIC",
    "CODEX",
    "GEMINI",
    "GOOGLE",
    "OPENCODE",
    "HOSTEL",
    "CODECAST",
    "FAKECLI",
];

fn note(line: &Value) {
    let Some(path) = env::var_os("FAKECLI_LOG") else { return };
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the log can be opened");
    file.write_all(format!("{line}\n").as_bytes()).expect("the log takes a line");
}

pub(crate) fn note_start(cli: &str, arguments: &[String]) {
    let variables: serde_json::Map<String, Value> = env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| VARIABLES.iter().any(|beginning| name.starts_with(beginning)))
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    let directory = env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    note(&json!({
        "event": "start", "cli": cli, "pid": std::process::id(), "argv": arguments, "cwd": directory, "env": variables,
    }));
}

pub(crate) fn note_prompt(session: &str, prompt: &str) {
    let shown: String = prompt.chars().take(LONGEST).collect();
    note(&json!({
        "event": "prompt", "pid": std::process::id(), "session": session, "prompt": shown, "length": prompt.len(),
    }));
}

pub(crate) fn note_end(session: &str, ending: &str) {
    note(&json!({"event": "end", "pid": std::process::id(), "session": session, "ending": ending}));
}
