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
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header;
use hyper::header::HeaderMap;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use hostel_tasks::SpawnBoxed as _;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Process;
use super::caller;
use super::visits::Visits;
use crate::claustrum::Log;
use crate::claustrum::Secret;
use answer::Body;
use answer::refuse;
use sessions::Sessions;

/// Where it is.
const PATH: &str = "/mcp";

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// Hosts and origins of this machine.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The first pause after a failure to accept, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

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
        .with_allowed_hosts(HOSTS.map(|host| host.trim_matches(['[', ']'])))
        .with_allowed_origins(HOSTS.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]))
        .with_max_request_body_bytes(limits.body);
    let streams = config.cancellation_token.clone();
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    let door = Arc::new(Door { service, settings, visits });
    let (stopping, stopped) = watch::channel(false);
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    let mut pause = Duration::ZERO;
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            accepted = accept(&listener, pause) => match accepted {
                Ok((stream, theirs)) => {
                    pause = Duration::ZERO;
                    // Who finds no room is closed at once and tries again.
                    if let Ok(place) = Arc::clone(&room).try_acquire_owned() {
                        let (door, stopped) = (Arc::clone(&door), stopped.clone());
                        connections.spawn_boxed(async move {
                            converse(door, stream, theirs, stopped).await;
                            drop(place);
                        });
                    }
                }
                Err(error) => {
                    door.settings.log.warn(format_args!("mcp: accept error (retrying): {error}"));
                    pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
                }
            },
            Some(session) = heard.recv() => {
                door.settings.log.info(format_args!("mcp: a client left in the middle of a call, its session is ended"));
                sessions.end(&session).await;
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => break,
        }
    }
    drop(listener);
    stopping.send_replace(true);
    sessions.end_all().await;
    streams.cancel();
    while connections.join_next().await.is_some() {}
}

async fn accept(listener: &TcpListener, pause: Duration) -> std::io::Result<(TcpStream, SocketAddr)> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    listener.accept().await
}

/// One connection, from its first byte to its last.
async fn converse<S: ServerHandler>(
    door: Arc<Door<S>>,
    stream: TcpStream,
    theirs: SocketAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(ours) = stream.local_addr() else { return };
    stream.set_nodelay(true).ok();
    let line = Line { ours, theirs, process: OnceCell::new() };
    let service = service_fn(|request| async { Ok::<_, Infallible>(respond(&door, &line, request).await) });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.settings.limits.request)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => drop(ended),
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
    ours: SocketAddr,
    theirs: SocketAddr,
    process: OnceCell<Option<Process>>,
}

impl Line {
    async fn process(&self) -> Option<Process> {
        let (ours, theirs) = (self.ours, self.theirs);
        let found = self.process.get_or_init(|| async move {
            hostel_tasks::spawn_blocking(move || caller::behind(ours, theirs)).await.ok().flatten()
        });
        *found.await
    }
}

async fn respond<S: ServerHandler>(door: &Door<S>, line: &Line, request: Request<Incoming>) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    if head.uri.path() != PATH {
        return refuse(StatusCode::NOT_FOUND, "Not Found: the endpoint is /mcp");
    }
    if !is_admitted(&door.settings.token, &head.headers) {
        door.settings.log.warn(format_args!("mcp: 401 for {}", line.theirs));
        let mut response = refuse(StatusCode::UNAUTHORIZED, "Unauthorized: show the token of run/local_token");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    let session = head.headers.get(SESSION).and_then(|session| session.to_str().ok()).map(str::to_owned);
    if session.is_none() && head.method == Method::POST && !door.visits.has_room(door.settings.limits.sessions) {
        let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many sessions");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return response;
    }
    let limits = &door.settings.limits;
    let body = match tokio::time::timeout(limits.request, Limited::new(body, limits.body).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large");
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "Bad Request: the body ended too early"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "Request Timeout"),
    };
    let visit = door.visits.visit(session.as_deref(), line.process().await);
    let held = visit.stream();
    head.extensions.insert(visit);
    let response = door.service.handle(Request::from_parts(head, Full::<Bytes>::new(body))).await;
    response.map(|body| Body::new(body, held))
}

/// Whether a request shows the token.
fn is_admitted(token: &Secret, headers: &HeaderMap) -> bool {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (shown.next(), shown.next()) else { return false };
    let value = value.as_bytes();
    let Some((scheme, rest)) = value.split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && token.matches(rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_admits() {
        let token = Secret::new(b"abc".to_vec());
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            is_admitted(&token, &headers)
        };
        assert!(with(&["Bearer abc"]) && with(&["bearer  abc "]));
        for wrong in [
            &[][..],
            &["abc"],
            &["Bearer"],
            &["Bearer "],
            &["Bearer ab"],
            &["Basic abc"],
            &["Bearer abc", "Bearer abc"],
        ] {
            assert!(!with(wrong), "{wrong:?}");
        }
    }
}
