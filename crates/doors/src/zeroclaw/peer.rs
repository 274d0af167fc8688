//! How the other end of a connection is called in lists and logs.
//!
//! Who it is, and whether it may decide for a person, is a matter of where the connection came from (`hostel_peer`), not of
//! what is said on it.

pub(crate) use hostel_peer::Peer;

/// Names for peers.
pub(crate) trait PeerNames {
    /// As it is listed and logged.
    fn label(&self) -> String;

    /// How it is connected.
    fn transport(&self) -> &'static str;

    /// Whether it shares our files.
    fn is_local(&self) -> bool;
}

impl PeerNames for Peer {
    fn label(&self) -> String {
        match (self.ends(), self.pid(), self.uid()) {
            (Some(ends), ..) => format!("wss:{}", ends.theirs),
            (None, Some(pid), Some(uid)) => format!("unix:pid={pid},uid={uid}"),
            _ => "unix:unknown".to_owned(),
        }
    }

    fn transport(&self) -> &'static str {
        if self.is_local() { "unix" } else { "wss" }
    }

    fn is_local(&self) -> bool {
        self.ends().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hostel_peer::Ends;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_peer_is_named_as_the_system_knows_it() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of_unix(&ours);
        let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
        assert_eq!(peer.label(), format!("unix:pid={pid},uid={uid}"));
        assert!(peer.is_local() && peer.transport() == "unix");
    }

    #[test]
    fn what_is_not_known_is_said() {
        assert_eq!(Peer::unknown().label(), "unix:unknown");
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let remote = Peer::of_tcp(Ends { theirs: end(9781), ours: end(443) });
        assert_eq!((remote.label().as_str(), remote.transport()), ("wss:127.0.0.1:9781", "wss"));
        assert!(!remote.is_local());
    }
}
