//! What the fuzzer may call: the readers of text that strangers write and no socket carries.
//!
//! Not an interface for anybody else; it may change at any time.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::path::PathBuf;

use crate::claustrum::flags;
use crate::codecast::options::Options;
use crate::config::Settings;
use crate::zeroclaw;

/// The claustrum command line, read: every flag with its value, or the refusal, as text to compare.
///
/// # Errors
/// What the words are refused with.
pub fn claustrum_flags(words: &[OsString]) -> Result<String, String> {
    flags::parse(words).map(|flags| format!("{flags:?} {:?}", flags.mode())).map_err(|refusal| format!("{refusal:?}"))
}

/// The zeroclaw command line, read: what is wanted, as text to compare.
///
/// # Errors
/// What the words are refused with.
pub fn zeroclaw_flags(words: &[OsString]) -> Result<String, String> {
    zeroclaw::flags::parse(words).map(|task| format!("{task:?}"))
}

/// The settings of `file` under `flags`: key, value and origin of each.
///
/// # Errors
/// What the command line would print.
pub fn settings(file: &Path, flags: &[String]) -> Result<Vec<(String, String, String)>, String> {
    Settings::load(file, flags).map(|settings| settings.rows()).map_err(|error| error.to_string())
}

/// What a codecast daemon is told.
#[derive(Debug, PartialEq)]
pub struct Codecast {
    /// The port to try first.
    pub port: u16,
    /// The address as it was written.
    pub bind: String,
    /// The address, or why it is none.
    pub address: Result<IpAddr, String>,
    /// The files of tokens, certificate and key.
    pub files: [Option<PathBuf>; 3],
}

/// The options of a `daemon.yaml` under two variables, and what was wrong with the file.
pub fn codecast_options(file: &Path, port: Option<&str>, bind: Option<&str>) -> (Codecast, Option<String>) {
    let (options, problem) = Options::read(file);
    let options = options.over(port, bind);
    let address = options.address();
    let files = [options.tokens_file, options.tls_cert, options.tls_key];
    (Codecast { port: options.port, bind: options.bind, address, files }, problem)
}
