//! Somebody who follows the writes of a database and has a say in whether a group of them is committed.
//!
//! The writer calls a witness on its own thread, in this order: `begin`, then for each write `mark` (and `go_back` if the
//! write failed and was taken back alone), then `prepare` with everything written, then `settled`. Nobody is told that a
//! write succeeded before `settled` has returned. A witness keeps what it counts outside of the database, so it must
//! follow every rollback; that is what `mark`, `go_back` and `settled(false)` are for.

use std::sync::{Arc, OnceLock};

use rusqlite::Transaction;

/// See the module.
pub trait Witness: Send + Sync {
    /// A group of writes begins.
    fn begin(&self, transaction: &Transaction<'_>);

    /// The place to which a failing write takes the witness back.
    fn mark(&self) -> usize;

    /// The write since `mark` was taken back alone.
    fn go_back(&self, mark: usize);

    /// The group is written and about to be committed. An error takes the whole group back.
    fn prepare(&self, transaction: &Transaction<'_>) -> Result<(), String>;

    /// Whether the group was committed.
    fn settled(&self, committed: bool);
}

/// The place for the witness of a database: empty until there is one, and then never another.
#[derive(Clone, Default)]
pub(crate) struct WitnessPlace(Arc<OnceLock<Arc<dyn Witness>>>);

impl WitnessPlace {
    pub(crate) fn fill(&self, witness: Arc<dyn Witness>) -> bool {
        self.0.set(witness).is_ok()
    }

    pub(crate) fn get(&self) -> Option<&dyn Witness> {
        self.0.get().map(AsRef::as_ref)
    }
}
