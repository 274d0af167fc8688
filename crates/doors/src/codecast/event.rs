//! How events are written: one frame each on a stream, one element each in an array. Pure.
//!
//! Invariant: a line never exceeds [`LONGEST_LINE`]. The HTTP library of this contract's clients refuses lines of half a
//! megabyte, in its older releases of 128 KiB, and the whole turn is lost with them. So what is longer is sent in
//! several events, and what cannot be divided is left out.

use super::json;

/// The longest line, its `data: ` not counted.
const LONGEST_LINE: usize = 120 * 1024;
/// What is left of a line for everything but its longest member.
const ROOM: usize = 8 * 1024;
/// The longest text in one event, as written.
const LONGEST_TEXT: usize = LONGEST_LINE - ROOM;
/// The longest name of anything.
const LONGEST_NAME: usize = 1024;

/// Where events go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    /// `data: {…}` and an empty line.
    Frames,
    /// `{…}` with commas between.
    Elements,
}

/// A buffer that events are written to.
#[derive(Debug)]
pub(super) struct Out {
    bytes: Vec<u8>,
    shape: Shape,
    /// Events so far.
    count: usize,
}

/// One event being written.
pub(super) struct Writing<'a> {
    out: &'a mut Out,
    start: usize,
}

impl Out {
    pub(super) fn new(shape: Shape) -> Self {
        Self { bytes: Vec::new(), shape, count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many events were written since the beginning.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Takes what was written; writing goes on into an empty buffer with this much room.
    pub(super) fn take(&mut self, room: usize) -> Vec<u8> {
        std::mem::replace(&mut self.bytes, Vec::with_capacity(room))
    }

    /// Begins an event of a type.
    pub(super) fn event(&mut self, kind: &str) -> Writing<'_> {
        match self.shape {
            Shape::Frames => self.bytes.extend_from_slice(b"data: "),
            Shape::Elements if self.count > 0 => self.bytes.push(b','),
            Shape::Elements => {}
        }
        self.count += 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"{\"type\":\"");
        self.bytes.extend_from_slice(kind.as_bytes());
        self.bytes.push(b'"');
        Writing { out: self, start }
    }

    /// The last frame of a stream.
    pub(super) fn done(&mut self) {
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// An event with nothing but its type.
    pub(super) fn bare(&mut self, kind: &str) {
        self.event(kind).end();
    }

    pub(super) fn queued(&mut self, position: usize) {
        self.event("queued").number("position", position as u64).end();
    }

    /// An event with one text, or as many such events as the text needs.
    pub(super) fn text(&mut self, kind: &str, member: &str, text: &str) {
        for piece in json::pieces(text, LONGEST_TEXT) {
            self.event(kind).text(member, piece).end();
        }
    }

    pub(super) fn error(&mut self, message: &str) {
        self.text("error", "message", message);
    }

    /// A tool's own words.
    pub(super) fn tool_message(&mut self, tool: &str, message: &str, raw: Option<&str>) {
        let mut raw = raw;
        for piece in json::pieces(message, LONGEST_TEXT) {
            self.event("tool_use").name("tool", tool).text("message", piece).raw("raw", raw.take()).end();
        }
    }

    /// A tool is called.
    pub(super) fn tool_call(&mut self, tool: &str, input: &str) {
        let writing = self.event("tool_use").name("tool", tool);
        if input.len() <= LONGEST_TEXT {
            writing.raw("input", Some(input)).end();
            return;
        }
        // Half a JSON value is of no use to anybody: its long strings are cut instead.
        match shortened(input) {
            Some(input) => writing.raw("input", Some(&input)).end(),
            None => {
                let length = input.len();
                writing.text("message", &format!("(the input has {length} bytes and was left out)")).end();
            }
        }
    }
}

impl Writing<'_> {
    fn member(&mut self, name: &str) {
        let bytes = &mut self.out.bytes;
        bytes.extend_from_slice(b",\"");
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"\":");
    }

    /// A text that is known to fit.
    pub(super) fn text(mut self, member: &str, text: &str) -> Self {
        self.member(member);
        json::push_string(&mut self.out.bytes, text);
        self
    }

    /// A name; what is too long for one is cut.
    pub(super) fn name(self, member: &str, name: &str) -> Self {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        self.text(member, name)
    }

    pub(super) fn optional_name(self, member: &str, name: Option<&str>) -> Self {
        match name {
            Some(name) => self.name(member, name),
            None => self,
        }
    }

    pub(super) fn number(mut self, member: &str, number: u64) -> Self {
        self.member(member);
        self.out.bytes.extend_from_slice(number.to_string().as_bytes());
        self
    }

    /// JSON as it came, if there is any and the line does not get too long by it.
    pub(super) fn raw(mut self, member: &str, json: Option<&str>) -> Self {
        let so_far = self.out.bytes.len() - self.start;
        if let Some(json) = json.filter(|json| so_far + member.len() + json.len() + 8 <= LONGEST_LINE) {
            self.member(member);
            json::push_raw(&mut self.out.bytes, json);
        }
        self
    }

    pub(super) fn end(self) {
        self.out.bytes.push(b'}');
        if self.out.shape == Shape::Frames {
            self.out.bytes.extend_from_slice(b"\n\n");
        }
    }
}

