//! The sessions of a house as siblings of its member: seen by peers, and with tokens of their own.
//!
//! Invariant: a token is in memory and in one private file, and is given to nobody but mesh daemons of this user. The file
//! is there only once a daemon knows the token: until then, what a session says is the member's word.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_house::sessions::Session;
use hostel_house::sessions::Sessions;
use hostel_mesh::home::files;
use hostel_syncpoint::points;
use hyper::Method;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;
use zeroize::Zeroizing;

use super::Bag;
use crate::mesh::client::Client;
use crate::mesh::failure::Failure;

/// Sessions that are shown to peers: those used last. The others have an address and a mailbox all the same.
const MOST: usize = 64;

/// The most of a token's file that is read.
const FILE: u64 = 256;

/// The tokens of sessions.
pub(super) struct Tokens {
    directory: PathBuf,
    /// By session.
    known: Mutex<HashMap<String, Token>>,
}

#[derive(Clone)]
struct Token {
    text: Zeroizing<String>,
    /// It is in its file.
    kept: bool,
}

impl Tokens {
    pub(super) fn new(directory: PathBuf) -> Self {
        Tokens { directory, known: Mutex::default() }
    }

    /// Removes the directories of sessions that are gone. A session that comes back gets a new one.
    pub(super) fn sweep(&self, sessions: &Sessions) {
        // In this order: a session is known before its directory is made.
        let found: Vec<_> = std::fs::read_dir(&self.directory).into_iter().flatten().flatten().collect();
        let live = sessions.list();
        let known: HashSet<PathBuf> =
            live.iter().filter_map(|session| Some(path(session)?.parent()?.to_owned())).collect();
        for own in found.into_iter().map(|entry| entry.path()).filter(|own| own.is_dir() && !known.contains(own)) {
            std::fs::remove_dir_all(own).unwrap_or_default();
        }
    }

    /// The token of a session: the one of before a restart if its file is there, else a new one.
    fn of(&self, session: &Session) -> Option<Token> {
        let path = path(session)?;
        let mut known = self.known.lock();
        if let Some(token) = known.get(session.id()) {
            return Some(token.clone());
        }
        let token = match read(&path) {
            Some(text) => Token { text, kept: true },
            None => Token { text: draw()?, kept: false },
        };
        known.insert(session.id().to_owned(), token.clone());
        Some(token)
    }

    /// A daemon knows the token: the session may use it.
    fn keep(&self, session: &Session, token: &Token) -> std::io::Result<()> {
        let Some(path) = path(session).filter(|_| !token.kept) else { return Ok(()) };
        if let Some(own) = path.parent() {
            files::make_private_dir(&self.directory)?;
            files::make_private_dir(own)?;
        }
        let text = Zeroizing::new(format!("{}\n", token.text.as_str()));
        points::POSTMAN_TOKEN.reach_if_ok(files::write_atomic(&path, text.as_bytes(), 0o600))?;
        if let Some(token) = self.known.lock().get_mut(session.id()) {
            token.kept = true;
        }
        Ok(())
    }

    /// A session has gone.
    fn forget(&self, session: &Session) {
        self.known.lock().remove(session.id());
        if let Some(path) = path(session) {
            // Often there is none.
            std::fs::remove_file(&path).unwrap_or_default();
            if let Some(own) = path.parent() {
                std::fs::remove_dir(own).unwrap_or_default();
            }
        }
    }
}

fn path(session: &Session) -> Option<PathBuf> {
    session.own_file().map(|(_, path)| PathBuf::from(path))
}

/// The token in a file, if there is one.
pub(super) fn read(path: &Path) -> Option<Zeroizing<String>> {
    let bytes = Zeroizing::new(files::read_bounded(path, FILE).ok()??);
    let text = std::str::from_utf8(&bytes).ok()?.trim();
    let fits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| Zeroizing::new(text.to_owned()))
}

fn draw() -> Option<Zeroizing<String>> {
    let mut chance = Zeroizing::new([0_u8; 32]);
    getrandom::fill(chance.as_mut()).ok()?;
    Some(Zeroizing::new(chance.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// What one mesh daemon knows of our sessions.
pub(super) struct Register<'a> {
    client: &'a Client,
    mesh: &'a str,
    bag: &'a Bag,
    /// By session: under which address.
    entered: BTreeMap<String, (String, Arc<Session>)>,
}

impl<'a> Register<'a> {
    pub(super) fn new(client: &'a Client, mesh: &'a str, bag: &'a Bag) -> Self {
        Register { client, mesh, bag, entered: BTreeMap::new() }
    }

    /// Enters those that came, and strikes out those that went or are called otherwise.
    pub(super) async fn update(&mut self) -> Result<(), Failure> {
        let mut live = self.bag.sessions.list();
        live.retain(|session| !session.has_own_token());
        live.sort_by_key(|session| std::cmp::Reverse(session.info().active_ns));
        live.truncate(MOST);
        let now: BTreeMap<String, (String, Arc<Session>)> =
            live.into_iter().map(|session| (session.id().to_owned(), (session.address(), session))).collect();
        let stale: Vec<String> = self
            .entered
            .iter()
            .filter(|(id, (address, _))| now.get(*id).is_none_or(|(other, _)| other != address))
            .map(|(id, _)| id.clone())
            .collect();
        for id in stale {
            if let Some((_, session)) = self.entered.remove(&id) {
                self.strike(&session).await;
            }
        }
        for (id, (address, session)) in now {
            if !self.entered.contains_key(&id) && self.enter(&address, &session).await? {
                self.entered.insert(id, (address, session));
            }
        }
        Ok(())
    }

    async fn enter(&self, address: &str, session: &Arc<Session>) -> Result<bool, Failure> {
        let Some(token) = self.bag.tokens.of(session) else { return Ok(false) };
        let body = json!({
            "token": token.text.as_str(),
            "session_id": address,
            "display_name": address,
            "pid": std::process::id(),
            "presence": true,
        });
        let answer = self.client.ask(Method::POST, "/v1/sessions/register", Some(&body)).await?;
        if answer.status != 200 {
            let why = answer.body.get("detail").and_then(Value::as_str).unwrap_or_default();
            let mesh = self.mesh;
            self.bag.log.warn(format_args!("[postman] session {address} is not shown to peers of {mesh}: {why}"));
            return Ok(false);
        }
        if let Err(error) = self.bag.tokens.keep(session, &token) {
            self.bag.log.warn(format_args!("[postman] the token of session {address} cannot be kept: {error}"));
        }
        Ok(true)
    }

    /// It is gone, or called otherwise. What cannot be struck out ends with this process.
    async fn strike(&self, session: &Arc<Session>) {
        let Some(token) = self.bag.tokens.of(session) else { return };
        let target = Zeroizing::new(format!("/v1/sessions/{}", token.text.as_str()));
        drop(self.client.ask(Method::DELETE, &target, None).await);
        if self.bag.sessions.get(session.id()).is_none() {
            self.bag.tokens.forget(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_nothing_else_is() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        assert!(read(&path).is_none());
        let token = draw().unwrap();
        assert_ne!(token, draw().unwrap());
        files::write_atomic(&path, format!("{}\n", token.as_str()).as_bytes(), 0o600).unwrap();
        assert_eq!(read(&path).unwrap(), token);
        for wrong in ["", "abc", &"x".repeat(64), &"a".repeat(65)] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read(&path).is_none(), "{wrong}");
        }
    }
}
