//! Bearer tokens, for callers from elsewhere.
//!
//! Invariant: a token that is taken out of the file is of no use from the next call on, and one that is put in is
//! good from the next call on. Only digests are kept in memory, and all of them are compared each time. A file that
//! cannot be understood changes nothing: it may be half written.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use zeroize::Zeroizing;

use super::yaml::{self, Node, YamlError};
use crate::claustrum::Log;

/// The largest token file that is read.
const LARGEST_FILE: u64 = 1024 * 1024;
/// The longest token anybody may show.
const LONGEST_TOKEN: usize = 4096;

pub(super) const MISSING: &str = "Unauthorized: missing Bearer token";
pub(super) const INVALID: &str = "Unauthorized: invalid token";

/// What tells one state of a file from the next.
type Stamp = (u64, u64, i64, i64);

/// The tokens of a file that may change at any time.
pub(super) struct Tokens {
    path: PathBuf,
    known: Mutex<Known>,
    log: Log,
}

#[derive(Default)]
struct Known {
    stamp: Option<Stamp>,
    digests: Vec<[u8; 32]>,
}

impl Tokens {
    pub(super) fn new(path: PathBuf, log: Log) -> Self {
        let tokens = Self { path, known: Mutex::default(), log };
        let mut known = tokens.known.lock();
        tokens.refresh(&mut known);
        drop(known);
        tokens
    }

    /// Whether an `Authorization` header lets its sender in; else the sentence to refuse it with.
    pub(super) fn check(&self, header: Option<&[u8]>) -> Result<(), &'static str> {
        let token = header.and_then(|header| header.strip_prefix(b"Bearer ")).ok_or(MISSING)?;
        if token.len() > LONGEST_TOKEN {
            return Err(INVALID);
        }
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut known = self.known.lock();
        self.refresh(&mut known);
        let found = known.digests.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        if bool::from(found) { Ok(()) } else { Err(INVALID) }
    }

    /// Reads the file again if it is not the one that was read last.
    fn refresh(&self, known: &mut Known) {
        let Ok(metadata) = std::fs::metadata(&self.path) else {
            *known = Known::default();
            return;
        };
        let stamp = Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
        if known.stamp == stamp {
            return;
        }
        known.stamp = stamp;
        match read(&self.path) {
            Ok(digests) => {
                self.log.info(format_args!("codecast: {} tokens in {}", digests.len(), self.path.display()));
                known.digests = digests;
            }
            Err(error) => self.log.warn(format_args!(
                "codecast: {} cannot be read, the tokens stay as they were: {error}",
                self.path.display()
            )),
        }
    }
}

fn read(path: &Path) -> Result<Vec<[u8; 32]>, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_FILE + 1).read_to_string(&mut text))
        .map_err(|error| error.to_string())?;
    let text = Zeroizing::new(text);
    if text.len() as u64 > LARGEST_FILE {
        return Err(format!("it has more than {LARGEST_FILE} bytes"));
    }
    parse(&text)
}

/// The digests of the tokens in a token file.
pub(super) fn parse(text: &str) -> Result<Vec<[u8; 32]>, String> {
    read_tokens(text).map_err(|error| error.to_string())
}

fn read_tokens(text: &str) -> Result<Vec<[u8; 32]>, YamlError> {
    let file = yaml::parse(text)?;
    let Some(tokens) = file.get("tokens")? else { return Ok(Vec::new()) };
    let mut digests = Vec::new();
    for entry in tokens.items()? {
        let token = entry.get("token")?.map(Node::text).transpose()?.map(Zeroizing::new);
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            digests.push(Sha256::digest(token.as_bytes()).into());
        }
    }
    Ok(digests)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use crate::claustrum::Level;
    use std::fs;

    fn tokens(path: &Path) -> Tokens {
        Tokens::new(path.to_owned(), Log::new(Level::Error, std::io::sink()).unwrap())
    }

    #[test]
    fn the_header_is_read_to_the_letter() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens.yaml");
        fs::write(&path, "tokens:\n- token: ccast_1\n  label: phone\n  created: '2026-01-01'\n- token: ccast_2\n")
            .unwrap();
        let tokens = tokens(&path);
        assert_eq!(tokens.check(Some(b"Bearer ccast_1")), Ok(()));
        assert_eq!(tokens.check(Some(b"Bearer ccast_2")), Ok(()));
        assert_eq!(tokens.check(Some(b"Bearer ccast_3")), Err(INVALID));
        assert_eq!(tokens.check(Some(b"Bearer ccast_1 ")), Err(INVALID));
        assert_eq!(tokens.check(Some(b"Bearer ")), Err(INVALID));
        assert_eq!(tokens.check(Some(b"bearer ccast_1")), Err(MISSING));
        assert_eq!(tokens.check(Some(b"ccast_1")), Err(MISSING));
        assert_eq!(tokens.check(None), Err(MISSING));
        assert_eq!(tokens.check(Some(&[b"Bearer ".as_slice(), &[b'x'; 5000]].concat())), Err(INVALID));
    }

    #[test]
    fn changes_of_the_file_count_at_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens.yaml");
        let tokens = tokens(&path);
        assert_eq!(tokens.check(Some(b"Bearer a")), Err(INVALID));
        fs::write(&path, "tokens:\n- token: a\n").unwrap();
        assert_eq!(tokens.check(Some(b"Bearer a")), Ok(()));
        fs::write(&path, "tokens:\n- token: \"a\n").unwrap();
        assert_eq!(tokens.check(Some(b"Bearer a")), Ok(()), "half a file changes nothing");
        fs::write(&path, "tokens:\n- token: bcd\n").unwrap();
        assert_eq!(tokens.check(Some(b"Bearer a")), Err(INVALID));
        assert_eq!(tokens.check(Some(b"Bearer bcd")), Ok(()));
        fs::remove_file(&path).unwrap();
        assert_eq!(tokens.check(Some(b"Bearer bcd")), Err(INVALID));
    }

    #[test]
    fn empty_tokens_open_nothing() {
        for text in ["", "tokens:\n", "tokens: []\n", "tokens:\n- label: x\n", "tokens:\n- token: ''\n", "other: 1\n"] {
            assert_eq!(parse(text), Ok(Vec::new()), "{text:?}");
        }
        assert!(parse("tokens: 5").is_err());
    }
}
