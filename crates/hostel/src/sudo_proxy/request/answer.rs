//! The answer to a request: read, and shown as the contract's own client shows it.
//!
//! Invariant: what a command printed goes out byte for byte, to the stream it was printed to; the exit code is the last
//! command's. Keys nobody knows are passed over.

use std::borrow::Cow;
use std::io;
use std::io::Write as _;

use serde::Deserialize;

use super::super::digest;
use super::super::digest::Excerpt;
use super::super::digest::Style;
use crate::text;

/// How much of an answer that is none is shown.
const RAW: usize = 200;

/// The answer as it stands on the wire.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(borrow)]
    #[expect(dead_code, reason = "an answer without one is not an answer")]
    id: Cow<'a, str>,
    status: Status,
    #[serde(borrow, default)]
    stages: Vec<Stage<'a>>,
    #[serde(borrow, default)]
    stdout: Option<Cow<'a, str>>,
    #[serde(default)]
    stdout_truncated: bool,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Denied,
    Timeout,
    Error,
}

#[derive(Debug, Deserialize)]
struct Stage<'a> {
    exit_code: i32,
    #[serde(borrow)]
    stderr: Cow<'a, str>,
    #[serde(default)]
    stderr_truncated: bool,
}

/// What went out of a pipeline, decoded.
struct Output {
    codes: Vec<i32>,
    stdout: Vec<u8>,
    stderrs: Vec<Vec<u8>>,
}

/// Reads a line; the error is what people are told.
pub(super) fn read(line: &str) -> Result<Answer<'_>, String> {
    serde_json::from_str(line).map_err(|error| {
        let raw = text::cut(line, RAW);
        format!("invalid response JSON: {error}\nraw: {}", text::printable(&raw))
    })
}

impl Answer<'_> {
    fn output(&self) -> Result<Output, String> {
        Ok(Output {
            codes: self.stages.iter().map(|stage| stage.exit_code).collect(),
            stdout: decode(self.stdout.as_deref().unwrap_or_default())?,
            stderrs: self.stages.iter().map(|stage| decode(&stage.stderr)).collect::<Result<_, _>>()?,
        })
    }

    /// The digest of `--print`.
    pub(super) fn digest(&self, style: Style) -> Result<String, String> {
        let Style { bold, dim, reset } = style;
        Ok(match self.status {
            Status::Ok => {
                let Output { codes, stdout, stderrs } = self.output()?;
                let stderrs: Vec<Excerpt> = stderrs.iter().map(|bytes| Excerpt::of(bytes)).collect();
                digest::render(&codes, &Excerpt::of(&stdout), &stderrs, style, "")
            }
            Status::Denied => format!("{dim}denied{reset}\n"),
            Status::Timeout => format!("{dim}timeout{reset}\n"),
            Status::Error => format!("{bold}error: {}{reset}\n", text::printable(self.message())),
        })
    }

    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("unknown error")
    }

    /// Shows it and gives the exit code.
    pub(super) fn show(&self) -> Result<u8, String> {
        let refused = |text: &str| {
            say(text.as_bytes());
            Ok(1)
        };
        match self.status {
            Status::Denied => return refused("Request denied.\n"),
            Status::Timeout => return refused("Request timed out.\n"),
            Status::Error => return refused(&format!("Error: {}\n", text::printable(self.message()))),
            Status::Ok => {}
        }
        let Output { codes, stdout, stderrs } = self.output()?;
        let mut out = io::stdout().lock();
        // Who closed our output does not want it; the exit code is still the command's.
        out.write_all(&stdout).and_then(|()| out.flush()).unwrap_or_default();
        for stderr in &stderrs {
            say(stderr);
        }
        if self.stdout_truncated {
            say(b"(stdout truncated)\n");
        }
        if self.stages.iter().any(|stage| stage.stderr_truncated) {
            say(b"(stderr truncated)\n");
        }
        let code = codes.last().copied().unwrap_or(0);
        if code != 0 {
            say(format!("(exit code: {code})\n").as_bytes());
        }
        // The low byte, as the system cuts it: -1 is 255.
        Ok(code.to_le_bytes()[0])
    }
}

fn say(bytes: &[u8]) {
    io::stderr().lock().write_all(bytes).unwrap_or_default();
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    base64_simd::STANDARD.decode_to_vec(text).map_err(|_| "invalid response: the output is not base64".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(line: &str) -> String {
        read(line).unwrap().digest(Style::PLAIN).unwrap()
    }

    #[test]
    fn digests() {
        let ok = r#"{"id":"x","status":"ok","stages":[{"exit_code":0,"stderr":"","new":1}],"stdout":"aGkK","more":{}}"#;
        assert_eq!(digest(ok), "exit 0\n== stdout == (1 lines)\nhi\n");
        assert_eq!(digest(r#"{"id":"x","status":"denied"}"#), "denied\n");
        assert_eq!(digest(r#"{"id":"x","status":"timeout"}"#), "timeout\n");
        assert_eq!(digest(r#"{"id":"x","status":"error","message":"no \u001b[1mway"}"#), "error: no ⟨ESC⟩[1mway\n");
        assert_eq!(digest(r#"{"id":"x","status":"error"}"#), "error: unknown error\n");
    }

    #[test]
    fn what_is_no_answer_is_shown_in_part() {
        let error = read("nonsense\u{1b}[2J").unwrap_err();
        assert!(error.starts_with("invalid response JSON: ") && error.ends_with("\nraw: nonsense⟨ESC⟩[2J"), "{error}");
        assert!(read(&"x".repeat(10_000)).unwrap_err().len() < 400);
        assert!(read(r#"{"id":"x","status":"maybe"}"#).is_err());
        assert!(read(r#"{"status":"ok"}"#).is_err());
        let broken = read(r#"{"id":"x","status":"ok","stdout":"%%"}"#).unwrap();
        assert_eq!(broken.digest(Style::PLAIN).unwrap_err(), "invalid response: the output is not base64");
    }
}
