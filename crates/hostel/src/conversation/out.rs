//! The end of the line: text written to our standard streams by a thread of its own.
//!
//! Invariant: what is handed over is written in order. At most `DEPTH` things wait here, and a reader that does not
//! read stops this thread only, so that Ctrl-C goes on working.

use std::io;
use std::io::Write as _;

use hostel_doors::native::protocol::StreamName;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::page::Piece;
use crate::error::CommandError;

/// Things that may wait for the reader.
const DEPTH: usize = 16;

/// Something to do for the thread.
pub(super) enum Job {
    Write(Piece),
    /// Tell when everything before this is written.
    Tell(oneshot::Sender<()>),
}

/// The thread and the way to it.
pub(super) struct Out {
    jobs: Option<mpsc::Sender<Job>>,
    finished: oneshot::Receiver<io::Result<()>>,
}

impl Out {
    pub(super) fn start() -> Result<Self, CommandError> {
        let (jobs, incoming) = mpsc::channel(DEPTH);
        let (report, finished) = oneshot::channel();
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                // Nobody waits for the report once the session was given up.
                report.send(write_all(incoming)).unwrap_or_default();
            })
            .map_err(|error| CommandError::failure(format!("cannot start a thread: {error}")))?;
        Ok(Out { jobs: Some(jobs), finished })
    }

    /// Waits for room for one thing; none when the reader is gone.
    pub(super) async fn room(&self) -> Option<mpsc::Permit<'_, Job>> {
        match &self.jobs {
            Some(jobs) => jobs.reserve().await.ok(),
            None => None,
        }
    }

    /// Waits until everything handed over is written.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.jobs = None;
        match self.finished.await {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("the writing thread ended early")),
        }
    }
}

fn write_all(mut jobs: mpsc::Receiver<Job>) -> io::Result<()> {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Write(Piece { stream: StreamName::Stdout, text }) => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            // Nobody has to hear our remarks.
            Job::Write(Piece { stream: StreamName::Stderr, text }) => {
                io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default();
            }
            // Who asked may have left.
            Job::Tell(told) => told.send(()).unwrap_or_default(),
        }
    }
    Ok(())
}
