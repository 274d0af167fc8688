//! An inbox for the tests of this module, without processes.

use std::sync::Arc;

use hostel_peer::Peer;

use super::{Answer, ApprovalOptions, Approvals, Household, KeeperId};

/// A house that nobody is inside of.
struct Empty;

impl Household for Empty {
    fn standing<'a>(&'a self, peer: &'a Peer) -> Answer<'a> {
        Box::pin(peer.standing())
    }

    fn keeper(&self) -> Option<KeeperId> {
        None
    }
}

/// An inbox in a directory that goes with the test.
pub(super) async fn inbox(change: impl FnOnce(&mut ApprovalOptions)) -> (tempfile::TempDir, Approvals) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = ApprovalOptions::with_household(
        directory.path().join("approver"),
        Arc::new(Empty),
        Arc::new(crate::seals::MemoryVault::new().unwrap()),
    );
    change(&mut options);
    let store = crate::store::open(&directory.path().join("state.db")).unwrap();
    let approvals = Approvals::open(store, options).await.unwrap();
    (directory, approvals)
}
