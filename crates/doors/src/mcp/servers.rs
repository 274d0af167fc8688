//! `start_server`, `stop_server`, `status`, `update_host`: the daemons behind `execute`.
//!
//! Invariant: a daemon that is there is never started again, and one that is not there is no error when it is to be
//! stopped. A socket file is removed only when nobody answers behind it. A connection to a machine that was never reached
//! before is opened only after a person has agreed, and no tool call lends anybody the ssh agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use super::Caller;
use super::FirstContact;
use super::LaunchError;
use super::Launched;
use super::Server;
use super::arguments::OneHost;
use super::arguments::Start;
use super::arguments::UpdateHost;
use super::asking;
use super::execute::exists;
use super::execute::failed;
use super::execute::rendered;
use super::execute::said;
use super::hosts::suffix;
use super::sudo::Request;
use super::sudo::Response;
use super::sudo::Status;
use super::texts;

/// The pause between two looks at a daemon that starts or ends.
const LOOK: Duration = Duration::from_millis(100);

/// How often a daemon is looked for on this machine, and on another one.
const LOOKS: (usize, usize) = (50, 300);

/// How long a daemon has for a request that needs nobody.
const CONTROL: Duration = Duration::from_secs(5);

/// Hosts of one `status`.
const STATUS_LIMIT: usize = 100;

