//! The door on a unix socket: one frame per line.
//!
//! Invariant: a client that finished sending still gets the turns it asked for; one that is gone costs nothing any
//! more. A line that is too long is refused before the connection ends.

use std::io;
use std::time::Duration;

use hostel_peer::accept;
use hostel_peer::accept::Admits;
use hostel_peer::accept::Arrival;
use hostel_peer::accept::Gate;
use hostel_peer::accept::WhenFull;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::net::UnixStream;

use super::Client;
use super::Door;
use super::FRAME_LIMIT;
use super::Face;
use super::Greeting;
use super::Incoming;
use super::NAME;
use super::code;
use super::envelope;
use crate::admission;
use crate::rpc::Failure;
use crate::rpc::Writer;
use crate::rpc::hangup;
use crate::rpc::line::Line;
use crate::rpc::line::LineReader;

/// How long the last word to a client that is closed may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves clients on a unix socket until `stop`; then their connections end.
pub async fn serve_unix(listener: UnixListener, door: Door, stop: impl Future<Output = ()> + Send + 'static) {
    let gate = Gate::new(Admits::Owner, door.0.settings.connections, WhenFull::Tell)
        .look_at_once()
        .on_notice(admission::notices_to(&door.0.log, NAME));
    let serve = |arrival| run(arrival, door.clone());
    let ((), mut open) = accept::serve_each(&listener, &gate, stop, serve).await;
    drop(listener);
    open.shutdown().await;
}

/// Serves one connection to its end. Without a place it is told that there is no room.
async fn run(arrival: Arrival<UnixStream>, door: Door) {
    let Arrival { stream, peer, place } = arrival;
    let _counted = door.count();
    let (reader, half) = stream.into_split();
    let writer = Writer::unix(half);
    let mut lines = LineReader::new(reader, FRAME_LIMIT - 1);
    if place.is_none() {
        let limit = door.0.settings.connections;
        return last_word(&writer, &mut lines, code::INTERNAL, &format!("all {limit} connections are in use")).await;
    }
    let greeting = Greeting { version: door.0.settings.server_version.clone(), more: &[], admitted: true };
    let mut client = Client::new(door, Face::Contract, peer, writer.clone(), greeting);
    loop {
        let served = match lines.next().await {
            Ok(Line::Ready(range)) => frame(&mut client, &writer, lines.line(&range)).await,
            Ok(Line::Closed) => {
                if frame(&mut client, &writer, lines.rest()).await.is_ok() {
                    break;
                }
                return;
            }
            Ok(Line::TooLong) => {
                let why = format!("a line is longer than {FRAME_LIMIT} bytes");
                return last_word(&writer, &mut lines, code::REQUEST, &why).await;
            }
            Err(_) => return,
        };
        if served.is_err() {
            return;
        }
    }
    tokio::select! {
        () = client.finish() => {}
        () = hangup::gone(lines.source().as_ref()) => {}
    }
}

/// Serves one frame. An error is the connection's.
pub(super) async fn frame(client: &mut Client, writer: &Writer, frame: &[u8]) -> io::Result<()> {
    match envelope::read(frame) {
        Incoming::Blank => Ok(()),
        Incoming::Request { id, method, params } => client.call(id, &method, params).await,
        Incoming::Response { id, result } => {
            client.answered(id.as_ref(), result);
            Ok(())
        }
        Incoming::Refused { id, failure } => writer.answer(Some(&id), Err(failure)).await,
    }
}

/// Says why the connection ends, and gives the client a moment to hear it.
async fn last_word<R: tokio::io::AsyncRead + Unpin>(
    writer: &Writer,
    lines: &mut LineReader<R>,
    code: i64,
    message: &str,
) {
    let goodbye = async {
        if writer.answer(Some(&Value::Null), Err(Failure::new(code, message))).await.is_ok() {
            writer.close().await;
            lines.discard().await;
        }
    };
    drop(tokio::time::timeout(GOODBYE, goodbye).await);
}
