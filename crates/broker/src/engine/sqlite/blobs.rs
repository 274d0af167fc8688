//! Blobs as files: written beside their place under another name, and moved there when they are whole and on disk.
//!
//! Invariant: a name without `.part` is a whole blob. Files are 0600 in a directory of 0700, and a name is only what an id
//! may be: nothing can lead elsewhere.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hostel_syncpoint::points;
use hostel_wire::{encoding, random};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use super::super::BlobReader;
use super::super::blob::{BlobError, BlobInfo, BlobSink};

/// What is being written.
const PART: &str = ".part";

/// An id has this many characters at most.
const ID: usize = 128;

pub(super) struct Blobs {
    directory: PathBuf,
}

impl Blobs {
    /// Makes the directory if it is missing, and removes what was never finished.
    pub(super) fn open(directory: PathBuf) -> std::io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(PART) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(Self { directory })
    }

    fn path(&self, id: &str) -> Result<PathBuf, BlobError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        match !id.is_empty() && id.len() <= ID && id.bytes().all(fits) {
            true => Ok(self.directory.join(id)),
            false => Err(BlobError::BadId(id.chars().take(ID).collect())),
        }
    }

    pub(super) async fn create(&self, id: &str, max_bytes: u64) -> Result<FileBlob, BlobError> {
        let place = self.path(id)?;
        // Two may upload the same at once.
        let part = self.directory.join(format!("{id}.{}{PART}", encoding::hex(&random::bytes::<8>())));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = tokio::fs::OpenOptions::from(options).open(&part).await?;
        Ok(FileBlob { file, part: Some(part), place, size: 0, max_bytes, hash: Sha256::new() })
    }

    pub(super) async fn read(&self, id: &str, from: u64) -> Result<(BlobInfo, BlobReader), BlobError> {
        let mut file = File::open(self.path(id)?).await?;
        let size = file.metadata().await?.len();
        if from > 0 {
            file.seek(std::io::SeekFrom::Start(from)).await?;
        }
        Ok((BlobInfo { size, sha256: None }, Box::new(file)))
    }

    pub(super) async fn delete(&self, id: &str) -> Result<(), BlobError> {
        match tokio::fs::remove_file(self.path(id)?).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(super) async fn older(&self, than_ms: u64, limit: usize) -> Result<Vec<String>, BlobError> {
        let mut ids = Vec::new();
        let mut entries = tokio::fs::read_dir(&self.directory).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ids.len() >= limit {
                break;
            }
            // It may be gone by now.
            let Ok(metadata) = entry.metadata().await else { continue };
            let age = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            if !name.ends_with(PART) && age < u128::from(than_ms) && self.path(&name).is_ok() {
                ids.push(name);
            }
        }
        Ok(ids)
    }
}

/// A blob that is being written to a file.
pub struct FileBlob {
    file: File,
    /// Absent once it is in its place.
    part: Option<PathBuf>,
    place: PathBuf,
    size: u64,
    max_bytes: u64,
    hash: Sha256,
}

impl BlobSink for FileBlob {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let size = self.size.saturating_add(bytes.len() as u64);
        if size > self.max_bytes {
            return Err(BlobError::TooLarge(self.max_bytes));
        }
        self.file.write_all(bytes).await?;
        self.hash.update(bytes);
        self.size = size;
        Ok(())
    }

    async fn settle(&mut self) -> Result<BlobInfo, BlobError> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        Ok(BlobInfo { size: self.size, sha256: Some(self.hash.clone().finalize().into()) })
    }

    async fn finish(mut self) -> Result<BlobInfo, BlobError> {
        let info = self.settle().await?;
        if let Some(part) = &self.part {
            tokio::fs::rename(part, &self.place).await?;
        }
        self.part = None;
        if let Some(directory) = self.place.parent() {
            File::open(directory).await?.sync_all().await?;
        }
        points::BROKER_BLOB.reach();
        Ok(info)
    }
}

impl Drop for FileBlob {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            remove(&part);
        }
    }
}

fn remove(path: &Path) {
    // The next start removes it if this does not.
    std::fs::remove_file(path).ok();
}
