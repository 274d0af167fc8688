//! Processes inside any house of a user, for daemons that belong to no house: those of meshes.
//!
//! Invariant: a process below a keeper of one of the houses, or with the mark of one, is inside; one that cannot be looked
//! at counts as inside.

use std::path::PathBuf;
use std::sync::Arc;

use crate::approvals::{Answer, DeciderPeer, Household, KeeperId, is_inside_any, may_decide};

/// The houses below one directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Houses(Option<Arc<PathBuf>>);

impl Houses {
    /// The houses of this directory.
    #[must_use]
    pub fn below(home: PathBuf) -> Self {
        Houses(Some(Arc::new(home)))
    }

    /// No houses at all, for tests: nobody is inside.
    #[must_use]
    pub fn none() -> Self {
        Houses(None)
    }

    /// Whether somebody is inside one of them, or cannot be recognised.
    pub async fn hold(&self, peer: &DeciderPeer) -> bool {
        match &self.0 {
            Some(_) => may_decide(self, peer).await.is_err(),
            None => false,
        }
    }
}

impl Household for Houses {
    fn is_inside(&self, pid: u32) -> Answer<'_> {
        let home = self.0.clone();
        Box::pin(async move {
            let look = move || home.is_some_and(|home| is_inside_any(&home, pid));
            hostel_tasks::spawn_blocking(look).await.unwrap_or(true)
        })
    }

    fn keeper(&self) -> Option<KeeperId> {
        None
    }
}
