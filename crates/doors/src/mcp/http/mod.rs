//! `/mcp` over HTTP: the same server for clients that connect to the daemon itself.
//!
//! Invariant: nobody is served without the token, nor under a `Host` or an `Origin` that is not this machine's own.
//! Connections, sessions, bodies and waits have bounds. A client that left in the middle of a call is noticed, and its
//! call cancelled.
//!
//! It knows no tool: any MCP server can be served with it.

mod answer;
mod sessions;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hostel_peer::Peer;
use hostel_peer::accept;
use hostel_peer::accept::Admits;
use hostel_peer::accept::Arrival;
use hostel_peer::accept::Gate;
use hostel_peer::accept::Place;
use hostel_peer::accept::WhenFull;
use hostel_peer::http::Authorization;
use hostel_peer::http::Guard;
use hostel_peer::http::Hosts;
use hostel_peer::http::Origins;
use hostel_peer::http::Rejection;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::sync::mpsc;
use tokio::sync::watch;

use super::NAME;
use super::visits::Visits;
use crate::admission;
use crate::claustrum::Log;
use crate::claustrum::Secret;
use answer::Body;
use answer::refuse;
use sessions::Sessions;

/// Where it is.
const PATH: &str = "/mcp";

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// What is read of the body of a refused request, and for how long.
const MAX_REFUSED_BODY_BYTES: usize = 64 << 10;
const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// What is bounded.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at once.
    pub connections: usize,
    /// MCP sessions at once.
    pub sessions: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a request may take to arrive.
    pub request: Duration,
    /// How long a client may be away in the middle of a call.
    pub leave: Duration,
    /// How long a session lasts that nothing happens in.
    pub idle: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections: 256,
            sessions: 64,
            body: 4 << 20,
            request: Duration::from_secs(30),
            leave: Duration::from_secs(10),
            idle: Duration::from_secs(25 * 60 * 60),
        }
    }
}

/// How it is served.
#[derive(Debug)]
pub struct HttpSettings {
    /// What clients have to show.
    pub token: Secret,
    /// What is bounded.
    pub limits: HttpLimits,
    /// Where refusals are noted.
    pub log: Log,
}

struct Door<S> {
    service: StreamableHttpService<S, Sessions>,
    settings: HttpSettings,
    visits: Arc<Visits>,
}

/// Serves until `stop`. Every session has a clone of the server.
pub async fn serve_http<S: ServerHandler + Clone>(
    listener: TcpListener,
    server: S,
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) {
    let limits = settings.limits;
    let (left, mut heard) = mpsc::channel(limits.sessions.max(1));
    let visits = Visits::new(limits.leave, left);
    let sessions = Arc::new(Sessions::new(limits, Arc::clone(&visits)));
    let config = StreamableHttpServerConfig::default()
        // Hosts and origins were looked at before the server sees a request.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(limits.body);
    let streams = config.cancellation_token.clone();
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    let door = Arc::new(Door { service, settings, visits });
    let (stopping, stopped) = watch::channel(false);
    let gate = Gate::new(Admits::Everybody, limits.connections, WhenFull::Close)
        .on_notice(admission::notices_to(&door.settings.log, NAME));
    let serve = |arrival: Arrival<TcpStream>| converse(Arc::clone(&door), arrival, stopped.clone());
    let departures = async {
        while let Some(session) = heard.recv().await {
            door.settings.log.info(format_args!("mcp: a client left in the middle of a call, its session is ended"));
            sessions.end(&session).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = async {
        tokio::select! {
            () = stop => {}
            () = departures => {}
        }
    };
    let ((), mut connections) = accept::serve_each(&listener, &gate, ended, serve).await;
    drop(listener);
    stopping.send_replace(true);
    sessions.end_all().await;
    streams.cancel();
    while connections.join_next().await.is_some() {}
}

/// One connection, from its first byte to its last.
async fn converse<S: ServerHandler>(
    door: Arc<Door<S>>,
    arrival: Arrival<TcpStream>,
    mut stopped: watch::Receiver<bool>,
) {
    let Arrival { stream, peer, place: Some(place) } = arrival else { return };
    stream.set_nodelay(true).ok();
    let line = Line { peer, place, process: OnceCell::new() };
    let service = service_fn(|request| async { Ok::<_, Infallible>(respond(&door, &line, request).await) });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.settings.limits.request)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => drop(ended),
        () = line.place.expired() => {}
        () = told(&mut stopped) => {
            served.as_mut().graceful_shutdown();
            served.await.ok();
        }
    }
}

/// Comes back when the door closes.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // An error means that the door is gone already.
    stopped.wait_for(|stopped| *stopped).await.ok();
}

/// A TCP connection, and who is at its other end once somebody wants to know.
struct Line {
    peer: Peer,
    place: Place,
    process: OnceCell<Peer>,
}

impl Line {
    async fn process(&self) -> Peer {
        self.process.get_or_init(|| self.peer.as_process()).await.clone()
    }
}

async fn respond<S: ServerHandler>(door: &Door<S>, line: &Line, request: Request<Incoming>) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    if let Some(refused) = refusal(door, line, &head).await {
        read_away(body).await;
        return refused;
    }
    let session = head.headers.get(SESSION).and_then(|session| session.to_str().ok()).map(str::to_owned);
    let limits = &door.settings.limits;
    let body = match tokio::time::timeout(limits.request, Limited::new(body, limits.body).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large");
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "Bad Request: the body ended too early"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "Request Timeout"),
    };
    let visit = door.visits.visit(session.as_deref(), Some(line.process().await));
    let held = visit.stream();
    head.extensions.insert(visit);
    let response = door.service.handle(Request::from_parts(head, Full::<Bytes>::new(body))).await;
    response.map(|body| Body::new(body, held))
}

/// Why a request is refused whatever its body is.
async fn refusal<S: ServerHandler>(door: &Door<S>, line: &Line, head: &Parts) -> Option<Response<Body>> {
    if head.uri.path() != PATH {
        return Some(refuse(StatusCode::NOT_FOUND, "Not Found: the endpoint is /mcp"));
    }
    let token = Authorization::of(&head.headers).bearer();
    if !token.is_some_and(|shown| door.settings.token.matches(shown)) {
        door.settings.log.warn(format_args!("mcp: 401 for {}", line.peer));
        let mut response = refuse(StatusCode::UNAUTHORIZED, "Unauthorized: show the token of run/local_token");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return Some(response);
    }
    let guard =
        Guard { origins: Origins::Loopback, hosts: Hosts { required: true, ..Hosts::default() }, ..Guard::default() };
    match guard.check(head, line.peer.ends()) {
        Ok(()) => {}
        Err(Rejection::Host) => return Some(refuse(StatusCode::FORBIDDEN, "Forbidden: Host header is not allowed")),
        Err(Rejection::Origin | Rejection::Preflight) => {
            return Some(refuse(StatusCode::FORBIDDEN, "Forbidden: Origin header is not allowed"));
        }
    }
    if !line.place.admit().await {
        return Some(refuse(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many connections"));
    }
    if !head.headers.contains_key(SESSION)
        && head.method == Method::POST
        && !door.visits.has_room(door.settings.limits.sessions)
    {
        let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many sessions");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return Some(response);
    }
    None
}

/// Reads what comes of the body of a refused request, within limits. A connection that is closed with unread bytes is
/// reset, and the client may lose the answer.
async fn read_away(body: Incoming) {
    let read = Limited::new(body, MAX_REFUSED_BODY_BYTES).collect();
    tokio::time::timeout(REFUSED_BODY_TIMEOUT, read).await.map(drop).ok();
}
