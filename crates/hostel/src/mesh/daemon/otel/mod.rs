//! The daemon's numbers sent to an OpenTelemetry collector: OTLP over HTTP, as JSON.
//!
//! Invariant: what is sent is what `/v1/metrics` serves, and nothing else: no text of a message, no key, no name of a
//! peer. One request is under way at a time and bounded in time; a collector that is away costs nothing but a line in
//! the log when it goes and one when it is back. The daemon never waits for it.

mod translate;

use std::future::Future;
use std::time::Duration;

use hostel_doors::claudemesh::Door;
use hostel_mesh::home::Settings;
use hostel_mesh::log::Log;
use serde_json::json;

use crate::http_client::{Address, Client};

/// How long one export may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Where numbers are taken, under the endpoint.
const PATH: &str = "/v1/metrics";

/// Sends the numbers of a daemon for as long as it lives, if its settings say where to.
pub(super) fn spawn(settings: &Settings, mesh: &str, door: &Door, log: &Log) {
    let Some(endpoint) = &settings.metrics.otel_endpoint else { return };
    let exporter = match Exporter::new(endpoint, mesh) {
        Ok(exporter) => exporter,
        Err(why) => return log.warn("otel_unusable", json!({"text": why})),
    };
    let (door, log) = (door.clone(), log.clone());
    let every = Duration::from_secs(settings.metrics.otel_interval_s);
    hostel_tasks::spawn(async move {
        let numbers = || async { door.metrics_text().await };
        exporter.run(every, numbers, &log).await;
    });
}

struct Exporter {
    client: Client,
    address: Address,
    mesh: String,
    /// When what is counted began, nanoseconds since the epoch.
    began_ns: u128,
}

impl Exporter {
    fn new(endpoint: &str, mesh: &str) -> Result<Self, String> {
        let wrong = || "`metrics.otel_endpoint` must be an address such as http://127.0.0.1:4318".to_owned();
        let mut address = Address::parse(endpoint).map_err(|_| wrong())?;
        let base = address.path().trim_end_matches('/');
        if !base.ends_with(PATH) {
            address = address.with_path(&format!("{base}{PATH}")).map_err(|_| wrong())?;
        }
        Ok(Exporter { client: Client::new(LIMIT), address, mesh: mesh.to_owned(), began_ns: now_ns() })
    }

    async fn run<F: Future<Output = String>>(&self, every: Duration, numbers: impl Fn() -> F, log: &Log) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut away = false;
        loop {
            ticks.tick().await;
            let text = numbers().await;
            match self.send(&text).await {
                Ok(()) if away => {
                    away = false;
                    log.info("otel_back", json!({}));
                }
                Ok(()) => {}
                Err(why) if !away => {
                    away = true;
                    log.warn("otel_unreachable", json!({"text": why}));
                }
                Err(_) => {}
            }
        }
    }

    async fn send(&self, text: &str) -> Result<(), String> {
        let body = translate::request(text, &self.mesh, self.began_ns, now_ns()).to_string();
        let answer = match tokio::time::timeout(LIMIT, self.client.post_json(&self.address, &[], body)).await {
            Ok(answer) => answer.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("no answer within {} s", LIMIT.as_secs())),
        };
        match answer {
            status if status.is_success() => Ok(()),
            status => Err(format!("the collector answers {status}")),
        }
    }
}

fn now_ns() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use hostel_mesh::log::Level;
    use tokio::io::AsyncReadExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// A collector that answers each request with a status and hands its body over.
    async fn collector(
        status: &'static str,
        requests: tokio::sync::mpsc::UnboundedSender<(String, serde_json::Value)>,
    ) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = Vec::new();
                let (head, length) = loop {
                    stream.read_buf(&mut bytes).await.unwrap();
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if let Some((head, _)) = text.split_once("\r\n\r\n") {
                        let length = head.lines().find_map(|line| {
                            let (name, value) = line.split_once(": ")?;
                            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
                        });
                        break (head.to_owned(), length.unwrap());
                    }
                };
                let start = head.len() + 4;
                while bytes.len() < start + length {
                    stream.read_buf(&mut bytes).await.unwrap();
                }
                let body = serde_json::from_slice(&bytes[start..]).unwrap();
                requests.send((head, body)).ok();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn numbers_are_sent_again_and_again() {
        let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let endpoint = collector("200 OK", sender).await;
        let exporter = Exporter::new(&endpoint, "lab").unwrap();
        let log = Log::new(hostel_wire::Clock::system(), Level::Debug, |_, line| panic!("{line}"));
        tokio::spawn(async move {
            let numbers =
                || async { "# TYPE cm_daemon_connected gauge\ncm_daemon_connected{mesh=\"lab\"} 1\n".to_owned() };
            exporter.run(Duration::from_millis(5), numbers, &log).await;
        });
        for _ in 0..2 {
            let (head, body) = requests.recv().await.unwrap();
            assert!(head.starts_with("POST /v1/metrics HTTP/1.1"), "{head}");
            let metric = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
            assert_eq!(metric["name"], "cm_daemon_connected");
        }
    }

    #[tokio::test]
    async fn a_collector_that_is_away_is_one_line() {
        let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let endpoint = collector("503 Service Unavailable", sender).await;
        let exporter = Exporter::new(&endpoint, "lab").unwrap();
        let lines = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&lines);
        let log = Log::new(hostel_wire::Clock::system(), Level::Debug, move |_, line| {
            assert!(line.contains("otel_unreachable"), "{line}");
            counted.fetch_add(1, Ordering::SeqCst);
        });
        tokio::spawn(async move { exporter.run(Duration::from_millis(5), || async { String::new() }, &log).await });
        for _ in 0..3 {
            requests.recv().await.unwrap();
        }
        assert_eq!(lines.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_endpoint_is_an_address() {
        for wrong in ["", "localhost:4318", "ftp://x/", "http://"] {
            assert!(Exporter::new(wrong, "lab").is_err(), "{wrong}");
        }
        let of = |text: &str| Exporter::new(text, "lab").unwrap().address.uri().to_string();
        assert_eq!(of("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(of("http://c.example/otlp/"), "http://c.example/otlp/v1/metrics");
        assert_eq!(of("http://c.example/v1/metrics"), "http://c.example/v1/metrics");
    }
}
