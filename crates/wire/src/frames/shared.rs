//! What the members of a mesh keep together, as frames have it: entries of the shared state, and tasks.
//!
//! Invariant: names, values, titles, bodies and results are in boxes that the broker cannot open. What it sees is what it
//! needs to keep order: digests, versions, members, times, a task's status and urgency.

use serde::{Deserialize, Serialize};

use super::Priority;

/// Something sealed, with the epoch of its key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Boxed {
    /// Which key.
    pub epoch: u64,
    /// Base64.
    pub nonce: String,
    /// Base64.
    pub ciphertext: String,
}

/// Writes or removes an entry of the shared state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateSet {
    /// The digest of its name, hex.
    pub key: String,
    /// Only if it has this version; 0: only if it is not there. Absent: whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u64>,
    /// Its name.
    pub name: Boxed,
    /// Its name and value; absent: it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Boxed>,
    /// The caller's id for this change.
    pub client_id: String,
    /// Hex; compared when the id comes again.
    pub fingerprint: String,
}

/// Asks for entries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateGet {
    /// Digests of their names, at most 64.
    pub keys: Vec<String>,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Page {
    /// What comes after this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// An entry of the shared state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StateEntry {
    /// The digest of its name, hex.
    pub key: String,
    /// Rises with every change of anything that is shared in the mesh.
    pub version: u64,
    /// Its name.
    pub name: Boxed,
    /// Its name and value, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Boxed>,
    /// The member that wrote it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Makes a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCreate {
    /// Its id, which its maker draws: the boxes name it.
    pub id: String,
    /// Its title.
    pub title: Boxed,
    /// The rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Boxed>,
    /// The member that is to do it, by id; absent: anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
    /// The caller's id for this change.
    pub client_id: String,
    /// Hex; compared when the id comes again.
    pub fingerprint: String,
}

/// What may be done to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Take it on.
    #[default]
    Claim,
    /// Let it go.
    Release,
    /// It is done.
    Complete,
}

impl Step {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Complete => "complete",
        }
    }
}

/// Claims, lets go or completes a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStep {
    /// Which.
    pub id: String,
    /// What is done.
    pub step: Step,
    /// For a claim: after so many seconds others may claim it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u64>,
    /// For a completion: what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Boxed>,
    /// The caller's id for this change.
    pub client_id: String,
    /// Hex; compared when the id comes again.
    pub fingerprint: String,
}

/// Asks for a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskGet {
    /// Which.
    pub id: String,
}

/// Asks for tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskList {
    /// Only those that are so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// Those whose ids come after this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many; as many as fit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Anybody it is for may claim it.
    #[default]
    Open,
    /// Somebody is at it.
    Claimed,
    /// It is done.
    Completed,
}

impl TaskStatus {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Open, Self::Claimed, Self::Completed].into_iter().find(|status| status.as_str() == text)
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskEntry {
    /// Its id.
    pub id: String,
    /// Rises with every change of anything that is shared in the mesh.
    pub version: u64,
    /// How it stands.
    pub status: TaskStatus,
    /// How urgent it is.
    pub priority: Priority,
    /// Its title.
    pub title: Boxed,
    /// The rest, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Boxed>,
    /// What came of it, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Boxed>,
    /// The member that is to do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// Who made it.
    pub created_by: String,
    /// When; all times are in milliseconds since 1970.
    pub created_ms: u64,
    /// Who is at it, or has done it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_ms: Option<u64>,
    /// When others may claim it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until_ms: Option<u64>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_ms: Option<u64>,
}

/// An earlier epoch's key for who has a later one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Link {
    /// The epoch of the key that is handed on.
    pub epoch: u64,
    /// The epoch of the key it is sealed with.
    pub under: u64,
    /// Base64.
    pub link: String,
}

#[cfg(test)]
mod tests {
    use super::super::client::{Call, ClientFrame, Request};
    use super::*;

    fn boxed() -> Boxed {
        Boxed { epoch: 3, nonce: "bm9uY2U=".into(), ciphertext: "Ym94".into() }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let (key, client_id, fingerprint) = ("ab".repeat(32), "c1".to_owned(), "00".repeat(32));
        let set = StateSet {
            key: key.clone(),
            if_version: Some(0),
            name: boxed(),
            value: Some(boxed()),
            client_id: client_id.clone(),
            fingerprint: fingerprint.clone(),
        };
        let create = TaskCreate { id: "t".into(), title: boxed(), client_id, fingerprint, ..TaskCreate::default() };
        let step = TaskStep { id: "t".into(), step: Step::Complete, result: Some(boxed()), ..TaskStep::default() };
        let calls = [
            Call::StateSet(Box::new(set)),
            Call::StateGet(StateGet { keys: vec![key.clone()] }),
            Call::StateList(Page { after: Some(key) }),
            Call::TaskCreate(Box::new(create)),
            Call::TaskStep(Box::new(step)),
            Call::TaskGet(TaskGet { id: "t".into() }),
            Call::TaskList(TaskList { status: Some(TaskStatus::Claimed), after: None, limit: Some(5) }),
            Call::SharedLinks(Page::default()),
            Call::SharedLinkPut(Link { epoch: 1, under: 2, link: "bA==".into() }),
        ];
        for call in calls {
            let frame = ClientFrame::Request(Request { req_id: Some("7".into()), call });
            let text = frame.encode();
            assert_eq!(ClientFrame::decode(&text).unwrap(), frame, "{text}");
        }
    }

    #[test]
    fn words_are_the_protocols() {
        let text = r#"{"type":"state_set","_reqId":"1","key":"k","ifVersion":4,"name":{"epoch":0,"nonce":"","ciphertext":""},"clientId":"c","fingerprint":""}"#;
        let ClientFrame::Request(Request { call: Call::StateSet(set), .. }) = ClientFrame::decode(text).unwrap() else {
            panic!("another frame")
        };
        assert_eq!((set.if_version, set.value), (Some(4), None));
        assert!(ClientFrame::decode(r#"{"type":"task_step","id":"t","step":"dance"}"#).is_err());
        assert_eq!(TaskStatus::parse("completed"), Some(TaskStatus::Completed));
        assert_eq!(TaskStatus::parse("all"), None);
    }
}
