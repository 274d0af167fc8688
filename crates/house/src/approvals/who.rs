//! Who may decide what, and how: nobody approves themselves.
//!
//! Invariant: a process of the keeper's tree decides nothing, a process of the requester's own tree does not decide what
//! that requester asked, and one that is gone, or that cannot be recognised, neither. Only what is known from the system
//! counts, never what a peer says about itself.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use super::approver::{Passphrase, Unlock};
use super::peer;
use super::session_grant;
use super::sockets::{self, OtherEnd};
use super::types::{Approval, KeeperId, Kind, Requester};
use crate::pipelines::Privilege;
use crate::processes::Processes;

/// What is said to whoever may not decide for a person, or cannot be recognised as one.
const INSIDE: &str = "a process that runs inside this house, or that cannot be recognised, may not decide for a person";

/// What is said to a process of the requester's own tree.
const OWN_TREE: &str = "a process of the requester's own tree may not decide what it asked for";

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

/// The two ends of a TCP connection. Both are needed to tell it from others: a machine uses one port of its own for
/// connections to several others, and for some that are over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// That of whoever has connected.
    pub theirs: SocketAddr,
    /// That of this daemon.
    pub ours: SocketAddr,
}

/// Who is at the other end of a face.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DeciderPeer {
    /// A process of this machine, as the system told when it connected.
    Local {
        /// Its process id.
        pid: u32,
        /// When it was started: a number that was given away again is another process.
        started: u64,
    },
    /// Somebody who has shown a token, over this connection; who is on this machine is looked for.
    Remote(Ends),
    /// This process itself.
    Own,
    /// Somebody the system does not know.
    Unknown,
}

/// A decision's sender: the way it comes, who is there, and what to call them.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The way.
    pub face: Face,
    /// Who.
    pub peer: DeciderPeer,
    /// What is recorded as the decider.
    pub label: String,
}

/// A question to the system that takes a while.
pub type Answer<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Whoever knows which processes belong to the house.
pub trait Household: Send + Sync {
    /// Whether a process belongs to what the keeper holds. Who cannot be looked at does.
    fn is_inside(&self, pid: u32) -> Answer<'_>;

    /// The keeper that is there now.
    fn keeper(&self) -> Option<KeeperId>;
}

impl Household for Processes {
    fn is_inside(&self, pid: u32) -> Answer<'_> {
        Box::pin(Processes::is_inside(self, pid))
    }

    fn keeper(&self) -> Option<KeeperId> {
        Some(KeeperId { pid: self.keeper_pid(), since_ns: self.keeper_since_ns() })
    }
}

