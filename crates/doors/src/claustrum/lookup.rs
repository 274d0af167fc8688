//! Finding the program a command names, the way Go's `os/exec` does.
//!
//! A command with a slash is used as it is. A bare one is searched in the daemon's own `PATH`,
//! whatever `PATH` the child will get. What is found below a relative entry is refused, because
//! the child may start in another directory.
//!
//! Only permissions and kinds are looked at here; whether the kernel can run the file is found out
//! by running it.

use hostel_house::workspace::paths;
use rustix::fs::{Access, AtFlags, CWD};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a bare command names no program; the texts are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No directory of `PATH` has it.
    #[error("exec: {}: executable file not found in $PATH", paths::quoted(.0.as_ref()))]
    NotFound(String),
    /// It was found through a relative entry of `PATH`.
    #[error("exec: {}: cannot run executable found relative to current directory", paths::quoted(.0.as_ref()))]
    Relative(String),
}

/// The file to execute for `command`.
pub fn program(command: &str, path: Option<&OsStr>) -> Result<PathBuf, LookupError> {
    if command.contains('/') {
        return Ok(PathBuf::from(command));
    }
    let entries = path.map(OsStr::as_bytes).unwrap_or_default();
    let found = entries
        .split(|byte| *byte == b':')
        .filter(|_| !entries.is_empty() && !matches!(command, "" | "." | ".."))
        .map(|entry| match entry {
            b"" => Path::new("."),
            entry => Path::new(OsStr::from_bytes(entry)),
        })
        .map(|directory| paths::join(directory, command.as_ref()))
        .find(|candidate| is_executable(candidate));
    match found {
        Some(program) if program.is_absolute() => Ok(program),
        Some(_) => Err(LookupError::Relative(command.to_owned())),
        None => Err(LookupError::NotFound(command.to_owned())),
    }
}

/// Whether this user may execute `candidate`, which must not be a directory.
pub fn is_executable(candidate: &Path) -> bool {
    std::fs::metadata(candidate).is_ok_and(|metadata| !metadata.is_dir())
        && rustix::fs::accessat(CWD, candidate, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_executable_file_wins() {
        let root = tempfile::tempdir().unwrap();
        let [first, second, third] = ["first", "second", "third"].map(|name| root.path().join(name));
        for directory in [&first, &second, &third] {
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::create_dir(first.join("tool")).unwrap();
        std::fs::write(second.join("tool"), "").unwrap();
        std::fs::write(third.join("tool"), "").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(third.join("tool"), mode).unwrap();
        let path = std::env::join_paths([&first, &second, &third]).unwrap();
        assert_eq!(program("tool", Some(&path)), Ok(third.join("tool")));
        assert_eq!(program("a/tool", Some(&path)), Ok(PathBuf::from("a/tool")));
    }

    #[test]
    fn what_is_not_found_is_said_in_gos_words() {
        for (command, path, text) in [
            ("no-such", Some("/usr/bin:/bin"), r#"exec: "no-such": executable file not found in $PATH"#),
            ("sh", None, r#"exec: "sh": executable file not found in $PATH"#),
            ("sh", Some(""), r#"exec: "sh": executable file not found in $PATH"#),
            ("..", Some("/usr/bin"), r#"exec: "..": executable file not found in $PATH"#),
            ("a\"b\n", Some("/bin"), r#"exec: "a\"b\n": executable file not found in $PATH"#),
            (
                "sh",
                Some("../../../../../../../../../../bin"),
                r#"exec: "sh": cannot run executable found relative to current directory"#,
            ),
        ] {
            let error = program(command, path.map(OsStr::new)).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }
}
