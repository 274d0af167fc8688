//! A session as a document: Markdown for people, made update by update so that its length does not matter.
//!
//! Invariant: every prompt, answer, thought, tool call, result, question and cost is in it, none shortened; a fence is
//! always longer than any in what it encloses.
//!
//! It does no input or output.

use std::time::Duration;

use serde_json::Value;

use super::summary;
use super::update::Outcome;
use super::update::Update;
use super::update::What;
use super::wire::SessionRow;
use super::words;
use crate::text;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Block {
    #[default]
    None,
    Text,
    Thought,
}

/// The document so far.
#[derive(Default)]
pub(crate) struct Transcript {
    block: Block,
    said: bool,
    started_ns: u64,
    written: String,
}

impl Transcript {
    /// The head of the document.
    pub(crate) fn head(row: &SessionRow) -> String {
        let title = row.name.clone().unwrap_or_else(|| format!("Session {}", super::short(&row.session_id)));
        let mut head = format!("# {}\n\n", inline(&title));
        let model = row.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
        let mut facts = vec![
            ("Session", row.session_id.clone()),
            ("Agent", format!("{}{model}", row.agent_alias)),
            ("Mode", row.mode.clone()),
            ("Directory", row.cwd.clone()),
            ("Created", super::wire::moment(row.created_ns())),
            ("Turns", row.turns.to_string()),
        ];
        let cost = words::cost(&row.usage);
        if !cost.is_empty() {
            facts.push(("Usage", cost));
        }
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("- {name}: {}\n", inline(value)));
        }
        head
    }

    /// What one update adds.
    pub(crate) fn push(&mut self, update: &Update) -> String {
        match &update.what {
            What::TurnStarted { prompt, door } => {
                self.said = false;
                self.started_ns = update.time_ns;
                let time = match update.time_ns {
                    0 => String::new(),
                    time => format!(" · {}", super::wire::moment(time)),
                };
                self.paragraph(&format!("## Turn {}{time} · {}", update.turn, inline(door)));
                self.paragraph(&quoted(prompt));
            }
            What::Text(chunk) => {
                self.said |= !chunk.trim().is_empty();
                self.flow(Block::Text, chunk);
            }
            What::Thought(chunk) => self.flow(Block::Thought, chunk),
            What::ToolCall { name, input, .. } => {
                self.paragraph(&format!("**{}**", inline(name)));
                match command(input) {
                    Some(command) => self.paragraph(&fenced("sh", command)),
                    None if *input == Value::Null => {}
                    None => self.paragraph(&fenced("json", &serde_json::to_string_pretty(input).unwrap_or_default())),
                }
            }
            What::ToolResult { name, output, failed, .. } => {
                let of = if name.is_empty() { String::new() } else { format!(" of {}", inline(name)) };
                self.paragraph(&format!("{}{of}:", if *failed { "Failure" } else { "Result" }));
                self.paragraph(&fenced("text", output));
            }
            What::Asked(question) => {
                self.paragraph(&format!("**Permission asked** for {}:", inline(&question.tool)));
                let asked = summary::whole(&question.input);
                self.paragraph(&fenced("text", if asked.is_empty() { &question.summary } else { &asked }));
            }
            What::Answered { decision, reason, .. } => {
                let reason = if reason.is_empty() { String::new() } else { format!(": {}", inline(reason)) };
                self.paragraph(&format!("*{}{reason}*", words::verdict(decision).1));
            }
            What::Plan(steps) => {
                let list: Vec<String> = steps
                    .iter()
                    .map(|step| {
                        let mark = if step.status == "completed" { 'x' } else { ' ' };
                        format!("- [{mark}] {}", inline(&step.content))
                    })
                    .collect();
                self.paragraph(&list.join("\n"));
            }
            What::Notice(message) => self.paragraph(&format!("*{}*", inline(message))),
            What::Error(message) => self.paragraph(&format!("**Error:** {}", inline(message))),
            What::TurnEnded { outcome, content, usage } => {
                if *outcome == Outcome::Completed && !self.said {
                    self.flow(Block::Text, content);
                }
                let took = match (self.started_ns, update.time_ns) {
                    (0, _) | (_, 0) => String::new(),
                    (started, ended) => {
                        format!(" after {}", words::brief(Duration::from_nanos(ended.saturating_sub(started))))
                    }
                };
                let cost = words::cost(usage);
                let cost = if cost.is_empty() { cost } else { format!(" · {cost}") };
                let (word, reason) = match outcome {
                    Outcome::Completed => ("Completed", String::new()),
                    Outcome::Failed => ("Failed", format!(": {}", inline(content))),
                    Outcome::Cancelled => ("Cancelled", format!(": {}", inline(content))),
                };
                self.paragraph(&format!("*{word}{took}{reason}{cost}*"));
                self.started_ns = 0;
            }
            What::Gap { from, to } => self.paragraph(&format!("*The updates {from} to {to} are gone.*")),
            What::Closed | What::Replayed | What::Broken | What::Other => {}
        }
        std::mem::take(&mut self.written)
    }

    /// The end of the document.
    pub(crate) fn end(mut self) -> String {
        self.close();
        self.written
    }

    fn close(&mut self) {
        match std::mem::take(&mut self.block) {
            Block::None => {}
            Block::Text => self.written.push('\n'),
            Block::Thought => self.written.push_str("\n\n</details>\n"),
        }
    }

    fn paragraph(&mut self, paragraph: &str) {
        self.close();
        self.written.push('\n');
        self.written.push_str(paragraph);
        self.written.push('\n');
    }

    fn flow(&mut self, block: Block, chunk: &str) {
        let chunk = text::prose(chunk);
        let mut chunk = chunk.as_ref();
        if self.block != block {
            chunk = chunk.trim_start_matches('\n');
            if chunk.is_empty() {
                return;
            }
            self.close();
            self.block = block;
            self.written.push('\n');
            if block == Block::Thought {
                self.written.push_str("<details><summary>Thought</summary>\n\n");
            }
        }
        self.written.push_str(chunk);
    }
}

