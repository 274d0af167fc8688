//! The claustrum personality: that program's flags, paths, messages and exit codes.
//!
//! Invariant: nothing is printed that the contract does not have; our own remarks go to our own log.
//!
//! The protocol itself is in `hostel_doors::claustrum`; this is the program around it.

mod bridge;
pub(crate) mod flags;
mod install;
mod serve;
mod stop;

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use hostel_house::workspace::errno::errno_of;
use hostel_house::workspace::errno::errno_text;

use flags::Flags;
use flags::Mode;
use flags::Refusal;

/// What the personality calls itself unless the configuration says otherwise.
pub(crate) const DEFAULT_VERSION: &str = concat!("hostel-", env!("CARGO_PKG_VERSION"));

/// When it was built, if the build said so.
const BUILT: &str = match option_env!("HOSTEL_BUILD_TIME") {
    Some(time) => time,
    None => "unknown",
};

/// The whole program: `called` is the name it was called by, `words` what came after.
pub(crate) fn main(called: &OsStr, words: &[OsString]) -> ExitCode {
    let flags = match flags::parse(words) {
        Ok(flags) => flags,
        Err(Refusal::Help) => {
            say(&flags::usage(called));
            return ExitCode::SUCCESS;
        }
        Err(Refusal::Bad(message)) => {
            let mut text = message.into_bytes();
            text.push(b'\n');
            text.extend_from_slice(&flags::usage(called));
            say(&text);
            return ExitCode::from(2);
        }
    };
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else {
        return fail("cannot resolve home directory: $HOME is not defined");
    };
    match flags.mode() {
        Some(Mode::Version) => version(),
        Some(Mode::Install) => install::run(&flags),
        Some(Mode::Stop) => stop::run(&socket(&flags, &home)),
        Some(Mode::Bridge) => bridge::run(&socket(&flags, &home)),
        Some(Mode::Serve) => serve::run(called, words, &flags, &socket(&flags, &home)),
        None => {
            complain("one of --version/--install/--serve/--bridge/--stop is required");
            ExitCode::from(2)
        }
    }
}

/// The socket that was named, else the contract's own.
fn socket(flags: &Flags, home: &OsStr) -> PathBuf {
    if flags.socket.is_empty() {
        return Path::new(home).join(".claude/remote/rpc.sock");
    }
    PathBuf::from(&flags.socket)
}

fn version() -> ExitCode {
    let line = format!("claustrum {} (built {BUILT})\n", reported_version());
    // Somebody who closes our stdout does not want the version.
    io::stdout().lock().write_all(line.as_bytes()).unwrap_or_default();
    ExitCode::SUCCESS
}

/// The version the door and the facts report: the configuration's, else our own. A broken configuration is
/// reported where it matters, by `-serve`.
pub(crate) fn reported_version() -> String {
    crate::paths::home(None)
        .and_then(|home| crate::config::Settings::load(&crate::paths::HouseDir::at(home).config_file(), &[]))
        .ok()
        .and_then(|settings| settings.claustrum.reported_version)
        .unwrap_or_else(|| DEFAULT_VERSION.to_owned())
}

/// Bytes on standard error, as they are.
fn say(text: &[u8]) {
    io::stderr().lock().write_all(text).unwrap_or_default();
}

/// A line on standard error under the program's name.
fn complain(message: &str) {
    say(format!("claustrum: {message}\n").as_bytes());
}

/// The same, and exit code 1.
fn fail(message: &str) -> ExitCode {
    complain(message);
    ExitCode::FAILURE
}

/// A failed socket operation in Go's words: `dial unix /p: connect: connection refused`.
fn socket_error(operation: &str, path: &Path, call: &str, error: &io::Error) -> String {
    format!("{operation} unix {}: {call}: {}", path.display(), errno_text(errno_of(error)))
}
