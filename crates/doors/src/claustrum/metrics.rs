//! Counters for a Prometheus scraper, and the page that shows them.
//!
//! Counts only: no names, no output, no tokens, so the page needs no password. It is served on a
//! listener the caller bound and nowhere by default. Everything but `/metrics` is a 404.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

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

/// Serves the page until `stop`.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let page = move || {
        let page = metrics.render();
        async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response() }
    };
    let router = axum::Router::new().route("/metrics", axum::routing::any(page));
    let bounded = Bounded { listener, places: Arc::new(Semaphore::new(CONNECTIONS)) };
    // Not a graceful end: a scraper that holds its connection open must not delay a shutdown.
    tokio::select! {
        outcome = axum::serve(bounded, router).into_future() => outcome,
        () = stop => Ok(()),
    }
}

/// A listener that lets in a bounded number for a bounded time: nobody has to show a token here.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

struct Visit {
    stream: TcpStream,
    over: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl axum::serve::Listener for Bounded {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        loop {
            // Fails only for a closed semaphore, and nobody closes this one.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            // The listener of the library retries by itself, with pauses.
            let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
            return (Visit { stream, over: Box::pin(tokio::time::sleep(LIFETIME)), _place: place }, address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Visit {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Visit {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
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
