//! Input for a process, and whose it is.
//!
//! The input of a session's process or of a pipeline's stage is owned: what doors do on behalf of anybody
//! ([`Process::stdin`], [`Process::close_stdin`]) is refused here, and the keeper refuses it again. The owner shows the
//! keeper a token that follows from the house key, so a daemon that was killed and started again still has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{Builder, MAX_STDIN_BYTES, Outcome, kind, tag};

use super::House;
use super::link::{Answer, Gone, Ticket};
use super::process::Process;

/// Why input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StdinError {
    /// The process has ended.
    #[error("the process is not running")]
    NotRunning,
    /// The input starts past what was accepted.
    #[error("the input starts past what was accepted")]
    Gap,
    /// The queue is full; nothing was taken.
    #[error("the input queue is full")]
    Full,
    /// The input belongs to the session or the pipeline that the process serves.
    #[error(
        "the standard input of this process belongs to its session or pipeline; send a prompt to the session, or answer \
         its question, instead"
    )]
    Owned,
    /// The keeper could not be asked.
    #[error("{0}")]
    Keeper(String),
}

impl From<Gone> for StdinError {
    fn from(gone: Gone) -> Self {
        Self::Keeper(gone.to_string())
    }
}

/// What became of accepted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Input bytes accepted so far.
    pub applied: u64,
    /// All of this had been accepted before.
    pub duplicate: bool,
}

/// Input that stands in line; await [`StdinTicket::done`] for its fate.
pub struct StdinTicket {
    process: Arc<Process>,
    ticket: Ticket,
}

impl StdinTicket {
    /// Waits for the keeper's answer.
    pub async fn done(self) -> Result<Applied, StdinError> {
        match self.ticket.answer().await? {
            Answer::Input { applied, outcome } => {
                self.process.applied.fetch_max(applied, Ordering::Relaxed);
                match outcome {
                    Outcome::Accepted => Ok(Applied { applied, duplicate: false }),
                    Outcome::Duplicate => Ok(Applied { applied, duplicate: true }),
                    Outcome::Gap => Err(StdinError::Gap),
                    Outcome::Full => Err(StdinError::Full),
                    Outcome::Owned => Err(StdinError::Owned),
                    Outcome::NotRunning | Outcome::Unknown => Err(StdinError::NotRunning),
                }
            }
            Answer::Refused(text) => Err(StdinError::Keeper(text)),
            other => Err(StdinError::Keeper(format!("unexpected answer {other:?}"))),
        }
    }
}

fn with_owner<'a>(builder: Builder<'a>, owner: Option<&OwnerToken>) -> Builder<'a> {
    match owner {
        Some(token) => builder.bytes(tag::OWNER, token.as_bytes()),
        None => builder,
    }
}

impl Process {
    /// What the keeper wants to see before it takes input; none if anybody's is taken, or if this daemon cannot know it.
    fn owner_token(&self, house: &House) -> Option<&OwnerToken> {
        if !self.label.owned_input {
            return None;
        }
        if self.owner.get().is_none() {
            let token = house.owner_token(self.id)?;
            self.owner.get_or_init(|| token);
        }
        self.owner.get()
    }

    /// Offers input. When this returns, the input stands in line at the keeper; the ticket tells
    /// what became of it. `offset` is where the caller believes it starts; `None` appends.
    ///
    /// Input larger than the keeper takes at once goes in pieces, each accepted before the next.
    pub async fn stdin(self: &Arc<Self>, offset: Option<u64>, data: &[u8]) -> Result<StdinTicket, StdinError> {
        if self.is_input_owned() {
            return Err(StdinError::Owned);
        }
        let (mut offset, mut rest) = (offset, data);
        while rest.len() > MAX_STDIN_BYTES {
            let (piece, after) = rest.split_at(MAX_STDIN_BYTES);
            let applied = self.offer(offset, piece).await?.done().await?.applied;
            offset = Some(offset.map_or(applied, |offset| offset + piece.len() as u64));
            rest = after;
        }
        self.offer(offset, rest).await
    }

    async fn offer(self: &Arc<Self>, offset: Option<u64>, data: &[u8]) -> Result<StdinTicket, StdinError> {
        // The note of its end may be here before the keeper's other thread has heard of it.
        if self.progress.borrow().exit.is_some() {
            return Err(StdinError::NotRunning);
        }
        let house = self.house()?;
        let ticket = house.submit(|corr, out| {
            let mut builder = Builder::new(out, kind::STDIN, corr).bytes(tag::ID, &self.id.0).bytes(tag::BYTES, data);
            if let Some(offset) = offset {
                builder = builder.u64(tag::OFFSET, offset);
            }
            builder.finish();
        });
        Ok(StdinTicket { process: Arc::clone(self), ticket: ticket.await? })
    }

    /// Offers at most [`MAX_STDIN_BYTES`] of input at `offset` that are announced in the journal by `mark` before they
    /// reach the process.
    pub(crate) async fn stdin_marked(
        self: &Arc<Self>,
        offset: u64,
        data: &[u8],
        mark: u64,
    ) -> Result<Applied, StdinError> {
        if self.progress.borrow().exit.is_some() {
            return Err(StdinError::NotRunning);
        }
        let house = self.house()?;
        let owner = self.owner_token(&house);
        let ticket = house.submit(|corr, out| {
            let builder = Builder::new(out, kind::STDIN, corr)
                .bytes(tag::ID, &self.id.0)
                .u64(tag::OFFSET, offset)
                .u64(tag::MARK, mark);
            with_owner(builder, owner).bytes(tag::BYTES, data).finish();
        });
        StdinTicket { process: Arc::clone(self), ticket: ticket.await? }.done().await
    }

    /// Ends its input once all that was accepted is written.
    pub async fn close_stdin(self: &Arc<Self>) -> Result<(), StdinError> {
        if self.is_input_owned() {
            return Err(StdinError::Owned);
        }
        self.end_stdin().await
    }

    /// As [`Process::close_stdin`], by the owner of the input.
    pub(crate) async fn end_stdin(self: &Arc<Self>) -> Result<(), StdinError> {
        let house = self.house()?;
        let owner = self.owner_token(&house);
        let ticket = house.submit(|corr, out| {
            let builder = Builder::new(out, kind::CLOSE_STDIN, corr).bytes(tag::ID, &self.id.0);
            with_owner(builder, owner).finish();
        });
        StdinTicket { process: Arc::clone(self), ticket: ticket.await? }.done().await.map(drop)
    }
}
