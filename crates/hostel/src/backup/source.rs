//! What of a house and its meshes goes into a backup, in which order.
//!
//! Invariant: databases come before what they refer to. Sockets, locks, logs and tokens by which others are let in stay
//! out; links are not followed.

use std::fs;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

/// More of them in one backup are refused: nobody has so many.
const MOST: usize = 5_000_000;

/// The deepest directory that is looked into.
const DEEPEST: usize = 32;

/// What a database begins with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Names that are left out wherever they are: what only counts while somebody runs, and what lets others in.
const SKIPPED: [&str; 13] = [
    "run",
    "log",
    "mesh-sessions",
    "pid",
    "sock",
    "http.port",
    "local_token",
    "local_token.prev",
    "host_fingerprint.json",
    "house",
    "started_with",
    "last_exit",
    "daemon.log",
];

/// How a thing is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Directory,
    Database,
    File,
}

/// Something to be taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Thing {
    pub(super) kind: Kind,
    /// Where it is.
    pub(super) from: PathBuf,
    /// Where it is in the archive.
    pub(super) path: String,
    pub(super) mode: u32,
}

/// Everything below a directory that is to be taken: directories, then databases, then files.
pub(super) fn things(root: &Path, prefix: &str, except: &dyn Fn(&Path) -> bool) -> io::Result<Vec<Thing>> {
    let mut found = Vec::new();
    look(root, prefix, 0, except, &mut found)?;
    found
        .sort_by(|left: &Thing, right: &Thing| rank(left.kind).cmp(&rank(right.kind)).then(left.path.cmp(&right.path)));
    Ok(found)
}

fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Directory => 0,
        Kind::Database => 1,
        Kind::File => 2,
    }
}

fn look(
    directory: &Path,
    prefix: &str,
    depth: usize,
    except: &dyn Fn(&Path) -> bool,
    found: &mut Vec<Thing>,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let from = entry.path();
        let name = entry.file_name();
        // Nothing of ours has a name that is no text.
        let Some(name) = name.to_str() else { continue };
        if is_skipped(name) || except(&from) {
            continue;
        }
        let metadata = match from.symlink_metadata() {
            Ok(metadata) => metadata,
            // Gone between the two looks.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let path = format!("{prefix}/{name}");
        let mode = metadata.mode() & 0o777;
        if found.len() >= MOST {
            return Err(io::Error::other("there are too many files"));
        }
        if metadata.is_dir() && depth < DEEPEST {
            found.push(Thing { kind: Kind::Directory, from: from.clone(), path: path.clone(), mode });
            look(&from, &path, depth + 1, except, found)?;
        } else if metadata.is_file() {
            let kind = if is_database(&from) { Kind::Database } else { Kind::File };
            found.push(Thing { kind, from, path, mode });
        }
    }
    Ok(())
}

fn is_skipped(name: &str) -> bool {
    let beside = ["-wal", "-shm", "-journal", ".lock", ".sock"].iter().any(|end| name.ends_with(end));
    let log = name.ends_with(".log") || name.contains(".log.");
    // Drafts of files that are being replaced, and what an earlier backup may have left.
    beside || log || name.starts_with(".backup-") || SKIPPED.contains(&name)
}

fn is_database(path: &Path) -> bool {
    let mut first = [0; 16];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *SQLITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_come_first_and_what_lets_others_in_not_at_all() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for directory in ["journal", "run", "broker/blobs"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (name, content) in [
            ("journal/1.j", &b"x"[..]),
            ("state.db", b"SQLite format 3\0..."),
            ("state.db-wal", b"x"),
            ("hostel.toml", b""),
            ("run/local_token", b"secret"),
            ("local_token", b"secret"),
            ("broker/broker.log.1", b"x"),
            ("broker/broker.db", b"SQLite format 3\0..."),
        ] {
            fs::write(root.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        let found = things(root, "house", &|_| false).unwrap();
        let names: Vec<&str> = found.iter().map(|thing| thing.path.as_str()).collect();
        assert_eq!(
            names,
            [
                "house/broker",
                "house/broker/blobs",
                "house/journal",
                "house/broker/broker.db",
                "house/state.db",
                "house/hostel.toml",
                "house/journal/1.j"
            ]
        );
        assert_eq!(things(&root.join("nowhere"), "x", &|_| false).unwrap(), []);
    }
}
