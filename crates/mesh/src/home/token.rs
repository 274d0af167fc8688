//! The token of the loopback door, and the one before it.
//!
//! Invariant: after a rotation the old token is taken for `GRACE_S` more seconds and not one longer, also by a daemon
//! that was started again in between. Comparing takes the same time wherever the difference is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostel_syncpoint::points;
use hostel_wire::{Clock, ids};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{MeshDir, files};

/// How long the token before the last rotation is still taken, in seconds.
pub const GRACE_S: u64 = 60;

/// A token file may have this many bytes.
const LIMIT: u64 = 1024;

/// The tokens a door takes. Clones share them.
#[derive(Clone)]
pub struct Tokens {
    shared: Arc<Shared>,
}

struct Shared {
    files: Option<(PathBuf, PathBuf)>,
    /// One that nobody sets: the grace is a minute of time that passes.
    clock: Clock,
    pair: Mutex<Pair>,
}

struct Pair {
    current: Zeroizing<String>,
    previous: Option<Previous>,
}

struct Previous {
    token: Zeroizing<String>,
    until_ms: u64,
}

impl Tokens {
    /// Reads the files of a mesh's directory; makes the token if there is none.
    pub fn open(dir: &MeshDir, clock: &Clock) -> io::Result<Self> {
        let clock = clock.unset();
        let (path, before) = (dir.local_token(), dir.local_token_prev());
        let current = match read(&path)? {
            Some(token) => token,
            None => {
                let token = Zeroizing::new(ids::token());
                write(&path, &token)?;
                token
            }
        };
        let previous = read_previous(&before, clock.now_ms());
        if previous.is_none() {
            fs::remove_file(&before).ok();
        }
        let pair = Mutex::new(Pair { current, previous });
        Ok(Self { shared: Arc::new(Shared { files: Some((path, before)), clock, pair }) })
    }

    /// A token that is written nowhere.
    #[must_use]
    pub fn in_memory(clock: &Clock) -> Self {
        let clock = clock.unset();
        let pair = Mutex::new(Pair { current: Zeroizing::new(ids::token()), previous: None });
        Self { shared: Arc::new(Shared { files: None, clock, pair }) }
    }

    /// The token, for whoever may have it.
    #[must_use]
    pub fn current(&self) -> Zeroizing<String> {
        self.shared.pair.lock().current.clone()
    }

    /// Whether a token is one of those that are taken now.
    #[must_use]
    pub fn accepts(&self, token: &[u8]) -> bool {
        let mut pair = self.shared.pair.lock();
        let now = self.shared.clock.now_ms();
        if pair.previous.as_ref().is_some_and(|previous| previous.until_ms <= now) {
            pair.previous = None;
            if let Some((_, before)) = &self.shared.files {
                fs::remove_file(before).ok();
            }
        }
        let current = pair.current.as_bytes().ct_eq(token);
        let previous = pair.previous.as_ref().map_or(0.into(), |previous| previous.token.as_bytes().ct_eq(token));
        (current | previous).into()
    }

