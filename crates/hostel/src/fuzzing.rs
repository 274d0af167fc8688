//! What the fuzzer may call: the two readers of text that strangers write and no socket carries.
//!
//! Not an interface for anybody else; it may change at any time.

use std::ffi::OsString;
use std::path::Path;

use crate::claustrum::flags;
use crate::config::Settings;

/// The claustrum command line, read: every flag with its value, or the refusal, as text to compare.
///
/// # Errors
/// What the words are refused with.
pub fn claustrum_flags(words: &[OsString]) -> Result<String, String> {
    flags::parse(words).map(|flags| format!("{flags:?} {:?}", flags.mode())).map_err(|refusal| format!("{refusal:?}"))
}

/// The settings of `file` under `flags`: key, value and origin of each.
///
/// # Errors
/// What the command line would print.
pub fn settings(file: &Path, flags: &[String]) -> Result<Vec<(String, String, String)>, String> {
    Settings::load(file, flags).map(|settings| settings.rows()).map_err(|error| error.to_string())
}
