//! Who may ask at all, in this order: no preflight, no web page, this machine's name, a program that says what it is, the
//! token.
//!
//! Invariant: nothing here depends on whether a path exists. Tokens are compared in constant time and never logged.

use std::sync::Arc;

use hostel_mesh::Caller;
use hostel_mesh::hooks::Grant;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::json;

use super::answer::Refused;
use super::door::{Door, Live};
use super::query::Query;

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
pub(super) fn admit(door: &Door, live: &Live, transport: Transport, head: &Parts) -> Result<Visitor, Refused> {
    if head.method == Method::OPTIONS {
        return Err(forbidden("preflight_denied", "web pages may not call this daemon"));
    }
    origin(&live.settings.allowed_origins, &head.headers)?;
    host(&live.settings.hosts, transport, head)?;
    if transport == Transport::Tcp && is_empty(head.headers.get(header::USER_AGENT)) {
        let detail = "a request over TCP says which program makes it";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "user_agent_required", detail).about("User-Agent"));
    }
    token(door, live, transport, head)
}

fn forbidden(code: &'static str, detail: &'static str) -> Refused {
    Refused::new(StatusCode::FORBIDDEN, code, detail)
}

fn is_empty(value: Option<&HeaderValue>) -> bool {
    value.is_none_or(|value| value.as_bytes().trim_ascii().is_empty())
}

fn origin(allowed: &[String], headers: &HeaderMap) -> Result<(), Refused> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    if origins.all(|origin| allowed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())) {
        return Ok(());
    }
    Err(forbidden("forbidden_origin", "web pages may not call this daemon").about("Origin"))
}

fn host(more: &[String], transport: Transport, head: &Parts) -> Result<(), Refused> {
    // An address inside the first line counts beside the header.
    let written = head.headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let mut named = written.chain(head.uri.authority().map(|authority| authority.as_str().as_bytes())).peekable();
    let missing = named.peek().is_none() && transport == Transport::Tcp;
    if missing || !named.all(|host| is_ours(host, more)) {
        return Err(forbidden("forbidden_host", "call this daemon by localhost or 127.0.0.1").about("Host"));
    }
    Ok(())
}

/// Whether a `Host` is a name of this machine that can mean no other; `more` are names it was given.
fn is_ours(host: &[u8], more: &[String]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.strip_prefix('[') {
        Some(_) => match host.split_once(']') {
            Some((_, rest)) => host.split_at(host.len() - rest.len()),
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port_is_fine = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| {
            !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
    let known = ["localhost", "127.0.0.1", "[::1]"].into_iter().chain(more.iter().map(String::as_str));
    port_is_fine && known.into_iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn token(door: &Door, live: &Live, transport: Transport, head: &Parts) -> Result<Visitor, Refused> {
    if head.uri.query().is_some_and(|query| Query::new(query).has("token")) {
        door.alarm("ipc_token_in_query_string_rejected", json!({"transport": transport.label()}));
        let detail = "a token belongs into the Authorization header; one in a query ends up in logs";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "token_in_query", detail).about("token"));
    }
    let mut shown = head.headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (shown.next(), shown.next());
    let shown = first.filter(|_| second.is_none()).and_then(scheme);
    // A hook's token counts on either side, for as long as the hook runs.
    if let Some((scheme, token)) = &shown
        && scheme == "bearer"
        && let Some(grant) = door.mesh.capability(token)
    {
        return Ok(Visitor::Hook(grant));
    }
    match (transport, shown) {
        (_, _) if second.is_some() => Err(unauthorized("there is more than one Authorization header")),
        (Transport::Socket, Some((scheme, token))) if scheme == SESSION_SCHEME => {
            let session = std::str::from_utf8(token).ok().and_then(|token| door.mesh.session_by_token(token));
            session.map(|session| Visitor::Known(Caller::Session(session))).ok_or_else(|| unauthorized(UNKNOWN))
        }
        // Who shows a token means to be who it says: one that is not good any more does not make them somebody else.
        (Transport::Socket, Some((scheme, token))) if scheme == "bearer" && !door.tokens.accepts(token) => {
            door.alarm("ipc_bearer_mismatch", json!({"transport": transport.label()}));
            Err(unauthorized(ENDED))
        }
        // Who reaches the socket may read the token's file as well.
        (Transport::Socket, _) => Ok(Visitor::Known(Caller::Member)),
        (Transport::Tcp, Some((scheme, token))) if scheme == "bearer" && door.admits(live, token) => {
            Ok(Visitor::Known(Caller::Member))
        }
        (Transport::Tcp, _) if live.settings.public_health && is_health(head) => Ok(Visitor::Anybody),
        (Transport::Tcp, shown) => {
            if shown.is_some() {
                door.alarm("ipc_bearer_mismatch", json!({"transport": transport.label()}));
            }
            Err(unauthorized(MISSING))
        }
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

/// Scheme, in lower case, and the rest of an `Authorization` header.
fn scheme(value: &HeaderValue) -> Option<(String, &[u8])> {
    let value = value.as_bytes().trim_ascii();
    let end = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(end);
    Some((String::from_utf8_lossy(scheme).to_ascii_lowercase(), rest.trim_ascii()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_and_others() {
        let ours = |host: &str| is_ours(host.as_bytes(), &[]);
        for host in ["localhost", "LOCALHOST:9100", "127.0.0.1", "127.0.0.1:1", "[::1]:9100", "[::1]"] {
            assert!(ours(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.2",
            "::1",
            "[::1",
            "[::1]x",
            "[::2]",
            "localhost:",
            "localhost:80x",
            "localhost:123456",
            "user@localhost",
            "0.0.0.0",
        ] {
            assert!(!ours(host), "{host}");
        }
        assert!(is_ours(b"box.lan:80", &["box.lan".to_owned()]) && !is_ours(b"\xff", &[]));
    }

    #[test]
    fn schemes_are_taken_apart() {
        let of = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            scheme(&value).map(|(scheme, rest)| (scheme, String::from_utf8(rest.to_vec()).unwrap()))
        };
        assert_eq!(of("Bearer  abc "), Some(("bearer".to_owned(), "abc".to_owned())));
        assert_eq!(of("ClaudeMesh-Session 00"), Some(("claudemesh-session".to_owned(), "00".to_owned())));
        assert_eq!(of("abc"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn origins_are_compared_to_the_letter() {
        let with = |origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            origin(&["http://a:1".to_owned()], &headers).is_ok()
        };
        assert!(with(&[]) && with(&["http://a:1"]));
        assert!(!with(&["http://a"]) && !with(&[""]) && !with(&["null"]) && !with(&["http://a:1", "http://b"]));
    }
}
