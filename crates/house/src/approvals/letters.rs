//! Requests about letters: whether a message that came over a mesh is put to a session's agent.
//!
//! Invariant: such a request is written together with what its session notes about the letter, or not at all. What is
//! asked about is shown in full. A rule lets one through only if it says that it is about the mesh, and only if the sender
//! is verified.

use std::time::Duration;

use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::asking::{Draft, blank};
use super::checking::Found;
use super::rules::{self, Action, Facts, Verdict};
use super::types::{Approval, RequestError, Requester, State, Subject, digest_of};
use super::{Approvals, rows};
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
        let written = self.inner.store.write(points::MAIL_ASKED, work).await;
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

    /// Takes the answer to a request about a letter, once: `true` if the house itself has agreed and the letter has not been
    /// put to the agent. Part of the write that does so.
    pub(crate) fn take_letter_answer(&self, transaction: &Transaction<'_>, no: u64) -> rusqlite::Result<bool> {
        match self.look(transaction, no)? {
            Found::Ours(mut approval) if approval.state == State::Approved => {
                rows::close(transaction, &self.inner.ledger, &mut approval)?;
                Ok(true)
            }
            Found::Ours(_) | Found::Closed | Found::Changed(_) => Ok(false),
        }
    }

    fn draft_letter(&self, about: AboutLetter) -> Result<Draft, RequestError> {
        let AboutLetter { session, name, letter, wait } = about;
        let is_verified = letter.verified;
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
        let mut verdict = rules::judge(&self.policy().rules, Facts::of(&subject, &requester));
        if !is_verified && verdict.action == Action::Allow {
            // Whoever wrote the rule meant members, and nobody has proven that this is of one.
            verdict = Verdict { action: Action::Ask, rule: String::new() };
        }
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
        Draft::new(approval, text, verdict).map_err(RequestError::Store)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rule;
    use super::super::testing::inbox;
    use super::super::{Glob, Kind};
    use super::*;

    fn about(text: &str) -> AboutLetter {
        let letter = Letter {
            mesh_id: "m".to_owned(),
            mesh: "home".to_owned(),
            sender: "member".to_owned(),
            from: "ann".to_owned(),
            from_key: "00".to_owned(),
            message: "id".to_owned(),
            reply_to: None,
            text: text.to_owned(),
            verified: true,
        };
        AboutLetter { session: "s-1".to_owned(), name: "main".to_owned(), letter, wait: Duration::from_secs(60) }
    }

    #[tokio::test]
    async fn a_letter_is_asked_about_in_full_and_rules_know_where_it_came_from() {
        let allow = |name: &str, requester: &str, session: &str| Rule {
            name: name.to_owned(),
            action: Action::Allow,
            requester: Some(Glob::new(requester).unwrap()),
            session: Some(Glob::new(session).unwrap()),
            cwd: None,
            tool: None,
            argv: None,
            env: None,
            privileged: None,
        };
        // A sender may call itself anything.
        let rules =
            vec![allow("as told", "ann", "s-1"), allow("another", LETTERS, "s-2"), allow("this", LETTERS, "s-1")];
        let (_directory, approvals) = inbox(|options| options.rules = rules).await;
        let Draft { approval, text, verdict, .. } = approvals.draft_letter(about("hello")).unwrap();
        assert_eq!((approval.stored.session, verdict.action, verdict.rule.as_str()), (None, Action::Allow, "this"));
        let mut unverified = about("hello");
        unverified.letter.verified = false;
        let asked = approvals.draft_letter(unverified).unwrap().verdict;
        assert_eq!((asked.action, asked.rule.as_str()), (Action::Ask, ""), "a rule speaks of members");
        let AboutLetter { session, name, letter, .. } = about("hello");
        let subject = Subject::Letter { session, name, letter };
        assert_eq!((&approval.subject, approval.kind, Some(text.clone())), (&subject, Kind::Letter, subject.text()));
        assert_eq!(approval.digest, digest_of(&text));
        assert_eq!(approval.summary, about("").letter.summary("main"));
        assert_eq!(approval.expires_ns - approval.created_ns, 60_000_000_000);
        let asker = Requester {
            door: LETTERS.to_owned(),
            session: "s-1".to_owned(),
            host: "ann".to_owned(),
            ..Requester::default()
        };
        assert_eq!((approval.requester, approval.session.as_str()), (asker, ""));
    }

    #[tokio::test]
    async fn a_letter_that_is_too_long_to_be_asked_about_is_not() {
        let text = |length| Subject::Letter {
            session: "s-1".to_owned(),
            name: "main".to_owned(),
            letter: about(&"x".repeat(length)).letter,
        };
        let most = text(100).text().unwrap().len() + about("").letter.summary("main").len();
        let (_directory, approvals) = inbox(|options| options.max_size = most).await;
        approvals.draft_letter(about(&"x".repeat(100))).unwrap();
        let Err(RequestError::TooLarge { size, limit }) = approvals.draft_letter(about(&"x".repeat(101))) else {
            panic!("it was taken");
        };
        assert_eq!((size, limit), (most + 1, most));
    }
}
