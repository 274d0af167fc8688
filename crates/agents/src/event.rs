//! What happens in a session, in words that belong to no CLI and to no door.

use serde::{Deserialize, Serialize};

use crate::driver::Decision;
use crate::raw::Raw;

/// One thing that happened.
///
/// Written down with its outer name (`{"text_delta":{"text":"…"}}`): that form can hold [`Raw`] values.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The house takes a prompt to the agent. Made by the house.
    TurnStarted {
        /// Its number within the session, from 1.
        turn: u64,
        /// What was asked.
        prompt: String,
        /// The door it came in by.
        door: String,
    },
    /// The agent says who it is. claude says so with every `system` line.
    Init {
        /// `init`, or claude's own word.
        subtype: String,
        /// The CLI's id of this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The model that answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The line, where the CLI printed one for this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    /// A piece of an answer.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A finished block of an answer, whole.
    Text {
        /// All of it.
        text: String,
        /// Its pieces came before as `TextDelta`.
        streamed: bool,
    },
    /// A piece of a thought.
    ThoughtDelta {
        /// The piece.
        text: String,
    },
    /// A finished thought, whole.
    Thought {
        /// All of it.
        text: String,
        /// Its pieces came before as `ThoughtDelta`.
        streamed: bool,
    },
    /// A tool call begins; its input is not known yet.
    ToolBegan {
        /// The tool.
        name: String,
    },
    /// A tool is called.
    ToolCall {
        /// The call's id, empty where the CLI has none.
        id: String,
        /// The tool.
        name: String,
        /// Its input.
        input: Raw,
    },
    /// A tool tells how it is getting on.
    ToolProgress {
        /// The tool.
        name: String,
        /// In its own words.
        message: String,
        /// The line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    /// A tool has ended.
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool; empty where nobody said.
        name: String,
        /// What it said.
        output: String,
        /// It failed, or was refused.
        failed: bool,
    },
    /// The agent asks whether it may.
    PermissionAsked {
        /// The agent's own id of the question, unique within its process.
        request: String,
        /// The approval in the house. Filled in by the house.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        approval: String,
        /// The call it is about, empty where nobody said.
        #[serde(default)]
        call: String,
        /// The tool.
        tool: String,
        /// What the tool would get.
        input: Raw,
        /// One line for people: what would be done.
        summary: String,
        /// How long the house waits for a person. Filled in by the house.
        #[serde(default)]
        timeout_secs: u64,
    },
    /// The question was answered. Made by the house when the answer is on its way.
    PermissionAnswered {
        /// The agent's id of the question.
        request: String,
        /// The approval in the house.
        approval: String,
        /// The answer.
        decision: Decision,
    },
    /// The agent no longer wants to know.
    PermissionWithdrawn {
        /// The agent's id of the question.
        request: String,
    },
    /// What the agent means to do; replaces what it meant before.
    Plan {
        /// Its steps.
        entries: Vec<PlanEntry>,
    },
    /// How full the agent's context is.
    ContextUsage {
        /// Tokens in use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<u64>,
        /// Tokens there is room for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// Something worth knowing that changes nothing: a retry, a warning.
    Notice {
        /// In plain words.
        message: String,
    },
    /// Something went wrong; the turn may go on.
    Error {
        /// In plain words.
        message: String,
    },
    /// The agent's own closing word of a turn.
    Result {
        /// The CLI's id of this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    /// The house is done with a turn, whatever became of it. Made by the house, once per turn, last of all.
    TurnEnded {
        /// Its number.
        turn: u64,
        /// What became of it.
        outcome: Outcome,
        /// The answer of a completed turn (cut at a limit); the reason of any other.
        text: String,
        /// What it cost, as far as the CLI tells.
        #[serde(default)]
        usage: Usage,
    },
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent came to its end.
    Completed,
    /// It did not.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// One step of a plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
}

/// Tokens and money of one turn, never of the whole session.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens written.
    #[serde(default)]
    pub output_tokens: u64,
    /// Of the tokens read, those that were cached.
    #[serde(default)]
    pub cached_tokens: u64,
    /// US dollars.
    #[serde(default)]
    pub cost_usd: f64,
}
