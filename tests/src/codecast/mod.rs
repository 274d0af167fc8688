//! The codecast door as its clients see it: a daemon to start and to kill, HTTP by hand.
//!
//! Nothing here knows more than the contract: requests are bytes, answers are bytes, and every wait has an end.

pub mod daemon;
pub mod http;
pub mod tls;

pub use daemon::{Daemon, Options};
pub use http::{Answer, Connection};
