//! A configuration file of somebody else: read, and replaced whole.
//!
//! Invariant: a reader sees the old file or the new one, never half of one. A link stays a link, and permissions stay as
//! they are. A file that changed after it was read is not replaced.

use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use crate::error::CommandError;

/// The most that is read. Claude keeps histories in the same file.
const LIMIT: u64 = 256 << 20;

/// The permissions of a file that was not there.
const NEW: u32 = 0o600;

/// The file as it was read.
pub(super) struct ConfigFile {
    /// The file itself, behind any links.
    path: PathBuf,
    text: String,
    existed: bool,
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let problem = |error: io::Error| CommandError::failure(format!("cannot read `{}`: {error}", path.display()));
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(CommandError::failure(format!("`{}` is a link to nothing", path.display())));
                }
                return Ok(ConfigFile { path: path.to_owned(), text: String::new(), existed: false });
            }
            Err(error) => return Err(problem(error)),
        };
        let text = content(&path).map_err(problem)?;
        Ok(ConfigFile { path, text, existed: true })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Puts another text in its place.
    pub(super) fn replace(&self, text: &str) -> Result<(), CommandError> {
        let problem =
            |error: io::Error| CommandError::failure(format!("cannot write `{}`: {error}", self.path.display()));
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(problem)?;
        let mode = self.path.metadata().map_or(NEW, |metadata| metadata.permissions().mode() & 0o7777);
        let draft = self.draft();
        let written = write(&draft, text, mode).and_then(|()| self.unchanged()).and_then(|()| {
            std::fs::rename(&draft, &self.path)?;
            std::fs::File::open(folder)?.sync_all()
        });
        if written.is_err() {
            // It is ours, and nobody else knows it.
            std::fs::remove_file(&draft).unwrap_or_default();
        }
        written.map_err(problem)
    }

    fn draft(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".hostel-{}", std::process::id()));
        self.path.with_file_name(name)
    }

    fn unchanged(&self) -> io::Result<()> {
        let now = match content(&self.path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let as_it_was = if self.existed { now.as_deref() == Some(&self.text) } else { now.is_none() };
        match as_it_was {
            true => Ok(()),
            false => Err(io::Error::other("somebody else changed it just now; try again")),
        }
    }
}

fn content(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(LIMIT + 1).read_to_string(&mut text)?;
    match read as u64 > LIMIT {
        true => Err(io::Error::other("it is too large")),
        false => Ok(text),
    }
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_whole_with_its_permissions_and_links() {
        let scratch = tempfile::tempdir().unwrap();
        let (real, link) = (scratch.path().join("real.json"), scratch.path().join("link.json"));
        std::fs::write(&real, "old").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        ConfigFile::read(&link).unwrap().replace("new").unwrap();
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_new_file_is_private_and_a_changed_one_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b/new.json");
        let file = ConfigFile::read(&path).unwrap();
        file.replace("{}").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.replace("again").unwrap_err().to_string().contains("somebody else"));
        let file = ConfigFile::read(&path).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(file.replace("ours").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
