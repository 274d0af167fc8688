//! `state.db`: everything of the house that must outlive the daemon and is not a process's output.
//!
//! Its steps are here; how it is written and read is `hostel_store`'s. The rooms that own the tables bring their
//! statements.

use std::path::Path;

use hostel_store::{Options, Schema};
pub use hostel_store::{Store, StoreError, Ticket};

/// A step that was released is never changed.
const STATE: Schema = Schema {
    name: "state.db",
    steps: &[
        include_str!("migrations/0001_sessions.sql"),
        include_str!("migrations/0002_consent.sql"),
        include_str!("migrations/0003_mail.sql"),
        include_str!("migrations/0004_insiders.sql"),
        include_str!("migrations/0005_seals.sql"),
        include_str!("migrations/0006_approver_proof.sql"),
        include_str!("migrations/0007_prompts.sql"),
        include_str!("migrations/0008_approver_key.sql"),
        include_str!("migrations/0009_housekeeping.sql"),
    ],
};

/// Opens the house's database, makes it if it is missing, and brings it up to date.
pub fn open(path: &Path) -> Result<Store, StoreError> {
    let options = Options { when_quiet: Some(hostel_keeper::memory::give_back), ..Options::default() };
    Store::open(path, &STATE, options)
}
