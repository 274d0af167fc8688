//! What a `session/update` or the tool call of a question says, field by field.
//!
//! It keeps nothing and decides nothing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::launch::Kind;
use crate::raw::Raw;
use crate::text::{self, Field};
use crate::{gemini, opencode};

/// The longest name of a tool that is made up from its title.
const NAME_LIMIT: usize = 80;

/// The fields of all kinds of updates that are looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    pub(super) session_update: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow)]
    pub(super) message_id: Field<'a>,
    #[serde(borrow)]
    pub(super) tool_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) status: Field<'a>,
    #[serde(borrow)]
    title: Field<'a>,
    #[serde(borrow)]
    kind: Field<'a>,
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    raw_input: Field<'a>,
    #[serde(borrow)]
    raw_output: Field<'a>,
    #[serde(borrow)]
    locations: Field<'a>,
    #[serde(borrow)]
    pub(super) entries: Field<'a>,
    #[serde(borrow)]
    pub(super) used: Field<'a>,
    #[serde(borrow)]
    pub(super) size: Field<'a>,
    #[serde(borrow)]
    pub(super) cost: Field<'a>,
    #[serde(borrow, rename = "_meta")]
    meta: Field<'a>,
}

/// What agents put beside the fields of the protocol.
#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "claudeCode")]
    claude: Field<'a>,
    #[serde(borrow)]
    codex: Field<'a>,
    #[serde(borrow)]
    terminal_output_delta: Field<'a>,
    #[serde(borrow)]
    terminal_output: Field<'a>,
}

/// A block of content.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    path: Field<'a>,
}

/// A piece of a message or of a thought.
pub(super) struct Piece<'a> {
    pub(super) session: &'a str,
    pub(super) thought: bool,
    pub(super) message: Field<'a>,
    pub(super) text: Cow<'a, str>,
}

/// The piece on a line, if it is a line with one. Nearly all lines are: they are read in one go.
pub(super) fn piece(line: &str) -> Option<Piece<'_>> {
    #[derive(Deserialize)]
    struct Line<'a> {
        method: &'a str,
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        #[serde(borrow)]
        update: Chunk<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chunk<'a> {
        session_update: &'a str,
        #[serde(borrow)]
        message_id: Field<'a>,
        #[serde(borrow)]
        content: Text<'a>,
    }
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(borrow)]
        text: Field<'a>,
    }
    if !line.contains("_chunk\"") {
        return None;
    }
    let Line { method: "session/update", params } = text::parse(line)? else { return None };
    let thought = match params.update.session_update {
        "agent_message_chunk" => false,
        "agent_thought_chunk" => true,
        _ => return None,
    };
    let text = text::string(params.update.content.text)?;
    Some(Piece { session: params.session_id, thought, message: params.update.message_id, text })
}

/// The text of one block; nothing of pictures and sounds.
pub(super) fn chunk(content: Field<'_>) -> Option<Cow<'_, str>> {
    text::string(text::object::<Block<'_>>(content)?.text)
}

/// What the tool gets, where the agent says.
pub(super) fn input(update: &Update<'_>) -> Option<Raw> {
    let input = update.raw_input?;
    let empty =
        input.get().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|s| s.trim().is_empty());
    (!empty).then(|| Raw::from(input))
}

/// What can be told of a tool whose input the agent keeps to itself.
pub(super) fn description(update: &Update<'_>) -> Raw {
    #[derive(Serialize)]
    struct Told<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Field<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Field<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        locations: Field<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Field<'a>,
    }
    Raw::of(&Told {
        title: update.title,
        kind: update.kind,
        locations: update.locations.filter(|raw| raw.get() != "[]"),
        content: update.content.filter(|raw| raw.get() != "[]"),
    })
}

/// What the tool would do, for people.
pub(super) fn detail(update: &Update<'_>) -> String {
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        command: Field<'a>,
        #[serde(borrow)]
        filepath: Field<'a>,
    }
    let input = text::object::<Input<'_>>(update.raw_input);
    // A title may be cut, or tell the directory where the file matters.
    let exact = input.and_then(|input| text::owned(input.command).or_else(|| text::owned(input.filepath)));
    exact.or_else(|| text::owned(update.title)).unwrap_or_default()
}

