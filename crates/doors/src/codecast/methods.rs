//! The methods: what each asks of the house.
//!
//! What changes something runs in a task of its own: a client that hangs up in the middle must not leave it half done.

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Hosting, Kind};
use hostel_house::insiders::{RaiseError, Rights};
use hostel_house::sessions::{
    Cause, Maker, ModeChange, NewSession, NextEvents, Prompt, Scope, SendError, Session, SessionError,
};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::access;
use super::body::Body;
use super::door::Door;
use super::event::{Out, Shape};
use super::ledger::Range;
use super::link::Link;
use super::listing::{Listed, Watched};
use super::params::{Create, Params, Send};
use super::parcel::{Connection, Parcel};
use super::present::Presenter;
use super::rpc::{self, Call, Failure, INVALID_REQUEST, METHOD_NOT_FOUND};
use super::stream::{Following, Start};
use super::{NAME, paths, skills};

/// Every method. One that is not here does not exist.
pub(crate) const METHODS: [&str; 12] = [
    "health.check",
    "monitor.sessions",
    "session.list",
    "session.create",
    "session.send",
    "session.reconnect",
    "session.resume",
    "session.destroy",
    "session.set_mode",
    "session.set_model",
    "session.interrupt",
    "session.queue_stats",
];

/// How long a stream whose client has gone may take to notice.
const NOTICE: Duration = Duration::from_secs(2);

/// What is sent back.
pub(super) enum Answer {
    /// A JSON-RPC answer.
    Json(Body),
    /// A stream.
    Stream(Body),
}

type Outcome = Result<Vec<u8>, Failure>;

/// Answers a call.
pub(super) async fn answer(door: &Arc<Door>, connection: &Arc<Connection>, call: Call<'_>) -> Answer {
    let Call { method, params, id } = call;
    let Some(method) = method else {
        let failure = Failure { code: INVALID_REQUEST, message: "Invalid request: missing method".into() };
        return plain(rpc::error(id, &failure));
    };
    if !METHODS.contains(&method.as_ref()) {
        let failure = Failure { code: METHOD_NOT_FOUND, message: format!("Method not found: {method}").into() };
        return plain(rpc::error(id, &failure));
    }
    let rights = &connection.rights;
    if let Err(refusal) = access::check(rights, &method, params.as_ref()).await {
        let text = refusal.text().to_owned();
        return match method.as_ref() {
            // Whoever sends a message reads a stream.
            "session.send" => Answer::Stream(only_error(&text)),
            _ => plain(rpc::error(id, &Failure::failed(text))),
        };
    }
    let outcome = match method.as_ref() {
        "health.check" => return plain(rpc::result(id, "\"ok\":true,", &health(door))),
        "monitor.sessions" => Ok(rpc::result(id, "", &monitor(door, rights).await)),
        "session.list" => Ok(rpc::result(id, "", &list(door, rights).await)),
        "session.send" => match Params::send(params) {
            Ok(send) => return Answer::Stream(send_message(door, connection, send).await),
            Err(failure) => Err(failure),
        },
        "session.reconnect" => match Params::of(params) {
            Ok(params) => return reconnect(door, connection, params, id).await,
            Err(failure) => Err(failure),
        },
        "session.create" => create(door, rights, id, Params::of(params)).await,
        "session.resume" => resume(door, id, Params::of(params)).await,
        "session.destroy" => destroy(door, id, Params::of(params)).await,
        "session.set_mode" => set_mode(door, rights, id, Params::of(params)).await,
        "session.set_model" => set_model(door, id, Params::of(params)).await,
        "session.interrupt" => interrupt(door, id, Params::of(params)).await,
        "session.queue_stats" => queue_stats(door, id, Params::of(params)),
        // Unreachable: the list of methods has all of them.
        method => Err(Failure { code: METHOD_NOT_FOUND, message: format!("Method not found: {method}").into() }),
    };
    plain(outcome.unwrap_or_else(|failure| rpc::error(id, &failure)))
}

fn plain(bytes: Vec<u8>) -> Answer {
    Answer::Json(Body::Whole(Some(bytes.into())))
}

