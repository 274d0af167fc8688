//! A blocking client of the codecast wire: calls, and the stream of a message.
//!
//! A stream is read in large pieces and its frames are handed out as they lie there, because a client that parsed every
//! frame would be what is measured. Every wait has a limit.

use std::io::ErrorKind;
use std::io::Read;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::net::TcpStream;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::bare_loop;
use crate::client::PATIENCE;

/// What is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// No answer of ours has longer headers.
const LONGEST_HEAD: usize = 16 * 1024;

/// No call of ours has a longer body.
const LONGEST_BODY: usize = 1 << 20;

/// A request as it goes over the wire.
pub(crate) fn request(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST /rpc HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// How long the head is, its empty line included, once all of it is there.
pub(crate) fn head_length(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// The value of a header, if it is there.
pub(crate) fn header<'head>(head: &'head [u8], name: &str) -> Option<&'head str> {
    let head = std::str::from_utf8(head).ok()?;
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// The length of head and body together, once the head is there.
pub(crate) fn whole_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(head) = head_length(bytes) else {
        ensure!(bytes.len() <= LONGEST_HEAD, "the headers do not end");
        return Ok(None);
    };
    let length = header(&bytes[..head], "content-length").context("there is no content-length")?;
    let length: usize = length.parse().context("content-length")?;
    ensure!(length <= LONGEST_BODY, "a body of {length} bytes");
    Ok(Some(head + length))
}

/// Reads one request, for the bare loop.
pub(crate) fn read_request(stream: &mut impl Read) -> Result<Value> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        if let Some(whole) = whole_length(&bytes)?
            && bytes.len() >= whole
        {
            let head = head_length(&bytes).unwrap_or_default();
            return serde_json::from_slice(&bytes[head..whole]).context("the request is not JSON");
        }
        let count = stream.read(&mut part).context("reading the request")?;
        ensure!(count > 0, "the client closed the connection");
        bytes.extend_from_slice(&part[..count]);
    }
}

/// A connection that is kept open between calls.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) fn open(port: u16) -> Result<Client> {
        let stream = connect(port)?;
        Ok(Client { stream })
    }

    /// Makes a call and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let body = match params {
            Value::Null => json!({"method": method, "id": "c"}),
            params => json!({"method": method, "params": params, "id": "c"}),
        };
        self.stream.write_all(&request(&body)).with_context(|| format!("sending {method}"))?;
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        let whole = loop {
            match whole_length(&bytes)? {
                Some(whole) if bytes.len() >= whole => break whole,
                _ => {}
            }
            let count = self.stream.read(&mut part).with_context(|| format!("waiting for {method}"))?;
            ensure!(count > 0, "the server closed the connection");
            bytes.extend_from_slice(&part[..count]);
        };
        let head = head_length(&bytes).unwrap_or_default();
        ensure!(bytes.starts_with(b"HTTP/1.1 200 "), "{method}: {}", String::from_utf8_lossy(&bytes));
        let mut answer: Value = serde_json::from_slice(&bytes[head..whole]).context("the answer is not JSON")?;
        ensure!(answer.get("error").is_none(), "{method} answered {answer}");
        Ok(answer["result"].take())
    }

    /// Makes a session of an agent that works in `dir`.
    pub(crate) fn create(&mut self, agent: &str, dir: &std::path::Path) -> Result<String> {
        let result = self.call("session.create", &json!({"path": dir, "cli_type": agent}))?;
        Ok(result["sessionId"].as_str().context("session.create gave no sessionId")?.to_owned())
    }
}

/// A connection to loopback, small writes not held back.
pub(crate) fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The stream of one message.
pub(crate) struct Stream {
    stream: TcpStream,
    buffer: Vec<u8>,
    body: Body,
    /// The head, as long as it is not complete.
    head: Option<Vec<u8>>,
}

impl Stream {
    /// Sends a message; nothing is read yet.
    pub(crate) fn send(port: u16, session: &str, prompt: &str) -> Result<Stream> {
        let mut stream = connect(port)?;
        stream.write_all(&request(&bare_loop::message(session, prompt))).context("sending the message")?;
        Ok(Stream { stream, buffer: vec![0; READ_BYTES], body: Body::default(), head: Some(Vec::new()) })
    }

