//! Where a process inside the house comes from: the session or the hosted command that it descends from.
//!
//! Invariant: an origin follows from parents and terminal sessions as the kernel has them. Variables and resource limits are
//! never looked at: a process can give itself those of another one. A process whose line of parents does not lead to a
//! hosted process has no origin, and owns nothing.
//!
//! It reads nothing: the line of parents is `hostel_peer`'s. Whether a process is inside the house at all is decided elsewhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hostel_peer::Ancestor;
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::{ProcessId, Processes};

/// The session or the hosted command on whose behalf something happens.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Deserialize, Serialize)]
#[serde(into = "String", try_from = "String")]
pub enum Origin {
    /// A session, by its id.
    Session(String),
    /// A hosted command that belongs to no session.
    Process(ProcessId),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Session(id) => write!(formatter, "session:{id}"),
            Origin::Process(id) => write!(formatter, "process:{id}"),
        }
    }
}

/// A text that names no origin.
#[derive(Debug, thiserror::Error)]
#[error("not `session:ID` or `process:ID`")]
pub struct OriginError;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        match text.split_once(':') {
            Some(("session", id)) if !id.is_empty() => Ok(Origin::Session(id.to_owned())),
            Some(("process", id)) => id.parse().map(Origin::Process).map_err(|_| OriginError),
            _ => Err(OriginError),
        }
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        text.parse()
    }
}

impl Process {
    /// What something that descends from this process descends from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match (self.session(), self.asked_by()) {
            (Some(session), _) => Origin::Session(session.to_owned()),
            (None, Some(asked_by)) => asked_by.clone(),
            (None, None) => Origin::Process(self.id()),
        }
    }
}

impl Processes {
    /// The hosted process that a process is, or descends from, whose line of parents this is, itself first; none where
    /// the line leads to none that runs.
    pub(crate) fn host_of(&self, line: &[Ancestor]) -> Option<Arc<Process>> {
        let registry = self.house.registry.read();
        // The keeper reaps a process after its end is recorded: until then its number is nobody else's.
        let leads = |pid: u32| registry.by_id.values().find(|process| process.pid() == pid && process.status().running);
        let by_parents = line.iter().find_map(|ancestor| leads(ancestor.pid));
        // An orphan is the keeper's child, but stays in the terminal session of the hosted process, which leads it.
        by_parents.or_else(|| line.iter().find_map(|ancestor| leads(ancestor.session))).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_back() {
        for origin in [Origin::Session("a:b".to_owned()), Origin::Process(ProcessId([9; 16]))] {
            assert_eq!(origin.to_string().parse::<Origin>().unwrap(), origin);
        }
        for wrong in ["", "session:", "process:1", "house:x", "session"] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }
}