fn ok(id: Option<&RawValue>) -> Outcome {
    Ok(rpc::result(id, "", &json!({"ok": true})))
}

fn find(door: &Door, id: &str) -> Result<Arc<Session>, Failure> {
    door.sessions.get(id).ok_or_else(|| Failure::failed(format!("Session not found: {id}")))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string())
}

/// Runs to its end whatever becomes of the client.
async fn unhurried<T: std::marker::Send + 'static>(
    work: impl Future<Output = T> + std::marker::Send + 'static,
) -> Result<T, Failure> {
    hostel_tasks::spawn(work).await.map_err(broken)
}

async fn create(door: &Arc<Door>, rights: &Rights, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let create = params?.create()?;
    let maker = rights.maker().await;
    let session = unhurried(new_session(Arc::clone(door), create, maker)).await??;
    Ok(rpc::result(id, "", &json!({"sessionId": session.id()})))
}

async fn new_session(door: Arc<Door>, create: Create, maker: Option<Maker>) -> Result<Arc<Session>, Failure> {
    let Create { path: given, mode, model, agent } = create;
    let kind = door.kind_of(&agent).ok_or_else(|| {
        let known = door.agent_names().join(", ");
        Failure::params(format!("Unknown cli_type: {agent} (there are: {known})"))
    })?;
    let path = paths::expand(&given, &door.settings.home);
    // The daemon writes where a guarded process may not even look; such a process copies its skills itself.
    let copies = maker.as_ref().is_none_or(|maker| maker.guard.is_none());
    if !prepare(&door, &path, kind, copies).await {
        let expanded = path.display();
        let message = format!("Path does not exist on remote machine: {expanded} (resolved from: {given})");
        return Err(Failure::failed(message));
    }
    // What the client did not ask for is given as far as its maker has it.
    let usual = door.usual_mode(&agent);
    let mode = mode.unwrap_or_else(|| maker.as_ref().map_or(usual, |maker| usual.min(maker.mode)));
    let new = NewSession {
        id: None,
        name: None,
        agent,
        cwd: Some(path),
        mode: Some(mode),
        model,
        hosting: Hosting::PerMessage,
        door: NAME,
        owner: None,
        env: Vec::new(),
        approval_wait: door.settings.approval_wait,
        mesh: None,
        maker,
    };
    let session = door.sessions.create(new).await.map_err(|error| match error {
        SessionError::UnknownAgent { .. } | SessionError::MissingCli { .. } => Failure::params(error.to_string()),
        error => broken(error),
    })?;
    door.log.info(format_args!("codecast: session {} in {}", session.id(), session.cwd().display()));
    Ok(session)
}

/// Whether the project is there; if so, it gets what it lacks, unless nothing is to be copied.
async fn prepare(door: &Arc<Door>, project: &std::path::Path, kind: Kind, copies: bool) -> bool {
    let (home, project) = (door.settings.home.clone(), project.to_owned());
    let copied = hostel_tasks::spawn_blocking(move || {
        // First of all: a folder that is made for its skills would be there.
        project.exists().then(|| copies.then(|| skills::copy(&home, &project, kind)))
    });
    let Ok(Some(copied)) = copied.await else { return false };
    let Some(copied) = copied else { return true };
    for failure in &copied.failures {
        door.log.warn(format_args!("codecast: skills: {failure}"));
    }
    if copied.files > 0 {
        door.log.info(format_args!("codecast: skills: {} files copied", copied.files));
    }
    true
}

async fn send_message(door: &Arc<Door>, connection: &Arc<Connection>, send: Send) -> Body {
    let Some(session) = door.sessions.get(&send.session) else {
        return only_error(&format!("Session not found: {}", send.session));
    };
    let link = door.links.of(&session, &door.sessions);
    let (door, connection) = (Arc::clone(door), Arc::clone(connection));
    let work = take_message(door, connection, session, link, send);
    unhurried(work).await.unwrap_or_else(|failure| only_error(&failure.message))
}

