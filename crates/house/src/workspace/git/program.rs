//! Which git is run, and whether it can be sealed.
//!
//! A git that is a program file can be sealed: the kernel refuses it every other program. A git that is a script, or that
//! starts another program to do its work, cannot. Such a git is run with the other layers of protection alone (see
//! `hardening`). Which of the two it is is found by trying, once for each program file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// From this version on `git worktree add` starts no other git for a branch that exists.
const LONE_WORKTREE_ADD: (u32, u32) = (2, 46);

/// What is known of a program file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The file; none if git cannot be sealed.
    pub(super) sealable: Option<PathBuf>,
    /// The first two numbers of its version; none if it is not known.
    version: Option<(u32, u32)>,
}

impl Program {
    /// A program that cannot be sealed.
    pub(super) const UNSEALED: Self = Self { sealable: None, version: None };

    /// A program that gave this answer to `--version` while it was sealed.
    pub(super) fn sealed(path: PathBuf, answer: &[u8]) -> Self {
        Self { sealable: Some(path), version: version(answer) }
    }

    /// Whether `git worktree add` can do its work without starting another git.
    pub(super) fn adds_worktrees_alone(&self) -> bool {
        self.version.is_none_or(|version| version >= LONE_WORKTREE_ADD)
    }
}

/// What names a file for good, until its content changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// A program file that may be sealed, if trying works.
pub(super) fn candidate(program: &Path, search_path: Option<&OsStr>) -> Option<(PathBuf, Identity)> {
    let path = find(program, search_path)?;
    let mut file = File::open(&path).ok()?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic).ok()?;
    let metadata = file.metadata().ok().filter(|_| magic == *b"\x7fELF")?;
    let identity = Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    Some((path, identity))
}

/// The file that the kernel would execute for a name.
fn find(program: &Path, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(program.to_path_buf()).filter(is_program);
    }
    std::env::split_paths(search_path?).map(|directory| directory.join(program)).find(is_program)
}

/// The numbers in `git version 2.39.5 (vendor)`.
fn version(answer: &[u8]) -> Option<(u32, u32)> {
    let text = str::from_utf8(answer).ok()?.strip_prefix("git version ")?;
    let mut numbers = text.split(['.', ' ', '\n', '-']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (answer, numbers, alone) in [
            ("git version 2.39.5\n", Some((2, 39)), false),
            ("git version 2.5.0\n", Some((2, 5)), false),
            ("git version 2.46.0 (Apple Git-1)\n", Some((2, 46)), true),
            ("git version 2.55.GIT\n", Some((2, 55)), true),
            ("git version 3.0.rc1\n", Some((3, 0)), true),
            ("git version next\n", None, true),
            ("something else 1.2\n", None, true),
        ] {
            let program = Program::sealed(PathBuf::from("git"), answer.as_bytes());
            assert_eq!((program.version, program.adds_worktrees_alone()), (numbers, alone), "{answer}");
        }
    }

    #[test]
    fn only_program_files_are_candidates() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([directory.path(), Path::new("/bin")]).unwrap();
        assert_eq!(candidate(Path::new("script"), Some(&path)), None);
        assert_eq!(candidate(&script, None), None);
        assert_eq!(candidate(Path::new("/dev/null"), None), None);
        assert_eq!(candidate(Path::new("sh"), None), None, "there is no search path");
        let found = candidate(Path::new("sh"), Some(&path)).unwrap();
        assert_eq!(found.0, Path::new("/bin/sh"));
        assert_eq!(candidate(Path::new("/bin/sh"), None).unwrap(), found);
    }
}
