//! Taking connections.
//!
//! Invariant: no more are served at once than there are slots; one too many is told so without being read, whoever it
//! is. Only the user who runs the house is served. A failure to accept never ends the door.

use std::io;
use std::time::Duration;

use hostel_house::approvals::PeerInfo;
use rustix::net::RecvFlags;
use rustix::net::SendFlags;
use hostel_tasks::SpawnBoxed as _;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::task::JoinError;
use tokio::task::JoinSet;

use super::answer;
use super::answer::Plain;
use super::connection;
use super::door::Door;
use super::door::Ended;
use super::door::Leaving;

/// The shortest and the longest pause after a failure to accept.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The most that is read and thrown away from a client that is not served.
const UNREAD: usize = 1 << 20;

/// Serves clients on a unix socket until `stop`, or until a client stops the door. Those who are served then hear so,
/// unless another daemon will go on with what they asked for.
pub async fn serve(listener: UnixListener, door: Door, stop: impl Future<Output = Leaving>) -> Ended {
    let mut connections = JoinSet::new();
    let mut pause = Duration::ZERO;
    tokio::pin!(stop);
    let ended = loop {
        tokio::select! {
            accepted = next(&listener, pause) => match accepted {
                Ok(stream) => {
                    pause = Duration::ZERO;
                    admit(stream, &door, &mut connections);
                }
                Err(error) => {
                    door.0.log.error(format_args!("accept error: {error}"));
                    pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => look(&door, &ended),
            leaving = &mut stop => {
                door.close(Ended::Told(leaving));
                break door.closed().await;
            }
            ended = door.closed() => break ended,
        }
    };
    drop(listener);
    // Whoever waits leaves at once, whoever is being answered when that is done.
    let leave = async {
        while let Some(ended) = connections.join_next().await {
            look(&door, &ended);
        }
    };
    drop(tokio::time::timeout(door.farewell(), leave).await);
    connections.shutdown().await;
    ended
}

async fn next(listener: &UnixListener, pause: Duration) -> io::Result<UnixStream> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    Ok(listener.accept().await?.0)
}

/// Serves a connection, or tells it why not.
fn admit(stream: UnixStream, door: &Door, connections: &mut JoinSet<()>) {
    let Some(slot) = door.slot() else {
        return turn_away(&stream, door);
    };
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => {
            let peer = peer.pid().and_then(|pid| u32::try_from(pid).ok()).map(|pid| (pid, own));
            let door = door.clone();
            connections.spawn_boxed(async move {
                connection::run(stream, &door, connection::Peer::Of(peer)).await;
                drop(slot);
            });
        }
        Ok(peer) => door.0.log.warn(format_args!("refused a connection of another user (uid {})", peer.uid())),
        Err(error) => door.0.log.warn(format_args!("refused a connection of an unknown user ({error})")),
    }
}

/// Says that there is no room. Nothing here waits: a fresh socket takes a short line at once.
fn turn_away(stream: &UnixStream, door: &Door) {
    let busy = Plain::Error("server busy: too many in-flight requests".to_owned());
    say_at_once(stream, &answer::line("", &busy, &door.0.settings.reported_version));
    discard(stream);
}

/// Sends a short line if the system takes it this moment. The system is asked, and not the runtime, which learns only
/// later that a fresh socket can be written to.
pub(crate) fn say_at_once(stream: &UnixStream, line: &[u8]) {
    rustix::net::send(stream, line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
}

/// Throws away what has arrived: closing with unread bytes would look like a broken connection to the client.
pub(crate) fn discard(stream: &UnixStream) {
    let mut rest = [0; 16 << 10];
    let mut total = 0;
    while let Ok((_, read @ 1..)) = rustix::net::recv(stream, &mut rest, RecvFlags::DONTWAIT) {
        total += read;
        if total > UNREAD {
            return;
        }
    }
}

fn look(door: &Door, ended: &Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        door.0.log.error(format_args!("a request failed: {error}"));
    }
}

/// Serves one connection that did not come by a listener. `peer` is who is really asking.
pub async fn serve_stream(stream: UnixStream, door: Door, peer: Option<PeerInfo>) {
    match door.slot() {
        Some(_slot) => connection::run(stream, &door, connection::Peer::Is(peer.map(Box::new))).await,
        None => turn_away(&stream, &door),
    }
}