async fn take_message(
    door: Arc<Door>,
    connection: Arc<Connection>,
    session: Arc<Session>,
    link: Arc<Link>,
    send: Send,
) -> Body {
    let sending = link.begin_send();
    let sent = match session.send(Prompt { text: send.message, door: NAME }).await {
        Ok(sent) => sent,
        Err(SendError::Closed) => return only_error(&format!("Session not found: {}", send.session)),
        Err(error) => return only_error(&error.to_string()),
    };
    match sending.taken(&sent, &connection.line) {
        None => {
            let mut out = Out::new(Shape::Frames);
            out.queued(sent.position);
            short(out)
        }
        Some(ticket) => {
            let (ping, stop) = (door.settings.limits.ping, door.stop.subscribe());
            Body::following(Following::new(Start { link, connection, ticket, sent, ping, stop }))
        }
    }
}

fn only_error(message: &str) -> Body {
    let mut out = Out::new(Shape::Frames);
    out.error(message);
    short(out)
}

fn short(mut out: Out) -> Body {
    out.done();
    Body::Short(Some(out.take(0).into()))
}

async fn resume(door: &Arc<Door>, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let mut params = params?;
    let session = params.session()?;
    let Some(session) = door.sessions.get(&session) else {
        return Ok(rpc::result(id, "", &json!({"fallback": false, "ok": false})));
    };
    if let Some(cli_session) = params.cli_session() {
        session.set_cli_session_id(cli_session).await.map_err(broken)?;
    }
    door.links.of(&session, &door.sessions).connected();
    Ok(rpc::result(id, "", &json!({"fallback": false, "ok": true})))
}

async fn destroy(door: &Arc<Door>, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let session = params?.session()?;
    let Some(session) = door.sessions.get(&session) else {
        return Ok(rpc::result(id, "", &json!({"ok": false})));
    };
    let closing = Arc::clone(&session);
    unhurried(async move { closing.close(Cause::SessionRemoved).await }).await?.map_err(broken)?;
    door.links.forget(session.id());
    door.log.info(format_args!("codecast: session {} destroyed", session.id()));
    ok(id)
}

async fn set_mode(
    door: &Arc<Door>,
    rights: &Rights,
    id: Option<&RawValue>,
    params: Result<Params, Failure>,
) -> Outcome {
    let (session, mode) = params?.set_mode()?;
    let session = find(door, &session)?;
    let may_raise = mode > session.mode();
    if may_raise {
        rights.may_raise("session.set_mode", None, session.id()).await.map_err(|error| match error {
            RaiseError::Refused(refusal) => Failure::failed(refusal.text().to_owned()),
            // The contract has no place for a passphrase.
            RaiseError::Passphrase(why) => {
                Failure::failed(format!("{why}; use `hostel sessions mode {} {}`", session.id(), mode.name()))
            }
        })?;
    }
    session.set_mode(ModeChange { mode, who: rights.label().to_owned(), may_raise }).await.map_err(broken)?;
    ok(id)
}

async fn set_model(door: &Arc<Door>, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let (session, model) = params?.set_model()?;
    find(door, &session)?.set_model(model).await.map_err(broken)?;
    ok(id)
}

async fn interrupt(door: &Arc<Door>, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let session = find(door, &params?.session()?)?;
    let interrupted = unhurried(async move { session.interrupt(Scope::Everything, Cause::ClientRpc).await }).await?;
    Ok(rpc::result(id, "", &json!({"interrupted": interrupted, "ok": true})))
}

fn queue_stats(door: &Arc<Door>, id: Option<&RawValue>, params: Result<Params, Failure>) -> Outcome {
    let session = door.sessions.get(&params?.session()?).ok_or_else(|| Failure::failed("Session not found"))?;
    Ok(rpc::result(id, "", &door.links.stats(&session)))
}

#[derive(Serialize)]
struct Sessions {
    sessions: Vec<Listed>,
}

async fn list(door: &Door, rights: &Rights) -> Sessions {
    Sessions { sessions: seen(door, rights).await.iter().map(Listed::of).collect() }
}

