//! The label a process carries through the keeper and its journal: who asked for it, and its name.
//!
//! It is the one text that stays on disk, so it holds no arguments and no environment.

use hostel_guard::Confinement;
use serde::{Deserialize, Serialize};

/// What the house knows of a process after everything but the keeper and the journal is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    /// The name it is known by in this house.
    pub(crate) name: String,
    /// The door it came in by.
    pub(crate) door: String,
    /// The program, without arguments.
    #[serde(default)]
    pub(crate) program: String,
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
            door: "unknown".to_owned(),
            program: String::new(),
            owned_input: false,
            guard: None,
        })
    }
}
