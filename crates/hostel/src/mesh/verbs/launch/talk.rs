//! The agent's session in the house: made with the environment that leads to the mesh session, asked turn by turn,
//! closed at the end.
//!
//! Invariant: the session is made under an id chosen here, so asking twice makes one, and never without its environment:
//! that is said on the same connection each time. What messages began before a turn of ours is shown before it, with its
//! questions: the turn waits for their answers.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_agents::Kind;
use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol::PROTOCOL_VERSION;
use serde_json::Value;
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use super::End;
use super::letters::Letters;
use super::letters::Told;
use crate::cli::MeshPolicy;
use crate::config::Settings;
use crate::conversation;
use crate::conversation::Follow;
use crate::conversation::Format;
use crate::conversation::Keyboard;
use crate::conversation::Spread;
use crate::conversation::Until;
use crate::conversation::page::Look;
use crate::conversation::page::Page;
use crate::conversation::start::Contact;
use crate::conversation::start::new_id;
use crate::conversation::start::passing;
use crate::conversation::start::preferred;
use crate::conversation::start::too_old;
use crate::conversation::update::Outcome;
use crate::conversation::wire::AgentList;
use crate::conversation::wire::Made;
use crate::conversation::wire::SessionRow;
use crate::error::CommandError;
use crate::houses::House;
use crate::mesh::cli::Launch;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::text;
use crate::ui::Ui;

/// How long closing may take.
const CLOSE: Duration = Duration::from_secs(5);

/// The pause before a house that was lost is listened to again.
const AGAIN: Duration = Duration::from_millis(100);

