//! A stream of server-sent events, block by block, with its form checked.

use std::io;
use std::time::Instant;

use serde_json::Value;

use crate::codecast::http::{Answer, Connection};
use crate::wait;

/// One block of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Block {
    /// `: text`
    Comment(String),
    /// `id`, `event` and `data`, in this order, each once. A gap is no event of the log and has no id.
    Event {
        /// Its id; empty for a gap.
        id: String,
        /// Its name.
        name: String,
        /// Its data: one line of JSON.
        data: Value,
    },
}

/// An open stream.
pub struct Stream {
    connection: Connection,
    /// Its head.
    pub head: Answer,
    text: Vec<u8>,
    /// The id of the last event.
    pub last_id: Option<String>,
}

impl Stream {
    /// A stream whose head has been read.
    pub fn new(connection: Connection, head: Answer) -> Self {
        Self { connection, head, text: Vec::new(), last_id: None }
    }

    /// The connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The next block; `None` when the stream is over.
    ///
    /// # Errors
    /// If it is cut off, or nothing comes in time.
    ///
    /// # Panics
    /// If a block has another form than the contract's.
    pub fn try_block(&mut self) -> io::Result<Option<Block>> {
        loop {
            if let Some(at) = self.text.windows(2).position(|bytes| bytes == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..at + 2).collect();
                let block = std::str::from_utf8(&block[..at]).expect("a block is UTF-8");
                let block = parse(block);
                if let Block::Event { id, .. } = &block
                    && !id.is_empty()
                {
                    self.last_id = Some(id.clone());
                }
                return Ok(Some(block));
            }
            match self.connection.body_bytes()? {
                Some(bytes) => self.text.extend(bytes),
                None => {
                    assert!(self.text.is_empty(), "a stream ends in the middle of a block");
                    return Ok(None);
                }
            }
        }
    }

    /// The next block.
    ///
    /// # Panics
    /// If there is none.
    pub fn block(&mut self) -> Block {
        self.try_block().unwrap_or_else(|error| panic!("no block: {error}")).expect("a block, and not the end")
    }

    /// Name and data of the next event, comments passed over; `None` when the stream is over.
    ///
    /// # Errors
    /// If it is cut off, or nothing but signs of life come in time.
    pub fn try_event(&mut self) -> io::Result<Option<(String, Value)>> {
        let end = Instant::now() + wait::limit();
        loop {
            match self.try_block()? {
                Some(Block::Event { name, data, .. }) => return Ok(Some((name, data))),
                Some(Block::Comment(_)) if Instant::now() >= end => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no event came"));
                }
                Some(Block::Comment(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Name and data of the next event.
    ///
    /// # Panics
    /// If there is none.
    pub fn event(&mut self) -> (String, Value) {
        self.try_event().unwrap_or_else(|error| panic!("{error}")).expect("an event, and not the end")
    }

    /// The data of the next event of this name; others are passed over.
    ///
    /// # Errors
    /// If the stream ends before it, or nothing comes in time.
    pub fn try_named(&mut self, wanted: &str) -> Result<Value, String> {
        let mut passed = Vec::new();
        loop {
            match self.try_event() {
                Ok(Some((name, data))) if name == wanted => return Ok(data),
                Ok(Some((name, _))) => passed.push(name),
                Ok(None) => return Err(format!("the stream is over; no `{wanted}` but {passed:?}")),
                Err(error) => return Err(format!("{error}; no `{wanted}` but {passed:?}")),
            }
        }
    }

    /// The same.
    ///
    /// # Panics
    /// If it does not come.
    pub fn named(&mut self, wanted: &str) -> Value {
        self.try_named(wanted).unwrap_or_else(|reason| panic!("{reason}"))
    }
}

fn parse(block: &str) -> Block {
    if let Some(comment) = block.strip_prefix(": ") {
        assert!(!comment.contains('\n'), "a comment is one line: {block:?}");
        return Block::Comment(comment.to_owned());
    }
    let lines: Vec<&str> = block.split('\n').collect();
    let (id, name, data) = match lines[..] {
        [id, name, data] => (id, name, data),
        ["event: gap", data] => ("id: ", "event: gap", data),
        _ => panic!("an event has three lines: {block:?}"),
    };
    let field = |line: &str, name: &str| {
        line.strip_prefix(name).unwrap_or_else(|| panic!("no `{name}` in {block:?}")).to_owned()
    };
    let data = field(data, "data: ");
    let data = serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}"));
    Block::Event { id: field(id, "id: "), name: field(name, "event: "), data }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_read_to_the_letter() {
        assert_eq!(parse(": connected"), Block::Comment("connected".to_owned()));
        let event = Block::Event { id: "a-1".to_owned(), name: "message".to_owned(), data: json!({"ts": 1}) };
        assert_eq!(parse("id: a-1\nevent: message\ndata: {\"ts\":1}"), event);
        for wrong in ["data: {}", "event: x\nid: 1\ndata: {}", "id: 1\nevent: x\ndata: {\ndata: }", "id: 1\nevent: x"] {
            assert!(std::panic::catch_unwind(|| parse(wrong)).is_err(), "{wrong:?}");
        }
    }
}