    /// Makes a new token; the old one stays good for `GRACE_S` seconds.
    pub fn rotate(&self) -> io::Result<()> {
        let mut pair = self.shared.pair.lock();
        let token = Zeroizing::new(ids::token());
        let until_ms = self.shared.clock.now_ms().saturating_add(GRACE_S * 1000);
        if let Some((path, before)) = &self.shared.files {
            // The old one first: a crash in between leaves it in both files.
            let text = Zeroizing::new(format!("{}\n{until_ms}\n", *pair.current));
            points::TOKEN_PREVIOUS_WRITTEN.reach_if_ok(files::write_atomic(before, text.as_bytes(), 0o600))?;
            write(path, &token)?;
        }
        let before = std::mem::replace(&mut pair.current, token);
        pair.previous = Some(Previous { token: before, until_ms });
        Ok(())
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

fn write(path: &Path, token: &str) -> io::Result<()> {
    points::TOKEN_WRITTEN.reach_if_ok(files::write_atomic(path, Zeroizing::new(format!("{token}\n")).as_bytes(), 0o600))
}

fn read(path: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let Some(text) = files::read_text(path, LIMIT)?.map(Zeroizing::new) else { return Ok(None) };
    let token = text.trim();
    // An empty file is none: otherwise the empty token would open the door.
    Ok((token.len() >= 32).then(|| Zeroizing::new(token.to_owned())))
}

fn read_previous(path: &Path, now_ms: u64) -> Option<Previous> {
    let text = Zeroizing::new(files::read_text(path, LIMIT).ok()??);
    let (token, until) = text.trim().split_once('\n')?;
    let until_ms = until.trim().parse().ok()?;
    // One from a clock that was ahead would last for ever.
    let good = token.len() >= 32 && now_ms < until_ms && until_ms <= now_ms.saturating_add(GRACE_S * 1000);
    good.then(|| Previous { token: Zeroizing::new(token.to_owned()), until_ms })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn clock() -> (Clock, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let read = Arc::clone(&now);
        (Clock::of(move || read.load(Ordering::Relaxed)), now)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let (clock, _) = clock();
        let token = Tokens::open(&mesh, &clock).unwrap().current();
        assert_eq!(token.len(), 43);
        assert_eq!(fs::read_to_string(mesh.local_token()).unwrap(), format!("{}\n", *token));
        assert_eq!(mode(&mesh.local_token()), 0o600);
        let again = Tokens::open(&mesh, &clock).unwrap();
        assert_eq!(again.current(), token);
        assert!(again.accepts(token.as_bytes()));
        assert!(!again.accepts(b"") && !again.accepts(&token.as_bytes()[..42]));
    }

    #[test]
    fn the_old_one_is_good_for_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let (clock, now) = clock();
        let tokens = Tokens::open(&mesh, &clock).unwrap();
        let old = tokens.current();
        tokens.rotate().unwrap();
        let new = tokens.current();
        assert_ne!(old, new);
        assert!(tokens.accepts(old.as_bytes()) && tokens.accepts(new.as_bytes()));
        assert_eq!(mode(&mesh.local_token_prev()), 0o600);

        now.fetch_add(30_000, Ordering::Relaxed);
        let restarted = Tokens::open(&mesh, &clock).unwrap();
        assert!(restarted.accepts(old.as_bytes()) && restarted.accepts(new.as_bytes()));

        now.fetch_add(30_000, Ordering::Relaxed);
        for tokens in [&tokens, &restarted] {
            assert!(!tokens.accepts(old.as_bytes()));
            assert!(tokens.accepts(new.as_bytes()));
        }
        assert!(!mesh.local_token_prev().exists());
    }

    #[test]
    fn two_rotations_keep_the_last_two() {
        let (clock, _) = clock();
        let tokens = Tokens::in_memory(&clock);
        let first = tokens.current();
        tokens.rotate().unwrap();
        let second = tokens.current();
        tokens.rotate().unwrap();
        assert!(!tokens.accepts(first.as_bytes()));
        assert!(tokens.accepts(second.as_bytes()));
    }

    #[test]
    fn files_that_make_no_sense() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let (clock, _) = clock();
        fs::write(mesh.local_token(), "\n").unwrap();
        let old = "x".repeat(43);
        for text in ["", "abc", &format!("{old}\n99999999999\n"), &format!("{old}\n5\n"), &format!("{old}\nsoon\n")] {
            fs::write(mesh.local_token_prev(), text).unwrap();
            let tokens = Tokens::open(&mesh, &clock).unwrap();
            assert!(!tokens.accepts(b""), "an empty file opens nothing");
            assert!(!tokens.accepts(old.as_bytes()), "{text}");
            assert_eq!(tokens.current().len(), 43);
        }
    }
}
