//! Opening the conversation: `initialize`, a new session or an earlier one, then the mode and the model.
//!
//! Invariant: no prompt is put before the wanted mode is in force. An earlier session that cannot be loaded fails
//! the turn; it is never replaced by a new one in silence.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::acp::Acp;
use crate::driver::{Heard, TurnOver};
use crate::event::{Event, Outcome, Usage};
use crate::jsonrpc::Failure;
use crate::launch::{Kind, Mode};
use crate::raw::Raw;
use crate::text::{self, Field};

/// The version of the protocol that is spoken here.
const PROTOCOL: u64 = 1;

/// The agent wants somebody to log in.
const AUTHENTICATION_REQUIRED: i64 = -32000;

/// How far it has come.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Opening {
    /// Requests that were not answered yet.
    awaited: Vec<(u64, Ask)>,
    /// The session's id as the agent wants to hear it.
    pub(super) session: Option<String>,
    /// Updates are still of the past.
    history: bool,
    /// Why there will be no conversation.
    pub(super) failure: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Ask {
    Initialize,
    New,
    Load,
    /// Something about the session, in words for people.
    Set(String),
    /// Its answer means that all the history has been told.
    EndOfHistory,
}

impl Opening {
    /// Whether prompts can be put.
    pub(super) fn is_open(&self) -> bool {
        let settled = self.awaited.iter().all(|(_, ask)| *ask == Ask::EndOfHistory);
        self.failure.is_none() && self.session.is_some() && settled && !self.history
    }

    /// The id to resume by.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.session.as_deref().map(str::trim_start)
    }

    /// The agent has said what it says after the history.
    pub(super) fn history_is_over(&mut self) {
        self.history = false;
    }
}

