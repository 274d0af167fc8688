//! The codecast personality: called as `codecast-daemon`, that program's arguments, files, port and end.
//!
//! Invariant: it never goes into the background, and whoever looks for the daemon finds it as the real one is found: by
//! its name in the process list, by its port file, by the line it prints.
//!
//! The protocol itself is in `hostel_doors::codecast`; this is the program around it.

pub(crate) mod options;
mod port;
mod serve;

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::process::ExitCode;

use crate::config::Settings;
use crate::paths;
use crate::paths::HouseDir;

pub(crate) use port::PortFile;

/// The name it is called by.
pub(crate) const NAME: &str = "codecast-daemon";

/// The whole program. All arguments but two are ignored, by contract.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    if words.iter().any(|word| word == "--version" || word == "-V") {
        let line = format!("{NAME} {}\n", reported_version());
        // Somebody who closes our stdout does not want the version.
        io::stdout().lock().write_all(line.as_bytes()).unwrap_or_default();
        return ExitCode::SUCCESS;
    }
    match serve::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            io::stderr().lock().write_all(format!("{NAME}: {message}\n").as_bytes()).unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

/// The version that is reported. A broken configuration is reported where it matters, at the start.
fn reported_version() -> String {
    paths::home(None)
        .and_then(|home| Settings::load(&HouseDir::at(home).config_file(), &[]))
        .unwrap_or_default()
        .codecast
        .reported_version
}
