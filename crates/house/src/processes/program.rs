//! Which file a command means.
//!
//! Invariant: a name without a slash is looked up in the caller's own `PATH`, a name with one is taken from the
//! directory the process will start in.
//!
//! Programs that the house starts itself run outside every guard. They are taken from directories that only root can
//! change, so that no agent can put its own program in their place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use hostel_guard::OwnPrograms;

use crate::pipelines::writers;

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
        .find(|candidate| is_program(candidate))
}

/// Where systems keep their programs.
const SYSTEM: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"];

/// A program that the house starts itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnProgram {
    /// The file.
    pub file: PathBuf,
    /// Nobody but root can change it, or have its path lead to another file.
    pub is_protected: bool,
}

/// Finds a program that the house starts itself. Looks at files.
#[must_use]
pub fn own(name: &str, from: OwnPrograms, path: Option<&OsStr>) -> Option<OwnProgram> {
    find_own(name, from, &SYSTEM.map(Path::new), path)
}

fn find_own(name: &str, from: OwnPrograms, system: &[&Path], path: Option<&OsStr>) -> Option<OwnProgram> {
    let mut in_system = system.iter().filter(|_| from == OwnPrograms::System).map(|directory| directory.join(name));
    let protected = |file: &PathBuf| is_program(file) && writers::writers_of(file).is_only_root();
    if let Some(file) = in_system.find(protected) {
        return Some(OwnProgram { file, is_protected: true });
    }
    let directories = std::env::split_paths(path?).filter(|directory| directory.is_absolute());
    let file = directories.map(|directory| directory.join(name)).find(|file| is_program(file))?;
    Some(OwnProgram { is_protected: writers::writers_of(&file).is_only_root(), file })
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_programs_come_from_directories_that_only_root_can_change() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = |name: &str, mode: u32| {
            let directory = scratch.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("tool"), "").unwrap();
            std::fs::set_permissions(directory.join("tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
            directory
        };
        let (open, own) = (directory("open", 0o777), directory("own", 0o755));
        let path = std::env::join_paths([Path::new("relative"), &own, &open]).unwrap();
        let find = |from, system: &[&Path]| find_own("tool", from, system, Some(&path)).unwrap();
        // One that others can change is no program of the system.
        assert_eq!(find(OwnPrograms::System, &[&open]).file, own.join("tool"));
        assert_eq!(find(OwnPrograms::Path, &[&open]).file, own.join("tool"));
        let found = super::own("sh", OwnPrograms::System, Some(&path)).unwrap();
        assert!(found.is_protected && SYSTEM.iter().any(|system| found.file.starts_with(system)), "{found:?}");
        assert_eq!(super::own("sh", OwnPrograms::Path, Some(&path)), None);
        assert_eq!(super::own("no-such-tool", OwnPrograms::System, None), None);
    }

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
