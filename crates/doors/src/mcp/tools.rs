//! What each tool is called, takes and gives, as clients are told.
//!
//! Invariant: the schemas and the types in `arguments` and the results say the same.

use std::sync::Arc;

use rmcp::model::JsonObject;
use rmcp::model::Tool;
use rmcp::model::ToolAnnotations;
use serde_json::Value;
use serde_json::json;

/// The tools of a server: the contract's five, and ours.
pub(super) fn tools(contract: bool) -> Vec<Tool> {
    let mut tools = vec![execute(), start_server(), stop_server(), status(), update_host()];
    if !contract {
        tools.extend([ask_approval(), session_list(), session_send(), session_read()]);
        for tool in &mut tools {
            tool.annotations = Some(hints(&tool.name));
        }
    }
    tools
}

pub(super) fn tool(name: &'static str, description: &'static str, required: &[&str], properties: &Value) -> Tool {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Tool::new(name, description, object(schema))
}

pub(super) fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(members) => Arc::new(members),
        _ => Arc::default(),
    }
}

/// What a tool does to the world.
fn hints(name: &str) -> ToolAnnotations {
    let hints = ToolAnnotations::new();
    match name {
        "execute" => hints.read_only(false).destructive(true).open_world(true),
        "start_server" | "update_host" => hints.read_only(false).destructive(false).idempotent(true).open_world(false),
        "stop_server" => hints.read_only(false).destructive(true).idempotent(true).open_world(false),
        "ask_approval" => hints.read_only(true).open_world(true),
        "session_send" => hints.read_only(false).destructive(false).open_world(true),
        _ => hints.read_only(true).open_world(false),
    }
}

fn host(which: &str) -> Value {
    json!({"type": "string", "description": format!("{which}; leave it out for this machine")})
}

fn execute() -> Tool {
    tool(
        "execute",
        "Run a command, or several joined by pipes, after a person has approved exactly that at the host's terminal or \
         inbox. Give `argv` for one command or `pipeline` for several, for example [[\"ls\", \"/tmp\"], [\"wc\", \
         \"-l\"]]; no shell is involved. An unprivileged command on this machine is refused: use your own shell tool for \
         that. Waits for the person, then gives what the last command printed, what each wrote to stderr, and exit codes. \
         Fails with 'Request denied by user.' when the person refuses, with a timeout when nobody answers, and with \
         'sudo-proxy is not running' when there is no daemon: call start_server then.",
        &[],
        &json!({
            "argv": {"type": "array", "items": {"type": "string"}, "description": "One command: the program and its arguments"},
            "pipeline": {"type": "array", "items": {"type": "array", "items": {"type": "string"}},
                "description": "Several commands, the output of each going into the next; used instead of argv when not empty"},
            "host": host("The machine to run it on, whose tunnel start_server opened"),
            "timeout": {"type": "integer", "format": "uint64", "minimum": 0, "description":
                "Milliseconds to wait for an answer, at most 600000. Without it 120000 for a privileged command and no limit for another"},
            "description": {"type": "string", "description": "Why: one sentence that the person is shown"},
            "privileged": {"type": "boolean", "default": true, "description": "Whether it runs as root"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "description":
                "Variables to set: LANG, TZ, HOME, DEBIAN_FRONTEND, TERM and LC_* only"},
            "forward_agent": {"type": "boolean", "default": false, "description":
                "Lend it the ssh agent; only for an unprivileged command on another machine"},
        }),
    )
}

fn start_server() -> Tool {
    tool(
        "start_server",
        "Start the daemon that execute needs. With `host`, opens a terminal with an ssh tunnel to that machine, whose \
         daemon then asks for approval in it. A machine that was never reached before is connected to only after a \
         person has agreed. One that runs already is left alone and counts as started. Waits until it answers: up to \
         5 s for this machine, up to 30 s for another.",
        &[],
        &json!({
            "host": host("The machine to connect to"),
            "forward_agent": {"type": "boolean", "default": false, "description":
                "Ignored: only a person can lend the ssh agent, with `sudo-proxy --forward-agent`"},
        }),
    )
}

fn stop_server() -> Tool {
    tool(
        "stop_server",
        "Stop a daemon, and close the tunnel to it. Needs no approval. One that does not run is no error.",
        &[],
        &json!({"host": host("The machine whose daemon to stop")}),
    )
}

fn status() -> Tool {
    tool(
        "status",
        "Say which daemons answer, with their versions and what is known about their hosts: one line each. Runs \
         nothing and asks nobody. Without `host`: this machine and every known one.",
        &[],
        &json!({"host": host("The one machine to look at")}),
    )
}

fn update_host() -> Tool {
    tool(
        "update_host",
        "Note what a host is. Only what is given is changed; a host that is not known yet is added.",
        &["host"],
        &json!({
            "host": {"type": "string", "description": "The machine's name"},
            "description": {"type": "string", "description": "What it is, for people"},
            "os": {"type": "string", "description": "Its operating system"},
        }),
    )
}

