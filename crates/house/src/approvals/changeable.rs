//! Requests that would have root run code that others than root can change.
//!
//! Guarantee: such a request is approved only by a person who confirms exactly that ([`Decision::AllowChangeable`]). A
//! plain yes, a rule and a grant do not count. The confirmation is the decision that is stored and audited.

use hostel_agents::Decision;

use super::types::{Approval, Kind, Subject};

/// The code that root would run and others can change, each in words.
pub(super) fn code_of(subject: &Subject) -> Vec<String> {
    match subject.pipeline() {
        Some(pipeline) if pipeline.privilege.is_privileged() => pipeline.changeable_code(),
        _ => Vec::new(),
    }
}

/// Whether a decision fits a request in this respect; why not, in words.
pub(super) fn check(decision: &Decision, grants: bool, approval: &Approval) -> Result<(), String> {
    let code = code_of(&approval.subject);
    match (decision, code.is_empty()) {
        (Decision::AllowChangeable, _) if approval.kind != Kind::Privileged => {
            Err("only a command that runs as root is confirmed like this".to_owned())
        }
        (Decision::AllowChangeable, true) => {
            Err("nobody but root can change what would run; approve it without confirming that".to_owned())
        }
        (Decision::AllowOnce | Decision::AllowAlways, false) => Err(format!(
            "root would run code that others can change ({}); confirm that with \
             `hostel approvals approve --changeable`, in the inbox, or at the terminal of sudo-proxy",
            code.join("; ")
        )),
        (Decision::AllowChangeable, false) if grants => {
            Err("no grant covers code that others can change: it may be other code the next time".to_owned())
        }
        _ => Ok(()),
    }
}
