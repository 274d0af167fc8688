//! The record of what one process printed: one file, written by one writer and read by any number of cursors.
//!
//! A journal is a correct prefix at every moment: a record is visible only once it is whole, numbers ("seq") rise by
//! one per frame of at most 32 KiB without gaps, and the record of the end is the last one. Killing the writer at any
//! instant loses nothing that was committed. A power cut may cost the unsynced tail.
//!
//! The crate knows nothing of processes, pipes or sockets, starts no thread, never calls `fsync` and has no index file:
//! positions are found by binary search over the block headers.
#![forbid(unsafe_code)]

mod aside;
mod batch;
mod blocks;
mod file;
pub mod format;
mod id;
mod reader;
mod recovery;
mod retention;
mod verify;
mod writer;

pub use aside::{ReadFailure, SetAside, restore, scan_set_aside, set_aside};
pub use batch::{Batch, Item, Items};
pub use format::{BLOCK_BYTES, Exit, FRAME_BYTES, LOST_KEEPER_ENDED, MAX_LABEL, MAX_PAYLOAD, Meta, Note, Stream};
pub use id::{ParseIdError, ProcessId};
pub use reader::{Blocking, Cursor, Fill, ReadError, Reader, Totals};
pub use recovery::{End, EndKind, Recovered, inspect, inspect_fd, inspect_set_aside, recover};
pub use retention::{FileInfo, Retention, bytes_on_disk, remove, scan};
pub use verify::{Fault, MAX_FAULTS, Verified, verify};
pub use writer::{HEADROOM, Position, TAILROOM, Writer};
