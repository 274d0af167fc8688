//! Files of the owner's alone, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use hostel_wire::{encoding, random};

/// Replaces a file: a reader sees the old content or the new one, also after a power cut. The mode is exactly `mode`,
/// whatever the umask is.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = beside(path)?;
    let written = write_new(&beside, bytes, mode).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        fs::remove_file(&beside).ok();
        return written;
    }
    sync_dir(path)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name beside `path` that nobody has.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("a path without a name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", encoding::hex(&random::bytes::<8>())));
    Ok(path.with_file_name(hidden))
}

fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Makes a directory and what is missing above it, each with mode 0700. One that is there already and the owner's is
/// closed to others; above it nothing is changed.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let now = fs::metadata(path)?.permissions().mode() & 0o777;
    if now & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(now & 0o700))?;
    }
    Ok(())
}

/// Reads a file of at most `limit` bytes; `None` if there is none.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
    }
    Ok(Some(bytes))
}

/// The same as text.
pub(super) fn read_text(path: &Path, limit: u64) -> io::Result<Option<String>> {
    let text = read_bounded(path, limit)?.map(String::from_utf8).transpose();
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        write_atomic(&path, b"new", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        write_atomic(&path, b"newer", 0o644).unwrap();
        assert_eq!(mode(&path), 0o644, "also against the umask");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_atomic(&path, b"new", 0o600).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn directories_are_the_owners() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        make_private_dir(&deep).unwrap();
        assert_eq!((mode(&deep), mode(&dir.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&deep).unwrap();
        assert_eq!(mode(&deep), 0o700);
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        assert_eq!(read_bounded(&path, 10).unwrap(), None);
        fs::write(&path, [7; 11]).unwrap();
        assert!(read_bounded(&path, 10).is_err());
        assert_eq!(read_bounded(&path, 11).unwrap().unwrap().len(), 11);
    }
}
