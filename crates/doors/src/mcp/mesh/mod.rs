//! The tools about the mesh, through the mesh daemon's own surface.
//!
//! Invariant: a message has an id before it is handed on, so a call that failed halfway can be made again without sending
//! anything twice. No more is marked as read than was given. Every answer has a bounded size.
//!
//! Whoever asks is asked for as themselves: a session of the mesh as that session, everybody else as the member.
//!
//! It opens no connection and reads no file: finding the daemon of a mesh is the business of [`Mesh`].

pub(super) mod channel;

mod inbox;
mod peers;
mod sending;
mod tools;

pub(super) use inbox::inbox;
pub(super) use peers::peers;
pub(super) use sending::send;
pub(super) use tools::tools;

use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use serde_json::Value;

use super::Caller;
use super::Later;
use super::Server;

/// The most bytes of items in one answer.
const PAGE: usize = 256 << 10;

/// One question to a mesh daemon.
#[derive(Clone, Copy, Debug)]
pub struct MeshQuestion<'a> {
    /// The path, for example `/v1/peers`.
    pub path: &'a str,
    /// What goes after it; values as they are, those that are absent are left out.
    pub query: &'a [(&'a str, Option<&'a str>)],
    /// What is sent; without it, something is asked for.
    pub body: Option<&'a Value>,
}

/// What a mesh daemon said.
#[derive(Clone, Debug)]
pub struct MeshAnswer {
    /// The mesh it serves.
    pub mesh: String,
    /// Its answer.
    pub body: Value,
}

/// Something that happened in a mesh.
#[derive(Clone, Debug)]
pub struct MeshEvent {
    /// Where it stands; empty for what has no place of its own.
    pub id: String,
    /// What happened: `message`, or `gap` where something is missing.
    pub name: String,
    /// All about it.
    pub data: Value,
}

/// Events as they come. Dropping it is leaving.
pub trait MeshEvents: Send {
    /// The next one; none once the daemon has gone or cut us off.
    fn next(&mut self) -> Later<'_, Option<MeshEvent>>;
}

/// A mesh that is followed.
pub struct MeshFollowed {
    /// What happens in it.
    pub events: Box<dyn MeshEvents>,
    /// Whether it is followed for a session, whose mailbox is its own; else for the member.
    pub session: bool,
}

impl std::fmt::Debug for MeshFollowed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MeshFollowed").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Asks mesh daemons.
pub trait Mesh: Send + Sync + 'static {
    /// Asks the daemon of a mesh for a caller, `None` being the only one that is joined. What was refused, and that
    /// there is no mesh or no daemon, is an error in words that say what to do.
    fn ask<'a>(
        &'a self,
        caller: &'a Caller,
        mesh: Option<&'a str>,
        question: MeshQuestion<'a>,
    ) -> Later<'a, Result<MeshAnswer, String>>;

    /// The meshes that a caller can be told about: those that are joined.
    fn meshes<'a>(&'a self, caller: &'a Caller) -> Later<'a, Result<Vec<String>, String>>;

    /// The messages of a mesh for a caller, after the event `last` if one is given, else from now on.
    fn follow<'a>(
        &'a self,
        caller: &'a Caller,
        mesh: &'a str,
        last: Option<&'a str>,
    ) -> Later<'a, Result<MeshFollowed, String>>;
}

/// What the tools ask, for who calls and the mesh the call is about.
struct Line<'a> {
    mesh: &'a dyn Mesh,
    caller: &'a Caller,
    name: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(server: &'a Server, caller: &'a Caller, name: Option<&'a str>) -> Result<Self, String> {
        let mesh = server.mesh.as_deref().ok_or_else(|| "there is no mesh behind this server".to_owned())?;
        Ok(Line { mesh, caller, name })
    }

    async fn get(&self, path: &str, query: &[(&str, Option<&str>)]) -> Result<MeshAnswer, String> {
        self.mesh.ask(self.caller, self.name, MeshQuestion { path, query, body: None }).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<MeshAnswer, String> {
        self.mesh.ask(self.caller, self.name, MeshQuestion { path, query: &[], body: Some(body) }).await
    }
}

/// A result with a text of its own for who reads no structure.
fn told(text: String, content: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(content);
    result
}

/// A list of an answer.
fn list(mut answer: Value, key: &str) -> Vec<Value> {
    match answer.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A text of an item; nothing where it is not there.
fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// How many items there is room for; one always is.
fn fitting(items: &[Value]) -> usize {
    let mut bytes = 0;
    let fits = items.iter().take_while(|item| {
        bytes += item.to_string().len();
        bytes <= PAGE
    });
    fits.count().max(1).min(items.len())
}

/// A question as a test's daemon has heard it.
#[cfg(test)]
type Heard = (Option<String>, String, Vec<(String, String)>, Option<Value>);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// A daemon that gives the answers it was told to, and remembers what it was asked.
    #[derive(Default)]
    pub(super) struct Told {
        answers: Mutex<VecDeque<Result<Value, String>>>,
        pub(super) heard: Mutex<Vec<Heard>>,
        caller: Caller,
    }

    impl Told {
        pub(super) fn new(answers: impl IntoIterator<Item = Result<Value, String>>) -> Self {
            Told { answers: Mutex::new(answers.into_iter().collect()), ..Told::default() }
        }

        pub(super) fn line(&self) -> Line<'_> {
            Line { mesh: self, caller: &self.caller, name: Some("lab") }
        }
    }

    impl Mesh for Told {
        fn meshes<'a>(&'a self, _: &'a Caller) -> Later<'a, Result<Vec<String>, String>> {
            Box::pin(async { Ok(vec!["lab".to_owned()]) })
        }

        fn follow<'a>(
            &'a self,
            _: &'a Caller,
            _: &'a str,
            _: Option<&'a str>,
        ) -> Later<'a, Result<MeshFollowed, String>> {
            Box::pin(async { Err("nothing happens here".to_owned()) })
        }

        fn ask<'a>(
            &'a self,
            _: &'a Caller,
            mesh: Option<&'a str>,
            question: MeshQuestion<'a>,
        ) -> Later<'a, Result<MeshAnswer, String>> {
            let query = question.query.iter();
            let query = query.filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
            let heard = (mesh.map(str::to_owned), question.path.to_owned(), query.collect(), question.body.cloned());
            self.heard.lock().push(heard);
            let answer = self.answers.lock().pop_front().unwrap_or_else(|| Err("nothing more".to_owned()));
            Box::pin(async move { answer.map(|body| MeshAnswer { mesh: "lab".to_owned(), body }) })
        }
    }

    #[test]
    fn one_item_always_fits() {
        let item = json!("x".repeat(PAGE));
        assert_eq!(fitting(&[]), 0);
        assert_eq!(fitting(&[item.clone(), item.clone()]), 1);
        assert_eq!(fitting(&[json!("a"), json!("b"), item]), 2);
    }
}
