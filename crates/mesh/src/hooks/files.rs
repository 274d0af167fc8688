//! Which file a hook is, and whether it may be run.
//!
//! Invariant: what is run is a regular file of the user's own that nobody else can change, in a directory nobody else
//! can look into. Everything else is refused with a reason a person can act on.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::name::HookName;

/// Why a hook is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// There is none.
    #[error("there is no file `{0}` or `{0}.sh`")]
    Missing(String),
    /// There are two.
    #[error("there are both `{0}` and `{0}.sh`; remove one")]
    Two(String),
    /// The file cannot be trusted, or cannot be run.
    #[error("`{file}` {reason}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The directory cannot be trusted.
    #[error("the directory `{}` {reason}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

/// The program of a hook, if it may be run.
pub(super) fn program(hooks: &Path, name: &HookName) -> Result<PathBuf, Unfit> {
    directory(hooks)?;
    let (bare, script) = (hooks.join(name.to_string()), hooks.join(format!("{name}.sh")));
    let path = match (look(&bare), look(&script)) {
        (Ok(None), Ok(None)) => return Err(Unfit::Missing(name.to_string())),
        (Ok(None), _) => script,
        (_, Ok(None)) => bare,
        _ => return Err(Unfit::Two(name.to_string())),
    };
    let unfit = |reason: &str| {
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        Err(Unfit::File { file, reason: reason.to_owned() })
    };
    let found = match look(&path) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(Unfit::Missing(name.to_string())),
        Err(error) => return unfit(&format!("cannot be looked at: {error}")),
    };
    if !found.is_file() {
        return unfit("is not a regular file (a link does not count: put the file itself there)");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return unfit("belongs to somebody else; make it your own with chown");
    }
    if found.mode() & 0o022 != 0 {
        return unfit("can be changed by others; run `chmod go-w` on it");
    }
    if found.mode() & 0o100 == 0 {
        return unfit("is not executable; run `chmod u+x` on it");
    }
    Ok(path)
}

/// Whether a hook lies there at all, fit to be run or not. What cannot be looked at is taken for one.
pub(super) fn lies_there(hooks: &Path, name: &HookName) -> bool {
    [name.to_string(), format!("{name}.sh")].iter().any(|file| match look(&hooks.join(file)) {
        Ok(found) => found.is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotADirectory,
    })
}

/// Whether the directory is the user's alone.
pub(super) fn directory(hooks: &Path) -> Result<(), Unfit> {
    let unfit = |reason: String| Err(Unfit::Directory { path: hooks.to_owned(), reason });
    match look(hooks) {
        Ok(None) => unfit("is not there".to_owned()),
        Err(error) => unfit(format!("cannot be looked at: {error}")),
        Ok(Some(found)) if !found.is_dir() => unfit("is not a directory".to_owned()),
        Ok(Some(found)) if found.uid() != rustix::process::geteuid().as_raw() => {
            unfit("belongs to somebody else; make it your own with chown".to_owned())
        }
        Ok(Some(found)) if found.mode() & 0o077 != 0 => unfit("is open to others; run `chmod 700` on it".to_owned()),
        Ok(Some(_)) => Ok(()),
    }
}

/// What there is at a path, links not followed.
fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_files_nobody_else_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = dir.path().join("hooks");
        let reason = |hooks: &Path| program(hooks, &HookName::Dm).unwrap_err().to_string();
        assert!(reason(&hooks).contains("is not there"));
        fs::create_dir(&hooks).unwrap();
        mode(&hooks, 0o755);
        assert!(reason(&hooks).contains("chmod 700"));
        mode(&hooks, 0o700);
        assert!(reason(&hooks).contains("no file `on-dm` or `on-dm.sh`"));
        let script = hooks.join("on-dm.sh");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        mode(&script, 0o600);
        assert!(reason(&hooks).contains("chmod u+x"));
        mode(&script, 0o720);
        assert!(reason(&hooks).contains("chmod go-w"));
        mode(&script, 0o500);
        assert_eq!(program(&hooks, &HookName::Dm).unwrap(), script);
        mode(&hooks, 0o755);
        assert!(lies_there(&hooks, &HookName::Dm), "also where it may not be run");
        assert!(!lies_there(&hooks, &HookName::PreSend) && !lies_there(&hooks.join("nowhere"), &HookName::Dm));
        mode(&hooks, 0o700);
        symlink("/bin/sh", hooks.join("on-dm")).unwrap();
        assert!(reason(&hooks).contains("remove one"));
        fs::remove_file(&script).unwrap();
        assert!(reason(&hooks).contains("not a regular file"));
        fs::remove_file(hooks.join("on-dm")).unwrap();
        fs::create_dir(hooks.join("on-dm")).unwrap();
        assert!(reason(&hooks).contains("not a regular file"));
    }
}