impl Acp {
    pub(super) fn open(&mut self) {
        let params = json!({
            "protocolVersion": PROTOCOL,
            "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
            "clientInfo": { "name": "hostel", "title": "hostel", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask_for(Ask::Initialize, "initialize", &params);
    }

    fn ask_for(&mut self, ask: Ask, method: &str, params: &impl Serialize) {
        let id = self.ask(method, params);
        self.state.opening.awaited.push((id, ask));
    }

    /// The answer to one of the requests above.
    pub(super) fn opened(&mut self, line: &str, id: u64, result: Result<Field<'_>, Failure>, heard: &mut Heard) {
        let awaited = &mut self.state.opening.awaited;
        let Some(at) = awaited.iter().position(|(own, _)| *own == id) else { return };
        let (_, ask) = awaited.swap_remove(at);
        match (ask, result) {
            (Ask::Initialize, Ok(result)) => self.initialized(result, heard),
            (Ask::Initialize, Err(failure)) => self.fail("the agent could not be started", &failure, heard),
            (Ask::New, Ok(result)) => match text::owned(text::object::<Session<'_>>(result).and_then(|s| s.session_id))
            {
                Some(session) => {
                    self.state.cost = Some(0.0);
                    self.begun(line, session, result, heard);
                }
                None => self.give_up("the agent gave its new session no id".to_owned(), heard),
            },
            (Ask::New, Err(failure)) => self.fail("no session could be made", &failure, heard),
            (Ask::Load, Ok(result)) => {
                self.state.opening.history = self.setup.kind == Kind::Gemini;
                self.state.cost = self.setup.used.map(|used| used.cost_usd);
                let session = self.state.opening.session.take().unwrap_or_default();
                self.begun(line, session, result, heard);
            }
            (Ask::Load, Err(failure)) => self.not_loaded(&failure, heard),
            (Ask::Set(_), Ok(_)) | (Ask::EndOfHistory, _) => self.state.opening.history_is_over(),
            (Ask::Set(what), Err(failure)) => self.fail(&format!("{what} could not be set"), &failure, heard),
        }
    }

    fn initialized(&mut self, result: Field<'_>, heard: &mut Heard) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialized<'a> {
            #[serde(borrow)]
            protocol_version: Field<'a>,
            #[serde(borrow)]
            agent_capabilities: Field<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Capabilities<'a> {
            #[serde(borrow)]
            load_session: Field<'a>,
        }
        let said: Option<Initialized<'_>> = text::object(result);
        let version = said.as_ref().and_then(|said| text::number(said.protocol_version)).unwrap_or(PROTOCOL);
        if version != PROTOCOL {
            self.give_up(format!("the agent speaks version {version} of ACP, not {PROTOCOL}"), heard);
            return;
        }
        let loads = said
            .and_then(|said| text::object::<Capabilities<'_>>(said.agent_capabilities))
            .is_some_and(|can| text::is_true(can.load_session));
        match self.setup.resume.clone() {
            // gemini makes the file of a session it loads before it looks for the session. Its name has the minute and
            // the first 8 characters of the id, so within the minute in which the session was made that is the
            // session's own file, and its history is gone. A blank before the id changes the name; gemini trims
            // the id where it looks for the session.
            Some(id) if loads && self.setup.kind == Kind::Gemini => self.load(format!(" {id}")),
            Some(id) if loads => self.load(id),
            Some(_) => {
                let message = "The agent cannot load earlier conversations: this is a new one.".to_owned();
                heard.events.push(Event::Notice { message });
                self.make_session();
            }
            None => self.make_session(),
        }
    }

    fn make_session(&mut self) {
        let params = json!({ "cwd": self.setup.cwd, "mcpServers": [] });
        self.ask_for(Ask::New, "session/new", &params);
    }

    fn load(&mut self, session: String) {
        let params = json!({ "sessionId": session, "cwd": self.setup.cwd, "mcpServers": [] });
        self.state.opening.session = Some(session);
        self.ask_for(Ask::Load, "session/load", &params);
    }

    fn not_loaded(&mut self, failure: &Failure, heard: &mut Heard) {
        let session = self.state.opening.session.take().unwrap_or_default();
        match session.strip_prefix(' ') {
            // A gemini that does not trim ids.
            Some(plain) if failure.code != AUTHENTICATION_REQUIRED && self.setup.kind == Kind::Gemini => {
                self.load(plain.to_owned());
            }
            _ => self.fail(&format!("session {} could not be loaded", session.trim()), failure, heard),
        }
    }

    /// There is a session.
    fn begun(&mut self, line: &str, session: String, result: Field<'_>, heard: &mut Heard) {
        let offered: Session<'_> = text::object(result).unwrap_or_default();
        let model = self.setup.model.clone().or_else(|| offered.model());
        heard.events.push(Event::Init {
            subtype: "init".to_owned(),
            session_id: Some(session.trim_start().to_owned()),
            model,
            raw: Raw::line(line),
        });
        self.state.opening.session = Some(session);
        self.choose_mode(&offered, heard);
        self.choose_model(&offered, heard);
    }

    fn choose_mode(&mut self, offered: &Session<'_>, heard: &mut Heard) {
        let wanted = modes(self.setup.kind, self.setup.mode);
        let history = self.state.opening.history;
        let (current, offers, setting) = offered.modes();
        let current = current.unwrap_or_default();
        // Other modes of opencode than `plan` are agents of the user's own making: that choice stays.
        if self.setup.kind == Kind::Opencode && self.setup.mode != Mode::Plan && current != "plan" {
            return;
        }
        let found = wanted.iter().find(|mode| offers.iter().any(|offer| offer == *mode)).copied();
        match found {
            Some(mode) if mode != current => self.set(Ask::Set(format!("the mode {mode}")), setting.as_deref(), mode),
            // Nothing to change; but the answer comes after the history, which gemini tells after `session/load`.
            _ if history && !current.is_empty() => self.set(Ask::EndOfHistory, setting.as_deref(), &current),
            _ if history => self.state.opening.history_is_over(),
            Some(_) => {}
            None if wanted.is_empty() => {}
            None => {
                let name = self.setup.mode.name();
                let message = format!("The agent has no mode for `{name}`: it runs in its own.");
                heard.events.push(Event::Notice { message });
            }
        }
    }

    fn choose_model(&mut self, offered: &Session<'_>, heard: &mut Heard) {
        let Some(model) = self.setup.model.clone() else { return };
        // gemini is told with its command line.
        if self.setup.kind == Kind::Gemini || offered.model().as_deref() == Some(&*model) {
            return;
        }
        let session = self.state.opening.session.clone();
        let what = Ask::Set(format!("the model {}", text::one_line(&model)));
        if let Some(option) = offered.option("model") {
            let id = text::owned(option.id);
            let params = json!({ "sessionId": session, "configId": id, "value": model });
            self.ask_for(what, "session/set_config_option", &params);
        } else if offered.models.is_some() {
            self.ask_for(what, "session/set_model", &json!({ "sessionId": session, "modelId": model }));
        } else {
            let message = "The agent does not let its model be chosen.".to_owned();
            heard.events.push(Event::Notice { message });
        }
    }

    /// Sets the mode, as the configuration option of that id where modes are one.
    fn set(&mut self, ask: Ask, setting: Option<&str>, mode: &str) {
        let session = self.state.opening.session.clone();
        match setting {
            Some(id) => {
                let params = json!({ "sessionId": session, "configId": id, "value": mode });
                self.ask_for(ask, "session/set_config_option", &params);
            }
            None => self.ask_for(ask, "session/set_mode", &json!({ "sessionId": session, "modeId": mode })),
        }
    }

    fn fail(&mut self, what: &str, failure: &Failure, heard: &mut Heard) {
        let login = if failure.code == AUTHENTICATION_REQUIRED { " (log in with the agent's own program)" } else { "" };
        self.give_up(format!("{what}: {}{login}", failure.message), heard);
    }

    fn give_up(&mut self, reason: String, heard: &mut Heard) {
        heard.events.push(Event::Error { message: reason.clone() });
        heard.over = Some(TurnOver { outcome: Outcome::Failed, reason: reason.clone(), usage: Usage::default() });
        self.state.opening.failure = Some(reason);
        self.state.outbox.clear();
    }
}

/// The names of a mode, the best first. Empty where the agent is not told.
fn modes(kind: Kind, mode: Mode) -> &'static [&'static str] {
    match (kind, mode) {
        (Kind::Gemini, Mode::Auto) => &["yolo"],
        (Kind::Gemini, Mode::Code) => &["autoEdit"],
        (Kind::Gemini, Mode::Ask) => &["default"],
        (Kind::Opencode, Mode::Auto | Mode::Code | Mode::Ask) => &["build"],
        (Kind::Gemini | Kind::Opencode, Mode::Plan) => &["plan"],
        // The names that agents and adapters in use have.
        (Kind::Acp, Mode::Auto) => &["bypassPermissions", "yolo", "agent-full-access", "full-access", "auto"],
        (Kind::Acp, Mode::Code) => &["acceptEdits", "autoEdit", "workspace-write", "code", "build"],
        (Kind::Acp, Mode::Plan) => &["plan", "read-only", "architect"],
        (Kind::Acp, Mode::Ask) => &["default", "ask", "manual", "read-only"],
        (Kind::Echo | Kind::Claude | Kind::Codex, _) => &[],
    }
}

/// What `session/new` and `session/load` answer.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session<'a> {
    #[serde(borrow)]
    session_id: Field<'a>,
    #[serde(borrow)]
    modes: Field<'a>,
    #[serde(borrow)]
    models: Field<'a>,
    #[serde(borrow)]
    config_options: Field<'a>,
}

/// Something about a session that can be chosen.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    category: Field<'a>,
    #[serde(borrow)]
    current_value: Field<'a>,
    #[serde(borrow)]
    options: Field<'a>,
}

/// One thing to choose, under the names it has in the several lists; or a group of such.
#[derive(Deserialize)]
struct Offer<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    value: Field<'a>,
    #[serde(borrow)]
    options: Field<'a>,
}

impl<'a> Session<'a> {
    fn option(&self, category: &str) -> Option<Choice<'a>> {
        text::list(self.config_options)
            .into_iter()
            .filter_map(|raw| text::parse::<Choice<'_>>(raw.get()))
            .find(|option| text::string(option.category.or(option.id)).as_deref() == Some(category))
    }

