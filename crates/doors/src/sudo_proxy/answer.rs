//! Answers: one line each, keys in the contract's order.
//!
//! Invariant: every answer carries the id it answers and our version. What cannot be absent is there, what is false or
//! empty is left out where the contract leaves it out.
//!
//! Large output never passes through here in one piece: [`Base64`] takes it as it comes.

use serde::Serialize;

/// An answer without output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Plain {
    /// Somebody refused.
    Denied,
    /// Nobody answered in time.
    Timeout,
    /// It went wrong, and how.
    Error(String),
    /// We are here.
    Pong,
    /// We will end.
    Stopping,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    version: &'a str,
}

/// The line of an answer without output.
pub(crate) fn line(id: &str, answer: &Plain, version: &str) -> Vec<u8> {
    let (status, stdout, message) = match answer {
        Plain::Denied => ("denied", None, None),
        Plain::Timeout => ("timeout", None, None),
        Plain::Error(message) => ("error", None, Some(message.as_str())),
        Plain::Pong => ("ok", Some(""), Some("pong")),
        Plain::Stopping => ("ok", Some(""), None),
    };
    // Text always encodes.
    let mut line = serde_json::to_vec(&Line { id, status, stdout, message, version }).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The beginning of an answer with output, up to the first stage.
pub(crate) fn open(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(b"{\"id\":");
    push_text(out, id);
    out.extend_from_slice(b",\"status\":\"ok\",\"stages\":[");
}

/// The beginning of a stage, up to what it wrote to its standard error.
pub(crate) fn open_stage(out: &mut Vec<u8>, is_first: bool, exit_code: i32) {
    let joint = if is_first { "" } else { "," };
    out.extend_from_slice(format!("{joint}{{\"exit_code\":{exit_code},\"stderr\":\"").as_bytes());
}

/// The end of a stage.
pub(crate) fn close_stage(out: &mut Vec<u8>, truncated: bool, signal: Option<i32>) {
    out.push(b'"');
    if truncated {
        out.extend_from_slice(b",\"stderr_truncated\":true");
    }
    if let Some(signal) = signal {
        out.extend_from_slice(format!(",\"signal\":{signal}").as_bytes());
    }
    out.push(b'}');
}

/// What stands between the stages and what the last one printed.
pub(crate) fn open_stdout(out: &mut Vec<u8>) {
    out.extend_from_slice(b"],\"stdout\":\"");
}

/// The end of the line.
pub(crate) fn close(out: &mut Vec<u8>, truncated: bool, version: &str) {
    out.push(b'"');
    if truncated {
        out.extend_from_slice(b",\"stdout_truncated\":true");
    }
    out.extend_from_slice(b",\"version\":");
    push_text(out, version);
    out.extend_from_slice(b"}\n");
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    serde_json::to_writer(out, text).ok();
}

/// Base64 of bytes that come in pieces: what does not fill a group of three waits for the next piece.
#[derive(Debug, Default)]
pub(crate) struct Base64 {
    waiting: Vec<u8>,
}

impl Base64 {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, mut piece: &[u8], out: &mut Vec<u8>) {
        if !self.waiting.is_empty() {
            let (first, rest) = piece.split_at((3 - self.waiting.len()).min(piece.len()));
            self.waiting.extend_from_slice(first);
            piece = rest;
            if self.waiting.len() < 3 {
                return;
            }
            base64_simd::STANDARD.encode_append(&self.waiting, out);
            self.waiting.clear();
        }
        let (whole, rest) = piece.split_at(piece.len() / 3 * 3);
        base64_simd::STANDARD.encode_append(whole, out);
        self.waiting.extend_from_slice(rest);
    }

    /// There are no more.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        base64_simd::STANDARD.encode_append(&self.waiting, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(answer: &Plain) -> String {
        String::from_utf8(line("i\"d", answer, "1.2.0")).unwrap()
    }

    #[test]
    fn lines_without_output() {
        assert_eq!(text(&Plain::Denied), "{\"id\":\"i\\\"d\",\"status\":\"denied\",\"version\":\"1.2.0\"}\n");
        assert_eq!(text(&Plain::Timeout), "{\"id\":\"i\\\"d\",\"status\":\"timeout\",\"version\":\"1.2.0\"}\n");
        assert_eq!(
            text(&Plain::Error("a\nb".to_owned())),
            "{\"id\":\"i\\\"d\",\"status\":\"error\",\"message\":\"a\\nb\",\"version\":\"1.2.0\"}\n"
        );
        assert_eq!(
            text(&Plain::Pong),
            "{\"id\":\"i\\\"d\",\"status\":\"ok\",\"stdout\":\"\",\"message\":\"pong\",\"version\":\"1.2.0\"}\n"
        );
        assert_eq!(
            text(&Plain::Stopping),
            "{\"id\":\"i\\\"d\",\"status\":\"ok\",\"stdout\":\"\",\"version\":\"1.2.0\"}\n"
        );
    }

    #[test]
    fn a_line_with_output() {
        let mut out = Vec::new();
        open(&mut out, "i");
        open_stage(&mut out, true, 0);
        close_stage(&mut out, false, None);
        open_stage(&mut out, false, -1);
        out.extend_from_slice(b"ZQ==");
        close_stage(&mut out, true, Some(9));
        open_stdout(&mut out);
        out.extend_from_slice(b"bw==");
        close(&mut out, true, "1.2.0");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"id\":\"i\",\"status\":\"ok\",\"stages\":[{\"exit_code\":0,\"stderr\":\"\"},{\"exit_code\":-1,\
             \"stderr\":\"ZQ==\",\"stderr_truncated\":true,\"signal\":9}],\"stdout\":\"bw==\",\"stdout_truncated\":true,\
             \"version\":\"1.2.0\"}\n"
        );
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_text(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10)) {
            let (mut encoder, mut out) = (Base64::default(), Vec::new());
            for piece in &pieces {
                encoder.push(piece, &mut out);
            }
            encoder.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), base64_simd::STANDARD.encode_to_string(pieces.concat()));
        }
    }
}
