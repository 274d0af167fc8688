//! HTTP over a mesh daemon's socket.
//!
//! Invariant: a daemon is there if and only if its socket answers: 100 ms to connect, 2.5 s to say its version, and it
//! serves the mesh that is meant. A pid file proves nothing.
//!
//! One connection per request: a command asks once or twice and ends.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use zeroize::Zeroizing;

use super::failure::Code;
use super::failure::Failure;
use super::speaker::Speaker;

/// How long a socket may take to accept.
const CONNECT: Duration = Duration::from_millis(100);

/// How long a daemon may take to say who it is. One that has just started is slower than one that idles.
const HANDSHAKE: Duration = Duration::from_millis(2_500);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(40);

/// How long a file may take.
const TRANSFER: Duration = Duration::from_secs(900);

/// The most of an answer that is read; the contract's own limit is 10 MB.
const ANSWER_LIMIT: usize = 16 << 20;

/// The longest line of an event stream.
const LINE_LIMIT: usize = 4 << 20;

/// Why nothing came back.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Nobody accepts there.
    Nobody(io::Error),
    /// Somebody accepted and then said nothing that makes sense.
    Silent(String),
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// What a daemon says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) answer: Value,
}

impl Version {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.answer.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it serves that mesh.
    fn serves(&self, mesh: &str) -> bool {
        self.text("mesh") == mesh
    }

    /// A daemon of another major version is not asked for anything.
    fn is_ours(&self) -> bool {
        self.text("ipc_api").split('.').next() == Some("v1")
    }
}

/// Who answered.
#[derive(Clone, Debug)]
pub(crate) enum Met {
    /// The daemon that was meant.
    Ours(Version),
    /// The daemon that was meant, and it speaks another major version of the local interface.
    Other(Version),
    /// Nobody, or somebody else.
    Nobody,
}

/// The way to one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    /// The session whose words these are, where a session's environment says so.
    session: Option<Zeroizing<String>>,
}

impl Client {
    /// The daemon behind a socket, whether it is there or not.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Client { socket, session: Speaker::of_environment().token }
    }

    /// The same daemon, spoken to as who shows this; none is the member.
    pub(crate) fn speaking(mut self, session: Option<Zeroizing<String>>) -> Self {
        self.session = session;
        self
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The same daemon, spoken to as the member even from inside a session.
    pub(crate) fn of_member(mut self) -> Self {
        self.session = None;
        self
    }

    /// Shakes hands; none if nobody is there, or somebody who serves another mesh or speaks another version.
    pub(crate) async fn handshake(&self, mesh: &str) -> Option<Version> {
        match self.meet(mesh).await {
            Met::Ours(version) => Some(version),
            Met::Other(_) | Met::Nobody => None,
        }
    }

    /// Looks who is there.
    pub(crate) async fn meet(&self, mesh: &str) -> Met {
        let plain = Client { session: None, ..self.clone() };
        let asked = plain.request(Method::GET, "/v1/version", None, HANDSHAKE).await;
        let Some(answer) = asked.ok().filter(|answer| answer.status == 200) else { return Met::Nobody };
        let version = Version { answer: answer.body };
        match (version.serves(mesh), version.is_ours()) {
            (true, true) => Met::Ours(version),
            (true, false) => Met::Other(version),
            (false, _) => Met::Nobody,
        }
    }

    /// Asks, and gives whatever comes back.
    pub(crate) async fn ask(&self, method: Method, target: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        let patience = if target.starts_with("/v1/file/") { TRANSFER } else { ANSWER };
        self.request(method, target, body, patience).await.map_err(|lost| self.lost(&lost))
    }

    /// Asks for something that has to work.
    pub(crate) async fn get(&self, target: &str) -> Result<Value, Failure> {
        accepted(self.ask(Method::GET, target, None).await?)
    }

    /// Tells something that has to be taken.
    pub(crate) async fn post(&self, target: &str, body: &Value) -> Result<Value, Failure> {
        accepted(self.ask(Method::POST, target, Some(body)).await?)
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, target: &str) -> Result<Events, Failure> {
        let asked = self.open(Method::GET, target, None);
        let response = match tokio::time::timeout(ANSWER, asked).await {
            Ok(opened) => opened.map_err(|lost| self.lost(&lost))?,
            Err(_) => return Err(self.lost(&Lost::Silent("no answer in time".to_owned()))),
        };
        if response.status() != 200 {
            let status = response.status().as_u16();
            let body = read_json(response.into_body()).await.map_err(|lost| self.lost(&lost))?;
            return Err(Failure::refused(status, &body));
        }
        Ok(Events { body: response.into_body(), waiting: Vec::new() })
    }

    fn lost(&self, lost: &Lost) -> Failure {
        let socket = self.socket.display();
        match lost {
            Lost::Nobody(error) => {
                Failure::new(Code::Network, "daemon_unreachable", format!("nobody answers on `{socket}`: {error}"))
                    .hint("start the daemon with `claudemesh daemon up`")
            }
            Lost::Silent(reason) => {
                Failure::new(Code::Network, "daemon_silent", format!("the daemon on `{socket}` went away: {reason}"))
                    .hint("see whether it still runs with `claudemesh daemon status`")
            }
        }
    }

    async fn request(
        &self,
        method: Method,
        target: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<Answer, Lost> {
        let asked = async {
            let response = self.open(method, target, body).await?;
            let status = response.status().as_u16();
            Ok(Answer { status, body: read_json(response.into_body()).await? })
        };
        let timely = tokio::time::timeout(patience, asked).await;
        timely.unwrap_or_else(|_| Err(Lost::Silent("no answer in time".to_owned())))
    }

    async fn open(&self, method: Method, target: &str, body: Option<&Value>) -> Result<Response<Incoming>, Lost> {
        let silent = |error: &dyn std::fmt::Display| Lost::Silent(error.to_string());
        let stream = connect(&self.socket).await.map_err(Lost::Nobody)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| silent(&error))?;
        // It ends with the response.
        hostel_tasks::spawn(async move { connection.await.ok() });
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "localhost")
            .header(header::USER_AGENT, concat!("claudemesh/", env!("CARGO_PKG_VERSION")));
        if let Some(session) = &self.session {
            let text = Zeroizing::new(format!("ClaudeMesh-Session {}", session.as_str()));
            let mut value = header::HeaderValue::from_str(&text).map_err(|error| silent(&error))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let request = request.body(Full::new(bytes)).map_err(|error| silent(&error))?;
        sender.send_request(request).await.map_err(|error| silent(&error))
    }
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let dial = hostel_keeper::socket_path::shorten(socket)?;
    match tokio::time::timeout(CONNECT, UnixStream::connect(dial.as_ref())).await {
        Ok(connected) => connected,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn accepted(answer: Answer) -> Result<Value, Failure> {
    match answer.status {
        200..=299 => Ok(answer.body),
        status => Err(Failure::refused(status, &answer.body)),
    }
}

async fn read_json(body: Incoming) -> Result<Value, Lost> {
    let limited = http_body_util::Limited::new(body, ANSWER_LIMIT);
    let whole = limited.collect().await.map_err(|error| Lost::Silent(error.to_string()))?.to_bytes();
    if whole.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&whole).map_err(|error| Lost::Silent(format!("its answer is no JSON: {error}")))
}

/// One event of a stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Events as they come.
pub(crate) struct Events {
    body: Incoming,
    waiting: Vec<u8>,
}

impl Events {
    /// The next event; none once the daemon has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = take_event(&mut self.waiting) {
                return Ok(Some(event));
            }
            if self.waiting.len() > LINE_LIMIT {
                return Err(Failure::network("an event is too long to be one"));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => self.waiting.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref())),
                Some(Err(error)) => return Err(Failure::network(format!("the stream broke: {error}"))),
            }
        }
    }
}

