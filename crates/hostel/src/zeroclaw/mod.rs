//! The zeroclaw personality: called as `zeroclaw daemon`, that program's flags, variables, socket and end.
//!
//! Invariant: it never goes into the background, and the process id it tells is its own: the real client, which starts
//! the daemon itself, compares.
//!
//! The protocol itself is in `hostel_doors::zeroclaw`; this is the program around it.

pub(crate) mod endpoint;
pub(crate) mod flags;
mod place;
mod serve;

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::process::ExitCode;

use crate::config::Settings;
use crate::paths;
use crate::paths::HouseDir;
use flags::Task;

/// The name it is called by.
pub(crate) const NAME: &str = "zeroclaw";

/// The whole program.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    match flags::parse(words) {
        Ok(Task::Version) => say(&format!("{NAME} {}\n", reported_version())),
        Ok(Task::Help) => say(flags::USAGE),
        Ok(Task::Daemon(flags)) => match serve::run(&flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                complain(&message);
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            complain(&format!("{message}\n{}", flags::USAGE.trim_end()));
            ExitCode::from(2)
        }
    }
}

fn say(text: &str) -> ExitCode {
    // Somebody who closes our stdout does not want to know.
    io::stdout().lock().write_all(text.as_bytes()).unwrap_or_default();
    ExitCode::SUCCESS
}

fn complain(message: &str) {
    io::stderr().lock().write_all(format!("{NAME}: {message}\n").as_bytes()).unwrap_or_default();
}

/// The version that is reported. A broken configuration is reported where it matters, by `daemon`.
fn reported_version() -> String {
    paths::home(None)
        .and_then(|home| Settings::load(&HouseDir::at(home).config_file(), &[]))
        .unwrap_or_default()
        .zeroclaw
        .reported_version
}
