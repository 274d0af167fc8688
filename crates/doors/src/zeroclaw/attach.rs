//! `session/attach`: everything that happened in a session after a number, then everything that happens.
//!
//! Invariant: replay and live are one cursor; events come in the order of their numbers, each once, and what is
//! missing is said. One stream for each session and connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Raw;
use hostel_house::sessions::Events;
use hostel_house::sessions::NextEvents;
use hostel_house::sessions::SessionInfo;
use serde_json::json;
use hostel_tasks::SpawnBoxed as _;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Client;
use super::Params;
use super::code;
use super::listing;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// Sessions one connection may be attached to.
const STREAMS: usize = 256;

/// How long a client waits for a session that is still being read again after a restart.
const CATCH_UP: Duration = Duration::from_secs(10);

/// What is sent in one piece.
const PIECE: usize = 256 << 10;

/// The streams of a connection, by session.
pub(super) type Streams = HashMap<String, AbortHandle>;

/// Answers, then streams.
pub(super) async fn begin(client: &mut Client, id: Option<Raw>, params: &Params) -> io::Result<()> {
    let visitor = Arc::clone(client.visitor());
    client.streams.retain(|_, stream| !stream.is_finished());
    let prepared = match client.streams.len() < STREAMS {
        true => prepare(&visitor, params).await,
        false => Err(Failure::new(code::BUSY, format!("a connection is attached to at most {STREAMS} sessions"))),
    };
    let (info, events, follow) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return visitor.answer(id.as_ref(), Err(failure)).await,
    };
    let answer = json!({
        "session_id": info.id,
        "last_seq": info.last_seq,
        "first_seq": info.last_seq.min(1),
        "status": listing::status_word(info.status),
    });
    if let Some(earlier) = client.streams.remove(&info.id) {
        earlier.abort();
    }
    visitor.answer(id.as_ref(), Ok(answer)).await?;
    let (sent, position) = watch::channel(events.position());
    if follow {
        visitor.attach(&info.id, position);
    }
    let session = info.id.clone();
    let until = (!follow).then_some(info.last_seq);
    let stream = run(visitor, session.clone(), events, until, sent);
    // A replay comes to its end by itself, also for a client that has finished sending.
    let set = if follow { &mut client.live } else { &mut client.work };
    client.streams.insert(session, set.spawn_boxed(stream));
    Ok(())
}

async fn prepare(visitor: &Visitor, params: &Params) -> Result<(SessionInfo, Events, bool), Failure> {
    let id = params.need("session_id")?;
    let since = params.number("since_seq")?.unwrap_or(0);
    let follow = params.flag("follow")?.unwrap_or(true);
    let sessions = &visitor.house().sessions;
    let info = match sessions.get(id) {
        Some(session) => {
            // Just after a restart, what the client has seen may not have been read again yet.
            if since > session.last_seq() || !follow {
                tokio::time::timeout(CATCH_UP, session.current()).await.ok();
            }
            session.info()
        }
        None => sessions.stored(id).await.map_err(internal)?.ok_or_else(|| no_session(id))?,
    };
    let since = since.min(info.last_seq);
    let events = sessions.stored_events(id, since).await.map_err(internal)?.ok_or_else(|| no_session(id))?;
    Ok((info, events, follow))
}

/// Sends events until the session is closed, or until the last that was asked for.
async fn run(visitor: Arc<Visitor>, session: String, mut events: Events, until: Option<u64>, sent: watch::Sender<u64>) {
    let mut updates = visitor.updates(&session, true);
    let mut lines = Vec::new();
    let mut last = events.position();
    loop {
        lines.clear();
        lines.shrink_to(PIECE);
        if until.is_some_and(|until| last >= until) {
            updates.push_end(&mut lines, "replay_complete", last);
            drop(visitor.writer.send(&lines).await);
            return;
        }
        match events.next().await {
            Ok(NextEvents::Entries(entries)) => {
                for entry in entries.iter().filter(|entry| until.is_none_or(|until| entry.seq <= until)) {
                    updates.push(&mut lines, entry);
                    last = entry.seq;
                    if lines.len() >= PIECE {
                        if visitor.writer.send(&lines).await.is_err() {
                            return;
                        }
                        lines.clear();
                    }
                }
            }
            Ok(NextEvents::Gap { from, to }) => {
                updates.push_gap(&mut lines, from, to);
                last = to;
            }
            Ok(NextEvents::Closed) => {
                let kind = if until.is_some() { "replay_complete" } else { "session_closed" };
                updates.push_end(&mut lines, kind, last);
                drop(visitor.writer.send(&lines).await);
                return;
            }
            Err(error) => {
                visitor.house().log.error(format_args!("[zeroclaw] session {session} cannot be read: {error}"));
                updates.push_end(&mut lines, "replay_failed", last);
                drop(visitor.writer.send(&lines).await);
                return;
            }
        }
        if !lines.is_empty() && visitor.writer.send(&lines).await.is_err() {
            return;
        }
        sent.send_replace(last);
    }
}

/// `session/detach`: ends this connection's stream, if there is one.
pub(super) fn detach(streams: &mut Streams, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let stream = streams.remove(id);
    if let Some(stream) = &stream {
        stream.abort();
    }
    Ok(json!({"session_id": id, "detached": stream.is_some()}))
}
