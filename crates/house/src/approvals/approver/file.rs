//! The file with the digest of the approver's passphrase. All houses below one directory share it.
//!
//! Guarantees: a file that others may read or write, or that is not ours, is not trusted. A file is replaced at once, and
//! is on disk when that returns.
//!
//! Which digest is in force is not decided here: the file is read when the daemon starts, and compared afterwards.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hostel_syncpoint::points;

/// The largest file that is read as a digest.
const LARGEST_FILE: u64 = 4096;

/// The digest in the file; none if there is no file.
pub(in crate::approvals) fn read(path: &Path) -> io::Result<Option<String>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return Err(io::Error::other("it must be a file of yours that nobody else may read or write (mode 0600)"));
    }
    let mut text = String::new();
    file.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    let text = text.trim_end();
    if text.len() as u64 > LARGEST_FILE || !text.starts_with("$argon2id$") {
        return Err(io::Error::other("it does not hold an argon2id digest"));
    }
    Ok(Some(text.to_owned()))
}

/// A file that is written and only has to be put in its place.
pub(super) struct Draft {
    draft: PathBuf,
    path: PathBuf,
}

impl Draft {
    /// Writes the content beside the file it is to replace.
    pub(super) fn write(path: &Path, content: &str) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let draft = path.with_file_name(name);
        fs::remove_file(&draft).ok();
        let made = Draft { draft, path: path.to_owned() };
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made.draft)?;
        file.write_all(content.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(made)
    }

    /// Puts it in its place.
    pub(super) fn put(self) -> io::Result<()> {
        fs::rename(&self.draft, &self.path)?;
        sync_directory(&self.path)?;
        points::PASSPHRASE_WRITTEN.reach();
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone if it was put in its place.
        fs::remove_file(&self.draft).ok();
    }
}

/// Puts a file of this content in place.
pub(in crate::approvals) fn replace(path: &Path, content: &str) -> io::Result<()> {
    Draft::write(path, content)?.put()
}

/// Removes the file, if it is there.
pub(in crate::approvals) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_digest_and_nothing_endless() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approver");
        assert_eq!(read(&file).unwrap(), None);
        let digest = |length: u64| format!("$argon2id${}", "x".repeat(length as usize - "$argon2id$".len()));
        for (length, taken) in [(LARGEST_FILE - 1, true), (LARGEST_FILE, true), (LARGEST_FILE + 1, false)] {
            replace(&file, &digest(length)).unwrap();
            assert_eq!(read(&file).ok().flatten(), taken.then(|| digest(length)), "{length}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert_eq!(read(&file).unwrap(), None);
    }
}
