//! Taking connections on a unix socket.
//!
//! Invariant: only the user who runs the house gets in. A failure to accept never ends a door: descriptors that are in
//! use come back by themselves.

use std::time::Duration;

use hostel_tasks::SpawnBoxed as _;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// The shortest and the longest pause after a failure to accept.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Serves every connection with a task of its own until `stop`; gives back those that are still open.
pub(crate) async fn each<W: Future<Output = ()> + Send + 'static>(
    listener: UnixListener,
    stop: impl Future<Output = ()>,
    mut serve: impl FnMut(UnixStream) -> W,
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let mut pause = Duration::ZERO;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = next(&listener, pause) => match accepted {
                Ok(stream) => {
                    pause = Duration::ZERO;
                    if is_own(&stream) {
                        connections.spawn_boxed(serve(stream));
                    }
                }
                Err(_) => pause = (pause * 2).clamp(PAUSES.0, PAUSES.1),
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => return connections,
        }
    }
}

async fn next(listener: &UnixListener, pause: Duration) -> std::io::Result<UnixStream> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    Ok(listener.accept().await?.0)
}

/// Whether the other side runs as the same user.
fn is_own(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}
