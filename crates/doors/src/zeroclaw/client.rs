//! One client: its requests one after the other, its turns and streams beside them.
//!
//! Invariant: a request is answered before the next one is looked at, except `session/prompt`, which is registered
//! before and answered when its turn is over.

use std::io;
use std::sync::Arc;

use hostel_agents::Raw;
use hostel_tasks::SpawnBoxed as _;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::Door;
use super::Face;
use super::PROTOCOL_VERSION;
use super::Params;
use super::Peer;
use super::PeerNames as _;
use super::access;
use super::agents;
use super::approvals;
use super::attach;
use super::attach::Streams;
use super::code;
use super::decide;
use super::door::Known;
use super::export;
use super::fs;
use super::health;
use super::identity::Key;
use super::listing;
use super::methods;
use super::new;
use super::prompt;
use super::sessions;
use super::time;
use super::visitor::Identity;
use super::visitor::Visitor;
use crate::rpc::Failure;
use crate::rpc::Outcome;
use crate::rpc::Writer;

/// What is said to a client that introduces itself.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    /// The version to report.
    pub(crate) version: String,
    /// Methods served beside ours.
    pub(crate) more: &'static [&'static str],
    /// Who comes over a network has shown the token already.
    pub(crate) admitted: bool,
}

/// A client.
pub(crate) struct Client {
    visitor: Arc<Visitor>,
    /// Turns; they are answered even when the client has finished sending.
    pub(super) work: JoinSet<()>,
    /// What goes on until the client leaves.
    pub(super) live: JoinSet<()>,
    pub(super) streams: Streams,
    watches_approvals: bool,
    shows_logs: bool,
}

impl Client {
    pub(crate) fn new(door: Door, face: Face, peer: Peer, writer: Writer, greeting: Greeting) -> Self {
        Client {
            visitor: Arc::new(Visitor::new(door, face, peer, writer, greeting)),
            work: JoinSet::new(),
            live: JoinSet::new(),
            streams: Streams::default(),
            watches_approvals: false,
            shows_logs: false,
        }
    }

    pub(super) fn visitor(&self) -> &Arc<Visitor> {
        &self.visitor
    }

    /// Whether it has introduced itself.
    pub(crate) fn is_initialized(&self) -> bool {
        self.visitor.identity().is_some()
    }

    /// Serves one request. An error is the connection's.
    pub(crate) async fn call(&mut self, id: Option<Raw>, name: &str, params: Option<Value>) -> io::Result<()> {
        while self.work.try_join_next().is_some() {}
        while self.live.try_join_next().is_some() {}
        let Some(method) = methods::named(name, self.visitor.face.is_native()) else {
            let failure = Failure::new(code::METHOD, format!("there is no method `{name}`"));
            return self.visitor.answer(id.as_ref(), Err(failure)).await;
        };
        if name != "initialize" && !self.is_initialized() {
            let failure = Failure::new(code::AUTH, "initialize first");
            return self.visitor.answer(id.as_ref(), Err(failure)).await;
        }
        let params = match method.fields {
            [] => Ok(Params::default()),
            fields => Params::read(params.unwrap_or(Value::Null), fields),
        };
        let params = match params {
            Ok(params) => access::check(&self.visitor, name, &params).await.map(|()| params),
            Err(failure) => Err(failure),
        };
        match (name, params) {
            ("session/prompt", params) => prompt::begin(self, id, params).await,
            (_, Err(failure)) => self.visitor.answer(id.as_ref(), Err(failure)).await,
            ("session/attach", Ok(params)) => attach::begin(self, id, &params).await,
            (_, Ok(params)) => {
                let outcome = self.dispatch(name, &params).await;
                let done = outcome.is_ok();
                self.visitor.answer(id.as_ref(), outcome).await?;
                if done {
                    self.afterwards(name, &params);
                }
                Ok(())
            }
        }
    }

    /// The answer to a question of ours.
    pub(crate) fn answered(&self, id: Option<&Value>, result: Option<Value>) {
        let known = id.and_then(Value::as_str).is_some_and(|id| self.visitor.questions.resolve(id, result));
        if !known {
            let label = self.visitor.peer.label();
            self.visitor.house().log.debug(format_args!("[zeroclaw] {label}: an answer to nothing was dropped"));
        }
    }

