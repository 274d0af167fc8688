//! The houses of this user that run on this machine, wherever their directories are.
//!
//! A house listens on sockets in its directory, and the kernel lists the path of every socket. What the list leaves out: a
//! house that does not run, one in another network namespace, and one whose path is too long for a socket's address.
//!
//! Guarantee: a directory that belongs to another user is no house of this one. Everything else in the list can be made up
//! by any process of this user, so nothing may become reachable because a directory is listed here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The sockets by which a house is known: those of its keeper and of its daemon.
const SOCKETS: [&str; 2] = ["run/keeper.sock", "run/hostel.sock"];

/// The directory in a house with the houses of personalities.
const PERSONALITIES: &str = "as";

/// The most of the list that is read.
const MAX_LIST_BYTES: u64 = 8 << 20;

/// Their directories. Reads `/proc`, so not for a thread of the runtime.
#[must_use]
pub fn running() -> BTreeSet<PathBuf> {
    let mut list = Vec::new();
    if let Ok(file) = fs::File::open("/proc/net/unix") {
        file.take(MAX_LIST_BYTES).read_to_end(&mut list).ok();
    }
    let own = rustix::process::geteuid().as_raw();
    let is_own = |house: &PathBuf| fs::metadata(house).is_ok_and(|found| found.is_dir() && found.uid() == own);
    let houses: BTreeSet<PathBuf> = list.split(|byte| *byte == b'\n').filter_map(house_of).collect();
    houses.into_iter().filter(is_own).collect()
}

/// The house that a line of the list belongs to: seven fields, and a path.
fn house_of(line: &[u8]) -> Option<PathBuf> {
    let path = line.splitn(8, |byte| *byte == b' ').nth(7)?.trim_ascii_start();
    let path = Path::new(OsStr::from_bytes(path));
    if !path.is_absolute() || path.starts_with("/proc") || !SOCKETS.iter().any(|socket| path.ends_with(socket)) {
        return None;
    }
    let house = path.ancestors().nth(2)?;
    let above = house.parent()?;
    let is_personality = above.file_name() == Some(OsStr::new(PERSONALITIES));
    Some(if is_personality { above.parent()?.to_owned() } else { house.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn lines_of_sockets() {
        let house = |path: &str| {
            house_of(format!("0000000000000000: 00000002 00000000 00010000 0001 01 4711 {path}").as_bytes())
        };
        assert_eq!(house("/home/ada/.hostel/run/keeper.sock"), Some("/home/ada/.hostel".into()));
        assert_eq!(house("/srv/a house/run/hostel.sock"), Some("/srv/a house".into()));
        assert_eq!(house("/srv/h/as/claustrum-1/run/keeper.sock"), Some("/srv/h".into()));
        for other in [
            "@/x/run/keeper.sock",
            "run/keeper.sock",
            "/run/bus",
            "/proc/self/fd/9/run/keeper.sock",
            "",
            "/x/keeper.sock",
        ] {
            assert_eq!(house(other), None, "{other}");
        }
        assert_eq!(house_of(b"Num RefCount Protocol Flags Type St Inode Path"), None);
    }

    #[test]
    fn a_house_is_known_by_its_socket_and_no_other_directory_is() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let [house, other] = ["house", "other"].map(|name| root.join(name));
        for directory in [&house, &other] {
            fs::create_dir_all(directory.join("run")).unwrap();
        }
        let _keeper = UnixListener::bind(house.join("run/keeper.sock")).unwrap();
        let _unrelated = UnixListener::bind(other.join("run/another.sock")).unwrap();
        let found = running();
        assert!(found.contains(&house) && !found.contains(&other), "{found:?}");
    }
}
