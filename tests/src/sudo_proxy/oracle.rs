//! The real sudo-proxy programs, to compare with.
//!
//! `SUDO_PROXY_120` names the directory they are in. Without it they are where `scripts/setup`
//! installs tools.

use std::env;
use std::path::PathBuf;

use crate::{binary, skip};

/// The version ours is compared with.
pub const VERSION: &str = "1.2.0";

/// The directory of the real programs.
///
/// # Errors
/// Why they are not to be had here.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("SUDO_PROXY_120") {
        let path = PathBuf::from(path);
        let found = [path.clone(), path.join("bin")].into_iter().find(|folder| folder.join("sudo-proxy").is_file());
        return found.ok_or_else(|| format!("SUDO_PROXY_120={} holds no sudo-proxy", path.display()));
    }
    let folder = binary::tools().join(format!("sudo-proxy-{VERSION}/bin"));
    if folder.join("sudo-proxy").is_file() { Ok(folder) } else { Err("scripts/setup installs it".to_owned()) }
}

/// One of the real programs; none where they are not installed, and then the reason is printed.
pub fn program(name: &str) -> Option<PathBuf> {
    match find() {
        Ok(folder) => Some(folder.join(name)),
        Err(reason) => {
            skip(&format!("the real {name} {VERSION} is not installed: {reason}"));
            None
        }
    }
}