    /// The socket, for its options.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads once and hands out the frames that came with it. False when the stream is over.
    pub(crate) fn read(&mut self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let count = match self.stream.read(&mut self.buffer) {
            Ok(0) => bail!("the stream broke off"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => bail!("nothing for {} s", PATIENCE.as_secs()),
            Err(error) => return Err(error).context("reading the stream"),
        };
        let mut data = &self.buffer[..count];
        let rest;
        if let Some(head) = &mut self.head {
            head.extend_from_slice(data);
            let Some(length) = head_length(head) else {
                ensure!(head.len() <= LONGEST_HEAD, "the headers do not end");
                return Ok(true);
            };
            ensure!(
                head.starts_with(b"HTTP/1.1 200 ") && header(head, "transfer-encoding") == Some("chunked"),
                "no stream but {}",
                String::from_utf8_lossy(head)
            );
            rest = head.split_off(length);
            self.head = None;
            data = &rest;
        }
        self.body.feed(data, each)?;
        Ok(!self.body.is_over())
    }

    /// Reads to the end; says how many pieces of text came. They must be numbered from one without a gap.
    pub(crate) fn count_pieces(&mut self) -> Result<u64> {
        let mut count = 0;
        while self.read(|frame| {
            if let Some(number) = piece(frame) {
                count += 1;
                ensure!(number == count, "piece {number} came as piece {count}");
            } else {
                ensure!(!frame.starts_with(b"{\"type\":\"error\""), "{}", String::from_utf8_lossy(frame));
            }
            Ok(())
        })? {}
        Ok(count)
    }
}

/// The number at the beginning of a piece of text; none for any other frame.
pub(crate) fn piece(frame: &[u8]) -> Option<u64> {
    let text = frame.strip_prefix(br#"{"type":"partial","content":""#)?;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Where in the chunks of a body we are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the line that says its length, which is so far this.
    Size(usize),
    /// So many bytes of it are to come.
    Data(usize),
    /// In the end of line after it.
    After,
    /// Nothing comes any more.
    Over,
}

/// A body of frames, put together from chunks.
pub(crate) struct Body {
    chunk: Chunk,
    /// A frame whose end has not come yet.
    unfinished: Vec<u8>,
}

impl Default for Body {
    fn default() -> Self {
        Body { chunk: Chunk::Size(0), unfinished: Vec::new() }
    }
}

impl Body {
    /// Whether the last chunk has come.
    pub(crate) fn is_over(&self) -> bool {
        self.chunk == Chunk::Over
    }

    /// Takes bytes as they came and hands out what stands after `data: ` in every frame.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while let Some((first, rest)) = bytes.split_first() {
            match self.chunk {
                Chunk::Size(0) if *first == b'0' => self.chunk = Chunk::Over,
                Chunk::Size(size) => {
                    bytes = rest;
                    self.chunk = match first {
                        b'\r' => Chunk::Size(size),
                        b'\n' => Chunk::Data(size),
                        digit => {
                            let digit = char::from(*digit).to_digit(16).context("a chunk has no length")?;
                            Chunk::Size(size * 16 + digit as usize)
                        }
                    };
                }
                Chunk::Data(0) => self.chunk = Chunk::After,
                Chunk::Data(left) => {
                    let count = left.min(bytes.len());
                    self.lines(&bytes[..count], &mut each)?;
                    bytes = &bytes[count..];
                    self.chunk = Chunk::Data(left - count);
                }
                Chunk::After => {
                    bytes = rest;
                    if *first == b'\n' {
                        self.chunk = Chunk::Size(0);
                    }
                }
                Chunk::Over => return Ok(()),
            }
        }
        Ok(())
    }

    fn lines(&mut self, data: &[u8], each: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', data) {
            let mut line = &data[start..newline];
            start = newline + 1;
            if !self.unfinished.is_empty() {
                self.unfinished.extend_from_slice(line);
                line = &self.unfinished;
            }
            if let Some(content) = line.strip_prefix(b"data: ") {
                each(content)?;
            } else {
                ensure!(line.is_empty(), "a line that is no frame: {}", String::from_utf8_lossy(line));
            }
            self.unfinished.clear();
        }
        self.unfinished.extend_from_slice(&data[start..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let bytes = b"6\r\ndata: \r\n1d\r\n{\"type\":\"partial\",\"content\":\"\r\n11\r\n0000012 \"}\n\ndata:\r\n8\r\n [DONE]\n\r\n1\r\n\n\r\n0\r\n\r\n";
        for step in [1, 2, 5, bytes.len()] {
            let mut body = Body::default();
            let mut frames = Vec::new();
            for part in bytes.chunks(step) {
                body.feed(part, |frame| {
                    frames.push(frame.to_vec());
                    Ok(())
                })
                .unwrap();
            }
            assert_eq!(frames.len(), 2, "{step}");
            assert_eq!(piece(&frames[0]), Some(12));
            assert_eq!(piece(&frames[1]), None);
            assert_eq!(frames[1], b"[DONE]");
            assert!(body.is_over());
        }
        assert!(Body::default().feed(b"5\r\nhello\n", |_| Ok(())).is_ok());
        assert!(Body::default().feed(b"6\r\nhello\n", |_| Ok(())).is_err());
        assert!(Body::default().feed(b"x\r\n", |_| Ok(())).is_err());
    }

    #[test]
    fn a_request_is_read_back() {
        let body = json!({"method": "health.check"});
        let bytes = request(&body);
        assert_eq!(whole_length(&bytes).unwrap(), Some(bytes.len()));
        assert_eq!(whole_length(&bytes[..20]).unwrap(), None);
        assert_eq!(read_request(&mut &bytes[..]).unwrap(), body);
        assert!(read_request(&mut &bytes[..bytes.len() - 1]).is_err());
    }
}
