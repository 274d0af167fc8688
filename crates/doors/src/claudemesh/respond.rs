//! One request: the checks in their order, then its endpoint.
//!
//! Invariant: the order is the head's size, then guard (preflight, origin, host, program, token), rate, what a hook's
//! token opens, path, slot, body. A slot is held from here to the last byte of the answer. An endpoint that changes
//! something runs to its end even if the client does not wait for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hostel_mesh::hooks::Grant;
use hostel_mesh::{Caller, Refusal, State};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::access::Named;
use super::answer::Refused;
use super::confined::Use;
use super::connection::Connection;
use super::door::{Door, Live};
use super::fields::Fields;
use super::guard::{self, Transport, Visitor};
use super::outgoing::Body;
use super::query::Query;
use super::route::{self, Endpoint, Found};
use super::settings::Limits;
use super::{access, endpoints, incoming, stream};

/// A request that may be answered, with all that was read of it.
pub(super) struct Asked {
    pub(super) door: Arc<Door>,
    pub(super) live: Arc<Live>,
    pub(super) caller: Caller,
    /// The token of a hook, which limits what may be asked.
    pub(super) grant: Option<Arc<Grant>>,
    pub(super) endpoint: Endpoint,
    pub(super) head: Parts,
    /// The free part of the path.
    pub(super) part: String,
    pub(super) body: Bytes,
    /// The file that is named, if it was opened already: for whoever may not have every file read and written.
    pub(super) named: Option<Named>,
}

impl Asked {
    /// The query.
    pub(super) fn query(&self) -> Query<'_> {
        Query::new(self.head.uri.query().unwrap_or_default())
    }
}

/// Answers a request and counts it.
pub(super) async fn respond(
    door: Arc<Door>,
    connection: Arc<Connection>,
    transport: Transport,
    request: Request<Incoming>,
) -> Response<Body> {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let (template, found) = route::find(&head.method, &path);
    let unread = !body.is_end_stream();
    let outcome = check(Arc::clone(&door), &connection, transport, head, body, (template, found)).await;
    let response = outcome.unwrap_or_else(|refused| {
        let mut response = refused.refused.response();
        if unread && !refused.read {
            connection.leaves_over();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    });
    door.metrics.count(template, response.status().as_u16(), transport, began.elapsed());
    response
}

/// A refusal, and whether the body was read before it.
struct Turned {
    refused: Refused,
    read: bool,
}

impl From<Refused> for Turned {
    fn from(refused: Refused) -> Self {
        Self { refused, read: false }
    }
}

async fn check(
    door: Arc<Door>,
    connection: &Connection,
    transport: Transport,
    head: Parts,
    body: Incoming,
    (template, found): (&'static str, Found<'_>),
) -> Result<Response<Body>, Turned> {
    let live = door.live();
    size(&head, &live.settings.limits)?;
    let visitor = guard::admit(&door, &live, transport, connection.peer().ends(), &head)?;
    if !matches!(visitor, Visitor::Anybody) && !connection.is_admitted().await {
        let busy = Refused::new(StatusCode::TOO_MANY_REQUESTS, "daemon_busy", "too many connections are open");
        return Err(busy.retry_after(1).into());
    }
    live.pace(transport, &visitor)?;
    if let Visitor::Hook(grant) = &visitor
        && !matches!(found, Found::Endpoint(Endpoint::Send | Endpoint::TopicPost, _))
    {
        // Before anything is said of the path: a hook does not learn what there is.
        return Err(Refused::from(door.mesh.capability_denied(grant, template)).into());
    }
    gate(&live, head.uri.path())?;
    let (endpoint, part) = known(&live, found)?;
    let (caller, grant) = match visitor {
        Visitor::Known(caller) => (caller, None),
        Visitor::Hook(grant) => (Caller::Member, Some(grant)),
        // Only the health gets so far.
        Visitor::Anybody => (Caller::Member, None),
    };
    if caller != Caller::Member && !endpoint.is_for_sessions() {
        let detail = "this is for the member, not for one of its sessions";
        return Err(Refused::new(StatusCode::FORBIDDEN, "member_only", detail).into());
    }
    if grant.is_none() {
        access::check(&door, connection, &caller, &head.method, template).await?;
    }
    let slot = if endpoint.is_stream() { live.stream()? } else { live.slot()? };
    let limits = &live.settings.limits;
    let body = incoming::read(body, limits.body, limits.body_wait).await?;
    let mut asked = Asked { door, caller, grant, endpoint, head, part: part.to_owned(), body, live, named: None };
    asked.named = named_file(&asked, connection).await.map_err(|refused| Turned { refused, read: true })?;
    answer(asked, connection, slot).await.map_err(|refused| Turned { refused, read: true })
}

/// The file that a request names, if the client may not have every file read and written.
async fn named_file(asked: &Asked, connection: &Connection) -> Result<Option<Named>, Refused> {
    let (what, path) = match asked.endpoint {
        Endpoint::FileShare => (Use::Share, Fields::read(&asked.body)?.text("path")?),
        Endpoint::FileGet => (Use::Get, asked.query().text("out")?.map(Cow::into_owned)),
        _ => return Ok(None),
    };
    match path {
        Some(path) => access::named_file(&asked.door, connection, &asked.caller, what, &path).await,
        // That it is missing is told by the endpoint.
        None => Ok(None),
    }
}

/// Whether a head is of a reasonable size. The HTTP layer has limits of its own beyond these, and no words.
fn size(head: &Parts, limits: &Limits) -> Result<(), Refused> {
    let line = head.method.as_str().len() + head.uri.path().len() + head.uri.query().map_or(0, str::len);
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if line + fields.sum::<usize>() <= limits.head && head.headers.len() <= limits.headers {
        return Ok(());
    }
    Err(Refused::new(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        format!("a request's head has at most {} bytes and {} headers", limits.head, limits.headers),
    ))
}

/// Whether a path's capability is switched on, if it belongs to one.
fn gate(live: &Live, path: &str) -> Result<(), Refused> {
    let Some(switch) = route::switch(path).filter(|switch| !live.settings.capabilities.contains(switch)) else {
        return Ok(());
    };
    let file =
        live.settings.config_file.as_ref().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string());
    Err(Refused::new(
        StatusCode::FORBIDDEN,
        "capability_disabled",
        format!(
            "`{switch}` is switched off: write `{switch} = true` below `[capabilities]` in {file}, then run `claudemesh daemon reload`"
        ),
    )
    .about(format!("capabilities.{switch}")))
}

