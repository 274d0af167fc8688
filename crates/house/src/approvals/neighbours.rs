//! The other houses below the same directory: they have the same approver, so what runs inside one of them decides in
//! none.
//!
//! Invariant: a process below any keeper of the user's houses, or with the mark of one, is inside, whichever house it
//! asks. A keeper that cannot be told apart counts as one of them, and so does everybody if there are too many houses.
//!
//! It only reads `/proc` and the houses' own directories.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use hostel_keeper::{SUBCOMMAND, TAG_NAME, tree};

use super::peer;
use super::types::KeeperId;
use super::who::{Answer, Household};
use crate::processes::Processes;

/// Houses that are looked at.
const MOST: usize = 4096;

/// Parents that are climbed at most.
const HIGHEST: usize = 512;

/// The most of a command line and of a tag that is read.
const LONGEST: u64 = 16 << 10;

/// No process has this number.
const NOBODY: u32 = u32::MAX;

/// A house that knows its neighbours.
pub(super) struct Neighbours {
    own: Processes,
    /// The directory that the houses share.
    home: PathBuf,
}

impl Neighbours {
    pub(super) fn new(own: Processes, home: PathBuf) -> Self {
        Neighbours { own, home }
    }
}

impl Household for Neighbours {
    fn is_inside(&self, pid: u32) -> Answer<'_> {
        Box::pin(async move {
            if self.own.is_inside(pid).await {
                return true;
            }
            let home = self.home.clone();
            hostel_tasks::spawn_blocking(move || is_inside_any(&home, pid)).await.unwrap_or(true)
        })
    }

    fn keeper(&self) -> Option<KeeperId> {
        self.own.keeper()
    }
}

/// Whether a process is inside any house of this directory. Who cannot be looked at is.
pub(crate) fn is_inside_any(home: &Path, pid: u32) -> bool {
    is_below_a_keeper(home, pid).unwrap_or(true) || is_marked(home, pid).unwrap_or(true)
}

fn is_below_a_keeper(home: &Path, pid: u32) -> Option<bool> {
    let mut at = pid;
    for _ in 0..HIGHEST {
        if at <= 1 {
            return Some(false);
        }
        if is_keeper_of(home, at) {
            return Some(true);
        }
        at = peer::parent_of(at)?;
    }
    None
}

/// Whether a process is a keeper, and of a house in this directory.
fn is_keeper_of(home: &Path, pid: u32) -> bool {
    let line = bounded(&PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    if words.next() != Some(SUBCOMMAND.as_bytes()) {
        return false;
    }
    // One that was upgraded in place no longer says whose it is.
    let Some(run) = words.skip_while(|word| *word != b"--run-dir").nth(1) else { return true };
    let run = Path::new(OsStr::from_bytes(run));
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(run).starts_with(real(home))
}

/// Whether a process has a mark of a house in this directory: one that its keeper has lost.
fn is_marked(home: &Path, pid: u32) -> Option<bool> {
    let houses = houses(home, MOST)?;
    Some(houses.iter().any(|house| {
        let tag = bounded(&house.join("run").join(TAG_NAME)).unwrap_or_default();
        let tag = String::from_utf8_lossy(&tag);
        let tag = tag.trim_end();
        !tag.is_empty() && tree::is_inside(tag, NOBODY, pid)
    }))
}

/// The houses of this directory, itself included; none if there are more than `most` beside it.
fn houses(home: &Path, most: usize) -> Option<Vec<PathBuf>> {
    let mut houses = vec![home.to_owned()];
    for entry in fs::read_dir(home.join("as")).into_iter().flatten().flatten() {
        if houses.len() > most {
            return None;
        }
        houses.push(entry.path());
    }
    Some(houses)
}

fn bounded(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn ended(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_carries_a_neighbours_mark_is_inside() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("as/sudo-proxy-1/run");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join(TAG_NAME), "0123456789abcdef\n").unwrap();
        let sleeper = |tag: &str| {
            // It becomes no other program: while one does, its environment cannot be seen.
            let mut command = Command::new("sh");
            command.args(["-c", "echo; read line"]).env(hostel_keeper::TAG_VARIABLE, tag);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let (inside, outside) = (sleeper("0123456789abcdef.77"), sleeper("fedcba9876543210.77"));
        assert!(is_inside_any(home.path(), inside.id()));
        assert!(!is_inside_any(home.path(), outside.id()));
        assert!(!is_inside_any(&home.path().join("another"), inside.id()));
        assert!(is_inside_any(home.path(), NOBODY), "who cannot be looked at is inside");
        ended(inside);
        ended(outside);
    }

    #[test]
    fn too_many_houses_are_not_looked_at() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(houses(home.path(), 2), Some(vec![home.path().to_owned()]));
        for name in ["a", "b", "c"] {
            fs::create_dir_all(home.path().join("as").join(name)).unwrap();
        }
        let mut found = houses(home.path(), 3).unwrap();
        found.sort();
        assert_eq!(found, ["", "as/a", "as/b", "as/c"].map(|name| home.path().join(name)));
        assert_eq!(houses(home.path(), 2), None);
        assert_eq!(houses(home.path(), 0), None);
    }

    #[test]
    fn who_is_below_a_neighbours_keeper_is_inside() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("as/sudo-proxy-1/run");
        fs::create_dir_all(&run).unwrap();
        // A script of the sub-command's name has a keeper's command line.
        for name in [SUBCOMMAND, "another"] {
            fs::write(home.path().join(name), "sleep 100 & echo $!; wait").unwrap();
        }
        let start = |words: &[&str]| {
            let mut command = Command::new("sh");
            command.args(words).env_clear().current_dir(home.path()).stdout(Stdio::piped());
            let mut keeper = command.spawn().unwrap();
            let mut text = String::new();
            let mut told = std::io::BufReader::new(keeper.stdout.take().unwrap());
            std::io::BufRead::read_line(&mut told, &mut text).unwrap();
            let below = text.trim().parse::<u32>().unwrap();
            // While it becomes another program, its environment cannot be seen.
            while fs::read_to_string(format!("/proc/{below}/comm")).unwrap() != "sleep\n" {
                std::thread::yield_now();
            }
            (keeper, below)
        };
        let run = run.to_str().unwrap();
        let upgraded: &[&str] = &[SUBCOMMAND, "--resume-state", "3"];
        let apart = tempfile::tempdir().unwrap();
        let elsewhere = apart.path().to_str().unwrap();
        for (words, inside) in [
            (&[SUBCOMMAND, "--run-dir", run] as &[&str], true),
            (upgraded, true),
            (&[SUBCOMMAND, "--run-dir", elsewhere], false),
            (&["another", "--run-dir", run], false),
        ] {
            let (keeper, below) = start(words);
            assert_eq!(is_inside_any(home.path(), below), inside, "{words:?}");
            ended(keeper);
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(below as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
    }
}
