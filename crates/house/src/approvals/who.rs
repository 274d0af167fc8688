//! Who may decide what, and how: nobody approves themselves.
//!
//! Invariant: a process of the keeper's tree decides nothing, a process of the requester's own tree does not decide what
//! that requester asked, and one that is gone, or that cannot be recognised, neither. Only what is known from the system
//! counts, never what a peer says about itself.

use std::future::Future;
use std::pin::Pin;

use hostel_peer::{Peer, Standing};

use super::approver::{Passphrase, Unlock};
use super::session_grant;
use super::types::{Approval, KeeperId, Kind};
use crate::pipelines::Privilege;

/// What is said to whoever may not decide for a person, or cannot be recognised as one.
const INSIDE: &str = "a process that runs inside this house, or that cannot be recognised, may not decide for a person";

/// What is said to a process of the requester's own tree.
const OWN_TREE: &str = "a process of the requester's own tree may not decide what it asked for";

/// What is said about a request of somebody who could not be recognised.
const UNRECOGNISED: &str = "the process that asked for this could not be recognised, so whoever decides could be the same; \
     only a terminal that this house was started on may decide it";

/// By which way a decision comes.
#[derive(Clone, Debug)]
pub enum Face {
    /// `session/approve` on a socket, with nothing but the connection itself.
    Socket,
    /// Somebody who showed the passphrase before and has kept the proof in memory.
    Unlocked(Unlock),
    /// Somebody who shows the passphrase now.
    Passphrase(Passphrase),
    /// A key on the terminal that the sudo-proxy personality was started on.
    Terminal,
    /// `pkexec`, which asks for a password by itself.
    Pkexec,
}

/// A decision's sender: the way it comes, who is there, and what to call them.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The way.
    pub face: Face,
    /// Who.
    pub peer: Peer,
    /// What is recorded as the decider.
    pub label: String,
}

/// A lookup of the system that takes a while.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Standing> + Send + 'a>>;

/// Whoever knows which processes belong to the house.
pub trait Household: Send + Sync {
    /// What a peer is to the house.
    fn standing<'a>(&'a self, peer: &'a Peer) -> Answer<'a>;

    /// The keeper that is there now.
    fn keeper(&self) -> Option<KeeperId>;
}

/// Checks whether a peer may decide anything at all. Returns the reason if it may not.
///
/// A peer on another machine may: a door passes on only those that have shown a token.
pub(super) async fn may_decide(household: &dyn Household, peer: &Peer) -> Result<(), String> {
    match household.standing(peer).await {
        Standing::Owner | Standing::Remote => Ok(()),
        Standing::Insider | Standing::OtherUser | Standing::Unknown => Err(INSIDE.to_owned()),
    }
}

/// Checks that a peer is not the very one who asked. Returns the reason if it is, or may be.
///
/// What a process asked that could not be recognised may have been asked by anybody: then only this daemon itself can be
/// sure to be another, with a face on a terminal that it was started on. What the house asks on behalf of an agent has no
/// connection, and nobody who may decide is an agent.
pub(super) async fn is_another(peer: &Peer, approval: &Approval) -> Result<(), String> {
    if peer.is_own() {
        return Ok(());
    }
    match &approval.requester.peer {
        Some(asker) => match peer.belongs_to(asker.root_pid, asker.root_started).await {
            Some(false) => Ok(()),
            Some(true) => Err(OWN_TREE.to_owned()),
            None => Err(INSIDE.to_owned()),
        },
        None if approval.connection.is_some() => Err(UNRECOGNISED.to_owned()),
        None => Ok(()),
    }
}

/// Whether such a request may be decided by such a way; why not, in words. The passphrase itself is looked at elsewhere.
pub(super) fn may_by(face: &Face, approval: &Approval, strict: bool) -> Result<(), String> {
    let way = match face {
        // Whoever shows the passphrase may decide anything.
        Face::Unlocked(_) | Face::Passphrase(_) => return Ok(()),
        Face::Socket if !matches!(approval.kind, Kind::Tool | Kind::Letter) => {
            return Err("`session/approve` decides what agents ask for; this takes the approver's passphrase \
                 (`hostel approvals`)"
                .to_owned());
        }
        Face::Socket => "a socket alone",
        Face::Terminal if !matches!(approval.kind, Kind::Pipeline | Kind::Privileged) => {
            return Err("the terminal decides about commands only".to_owned());
        }
        Face::Terminal if approval.requester.door != session_grant::DOOR => {
            return Err("the terminal decides about commands of its own door only".to_owned());
        }
        Face::Terminal => "a key on the terminal",
        Face::Pkexec => match approval.subject.pipeline().map(|pipeline| pipeline.privilege) {
            Some(Privilege::Pkexec) => "pkexec",
            _ => return Err("pkexec decides about what it runs itself only".to_owned()),
        },
    };
    match strict {
        true => Err(format!("{way} does not decide: `approvals.strict` demands the approver's passphrase")),
        false => Ok(()),
    }
}