/// A command, where that is all an input says.
fn command(input: &Value) -> Option<&str> {
    let fields = input.as_object()?;
    let others = fields.keys().any(|key| !matches!(key.as_str(), "command" | "description"));
    if others { None } else { fields.get("command")?.as_str() }
}

/// One line, harmless.
fn inline(foreign: &str) -> String {
    text::prose(foreign.trim()).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quoted(foreign: &str) -> String {
    let lines: Vec<String> =
        text::prose(foreign.trim_end()).lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

fn fenced(language: &str, foreign: &str) -> String {
    let safe = text::prose(foreign.trim_end_matches('\n'));
    let mut longest = 0;
    let mut run = 0;
    for letter in safe.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{safe}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(updates: &[&str]) -> String {
        let mut transcript = Transcript::default();
        let mut written = String::new();
        for update in updates {
            written.push_str(&transcript.push(&Update::parse(update).unwrap()));
        }
        written.push_str(&transcript.end());
        written
    }

    #[test]
    fn a_turn_with_everything_in_it() {
        let document = written(&[
            r#"{"type":"turn_started","turn":1,"prompt":"Fix it\n\nplease","door":"native"}"#,
            r#"{"type":"agent_thought_chunk","turn":1,"text":"hm"}"#,
            r#"{"type":"agent_thought_chunk","turn":1,"text":"m"}"#,
            r#"{"type":"agent_message_chunk","turn":1,"text":"I will "}"#,
            r#"{"type":"agent_message_chunk","turn":1,"text":"look."}"#,
            r#"{"type":"tool_call","turn":1,"tool_call_id":"c","name":"Bash","raw_input":{"command":"ls"}}"#,
            r#"{"type":"tool_result","turn":1,"tool_call_id":"c","name":"Bash","raw_output":"a ``` b\n"}"#,
            r#"{"type":"tool_call","turn":1,"tool_call_id":"d","name":"Edit","raw_input":{"file_path":"x"}}"#,
            r#"{"type":"turn_complete","turn":1,"outcome":"completed","content":"I will look.",
                "usage":{"input_tokens":1200,"output_tokens":30,"cost_usd":0.5}}"#,
        ]);
        assert_eq!(
            document,
            "\n## Turn 1 · native\n\n> Fix it\n>\n> please\n\n<details><summary>Thought</summary>\n\nhmm\n\n</details>\n\
             \nI will look.\n\n**Bash**\n\n```sh\nls\n```\n\nResult of Bash:\n\n````text\na ``` b\n````\n\n**Edit**\n\n\
             ```json\n{\n  \"file_path\": \"x\"\n}\n```\n\n*Completed · tokens 1.2k in, 30 out · $0.50*\n"
        );
    }

    #[test]
    fn an_answer_that_was_not_streamed_is_not_lost() {
        let document = written(&[
            r#"{"type":"turn_started","turn":2,"prompt":"q","door":"codecast"}"#,
            r#"{"type":"turn_complete","turn":2,"outcome":"completed","content":"the \u001b[31manswer"}"#,
            r#"{"type":"turn_complete","turn":3,"outcome":"cancelled","content":"client_rpc"}"#,
        ]);
        assert_eq!(
            document,
            "\n## Turn 2 · codecast\n\n> q\n\nthe ⟨ESC⟩[31manswer\n\n*Completed*\n\n*Cancelled: client_rpc*\n"
        );
    }
}
