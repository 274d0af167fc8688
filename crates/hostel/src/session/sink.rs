//! The end of the line: frames written to our standard streams by a thread of its own.
//!
//! Invariant: at most `DEPTH` frames wait here. A reader that does not read stops the writing thread only, so that
//! Ctrl-C and stdin go on working.

use std::io;
use std::io::Write as _;
use std::thread::JoinHandle;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol::Output;
use hostel_doors::native::protocol::StreamName;
use hostel_doors::native::protocol::Text;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use crate::error::CommandError;

/// Frames that may wait for the reader.
const DEPTH: usize = 16;

/// One piece of output.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) stream: StreamName,
    pub(crate) seq: u64,
    pub(crate) time_ns: u64,
    pub(crate) data: Vec<u8>,
}

impl Frame {
    /// The frame a notification carries.
    pub(crate) fn decode(output: &Output) -> Result<Self, ClientError> {
        Ok(Frame {
            stream: output.stream,
            seq: output.seq,
            time_ns: output.time_ns,
            data: base64_simd::STANDARD
                .decode_to_vec(&output.data)
                .map_err(|_| ClientError::Protocol("output is not base64".to_owned()))?,
        })
    }
}

/// How frames become bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// As the process wrote them, each to its own stream.
    Raw,
    /// Each line after the time it was printed.
    Timestamps,
    /// One JSON object for each frame, all to standard output.
    Json,
}

#[derive(Serialize)]
struct Record<'a> {
    stream: StreamName,
    seq: u64,
    time_ns: u64,
    data: &'a Text,
}

/// The writing thread and the way to it.
pub(crate) struct Sink {
    frames: Option<mpsc::Sender<Frame>>,
    finished: oneshot::Receiver<io::Result<()>>,
    _thread: JoinHandle<()>,
}

impl Sink {
    /// Starts the thread.
    pub(crate) fn start(format: Format) -> Result<Self, CommandError> {
        let (frames, incoming) = mpsc::channel(DEPTH);
        let (report, finished) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                let result = write_all(format, incoming);
                // Nobody waits for the report once the session was given up.
                report.send(result).unwrap_or_default();
            })
            .map_err(|error| CommandError::failure(format!("cannot start a thread: {error}")))?;
        Ok(Sink { frames: Some(frames), finished, _thread: thread })
    }

    /// Waits for room for one frame; none when the reader is gone.
    pub(crate) async fn room(&self) -> Option<mpsc::Permit<'_, Frame>> {
        match &self.frames {
            Some(frames) => frames.reserve().await.ok(),
            None => None,
        }
    }

    /// Waits until everything handed over is written.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        self.frames = None;
        match self.finished.await {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("the writing thread ended early")),
        }
    }
}

fn write_all(format: Format, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    let mut lines = [LineState::default(), LineState::default()];
    while let Some(frame) = frames.blocking_recv() {
        match format {
            Format::Raw => write_to(frame.stream, &frame.data)?,
            Format::Timestamps => {
                let [out, err] = &mut lines;
                let state = if frame.stream == StreamName::Stdout { out } else { err };
                write_to(frame.stream, &state.stamp(frame.time_ns, &frame.data))?;
            }
            Format::Json => {
                let data = Text(frame.data);
                let record = Record { stream: frame.stream, seq: frame.seq, time_ns: frame.time_ns, data: &data };
                let mut line = serde_json::to_vec(&record).map_err(io::Error::other)?;
                line.push(b'\n');
                write_to(StreamName::Stdout, &line)?;
            }
        }
    }
    Ok(())
}

fn write_to(stream: StreamName, data: &[u8]) -> io::Result<()> {
    match stream {
        StreamName::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(data)?;
            out.flush()
        }
        StreamName::Stderr => io::stderr().lock().write_all(data),
    }
}

/// Whether a stream stands in the middle of a line.
#[derive(Default)]
struct LineState {
    inside: bool,
}

impl LineState {
    /// The data with the time before each line that starts in it.
    fn stamp(&mut self, time_ns: u64, data: &[u8]) -> Vec<u8> {
        let time = time_text(time_ns);
        let mut stamped = Vec::with_capacity(data.len() + 32);
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            if !self.inside {
                stamped.extend_from_slice(time.as_bytes());
                stamped.push(b' ');
            }
            stamped.extend_from_slice(line);
            self.inside = !line.ends_with(b"\n");
        }
        stamped
    }
}

/// UTC with milliseconds.
fn time_text(time_ns: u64) -> String {
    let millis = i64::try_from(time_ns / 1_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map(|time| format!("{time:.3}")).unwrap_or_else(|_| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_stamped_once_however_it_arrives() {
        let mut state = LineState::default();
        let mut text = state.stamp(1_000_000_000, b"one\ntw");
        text.extend(state.stamp(2_000_000_000, b"o\n"));
        text.extend(state.stamp(3_000_000_000, b"three"));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "1970-01-01T00:00:01.000Z one\n1970-01-01T00:00:01.000Z two\n1970-01-01T00:00:03.000Z three"
        );
    }
}