/// How often somebody who is told by an address alone is looked for, and how long is waited before each further look. The
/// system's tables are not of one moment: rows are missing from a table that changes while it is read, and a process that
/// is just being made holds what its parent has for as long as it takes to become another program.
const LOOKS: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// Why somebody may not decide.
pub(super) enum No {
    /// What was seen says so.
    Sure(&'static str),
    /// Nobody was seen, or somebody who is gone.
    Unseen,
}

/// Looks until something was seen, where another look may show it.
async fn seen<F>(peer: &DeciderPeer, mut look: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), No>>,
{
    for left in (0..LOOKS).rev() {
        match look().await {
            Ok(()) => return Ok(()),
            Err(No::Sure(why)) => return Err(why.to_owned()),
            Err(No::Unseen) if left > 0 && matches!(peer, DeciderPeer::Remote(_)) => tokio::time::sleep(BETWEEN).await,
            Err(No::Unseen) => break,
        }
    }
    Err(INSIDE.to_owned())
}

/// The processes that somebody may be; none for somebody who is no process of this machine.
pub(super) async fn processes_of(peer: &DeciderPeer) -> Result<Vec<(u32, u64)>, No> {
    match peer {
        DeciderPeer::Own => Ok(Vec::new()),
        DeciderPeer::Unknown => Err(No::Sure(INSIDE)),
        DeciderPeer::Local { pid, started } => Ok(vec![(*pid, *started)]),
        DeciderPeer::Remote(ends) => {
            let ends = *ends;
            match hostel_tasks::spawn_blocking(move || sockets::other_end(ends)).await {
                Ok(OtherEnd::Elsewhere) => Ok(Vec::new()),
                Ok(OtherEnd::Here(holders)) => Ok(holders),
                Ok(OtherEnd::Nobodys) | Err(_) => Err(No::Unseen),
            }
        }
    }
}

/// Whether somebody is anybody who may decide at all; why not, in words.
pub(crate) async fn may_decide(household: &dyn Household, peer: &DeciderPeer) -> Result<(), String> {
    seen(peer, || is_outside(household, peer)).await
}

async fn is_outside(household: &dyn Household, peer: &DeciderPeer) -> Result<(), No> {
    for (pid, started) in processes_of(peer).await? {
        // Looked at before and after: the number may be given away between the two looks.
        let there = || peer::start_of(pid) == Some(started);
        match there() && !household.is_inside(pid).await {
            true if there() => {}
            false if there() => return Err(No::Sure(INSIDE)),
            _ => return Err(No::Unseen),
        }
    }
    Ok(())
}

/// Whether somebody is not the very one who asked.
pub(super) async fn is_another(peer: &DeciderPeer, requester: &Requester) -> Result<(), String> {
    let Some(asker) = &requester.peer else { return Ok(()) };
    seen(peer, || is_of_another_tree(peer, asker.root_pid, asker.root_started)).await
}

async fn is_of_another_tree(peer: &DeciderPeer, root: u32, since: u64) -> Result<(), No> {
    let deciders = processes_of(peer).await?;
    let look = move || {
        for (pid, started) in deciders {
            let belongs = peer::belongs_to(pid, root, since);
            // Gone meanwhile: whatever was looked at may have been another process.
            match belongs.filter(|_| peer::start_of(pid) == Some(started)) {
                Some(false) => {}
                Some(true) => return Err(No::Sure(OWN_TREE)),
                None => return Err(No::Unseen),
            }
        }
        Ok(())
    };
    hostel_tasks::spawn_blocking(look).await.unwrap_or(Err(No::Unseen))
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

impl fmt::Display for DeciderPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeciderPeer::Local { pid, .. } => write!(formatter, "pid {pid}"),
            DeciderPeer::Remote(ends) => ends.theirs.fmt(formatter),
            DeciderPeer::Own => formatter.write_str("this daemon"),
            DeciderPeer::Unknown => formatter.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use super::*;

    /// What comes of looks of which the first ones show nobody, and how many there were.
    async fn after(peer: &DeciderPeer, unseen: u32, then: fn() -> Result<(), No>) -> (Result<(), String>, u32) {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            ready(if looks.get() > unseen { then() } else { Err(No::Unseen) })
        };
        (seen(peer, look).await, looks.get())
    }

    #[tokio::test]
    async fn who_is_known_by_an_address_is_looked_for_again_and_never_taken_on_trust() {
        let end = SocketAddr::from(([127, 0, 0, 1], 1));
        let remote = DeciderPeer::Remote(Ends { theirs: end, ours: end });
        assert_eq!(after(&remote, LOOKS - 1, || Ok(())).await, (Ok(()), LOOKS));
        assert_eq!(after(&remote, LOOKS, || Ok(())).await, (Err(INSIDE.to_owned()), LOOKS));
        let own_tree = || Err(No::Sure(OWN_TREE));
        assert_eq!(after(&remote, 1, own_tree).await, (Err(OWN_TREE.to_owned()), 2), "what was seen is final");
        let local = DeciderPeer::Local { pid: 1, started: 1 };
        assert_eq!(after(&local, 1, || Ok(())).await, (Err(INSIDE.to_owned()), 1), "who is gone does not come back");
    }
}
