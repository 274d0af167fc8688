//! A session takes a letter: as a prompt, or as a request to a person.
//!
//! Invariant: everything here goes through the session's gate like any other prompt, and is one write. Where there is no
//! room nothing is written, so that the letter is looked at again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::rows::{self, State};
use super::{DOOR, Letter, MeshPolicy};
use crate::approvals::{AboutLetter, RequestError};
use crate::sessions::rights;
use crate::sessions::rows as tables;
use crate::sessions::session::Session;
use crate::sessions::state::Queued;
use crate::sessions::types::Standing;
use crate::sessions::{detached, now_ns};
use crate::store::StoreError;

/// What became of a letter that was brought.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Taken {
    /// It is a prompt: this turn.
    Queued(u64),
    /// A person is asked: this request.
    Asked(String),
    /// It was taken before.
    Known,
    /// It is too long for a prompt, and stays in the mailbox.
    TooLong,
    /// Too much waits already: to be brought again later.
    Full,
    /// The session takes no letters; it stays in the mailbox.
    Off,
    /// The session is closed; it stays in the mailbox.
    Closed,
}

/// Where a session's mailbox in a mesh is to be read from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MailPlace {
    /// What came then or later, in milliseconds of wall clock.
    pub since_ms: u64,
    /// The place of the last letter that was taken, in the mesh's own words.
    pub after: Option<String>,
}

impl Session {
    /// What becomes of messages for it.
    #[must_use]
    pub fn mesh(&self) -> MeshPolicy {
        self.change(|state| state.mesh)
    }

    /// What it is called in a mesh: the second half of `host/name`.
    #[must_use]
    pub fn address(&self) -> String {
        self.change(|state| state.address.clone())
    }

    /// Says what is to become of messages for it, from now on. Where they were left alone until now, those that have come
    /// stay in the mailbox; where they are left alone from now on, nobody is asked about them any more.
    pub async fn set_mesh(self: &Arc<Self>, policy: MeshPolicy) -> Result<(), StoreError> {
        let session = Arc::clone(self);
        detached(async move { session.set_mesh_now(policy).await }).await?
    }

