//! The agent CLIs, played: for tests that need an agent which does exactly what the prompt says, at once and
//! with nothing installed.
//!
//! Called as `claude`, `codex`, `gemini` or `opencode` (by a link, or as `fakecli claude …`) it takes that
//! program's arguments, refuses what that program refuses, and speaks its lines as they are today, in the
//! one-turn and in the long-lived mode; called as `acp…` it is a plain ACP agent without arguments. The prompt is
//! the script: see `script.rs` for the words.
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKECLI_LOG` | a file that gets a JSON line for every start (arguments, directory, environment), prompt and end |
//! | `FAKECLI_STATE` | a directory where sessions are kept, so that they can be resumed; without it every id can be |
//!
//! Nothing it leaves behind on purpose lives longer than a quarter of an hour.

#![forbid(unsafe_code)]
#![allow(
    clippy::exit,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test program: it exits with chosen codes and must not go on after a surprise"
)]

mod acp;
mod app_server;
mod claude;
mod claude_lines;
mod codex;
mod gemini;
mod inbox;
mod known;
mod logbook;
mod opencode;
mod options;
mod out;
mod script;
mod session;
mod tools;
mod turn;

use std::env;
use std::ffi::OsString;
use std::path::Path;

fn main() {
    let mut given = env::args_os();
    let first = given.next().unwrap_or_default();
    let mut name = file_name(&first);
    if tools::is_helper(&name) {
        tools::help(&name, given);
    }
    let mut arguments: Vec<String> = given.map(|argument| argument.to_string_lossy().into_owned()).collect();
    if name == "fakecli" && !arguments.is_empty() {
        name = arguments.remove(0);
    }
    logbook::note_start(&name, &arguments);
    match name.as_str() {
        "claude" => claude::main(&arguments),
        "codex" => codex::main(&arguments),
        "gemini" => gemini::main(&arguments),
        "opencode" => opencode::main(&arguments),
        other if other.starts_with("acp") => acp::main(acp::Flavour::Plain, "plain-model", "default", true),
        other => panic!("no CLI is called {other}; known: claude, codex, gemini, opencode, acp"),
    }
}

fn file_name(path: &OsString) -> String {
    Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
