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
use hostel_doors::native::protocol::Pick;
use hostel_doors::native::protocol::ProcessInfo;
use hostel_doors::native::protocol::ProcessList;
use hostel_doors::native::protocol::code;
use hostel_doors::native::protocol::pick;
use serde_json::json;
use tokio::time::Instant;

use crate::error::CommandError;
use crate::paths::HouseDir;

/// More houses than this under one home are not asked.
const HOUSE_LIMIT: usize = 256;

/// How long to wait for room in a house whose connections are all in use.
const FULL_HOUSE: Duration = Duration::from_secs(2);

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
                    return Err(CommandError::failure(format!(
                        "several processes have ids that start with `{wanted}`"
                    ))
                    .hint("give more digits, `hostel ps -a` shows them"));
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
        found.pop().ok_or_else(|| {
            CommandError::failure(format!("no process matches `{wanted}`")).hint("list them with `hostel ps -a`")
        })
    }
}
