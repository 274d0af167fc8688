//! Our stdin on its way to the process, one piece at a time, each until it is acknowledged.
//!
//! Invariant: a piece is dropped only when the process's own count says that it has it. On an unbroken connection
//! pieces are appended, so that several people can type; after a break the piece in question is sent again
//! with its offset, and what had arrived is not taken twice.
//!
//! The thread that reads our stdin may wait for ever; it ends with the program.

use std::io::Read as _;
use std::time::Duration;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Questions;
use hostel_doors::native::client::decode;
use hostel_doors::native::protocol::Stdin;
use hostel_doors::native::protocol::StdinApplied;
use hostel_doors::native::protocol::Target;
use hostel_doors::native::protocol::code;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::CommandError;

/// Bytes read and sent at once.
const PIECE: usize = 64 << 10;

/// How soon a full queue is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// What happens to the process's stdin when ours ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AtEnd {
    Close,
    LeaveOpen,
}

/// A piece that the process may or may not have yet.
struct Piece {
    data: Vec<u8>,
    /// Where it belongs, once a break has made that the question.
    offset: Option<u64>,
    /// The question it went out with on this connection.
    asked: Option<u64>,
}

/// The way of our stdin.
pub(crate) struct Input {
    pieces: mpsc::Receiver<Vec<u8>>,
    piece: Option<Piece>,
    /// What the process had taken when it last said so.
    applied: u64,
    at_end: AtEnd,
    /// Ours has ended.
    ended: bool,
    /// The question by which the process's was closed on this connection.
    closing: Option<u64>,
    closed: bool,
    /// The process takes no more.
    refused: bool,
    retry_at: Option<Instant>,
}

impl Input {
    /// Starts reading our stdin.
    pub(crate) fn start(at_end: AtEnd) -> Result<Self, CommandError> {
        let (sender, pieces) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || {
                let mut stdin = std::io::stdin();
                loop {
                    let mut data = vec![0; PIECE];
                    match stdin.read(&mut data) {
                        Ok(0) => return,
                        Ok(count) => data.truncate(count),
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                        // A terminal we may not read from is like one nobody types on.
                        Err(_) => return,
                    }
                    if sender.blocking_send(data).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| CommandError::failure(format!("cannot start a thread: {error}")))?;
        Ok(Input::from(pieces, at_end))
    }

    /// No input at all: the process's stdin is closed at once.
    pub(crate) fn empty() -> Self {
        let (_, pieces) = mpsc::channel(1);
        Input::from(pieces, AtEnd::Close)
    }

    fn from(pieces: mpsc::Receiver<Vec<u8>>, at_end: AtEnd) -> Self {
        Input {
            pieces,
            piece: None,
            applied: 0,
            at_end,
            ended: false,
            closing: None,
            closed: false,
            refused: false,
            retry_at: None,
        }
    }

    /// A connection is up: what is unanswered goes out again, from where the process stands.
    pub(crate) fn resume(&mut self, applied: u64, running: bool) {
        match &mut self.piece {
            Some(piece) => {
                if piece.asked.take().is_some() {
                    piece.offset = Some(self.applied);
                }
            }
            None => self.applied = applied,
        }
        self.closing = None;
        self.retry_at = None;
        self.refused = !running;
    }

    /// Sends what is due.
    pub(crate) async fn send(&mut self, questions: &mut Questions, id: &str) -> Result<(), ClientError> {
        if self.refused || self.retry_at.is_some_and(|at| at > Instant::now()) {
            return Ok(());
        }
        self.retry_at = None;
        if let Some(piece) = &mut self.piece {
            if piece.asked.is_none() {
                let params = Stdin {
                    id: id.to_owned(),
                    data: base64_simd::STANDARD.encode_to_string(&piece.data),
                    offset: piece.offset,
                };
                piece.asked = Some(questions.send("process/stdin", &params).await?);
            }
        } else if self.ended && self.at_end == AtEnd::Close && !self.closed && self.closing.is_none() {
            let params = Target { id: id.to_owned() };
            self.closing = Some(questions.send("process/close_stdin", &params).await?);
        }
        Ok(())
    }

    /// Takes an answer, if it is one of ours.
    pub(crate) fn answered(
        &mut self,
        id: u64,
        result: Result<Box<RawValue>, (i64, String)>,
    ) -> Result<(), ClientError> {
        if self.closing == Some(id) {
            self.closing = None;
            self.closed = true;
            return match decode::<serde_json::Value>(result) {
                Ok(_) => Ok(()),
                Err(error) if error.code() == Some(code::NOT_RUNNING) => Ok(()),
                Err(error) => {
                    self.closed = false;
                    Err(error)
                }
            };
        }
        let Some(piece) = self.piece.as_mut().filter(|piece| piece.asked == Some(id)) else {
            return Ok(());
        };
        match decode::<StdinApplied>(result) {
            Ok(answer) => {
                self.applied = answer.applied;
                self.piece = None;
                Ok(())
            }
            Err(error) if error.code() == Some(code::STDIN_FULL) => {
                piece.asked = None;
                self.retry_at = Some(Instant::now() + RETRY);
                Ok(())
            }
            Err(error) if error.code() == Some(code::NOT_RUNNING) => {
                self.refused = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for something to send: a piece, our end, or the time to try again. For ever if there is nothing to do.
    pub(crate) async fn progress(input: &mut Option<Input>) {
        let Some(input) = input else {
            return std::future::pending().await;
        };
        if let Some(at) = input.retry_at {
            return tokio::time::sleep_until(at).await;
        }
        if input.refused || input.piece.is_some() || input.ended {
            return std::future::pending().await;
        }
        match input.pieces.recv().await {
            Some(data) => {
                input.piece = Some(Piece { data, offset: None, asked: None });
            }
            None => input.ended = true,
        }
    }
}
