//! Our own door: JSON-RPC 2.0, one object per line, on `run/hostel.sock`.
//!
//! Invariant: only the user who runs the house is served; every line, queue and connection count has a bound; a
//! stream is a cursor into the journal, so a client that does not read costs its own place and nothing else.
//!
//! It holds no state but its connections'. Processes, journals and the house itself are its own methods; sessions are
//! served by the zeroclaw door's code. The command line is its first client and uses [`client`].

pub mod client;
pub mod code;
pub mod pick;
pub mod protocol;
pub mod text;

mod ask;
mod connection;
mod consent;
mod methods;
mod spawn;
mod stream;
mod terms;
mod trust;

pub(crate) use ask::LONGEST as LONGEST_QUESTION;
#[cfg(test)]
pub(crate) use methods::METHODS;

pub use crate::rpc::line;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hostel_house::housekeeping::Housekeeping;
use hostel_house::insiders::Insiders;
use hostel_house::processes::Processes;
use hostel_peer::Peer;
use hostel_peer::accept;
use hostel_peer::accept::Admits;
use hostel_peer::accept::Arrival;
use hostel_peer::accept::Gate;
use hostel_peer::accept::Place;
use hostel_peer::accept::WhenFull;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::sync::watch;

use crate::admission;
use crate::zeroclaw;
use protocol::DoorAddress;

/// Requests of one connection that are worked on at once; more wait in the socket.
pub const IN_FLIGHT: usize = 256;

/// What the door needs to know of the house around it.
#[derive(Debug)]
pub struct Settings {
    /// The version to report.
    pub version: String,
    /// The house's directory.
    pub home: PathBuf,
    /// Every address of the house.
    pub doors: Vec<DoorAddress>,
    /// What processes get whose request brings no environment.
    pub environment: Vec<(OsString, OsString)>,
    /// When the daemon started.
    pub started: Instant,
    /// Connections at once.
    pub connections: usize,
    /// What gives back disk space.
    pub housekeeping: Housekeeping,
    /// Where the journals are.
    pub journal_dir: PathBuf,
    /// The program that the daemon runs from, open since its start: what a keeper is upgraded to.
    pub program: Arc<OwnedFd>,
    /// The agents in residence; none in a house that has no sessions.
    pub sessions: Option<zeroclaw::Door>,
    /// What knows the processes inside the house, and what they may do.
    pub insiders: Insiders,
    /// Whom to tell that somebody asked the house to close; the value says whether processes are kept.
    pub down: mpsc::Sender<bool>,
}

/// What the house wants of its doors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Serve.
    Open,
    /// Serve who is here, let nobody in.
    Leaving,
    /// Say goodbye and close.
    Closing {
        /// Processes run on and a later daemon will have them.
        keep: bool,
    },
}

/// Serves one connection that came by no listener, for whoever is really behind it.
pub async fn attend(
    stream: UnixStream,
    peer: Peer,
    processes: Processes,
    settings: Arc<Settings>,
    phase: watch::Receiver<Phase>,
) {
    let arrival = Arrival { stream, peer, place: Some(Place::outside()) };
    connection::run(arrival, processes, settings, phase).await;
}

/// Serves until the phase is `Closing` and every connection is closed.
pub async fn serve(
    listener: UnixListener,
    processes: Processes,
    settings: Arc<Settings>,
    phase: watch::Receiver<Phase>,
) {
    let mut watched = phase.clone();
    let mut gate = Gate::new(Admits::Owner, settings.connections, WhenFull::Tell).look_at_once();
    if let Some(sessions) = &settings.sessions {
        gate = gate.on_notice(admission::notices_to(&sessions.0.log, "native"));
    }
    let leaving = async move {
        drop(watched.wait_for(|phase| *phase != Phase::Open).await);
    };
    let serve = |arrival: Arrival<UnixStream>| {
        connection::run(arrival, processes.clone(), Arc::clone(&settings), phase.clone())
    };
    let ((), mut connections) = accept::serve_each(&listener, &gate, leaving, serve).await;
    drop(listener);
    while connections.join_next().await.is_some() {}
}
