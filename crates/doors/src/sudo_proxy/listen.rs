//! Taking connections.
//!
//! Invariant: no more are served at once than there are slots; one too many is told so without being read. Only the user
//! who runs the house is served. A failure to accept never ends the door.

use std::os::fd::AsFd;

use hostel_peer::Peer;
use hostel_peer::accept;
use hostel_peer::accept::Admits;
use hostel_peer::accept::Arrival;
use hostel_peer::accept::Gate;
use hostel_peer::accept::Notice;
use hostel_peer::accept::Reason;
use hostel_peer::accept::WhenFull;
use tokio::net::UnixListener;
use tokio::net::UnixStream;

use super::answer;
use super::answer::Plain;
use super::connection;
use super::door::Door;
use super::door::Ended;
use super::door::Leaving;
use crate::admission;

/// Serves clients on a unix socket until `stop`, or until a client stops the door. Those who are served then hear so,
/// unless another daemon will go on with what they asked for.
pub async fn serve(listener: UnixListener, door: Door, stop: impl Future<Output = Leaving>) -> Ended {
    let gate = gate(&door);
    let ended = async {
        tokio::select! {
            leaving = stop => {
                door.close(Ended::Told(leaving));
                door.closed().await
            }
            ended = door.closed() => ended,
        }
    };
    let serve = |arrival: Arrival<UnixStream>| {
        let door = door.clone();
        async move {
            let Arrival { stream, peer, place } = arrival;
            connection::run(stream, &door, peer).await;
            drop(place);
        }
    };
    let (ended, mut connections) = accept::serve_each(&listener, &gate, ended, serve).await;
    drop(listener);
    // Whoever waits leaves at once, whoever is being answered when that is done.
    let leave = async { while connections.join_next().await.is_some() {} };
    drop(tokio::time::timeout(door.farewell(), leave).await);
    connections.shutdown().await;
    ended
}

fn gate(door: &Door) -> Gate {
    let (log, busy) = (door.0.log.clone(), door.clone());
    Gate::with_places(Admits::Owner, door.slots(), WhenFull::Close)
        .look_at_once()
        .on_turned_away(move |stream, reason| {
            if reason == Reason::Full {
                turn_away(stream, &busy);
            }
        })
        .on_notice(move |notice| match notice {
            Notice::AcceptFailed(error) => log.error(format_args!("accept error: {error}")),
            Notice::TurnedAway { reason: Reason::OtherUser(uid), .. } => {
                log.warn(format_args!("refused a connection of another user (uid {uid})"));
            }
            Notice::TurnedAway { reason: Reason::Full, .. } => {}
            Notice::TurnedAway { reason, .. } => log.warn(format_args!("refused a connection: {reason}")),
            Notice::Panicked(error) => log.error(format_args!("a request failed: {error}")),
        })
}

/// Says that there is no room. Nothing here waits: a fresh socket takes a short line at once.
fn turn_away(stream: impl AsFd, door: &Door) {
    let busy = Plain::Error("server busy: too many in-flight requests".to_owned());
    admission::say_at_once(&stream, &answer::line("", &busy, &door.0.settings.reported_version));
    admission::discard(&stream);
}

/// Serves one connection that did not come by a listener. `peer` is who is really asking.
pub async fn serve_stream(stream: UnixStream, door: Door, peer: Peer) {
    match door.slot() {
        Some(_slot) => connection::run(stream, &door, peer).await,
        None => turn_away(&stream, &door),
    }
}
