//! Counters for a Prometheus scraper, and the page that shows them.
//!
//! Counts only: no names, no output, no tokens, so the page needs no password. It is served on a
//! listener the caller bound and nowhere by default. Everything but `/metrics` is a 404.

use bytes::Bytes;
use hostel_peer::accept::{self, Admits, Arrival, Gate, StrangerLimits, WhenFull};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Scrapers at once; further ones wait to be accepted.
const CONNECTIONS: usize = 32;
/// How long one may stay, whatever it does.
const LIFETIME: Duration = Duration::from_secs(30);

/// What is counted, since the daemon started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections accepted.
    pub connections: Counter,
    /// Processes started through this door.
    pub spawns: Counter,
    /// Processes of this door that ended.
    pub exits: Counter,
    /// Reattaches that found their process.
    pub reattaches: Counter,
    /// Output bytes, each counted once however many clients receive it.
    pub stream_bytes: Counter,
    /// Input bytes accepted, repeated ones not counted.
    pub stdin_bytes: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metrics {
    /// The page.
    pub fn render(&self) -> String {
        let counters = [
            ("claustrum_connections_total", "Client connections accepted.", &self.connections),
            ("claustrum_process_spawns_total", "Processes started via process.spawn.", &self.spawns),
            ("claustrum_process_exits_total", "Managed processes that have exited.", &self.exits),
            ("claustrum_reattaches_total", "process.reattach calls that found their process.", &self.reattaches),
            ("claustrum_stream_bytes_total", "Process stdout/stderr bytes streamed to clients.", &self.stream_bytes),
            ("claustrum_stdin_bytes_total", "Bytes accepted for child stdin.", &self.stdin_bytes),
        ];
        let mut page = String::new();
        for (name, help, counter) in counters {
            // Writing to a String cannot fail.
            writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}", counter.get()).ok();
        }
        page
    }
}

/// Serves the page until `stop`. No token is required here, so everybody but this user is a stranger all the time.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let strangers = StrangerLimits { total: CONNECTIONS, per_source: CONNECTIONS / 2, time: LIFETIME };
    let gate = Gate::new(Admits::Everybody, CONNECTIONS, WhenFull::Wait).strangers(strangers);
    let serve = |arrival: Arrival<TcpStream>| {
        let answered = answer_all(arrival.stream, Arc::clone(&metrics));
        async move {
            // A connection that fails or takes too long concerns its scraper alone.
            tokio::time::timeout(LIFETIME, answered).await.ok();
            drop(arrival.place);
        }
    };
    let ((), mut connections) = accept::serve_each(&listener, &gate, stop, serve).await;
    // Not a graceful end: a scraper that holds its connection open must not delay a shutdown.
    connections.shutdown().await;
    Ok(())
}

async fn answer_all(stream: TcpStream, metrics: Arc<Metrics>) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics))));
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if request.uri().path() == "/metrics" {
        *response.body_mut() = Full::new(Bytes::from(metrics.render()));
        let format = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, format);
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_page_and_nothing_else() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        metrics.connections.add(3);
        metrics.stream_bytes.add(1 << 40);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(serve(listener, metrics, async {
            stopped.await.ok();
        }));
        let answer = get(address, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
        let (_, page) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            page.starts_with(
                "# HELP claustrum_connections_total Client connections accepted.\n\
                 # TYPE claustrum_connections_total counter\n\
                 claustrum_connections_total 3\n\
                 # HELP claustrum_process_spawns_total Processes started via process.spawn.\n"
            ),
            "{page}"
        );
        assert!(page.contains("\nclaustrum_stream_bytes_total 1099511627776\n"), "{page}");
        assert_eq!(page.lines().count(), 18);
        for other in ["/", "/metrics/", "/metrics/x"] {
            let answer = get(address, other).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{other}: {answer}");
        }
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
