//! The real claustrum, to compare with.
//!
//! `CLAUSTRUM_140` and `CLAUSTRUM_180` name the programs. Without them a copy is built with `go
//! install` into `.oracles/` at the root of the repository and kept there. Where that is impossible the
//! caller gets the reason and must say loudly that it compares with nothing.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::binary;

const MODULE: &str = "github.com/schubydoo/claustrum";

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
    let folder = binary::repository().join(".oracles").join(version);
    let program = folder.join("claustrum");
    if program.is_file() {
        return Ok(program);
    }
    let output = Command::new("go")
        .args(["install", &format!("{MODULE}@v{version}")])
        .env("GOBIN", &folder)
        .env("GOFLAGS", "")
        .output()
        .map_err(|error| format!("go cannot be run ({error})"))?;
    if output.status.success() && program.is_file() {
        return Ok(program);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().last().unwrap_or("no message").trim();
    Err(format!("go install {MODULE}@v{version} failed: {last}"))
}
