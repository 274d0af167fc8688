//! One connection while it stands: frames in, frames out, signs of life, and everybody who works on it.
//!
//! Invariant: whichever part ends first ends all of them. Queues between the parts are as long as the windows both sides
//! agreed on, so a part that is slow slows the other side down and never holds up the signs of life.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_wire::frames::client::{Call, ClientFrame, Request};
use hostel_wire::frames::server::{Ack, Push, ServerFrame};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Bytes;

use super::calls::{Line, Reply};
use super::dial::BrokerUrl;
use super::drain::Drain;
use super::life::{self, Welcomed};
use super::socket::{Ear, Heard, Mouth};
use super::{End, Role, greet, members, receive, rotation};
use crate::keyring::MemberKey;
use crate::mesh::core::Core;
use crate::sessions::Session;
use crate::topics::keeper::{self, KeyNews};

/// Frames that wait to be written.
const OUT: usize = 512;
/// Answers and entries that wait to be looked at: more than a window.
const IN: usize = 512;

/// How long a clean end may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// When the broker was last heard, and the sign of life we wait for.
struct Pulse {
    heard: Mutex<Instant>,
    asked: Mutex<Option<(u64, Instant)>>,
}

/// Where what is heard goes.
struct Desks {
    acks: mpsc::Sender<Ack>,
    pushes: mpsc::Sender<Push>,
    keys: mpsc::Sender<KeyNews>,
    roster: watch::Sender<bool>,
}

/// Serves a connection until it ends, and says why it did.
pub(super) async fn serve(
    core: &Arc<Core>,
    role: &Role,
    welcomed: Welcomed,
    url: &BrokerUrl,
    stop: watch::Receiver<bool>,
) -> End {
    let Welcomed { mut ear, mut mouth, welcome, key } = welcomed;
    let (out, frames) = mpsc::channel(OUT);
    let line = Arc::new(Line::new(out.clone(), welcome));
    let (acks, answers) = mpsc::channel(IN);
    let (pushed, pushes) = mpsc::channel(IN);
    let (key_news, keys) = mpsc::channel(IN);
    let desks = Desks { acks, pushes: pushed, keys: key_news, roster: watch::channel(false).0 };
    if role.is_member() && line.welcome.roster_unchanged && core.roster.mark().is_some() {
        desks.roster.send_replace(true);
    }
    let roster = desks.roster.subscribe();
    let now = Instant::now();
    let pulse = Pulse { heard: Mutex::new(now), asked: Mutex::new(None) };
    let farewell = Notify::new();
    // Gone with the drain, wherever that ends.
    let (draining, drained) = oneshot::channel();
    let sealing = role.key(&key);
    let drain = Drain::new(Arc::clone(core), role.clone(), sealing, Arc::clone(&key), out, &line.welcome, draining);
    let work = async {
        match role {
            Role::Member => as_member(core, role, &key, &line, url, drain, roster, answers, pushes, keys).await,
            Role::Session(session) => {
                session.connected.store(true, Ordering::Relaxed);
                as_session(core, role, session, &line, drain, answers, pushes).await
            }
        }
    };
    let end = tokio::select! {
        end = listen(core, &mut ear, &line, &desks, &pulse) => end,
        end = speak(core, &mut mouth, frames, &pulse, &farewell) => end,
        end = work => end,
        () = core.keys.left(&key) => End::Rotated,
        () = part(core, role, &line, stop, &farewell) => End::Stopped,
    };
    line.ended();
    if let Role::Session(session) = role {
        core.faces.went(core, session, &line);
    }
    // What is under way goes back before the next connection looks at what is owed.
    drop(desks);
    drained.await.ok();
    end
}

#[expect(clippy::too_many_arguments, reason = "each is one end of a queue of this connection")]
async fn as_member(
    core: &Arc<Core>,
    role: &Role,
    key: &MemberKey,
    line: &Arc<Line>,
    url: &BrokerUrl,
    drain: Drain,
    roster: watch::Receiver<bool>,
    answers: mpsc::Receiver<Ack>,
    pushes: mpsc::Receiver<Push>,
    keys: mpsc::Receiver<KeyNews>,
) -> End {
    let begun = async {
        greet::roster(roster).await?;
        members::keep(core).await;
        greet::repair(core, &line.welcome).await?;
        greet::resume(core, &line.welcome).await
    };
    let cursor = match begun.await {
        Ok(cursor) => cursor,
        Err(end) => return end,
    };
    greet::named(core, &line.welcome);
    let first = core.opened(Arc::clone(line), key);
    life::came(core, url, first).await;
    let greeting = async {
        greet::rest(core, line).await;
        std::future::pending().await
    };
    tokio::select! {
        end = draining(drain, answers) => end,
        end = receive::receive(core, role, line, cursor, pushes) => end,
        () = keeper::keep(core, line, keys) => End::lost("closed", "the connection has ended"),
        end = rotation::tell(core, line) => end,
        end = greeting => end,
    }
}

async fn as_session(
    core: &Arc<Core>,
    role: &Role,
    session: &Session,
    line: &Arc<Line>,
    drain: Drain,
    answers: mpsc::Receiver<Ack>,
    pushes: mpsc::Receiver<Push>,
) -> End {
    let cursor = crate::inbox::Cursor::default();
    let greeting = async {
        core.faces.came(session, line).await;
        std::future::pending().await
    };
    tokio::select! {
        end = draining(drain, answers) => end,
        end = receive::receive(core, role, line, cursor, pushes) => end,
        end = greeting => end,
    }
}