    async fn dispatch(&mut self, name: &str, params: &Params) -> Outcome {
        let visitor = &*self.visitor;
        match name {
            "initialize" => self.initialize(params),
            "status" => listing::status(visitor).await,
            "health" => Ok(health::health(visitor)),
            "tui/list" => Ok(listing::clients(visitor)),
            "session/new" => new::new(visitor, params).await,
            "session/send" => prompt::send(visitor, params).await,
            "session/cancel" => sessions::cancel(visitor, params).await,
            "session/interrupt" => sessions::interrupt(visitor, params).await,
            "session/close" => sessions::close(visitor, params).await,
            "session/kill" => sessions::kill(visitor, params).await,
            "session/delete" => sessions::delete(visitor, params).await,
            "session/detach" => attach::detach(&mut self.streams, params),
            "session/approve" => decide::approve(visitor, params).await,
            "session/configure" => sessions::configure(visitor, params).await,
            "session/list" => listing::list(visitor, params).await,
            "session/messages" => listing::messages(visitor, params).await,
            "session/state" => sessions::state(visitor, params).await,
            "session/git_branch" => sessions::git_branch(visitor, params).await,
            "file/attach" => prompt::attach_files(visitor, params).await,
            "fs/list_dir" => fs::list_dir(params).await,
            "agents/list" => Ok(agents::list(visitor)),
            "agents/status" => agents::status(visitor).await,
            "logs/subscribe" => Ok(json!({"subscribed": true})),
            "logs/query" => visitor.house().settings.logs.query(params),
            "config/sections" => Ok(json!({"sections": []})),
            "config/templates" => Ok(json!({"templates": []})),
            "session/export" => export::export(visitor, params).await,
            other => Err(Failure::new(code::METHOD, format!("there is no method `{other}`"))),
        }
    }

    /// What begins once a request is answered.
    fn afterwards(&mut self, name: &str, params: &Params) {
        let visitor = &self.visitor;
        match name {
            "session/new" => self.watch_approvals(),
            // Who takes up an earlier identity has its sessions back, and what they ask.
            "initialize" if matches!(params.get("tui_id"), Ok(Some(_))) => self.watch_approvals(),
            "logs/subscribe" if !std::mem::replace(&mut self.shows_logs, true) => {
                self.live.spawn_boxed(health::show_logs(Arc::clone(visitor)));
            }
            _ => {}
        }
    }

    fn watch_approvals(&mut self) {
        self.visitor.poked.notify_one();
        if !std::mem::replace(&mut self.watches_approvals, true) {
            self.live.spawn_boxed(approvals::announce(Arc::clone(&self.visitor)));
        }
    }

    fn initialize(&self, params: &Params) -> Outcome {
        let visitor = &self.visitor;
        let settings = &visitor.house().settings;
        let asked = params.number("protocol_version")?.unwrap_or(PROTOCOL_VERSION);
        if asked != PROTOCOL_VERSION {
            let message = format!("protocol version {asked} is not spoken here, only {PROTOCOL_VERSION}");
            return Err(Failure::new(code::VERSION, message));
        }
        let shown = params.text("auth_token")?.unwrap_or_default();
        let admitted = visitor.peer.is_local()
            || visitor.greeting.admitted
            || settings.token.as_ref().is_some_and(|token| token.matches(shown.as_bytes()));
        if !admitted {
            return Err(Failure::new(code::AUTH, "show the token: as a bearer, or as `auth_token`"));
        }
        let key = Key::load(&settings.data_dir);
        let tui_id = key.identify(params.text("tui_id")?, params.text("tui_sig")?)?;
        let env = Arc::new(params.texts("env")?);
        let form = params.get("client_capabilities")?.and_then(|able| able.pointer("/elicitation/form"));
        visitor.set_identity(Identity { id: tui_id.clone(), env, elicits: form.is_some_and(|form| !form.is_null()) });
        let known = Known {
            id: tui_id.clone(),
            connected_ns: time::now_ns(),
            label: visitor.peer.label(),
            transport: visitor.peer.transport(),
        };
        visitor.house().log.debug(format_args!("[zeroclaw] {} is {tui_id}", known.label));
        visitor.house().known.lock().insert(visitor.number, known);
        let capabilities: Vec<&str> =
            methods::names(visitor.face.is_native()).chain(visitor.greeting.more.iter().copied()).collect();
        let mut greeting = json!({
            "protocol_version": PROTOCOL_VERSION,
            "server_version": visitor.greeting.version,
            "server_pid": std::process::id(),
            "tui_id": tui_id,
            "capabilities": capabilities,
            "commands": [
                {"id": "help", "name": "help", "aliases": []},
                {"id": "new", "name": "new", "aliases": ["new-session"]},
            ],
        });
        if let Some(signature) = key.sign(&tui_id) {
            greeting["tui_sig"] = Value::String(signature);
        }
        Ok(greeting)
    }

    /// Waits for the turns that are still to be answered.
    pub(crate) async fn finish(&mut self) {
        while self.work.join_next().await.is_some() {}
    }
}