    async fn set_mesh_now(self: &Arc<Self>, policy: MeshPolicy) -> Result<(), StoreError> {
        let withdrawn = {
            let _gate = self.gate.lock().await;
            let before = self.mesh();
            if before == policy {
                return Ok(());
            }
            let (no, now) = (self.no(), now_ns() / 1_000_000);
            let ledger = Arc::clone(self.hub.approvals.ledger());
            let write = move |transaction: &Transaction<'_>| {
                rights::change(transaction, &ledger, no, |rights| rights.mesh = policy.word().to_owned())?;
                if before == MeshPolicy::Off {
                    rows::begin_anew(transaction, no, now)?;
                }
                match policy {
                    MeshPolicy::Off => rows::asked_of(transaction, no),
                    MeshPolicy::Ask | MeshPolicy::On => Ok(Vec::new()),
                }
            };
            let asked = self.hub.store.write(points::MAIL_POLICY, write).await?;
            self.change(|state| state.mesh = policy);
            asked
        };
        for request in withdrawn {
            self.hub.approvals.withdraw_request(&request, "the session takes no messages any more").await?;
        }
        self.hub.tell();
        Ok(())
    }

    /// Where its mailbox in a mesh is to be read from.
    pub async fn mail_place(&self, mesh_id: &str) -> Result<MailPlace, StoreError> {
        let (no, mesh) = (self.no(), mesh_id.to_owned());
        let read = move |connection: &rusqlite::Connection| {
            Ok(MailPlace { since_ms: rows::since(connection, no)?, after: rows::place(connection, no, &mesh)? })
        };
        self.hub.store.read(read).await
    }

    /// A message in the mailbox is none for an agent: it is passed over.
    pub async fn pass_letter(&self, mesh_id: &str, place: &str) -> Result<(), StoreError> {
        let (no, mesh, place) = (self.no(), mesh_id.to_owned(), place.to_owned());
        self.hub
            .store
            .write(points::MAIL_PASSED, move |transaction| rows::set_place(transaction, no, &mesh, &place))
            .await
    }

    /// Takes a letter, if it is to be taken. When this says so it is on disk, with the place it had in the mailbox, and
    /// will be put to the agent, or to a person, exactly once.
    pub async fn take_letter(self: &Arc<Self>, letter: Letter, place: String) -> Result<Taken, StoreError> {
        let session = Arc::clone(self);
        detached(async move { session.take_now(letter, place).await }).await?
    }

    async fn take_now(self: &Arc<Self>, letter: Letter, place: String) -> Result<Taken, StoreError> {
        let _gate = self.gate.lock().await;
        let (standing, policy) = self.change(|state| (state.standing, state.mesh));
        if standing != Standing::Live {
            return Ok(Taken::Closed);
        }
        let limit = self.hub.options.mail.size.min(self.hub.options.prompt_limit);
        let prompt = match policy {
            MeshPolicy::Off => return Ok(Taken::Off),
            MeshPolicy::Ask | MeshPolicy::On => letter.prompt(boundary()),
        };
        if letter.text.len() > limit || prompt.len() > self.hub.options.prompt_limit {
            return self.keep(letter, place).await;
        }
        match policy {
            // What nobody has proven to be a member's is nobody's word: a person has to look at it.
            MeshPolicy::On if letter.verified => self.queue(letter, place, prompt).await,
            _ => self.ask_about(letter, place).await,
        }
    }

    /// It is noted and left where it is.
    async fn keep(&self, letter: Letter, place: String) -> Result<Taken, StoreError> {
        let (no, now) = (self.no(), now_ns());
        let write = move |transaction: &Transaction<'_>| {
            let known = rows::is_known(transaction, &letter)?;
            if !known {
                rows::insert(transaction, no, &letter, State::Kept, None, 0, now)?;
            }
            rows::set_place(transaction, no, &letter.mesh_id, &place)?;
            Ok(known)
        };
        Ok(if self.hub.store.write(points::MAIL_KEPT, write).await? { Taken::Known } else { Taken::TooLong })
    }

    async fn queue(self: &Arc<Self>, letter: Letter, place: String, prompt: String) -> Result<Taken, StoreError> {
        let Some(turn) = self.room_for_letter() else {
            // What was taken before needs none.
            return self.pass_if_known(letter, place).await;
        };
        let (no, now, text) = (self.no(), now_ns(), prompt.clone());
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let write = move |transaction: &Transaction<'_>| {
            let known = rows::is_known(transaction, &letter)?;
            if !known {
                tables::insert_turn(transaction, &ledger, no, turn, &text, DOOR, now)?;
                rows::insert(transaction, no, &letter, State::Queued, None, turn, now)?;
            }
            rows::set_place(transaction, no, &letter.mesh_id, &place)?;
            Ok(known)
        };
        if self.hub.store.write(points::MAIL_QUEUED, write).await? {
            return Ok(Taken::Known);
        }
        self.enter_letter(turn, prompt, now);
        Ok(Taken::Queued(turn))
    }

    async fn pass_if_known(&self, letter: Letter, place: String) -> Result<Taken, StoreError> {
        let no = self.no();
        let write = move |transaction: &Transaction<'_>| {
            let known = rows::is_known(transaction, &letter)?;
            if known {
                rows::set_place(transaction, no, &letter.mesh_id, &place)?;
            }
            Ok(known)
        };
        Ok(if self.hub.store.write(points::MAIL_PASSED, write).await? { Taken::Known } else { Taken::Full })
    }

    /// The turn a letter would be, if there is room for one. The other half of the queue is people's.
    pub(super) fn room_for_letter(&self) -> Option<u64> {
        let most = self.hub.options.queue.div_ceil(2);
        self.change(|state| {
            let full = state.has_turn() && state.waiting() >= most;
            (!full).then_some(state.turns + 1)
        })
    }

    /// A letter is on disk as a prompt.
    pub(super) fn enter_letter(self: &Arc<Self>, turn: u64, prompt: String, now: u64) {
        self.change(|state| {
            state.turns = turn;
            state.active_ns = now;
            state.queue.push_back(Queued { turn, prompt, door: DOOR.to_owned(), unproved: false });
        });
        self.ensure_runner();
    }

    async fn ask_about(&self, letter: Letter, place: String) -> Result<Taken, StoreError> {
        let limits = self.hub.options.mail;
        let (name, id) = self.change(|state| (state.name.clone(), self.id().to_owned()));
        let about = AboutLetter {
            session: id,
            name: name.unwrap_or_else(|| self.address()),
            letter: letter.clone(),
            wait: limits.wait,
        };
        let (no, now) = (self.no(), now_ns());
        let (seen, kept) = ((letter.clone(), place.clone()), (letter.clone(), place.clone()));
        let before = move |transaction: &Transaction<'_>| {
            let (letter, place) = seen;
            if rows::is_known(transaction, &letter)? {
                rows::set_place(transaction, no, &letter.mesh_id, &place)?;
                return Ok(Some(Taken::Known));
            }
            Ok((rows::asked(transaction, no)? >= limits.asked).then_some(Taken::Full))
        };
        let after = move |transaction: &Transaction<'_>, request: &str| {
            rows::insert(transaction, no, &letter, State::Asked, Some(request), 0, now)?;
            rows::set_place(transaction, no, &letter.mesh_id, &place)?;
            Ok(Taken::Asked(request.to_owned()))
        };
        // Before and after: whoever looks in between must not take it back.
        self.hub.letters_asked.store(true, Ordering::Release);
        match self.hub.approvals.ask_about_letter(about, before, after).await {
            Ok(taken) => {
                self.hub.letters_asked.store(true, Ordering::Release);
                self.hub.letter_asked.notify_one();
                Ok(taken)
            }
            Err(RequestError::Full(_)) => Ok(Taken::Full),
            // Larger than anything a person is shown.
            Err(RequestError::TooLarge { .. }) => self.keep(kept.0, kept.1).await,
            Err(RequestError::Store(error)) => Err(error),
        }
    }
}

/// A number nobody knows.
pub(super) fn boundary() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}
