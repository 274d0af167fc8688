//! The other end of a connection.
//!
//! Invariant: who may decide for a person is a matter of where the connection came from, not of what is said on it. A
//! process of the keeper's tree never may, and one that cannot be recognised any more neither.

use hostel_house::approvals::DeciderPeer;
use hostel_house::approvals::Ends;
use hostel_house::approvals::start_of;
use hostel_house::processes::Processes;
use tokio::net::UnixStream;

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A process of this machine, as the system told when it connected.
    Local {
        pid: Option<u32>,
        uid: u32,
        /// When that process was started: a number that was given away again is another process.
        started: Option<u64>,
    },
    /// Somebody who showed the token.
    Remote(Ends),
}

impl Peer {
    /// The process at the other end of a unix socket.
    pub(crate) fn of(stream: &UnixStream) -> Self {
        let credentials = stream.peer_cred().ok();
        let pid = credentials.as_ref().and_then(tokio::net::unix::UCred::pid).and_then(|pid| u32::try_from(pid).ok());
        let uid = credentials.map_or(u32::MAX, |peer| peer.uid());
        Peer::Local { pid, uid, started: pid.and_then(start_of) }
    }

    /// A process of this machine that somebody else has found; none where it is not known.
    pub(crate) fn process(found: Option<(u32, u32)>) -> Self {
        let uid = found.map_or(u32::MAX, |(_, uid)| uid);
        let pid = found.map(|(pid, _)| pid);
        Peer::Local { pid, uid, started: pid.and_then(start_of) }
    }

    /// As it is listed and logged.
    pub(crate) fn label(&self) -> String {
        match self {
            Peer::Local { pid: Some(pid), uid, .. } => format!("unix:pid={pid},uid={uid}"),
            Peer::Local { .. } => "unix:unknown".to_owned(),
            Peer::Remote(ends) => format!("wss:{}", ends.theirs),
        }
    }

    /// How it is connected.
    pub(crate) fn transport(&self) -> &'static str {
        match self {
            Peer::Local { .. } => "unix",
            Peer::Remote(_) => "wss",
        }
    }

    /// Whether it shares our files.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Peer::Local { .. })
    }

    /// As whoever decides something.
    pub(crate) fn decider(&self) -> DeciderPeer {
        match self {
            Peer::Local { pid: Some(pid), started: Some(started), .. } => {
                DeciderPeer::Local { pid: *pid, started: *started }
            }
            Peer::Local { .. } => DeciderPeer::Unknown,
            Peer::Remote(ends) => DeciderPeer::Remote(*ends),
        }
    }

    /// Whether it may answer what an agent asks a person.
    pub(crate) async fn may_decide(&self, processes: &Processes) -> bool {
        match self {
            Peer::Remote(_) => true,
            Peer::Local { pid: Some(pid), started: Some(then), .. } => {
                start_of(*pid) == Some(*then) && !processes.is_inside(*pid).await
            }
            Peer::Local { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[tokio::test]
    async fn a_peer_is_named_as_the_system_knows_it() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours);
        let Peer::Local { started: then, .. } = peer else { panic!("{peer:?}") };
        let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
        assert_eq!(peer.label(), format!("unix:pid={pid},uid={uid}"));
        assert!(peer.is_local() && peer.transport() == "unix");
        let started = then.unwrap();
        assert_eq!(Some(started), start_of(pid));
        assert_eq!(peer.decider(), DeciderPeer::Local { pid, started });
    }

    #[test]
    fn what_is_not_known_is_said() {
        assert_eq!(Peer::Local { pid: None, uid: 0, started: None }.label(), "unix:unknown");
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ends = Ends { theirs: end(9781), ours: end(443) };
        let remote = Peer::Remote(ends);
        assert_eq!((remote.label().as_str(), remote.transport()), ("wss:127.0.0.1:9781", "wss"));
        assert!(!remote.is_local());
        assert_eq!(remote.decider(), DeciderPeer::Remote(ends));
        assert_eq!(Peer::Local { pid: Some(1), uid: 0, started: None }.decider(), DeciderPeer::Unknown);
    }
}