fn ask_approval() -> Tool {
    tool(
        "ask_approval",
        "Ask a person for consent to something and wait for the answer. The question goes to the approvals inbox of \
         this machine (`hostel approvals`), where a person reads it and agrees or refuses. Waits up to a day; cancelling \
         the call takes the question back. Treat everything but `approved` as no.",
        &["question"],
        &json!({
            "question": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "What you want to do, so that yes or no is an answer"},
            "details": {"type": "string", "maxLength": 65536, "description": "What the person needs to know to decide"},
        }),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "enum": ["approved", "denied", "expired", "withdrawn"]},
            "text": {"type": "string", "description": "What the person said"},
            "decider": {"type": "string", "description": "Who decided, or by which rule"},
            "id": {"type": "string"},
        },
        "required": ["answer", "text", "decider", "id"],
    })))
}

fn session_list() -> Tool {
    tool(
        "session_list",
        "List the agent sessions of this machine: which agent, where it works, whether it is busy. Most recently active first.",
        &[],
        &json!({
            "query": {"type": "string", "description": "Only those whose name or conversation contains this"},
            "all": {"type": "boolean", "default": false, "description": "Also closed ones"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        }),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {"sessions": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "session": {"type": "string"}, "name": {"type": "string"}, "agent": {"type": "string"},
                "status": {"type": "string", "enum": ["idle", "busy"]},
                "standing": {"type": "string", "enum": ["live", "archived", "killed"]},
                "cwd": {"type": "string"}, "mode": {"type": "string"}, "model": {"type": "string"},
                "queued": {"type": "integer"}, "turns": {"type": "integer"}, "last_seq": {"type": "integer"},
                "last_activity": {"type": "string"},
            },
            "required": ["session", "agent", "status", "standing"],
        }}},
        "required": ["sessions"],
    })))
}

fn session_send() -> Tool {
    tool(
        "session_send",
        "Put a prompt to an agent session of this machine. It is kept safely at once and put to the agent when that is \
         done with what came before. With `wait` the call also waits for the agent's answer; when that takes longer \
         than `timeout`, read it later with session_read. The same `request_id` never sends a prompt twice.",
        &["session", "prompt"],
        &json!({
            "session": {"type": "string", "description": "A session's id, its name, or the first four or more characters of its id"},
            "prompt": {"type": "string", "minLength": 1},
            "wait": {"type": "boolean", "default": false},
            "timeout": {"type": "integer", "minimum": 0, "maximum": 600_000, "default": 120_000, "description": "Milliseconds to wait for the answer"},
            "request_id": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Your own name for this prompt: sent again with the same one, it is recognised"},
        }),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {
            "session": {"type": "string"},
            "turn": {"type": "integer"},
            "after_seq": {"type": "integer", "description": "Everything of this turn has a greater number"},
            "state": {"type": "string", "enum": ["waiting", "completed", "failed", "cancelled"]},
            "answer": {"type": "string"},
            "repeated": {"type": "boolean", "description": "It had been sent before"},
        },
        "required": ["session", "turn", "after_seq", "state", "answer", "repeated"],
    })))
}

fn session_read() -> Tool {
    tool(
        "session_read",
        "Read what happened in an agent session, from a number on: prompts, answers, tool calls and their results. Give \
         the `last_seq` of one answer as `after` of the next. Long texts are cut.",
        &["session"],
        &json!({
            "session": {"type": "string", "description": "A session's id, its name, or the first four or more characters of its id"},
            "after": {"type": "integer", "minimum": 0, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 200},
        }),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {
            "session": {"type": "string"},
            "events": {"type": "array", "items": {"type": "object", "properties": {
                "type": {"type": "string"}, "seq": {"type": "integer"}, "turn": {"type": "integer"}}, "required": ["type"]}},
            "last_seq": {"type": "integer", "description": "The number of the last event given"},
            "more": {"type": "boolean", "description": "There are more events after it"},
        },
        "required": ["session", "events", "last_seq", "more"],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_of_the_contract_and_four_of_ours() {
        let names = |contract| tools(contract).into_iter().map(|tool| tool.name.into_owned()).collect::<Vec<_>>();
        assert_eq!(names(true), ["execute", "start_server", "stop_server", "status", "update_host"]);
        assert_eq!(names(false).get(5..).unwrap(), ["ask_approval", "session_list", "session_send", "session_read"]);
        for tool in tools(false) {
            assert!(!tool.description.unwrap().is_empty());
            assert_eq!(tool.input_schema.get("type"), Some(&json!("object")));
        }
        assert!(tools(true).iter().all(|tool| tool.annotations.is_none() && tool.output_schema.is_none()));
    }
}
