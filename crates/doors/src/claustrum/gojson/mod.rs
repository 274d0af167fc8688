//! JSON as Go's `encoding/json` reads and writes it.
//!
//! The contract is defined by what that package accepts and prints: keys match without regard to
//! case, the last duplicate wins, `null` leaves a field alone, bad UTF-8 becomes U+FFFD, and `<`,
//! `>` and `&` are escaped on the way out. None of it recurses, so nesting costs no stack.
//!
//! It is not a general JSON library: there is no value tree for callers to hold, only scanning,
//! the few field types that requests have, and writing.

pub mod decode;
pub mod encode;
pub mod scan;
pub mod value;

pub use decode::members;
pub use encode::{Object, push_string};
pub use scan::{Malformed, Scanner};
