//! What a stage printed, from its journal, in pieces.
//!
//! Invariant: however much was printed, a reader holds one piece of it, and one who stops reading costs nothing.

use std::sync::Arc;

use hostel_journal::Totals;

use super::password::WithoutPrompts;
use super::run::{Live, RunError};
use crate::processes::{Batch, Item, Next, Process, Stream, Watch};

/// A journal of more than this is not read through for a stream that it may hold nothing of.
const WORTH_A_LOOK: u64 = 256 * 1024;

/// A cursor into one stream of one stage.
pub struct Output {
    live: Arc<Live>,
    stage: usize,
    stream: Stream,
    source: Source,
    /// Bytes that may still be handed out.
    left: u64,
    /// For the standard error of sudo, whose prompts are this program's words.
    filter: Option<WithoutPrompts>,
}

enum Source {
    /// It may not be started yet.
    Unopened,
    Open(Box<(Watch, Batch)>),
    /// There is nothing more.
    AtEnd,
}

impl Output {
    pub(super) fn of(live: &Arc<Live>, stage: usize, stream: Stream, limit: u64) -> Self {
        let filter = (stream == Stream::Err && live.may_ask_for_password()).then(WithoutPrompts::default);
        Self { live: Arc::clone(live), stage, stream, source: Source::Unopened, left: limit, filter }
    }

    /// Waits until there is something to read from, or there will not be.
    async fn open(&self) -> Source {
        let Some(process) = self.live.started(self.stage).await else { return Source::AtEnd };
        // A silent process that has ended has no journal; many are.
        let progress = *process.progress.borrow();
        if progress.exit.is_some() && !progress.has_file {
            return Source::AtEnd;
        }
        let is_large = progress.exit.is_some() && progress.committed > WORTH_A_LOOK;
        if is_large && process.printed().is_ok_and(|printed| printed.of(self.stream) == 0) {
            return Source::AtEnd;
        }
        process.watch(0).map_or(Source::AtEnd, |watch| Source::Open(Box::new((watch, Batch::default()))))
    }

    /// Appends the next piece, some tens of kilobytes, to `into` and returns its length; 0 at the end. Waits while the
    /// stage runs.
    pub async fn next(&mut self, into: &mut Vec<u8>) -> Result<usize, RunError> {
        self.hand(|part| into.extend_from_slice(part)).await
    }

    /// Likewise, but hands the piece out where it lies, in parts.
    pub async fn hand(&mut self, mut take: impl FnMut(&[u8])) -> Result<usize, RunError> {
        if matches!(self.source, Source::Unopened) {
            self.source = self.open().await;
        }
        while let Source::Open(source) = &mut self.source
            && self.left > 0
        {
            let (watch, batch) = source.as_mut();
            match watch.next(batch).await.map_err(|error| RunError::Output(error.to_string()))? {
                Next::Items => {}
                Next::Ended | Next::Replaced => {
                    self.source = Source::AtEnd;
                    break;
                }
            }
            let mut appended = 0;
            for item in batch.items() {
                if let Item::Output { stream, data, .. } = item
                    && stream == self.stream
                {
                    let length = data.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                    let data = &data[..length];
                    self.left -= length as u64;
                    match &mut self.filter {
                        None => {
                            take(data);
                            appended += length;
                        }
                        Some(filter) => filter.pass(data, |part| {
                            take(part);
                            appended += part.len();
                        }),
                    }
                }
            }
            if appended > 0 {
                return Ok(appended);
            }
        }
        let rest = self.filter.as_mut().map(WithoutPrompts::rest).unwrap_or_default();
        if !rest.is_empty() {
            take(&rest);
        }
        Ok(rest.len())
    }

    /// All of it. For little output, and tests.
    pub async fn read(mut self) -> Result<Vec<u8>, RunError> {
        let mut all = Vec::new();
        while self.next(&mut all).await? > 0 {}
        Ok(all)
    }
}

/// What a journal holds of each stream; of less than `limit` it is enough to know that. A process that could not be killed
/// has not ended: what is there now counts.
pub(super) fn kept(process: &Process, limit: u64) -> Totals {
    match process.progress.borrow().committed > limit {
        true => process.printed().unwrap_or_default(),
        false => Totals::default(),
    }
}
