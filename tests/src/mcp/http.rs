//! An MCP client over HTTP, down to the bytes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::wait;

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The head, in small letters.
    pub head: String,
    /// The body, unchunked.
    pub body: String,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<String> {
        let lead = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&lead)).map(str::to_owned)
    }

    /// The last JSON-RPC message in the body, a stream of events or one object.
    ///
    /// # Panics
    /// If there is none.
    pub fn message(&self) -> Value {
        let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        let last = events.rfind(|data| !data.is_empty()).unwrap_or(self.body.trim());
        serde_json::from_str(last).unwrap_or_else(|_| panic!("no message in {self:?}"))
    }
}

/// A client.
#[derive(Debug, Clone)]
pub struct Http {
    address: SocketAddr,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
}

impl Http {
    /// One that shows the token.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        let headers = [
            ("Host", address.to_string()),
            ("Authorization", format!("Bearer {token}")),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
        ];
        Self { address, headers: headers.map(|(name, value)| (name.to_owned(), value)).to_vec() }
    }

    /// The same with another value of a header; none leaves it out.
    #[must_use]
    pub fn with(&self, name: &str, value: Option<&str>) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(known, _)| known != name);
        other.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        other
    }

    /// Introduces itself; from then on it has a session.
    ///
    /// # Panics
    /// If that fails.
    pub fn initialize(&mut self) -> Value {
        self.initialize_announcing(&json!({}))
    }

    /// The same with capabilities of the client.
    ///
    /// # Panics
    /// If that fails.
    pub fn initialize_announcing(&mut self, capabilities: &Value) -> Value {
        let client = json!({"name": "web", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
        let answer = self.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.header("mcp-session-id").expect("a session");
        *self = self.with("Mcp-Session-Id", Some(&session)).with("MCP-Protocol-Version", Some("2025-06-18"));
        let told = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202, "{told:?}");
        answer.message()
    }

    /// Sends a request and leaves the answer to be read.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn open(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect_timeout(&self.address, wait::limit()).expect("a connection");
        stream.set_read_timeout(Some(wait::limit())).expect("a limit");
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        // A server that refuses before it has read everything closes early.
        stream.write_all(request.as_bytes()).ok();
        stream
    }

    /// Sends a request and reads the whole answer.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        read(self.open(method, path, body))
    }

    /// Posts a message.
    pub fn post(&self, message: &Value) -> Answer {
        self.request("POST", "/mcp", &message.to_string())
    }

    /// Begins a call of a tool.
    pub fn begin(&self, id: u64, tool: &str, arguments: &Value) -> TcpStream {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.open("POST", "/mcp", &message.to_string())
    }

    /// Calls a tool.
    pub fn tool(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        read(self.begin(id, tool, arguments)).message()
    }
}

/// Reads an answer to its end.
///
/// # Panics
/// If it is not HTTP.
pub fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // What came before a reset is the answer.
    stream.read_to_end(&mut bytes).ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not HTTP: {text:?}"));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Answer { status, head, body }
}

fn unchunked(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, more)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(chunk) = more.get(..size) else { break };
        whole.push_str(chunk);
        rest = more.get(size + 2..).unwrap_or_default();
    }
    whole
}