/// `start_server`. None when the call was cancelled.
pub(super) async fn start(
    server: &Server,
    asked: Start,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResult>, ErrorData> {
    let target = match server.target(asked.host.as_deref()) {
        Ok(target) => target,
        Err(text) => return Ok(Some(failed(text))),
    };
    let host = target.as_deref();
    if let Some(running) = running(server, host, caller).await {
        return Ok(Some(running));
    }
    // Its configuration, which names programs, is a file that the caller may be able to write.
    if let Some(host) = host
        && let Some(refusal) = server.backend.refuses_ssh(caller, host).await
    {
        return Ok(Some(failed(refusal)));
    }
    let first_contact = match consent(server, host, caller, context).await {
        Some(Consent::NotNeeded) => FirstContact::Agreed,
        Some(Consent::InTerminal) => FirstContact::AskInTerminal,
        Some(Consent::Refused(text)) => return Ok(Some(failed(text))),
        None => return Ok(None),
    };
    launch(server, host, first_contact, asked.forward_agent, caller).await.map(Some)
}

/// What is said of a daemon that is there already; none if it is not.
async fn running(server: &Server, host: Option<&str>, caller: &Caller) -> Option<CallToolResult> {
    let Some(socket) = server.backend.door(host) else {
        return Some(said(format!("{} is already running", server.profile.name)));
    };
    if !exists(&socket).await || !server.contact(host, caller).is_ready().await {
        return None;
    }
    server.seen(host.unwrap_or("localhost"), "").await;
    Some(said(match host {
        None => texts::already_running(&socket),
        Some(host) => texts::tunnel_active(host, &socket),
    }))
}

/// Whether a connection may be opened.
enum Consent {
    NotNeeded,
    /// There is no house to ask in: the terminal that is opened asks first.
    InTerminal,
    Refused(String),
}

/// Asks a person before a machine is reached for the first time. None when the call was cancelled.
async fn consent(
    server: &Server,
    host: Option<&str>,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Option<Consent> {
    let Some(host) = host else { return Some(Consent::NotNeeded) };
    // A description alone does not make a host known: `update_host` gives one to any name.
    // A process inside the house can write the list of machines itself.
    let is_known = server.desk.known().get(host).is_some_and(|info| !info.last_connected.is_empty());
    if is_known && !server.backend.is_inside(caller).await {
        return Some(Consent::NotNeeded);
    }
    if server.profile.contract {
        return Some(Consent::InTerminal);
    }
    let question = format!("Connect to {host} by ssh and open a sudo-proxy there?");
    let details = "Your ssh configuration and keys are used to log in; your ssh agent is not lent.";
    let settled = asking::question(server, &question, details, caller, context).await?;
    Some(match settled {
        Ok(settled) if settled.is_approved() => Consent::NotNeeded,
        Ok(_) => {
            Consent::Refused(format!("Nobody agreed to connect to {host}; a person can: `sudo-proxy --host {host}`"))
        }
        Err(text) => Consent::Refused(text),
    })
}

/// Opens a connection, or starts the daemon of this machine, and waits until it answers.
async fn launch(
    server: &Server,
    host: Option<&str>,
    first_contact: FirstContact,
    wants_agent: bool,
    caller: &Caller,
) -> Result<CallToolResult, ErrorData> {
    let contact = server.contact(host, caller);
    let Some(socket) = server.backend.door(host) else {
        return Ok(said(format!("{} is already running", server.profile.name)));
    };
    if host.is_some() {
        // A tunnel that ended leaves its end behind, and the next one could not be opened.
        tokio::fs::remove_file(&socket).await.ok();
    }
    let launched = match server.desk.launch(host, first_contact).await {
        Ok(launched) => launched,
        Err(LaunchError::NoTerminal(text)) => return Err(ErrorData::internal_error(text, None)),
        Err(LaunchError::Spawn(error)) => {
            return Err(ErrorData::internal_error(format!("spawn terminal: {error}"), None));
        }
        Err(LaunchError::Other(text)) => return Ok(failed(text)),
    };
    let looks = if host.is_none() { LOOKS.0 } else { LOOKS.1 };
    for _ in 0..looks {
        if exists(&socket).await && contact.is_ready().await {
            server.seen(host.unwrap_or("localhost"), "").await;
            return Ok(said(match (host, launched) {
                (Some(host), _) => format!("{}{}", texts::tunnel_ready(host, &socket), agent_note(wants_agent)),
                (None, Launched::Terminal) => texts::started(&socket),
                (None, Launched::House) => format!("the house is up, its sudo-proxy door is {}", socket.display()),
            }));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(failed(match (host, launched) {
        (Some(host), _) => texts::tunnel_slow(host),
        (None, Launched::Terminal) => texts::not_started(&socket),
        (None, Launched::House) => format!(
            "the house is up, but its sudo-proxy door at {} is closed; a person can open it again with `hostel down --keep` and `hostel up`",
            socket.display()
        ),
    }))
}

/// What a client hears that wanted the ssh agent forwarded.
fn agent_note(wants_agent: bool) -> &'static str {
    match wants_agent {
        true => " (the ssh agent is not forwarded: only a person can ask for that, with `sudo-proxy --forward-agent`)",
        false => "",
    }
}

/// A request that runs nothing.
async fn control(
    server: &Server,
    host: Option<&str>,
    caller: &Caller,
    action: &'static str,
) -> Result<Response, String> {
    let (session, nothing) = (server.session_word(caller), BTreeMap::new());
    let request = Request {
        id: Request::new_id(),
        host: host.unwrap_or_default(),
        session: &session,
        time: Request::now(),
        pipeline: &[],
        action: Some(action),
        env: &nothing,
        reason: "",
        privileged: false,
        forward_agent: false,
        version: &server.profile.version,
    };
    server.contact(host, caller).send(&request.line(), Some(CONTROL)).await
}

/// `stop_server`.
pub(super) async fn stop(server: &Server, asked: OneHost, caller: &Caller) -> CallToolResult {
    let target = match server.target(asked.host.as_deref()) {
        Ok(target) => target,
        Err(text) => return failed(text),
    };
    let name = asked.host.as_deref().unwrap_or("localhost");
    let socket = server.backend.door(target.as_deref());
    if let Some(socket) = &socket
        && !exists(socket).await
    {
        return said(texts::stop_nothing(name, socket));
    }
    match control(server, target.as_deref(), caller, "stop").await {
        Ok(response) if response.status == Status::Ok => {
            if let Some(socket) = &socket {
                gone(server, target.as_deref(), caller, socket).await;
            }
            said(texts::stopped(name))
        }
        Ok(response) if predates_control(&response) => {
            server.seen(name, &response.version).await;
            failed(texts::stop_too_old(name, response.daemon()))
        }
        Ok(response) => rendered(&server.profile, &response),
        Err(text) => failed(text),
    }
}

/// Waits for a stopped daemon to be gone, and clears away what a tunnel leaves behind.
async fn gone(server: &Server, host: Option<&str>, caller: &Caller, socket: &Path) {
    let contact = server.contact(host, caller);
    for _ in 0..LOOKS.0 {
        if !exists(socket).await {
            return;
        }
        if !contact.is_ready().await {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    if host.is_some() && exists(socket).await && !contact.is_ready().await {
        tokio::fs::remove_file(socket).await.ok();
    }
}

/// A daemon from before control requests takes one for a command without stages.
fn predates_control(response: &Response) -> bool {
    response.status == Status::Error
        && response.message.as_deref().is_some_and(|message| message.contains("pipeline must not be empty"))
}

/// `status`.
pub(super) async fn status(server: &Server, asked: OneHost, caller: &Caller) -> CallToolResult {
    let known = server.desk.known();
    let targets: Vec<Option<String>> = match &asked.host {
        Some(host) => match server.target(Some(host)) {
            Ok(target) => vec![target],
            Err(text) => return failed(text),
        },
        None => {
            let others = known.keys().filter(|host| !server.desk.is_here(host)).take(STATUS_LIMIT);
            std::iter::once(None).chain(others.cloned().map(Some)).collect()
        }
    };
    let mut lines = Vec::with_capacity(targets.len());
    for target in targets {
        let name = target.as_deref().unwrap_or("localhost");
        let state = probe(server, target.as_deref(), name, caller).await;
        let more = known.get(name).map(|info| suffix(info, " — ", false)).unwrap_or_default();
        lines.push(format!("{name}: {state}{more}"));
    }
    said(lines.join("\n"))
}

/// How one daemon is.
async fn probe(server: &Server, host: Option<&str>, name: &str, caller: &Caller) -> String {
    if !server.backend.present(host).await {
        return "not running (no socket)".to_owned();
    }
    if !server.contact(host, caller).is_ready().await {
        return "socket present but not answering (stale?)".to_owned();
    }
    match control(server, host, caller, "ping").await {
        Ok(response) if response.status == Status::Ok => {
            server.seen(name, &response.version).await;
            format!("running (sudo-proxy {})", response.daemon())
        }
        Ok(response) if predates_control(&response) => {
            server.seen(name, &response.version).await;
            format!("running (sudo-proxy {}, predates ping)", response.daemon())
        }
        Ok(response) => format!("error: {}", response.message.as_deref().unwrap_or("unknown error")),
        Err(text) => format!("unreachable: {text}"),
    }
}

/// `update_host`.
pub(super) async fn update(server: &Server, asked: UpdateHost) -> CallToolResult {
    if let Err(reason) = server.desk.check(&asked.host) {
        return failed(texts::invalid_host(&reason));
    }
    let (desk, host) = (Arc::clone(&server.desk), asked.host.clone());
    let noted = move || desk.update(&asked.host, asked.description.as_deref(), asked.os.as_deref());
    match hostel_tasks::spawn_blocking(noted).await {
        Ok(Ok(())) => said(texts::updated(&host)),
        Ok(Err(error)) => failed(format!("cannot write the registry of hosts: {error}")),
        Err(error) => failed(error.to_string()),
    }
}
