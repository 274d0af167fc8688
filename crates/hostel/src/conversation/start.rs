//! Making a session and handing it a prompt, each exactly once, even if the daemon goes away in between.
//!
//! Invariant: a session is made under an id chosen here, so asking twice makes one. A prompt whose taking nobody
//! confirmed is sent again only when the house shows that it was not taken.

use std::time::Duration;

use hostel_agents::Kind;
use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol::LINE_LIMIT;
use hostel_doors::native::protocol::code;
use serde_json::Value;
use serde_json::json;

use super::short;
use super::wire::AgentList;
use super::wire::AgentRow;
use super::wire::Made;
use super::wire::Sent;
use super::wire::SessionList;
use super::wire::SessionRow;
use crate::error::CommandError;
use crate::houses::House;
use crate::text;

/// The agents that are taken when none is named, the first that is there.
const PREFERRED: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// The agent that is built in.
const BUILT_IN: &str = "echo";

/// What a request adds to its prompt.
const ENVELOPE: usize = 4096;

/// A house, a connection to it, and how long to look for it when that breaks.
pub(crate) struct Contact<'a> {
    pub(crate) house: &'a House,
    pub(crate) client: Client,
    pub(crate) reconnect: Duration,
}

impl Contact<'_> {
    /// Asks something that may be asked twice.
    async fn ask<T: serde::de::DeserializeOwned>(&mut self, method: &str, params: &Value) -> Result<T, ClientError> {
        loop {
            match self.client.call(method, params).await {
                Err(error) if passing(&error) => match self.house.again(self.reconnect, "hostel sessions").await {
                    Ok(client) => self.client = client,
                    Err(_) => return Err(error),
                },
                result => return result,
            }
        }
    }

    /// The agent that is meant: the one that was named, if it is there, else the one that is preferred.
    pub(crate) async fn agent(&mut self, named: Option<&str>) -> Result<String, CommandError> {
        let AgentList { agents } = self.ask("agents/list", &json!({})).await.map_err(too_old)?;
        match named {
            None => Ok(preferred(&agents)),
            Some(name) if agents.iter().any(|agent| agent.alias == *name) => Ok(name.to_owned()),
            // One that lacks nothing but its CLI: the house says how to get it.
            Some(name) if Kind::named(name).and_then(Kind::package).is_some() => Ok(name.to_owned()),
            Some(name) => {
                let known: Vec<&str> = agents.iter().map(|agent| agent.alias.as_str()).collect();
                let name = text::printable(name);
                Err(CommandError::failure(format!("there is no agent `{name}`, only {}", known.join(", "))).hint(format!(
                    "install its command and start the daemon anew, or describe it in hostel.toml (`[agents.{name}]`)"
                )))
            }
        }
    }

    /// Makes a session; `params` may lack its id.
    pub(crate) async fn make(&mut self, mut params: Value) -> Result<Made, CommandError> {
        if let Some(fields) = params.as_object_mut() {
            fields.insert("session_id".to_owned(), Value::String(new_id()?));
        }
        self.ask("session/new", &params).await.map_err(too_old)
    }

    /// Opens a closed session again.
    pub(crate) async fn open(&mut self, row: &SessionRow) -> Result<(), CommandError> {
        let params = json!({"session_id": row.session_id, "agent_alias": row.agent_alias});
        let _: Made = self.ask("session/new", &params).await?;
        Ok(())
    }

    /// Hands over a prompt. `row` is the session just before; `alone` says that nobody else knows it yet.
    pub(crate) async fn send(&mut self, row: &SessionRow, prompt: &str, alone: bool) -> Result<Sent, CommandError> {
        let params = json!({"session_id": row.session_id, "prompt": prompt});
        loop {
            match self.client.call("session/send", &params).await {
                Err(error) if passing(&error) => {}
                result => return result.map_err(too_old),
            }
            let shown = format!("hostel sessions show {}", short(&row.session_id));
            self.client = self.house.again(self.reconnect, &shown).await?;
            let now = self.row(&row.session_id).await?;
            match now.turns.saturating_sub(row.turns) {
                0 => {}
                1 if alone => return Ok(Sent { turn: row.turns + 1, position: 0, after_seq: row.last_seq }),
                _ => {
                    return Err(CommandError::failure("the daemon went away before it confirmed the prompt")
                        .hint(format!("see with `{shown}` whether it has it, and send it again if not")));
                }
            }
        }
    }

    /// Takes back a session that was made for nothing; one that cannot be told so stays, empty.
    pub(crate) async fn forget(&mut self, id: &str) {
        let _: Option<Value> = self.client.call("session/delete", &json!({"session_id": id})).await.ok();
    }

    /// One session as it is now.
    async fn row(&mut self, id: &str) -> Result<SessionRow, CommandError> {
        let list: SessionList = self.ask("session/list", &json!({"all": true, "limit": LIST_LIMIT})).await?;
        let rows = list.sessions.into_iter().filter_map(|row| serde_json::from_value::<SessionRow>(row).ok());
        rows.into_iter().find(|row| row.session_id == id).ok_or_else(|| {
            CommandError::failure(format!("the session `{}` is gone", short(id)))
                .hint("list them with `hostel sessions --all`")
        })
    }
}

