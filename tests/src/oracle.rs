//! The real claustrum, to compare with.
//!
//! `CLAUSTRUM_140` and `CLAUSTRUM_180` name the programs. Without them they are where
//! `scripts/setup` installs tools.

use std::env;
use std::path::PathBuf;

use crate::binary;

/// The versions ours is compared with.
pub const VERSIONS: [&str; 2] = ["1.4.0", "1.8.0"];

/// The program of this version.
///
/// # Errors
/// Why it is not to be had here.
pub fn find(version: &str) -> Result<PathBuf, String> {
    let variable = format!("CLAUSTRUM_{}", version.replace('.', ""));
    if let Some(path) = env::var_os(&variable) {
        let path = PathBuf::from(path);
        return if path.is_file() { Ok(path) } else { Err(format!("{variable}={} is not a file", path.display())) };
    }
    let program = binary::tools().join(format!("claustrum-{version}/claustrum"));
    if program.is_file() { Ok(program) } else { Err("scripts/setup installs it".to_owned()) }
}
