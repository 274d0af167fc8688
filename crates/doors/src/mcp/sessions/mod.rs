//! The tools about agent sessions, through the house's own door.
//!
//! Invariant: a prompt is sent exactly once, also where the house goes away before it confirmed it; one that was sent
//! under a name is recognised under that name. Answers and transcripts are bounded.

mod memory;
mod reading;
mod sending;
mod shape;

pub(super) use memory::Memory;
pub(super) use reading::read;
pub(super) use sending::send;
pub(super) use shape::cut;

use std::io;
use std::time::Duration;

use rmcp::model::CallToolResult;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use super::Caller;
use super::Server;
use super::arguments::SessionList;
use super::execute::failed;
use crate::native::client::Client;
use crate::native::client::ClientError;
use crate::native::protocol::{Pick, SessionName, pick_session};

/// The pause before a house that went away is looked for again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Times something is asked again of a house that keeps going away.
const ATTEMPTS: usize = 5;

/// Sessions of one answer, unless asked for fewer, and at most.
const LISTED: (u64, u64) = (100, 1000);

/// One session, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    session_id: String,
    name: Option<String>,
    agent_alias: String,
    status: String,
    standing: String,
    cwd: String,
    mode: String,
    model: Option<String>,
    queued: u64,
    turns: u64,
    last_seq: u64,
    last_activity: String,
}

impl Row {
    fn is_live(&self) -> bool {
        matches!(self.standing.as_str(), "" | "live")
    }

    fn shown(&self) -> Value {
        let mut shown = json!({
            "session": self.session_id, "agent": self.agent_alias, "status": self.status, "standing": self.standing,
            "cwd": self.cwd, "mode": self.mode, "queued": self.queued, "turns": self.turns, "last_seq": self.last_seq,
            "last_activity": self.last_activity,
        });
        for (key, value) in [("name", &self.name), ("model", &self.model)] {
            if let Some(value) = value {
                shown[key] = json!(value);
            }
        }
        shown
    }
}

/// Why the house could not be asked, for a model.
pub(super) fn no_house(error: &ClientError) -> String {
    match error {
        ClientError::Connect { source, .. }
            if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
        {
            "the house is not running; start it with `hostel up`, or call start_server".to_owned()
        }
        error => error.to_string(),
    }
}

/// A connection to the house, and how to get another one.
struct House<'a> {
    server: &'a Server,
    caller: &'a Caller,
    client: Client,
}

impl<'a> House<'a> {
    /// A house that is not there is not waited for; one that goes away while it is greeted is.
    async fn open(server: &'a Server, caller: &'a Caller) -> Result<Self, ClientError> {
        let client = match server.backend.house(caller).await {
            Err(ClientError::Lost(_)) => found(server, caller).await?,
            outcome => outcome?,
        };
        Ok(House { server, caller, client })
    }

    /// Looks for a house that went away, for a bounded time.
    async fn again(&mut self) -> Result<(), ClientError> {
        self.client = found(self.server, self.caller).await?;
        Ok(())
    }

    /// Asks something that may be asked twice, or more often.
    async fn ask<T: DeserializeOwned>(&mut self, method: &str, params: &Value) -> Result<T, ClientError> {
        let mut left = ATTEMPTS;
        loop {
            match self.client.call(method, params).await {
                Err(error) if error.is_lost() && left > 0 => self.again().await?,
                outcome => return outcome,
            }
            left -= 1;
        }
    }

    async fn rows(&mut self, params: &Value) -> Result<Vec<Row>, ClientError> {
        #[derive(Deserialize)]
        struct Rows {
            sessions: Vec<Row>,
        }
        Ok(self.ask::<Rows>("session/list", params).await?.sessions)
    }

    /// How many turns a session has had.
    async fn turns(&mut self, session: &str) -> Result<u64, ClientError> {
        let rows = self.rows(&json!({"all": true, "limit": LISTED.1})).await?;
        Ok(rows.iter().find(|row| row.session_id == session).map_or(0, |row| row.turns))
    }

    /// The one session a text means.
    async fn find(&mut self, wanted: &str) -> Result<Row, String> {
        let known = self.rows(&json!({"all": true, "limit": LISTED.1})).await.map_err(|error| no_house(&error))?;
        pick(wanted, &known)
    }
}

/// The house, as soon as it is back.
async fn found(server: &Server, caller: &Caller) -> Result<Client, ClientError> {
    let deadline = Instant::now() + server.profile.rejoin;
    loop {
        match server.backend.house(caller).await {
            Err(error) if error.is_lost() && Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// Which session is meant.
fn pick(wanted: &str, known: &[Row]) -> Result<Row, String> {
    let names =
        known.iter().map(|row| SessionName { id: &row.session_id, name: row.name.as_deref(), is_live: row.is_live() });
    match pick_session(wanted, &names.collect::<Vec<_>>()) {
        Pick::One(position) => Ok(known[position].clone()),
        Pick::Several => Err(format!("`{wanted}` means several sessions; give the whole id")),
        Pick::Nothing => Err(format!("there is no session `{wanted}`; session_list has them all")),
    }
}

/// `session_list`.
pub(super) async fn list(server: &Server, asked: SessionList, caller: &Caller) -> CallToolResult {
    let limit = asked.limit.unwrap_or(LISTED.0).clamp(1, LISTED.1);
    let params = json!({"query": asked.query, "all": asked.all, "limit": limit});
    let rows = async { House::open(server, caller).await?.rows(&params).await };
    match rows.await {
        Ok(rows) => CallToolResult::structured(json!({"sessions": rows.iter().map(Row::shown).collect::<Vec<_>>()})),
        Err(error) => failed(no_house(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_by_id_name_and_start() {
        let known: Vec<Row> = [
            ("0f8fad5b-1", "web", "live"),
            ("0f8fad5b-2", "web", "archived"),
            ("77aa-1", "old", "archived"),
            ("77aa-2", "old", "archived"),
        ]
        .map(|(id, name, standing)| Row {
            session_id: id.into(),
            name: Some(name.into()),
            standing: standing.into(),
            ..Row::default()
        })
        .into();
        let found = |wanted: &str| pick(wanted, &known).map(|row| row.session_id);
        assert_eq!(found("0f8fad5b-2").unwrap(), "0f8fad5b-2");
        assert_eq!(found("web").unwrap(), "0f8fad5b-1");
        assert_eq!(found("77aa-1").unwrap(), "77aa-1");
        for (wanted, words) in [("old", "several"), ("0f8fad", "several"), ("77a", "no session"), ("", "no session")] {
            assert!(found(wanted).unwrap_err().contains(words), "{wanted}");
        }
    }
}
