//! Which houses there are below the home directory, and how to ask them.
//!
//! Invariant: a house is asked only through its own socket; one that does not answer is skipped when all are asked
//! and is an error when it was named.
//!
//! It never starts a daemon.

use std::path::PathBuf;
use std::time::Duration;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol;
use hostel_doors::native::protocol::HouseStatus;
use hostel_doors::native::protocol::Pick;
use hostel_doors::native::protocol::ProcessInfo;
use hostel_doors::native::protocol::ProcessList;
use hostel_doors::native::protocol::SessionName;
use hostel_doors::native::protocol::code;
use hostel_doors::native::protocol::pick;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use crate::conversation::start::LIST_LIMIT;
use crate::conversation::wire::ApprovalList;
use crate::conversation::wire::ApprovalRow;
use crate::conversation::wire::SessionList;
use crate::conversation::wire::SessionRow;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::paths::HouseDir;

/// More houses than this under one home are not asked.
const HOUSE_LIMIT: usize = 256;

/// How long to wait for room in a house whose connections are all in use.
const FULL_HOUSE: Duration = Duration::from_secs(2);

/// The shortest start of an id that is looked at.
const START: usize = 4;

/// One house by its directory and the name people call it.
#[derive(Clone, Debug)]
pub(crate) struct House {
    pub(crate) dir: HouseDir,
    pub(crate) label: String,
}

impl House {
    /// Connects to the house's daemon.
    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        let path = self.dir.socket();
        let dial = hostel_keeper::socket_path::shorten(&path)
            .map_err(|source| ClientError::Connect { path: path.clone(), source })?;
        let deadline = Instant::now() + FULL_HOUSE;
        loop {
            match Client::connect(dial.as_ref(), &path).await {
                // Somebody may be just leaving.
                Err(error) if error.code() == Some(code::LIMIT) && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                result => return result,
            }
        }
    }
}

impl House {
    /// Looks for a daemon that went away, until the limit; `go_on` is the command that goes on where this one gave up.
    pub(crate) async fn again(&self, limit: Duration, go_on: &str) -> Result<Client, CommandError> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_millis(20);
        loop {
            match self.connect().await {
                Ok(client) => return Ok(client),
                Err(error) if !error.is_lost() => return Err(error.into()),
                Err(_) => {}
            }
            if Instant::now() + pause > deadline {
                return Err(CommandError::failure(format!(
                    "the daemon did not come back within {}",
                    crate::text::duration(limit)
                ))
                .hint(format!("start it with `hostel up`, then go on with `{go_on}`")));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }
}

/// The houses a command may ask.
#[derive(Clone, Debug)]
pub(crate) struct Houses {
    home: PathBuf,
    only: Option<String>,
}

impl Houses {
    pub(crate) fn new(home: PathBuf, only: Option<String>) -> Self {
        Houses { home, only }
    }

    /// The house of `hostel up`.
    pub(crate) fn main(&self) -> House {
        House { dir: HouseDir::at(&self.home), label: "home".to_owned() }
    }

    /// The one house a command is about: the named one, else the main house.
    pub(crate) fn one(&self) -> Result<House, CommandError> {
        match &self.only {
            None => Ok(self.main()),
            Some(name) => self.all().into_iter().find(|house| house.label == *name).ok_or_else(|| self.unknown(name)),
        }
    }

    /// Every house that has a directory; the main one first, whether it exists or not.
    fn all(&self) -> Vec<House> {
        let mut houses = vec![self.main()];
        let mut personalities: Vec<House> = std::fs::read_dir(self.home.join("as"))
            .into_iter()
            .flatten()
            .flatten()
            .take(HOUSE_LIMIT)
            .map(|entry| HouseDir::at(entry.path()))
            .map(|dir| House { label: dir.label(&self.home), dir })
            .collect();
        personalities.sort_by(|left, right| left.label.cmp(&right.label));
        houses.extend(personalities);
        houses
    }

    fn unknown(&self, name: &str) -> CommandError {
        let known: Vec<String> = self.all().into_iter().map(|house| house.label).collect();
        CommandError::usage(format!("there is no house `{name}`")).hint(format!("there are: {}", known.join(", ")))
    }

