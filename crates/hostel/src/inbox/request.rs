//! One request of the inbox, as the house tells it.
//!
//! Invariant: every field but the id may be missing, so that an older and a newer house are both understood. What is
//! not understood is never taken for harmless: a subject of an unknown form is shown as it came.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::wire::moment_ns;

/// A request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Request {
    pub(crate) id: String,
    /// `agent_tool`, `pipeline`, `privileged_pipeline`, `question` or `mesh_message`.
    pub(crate) kind: String,
    pub(crate) session_id: String,
    pub(crate) turn: u64,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) summary: String,
    pub(crate) reason: String,
    pub(crate) requester: Requester,
    pub(crate) subject: Value,
    /// `pending`, `approved`, `denied`, `expired` or `withdrawn`.
    pub(crate) state: String,
    pub(crate) decision: Option<String>,
    pub(crate) decider: Option<String>,
    pub(crate) rule: Option<String>,
    /// Why the house denied it, where neither a person nor a rule did.
    pub(crate) why: Option<String>,
    /// SHA-256 of what is asked, as text.
    pub(crate) digest: String,
    /// How far it was carried out: `none`, `due`, `started` or `over`.
    pub(crate) run: String,
    pub(crate) outcome: Option<Value>,
    pub(crate) created_at: Value,
    pub(crate) expires_at: Value,
    pub(crate) decided_at: Value,
    pub(crate) shown_at: Value,
}

/// Who asks. All but `door` and what belongs to the process is what they say themselves.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Requester {
    pub(crate) door: String,
    pub(crate) session: String,
    pub(crate) host: String,
    pub(crate) client: String,
    pub(crate) pid: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) program: String,
    pub(crate) cwd: String,
    /// The top of its own tree.
    pub(crate) root_pid: Option<u32>,
}

/// What a request of a pipeline asks for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<Stage>,
    pub(crate) env: Vec<Variable>,
    pub(crate) cwd: String,
    pub(crate) privileged: bool,
    /// `sudo` or `pkexec`.
    pub(crate) by: Option<String>,
    pub(crate) forward_agent: bool,
    /// Code that somebody else than root can change, each in words.
    pub(crate) changeable: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Stage {
    pub(crate) argv: Vec<String>,
    pub(crate) file: File,
    /// Files that its words name.
    pub(crate) named: Vec<NamedFile>,
    /// They may name more than were examined.
    pub(crate) names_more: bool,
}

/// A file or directory that a word of a command names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct NamedFile {
    pub(crate) word: usize,
    pub(crate) path: String,
    pub(crate) directory: bool,
    /// The program runs it.
    pub(crate) code: bool,
    /// Of code that is not too large.
    pub(crate) digest: Option<String>,
    #[serde(flatten)]
    pub(crate) writers: Writers,
    /// It is not what it was when it was asked for.
    pub(crate) changed: bool,
}

/// Who can change a file besides root.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Writers {
    /// Why somebody can.
    pub(crate) changeable: Option<String>,
    /// The requester is one of them.
    pub(crate) by_requester: bool,
}

impl Writers {
    /// That somebody can change a file, in our words; the reason is foreign text.
    pub(crate) fn warning(&self) -> Option<(&'static str, &str)> {
        let reason = self.changeable.as_deref()?;
        let who = if self.by_requester { "the requester can change it: " } else { "others than root can change it: " };
        Some((who, reason))
    }
}

/// A program that runs a script, or that loads a binary.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Interpreter {
    pub(crate) name: String,
    pub(crate) file: File,
    /// It loads the binary before it.
    pub(crate) loader: bool,
}

/// A place where a binary has its libraries looked for, or a library.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Library {
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) writers: Writers,
}