/// The value with its long strings cut, if that makes it short enough.
fn shortened(json: &str) -> Option<String> {
    let mut value: serde_json::Value = serde_json::from_str(json).ok()?;
    let mut longest = 32 * 1024;
    while longest >= 64 {
        cut(&mut value, longest);
        let text = value.to_string();
        if text.len() <= LONGEST_TEXT {
            return Some(text);
        }
        longest /= 8;
    }
    None
}

fn cut(value: &mut serde_json::Value, longest: usize) {
    match value {
        serde_json::Value::String(text) if text.len() > longest => {
            let left_out = text.len() - longest;
            text.truncate(text.floor_char_boundary(longest));
            text.push_str(&format!("… ({left_out} bytes left out)"));
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| cut(value, longest)),
        serde_json::Value::Object(members) => members.values_mut().for_each(|value| cut(value, longest)),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(out: &mut Out) -> Vec<Value> {
        let text = String::from_utf8(out.take(0)).unwrap();
        let frames: Vec<&str> = text.strip_suffix("\n\n").unwrap().split("\n\n").collect();
        frames
            .into_iter()
            .map(|frame| {
                assert!(frame.len() <= LONGEST_LINE + 6, "{}", frame.len());
                serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap()
            })
            .collect()
    }

    #[test]
    fn frames_and_elements() {
        let mut out = Out::new(Shape::Frames);
        out.bare("ping");
        out.queued(3);
        out.text("partial", "content", "a\nb");
        out.done();
        assert_eq!(
            String::from_utf8(out.take(0)).unwrap(),
            "data: {\"type\":\"ping\"}\n\ndata: {\"type\":\"queued\",\"position\":3}\n\n\
             data: {\"type\":\"partial\",\"content\":\"a\\nb\"}\n\ndata: [DONE]\n\n"
        );
        let mut out = Out::new(Shape::Elements);
        out.bare("a");
        out.bare("b");
        assert_eq!(out.take(0), b"{\"type\":\"a\"},{\"type\":\"b\"}");
        assert_eq!(out.count(), 2);
    }

    #[test]
    fn long_texts_come_in_several_events() {
        for text in ["x".repeat(2_000_000), "\u{1}".repeat(300_000), "\u{1f600}".repeat(300_000)] {
            let mut out = Out::new(Shape::Frames);
            out.text("text", "content", &text);
            let joined: String = lines(&mut out).iter().map(|line| line["content"].as_str().unwrap()).collect();
            assert_eq!(joined, text);
        }
    }

    #[test]
    fn raw_goes_when_the_line_would_be_too_long() {
        let raw = json!({"result": "x".repeat(LONGEST_LINE)}).to_string();
        let mut out = Out::new(Shape::Frames);
        out.event("result").name("session_id", "s").raw("raw", Some(&raw)).end();
        assert_eq!(lines(&mut out), [json!({"type": "result", "session_id": "s"})]);
        let fits = json!({"result": "x".repeat(LONGEST_LINE - 200)}).to_string();
        out.event("result").name("session_id", "s").raw("raw", Some(&fits)).end();
        assert_eq!(lines(&mut out)[0]["raw"].to_string(), fits);
    }

    #[test]
    fn a_huge_input_keeps_its_shape() {
        let input = json!({"path": "/a", "content": "x".repeat(1_000_000), "edits": ["y".repeat(600_000)]}).to_string();
        let mut out = Out::new(Shape::Frames);
        out.tool_call("Write", &input);
        let line = &lines(&mut out)[0];
        assert_eq!(line["input"]["path"], "/a");
        assert!(line["input"]["content"].as_str().unwrap().ends_with(" bytes left out)"));
        let many = Value::from(vec![1; 400_000]).to_string();
        out.tool_call("Write", &many);
        let line = &lines(&mut out)[0];
        assert_eq!(line.get("input"), None);
        assert!(line["message"].as_str().unwrap().contains("800001 bytes"), "{line}");
    }

    #[test]
    fn tool_output_is_divided_and_names_are_cut() {
        let mut out = Out::new(Shape::Frames);
        out.tool_message(&"n".repeat(5000), &"o".repeat(900_000), Some("{}"));
        let lines = lines(&mut out);
        assert_eq!(lines.len(), 900_000_usize.div_ceil(LONGEST_TEXT));
        assert_eq!(lines[0]["tool"].as_str().unwrap().len(), LONGEST_NAME);
        assert_eq!(lines[0]["raw"], json!({}));
        assert_eq!(lines[1].get("raw"), None);
        let joined: String = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(joined.len(), 900_000);
    }
}
