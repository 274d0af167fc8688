//! What of a house and its meshes goes into a backup, in which order.
//!
//! Invariant: databases come before what they refer to. Sockets, locks, logs and tokens by which others are let in stay
//! out, and only where this program itself puts them: what has such a name below a directory of the user's (hooks, files)
//! is the user's and is taken. Links are not followed; what cannot be taken is named.

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

/// Names that are left out of a room: what only counts while somebody runs, and what lets others in.
const SKIPPED: [&str; 15] = [
    "run",
    "log",
    "mesh-sessions",
    "launch",
    ".agents",
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

/// What is in the name of a database that was put aside because it is damaged.
const PUT_ASIDE: &str = ".corrupt-";

/// A key that is about to count comes before the archive: without the one it replaces in there, nobody would believe it.
const NEXT_KEY: &str = "/keypair.next.json";

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

/// What is in a directory.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Found {
    /// To be taken: directories, then databases, then files.
    pub(super) things: Vec<Thing>,
    /// What cannot be taken: links, what is neither file nor directory, names that are no text, what is too deep.
    pub(super) left: Vec<PathBuf>,
}

/// Everything below a directory.
pub(super) fn things(root: &Path, prefix: &str, except: &dyn Fn(&Path) -> bool) -> io::Result<Found> {
    let mut found = Found::default();
    look(root, prefix, &[], except, &mut found)?;
    found.things.sort_by(|left: &Thing, right: &Thing| {
        let order = |thing: &Thing| (rank(thing.kind), !thing.path.ends_with(NEXT_KEY));
        order(left).cmp(&order(right)).then_with(|| left.path.cmp(&right.path))
    });
    found.left.sort();
    Ok(found)
}

/// Whether a directory, by the names that lead to it, is one in which every name is this program's: the house or the
/// mesh itself, the broker, the house of a personality.
fn is_room(names: &[&str]) -> bool {
    matches!(names, [] | ["broker"] | ["as", _])
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
    names: &[&str],
    except: &dyn Fn(&Path) -> bool,
    found: &mut Found,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let room = is_room(names);
    for entry in entries {
        let entry = entry?;
        let from = entry.path();
        let name = entry.file_name();
        if found.things.len() + found.left.len() >= MOST {
            return Err(io::Error::other("there are too many files"));
        }
        let Some(name) = name.to_str() else {
            found.left.push(from);
            continue;
        };
        if except(&from) || is_beside(&from, name, room) || (room && is_skipped(name)) {
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
        if metadata.is_dir() && names.len() < DEEPEST {
            found.things.push(Thing { kind: Kind::Directory, from: from.clone(), path: path.clone(), mode });
            let names: Vec<&str> = names.iter().copied().chain([name]).collect();
            look(&from, &path, &names, except, found)?;
        } else if metadata.is_file() {
            let kind = if is_database(&from, name, room) { Kind::Database } else { Kind::File };
            found.things.push(Thing { kind, from, path, mode });
        } else {
            found.left.push(from);
        }
    }
    Ok(())
}

fn is_skipped(name: &str) -> bool {
    let lock = name.ends_with(".lock") || name.ends_with(".sock");
    let log = name.ends_with(".log") || name.contains(".log.");
    // And what an earlier backup may have left.
    lock || log || name.starts_with(".backup-") || SKIPPED.contains(&name)
}

/// Whether a file belongs to a database beside it, whose copy has what is in it.
fn is_beside(path: &Path, name: &str, room: bool) -> bool {
    let database = ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end));
    database.is_some_and(|name| is_database(&path.with_file_name(name), name, room))
}

/// Whether a file is copied as a database. One of ours is by its name: if its beginning is damaged that must be said, and
/// its bytes without its journal would be less than what is there. What was put aside as damaged is taken as it is.
fn is_database(path: &Path, name: &str, room: bool) -> bool {
    if name.contains(PUT_ASIDE) {
        return false;
    }
    if room && name.ends_with(".db") {
        return true;
    }
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
        assert_eq!(found.left, [root.join("link")]);
        let names: Vec<&str> = found.things.iter().map(|thing| thing.path.as_str()).collect();
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
        assert_eq!(things(&root.join("nowhere"), "x", &|_| false).unwrap(), Found::default());
    }

    #[test]
    fn names_are_only_ours_where_we_put_them() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for directory in ["hooks/lib/run", "hooks/log", "as/pi-1/run", "as/pi-1/log"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for name in [
            "daemon.log.1",
            "pid",
            "hooks/lib/run/a",
            "hooks/log/b",
            "hooks/x.log.py",
            "hooks/house",
            "hooks/cargo.lock",
            "hooks/notes-journal",
            "as/pi-1/run/local_token",
            "as/pi-1/log/daemon.log",
            "as/pi-1/hostel.toml",
        ] {
            fs::write(root.join(name), "x").unwrap();
        }
        let found = things(root, "m", &|_| false).unwrap();
        let files = found.things.iter().filter(|thing| thing.kind != Kind::Directory);
        assert_eq!(
            files.map(|thing| thing.path.as_str()).collect::<Vec<_>>(),
            [
                "m/as/pi-1/hostel.toml",
                "m/hooks/cargo.lock",
                "m/hooks/house",
                "m/hooks/lib/run/a",
                "m/hooks/log/b",
                "m/hooks/notes-journal",
                "m/hooks/x.log.py"
            ]
        );
    }

    #[test]
    fn a_damaged_database_of_ours_is_a_database() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir(root.join("hooks")).unwrap();
        let names = ["outbox.db", "outbox.db-wal", "inbox.db.corrupt-7", "inbox.db.corrupt-7-wal", "hooks/words.db"];
        for name in names {
            fs::write(root.join(name), "nothing SQLite would know").unwrap();
        }
        let found = things(root, "m", &|_| false).unwrap();
        let kinds: Vec<_> = found.things.iter().map(|thing| (thing.kind, thing.path.as_str())).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Directory, "m/hooks"),
                (Kind::Database, "m/outbox.db"),
                (Kind::File, "m/hooks/words.db"),
                (Kind::File, "m/inbox.db.corrupt-7"),
                (Kind::File, "m/inbox.db.corrupt-7-wal"),
            ]
        );
        assert!(hostel_store::snapshot(&root.join("outbox.db"), &root.join("copy")).is_err());
    }
}
