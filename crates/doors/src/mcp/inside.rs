//! The streams of callers that came over HTTP: both ends in this process.
//!
//! Invariant: the doors behind see the caller's own process as the peer, never the daemon's: who asked and who may
//! answer is judged by it. Dropping our end is leaving.

use std::io;
use std::path::PathBuf;

use hostel_house::insiders::Door;
use hostel_house::insiders::Insiders;
use hostel_house::insiders::Own;
use hostel_house::insiders::Rights;
use hostel_peer::Peer;
use tokio::net::UnixStream;

use super::Backend;
use super::Caller;
use super::Later;
use crate::native::client::Client;
use crate::native::client::ClientError;
use crate::zeroclaw::PeerNames as _;

/// The tool that connects to another machine.
const START: &str = "start_server";

/// What a guarded process is told that wants this daemon to do so.
const GUARDED: &str = "`start_server` is refused here: ssh would run outside the guard that this process has; the server \
     that `hostel mcp` is on its standard input and output runs it inside";

/// Serves one end of a pair as a door does, for the process that is really behind it.
pub type Attend = Box<dyn Fn(UnixStream, Peer) + Send + Sync>;

/// Finds the tunnel socket of a host.
pub type Tunnel = Box<dyn Fn(&str) -> PathBuf + Send + Sync>;

/// The doors of this house from the inside.
pub struct Inside {
    /// The sudo-proxy door.
    pub sudo: Attend,
    /// The house's own door.
    pub native: Attend,
    /// Where the tunnels to other machines end.
    pub tunnel: Tunnel,
    /// What knows the processes inside the house, and what they may do.
    pub insiders: Insiders,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Inside")
    }
}

/// Whoever calls. A caller of whom nothing is known is unknown, and not this daemon.
fn peer_of(caller: &Caller) -> Peer {
    caller.peer.clone().unwrap_or_else(Peer::unknown)
}

impl Inside {
    fn rights(&self, caller: &Caller) -> Rights {
        let peer = peer_of(caller);
        let label = format!("mcp {} {}", caller.word(), peer.label());
        self.insiders.rights(Door::Mcp, peer, label)
    }
}

impl Backend for Inside {
    fn door(&self, host: Option<&str>) -> Option<PathBuf> {
        host.map(|host| (self.tunnel)(host))
    }

    fn dial<'a>(&'a self, host: Option<&'a str>, caller: &'a Caller) -> Later<'a, io::Result<UnixStream>> {
        Box::pin(async move {
            match host {
                Some(host) => UnixStream::connect((self.tunnel)(host)).await,
                None => {
                    let (ours, theirs) = UnixStream::pair()?;
                    (self.sudo)(theirs, peer_of(caller));
                    Ok(ours)
                }
            }
        })
    }

    fn refuses<'a>(&'a self, caller: &'a Caller, tool: &'a str) -> Later<'a, Option<String>> {
        Box::pin(async move {
            let rights = self.rights(caller);
            let refused = match rights.check(tool).await {
                // The doors behind see to the rest, but a mesh daemon takes us for the member.
                Ok(Some(Own::Mailbox)) => match rights.insider().await.and_then(|one| self.insiders.session_of(&one)) {
                    Some(_) => return None,
                    None => rights.refuse(tool, "").await,
                },
                Ok(_) => return None,
                Err(refusal) => refusal,
            };
            Some(refused.text().to_owned())
        })
    }

    fn refuses_ssh<'a>(&'a self, caller: &'a Caller, host: &'a str) -> Later<'a, Option<String>> {
        Box::pin(async move {
            let rights = self.rights(caller);
            if !rights.is_guarded().await {
                return None;
            }
            rights.refuse(START, host).await;
            Some(GUARDED.to_owned())
        })
    }

    fn is_inside<'a>(&'a self, caller: &'a Caller) -> Later<'a, bool> {
        Box::pin(async move { self.rights(caller).insider().await.is_some() })
    }

    fn house<'a>(&'a self, caller: &'a Caller) -> Later<'a, Result<Client, ClientError>> {
        Box::pin(async move {
            let (ours, theirs) = UnixStream::pair().map_err(ClientError::Lost)?;
            (self.native)(theirs, peer_of(caller));
            Client::over(ours).await
        })
    }
}
