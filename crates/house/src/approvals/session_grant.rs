//! The sudo-proxy session grant: unprivileged commands of that door run unasked until the daemon ends.
//!
//! Invariant: two barriers, both needed. The daemon was started eligible, which never changes while it runs; and a person
//! answered "always" to an unprivileged command. It is in memory only and never covers anything that root does.

use std::sync::atomic::{AtomicBool, Ordering};

use super::types::{Approval, Kind};

/// The door whose contract has this grant.
pub const DOOR: &str = "sudo-proxy";

/// What stands where a rule's name would.
pub(super) const NAME: &str = "session grant";

/// The grant of this daemon's life.
#[derive(Debug)]
pub struct SessionGrant {
    eligible: bool,
    given: AtomicBool,
}

impl SessionGrant {
    pub(super) fn new(eligible: bool) -> Self {
        SessionGrant { eligible, given: AtomicBool::new(false) }
    }

    /// Whether this daemon may have one at all; fixed when it was started.
    #[must_use]
    pub fn eligible(&self) -> bool {
        self.eligible
    }

    /// Whether a person gave it.
    #[must_use]
    pub fn given(&self) -> bool {
        self.eligible && self.given.load(Ordering::Acquire)
    }

    /// A person answered "always" to this request. Says whether that gives the grant.
    pub(super) fn give(&self, approval: &Approval) -> bool {
        let gives = self.eligible && concerns(approval);
        if gives {
            self.given.store(true, Ordering::Release);
        }
        gives
    }

    /// Whether a request runs unasked because of it.
    pub(super) fn covers(&self, approval: &Approval) -> bool {
        self.given() && concerns(approval)
    }
}

pub(super) fn concerns(approval: &Approval) -> bool {
    approval.kind == Kind::Pipeline && approval.requester.door == DOOR
}
