//! Stream frames and what a client makes of them.
//!
//! [`Frame::parse`] accepts the contract's bytes and nothing else: keys in order, no blanks, `data`
//! on output, `exitCode` on exit. [`Transcript`] puts frames together and refuses a gap, a repeat,
//! a frame above 32 KiB and anything after the exit.

/// The largest payload of one frame.
pub const FRAME_LIMIT: usize = 32 * 1024;

/// Which pipe bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a frame carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Bytes of one pipe.
    Output(Stream, Vec<u8>),
    /// The end.
    Exit(i64),
}

/// One stream notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The client's own name of the process.
    pub process: String,
    /// The number, per process, from 1.
    pub seq: u64,
    /// What it carries.
    pub payload: Payload,
    /// The line as it came, without its newline; empty for a large frame.
    pub raw: String,
}

/// Whether a line is a stream frame rather than a reply.
pub fn is_frame(line: &str) -> bool {
    line.starts_with(r#"{"type":"stream""#)
}

impl Frame {
    /// Reads one line.
    ///
    /// # Errors
    /// If a byte of it is not as the contract says.
    pub fn parse(line: &str) -> Result<Self, String> {
        Self::parse_strictly(line).ok_or_else(|| {
            let shown: String = line.chars().take(300).collect();
            format!("not a stream frame as the contract writes it: {shown}")
        })
    }

    fn parse_strictly(line: &str) -> Option<Self> {
        let rest = line.strip_prefix(r#"{"type":"stream","processId":"#)?;
        // From the right: neither base64 nor a number contains a quote.
        let cut = rest.rfind(r#","stream":""#)?;
        let process: String = serde_json::from_str(&rest[..cut]).ok()?;
        let (stream, rest) = rest[cut + r#","stream":""#.len()..].split_once(r#"","seq":"#)?;
        let (seq, rest) = rest.split_once(',')?;
        if seq.starts_with('0') || seq.starts_with('+') {
            return None;
        }
        let payload = if stream == "exit" {
            let code = rest.strip_prefix(r#""exitCode":"#)?.strip_suffix('}')?;
            Payload::Exit(code.parse().ok()?)
        } else {
            let data = rest.strip_prefix(r#""data":""#)?.strip_suffix(r#""}"#)?;
            let bytes = base64_simd::STANDARD.decode_to_vec(data.as_bytes()).ok()?;
            let stream = match stream {
                "stdout" => Stream::Out,
                "stderr" => Stream::Err,
                _ => return None,
            };
            if bytes.is_empty() {
                return None;
            }
            Payload::Output(stream, bytes)
        };
        let raw = if line.len() <= 4096 { line.to_owned() } else { String::new() };
        Some(Self { process, seq: seq.parse().ok()?, payload, raw })
    }
}

/// What one client knows of one process.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// All of standard output so far.
    pub stdout: Vec<u8>,
    /// All of standard error so far.
    pub stderr: Vec<u8>,
    /// The exit code once the exit frame came.
    pub exit: Option<i64>,
    /// The number of the last frame, 0 before the first.
    pub last_seq: u64,
    /// How many frames came.
    pub frames: u64,
    /// The largest payload seen.
    pub largest: usize,
}

impl Transcript {
    /// A transcript that goes on after `seq`, without what was before it.
    pub fn after(seq: u64) -> Self {
        Self { last_seq: seq, ..Self::default() }
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// If it is not the one that must follow.
    pub fn take(&mut self, frame: &Frame) -> Result<(), String> {
        if let Some(code) = self.exit {
            return Err(format!("frame {} after the exit frame (code {code})", frame.seq));
        }
        if frame.seq != self.last_seq + 1 {
            return Err(format!("frame {} of {:?} after frame {}", frame.seq, frame.process, self.last_seq));
        }
        self.last_seq = frame.seq;
        self.frames += 1;
        match &frame.payload {
            Payload::Output(stream, bytes) => {
                if bytes.len() > FRAME_LIMIT {
                    return Err(format!("frame {} carries {} bytes", frame.seq, bytes.len()));
                }
                self.largest = self.largest.max(bytes.len());
                match stream {
                    Stream::Out => self.stdout.extend_from_slice(bytes),
                    Stream::Err => self.stderr.extend_from_slice(bytes),
                }
            }
            Payload::Exit(code) => self.exit = Some(*code),
        }
        Ok(())
    }

    /// Takes the next frame.
    ///
    /// # Panics
    /// If it is not the one that must follow.
    pub fn push(&mut self, frame: &Frame) {
        if let Err(reason) = self.take(frame) {
            panic!("{reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_shapes_are_read() {
        let out = Frame::parse(
            r#"{"type":"stream","processId":"a\",\"stream\":\"b","stream":"stdout","seq":1,"data":"aGk="}"#,
        )
        .expect("a stdout frame");
        assert_eq!(out.process, r#"a","stream":"b"#);
        assert_eq!(out.payload, Payload::Output(Stream::Out, b"hi".to_vec()));
        let end = Frame::parse(r#"{"type":"stream","processId":"a","stream":"exit","seq":12,"exitCode":-1}"#)
            .expect("an exit frame");
        assert_eq!((end.seq, end.payload), (12, Payload::Exit(-1)));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in [
            r#"{"type":"stream","processId":"a","stream":"stdout","seq":1,"data":""}"#,
            r#"{"type":"stream","processId":"a","stream":"stdout","seq":01,"data":"aGk="}"#,
            r#"{"type":"stream","processId":"a","stream":"stdout","seq":1,"data":"aGk"}"#,
            r#"{"type":"stream","processId":"a","stream":"exit","seq":1,"data":"","exitCode":0}"#,
            r#"{"type":"stream","stream":"exit","processId":"a","seq":1,"exitCode":0}"#,
            r#"{"type":"stream","processId":"a","stream":"exit","seq":1,"exitCode":0,"signal":9}"#,
            r#"{"type":"stream", "processId":"a","stream":"exit","seq":1,"exitCode":0}"#,
        ] {
            assert!(Frame::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_gap_a_repeat_and_a_late_frame_are_refused() {
        let frame = |seq, payload| Frame { process: "p".into(), seq, payload, raw: String::new() };
        let output = |seq| frame(seq, Payload::Output(Stream::Out, vec![b'x']));
        let mut transcript = Transcript::default();
        assert!(transcript.take(&output(2)).is_err());
        assert!(transcript.take(&output(1)).is_ok());
        assert!(transcript.take(&output(1)).is_err());
        assert!(transcript.take(&frame(2, Payload::Exit(0))).is_ok());
        assert!(transcript.take(&output(3)).is_err());
    }
}
