//! Which file a command means.
//!
//! Invariant: a name without a slash is looked up in the caller's own `PATH`, a name with one is taken from the
//! directory the process will start in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

/// Where to look when the caller has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file to run; none if the name is nowhere in the path.
pub fn resolve(command: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        // Whether it can be run is for the system to say, in its own words.
        return Some(cwd.join(command));
    }
    if command.is_empty() {
        return None;
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|directory| match directory {
            b"" => cwd.join(command),
            directory => cwd.join(OsStr::from_bytes(directory)).join(command),
        })
        .find(|candidate| {
            candidate.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        let scratch = tempfile::tempdir().unwrap();
        let bin = scratch.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let program = bin.join("tool");
        std::fs::write(&program, "").unwrap();
        let find = |command: &str, path: &str| resolve(command.as_ref(), Some(path.as_ref()), scratch.path());
        assert_eq!(find("tool", "/nowhere:bin"), None, "not executable yet");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("tool", "/nowhere:bin"), Some(program.clone()));
        assert_eq!(find("bin", "."), None, "a directory is no program");
        assert_eq!(find("bin/tool", ""), Some(program));
        assert_eq!(find("./missing", ""), Some(scratch.path().join("./missing")));
        assert_eq!(find("", "bin"), None);
    }
}
