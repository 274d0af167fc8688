//! Requests about letters: whether a message that came over a mesh is put to a session's agent.
//!
//! Invariant: such a request is written together with what its session notes about the letter, or not at all. What is
//! asked about is shown in full. A rule lets one through only if it says that it is about the mesh.

use std::time::Duration;

use rusqlite::Transaction;

use super::Approvals;
use super::asking::{Draft, blank};
use super::rules::{self, Facts};
use super::types::{Approval, RequestError, Requester, State, Subject, digest_of};
use crate::sessions::{LETTERS, Letter};

/// A letter to be asked about.
pub(crate) struct AboutLetter {
    /// The session's id, and what people call it.
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) letter: Letter,
    pub(crate) wait: Duration,
}

impl Approvals {
    /// Makes a request as part of a write. `before` is the beginning of that write: what it gives is the result, and
    /// nothing is asked. `after` is its end, with the request's id.
    pub(crate) async fn ask_about_letter<T: Send + 'static>(
        &self,
        about: AboutLetter,
        before: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Option<T>> + Send + 'static,
        after: impl FnOnce(&Transaction<'_>, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RequestError> {
        let draft = self.draft_letter(about)?;
        self.reserve()?;
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| {
            if let Some(done) = before(transaction)? {
                return Ok((None, done));
            }
            let approval = approvals.write(transaction, draft)?;
            let done = after(transaction, &approval.id)?;
            Ok((Some(approval), done))
        };
        let written = self.inner.store.write(work).await;
        let mut table = self.inner.table.lock();
        table.reserved = table.reserved.saturating_sub(1);
        let (made, done) = written?;
        if let Some(approval) = made {
            if approval.state == State::Pending {
                table.enter(approval);
            }
            drop(table);
            // Also where a rule has answered: whoever acts on it has to hear of it.
            self.tell();
        }
        Ok(done)
    }

    fn draft_letter(&self, about: AboutLetter) -> Result<Draft, RequestError> {
        let AboutLetter { session, name, letter, wait } = about;
        let summary = letter.summary(&name);
        // Not as the client: rules know clients by names, and a sender may call itself anything.
        let requester = Requester {
            door: LETTERS.to_owned(),
            session: session.clone(),
            host: letter.from.clone(),
            ..Requester::default()
        };
        let subject = Subject::Letter { session, name, letter };
        let text = subject.text().unwrap_or_default();
        let (size, limit) = (text.len() + summary.len(), self.inner.options.max_size);
        if size > limit {
            return Err(RequestError::TooLarge { size, limit });
        }
        let verdict = rules::judge(&self.inner.options.rules, Facts::of(&subject, &requester));
        let kind = subject.kind();
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let tool = kind.word().to_owned();
        let mut approval = Approval {
            requester,
            summary,
            digest: digest_of(&text),
            ..blank(tool, hostel_agents::Raw::null(), subject)
        };
        approval.expires_ns = approval.created_ns.saturating_add(wait);
        Draft::new(approval, None, text, verdict).map_err(RequestError::Store)
    }
}