/// A prompt that fits into a request.
pub(crate) fn fitting(prompt: String) -> Result<String, CommandError> {
    let length = Value::String(prompt.as_str().into()).to_string().len();
    if length <= LINE_LIMIT - ENVELOPE {
        return Ok(prompt);
    }
    let size = |bytes: usize| text::size(u64::try_from(bytes).unwrap_or(u64::MAX));
    Err(CommandError::failure(format!(
        "the prompt is too long: {} where {} fit",
        size(length),
        size(LINE_LIMIT - ENVELOPE)
    ))
    .hint("put it into a file and have the agent read that"))
}

/// The most sessions that are asked for at once.
pub(crate) const LIST_LIMIT: usize = 1_000;

/// A daemon that went away, or whose keeper did for a moment, may be asked again.
pub(crate) fn passing(error: &ClientError) -> bool {
    error.is_lost() || error.code() == Some(code::KEEPER)
}

/// A daemon from before there were sessions says only that it does not know the method.
pub(crate) fn too_old(error: ClientError) -> CommandError {
    if error.code() == Some(code::METHOD) {
        return CommandError::failure("the daemon is older than this program and has no sessions")
            .hint("restart it with `hostel down --keep` and `hostel up`; processes run on");
    }
    error.into()
}

/// The agent that is taken when none is named.
pub(crate) fn preferred(agents: &[AgentRow]) -> String {
    PREFERRED
        .iter()
        .find_map(|name| {
            let by_alias = agents.iter().find(|agent| agent.alias == *name);
            by_alias.or_else(|| agents.iter().find(|agent| agent.kind == *name))
        })
        .map_or_else(|| BUILT_IN.to_owned(), |agent| agent.alias.clone())
}

/// A random UUID (version 4).
pub(crate) fn new_id() -> Result<String, CommandError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::failure(format!("the system gives no random numbers: {error}")))?;
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok(format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_agent_that_is_there_is_preferred() {
        let agents = |names: &[(&str, &str)]| -> Vec<AgentRow> {
            names.iter().map(|(alias, kind)| AgentRow { alias: (*alias).into(), kind: (*kind).into() }).collect()
        };
        assert_eq!(preferred(&agents(&[("echo", "echo"), ("gemini", "gemini"), ("codex", "codex")])), "codex");
        assert_eq!(preferred(&agents(&[("echo", "echo"), ("work", "claude"), ("codex", "codex")])), "work");
        assert_eq!(preferred(&agents(&[("echo", "echo"), ("mine", "acp")])), "echo");
        assert_eq!(preferred(&[]), "echo");
    }

    #[test]
    fn made_up_ids_are_random_uuids() {
        let id = new_id().unwrap();
        assert_eq!(id.len(), 36);
        let at = |index: usize| id.as_bytes()[index];
        assert_eq!((at(8), at(13), at(18), at(23), at(14)), (b'-', b'-', b'-', b'-', b'4'));
        assert!(matches!(at(19), b'8' | b'9' | b'a' | b'b'), "{id}");
        assert_ne!(id, new_id().unwrap());
    }
}
