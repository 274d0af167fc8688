//! What every new project gets from `~/.codecast/skills`: the instructions file, and claude's skills.
//!
//! Invariant: a file of the project is never overwritten, and nothing is made outside a project that was there
//! before. Whatever fails is reported and the rest is still copied; no session fails for it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hostel_agents::Kind;

/// How much is copied for one project, and how deep folders may lie in each other.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const DEEPEST: usize = 32;
/// Failures that are told one by one.
const MOST_FAILURES: usize = 20;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Files that were made.
    pub(super) files: usize,
    /// What went wrong, in words.
    pub(super) failures: Vec<String>,
    looked_at: usize,
    bytes: u64,
    full: bool,
}

/// Copies what the project lacks. Blocks.
pub(super) fn copy(home: &Path, project: &Path, kind: Kind) -> Copied {
    let source = home.join(".codecast/skills");
    let mut copied = Copied::default();
    if !source.is_dir() || !project.is_dir() {
        return copied;
    }
    if let Some(name) = instructions(kind) {
        let file = source.join(name);
        if file.is_file() {
            copied.file(&file, &project.join(name));
        }
    }
    if kind == Kind::Claude {
        let skills = Path::new(".claude/skills");
        if source.join(skills).is_dir() {
            copied.folder(&source.join(skills), &project.join(skills), 0);
        }
    }
    copied
}

/// The file an agent reads its instructions from.
fn instructions(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Claude => Some("CLAUDE.md"),
        Kind::Codex | Kind::Opencode => Some("AGENTS.md"),
        Kind::Gemini => Some("GEMINI.md"),
        Kind::Acp | Kind::Echo => None,
    }
}

impl Copied {
    fn failed(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        if self.failures.len() < MOST_FAILURES {
            self.failures.push(format!("{}: {why}", path.display()));
        }
    }

    /// Copies a folder. Links are followed, so depth and count are what ends a circle.
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) {
        if depth > DEEPEST {
            self.failed(from, &"folders lie too deep in each other");
            return;
        }
        let mut names: Vec<PathBuf> = match fs::read_dir(from) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).take(MOST_FILES).collect(),
            Err(error) => return self.failed(from, &error),
        };
        names.sort();
        if let Err(error) = fs::create_dir_all(to) {
            return self.failed(to, &error);
        }
        for path in names {
            let Some(name) = path.file_name() else { continue };
            let target = to.join(name);
            self.looked_at += 1;
            if self.looked_at > MOST_FILES {
                if !self.full {
                    self.full = true;
                    self.failed(&path, &format_args!("more than {MOST_FILES} files: the rest is left out"));
                }
                return;
            }
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.folder(&path, &target, depth + 1),
                // Neither pipes nor devices: reading one may never end.
                Ok(metadata) if metadata.is_file() => self.file(&path, &target),
                Ok(_) => {}
                Err(error) => self.failed(&path, &error),
            }
        }
    }

    fn file(&mut self, from: &Path, to: &Path) {
        match self.new_file(from, to) {
            Ok(()) => self.files += 1,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => self.failed(to, &error),
        }
    }

    fn new_file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // The cheap look first: most projects have been here before.
        if fs::symlink_metadata(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let source = File::open(from)?;
        let metadata = source.metadata()?;
        let left = MOST_BYTES.saturating_sub(self.bytes);
        if metadata.len() > left {
            return Err(io::Error::other(format!("left out: more than {MOST_BYTES} bytes in all")));
        }
        let mode = metadata.permissions().mode() & 0o777;
        let mut target = OpenOptions::new().write(true).create_new(true).mode(mode | 0o200).open(to)?;
        let written = io::copy(&mut io::Read::take(source, left), &mut target);
        match written {
            Ok(bytes) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(error) => {
                // Half a file would never be completed: the next time it is there.
                fs::remove_file(to).ok();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn rooms() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (home, project) = (root.path().join("home"), root.path().join("project"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&project).unwrap();
        (root, home, project)
    }

    #[test]
    fn each_agent_gets_its_own_file() {
        for (kind, name) in [
            (Kind::Claude, "CLAUDE.md"),
            (Kind::Codex, "AGENTS.md"),
            (Kind::Opencode, "AGENTS.md"),
            (Kind::Gemini, "GEMINI.md"),
        ] {
            let (_root, home, project) = rooms();
            for file in ["CLAUDE.md", "AGENTS.md", "GEMINI.md", ".claude/skills/a/SKILL.md"] {
                put(&home.join(".codecast/skills").join(file), file);
            }
            let copied = copy(&home, &project, kind);
            assert!(copied.failures.is_empty(), "{:?}", copied.failures);
            assert_eq!(fs::read_to_string(project.join(name)).unwrap(), name);
            assert_eq!(project.join(".claude/skills/a/SKILL.md").exists(), kind == Kind::Claude);
            assert_eq!(copied.files, if kind == Kind::Claude { 2 } else { 1 });
        }
    }

    #[test]
    fn what_is_there_stays_and_the_rest_is_copied() {
        let (_root, home, project) = rooms();
        put(&home.join(".codecast/skills/CLAUDE.md"), "theirs");
        put(&home.join(".codecast/skills/.claude/skills/a/one"), "theirs");
        put(&home.join(".codecast/skills/.claude/skills/a/two"), "theirs");
        put(&project.join("CLAUDE.md"), "mine");
        put(&project.join(".claude/skills/a/one"), "mine");
        symlink("/nowhere/at/all", project.join(".claude/skills/a/link")).unwrap();
        put(&home.join(".codecast/skills/.claude/skills/a/link"), "theirs");
        let copied = copy(&home, &project, Kind::Claude);
        assert_eq!(copied.files, 1);
        assert!(copied.failures.is_empty(), "{:?}", copied.failures);
        assert_eq!(fs::read_to_string(project.join("CLAUDE.md")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(project.join(".claude/skills/a/one")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(project.join(".claude/skills/a/two")).unwrap(), "theirs");
    }

    #[test]
    fn a_missing_project_is_not_made() {
        let (_root, home, project) = rooms();
        put(&home.join(".codecast/skills/.claude/skills/a"), "x");
        let missing = project.join("missing");
        assert_eq!(copy(&home, &missing, Kind::Claude).files, 0);
        assert!(!missing.exists());
    }

    #[test]
    fn links_are_followed_but_not_in_circles() {
        let (_root, home, project) = rooms();
        put(&home.join("elsewhere/SKILL.md"), "linked");
        let skills = home.join(".codecast/skills/.claude/skills");
        fs::create_dir_all(&skills).unwrap();
        symlink(home.join("elsewhere"), skills.join("linked")).unwrap();
        symlink(&skills, skills.join("circle")).unwrap();
        let copied = copy(&home, &project, Kind::Claude);
        assert_eq!(fs::read_to_string(project.join(".claude/skills/linked/SKILL.md")).unwrap(), "linked");
        assert!(copied.looked_at <= MOST_FILES + 1, "{}", copied.looked_at);
        assert!(!copied.failures.is_empty(), "a circle is told");
    }

    #[test]
    fn scripts_stay_executable() {
        let (_root, home, project) = rooms();
        let script = home.join(".codecast/skills/.claude/skills/a/run.sh");
        put(&script, "#!/bin/sh\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        copy(&home, &project, Kind::Claude);
        let mode = fs::metadata(project.join(".claude/skills/a/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o100, 0o100);
    }
}