/// Takes the first whole event out of what was received; comments and keepalives are passed over.
fn take_event(waiting: &mut Vec<u8>) -> Option<Event> {
    loop {
        let end = waiting.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = waiting.drain(..end + 2).collect();
        let mut event = Event::default();
        for line in String::from_utf8_lossy(&block).lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut event.id),
                "event" => value.clone_into(&mut event.name),
                "data" => value.clone_into(&mut event.data),
                _ => {}
            }
        }
        if !event.data.is_empty() {
            return Some(event);
        }
    }
}

/// A path with a query; values are percent-encoded, those that are absent are left out.
pub(crate) fn with_query(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut target = path.to_owned();
    let mut separator = '?';
    for (name, value) in query {
        if let Some(value) = value {
            target.push(separator);
            target.push_str(name);
            target.push('=');
            percent_encode(value, &mut target);
            separator = '&';
        }
    }
    target
}

fn percent_encode(value: &str, into: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            into.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        let target = with_query("/v1/inbox", &[("from", Some("a b&c")), ("topic", None), ("limit", Some("5"))]);
        assert_eq!(target, "/v1/inbox?from=a%20b%26c&limit=5");
        assert_eq!(with_query("/v1/peers", &[]), "/v1/peers");
    }

    #[test]
    fn events_are_taken_out_one_by_one() {
        let mut waiting =
            b": connected\n\nid: a-1\nevent: message\ndata: {\"x\":1}\n\n: keepalive\n\nid: a-2\nev".to_vec();
        let event = take_event(&mut waiting).unwrap();
        assert_eq!((event.id.as_str(), event.name.as_str(), event.data.as_str()), ("a-1", "message", "{\"x\":1}"));
        assert_eq!(take_event(&mut waiting), None);
        assert_eq!(waiting, b"id: a-2\nev");
        waiting.extend_from_slice(b"ent: x\ndata:1\n\n");
        assert_eq!(take_event(&mut waiting).unwrap().data, "1");
    }
}
