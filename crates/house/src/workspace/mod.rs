//! The workspace: what a client may look at and change around a hosted process, namely files, archives and git.
//!
//! Results and errors are typed. An error that stems from the kernel carries the operation, the path and the
//! error number, so that a door can word it as its contract demands; the words of the claustrum contract are
//! what `Display` prints.
//!
//! Nothing here knows a wire format, keeps state between calls, or grants access: every function acts with the
//! rights of the daemon's user.

pub mod archive;
pub mod errno;
pub mod files;
pub mod git;
pub mod mode;
pub mod paths;

pub use errno::{PathError, errno_of, errno_text};