/// On a task of its own: it ends by itself once the answers do, and takes back what is under way.
async fn draining(drain: Drain, answers: mpsc::Receiver<Ack>) -> End {
    match hostel_tasks::spawn(drain.run(answers)).await {
        Ok(end) => end,
        Err(error) => End::lost("error", error),
    }
}

/// Hears frames and hands each to who it is for.
async fn listen(core: &Arc<Core>, ear: &mut Ear, line: &Line, desks: &Desks, pulse: &Pulse) -> End {
    loop {
        let heard = match ear.hear().await {
            Ok(heard) => heard,
            Err(end) => return end,
        };
        *pulse.heard.lock() = Instant::now();
        match heard {
            Heard::Noise => {}
            Heard::Pong(payload) => pong(core, pulse, &payload),
            Heard::Text(text) => match ServerFrame::decode(&text) {
                Ok(frame) => {
                    if let Some(end) = hand(core, line, desks, frame).await {
                        return end;
                    }
                }
                Err(error) => {
                    core.metrics.invalid("frame");
                    core.log.debug("invalid_frame", json!({"error": error.to_string()}));
                }
            },
        }
    }
}

async fn hand(core: &Arc<Core>, line: &Line, desks: &Desks, frame: ServerFrame) -> Option<End> {
    let gone = || End::lost("closed", "the connection has ended");
    match frame {
        ServerFrame::Ack(ack) => desks.acks.send(*ack).await.err().map(|_| gone()),
        ServerFrame::Push(push) => desks.pushes.send(*push).await.err().map(|_| gone()),
        ServerFrame::Roster(roster) => {
            let is_first = !*desks.roster.borrow();
            if members::take(core, line, roster, true, is_first).await {
                desks.roster.send_replace(true);
            }
            None
        }
        ServerFrame::RosterDelta(roster) => {
            let is_first = !*desks.roster.borrow();
            if members::take(core, line, roster, false, is_first).await {
                desks.roster.send_replace(true);
            }
            None
        }
        ServerFrame::TopicKey(frame) => {
            match frame.req_id.clone() {
                Some(id) => drop(line.answered(Some(&id), Ok(Reply::TopicKey(frame)))),
                // Whoever still needs it asks again.
                None => drop(desks.keys.try_send(KeyNews::Arrived(frame))),
            }
            None
        }
        ServerFrame::TopicKeyNeeded(needed) => {
            desks.keys.try_send(KeyNews::Needed(needed)).ok();
            None
        }
        ServerFrame::Error(error) => {
            if line.refused(&error) {
                return None;
            }
            core.log.warn("broker_error", json!({"code": error.code, "message": error.message}));
            (error.code == "revoked").then_some(End::Revoked)
        }
        ServerFrame::Answer(answer) => {
            let id = answer.req_id.clone();
            line.answered(id.as_deref(), Ok(Reply::Answer(answer)));
            None
        }
        _ => None,
    }
}

fn pong(core: &Core, pulse: &Pulse, payload: &Bytes) {
    let mut asked = pulse.asked.lock();
    if let Some((number, since)) = *asked
        && payload[..] == number.to_be_bytes()
    {
        core.set_lag(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        *asked = None;
    }
}

/// Writes frames, asks for signs of life, and says goodbye.
async fn speak(
    core: &Core,
    mouth: &mut Mouth,
    mut frames: mpsc::Receiver<String>,
    pulse: &Pulse,
    farewell: &Notify,
) -> End {
    let mut settings = core.tuning.changes();
    let mut pings = pings(core);
    let mut number = 0_u64;
    loop {
        let said = tokio::select! {
            biased;
            frame = frames.recv() => match frame {
                Some(frame) => write(mouth, frame, &mut frames).await,
                None => return End::lost("closed", "the connection has ended"),
            },
            _ = pings.tick() => {
                if pulse.heard.lock().elapsed() >= core.tuning.silent() {
                    return End::lost("silent", "the broker has been silent for too long");
                }
                number += 1;
                *pulse.asked.lock() = Some((number, Instant::now()));
                mouth.ping(Bytes::copy_from_slice(&number.to_be_bytes())).await
            }
            Ok(()) = settings.changed() => {
                pings = self::pings(core);
                Ok(())
            }
            () = farewell.notified() => {
                mouth.close().await;
                return End::Stopped;
            }
        };
        if let Err(end) = said {
            return end;
        }
    }
}

/// When signs of life are asked for; at once, and then as often as the settings say.
fn pings(core: &Core) -> tokio::time::Interval {
    let mut pings = tokio::time::interval(core.tuning.ping());
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pings
}

/// Writes a frame and what waits behind it, then sends it all.
async fn write(mouth: &mut Mouth, first: String, frames: &mut mpsc::Receiver<String>) -> Result<(), End> {
    mouth.feed(first).await?;
    while let Ok(frame) = frames.try_recv() {
        mouth.feed(frame).await?;
    }
    mouth.flush().await
}

/// Waits until it shall stop, then says goodbye: `leave` for who does not come back, `bye` for who may.
async fn part(core: &Core, role: &Role, line: &Line, mut stop: watch::Receiver<bool>, farewell: &Notify) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could say so.
        std::future::pending::<()>().await;
    }
    let goodbye = async {
        if role.is_member() && core.tuning.ephemeral {
            core.drained().await;
        }
        if role.is_member() && core.tuning.leave_on_end && !core.is_revoked() {
            line.ask(Call::Leave { after_hours: None }).await.ok();
        }
        let bye = ClientFrame::Request(Request { req_id: None, call: Call::Bye {} });
        line.tell(bye.encode()).await.ok();
        farewell.notify_one();
        std::future::pending::<()>().await;
    };
    tokio::time::timeout(FAREWELL, goodbye).await.ok();
}
