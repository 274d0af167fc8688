//! Talking to a sudo-proxy daemon: one line out, one line back.
//!
//! Invariant: the bytes of a request are made once. Where a daemon goes away without an answer the same bytes are sent
//! again for a bounded time, so that a daemon which was restarted recognises them and nothing runs twice. No answer is
//! read beyond the most a daemon may send.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio::time::timeout;
use tokio::time::timeout_at;

use super::Backend;
use super::Caller;
use super::Profile;
use super::texts;
use crate::rpc::line::Line;
use crate::rpc::line::LineReader;

/// How long connecting and writing may take, each.
const PHASE: Duration = Duration::from_secs(5);

/// The shortest wait for an answer.
const SHORTEST: Duration = Duration::from_secs(1);

/// The pause before a request is sent again.
const PAUSE: Duration = Duration::from_millis(200);

/// What a daemon may send for one stream: 16 MiB in base64, and some room.
const STREAM: usize = 24 << 20;

/// How long a daemon is given to say that it is not ready.
const QUIET: Duration = Duration::from_millis(100);

/// How long connecting may take when it is only to be seen whether somebody is there.
const KNOCK: Duration = Duration::from_millis(500);

/// What is asked of a daemon.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) id: String,
    pub(super) host: &'a str,
    pub(super) session: &'a str,
    pub(super) time: String,
    pub(super) pipeline: &'a [Vec<String>],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<&'static str>,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) reason: &'a str,
    pub(super) privileged: bool,
    pub(super) forward_agent: bool,
    pub(super) version: &'a str,
}

/// A request as it goes out.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    answer_limit: usize,
}

impl Request<'_> {
    /// An id nobody has.
    pub(super) fn new_id() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// This moment, as the contract writes it.
    pub(super) fn now() -> String {
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The one line of it. Our own types always encode.
    pub(super) fn line(&self) -> Outgoing {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        Outgoing { bytes, answer_limit: (self.pipeline.len() + 1).saturating_mul(STREAM) }
    }
}

/// What a daemon answers.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Response {
    pub(super) status: Status,
    #[serde(default)]
    pub(super) stages: Vec<Stage>,
    #[serde(default)]
    pub(super) stdout: Option<String>,
    #[serde(default)]
    pub(super) stdout_truncated: bool,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) version: String,
}

impl Response {
    /// The daemon's version, or that it is not known.
    pub(super) fn daemon(&self) -> &str {
        if self.version.is_empty() { "unknown" } else { &self.version }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Denied,
    Timeout,
    #[default]
    Error,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stage {
    pub(super) exit_code: i32,
    pub(super) stderr: String,
    #[serde(default)]
    pub(super) stderr_truncated: bool,
}

/// Why one attempt came to nothing.
enum Trouble {
    /// The daemon closed without an answer; it may be back soon.
    Gone,
    /// Nobody listens there.
    Nobody(String),
    /// There is no use in trying again.
    Final(String),
}

/// Where and for whom requests are sent.
pub(super) struct Contact<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) profile: &'a Profile,
    pub(super) host: Option<&'a str>,
    pub(super) caller: &'a Caller,
}

impl Contact<'_> {
    /// Sends a request and waits for its answer, no longer than `limit`.
    pub(super) async fn send(&self, request: &Outgoing, limit: Option<Duration>) -> Result<Response, String> {
        let mut lost: Option<Instant> = None;
        let mut retries = 0;
        loop {
            let begun = Instant::now();
            let trouble = match self.once(request, limit).await {
                Ok(response) => {
                    self.profile.trace(|| format!("{}: an answer after {retries} retries", self.shown()));
                    return Ok(response);
                }
                Err(trouble) => trouble,
            };
            let since = match (&trouble, lost) {
                (Trouble::Final(text), _) | (Trouble::Nobody(text), None) => return Err(text.clone()),
                // It was there in between: this is another loss.
                (Trouble::Gone, Some(_)) if begun.elapsed() > self.profile.rejoin => Instant::now(),
                (Trouble::Gone, None) => Instant::now(),
                (_, Some(since)) => since,
            };
            lost = Some(since);
            if since.elapsed() >= self.profile.rejoin {
                return Err(match trouble {
                    Trouble::Nobody(text) => text,
                    Trouble::Gone | Trouble::Final(_) => texts::closed(retries),
                });
            }
            retries += 1;
            self.profile.trace(|| format!("{}: closed without an answer, retry {retries}", self.shown()));
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn shown(&self) -> String {
        self.backend.door(self.host).map_or_else(|| "this house".to_owned(), |path| path.display().to_string())
    }

    async fn once(&self, request: &Outgoing, limit: Option<Duration>) -> Result<Response, Trouble> {
        let deadline = limit.map(|limit| (Instant::now() + limit, limit));
        let stream = match timeout(PHASE, self.backend.dial(self.host, self.caller)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Trouble::Nobody(format!("connect to {}: {error}", self.shown()))),
            Err(_) => return Err(Trouble::Final(texts::connect_slow(PHASE.as_secs(), &self.shown()))),
        };
        let (reader, mut writer) = stream.into_split();
        match timeout(PHASE, writer.write_all(&request.bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if is_gone(&error) => return Err(Trouble::Gone),
            Ok(Err(error)) => return Err(Trouble::Final(format!("write: {error}"))),
            Err(_) => return Err(Trouble::Final(texts::write_slow(PHASE.as_secs(), &self.shown()))),
        }
        let mut lines = LineReader::new(reader, request.answer_limit);
        let line = match deadline {
            None => lines.next().await,
            Some((end, limit)) => {
                let end = end.max(Instant::now() + SHORTEST);
                match timeout_at(end, lines.next()).await {
                    Ok(line) => line,
                    Err(_) => return Err(Trouble::Final(texts::read_slow(limit.max(SHORTEST).as_secs()))),
                }
            }
        };
        match line {
            Ok(Line::Ready(range)) => self.read(lines.line(&range)).map_err(Trouble::Final),
            Ok(Line::Closed) => Err(Trouble::Gone),
            Ok(Line::TooLong) => Err(Trouble::Final(format!("read: more than {} bytes", request.answer_limit))),
            Err(error) if is_gone(&error) => Err(Trouble::Gone),
            Err(error) => Err(Trouble::Final(format!("read: {error}"))),
        }
    }

    fn read(&self, line: &[u8]) -> Result<Response, String> {
        serde_json::from_slice(line).map_err(|error| {
            #[derive(Deserialize)]
            struct Versioned {
                version: String,
            }
            let version = serde_json::from_slice::<Versioned>(line).map(|answer| answer.version);
            let version = version.ok().filter(|version| !version.is_empty()).unwrap_or_else(|| "unknown".to_owned());
            texts::unreadable(&version, self.profile.client, &self.profile.version, &error.to_string())
        })
    }

    /// Whether a daemon is there and waits for a request. One that is not ready closes, or never accepts.
    pub(super) async fn is_ready(&self) -> bool {
        let Ok(Ok(stream)) = timeout(KNOCK, self.backend.dial(self.host, self.caller)).await else { return false };
        let ready = timeout(QUIET, stays_silent(stream)).await.is_err();
        self.profile.trace(|| format!("{}: {}", self.shown(), if ready { "ready" } else { "not ready" }));
        ready
    }
}

/// Comes back as soon as the other side says anything, or closes.
async fn stays_silent(stream: UnixStream) {
    stream.readable().await.ok();
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
