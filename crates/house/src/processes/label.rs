//! The label a process carries through the keeper and its journal: who asked for it, and its name.
//!
//! It is the one text that stays on disk, so it holds no arguments and no environment.

use hostel_guard::Confinement;
use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// The door of a process whose label cannot be read.
const UNKNOWN_DOOR: &str = "unknown";

/// What the house knows of a process after everything but the keeper and the journal is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    /// The name it is known by in this house.
    pub(crate) name: String,
    /// The door it came in by.
    pub(crate) door: String,
    /// The program, without arguments.
    #[serde(default)]
    pub(crate) program: String,
    /// The session whose agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The session or hosted command that asked for it, where a process inside the house did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked_by: Option<Origin>,
    /// Its standard input belongs to the house, see [`SpawnSpec::owned_input`](super::SpawnSpec::owned_input).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) owned_input: bool,
    /// The guard that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<Confinement>,
}

impl Label {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a label; one that cannot be read still names its process by its id.
    pub(crate) fn decode(bytes: &[u8], id: &str) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Self {
            name: id.to_owned(),
            door: UNKNOWN_DOOR.to_owned(),
            ..Self::default()
        })
    }

    /// Whether nothing is known of the process but its id.
    pub(crate) fn is_lost(&self) -> bool {
        self.door == UNKNOWN_DOOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::ProcessId;

    #[test]
    fn labels_of_older_programs_and_new_ones_are_read() {
        let old = Label::decode(br#"{"name":"web","door":"native","program":"sh"}"#, "id");
        assert_eq!((old.name.as_str(), old.session, old.owned_input, old.asked_by), ("web", None, false, None));
        let plain = Label { name: "web".to_owned(), door: "native".to_owned(), ..Label::default() };
        assert_eq!(String::from_utf8(plain.encode()).unwrap(), r#"{"name":"web","door":"native","program":""}"#);
        for asked_by in [Origin::Session("a b".to_owned()), Origin::Process(ProcessId([7; 16]))] {
            let label =
                Label { session: Some("s".to_owned()), owned_input: true, asked_by: Some(asked_by), ..plain.clone() };
            assert_eq!(Label::decode(&label.encode(), "id"), label);
        }
        let lost = Label::decode(b"nonsense", "id");
        assert!(lost.name == "id" && lost.is_lost() && !plain.is_lost());
    }
}
