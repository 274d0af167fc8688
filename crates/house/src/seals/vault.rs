//! Where the house key comes from and where the anchor lies: out of the reach of everybody but the keeper and its daemon.
//!
//! The keeper is the vault of a house ([`crate::processes`]). A [`MemoryVault`] is one for tests, and for a daemon whose
//! keeper has no key to give: what is sealed with that key counts for nothing once the daemon has ended.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::HouseKey;

/// Why an anchor was not put into the vault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The process of the vault has ended, and with it the key is gone. A vault that lives and cannot be reached is stuck.
    #[error("the keeper is gone")]
    Gone,
    /// The vault takes nothing at the moment, or cannot be reached.
    #[error("the keeper does not take the anchor of what was decided: {0}")]
    Stuck(String),
}

/// What a vault remembers, when it has been asked.
pub type Recalled<'a> = Pin<Box<dyn Future<Output = io::Result<Option<Vec<u8>>>> + Send + 'a>>;

/// The key of a vault as it changes.
pub type KeyChanges = watch::Receiver<Option<Arc<HouseKey>>>;

/// See the module.
pub trait Vault: Send + Sync {
    /// The key of this lifetime of the vault; none if it has none to give.
    fn key(&self) -> Option<Arc<HouseKey>>;

    /// Tells when the key is another: the vault that had the one before is gone. None if that never happens.
    fn key_changes(&self) -> Option<KeyChanges> {
        None
    }

    /// What was put last; none if nothing was.
    fn recall(&self) -> Recalled<'_>;

    /// Puts this in the place of what was put before. Once this returns, the death of this process does not undo it. Called
    /// on a thread that may wait.
    fn put(&self, anchor: &[u8]) -> Result<(), VaultError>;
}

/// A vault in this process.
#[derive(Clone)]
pub struct MemoryVault(Arc<Mutex<MemoryContents>>);

struct MemoryContents {
    key: Arc<HouseKey>,
    anchor: Option<Vec<u8>>,
}

impl MemoryContents {
    fn new() -> io::Result<Self> {
        Ok(MemoryContents { key: Arc::new(HouseKey::random()?), anchor: None })
    }
}

impl MemoryVault {
    /// A vault with a key of its own.
    pub fn new() -> io::Result<Self> {
        Ok(MemoryVault(Arc::new(Mutex::new(MemoryContents::new()?))))
    }

    /// Forgets everything, as a keeper that dies, and has another key from now on.
    pub fn lose(&self) -> io::Result<()> {
        *self.0.lock() = MemoryContents::new()?;
        Ok(())
    }
}

impl Vault for MemoryVault {
    fn key(&self) -> Option<Arc<HouseKey>> {
        Some(Arc::clone(&self.0.lock().key))
    }

    fn recall(&self) -> Recalled<'_> {
        Box::pin(async { Ok(self.0.lock().anchor.clone()) })
    }

    fn put(&self, anchor: &[u8]) -> Result<(), VaultError> {
        self.0.lock().anchor = Some(anchor.to_owned());
        Ok(())
    }
}