    /// The mode in force, those on offer, and the id of the configuration option if modes are one.
    fn modes(&self) -> (Option<String>, Vec<String>, Option<String>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Modes<'a> {
            #[serde(borrow)]
            available_modes: Field<'a>,
            #[serde(borrow)]
            current_mode_id: Field<'a>,
        }
        if let Some(modes) = text::object::<Modes<'_>>(self.modes) {
            return (text::owned(modes.current_mode_id), offers(modes.available_modes), None);
        }
        match self.option("mode") {
            Some(option) => (text::owned(option.current_value), offers(option.options), text::owned(option.id)),
            None => (None, Vec::new(), None),
        }
    }

    fn model(&self) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Models<'a> {
            #[serde(borrow)]
            current_model_id: Field<'a>,
        }
        let chosen = self.option("model").and_then(|option| text::owned(option.current_value));
        chosen.or_else(|| text::owned(text::object::<Models<'_>>(self.models)?.current_model_id))
    }
}

fn offers(list: Field<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for raw in text::list(list) {
        let Some(offer) = text::parse::<Offer<'_>>(raw.get()) else { continue };
        names.extend(text::owned(offer.id.or(offer.value)));
        for inner in text::list(offer.options) {
            names.extend(text::parse::<Offer<'_>>(inner.get()).and_then(|inner| text::owned(inner.value)));
        }
    }
    names
}
