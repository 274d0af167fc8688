//! Stream frames: the lines that carry a process's output and exit.
//!
//! This is the hot path of the door. Everything that does not change from frame to frame is written
//! once per subscription; the payload is encoded straight into the outgoing buffer, because base64
//! never needs escaping.

use super::gojson::encode::{push_signed, push_string, push_unsigned};

/// The two output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Writes the frames of one process.
#[derive(Debug)]
pub struct FrameWriter {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Vec<u8>,
}

impl FrameWriter {
    /// Prepares for the process that its clients call `name`.
    pub fn new(name: &str) -> Self {
        let head = |stream: &str| {
            let mut head = b"{\"type\":\"stream\",\"processId\":".to_vec();
            push_string(&mut head, name.as_bytes());
            head.extend_from_slice(b",\"stream\":\"");
            head.extend_from_slice(stream.as_bytes());
            head.extend_from_slice(b"\",\"seq\":");
            head
        };
        Self { stdout: head("stdout"), stderr: head("stderr"), exit: head("exit") }
    }

    /// Appends an output frame.
    pub fn output(&self, out: &mut Vec<u8>, stream: Stream, seq: u64, data: &[u8]) {
        let head = match stream {
            Stream::Out => &self.stdout,
            Stream::Err => &self.stderr,
        };
        out.reserve(head.len() + data.len().div_ceil(3) * 4 + 40);
        out.extend_from_slice(head);
        push_unsigned(out, seq);
        out.extend_from_slice(b",\"data\":\"");
        base64_simd::STANDARD.encode_append(data, out);
        out.extend_from_slice(b"\"}\n");
    }

    /// Appends the exit frame.
    pub fn exit(&self, out: &mut Vec<u8>, seq: u64, code: i32) {
        out.extend_from_slice(&self.exit);
        push_unsigned(out, seq);
        out.extend_from_slice(b",\"exitCode\":");
        push_signed(out, i64::from(code));
        out.extend_from_slice(b"}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_are_spelled_as_the_contract_prints_them() {
        let writer = FrameWriter::new("p<1>");
        let mut out = Vec::new();
        writer.output(&mut out, Stream::Out, 1, b"hi\n");
        writer.output(&mut out, Stream::Err, 2, b"no");
        writer.exit(&mut out, 3, 0);
        writer.exit(&mut out, 18_446_744_073_709_551_615, -1);
        let expected = concat!(
            r#"{"type":"stream","processId":"p\u003c1\u003e","stream":"stdout","seq":1,"data":"aGkK"}"#,
            "\n",
            r#"{"type":"stream","processId":"p\u003c1\u003e","stream":"stderr","seq":2,"data":"bm8="}"#,
            "\n",
            r#"{"type":"stream","processId":"p\u003c1\u003e","stream":"exit","seq":3,"exitCode":0}"#,
            "\n",
            r#"{"type":"stream","processId":"p\u003c1\u003e","stream":"exit","seq":18446744073709551615,"exitCode":-1}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn any_payload_reads_back(
            name in any::<String>(),
            seq in any::<u64>(),
            data in proptest::collection::vec(any::<u8>(), 1..5000),
        ) {
            let mut out = Vec::new();
            FrameWriter::new(&name).output(&mut out, Stream::Err, seq, &data);
            prop_assert_eq!(out.last(), Some(&b'\n'));
            let frame: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(frame["processId"].as_str(), Some(name.as_str()));
            prop_assert_eq!(frame["stream"].as_str(), Some("stderr"));
            prop_assert_eq!(frame["seq"].as_u64(), Some(seq));
            let payload = frame["data"].as_str().unwrap();
            prop_assert_eq!(base64_simd::STANDARD.decode_to_vec(payload).unwrap(), data);
        }
    }
}
