//! How a file is taken: opened once and read twice, once to know it and once to seal it; if it changed in between it is
//! not taken.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use bytes::Bytes;
use hostel_wire::encoding::hex;
use hostel_wire::sealed::{FILE_CHUNK, FileHead, FileKey, FileSealer};
use sha2::{Digest as _, Sha256};

use super::Body;
use crate::mesh::Refusal;

/// A file that was sealed.
pub(crate) struct Snapshot {
    pub(crate) head: FileHead,
    pub(crate) body: Body,
    pub(crate) sealed_size: u64,
    pub(crate) sealed_sha256: String,
}

/// Seals the file at `path` into `place`, or into memory. With `opened`, that is the file, whatever is at `path` now.
/// Blocks.
pub(crate) fn snapshot(
    path: &Path,
    opened: Option<File>,
    most: u64,
    key: &FileKey,
    place: Option<&Path>,
) -> Result<Snapshot, Refusal> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| Refusal::field("path", "the path names no file"))?;
    let mut file = match opened {
        Some(file) => regular(file)?,
        None => open(path)?,
    };
    let head = survey(&mut file, name, most)?;
    let (mut sealer, first) =
        FileSealer::new(key, &head).map_err(|_| Refusal::field("path", "the file's name is too long"))?;
    let mut into = Into::open(place).map_err(Refusal::internal)?;
    into.put(&first).map_err(Refusal::internal)?;
    // The path is not resolved again: it may lead elsewhere by now.
    file.rewind().map_err(|error| unreadable(&error))?;
    let mut sum = Sha256::new();
    let mut left = head.size;
    let mut chunk = vec![0; FILE_CHUNK];
    loop {
        let wanted = usize::try_from(left.min(FILE_CHUNK as u64)).unwrap_or(FILE_CHUNK);
        file.read_exact(&mut chunk[..wanted]).map_err(|_| changed())?;
        sum.update(&chunk[..wanted]);
        left -= wanted as u64;
        into.put(&sealer.chunk(&chunk[..wanted], left == 0)).map_err(Refusal::internal)?;
        if left == 0 {
            break;
        }
    }
    if file.read(&mut chunk[..1]).map_err(|error| unreadable(&error))? != 0 || hex(&sum.finalize()) != head.sha256 {
        return Err(changed());
    }
    into.finish(head).map_err(Refusal::internal)
}

/// Size and digest.
fn survey(file: &mut File, name: String, most: u64) -> Result<FileHead, Refusal> {
    let mut sum = Sha256::new();
    let mut size = 0_u64;
    let mut chunk = vec![0; FILE_CHUNK];
    loop {
        let count = file.read(&mut chunk).map_err(|error| unreadable(&error))?;
        if count == 0 {
            return Ok(FileHead { name, size, sha256: hex(&sum.finalize()) });
        }
        size += count as u64;
        if size > most {
            return Err(Refusal::new("message_too_large", format!("a file may have {most} bytes")).about("path"));
        }
        sum.update(&chunk[..count]);
    }
}

fn open(path: &Path) -> Result<File, Refusal> {
    // A pipe nobody writes to must not hold us up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    regular(OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| unreadable(&error))?)
}

fn regular(file: File) -> Result<File, Refusal> {
    match file.metadata() {
        Ok(data) if data.is_file() => Ok(file),
        Ok(_) => Err(Refusal::field("path", "only a regular file can be shared")),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &io::Error) -> Refusal {
    let code = if error.kind() == io::ErrorKind::NotFound { "file_not_found" } else { "invalid" };
    Refusal::new(code, format!("the file cannot be read: {error}")).about("path")
}

fn changed() -> Refusal {
    Refusal::new("invalid", "the file changed while it was read").about("path")
}

/// Where sealed bytes go.
struct Into {
    to: To,
    sum: Sha256,
    size: u64,
}

enum To {
    File(File, std::path::PathBuf),
    Memory(Vec<u8>),
}

impl Into {
    fn open(place: Option<&Path>) -> io::Result<Self> {
        let to = match place {
            Some(path) => {
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
                To::File(file, path.to_owned())
            }
            None => To::Memory(Vec::new()),
        };
        Ok(Self { to, sum: Sha256::new(), size: 0 })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.size += bytes.len() as u64;
        match &mut self.to {
            To::File(file, _) => file.write_all(bytes),
            To::Memory(memory) => memory.write_all(bytes),
        }
    }

    fn finish(mut self, head: FileHead) -> io::Result<Snapshot> {
        let to = std::mem::replace(&mut self.to, To::Memory(Vec::new()));
        let body = match to {
            To::File(file, path) => {
                // The caller is told that it is taken: it must be there after a crash.
                file.sync_all()?;
                Body::File(path)
            }
            To::Memory(memory) => Body::Memory(Bytes::from(memory)),
        };
        let sealed_sha256 = hex(&std::mem::take(&mut self.sum).finalize());
        Ok(Snapshot { head, body, sealed_size: self.size, sealed_sha256 })
    }
}

impl Drop for Into {
    fn drop(&mut self) {
        if let To::File(_, path) = &self.to {
            std::fs::remove_file(path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use hostel_wire::sealed::FileOpener;

    use super::*;

    #[test]
    fn a_snapshot_opens_to_what_the_file_was() {
        let dir = tempfile::tempdir().unwrap();
        for size in [0, 1, FILE_CHUNK - 1, FILE_CHUNK, FILE_CHUNK + 1, 3 * FILE_CHUNK] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let path = dir.path().join("in.bin");
            std::fs::write(&path, &bytes).unwrap();
            let key = FileKey::generate();
            let place = dir.path().join(format!("{size}.sealed"));
            let snapshot = snapshot(&path, None, 1 << 30, &key, Some(&place)).unwrap();
            let sealed = std::fs::read(&place).unwrap();
            assert_eq!(
                (snapshot.sealed_size, snapshot.sealed_sha256),
                (sealed.len() as u64, hex(&Sha256::digest(&sealed)))
            );
            let (mut opener, mut plain) = (FileOpener::new(key), Vec::new());
            opener.push(&sealed, &mut plain).unwrap();
            assert_eq!(opener.finish(&mut plain).unwrap().name, "in.bin");
            assert_eq!(plain, bytes);
        }
    }

    #[test]
    fn only_files_that_fit_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let key = FileKey::generate();
        let path = dir.path().join("x");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(snapshot(&path, None, 4, &key, None).err().unwrap().code(), "message_too_large");
        assert_eq!(snapshot(dir.path(), None, 4, &key, None).err().unwrap().code(), "invalid");
        assert_eq!(snapshot(&dir.path().join("no"), None, 4, &key, None).err().unwrap().code(), "file_not_found");
    }

    #[test]
    fn a_file_that_is_open_is_shared_whatever_its_path_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "meant").unwrap();
        let opened = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        let snapshot = snapshot(&path, Some(opened), 100, &FileKey::generate(), None).unwrap();
        assert_eq!((snapshot.head.name.as_str(), snapshot.head.size), ("x", 5));
        let directory = File::open(dir.path()).unwrap();
        let key = FileKey::generate();
        assert_eq!(super::snapshot(&path, Some(directory), 100, &key, None).err().unwrap().code(), "invalid");
    }
}
