//! Standard output: lines gathered into large writes, and out at once when the program waits for anything.

use std::io::Write as _;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// More than this is written before more is gathered.
const FULL: usize = 64 << 10;

pub(crate) struct Out {
    buffer: Vec<u8>,
    ids: u64,
}

impl Out {
    pub(crate) fn new() -> Self {
        Out { buffer: Vec::with_capacity(FULL * 2), ids: 0 }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    pub(crate) fn str(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// The text as a JSON string, with its quotes.
    pub(crate) fn quoted(&mut self, text: &str) -> &mut Self {
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            return self.str("\"").str(text).str("\"");
        }
        serde_json::to_writer(&mut self.buffer, text).expect("a text is JSON");
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        write!(self.buffer, "{number}").expect("memory takes it");
        self
    }

    /// A new id in the form of a UUID, without quotes.
    pub(crate) fn uuid(&mut self) -> &mut Self {
        let id = self.fresh_uuid();
        self.str(&id)
    }

    pub(crate) fn fresh_uuid(&mut self) -> String {
        self.ids += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", process::id(), self.ids)
    }

    /// A new id with a prefix of its own.
    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}{:x}{:010x}", process::id(), self.ids)
    }

    /// Ends a line.
    pub(crate) fn end(&mut self) {
        self.buffer.push(b'\n');
        if self.buffer.len() > FULL {
            self.flush();
        }
    }

    pub(crate) fn value(&mut self, value: &Value) {
        serde_json::to_writer(&mut self.buffer, value).expect("a value is JSON");
        self.end();
    }

    /// An object with `name` as its first field, as the CLIs print `type`.
    pub(crate) fn headed(&mut self, name: &str, kind: &str, rest: &Value) {
        let rest = rest.to_string();
        self.str("{").quoted(name).str(":").quoted(kind);
        if rest.len() > 2 {
            self.str(",").str(&rest[1..]).end();
        } else {
            self.str("}").end();
        }
    }

    pub(crate) fn flush(&mut self) {
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(&self.buffer).and_then(|()| stdout.flush()).is_err() {
            // Nobody reads any more.
            process::exit(1);
        }
        self.buffer.clear();
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis() as u64)
}