/// Which tool it is, as well as can be told.
pub(super) fn tool(kind: Kind, call: &str, update: &Update<'_>) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Claude<'a> {
        #[serde(borrow)]
        tool_name: Field<'a>,
    }
    let title = text::owned(update.title).filter(|title| !title.trim().is_empty());
    match (kind, &title) {
        (Kind::Gemini, _) => {
            if let Some(name) = gemini::tool_of_call(call) {
                return gemini::tool_name(name);
            }
        }
        // A call of opencode has its tool's name for a title until its input is known.
        (Kind::Opencode, Some(title)) if text::string(update.session_update).as_deref() == Some("tool_call") => {
            return opencode::tool_name(title);
        }
        _ => {}
    }
    let claude = text::object::<Meta<'_>>(update.meta).and_then(|meta| text::object::<Claude<'_>>(meta.claude));
    let named = text::owned(update.name).or_else(|| text::owned(claude?.tool_name));
    named
        .or_else(|| general(update))
        .or(title.map(|title| text::head(&title, NAME_LIMIT).to_owned()))
        .unwrap_or_else(|| "tool".to_owned())
}

/// The name of a tool of that kind.
fn general(update: &Update<'_>) -> Option<String> {
    let kind = text::string(update.kind)?;
    let name = match &*kind {
        "execute" => "bash",
        "edit" | "read" | "search" | "fetch" | "delete" | "move" | "think" => &*kind,
        _ => return None,
    };
    Some(name.to_owned())
}

/// A piece of a tool's output, where it comes beside the protocol.
pub(super) fn terminal(update: &Update<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        data: Field<'a>,
    }
    let meta: Meta<'_> = text::object(update.meta)?;
    text::owned(text::object::<Output<'_>>(meta.terminal_output_delta.or(meta.terminal_output))?.data)
}

/// A warning beside the protocol: what went wrong and will be tried again.
pub(super) fn warning(update: &Update<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Codex<'a> {
        #[serde(borrow)]
        error: Field<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Error<'a> {
        #[serde(borrow)]
        message: Field<'a>,
        #[serde(borrow)]
        additional_details: Field<'a>,
    }
    let codex: Codex<'_> = text::object(text::object::<Meta<'_>>(update.meta)?.codex)?;
    let error: Error<'_> = text::object(codex.error)?;
    let message = text::owned(error.message)?;
    Some(match text::string(error.additional_details) {
        Some(details) => format!("{message}: {details}"),
        None => message,
    })
}

/// Whether the agent's engine says, beside the protocol, that it has given up.
pub(super) fn is_broken(update: &Update<'_>) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Codex<'a> {
        #[serde(borrow)]
        thread_status: Field<'a>,
    }
    #[derive(Deserialize)]
    struct Status<'a> {
        #[serde(borrow, rename = "type")]
        kind: Field<'a>,
    }
    let status = text::object::<Meta<'_>>(update.meta)
        .and_then(|meta| text::object::<Codex<'_>>(meta.codex))
        .and_then(|codex| text::object::<Status<'_>>(codex.thread_status));
    status.is_some_and(|status| text::string(status.kind).as_deref() == Some("systemError"))
}

/// What a tool said in the end. `gathered` is what came in pieces before.
pub(super) fn output(update: &Update<'_>, gathered: Option<String>) -> String {
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        output: Field<'a>,
        #[serde(borrow)]
        error: Field<'a>,
    }
    let raw = update.raw_output;
    let said = text::owned(raw).or_else(|| {
        let output: Output<'_> = text::object(raw)?;
        text::owned(output.output).or_else(|| text::owned(output.error))
    });
    said.or_else(|| content(update)).or(gathered).or_else(|| raw.map(|raw| raw.get().to_owned())).unwrap_or_default()
}

fn content(update: &Update<'_>) -> Option<String> {
    let blocks = text::list(update.content).into_iter().filter_map(|raw| text::parse::<Block<'_>>(raw.get()));
    let texts = blocks.filter_map(|block| match text::string(block.kind).as_deref() {
        Some("content") => chunk(block.content).map(Cow::into_owned),
        Some("diff") => text::owned(block.path),
        _ => None,
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
