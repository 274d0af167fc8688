//! What the mesh scenarios are made of: a broker and hosts as processes, clients of the local surface, the bare limits.

pub(crate) mod bare_inbox;
pub(crate) mod bare_outbox;
pub(crate) mod closed_loop;
pub(crate) mod door;
pub(crate) mod echo;
pub(crate) mod lab;
pub(crate) mod stock;

/// What every message of the mesh scenarios says, besides a number: about as much as a person writes.
pub(crate) const TEXT: &str = "The build of the release branch is green again; the two tests that failed in the night wait for \
     a lock that the other job holds. Could you have a look at the log before noon, please? I have put it beside the others.";
