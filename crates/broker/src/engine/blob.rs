//! Blobs: files of any size up to a bound, written as they come and there only when they are whole.

use std::future::Future;

/// What is known of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its bytes.
    pub size: u64,
    /// Their digest; empty when it was opened rather than written.
    pub sha256: Option<[u8; 32]>,
}

/// Why a blob could not be written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BlobError {
    /// There is none of this id.
    #[error("no such file")]
    NotFound,
    /// The id cannot be one.
    #[error("`{0}` is no id of a file")]
    BadId(String),
    /// More bytes than were allowed.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// The disk's reason.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for BlobError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::Io(error.to_string()),
        }
    }
}

/// A blob that is being written. Dropped before it is finished, it leaves nothing.
pub trait BlobSink: Send + 'static {
    /// Adds bytes; refuses those beyond the bound.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// What it has come to. All of it is on disk then, though not in its place: what is left to do is quick.
    fn settle(&mut self) -> impl Future<Output = Result<BlobInfo, BlobError>> + Send;

    /// Puts it in its place; it is on disk when this returns.
    fn finish(self) -> impl Future<Output = Result<BlobInfo, BlobError>> + Send;
}
