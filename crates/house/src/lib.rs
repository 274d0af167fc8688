//! The domain behind every door: hosted processes, agent sessions, what people are asked, and the files and
//! repositories around them.
//!
//! The house knows no wire: no JSON-RPC, no HTTP, no command line. A door translates; the house
//! decides. Whatever two doors need lives here.

#![forbid(unsafe_code)]

pub mod approvals;
pub mod housekeeping;
pub mod insiders;
pub mod pipelines;
pub mod processes;
pub mod seals;
pub mod sessions;
pub mod store;
pub mod workspace;
