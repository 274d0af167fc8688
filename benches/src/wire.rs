//! The claustrum wire as far as a client needs it: request lines out, stream frames in.
//!
//! A frame is read without a JSON parser, because at a gigabyte a second the parser would be what
//! is measured. That is safe here since the benches choose every process id themselves and the
//! contract fixes the keys of a frame. Replies are parsed as JSON.

use std::io::Write as _;

use anyhow::Context as _;
use anyhow::Result;
use memchr::memmem;
use serde_json::Value;
use serde_json::json;

/// The most output bytes one frame may carry.
pub(crate) const FRAME_BYTES: usize = 32 * 1024;

/// A frame's keys stand in front of its data; none of ours comes near this length.
const HEADER_WINDOW: usize = 256;

/// What a frame tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Output,
    Exit { code: i64 },
}

/// One stream notification, borrowed from the line it came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'line> {
    pub(crate) process: &'line [u8],
    pub(crate) seq: u64,
    pub(crate) kind: Kind,
    /// Base64, empty for an exit.
    pub(crate) data: &'line [u8],
}

/// A request line, newline included.
pub(crate) fn request(id: u64, method: &str, params: Option<&Value>, token: &str) -> Vec<u8> {
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method, "auth": token});
    if let Some(params) = params {
        request["params"] = params.clone();
    }
    let mut line = request.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Whether a line is a stream notification; everything else is a reply.
pub(crate) fn is_frame(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"stream""#)
}

/// Reads a stream notification.
pub(crate) fn frame(line: &[u8]) -> Result<Frame<'_>> {
    let window = &line[..line.len().min(HEADER_WINDOW)];
    let process = text_after(window, br#""processId":""#).context("a frame has no processId")?;
    let stream = text_after(window, br#""stream":""#).context("a frame has no stream")?;
    let seq = number_after(window, br#""seq":"#).context("a frame has no seq")?;
    let seq = u64::try_from(seq).context("a frame has a negative seq")?;
    if stream == b"exit" {
        let code = number_after(window, br#""exitCode":"#).context("an exit has no exitCode")?;
        return Ok(Frame { process, seq, kind: Kind::Exit { code }, data: b"" });
    }
    let key = br#""data":""#;
    let start = memmem::find(window, key).context("an output frame has no data")? + key.len();
    let rest = &line[start..];
    let end = memchr::memchr(b'"', rest).context("the data of a frame does not end")?;
    Ok(Frame { process, seq, kind: Kind::Output, data: &rest[..end] })
}

fn text_after<'line>(window: &'line [u8], key: &[u8]) -> Option<&'line [u8]> {
    let rest = &window[memmem::find(window, key)? + key.len()..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

fn number_after(window: &[u8], key: &[u8]) -> Option<i64> {
    let rest = &window[memmem::find(window, key)? + key.len()..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    std::str::from_utf8(&rest[..length]).ok()?.parse().ok()
}

/// How many bytes padded base64 stands for, without decoding it.
pub(crate) fn decoded_length(data: &[u8]) -> u64 {
    let padding = data.iter().rev().take(2).filter(|byte| **byte == b'=').count();
    (data.len() / 4 * 3).saturating_sub(padding) as u64
}

/// Replaces `line` by an output frame.
pub(crate) fn write_output(line: &mut Vec<u8>, process: &str, seq: u64, data: &[u8]) -> Result<()> {
    line.clear();
    write!(line, r#"{{"type":"stream","processId":"{process}","stream":"stdout","seq":{seq},"data":""#)?;
    base64_simd::STANDARD.encode_append(data, line);
    line.extend_from_slice(b"\"}\n");
    Ok(())
}

/// Replaces `line` by an exit frame.
pub(crate) fn write_exit(line: &mut Vec<u8>, process: &str, seq: u64, code: i32) -> Result<()> {
    line.clear();
    writeln!(line, r#"{{"type":"stream","processId":"{process}","stream":"exit","seq":{seq},"exitCode":{code}}}"#)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_frame_is_read_back() {
        for length in [0, 1, 2, 3, 100, FRAME_BYTES] {
            let data = vec![b'x'; length];
            let mut line = Vec::new();
            write_output(&mut line, "p-1", 42, &data).unwrap();
            assert_eq!(line.pop(), Some(b'\n'));
            assert!(is_frame(&line));
            serde_json::from_slice::<Value>(&line).unwrap();
            let frame = frame(&line).unwrap();
            assert_eq!((frame.process, frame.seq), (&b"p-1"[..], 42));
            assert_eq!(frame.kind, Kind::Output);
            assert_eq!(decoded_length(frame.data), length as u64);
            let decoded = base64_simd::STANDARD.decode_to_vec(frame.data).unwrap();
            assert_eq!(decoded, data);
        }
    }

    #[test]
    fn exits_carry_their_code() {
        let mut line = Vec::new();
        write_exit(&mut line, "p", 7, -1).unwrap();
        let frame = frame(&line).unwrap();
        assert_eq!((frame.seq, frame.kind), (7, Kind::Exit { code: -1 }));
    }

    #[test]
    fn broken_frames_are_refused() {
        for line in [
            r#"{"type":"stream"}"#,
            r#"{"type":"stream","processId":"p","stream":"stdout","seq":1}"#,
            r#"{"type":"stream","processId":"p","stream":"stdout","seq":1,"data":"AAAA"#,
            r#"{"type":"stream","processId":"p","stream":"exit","seq":1}"#,
            r#"{"type":"stream","processId":"p","stream":"stdout","seq":-1,"data":""}"#,
        ] {
            assert!(frame(line.as_bytes()).is_err(), "{line}");
        }
    }
}