    /// Connections to every house that answers. None at all is an error.
    pub(crate) async fn live(&self) -> Result<Vec<(House, Client)>, CommandError> {
        let mut live = Vec::new();
        let mut refusal = None;
        let asked = match &self.only {
            Some(_) => vec![self.one()?],
            None => self.all(),
        };
        for house in asked {
            match house.connect().await {
                Ok(client) => live.push((house, client)),
                Err(error @ ClientError::Connect { .. }) if self.only.is_none() => {
                    refusal.get_or_insert(error);
                }
                // A personality that a hosted process has started does not keep the other houses from being asked.
                Err(error @ ClientError::NotTheDaemon { .. })
                    if self.only.is_none() && house.dir.root() != self.home =>
                {
                    refusal.get_or_insert(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match (live.is_empty(), refusal) {
            (true, Some(error)) => Err(error.into()),
            _ => Ok(live),
        }
    }

    /// The one process a name or id means, in whichever house.
    pub(crate) async fn find(&self, wanted: &str) -> Result<(House, Client, ProcessInfo), CommandError> {
        let mut found: Vec<(House, Client, ProcessInfo)> = Vec::new();
        for (house, mut client) in self.live().await? {
            let list: ProcessList = client.call("process/list", &json!({})).await?;
            let known = list.processes.iter().map(|process| (process.id.as_str(), process.name.as_str()));
            match pick(wanted, known) {
                Pick::Nothing => {}
                Pick::Several => {
                    return Err(CommandError::failure(format!("`{wanted}` means several processes"))
                        .hint("give the whole id, `hostel ps -a --json` shows it"));
                }
                Pick::One(position) => {
                    if let Some(process) = list.processes.into_iter().nth(position) {
                        found.push((house, client, process));
                    }
                }
            }
        }
        if found.len() > 1 {
            let labels: Vec<&str> = found.iter().map(|(house, _, _)| house.label.as_str()).collect();
            return Err(CommandError::failure(format!("`{wanted}` is in several houses: {}", labels.join(", ")))
                .hint("choose with `--house NAME`"));
        }
        match found.pop() {
            Some(found) => Ok(found),
            None => {
                let error = CommandError::failure(format!("no process matches `{wanted}`"));
                Err(self.of_others(error).await.hint("list them with `hostel ps -a`"))
            }
        }
    }

    /// The one session a name, an id or the start of an id means, in whichever house.
    pub(crate) async fn find_session(&self, wanted: &str) -> Result<(House, Client, SessionRow), CommandError> {
        let mut found = Vec::new();
        for (house, mut client) in self.live().await? {
            let mut rows: Vec<SessionRow> =
                sessions(&mut client, true).await?.into_iter().map(|(row, _)| row).collect();
            match pick_session(wanted, &rows) {
                Pick::Nothing => {}
                Pick::Several => {
                    return Err(CommandError::failure(format!("`{wanted}` means several sessions"))
                        .hint("give the whole id, `hostel sessions --all --json` shows it"));
                }
                Pick::One(position) => found.push((house, client, rows.swap_remove(position))),
            }
        }
        match one_of(found, wanted)? {
            Some(found) => Ok(found),
            None => Err(self.of_others(nothing("session", wanted, "hostel sessions --all")).await),
        }
    }

    /// The one approval an id or the start of an id means, in whichever house.
    pub(crate) async fn find_approval(
        &self,
        wanted: &str,
    ) -> Result<(House, Client, ApprovalRow, Value), CommandError> {
        let mut found = Vec::new();
        for (house, mut client) in self.live().await? {
            let mut rows = approvals(&mut client, true).await?;
            match pick(wanted, rows.iter().map(|(row, _)| (row.id.as_str(), ""))) {
                Pick::Nothing => {}
                Pick::Several => {
                    return Err(CommandError::failure(format!(
                        "several approvals have ids that start with `{wanted}`"
                    ))
                    .hint("give more of the id, `hostel approvals list --all` shows them"));
                }
                Pick::One(position) => found.push((house, client, rows.swap_remove(position))),
            }
        }
        match one_of(found, wanted)? {
            Some((house, client, (row, value))) => Ok((house, client, row, value)),
            None => Err(self.of_others(nothing("approval", wanted, "hostel approvals list --all")).await),
        }
    }

    /// Why something may be missing: a command that runs inside a house is told of what is its own alone.
    async fn of_others(&self, error: CommandError) -> CommandError {
        for (_, mut client) in self.live().await.unwrap_or_default() {
            if client.call::<HouseStatus>("house/status", &json!({})).await.is_ok_and(|status| status.inside) {
                return error
                    .hint(
                        "this command runs inside this house and sees what belongs to its own session or command; run it \
                         outside of the house for the rest",
                    )
                    .hint_if_marked();
            }
        }
        error
    }
}

/// The sessions of a house, as they are read here and as they came.
pub(crate) async fn sessions(client: &mut Client, all: bool) -> Result<Vec<(SessionRow, Value)>, CommandError> {
    let asked = json!({"all": all, "limit": LIST_LIMIT});
    match client.call::<SessionList>("session/list", &asked).await {
        Ok(list) => typed(list.sessions),
        // A house of a program without sessions has none.
        Err(error) if error.code() == Some(code::METHOD) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The approvals of a house, likewise.
pub(crate) async fn approvals(client: &mut Client, all: bool) -> Result<Vec<(ApprovalRow, Value)>, CommandError> {
    let asked = json!({"all": all, "limit": LIST_LIMIT});
    match client.call::<ApprovalList>("approval/list", &asked).await {
        Ok(list) => typed(list.approvals),
        Err(error) if error.code() == Some(code::METHOD) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn typed<T: serde::de::DeserializeOwned>(values: Vec<Value>) -> Result<Vec<(T, Value)>, CommandError> {
    values
        .into_iter()
        .map(|value| {
            let row = serde_json::from_value(value.clone())
                .map_err(|error| CommandError::failure(format!("the daemon's answer makes no sense: {error}")))?;
            Ok((row, one_spelling(value)))
        })
        .collect()
}

fn nothing(what: &str, wanted: &str, list: &str) -> CommandError {
    let error = CommandError::failure(format!("no {what} matches `{wanted}`"));
    let error =
        if wanted.len() < START { error.hint("the start of an id takes four characters or more") } else { error };
    error.hint(format!("list them with `{list}`"))
}

/// What several houses found: one of them, or nothing; more is an error.
fn one_of<T>(mut found: Vec<(House, Client, T)>, wanted: &str) -> Result<Option<(House, Client, T)>, CommandError> {
    if found.len() > 1 {
        let labels: Vec<&str> = found.iter().map(|(house, _, _)| house.label.as_str()).collect();
        return Err(CommandError::failure(format!("`{wanted}` is in several houses: {}", labels.join(", ")))
            .hint("choose with `--house NAME`"));
    }
    Ok(found.pop())
}

/// Which session people mean.
fn pick_session(wanted: &str, known: &[SessionRow]) -> Pick {
    let names =
        known.iter().map(|row| SessionName { id: &row.session_id, name: row.name.as_deref(), is_live: row.live() });
    protocol::pick_session(wanted, &names.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_by_id_name_and_start() {
        let known = [
            ("0f8fad5b-1", "web", "live"),
            ("0f8fad5b-2", "web", "archived"),
            ("77aa-1", "old", "archived"),
            ("77aa-2", "old", "archived"),
            ("web", "", "live"),
        ]
        .map(|(id, name, standing)| SessionRow {
            session_id: id.into(),
            name: Some(name.into()),
            standing: standing.into(),
            ..SessionRow::default()
        });
        let found = |wanted: &str| pick_session(wanted, &known);
        assert_eq!(found("0f8fad5b-2"), Pick::One(1));
        // The id of one session and the name of another.
        assert_eq!(found("web"), Pick::Several);
        assert_eq!(pick_session("web", &known[..4]), Pick::One(0));
        assert_eq!(found("old"), Pick::Several);
        assert_eq!(found("0f8fad"), Pick::Several);
        assert_eq!(found("77aa-1"), Pick::One(2));
        assert_eq!(found("77a"), Pick::Nothing);
        assert_eq!(found(""), Pick::Nothing);
    }
}