/// The sessions that a client is told of: a process inside the house of its own alone.
async fn seen(door: &Door, rights: &Rights) -> Vec<Arc<Session>> {
    let mut seen = Vec::new();
    for session in door.sessions.list() {
        if rights.sees_session(session.id()).await {
            seen.push(session);
        }
    }
    seen
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Monitored {
    sessions: Vec<Watched>,
    total_sessions: usize,
    uptime: u64,
}

async fn monitor(door: &Door, rights: &Rights) -> Monitored {
    let sessions: Vec<Watched> = seen(door, rights)
        .await
        .iter()
        .map(|session| Watched { session: Listed::of(session), queue: door.links.stats(session) })
        .collect();
    Monitored { total_sessions: sessions.len(), sessions, uptime: door.vitals.uptime() }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health<'a> {
    memory: super::health::Memory,
    ok: bool,
    pid: u32,
    rust_version: &'a str,
    sessions: usize,
    sessions_by_status: ByStatus,
    uptime: u64,
    version: &'a str,
}

/// Only what occurs.
#[derive(Serialize)]
struct ByStatus {
    #[serde(skip_serializing_if = "is_zero")]
    busy: usize,
    #[serde(skip_serializing_if = "is_zero")]
    idle: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn health(door: &Door) -> Health<'_> {
    let sessions = door.sessions.count();
    let busy = door.sessions.busy().min(sessions);
    Health {
        memory: door.vitals.memory(),
        ok: true,
        pid: std::process::id(),
        rust_version: &door.settings.rust_version,
        sessions,
        sessions_by_status: ByStatus { busy, idle: sessions - busy },
        uptime: door.vitals.uptime(),
        version: &door.settings.version,
    }
}

async fn reconnect(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    mut params: Params,
    id: Option<&RawValue>,
) -> Answer {
    let session = match params.session() {
        Ok(session) => door.sessions.get(&session),
        Err(failure) => return plain(rpc::error(id, &failure)),
    };
    let Some(session) = session else {
        return plain(rpc::result(id, "", &json!({"bufferedEvents": []})));
    };
    let link = door.links.of(&session, &door.sessions);
    let _fetching = link.fetching.lock().await;
    // Whoever calls this has lost a stream; it may not have been noticed here yet.
    tokio::time::timeout(NOTICE, link.vanished_stream_is_gone()).await.ok();
    if params.wants_all_again() {
        link.owe_from_start();
    }
    let (events, ranges) = match owed_events(door, &session, link.owed()).await {
        Ok(read) => read,
        Err(error) => return plain(rpc::error(id, &broken(error))),
    };
    let answer = link.paid(&ranges);
    let mut result = Vec::with_capacity(events.len() + 32);
    result.extend_from_slice(b"{\"bufferedEvents\":[");
    result.extend_from_slice(&events);
    result.extend_from_slice(b"]}");
    let bytes = rpc::raw_result(id, &result);
    let parcel = Parcel::Owed { link: Arc::clone(&link), answer, ranges };
    Answer::Json(Body::owed(bytes, Arc::clone(connection), parcel))
}

/// Reads what is owed, as much as one answer may hold, and says what of it was read.
async fn owed_events(
    door: &Door,
    session: &Session,
    owed: Vec<Range>,
) -> Result<(Vec<u8>, Vec<Range>), hostel_house::store::StoreError> {
    let limits = &door.settings.limits;
    let mut out = Out::new(Shape::Elements);
    let mut read = Vec::new();
    for (from, to) in owed {
        let mut presenter = Presenter::new(session.kind(), session.hosting());
        let mut events = session.events(from);
        let mut at = from;
        'range: while at < to {
            match events.next().await? {
                NextEvents::Entries(entries) => {
                    for entry in entries {
                        if entry.seq > to
                            || out.count() >= limits.reconnect_events
                            || out.len() >= limits.reconnect_bytes
                        {
                            break 'range;
                        }
                        presenter.tell(&entry, &mut out);
                        at = entry.seq;
                    }
                }
                NextEvents::Gap { from, to } => {
                    Presenter::gap(from, to, &mut out);
                    at = to;
                }
                NextEvents::Closed => break,
            }
        }
        read.push((from, at.min(to)));
        if at < to {
            break;
        }
    }
    Ok((out.take(0), read))
}
