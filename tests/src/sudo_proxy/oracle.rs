//! The real sudo-proxy programs, to compare with.
//!
//! `SUDO_PROXY_120` names the directory they are in. Without it they are built by `tests/sudo_proxy/install` into
//! `.oracles/` at the root of the repository and kept there. Where that is impossible the caller gets the reason and
//! must say loudly that it compares with nothing.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::binary;

/// The version ours is compared with.
pub const VERSION: &str = "1.2.0";

/// The directory of the real programs.
///
/// # Errors
/// Why they are not to be had here.
pub fn find() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(look).clone()
}

/// One of the real programs; says loudly that there is none.
pub fn program(name: &str) -> Option<PathBuf> {
    match find() {
        Ok(folder) => Some(folder.join(name)),
        Err(reason) => {
            eprintln!("\n==== SKIPPED: the real {name} {VERSION} is not to be had: {reason} ====\n");
            None
        }
    }
}

fn look() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("SUDO_PROXY_120") {
        let path = PathBuf::from(path);
        let found = [path.clone(), path.join("bin")].into_iter().find(|folder| folder.join("sudo-proxy").is_file());
        return found.ok_or_else(|| format!("SUDO_PROXY_120={} holds no sudo-proxy", path.display()));
    }
    let prefix = binary::repository().join(".oracles").join(format!("sudo-proxy-{VERSION}"));
    let output = Command::new(binary::repository().join("tests/sudo_proxy/install"))
        .arg(&prefix)
        .output()
        .map_err(|error| format!("tests/sudo_proxy/install cannot be run ({error})"))?;
    if output.status.success() {
        return Ok(prefix.join("bin"));
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(complaint.lines().last().unwrap_or("no message").trim().to_owned())
}