/// What is to be done, if the path and the method mean anything.
fn known<'a>(live: &Live, found: Found<'a>) -> Result<(Endpoint, &'a str), Refused> {
    match found {
        Found::Endpoint(Endpoint::Metrics, _) if !live.settings.metrics => {
            Err(Refused::new(StatusCode::NOT_FOUND, "not_found", "metrics are switched off in config.toml"))
        }
        Found::Endpoint(endpoint, part) => Ok((endpoint, part)),
        Found::Method(allowed) => {
            let detail = format!("this path takes {allowed}");
            let refused = Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
            Err(match HeaderValue::from_str(&allowed) {
                Ok(allowed) => refused.with_header(header::ALLOW, allowed),
                Err(_) => refused,
            })
        }
        Found::Capability(switch) if !route::BUILT.contains(&switch) => Err(Refused::new(
            StatusCode::NOT_IMPLEMENTED,
            "not_implemented",
            format!("`{switch}` is switched on, but this release does not have it"),
        )
        .about(format!("capabilities.{switch}"))),
        Found::Capability(_) | Found::Nothing => {
            Err(Refused::new(StatusCode::NOT_FOUND, "not_found", "there is no such path"))
        }
    }
}

async fn answer(asked: Asked, connection: &Connection, slot: OwnedSemaphorePermit) -> Result<Response<Body>, Refused> {
    match asked.door.mesh.state() {
        State::Revoked if !asked.endpoint.is_for_operators() => return Err(Refusal::revoked().into()),
        State::Degraded if asked.endpoint.is_stream() && asked.door.mesh.is_full() => {
            return Err(Refusal::new("degraded", "the disk is full: no new event streams").into());
        }
        _ => {}
    }
    if asked.endpoint.is_stream() {
        return stream::open(&asked, connection, slot).await;
    }
    if asked.head.method == Method::GET && asked.endpoint != Endpoint::FileGet && asked.endpoint != Endpoint::Inbox {
        let response = endpoints::answer(&asked).await?;
        return Ok(response.map(|body| body.holding(Some(slot))));
    }
    let running = hostel_tasks::spawn(async move { (endpoints::answer(&asked).await, slot) });
    match running.await {
        Ok((outcome, slot)) => outcome.map(|response| response.map(|body| body.holding(Some(slot)))),
        Err(_) => Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request could not be finished")),
    }
}
