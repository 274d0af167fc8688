//! Messages from meshes for sessions: taken from a mailbox, asked about where that is wanted, put to the agent once.
//!
//! Invariant: a message is taken once and for ever. That it was taken, what became of it (a prompt, or a request to a
//! person) and how far the mailbox was read are one write. What a person agreed to becomes a prompt in a write that also
//! says so. A message that is not taken stays where it is, and is looked at again later.
//!
//! A message changes nothing about its session: not its mode, nor its model, nor its tools. It knows no wire: whoever
//! reads the mailboxes brings letters.

mod address;
mod decided;
mod launched;
mod letter;
mod policy;
mod rows;
mod taking;

pub(crate) use address::{address_of, has_missing, missing_addresses};
pub(crate) use decided::look_after;
pub use launched::{Launched, variables};
pub use letter::Letter;
pub use policy::{MailLimits, MeshPolicy};
pub use taking::{MailPlace, Taken};

pub(super) use launched::launched;
pub(super) use rows::trim;

/// The door that prompts of letters come in by.
pub const DOOR: &str = "mesh";
