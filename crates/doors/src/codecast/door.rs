//! What all connections of the door share.

use hostel_agents::{Kind, Mode};
use hostel_house::insiders::Insiders;
use hostel_house::sessions::Sessions;
use tokio::sync::watch;

use super::auth::Tokens;
use super::health::Vitals;
use super::link::Links;
use super::settings::Settings;
use crate::claustrum::Log;

/// The CLIs of the contract, whether they are installed or not: a missing one is told when it is needed.
const CONTRACT: [Kind; 4] = [Kind::Claude, Kind::Codex, Kind::Gemini, Kind::Opencode];

/// The door.
pub(super) struct Door {
    pub(super) sessions: Sessions,
    pub(super) insiders: Insiders,
    pub(super) settings: Settings,
    pub(super) log: Log,
    pub(super) links: Links,
    pub(super) vitals: Vitals,
    pub(super) tokens: Option<Tokens>,
    /// True when open streams are to end.
    pub(super) stop: watch::Sender<bool>,
}

impl Door {
    pub(super) fn new(sessions: Sessions, insiders: Insiders, settings: Settings, log: Log) -> Self {
        let tokens = settings.auth.as_ref().map(|auth| Tokens::new(auth.tokens.clone(), log.clone()));
        Self {
            sessions,
            insiders,
            links: Links::default(),
            vitals: Vitals::new(settings.started),
            tokens,
            stop: watch::Sender::new(false),
            settings,
            log,
        }
    }

    /// How an agent is talked to, if anybody knows it.
    pub(super) fn kind_of(&self, name: &str) -> Option<Kind> {
        let alias = self.sessions.agents().into_iter().find(|agent| agent.alias == name).map(|agent| agent.kind);
        alias.or_else(|| CONTRACT.into_iter().find(|kind| kind.name() == name))
    }

    /// What a session may do whose client does not say: as the settings have it for the agent, else for this door.
    pub(super) fn usual_mode(&self, name: &str) -> Mode {
        let agent = self.sessions.agents().into_iter().find(|agent| agent.alias == name);
        agent.and_then(|agent| agent.mode).unwrap_or(self.settings.mode)
    }

    /// Every name that can be asked for, sorted.
    pub(super) fn agent_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.sessions.agents().into_iter().map(|agent| agent.alias).collect();
        names.extend(CONTRACT.iter().map(|kind| kind.name().to_owned()));
        names.sort();
        names.dedup();
        names
    }
}