/// The file a first word means, or why there is none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) target: String,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) digest: String,
    /// Why it cannot be run.
    pub(crate) missing: Option<String>,
    /// It is not what it was when it was asked for.
    pub(crate) changed: bool,
    #[serde(flatten)]
    pub(crate) writers: Writers,
    /// If it is a script: what runs it. Loaders that others than root can change as well.
    pub(crate) interpreters: Vec<Interpreter>,
    /// If it is a binary: the places of libraries that it names and that others than root can change.
    pub(crate) libraries: Vec<Library>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Request {
    /// As the house wrote it.
    pub(crate) fn read(value: &Value) -> Result<Self, serde_json::Error> {
        Request::deserialize(value)
    }

    pub(crate) fn pending(&self) -> bool {
        self.state == "pending"
    }

    pub(crate) fn created_ns(&self) -> u64 {
        moment_ns(&self.created_at)
    }

    /// When it is refused by itself; 0 if that is not known.
    pub(crate) fn expires_ns(&self) -> u64 {
        moment_ns(&self.expires_at)
    }

    /// What is left of its time.
    pub(crate) fn left(&self, now_ns: u64) -> Option<Duration> {
        match self.expires_ns() {
            0 => None,
            expires => Some(Duration::from_nanos(expires.saturating_sub(now_ns))),
        }
    }

    /// The pipeline it is about, if it is about one that is understood.
    pub(crate) fn pipeline(&self) -> Option<Pipeline> {
        if !matches!(self.kind.as_str(), "pipeline" | "privileged_pipeline") {
            return None;
        }
        Pipeline::deserialize(&self.subject).ok().filter(|pipeline| !pipeline.stages.is_empty())
    }

    /// The text and the details of a plain question.
    pub(crate) fn question(&self) -> Option<(&str, &str)> {
        let text = |key: &str| self.subject.get(key).and_then(Value::as_str);
        (self.kind == "question").then(|| (text("text").unwrap_or(&self.summary), text("details").unwrap_or_default()))
    }

    /// A part of a message that came over a mesh; none if it is about something else.
    pub(crate) fn letter(&self, key: &str) -> Option<&str> {
        (self.kind == "mesh_message").then(|| self.subject.get(key).and_then(Value::as_str).unwrap_or_default())
    }

    /// Whether it would run as root.
    pub(crate) fn privileged(&self) -> bool {
        self.kind == "privileged_pipeline"
    }

    /// Whether whoever approves it has to confirm that others can change what would run as root.
    pub(crate) fn has_to_be_confirmed(&self) -> bool {
        self.privileged() && self.pipeline().is_some_and(|pipeline| !pipeline.changeable.is_empty())
    }

    /// Who asks, on a few columns: an id only as far as people type it.
    pub(crate) fn caller(&self) -> String {
        let who = self.who();
        let who = if who.len() == 36 { crate::conversation::short(who) } else { who };
        super::visible::text(&super::visible::word(who))
    }

    /// What people call who asks: the session they told, else the program.
    pub(crate) fn who(&self) -> &str {
        let requester = &self.requester;
        let program = requester.program.rsplit('/').next().unwrap_or_default();
        let named = [requester.session.as_str(), self.session_id.as_str(), program, requester.door.as_str()];
        named.into_iter().find(|name| !name.is_empty()).unwrap_or("unknown")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_of_an_older_house_is_understood() {
        let request =
            Request::read(&json!({"id": "a1", "session_id": "s", "tool": "Bash", "input": {}, "state": "pending"}));
        let request = request.unwrap();
        assert!(request.pending() && request.pipeline().is_none() && request.question().is_none());
        assert_eq!((request.who(), request.left(5)), ("s", None));
    }

    #[test]
    fn a_pipeline_is_read_and_nothing_else_is_taken_for_one() {
        let value = json!({"id": "a", "kind": "privileged_pipeline", "state": "pending",
            "expires_at": "1970-01-01T00:01:00Z", "requester": {"program": "/usr/bin/claude"},
            "subject": {"stages": [{"argv": ["ls"], "file": {"path": "/bin/ls", "inode": 7}}],
                        "env": [{"name": "A", "value": "b"}], "cwd": "/", "privileged": true}});
        let request = Request::read(&value).unwrap();
        let pipeline = request.pipeline().unwrap();
        assert_eq!((pipeline.stages[0].file.inode, pipeline.env[0].value.as_str()), (7, "b"));
        assert_eq!((request.who(), request.left(59_000_000_000)), ("claude", Some(Duration::from_secs(1))));
        let mut broken = value.clone();
        broken["subject"]["stages"] = json!([]);
        assert!(Request::read(&broken).unwrap().pipeline().is_none());
        broken["subject"]["stages"] = json!("ls");
        assert!(Request::read(&broken).unwrap().pipeline().is_none());
    }
}
