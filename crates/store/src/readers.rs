//! Connections that only read; they never wait for the writer.

use std::path::PathBuf;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::{Options, Read, StoreError, connect};

/// Connections for reading that are kept open, and that there may be at once: each has a cache and descriptors.
const KEPT: usize = 2;
const MOST: usize = 8;

pub(crate) struct Readers {
    name: &'static str,
    path: PathBuf,
    options: Options,
    /// Absent once closed.
    idle: Mutex<Option<Vec<Connection>>>,
    pub(crate) places: Semaphore,
}

impl Readers {
    pub(crate) fn new(name: &'static str, path: PathBuf, options: Options) -> Self {
        Self { name, path, options, idle: Mutex::new(Some(Vec::new())), places: Semaphore::new(MOST) }
    }

    pub(crate) fn with(&self, work: Read) -> Result<(), StoreError> {
        let connection = self.take()?;
        let result = work(&connection);
        self.give_back(connection);
        result.map_err(|error| StoreError::of(self.name, &error))
    }

    /// Closes the connections that are not in use, and each other one when its read ends. Nothing is read after this.
    pub(crate) fn close(&self) {
        self.places.close();
        drop(self.idle.lock().take());
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().as_mut().ok_or(StoreError::Closed)?.pop();
        match idle {
            Some(connection) => Ok(connection),
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY, self.options)
                .map_err(|error| StoreError::of(self.name, &error)),
        }
    }

    fn give_back(&self, connection: Connection) {
        if let Some(idle) = self.idle.lock().as_mut().filter(|idle| idle.len() < KEPT) {
            idle.push(connection);
        }
    }
}
