//! Who may ask at all, in this order: no preflight, no web page, this machine's name, a program that says what it is, the
//! token.
//!
//! Invariant: nothing here depends on whether a path exists. Tokens are compared in constant time and never logged.

use std::sync::Arc;

use hostel_mesh::Caller;
use hostel_mesh::hooks::Grant;
use hostel_peer::Ends;
use hostel_peer::http::{Authorization, Guard, Hosts, Origins, Rejection};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::json;

use super::answer::Refused;
use super::door::{Door, Live};
use super::query::Query;
use super::settings::Settings;

/// How a request came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transport {
    Socket,
    Tcp,
}

impl Transport {
    /// As metrics write it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Socket => "uds",
            Self::Tcp => "tcp",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) enum Visitor {
    /// Somebody who showed that they may.
    Known(Caller),
    /// A hook with its token: it may do what its event allows, and nothing else.
    Hook(Arc<Grant>),
    /// Somebody who asks for the health alone.
    Anybody,
}

const HEALTH: &str = "/v1/health";
const SESSION_SCHEME: &str = "claudemesh-session";

/// Whether a request may be looked at, and whose it is.
pub(super) fn admit(
    door: &Door,
    live: &Live,
    transport: Transport,
    ends: Option<Ends>,
    head: &Parts,
) -> Result<Visitor, Refused> {
    rules(&live.settings, transport).check(head, ends).map_err(|rejection| match rejection {
        Rejection::Preflight => forbidden("preflight_denied", "web pages may not call this daemon"),
        Rejection::Origin => forbidden("forbidden_origin", "web pages may not call this daemon").about("Origin"),
        Rejection::Host => forbidden("forbidden_host", "call this daemon by localhost or 127.0.0.1").about("Host"),
    })?;
    if transport == Transport::Tcp && is_empty(head.headers.get(header::USER_AGENT)) {
        let detail = "a request over TCP says which program makes it";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "user_agent_required", detail).about("User-Agent"));
    }
    token(door, live, transport, ends, head)
}

fn rules(settings: &Settings, transport: Transport) -> Guard {
    Guard {
        refuse_preflights: true,
        origins: Origins::Listed(settings.allowed_origins.clone()),
        hosts: Hosts {
            names: settings.hosts.clone(),
            // Whoever has the token of a listener that others can reach may call it by the address they reach.
            bound_address: settings.external.is_some(),
            required: transport == Transport::Tcp,
            any_loopback: false,
        },
    }
}

fn forbidden(code: &'static str, detail: &'static str) -> Refused {
    Refused::new(StatusCode::FORBIDDEN, code, detail)
}

fn is_empty(value: Option<&HeaderValue>) -> bool {
    value.is_none_or(|value| value.as_bytes().trim_ascii().is_empty())
}

fn token(door: &Door, live: &Live, transport: Transport, ends: Option<Ends>, head: &Parts) -> Result<Visitor, Refused> {
    if head.uri.query().is_some_and(|query| Query::new(query).has("token")) {
        door.alarm("ipc_token_in_query_string_rejected", json!({"transport": transport.label()}));
        let detail = "a token belongs into the Authorization header; one in a query ends up in logs";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "token_in_query", detail).about("token"));
    }
    let shown = Authorization::of(&head.headers);
    // A hook's token counts on either side, for as long as the hook runs.
    if let Some(grant) = shown.bearer().and_then(|token| door.mesh.capability(token)) {
        return Ok(Visitor::Hook(grant));
    }
    match (transport, shown) {
        (_, Authorization::Repeated) => Err(unauthorized("there is more than one Authorization header")),
        (Transport::Socket, shown) => over_socket(door, shown),
        (Transport::Tcp, shown) if shown.bearer().is_some_and(|token| door.admits(live, ends, token)) => {
            Ok(Visitor::Known(Caller::Member))
        }
        (Transport::Tcp, _) if live.settings.public_health && is_health(head) => Ok(Visitor::Anybody),
        (Transport::Tcp, shown) => {
            if matches!(shown, Authorization::Given { .. }) {
                door.alarm("ipc_bearer_mismatch", json!({"transport": transport.label()}));
            }
            Err(unauthorized(MISSING))
        }
    }
}

fn over_socket(door: &Door, shown: Authorization<'_>) -> Result<Visitor, Refused> {
    if let Some(token) = shown.in_scheme(SESSION_SCHEME) {
        let session = std::str::from_utf8(token).ok().and_then(|token| door.mesh.session_by_token(token));
        return session.map(|session| Visitor::Known(Caller::Session(session))).ok_or_else(|| unauthorized(UNKNOWN));
    }
    match shown.bearer() {
        // Who shows a token means to be who it says: one that is not good any more does not make them somebody else.
        Some(token) if !door.tokens.accepts(token) => {
            door.alarm("ipc_bearer_mismatch", json!({"transport": Transport::Socket.label()}));
            Err(unauthorized(ENDED))
        }
        // Who reaches the socket may read the token's file as well.
        _ => Ok(Visitor::Known(Caller::Member)),
    }
}

fn is_health(head: &Parts) -> bool {
    head.method == Method::GET && head.uri.path() == HEALTH
}

const MISSING: &str = "show the token of the file local_token as `Authorization: Bearer <token>`";
const UNKNOWN: &str = "no session has this token";
const ENDED: &str =
    "this token is not good, or not any more: a hook's ends with the hook, after 5 minutes at the latest";

fn unauthorized(detail: &'static str) -> Refused {
    Refused::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        .about("Authorization")
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// The refusal for who must be a session and is none.
pub(super) fn no_session() -> Refused {
    unauthorized("show a session's token as `Authorization: ClaudeMesh-Session <token>`")
}
