//! Journals that cannot be read: what an error means, and setting such a file aside under another name.
//!
//! Guarantees: nothing here removes a byte. A file that is set aside keeps its contents, its process's id is still in its
//! name, and it takes no name that is in use. [`restore`] undoes it.
//!
//! Whether somebody still needs the process is not known here: the caller asks first.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, RenameFlags};
use rustix::io::Errno;

use crate::ProcessId;
use crate::format::BLOCK_HEADER_BYTES;

/// Stands behind the name of a journal that was set aside.
const SUFFIX: &str = ".unreadable";
/// Files of one process that can be set aside beside each other.
const MAX_SET_ASIDE: u32 = 100;

/// Why a journal could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// There is no such file.
    Missing,
    /// The system refused, for a reason that may pass: no descriptors, no memory, no permission, an error of the disk.
    Passing,
    /// The file ends before its first block header does: its creation was interrupted, and nothing was ever committed.
    Empty,
    /// The file can be read and is not a journal that this program understands: damaged, or written by a newer program.
    Unreadable,
}

impl ReadFailure {
    /// Judges the error with which [`inspect`](crate::inspect) refused the journal of `id`.
    pub fn judge(dir: BorrowedFd<'_>, id: ProcessId, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            // Only this crate says so; what the system says has a number.
            io::ErrorKind::InvalidData if error.raw_os_error().is_none() => {
                match rustix::fs::statat(dir, id.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) if stat.st_size < BLOCK_HEADER_BYTES as i64 => Self::Empty,
                    Ok(_) => Self::Unreadable,
                    Err(Errno::NOENT) => Self::Missing,
                    Err(_) => Self::Passing,
                }
            }
            _ => Self::Passing,
        }
    }
}

/// A journal that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The process.
    pub id: ProcessId,
    /// The file's name in the journal folder.
    pub file: String,
    /// Disk space really used.
    pub bytes_on_disk: u64,
}

/// Renames the journal of `id` and returns its new name.
pub fn set_aside(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<String> {
    for number in 0..MAX_SET_ASIDE {
        let name = match number {
            0 => format!("{}{SUFFIX}", id.file_name()),
            _ => format!("{}.{number}{SUFFIX}", id.file_name()),
        };
        match rename_to_free(dir, &id.file_name(), &name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Gives a journal that was set aside its own name back. Fails with `AlreadyExists` if there is another one by now.
pub fn restore(dir: BorrowedFd<'_>, file: &SetAside) -> io::Result<()> {
    Ok(rename_to_free(dir, &file.file, &file.id.file_name())?)
}

fn rename_to_free(dir: BorrowedFd<'_>, from: &str, to: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // A file system without this flag has links, or nothing is renamed.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            rustix::fs::unlinkat(dir, from, AtFlags::empty())
        }
        done => done,
    }
}

/// Lists what was set aside in `dir`.
pub fn scan_set_aside(dir: BorrowedFd<'_>) -> io::Result<Vec<SetAside>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let Some((id, file)) = entry.file_name().to_str().ok().and_then(|name| Some((id_of(name)?, name.to_owned())))
        else {
            continue;
        };
        match rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                let bytes_on_disk = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
                found.push(SetAside { id, file, bytes_on_disk });
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_unstable_by(|one, other| one.file.cmp(&other.file));
    Ok(found)
}

/// The process in the name of a file that was set aside.
fn id_of(name: &str) -> Option<ProcessId> {
    let journal = name.strip_suffix(SUFFIX)?;
    let end = journal.find(".j")? + ".j".len();
    let number = journal.get(end..)?;
    let is_number = number.is_empty() || number.strip_prefix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    if is_number { ProcessId::from_file_name(journal.get(..end)?.as_bytes()) } else { None }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_set_aside_takes_no_name_in_use_and_can_be_restored() {
        let folder = tempfile::tempdir().unwrap();
        let dir = File::open(folder.path()).unwrap();
        let id = ProcessId::random().unwrap();
        let own = folder.path().join(id.file_name());
        for text in ["first", "second"] {
            std::fs::write(&own, text).unwrap();
            set_aside(dir.as_fd(), id).unwrap();
            assert!(!own.exists());
        }
        let found = scan_set_aside(dir.as_fd()).unwrap();
        assert_eq!(found.iter().map(|file| file.id).collect::<Vec<_>>(), [id, id]);
        let read = |file: &SetAside| std::fs::read_to_string(folder.path().join(&file.file)).unwrap();
        let mut texts: Vec<_> = found.iter().map(read).collect();
        texts.sort();
        assert_eq!(texts, ["first", "second"]);
        restore(dir.as_fd(), &found[0]).unwrap();
        assert!(own.exists());
        let refused = restore(dir.as_fd(), &found[1]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "nothing is overwritten");
        assert!(crate::scan(dir.as_fd()).unwrap().iter().any(|file| file.id == id));
    }

    #[test]
    fn other_names_are_passed_over() {
        let id = "00ff00ff00ff00ff00ff00ff00ff00ff";
        assert!(id_of(&format!("{id}.j.unreadable")).is_some() && id_of(&format!("{id}.j.7.unreadable")).is_some());
        for bad in ["x.j.unreadable", ".unreadable", &format!("{id}.j"), &format!("{id}.j.x.unreadable")] {
            assert_eq!(id_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_error_is_judged_by_who_says_it_and_how_much_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let dir = File::open(folder.path()).unwrap();
        let id = ProcessId::random().unwrap();
        let judged = || {
            let error = crate::inspect(dir.as_fd(), id).unwrap_err();
            ReadFailure::judge(dir.as_fd(), id, &error)
        };
        assert_eq!(judged(), ReadFailure::Missing);
        for (bytes, expected) in [
            (0, ReadFailure::Empty),
            (63, ReadFailure::Empty),
            (64, ReadFailure::Unreadable),
            (4096, ReadFailure::Unreadable),
        ] {
            std::fs::write(folder.path().join(id.file_name()), vec![0; bytes]).unwrap();
            assert_eq!(judged(), expected, "{bytes}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::ACCESS] {
            assert_eq!(ReadFailure::judge(dir.as_fd(), id, &errno.into()), ReadFailure::Passing, "{errno}");
        }
    }
}
