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

    /// A person answered "always" to this request, which gives the grant if it is one of those that it would cover.
    pub(super) fn give(&self, approval: &Approval) {
        if concerns(approval) {
            self.given.store(true, Ordering::Release);
        }
    }

    /// Whether a request runs unasked because of it.
    pub(super) fn covers(&self, approval: &Approval) -> bool {
        self.given() && concerns(approval)
    }
}

pub(super) fn concerns(approval: &Approval) -> bool {
    approval.kind == Kind::Pipeline && approval.requester.door == DOOR
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Requester;
    use super::super::asking::blank;
    use super::super::types::Subject;
    use super::*;
    use crate::pipelines::{Pipeline, Privilege};

    fn asked(door: &str, privilege: Privilege) -> Approval {
        let (stages, env, cwd) = (Vec::new(), Vec::new(), PathBuf::from("/"));
        let pipeline = Pipeline { stages, env, cwd, privilege, forward_agent: false };
        let requester = Requester { door: door.to_owned(), ..Requester::default() };
        Approval { requester, ..blank(String::new(), hostel_agents::Raw::null(), Subject::Pipeline(pipeline)) }
    }

    #[test]
    fn it_takes_both_the_daemon_and_a_person_and_is_for_one_door_and_never_for_root() {
        let own = asked(DOOR, Privilege::None);
        let others = [asked("mcp", Privilege::None), asked(DOOR, Privilege::Sudo), asked(DOOR, Privilege::Pkexec)];
        let grant = SessionGrant::new(true);
        assert!(grant.eligible() && !grant.given() && !grant.covers(&own));
        for other in &others {
            grant.give(other);
            assert!(!grant.given(), "{other:?}");
        }
        grant.give(&own);
        assert!(grant.given() && grant.covers(&own));
        assert!(others.iter().all(|other| !grant.covers(other)));
        let never = SessionGrant::new(false);
        never.give(&own);
        assert!(!never.eligible() && !never.given() && !never.covers(&own));
    }
}
