//! Small things that are kept as JSON in the mesh's directory: the roster, topics with their keys, sessions.
//!
//! Invariant: a file is whole or as it was before: written beside its place, mode 0600, then renamed. What cannot be
//! read is set aside and counts as missing: all of it can be learned again from the broker.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// The largest file that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A file, or nothing for what is ephemeral.
#[derive(Debug, Clone)]
pub(crate) struct Kept(Option<PathBuf>);

impl Kept {
    /// The file `name` in the mesh's directory, if there is one.
    pub(crate) fn new(dir: Option<&Path>, name: &str) -> Self {
        Self(dir.map(|dir| dir.join(name)))
    }

    /// What was kept; the default if there is nothing, or nothing that can be read.
    pub(crate) fn load<T: DeserializeOwned + Default>(&self) -> io::Result<T> {
        let Some(path) = &self.0 else { return Ok(T::default()) };
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(error),
        };
        let mut text = Zeroizing::new(Vec::new());
        file.take(LARGEST).read_to_end(&mut text)?;
        match serde_json::from_slice(&text) {
            Ok(value) => Ok(value),
            Err(_) => {
                std::fs::rename(path, path.with_extension("json.unreadable"))?;
                Ok(T::default())
            }
        }
    }

    /// Keeps a value. `durable`: it is on disk when this returns, not only with the system.
    pub(crate) fn save(&self, value: &impl Serialize, durable: bool) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let text = Zeroizing::new(serde_json::to_vec(value)?);
        let beside = path.with_extension("json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&text)?;
        if durable {
            file.sync_data()?;
        }
        std::fs::rename(&beside, path)?;
        if let (true, Some(dir)) = (durable, path.parent()) {
            std::fs::File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_rubbish_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(Some(dir.path()), "x.json");
        assert_eq!(kept.load::<Vec<u32>>().unwrap(), Vec::<u32>::new());
        kept.save(&vec![1, 2], true).unwrap();
        assert_eq!(kept.load::<Vec<u32>>().unwrap(), vec![1, 2]);
        std::fs::write(dir.path().join("x.json"), "{").unwrap();
        assert_eq!(kept.load::<Vec<u32>>().unwrap(), Vec::<u32>::new());
        assert!(dir.path().join("x.json.unreadable").exists());
        let nowhere = Kept::new(None, "x.json");
        nowhere.save(&1, true).unwrap();
        assert_eq!(nowhere.load::<u32>().unwrap(), 0);
    }
}