/// The agent that is meant: the one that was named, if it is there, else the one that is preferred.
pub(super) async fn agent(house: &House, named: Option<&str>) -> Result<String, Failure> {
    let mut client = house.connect().await.map_err(CommandError::from)?;
    let AgentList { agents } = client.call("agents/list", &json!({})).await.map_err(too_old)?;
    let Some(name) = named else { return Ok(preferred(&agents)) };
    if agents.iter().any(|agent| agent.alias == name) {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = agents.iter().map(|agent| agent.alias.as_str()).collect();
    let shown = text::printable(name);
    let missing = Failure::new(
        Code::NoAgent,
        "agent_missing",
        format!("there is no agent `{shown}`, only {}", text::printable(&known.join(", "))),
    );
    Err(match Kind::named(name).and_then(Kind::package) {
        Some(package) => missing.hint(format!(
            "install it with `npm install -g {package}`, then start the house anew with `hostel down --keep` and `hostel up`"
        )),
        None => missing.hint(format!("describe it in hostel.toml (`[agents.{shown}]`) and start the house anew")),
    })
}

pub(super) struct Talk {
    house: House,
    id: String,
    name: String,
    /// What the agent may do without asking.
    mode: String,
    reconnect: Duration,
    /// Nobody else puts anything to the agent.
    alone: bool,
    /// Turns that are known here.
    turns: AtomicU64,
}

impl Talk {
    /// Makes the session.
    pub(super) async fn begin(
        house: House,
        settings: &Settings,
        agent: &str,
        name: &str,
        cwd: &str,
        arguments: &Launch,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, Failure> {
        let id = new_id()?;
        let mut params = json!({
            "session_id": id, "agent_alias": agent, "cwd": cwd, "name": name, "hosting": "warm",
            "mode": arguments.mode.map(crate::cli::Mode::name), "model": arguments.model,
            "mesh": policy(arguments).map(MeshPolicy::name),
        });
        let reconnect = settings.limits.reconnect;
        let mut client = house.connect().await.map_err(CommandError::from)?;
        let made = loop {
            match make(&mut client, &mut params, environment).await {
                Ok(made) => break made,
                Err(error) if passing(&error) => {
                    client = house.again(reconnect, "hostel sessions").await?;
                }
                Err(error) => return Err(too_old(error).into()),
            }
        };
        // An older house does not say.
        let mode = made.mode.unwrap_or_else(|| "unknown".to_owned());
        let policy = policy(arguments).map_or(settings.sessions.mesh.word(), MeshPolicy::name);
        let alone = policy == MeshPolicy::Off.name();
        Ok(Talk { house, id, name: name.to_owned(), mode, reconnect, alone, turns: AtomicU64::new(0) })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn mode(&self) -> &str {
        &self.mode
    }

    /// What messages from the mesh make of it.
    pub(super) fn letters(&self) -> Letters {
        Letters::new(self.house.clone(), self.id.clone())
    }

    /// Asks, and shows what comes until the turn is over.
    pub(super) async fn turn(&self, ui: &Ui, prompt: &str, letters: &mut Letters) -> Result<End, Failure> {
        let mut contact = Contact { house: &self.house, client: self.connect().await?, reconnect: self.reconnect };
        let turns = self.turns.load(Ordering::Relaxed);
        let row =
            SessionRow { session_id: self.id.clone(), name: Some(self.name.clone()), turns, ..SessionRow::default() };
        let sent = contact.send(&row, prompt, self.alone && turns == 0).await?;
        if sent.turn > turns + 1
            && let Some(over) = self.before(ui, sent.turn, letters).await?
        {
            return Ok(over);
        }
        let until = Until::Turn { turn: sent.turn, first: sent.position == 0 };
        self.follow(ui, contact.client, until, sent.after_seq, false).await
    }

    /// Shows the turns that messages began before one of ours; says how all of it ended, if it did.
    async fn before(&self, ui: &Ui, due: u64, letters: &mut Letters) -> Result<Option<End>, Failure> {
        loop {
            // A new one each time: what stopped one of the turns is not meant for us.
            let mut interrupts = signal(SignalKind::interrupt())
                .map_err(|error| Failure::internal(format!("cannot watch for Ctrl-C: {error}")))?;
            let told = tokio::select! {
                told = self.told(due, letters) => told?,
                _ = interrupts.recv() => return Ok(Some(End::Left)),
            };
            letters.rest();
            let end = match told {
                Told::Due => return Ok(None),
                Told::Closed => End::Closed,
                Told::Turn { turn, after } => self.letter(ui, turn, after).await?,
            };
            if matches!(end, End::Closed | End::Left) {
                return Ok(Some(end));
            }
        }
    }

    /// Waits for what comes before a turn, for as long as the house is there or comes back.
    async fn told(&self, due: u64, letters: &mut Letters) -> Result<Told, Failure> {
        loop {
            match letters.until(due).await {
                Ok(told) => return Ok(told),
                Err(error) if passing(&error) => {
                    letters.rest();
                    drop(self.connect().await?);
                    tokio::time::sleep(AGAIN).await;
                }
                // Whoever follows the turn itself hears it too, and says it.
                Err(_) => return Ok(Told::Due),
            }
        }
    }

    /// Shows a turn that a message began, with what the agent was asked.
    pub(super) async fn letter(&self, ui: &Ui, turn: u64, after: u64) -> Result<End, Failure> {
        self.follow(ui, self.connect().await?, Until::Turn { turn, first: true }, after, true).await
    }

    async fn connect(&self) -> Result<Client, Failure> {
        match self.house.connect().await {
            Err(error) if passing(&error) => Ok(self.house.again(self.reconnect, "hostel sessions").await?),
            connected => Ok(connected.map_err(CommandError::from)?),
        }
    }

    async fn follow(&self, ui: &Ui, client: Client, until: Until, after: u64, prompts: bool) -> Result<End, Failure> {
        if let Until::Turn { turn, .. } = until {
            self.turns.fetch_max(turn, Ordering::Relaxed);
        }
        let look = Look { prompts, ..conversation::look(ui, Spread::AnswerAlone) };
        let format = match ui.json() {
            true => Format::Json,
            false => Format::Page(Box::new(Page::new(look))),
        };
        let keyboard = if ui.json() { None } else { Keyboard::open() };
        let follow = Follow::new(self.house.clone(), self.id.clone(), until, format, self.reconnect);
        let end = follow.since(after).in_charge(keyboard).run(client, ui).await?;
        match end {
            conversation::End::Turn { outcome: Outcome::Completed, .. } => Ok(End::Done),
            conversation::End::Turn { outcome: Outcome::Cancelled, .. } => Ok(End::Cancelled),
            conversation::End::Left => Ok(End::Left),
            conversation::End::Turn { outcome: Outcome::Failed, .. } => Ok(End::Failed),
            conversation::End::Closed | conversation::End::Replayed => Ok(End::Closed),
            conversation::End::ReaderGone => {
                Err(CommandError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)).into())
            }
            conversation::End::HouseDown => {
                Err(Failure::new(Code::Network, "house_closed", "the house was closed")
                    .hint("start it with `hostel up`"))
            }
        }
    }

    /// Ends the agent; what was said stays with the house.
    pub(super) async fn close(&self) {
        let closing = async {
            let mut client = self.house.connect().await?;
            // Nobody has to decide about messages for what is over.
            let off = json!({"session_id": self.id, "mesh": MeshPolicy::Off.name()});
            client.call::<Value>("session/configure", &off).await.ok();
            client.call::<Value>("session/close", &json!({"session_id": self.id})).await
        };
        // A house that is gone has closed it, or finds it when it comes back.
        tokio::time::timeout(CLOSE, closing).await.ok();
    }
}

/// What becomes of messages for the session; none leaves it to the house. What ends with one answer takes none: it would be
/// closed with them in its queue.
fn policy(arguments: &Launch) -> Option<MeshPolicy> {
    if arguments.print.is_some() { Some(MeshPolicy::Off) } else { arguments.messages }
}

/// Makes a session with an environment of ours. Asking twice makes one.
async fn make(
    client: &mut Client,
    params: &mut Value,
    environment: &BTreeMap<String, String>,
) -> Result<Made, ClientError> {
    let greeting: Value =
        client.call("initialize", &json!({"protocol_version": PROTOCOL_VERSION, "env": environment})).await?;
    // The house gives a session the environment of who says that it is theirs.
    params["tui_id"] = greeting.get("tui_id").cloned().unwrap_or_default();
    if params["tui_id"].is_null() {
        return Err(ClientError::Protocol("this house gives sessions no environment of their own".to_owned()));
    }
    client.call("session/new", params).await
}
