//! Getting the compressed program, from a local file or over HTTP, and checking that it is the right one.
//!
//! The whole blob is held in memory, within a limit: what was checked is then exactly what is installed, whatever
//! happens to the file meanwhile. Addresses never appear in errors, because they may carry credentials.

use std::fs::{self, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostel_house::workspace::PathError;
use hyper::StatusCode;
use rustix::fs::OFlags;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::{InstallError, InstallLimits};
use crate::http_client::{Address, Client};

const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A local blob and the file it came from.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) origin: Origin,
}

/// The very file that was read, to be removed once it served.
pub(super) struct Origin {
    path: PathBuf,
    identity: (u64, u64),
}

impl Origin {
    /// Removes the file, unless something else (such as the installed program) has taken its name.
    pub(super) fn remove(&self) {
        let unchanged = fs::metadata(&self.path).is_ok_and(|metadata| identity(&metadata) == self.identity);
        if unchanged {
            // A blob that can not be removed is untidy, and no failure of the installation.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Reads a local blob.
pub(super) async fn from_file(path: &Path, limit: u64) -> Result<Input, InstallError> {
    let path = path.to_path_buf();
    match hostel_tasks::spawn_blocking(move || read_file(path, limit)).await {
        Ok(read) => read,
        Err(failed) => Err(InstallError::Decompress(failed.to_string())),
    }
}

fn read_file(path: PathBuf, limit: u64) -> Result<Input, InstallError> {
    let refused =
        |op, errno: Errno| InstallError::OpenInput(PathError { op, path: path.clone(), errno: errno.raw_os_error() });
    let failed = |op, error: std::io::Error| InstallError::OpenInput(PathError::new(op, &path, &error));
    // Not waiting: a pipe without a writer would hold the installation for ever.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(|error| failed("open", error))?;
    let metadata = file.metadata().map_err(|error| failed("stat", error))?;
    if metadata.is_dir() {
        return Err(refused("read", Errno::ISDIR));
    }
    if !metadata.is_file() {
        return Err(refused("open", Errno::INVAL));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| failed("read", error))?;
    if bytes.len() as u64 > limit {
        return Err(InstallError::InputTooLarge { path, limit });
    }
    Ok(Input { bytes, origin: Origin { path, identity: identity(&metadata) } })
}

/// Downloads a blob.
pub(super) async fn from_network(address: &str, limits: &InstallLimits) -> Result<Vec<u8>, InstallError> {
    match tokio::time::timeout(limits.download, download(address, limits.blob)).await {
        Ok(downloaded) => downloaded,
        Err(_) => Err(InstallError::Download(format!("timed out after {}s", limits.download.as_secs_f64()))),
    }
}

async fn download(address: &str, limit: u64) -> Result<Vec<u8>, InstallError> {
    let failed = |error: &dyn std::error::Error| InstallError::Download(error.to_string());
    let address = Address::parse(address).map_err(|error| failed(&error))?;
    let mut response = Client::new(CONNECT_LIMIT).get(&address).await.map_err(|error| failed(&error))?;
    if response.status() != StatusCode::OK {
        return Err(InstallError::Status(response.status().as_u16()));
    }
    let too_large = || InstallError::Download(format!("response exceeds {limit} bytes"));
    if response.content_length().is_some_and(|stated| stated > limit) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| failed(&error))? {
        if (bytes.len() + part.len()) as u64 > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

/// Checks a blob's SHA-256 against its expected hex form.
pub(super) fn verify(bytes: &[u8], expected: &str) -> Result<(), InstallError> {
    let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if actual.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(InstallError::Checksum { expected: expected.to_owned(), actual })
}
