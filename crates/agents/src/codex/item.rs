//! The items of a codex turn: messages, thoughts, tools. Both conversations have them, spelled differently.
//!
//! Invariant: one vocabulary of tools whatever the spelling: `bash` for commands, `edit` for changes of files, an MCP
//! tool's own name.

use serde::Deserialize;

use crate::event::{Event, PlanEntry};
use crate::raw::Raw;
use crate::text::{self, Field};

/// The fields of any item, today's and those of older versions.
#[derive(Default, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    item_type: Field<'a>,
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    summary: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    command: Field<'a>,
    #[serde(borrow, alias = "aggregatedOutput")]
    aggregated_output: Field<'a>,
    #[serde(borrow)]
    output: Field<'a>,
    #[serde(borrow, alias = "exitCode")]
    exit_code: Field<'a>,
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    pub(super) changes: Field<'a>,
    #[serde(borrow)]
    file: Field<'a>,
    #[serde(borrow)]
    tool: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    arguments: Field<'a>,
    #[serde(borrow)]
    parameters: Field<'a>,
    #[serde(borrow)]
    result: Field<'a>,
    #[serde(borrow, rename = "contentItems")]
    content_items: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    query: Field<'a>,
    #[serde(borrow)]
    prompt: Field<'a>,
    #[serde(borrow)]
    items: Field<'a>,
}

/// What an item is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Command,
    Files,
    /// An MCP tool, or one of the client's own.
    Tool,
    Search,
    Plan,
    Error,
    Other,
}

impl Item<'_> {
    /// What it is about. Old lines have no item of their own; there `type` is the line's.
    pub(super) fn kind(&self) -> Kind {
        let kind = text::string(self.item_type).or_else(|| text::string(self.kind)).unwrap_or_default();
        match &*kind {
            "agent_message" | "agentMessage" | "assistant_message" => Kind::Message,
            "reasoning" => Kind::Reasoning,
            "command_execution" | "commandExecution" => Kind::Command,
            "file_change" | "fileChange" => Kind::Files,
            "mcp_tool_call" | "mcpToolCall" | "dynamicToolCall" | "collab_tool_call" | "collabAgentToolCall" => {
                Kind::Tool
            }
            "web_search" | "webSearch" => Kind::Search,
            "todo_list" => Kind::Plan,
            "error" => Kind::Error,
            _ => Kind::Other,
        }
    }

    /// Its id, empty where there is none.
    pub(super) fn id(&self) -> String {
        text::owned(self.id).unwrap_or_default()
    }

    /// The tool it is a call of, and with what.
    pub(super) fn call(&self) -> Option<(String, Raw)> {
        let (name, input) = match self.kind() {
            // The command alone, as a string: what clients of the one-turn mode have always been given.
            Kind::Command => ("bash".to_owned(), self.command),
            Kind::Files => ("edit".to_owned(), self.changes.or(self.file)),
            Kind::Tool => {
                let name = text::owned(self.tool.or(self.tool_name)).unwrap_or_default();
                (name, self.arguments.or(self.parameters).or(self.prompt))
            }
            Kind::Search => ("web_search".to_owned(), self.query),
            Kind::Message | Kind::Reasoning | Kind::Plan | Kind::Error | Kind::Other => return None,
        };
        Some((name, input.map_or_else(Raw::null, Raw::from)))
    }

    /// What became of the tool it was a call of.
    pub(super) fn tool_result(&self) -> Option<Event> {
        let (name, _) = self.call()?;
        let output = match self.kind() {
            Kind::Command => text::owned(self.aggregated_output.or(self.output)),
            Kind::Files => text::owned(self.summary).or_else(|| Some(changed_files(self.changes))),
            Kind::Tool => Some(self.tool_output()),
            _ => None,
        };
        let status = text::string(self.status).unwrap_or_default();
        let code = text::decimal(self.exit_code).unwrap_or_default();
        let failed = matches!(&*status, "failed" | "declined") || code != 0.0 || self.error.is_some();
        Some(Event::ToolResult { id: self.id(), name, output: output.unwrap_or_default(), failed })
    }

    fn tool_output(&self) -> String {
        #[derive(Deserialize)]
        struct Result<'a> {
            #[serde(borrow)]
            content: Field<'a>,
            #[serde(borrow)]
            message: Field<'a>,
        }
        let inner = |field| text::object::<Result<'_>>(field);
        if let Some(error) = self.error {
            return text::content(inner(Some(error)).map_or(Some(error), |error| error.message));
        }
        let result = self.result.or(self.content_items);
        text::content(inner(result).map_or(result, |result| result.content))
    }

    /// The thought of a reasoning item.
    pub(super) fn thought(&self) -> String {
        let parts = |field| {
            let parts: Vec<String> = text::list(field).into_iter().filter_map(|part| text::owned(Some(part))).collect();
            (!parts.is_empty()).then(|| parts.join("\n\n"))
        };
        text::owned(self.text).or_else(|| parts(self.summary)).or_else(|| parts(self.content)).unwrap_or_default()
    }

    /// The plan of a list of things to do.
    pub(super) fn plan(&self) -> Event {
        plan(self.items)
    }
}

/// What an agent means to do, from a list of steps.
pub(super) fn plan(steps: Field<'_>) -> Event {
    #[derive(Deserialize)]
    struct Step<'a> {
        #[serde(borrow, alias = "step")]
        text: Field<'a>,
        #[serde(borrow)]
        status: Field<'a>,
        #[serde(borrow)]
        completed: Field<'a>,
    }
    let entries = text::list(steps)
        .into_iter()
        .filter_map(|raw| text::parse::<Step<'_>>(raw.get()))
        .map(|step| {
            let status = match text::string(step.status).as_deref() {
                Some("completed") => "completed",
                Some("inProgress" | "in_progress") => "in_progress",
                _ if text::is_true(step.completed) => "completed",
                _ => "pending",
            };
            PlanEntry {
                content: text::owned(step.text).unwrap_or_default(),
                status: status.to_owned(),
                priority: "medium".to_owned(),
            }
        })
        .collect();
    Event::Plan { entries }
}

/// One line per changed file: what was done to it and its path.
pub(super) fn changed_files(changes: Field<'_>) -> String {
    #[derive(Deserialize)]
    struct Change<'a> {
        #[serde(borrow)]
        path: Field<'a>,
        #[serde(borrow)]
        kind: Field<'a>,
    }
    #[derive(Deserialize)]
    struct ChangeKind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Field<'a>,
    }
    let lines: Vec<String> = text::list(changes)
        .into_iter()
        .filter_map(|raw| text::parse::<Change<'_>>(raw.get()))
        .map(|change| {
            let kind = text::object::<ChangeKind<'_>>(change.kind).map_or(change.kind, |kind| kind.kind);
            let kind = text::owned(kind).unwrap_or_else(|| "change".to_owned());
            format!("{kind} {}", text::string(change.path).unwrap_or_default())
        })
        .collect();
    lines.join("\n")
}
