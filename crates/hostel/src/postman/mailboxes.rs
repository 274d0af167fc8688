//! Whose the mailboxes of a mesh are.
//!
//! Invariant: a mailbox is one session's at a time. A session that was launched has the mailbox of its name, in its own mesh
//! and only while the mesh knows its token: one whose command is gone takes nothing, and leaves the mailbox to who
//! comes next. Every other session has the mailbox of its address.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_house::sessions::MeshPolicy;
use hostel_house::sessions::Session;
use hyper::Method;
use serde_json::Value;

use super::register;
use crate::mesh::client::Client;
use crate::mesh::failure::Failure;

/// A session that may have a mailbox.
#[derive(Clone)]
struct Candidate {
    session: Arc<Session>,
    /// The file with its token, where it was launched.
    token: Option<PathBuf>,
    /// It wants what comes there.
    takes: bool,
}

impl Candidate {
    fn is(&self, other: &Candidate) -> bool {
        Arc::ptr_eq(&self.session, &other.session) && self.takes == other.takes
    }
}

/// The mailboxes of one mesh that somebody may take something from.
pub(super) struct Mailboxes<'a> {
    client: &'a Client,
    mesh: &'a str,
    /// By address; who counts first stands first.
    known: BTreeMap<String, Vec<Candidate>>,
}

impl<'a> Mailboxes<'a> {
    pub(super) fn new(client: &'a Client, mesh: &'a str) -> Self {
        Mailboxes { client, mesh, known: BTreeMap::new() }
    }

    /// Looks at the sessions again; gives the addresses whose mailboxes may be somebody else's than until now.
    pub(super) fn changed(&mut self, mut live: Vec<Arc<Session>>) -> Vec<String> {
        // What a launched session starts may have its environment; the session itself was there before.
        live.sort_by_cached_key(|session| (session.launched().is_none(), session.info().created_ns));
        let mut now: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        for session in live {
            let (address, token) = match session.launched() {
                Some(launched) if launched.mesh == self.mesh => (launched.name, Some(launched.token_file)),
                None if !session.has_own_token() => (session.address(), None),
                _ => continue,
            };
            let takes = session.mesh() != MeshPolicy::Off;
            now.entry(address).or_default().push(Candidate { session, token, takes });
        }
        now.retain(|_, candidates| candidates.iter().any(|candidate| candidate.takes));
        let before = std::mem::replace(&mut self.known, now);
        let is_new = |(address, candidates): &(&String, &Vec<Candidate>)| {
            let same = |old: &Vec<Candidate>| {
                old.len() == candidates.len() && old.iter().zip(*candidates).all(|(old, new)| old.is(new))
            };
            !before.get(*address).is_some_and(same)
        };
        self.known.iter().filter(is_new).map(|(address, _)| address.clone()).collect()
    }

    pub(super) fn has(&self, address: &str) -> bool {
        self.known.contains_key(address)
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.known.keys().cloned().collect()
    }

    /// The session a mailbox is of now, if it wants what is there.
    pub(super) async fn taker(&self, address: &str) -> Result<Option<Arc<Session>>, Failure> {
        for candidate in self.known.get(address).into_iter().flatten() {
            let has = match &candidate.token {
                Some(file) => self.is_there(file, address).await?,
                None => true,
            };
            if has {
                return Ok(candidate.takes.then(|| Arc::clone(&candidate.session)));
            }
        }
        Ok(None)
    }

    /// Whether the mesh knows a launched session under this address.
    async fn is_there(&self, file: &Path, address: &str) -> Result<bool, Failure> {
        let Some(token) = register::read(file) else { return Ok(false) };
        let session = self.client.clone().speaking(Some(token));
        let answer = session.ask(Method::GET, "/v1/sessions/me", None).await?;
        match answer.status {
            200 => Ok(answer.body.get("session_id").and_then(Value::as_str) == Some(address)),
            401 => Ok(false),
            // Nobody else may have the mailbox because the daemon has no time to say whose it is.
            status => Err(Failure::refused(status, &answer.body)),
        }
    }
}
