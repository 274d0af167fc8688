//! What is asked of people, told to those it concerns, and how it is written down.
//!
//! Invariant: the owner of a session hears of every question of it, whoever prompted; what its own streams tell it
//! anyway is not said twice.

use std::sync::Arc;

use hostel_agents::Decision;
use hostel_agents::Raw;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Subject;
use hostel_house::pipelines::Interpreter;
use hostel_house::pipelines::LibraryPath;
use hostel_house::pipelines::NamedFile;
use hostel_house::pipelines::Pipeline;
use hostel_house::pipelines::Privilege;
use hostel_house::pipelines::Resolved;
use hostel_house::pipelines::Stage;
use hostel_house::pipelines::Writers;
use hostel_house::pipelines::hex_of;
use hostel_tasks::SpawnBoxed as _;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::elicit;
use super::time;
use super::unique::Unique;
use super::updates::word;
use super::visitor::Visitor;

/// Announces pending approvals of the client's own sessions, until it leaves.
pub(crate) async fn announce(visitor: Arc<Visitor>) {
    let approvals = visitor.house().approvals.clone();
    let mut changed = approvals.changed();
    let mut asking = JoinSet::new();
    loop {
        changed.borrow_and_update();
        let pending = approvals.pending();
        visitor.forget_told(|told| pending.iter().any(|approval| approval.id == told));
        for approval in pending {
            let owned = visitor.house().sessions.get(&approval.session).is_some_and(|session| visitor.owns(&session));
            // An identity can be claimed by anybody: a process inside the house hears of its own sessions alone.
            if !owned || !visitor.rights.sees_session(&approval.session).await {
                continue;
            }
            if may_elicit(&visitor, &approval.tool, &approval.input).await {
                if visitor.claim(&approval.id) {
                    asking.spawn_boxed(elicit::ask(Arc::clone(&visitor), approval));
                }
            } else if !visitor.hears(&approval.session, approval.turn)
                && visitor.claim(&approval.id)
                && tell(&visitor, &approval).await.is_err()
            {
                return;
            }
        }
        tokio::select! {
            more = changed.changed() => {
                if more.is_err() {
                    return;
                }
            }
            () = visitor.poked.notified() => {}
            Some(_) = asking.join_next(), if !asking.is_empty() => {}
        }
    }
}

/// Whether a question is put to this client as a choice instead of a request for approval.
pub(crate) async fn may_elicit(visitor: &Visitor, tool: &str, input: &Raw) -> bool {
    visitor.elicits()
        && elicit::applies(tool, input)
        && visitor.house().approvals.may_decide(&visitor.peer).await.is_ok()
}

async fn tell(visitor: &Visitor, approval: &Approval) -> std::io::Result<()> {
    let mut lines = Vec::new();
    visitor.updates(&approval.session, false).push_approval(&mut lines, approval);
    visitor.writer.send(&lines).await
}

/// An approval as it is listed: everything that decides what will happen, exactly.
pub(crate) fn describe(approval: &Approval) -> Value {
    let mut entry = brief(approval);
    entry["input"] = readable(&approval.input);
    match &approval.subject {
        Subject::Tool { .. } => {}
        Subject::Pipeline(pipeline) => entry["subject"] = describe_pipeline(pipeline),
        Subject::Question { text, details } => entry["subject"] = json!({"text": text, "details": details}),
        Subject::Letter { session, name, letter } => {
            entry["subject"] = json!({
                "session_id": session,
                "name": name,
                "mesh": letter.mesh,
                "from": letter.from,
                "from_key": letter.from_key,
                "message_id": letter.message,
                "reply_to": letter.reply_to,
                "text": letter.text,
                "verified": letter.verified,
            });
        }
    }
    entry
}

/// What a tool would get. What is nested too deeply, holds a number that is none here, or a name twice, is shown as it
/// was written: nothing must look as if it were not there.
fn readable(input: &Raw) -> Value {
    let read = serde_json::from_str::<Unique>(input.get()).and_then(|Unique| serde_json::from_str(input.get()));
    read.unwrap_or_else(|_| Value::String(input.get().to_owned()))
}

/// The same without what may be large. It says so: whoever decides has to ask for all of it.
pub(crate) fn abridged(approval: &Approval) -> Value {
    let mut entry = brief(approval);
    entry["abridged"] = true.into();
    entry
}

/// About how many bytes a whole description takes.
pub(crate) fn weight(approval: &Approval) -> usize {
    let subject = match &approval.subject {
        Subject::Tool { input, .. } => input.get().len(),
        Subject::Question { text, details } => text.len() + details.len(),
        Subject::Letter { letter, .. } => letter.text.len() + letter.from.len() + 512,
        Subject::Pipeline(pipeline) => {
            let words = pipeline.stages.iter().flat_map(|stage| &stage.argv).map(|word| word.len() + 8);
            let variables = pipeline.env.iter().map(|(name, value)| name.len() + value.len() + 32);
            let named = pipeline.stages.iter().flat_map(|stage| &stage.named).map(|_| 512);
            words.chain(variables).chain(named).sum::<usize>() + 2048 * pipeline.stages.len()
        }
    };
    subject + approval.reason.len() + approval.summary.len() + 1024
}

fn brief(approval: &Approval) -> Value {
    let requester = &approval.requester;
    let mut who = json!({
        "door": requester.door,
        "session": requester.session,
        "host": requester.host,
        "client": requester.client,
    });
    if let Some(peer) = &requester.peer {
        who["pid"] = peer.pid.into();
        who["uid"] = peer.uid.into();
        who["program"] = peer.program.as_str().into();
        who["cwd"] = peer.cwd.as_str().into();
        who["root_pid"] = peer.root_pid.into();
    }
    let mut entry = json!({
        "id": approval.id,
        "kind": approval.kind.word(),
        "session_id": approval.session,
        "turn": approval.turn,
        "tool": approval.tool,
        "summary": approval.summary,
        "reason": approval.reason,
        "requester": who,
        "state": approval.state.word(),
        "run": approval.run.word(),
        "digest": hex_of(&approval.digest),
        "created_at": time::rfc3339(approval.created_ns),
        "expires_at": time::rfc3339(approval.expires_ns),
    });
    for (key, moment) in [("decided_at", approval.decided_ns), ("shown_at", approval.shown_ns)] {
        if moment > 0 {
            entry[key] = time::rfc3339(moment).into();
        }
    }
    if let Some(decision) = &approval.decision {
        entry["decision"] = word(decision).into();
    }
    for (key, text) in [("decider", &approval.decider), ("rule", &approval.rule)] {
        if !text.is_empty() {
            entry[key] = text.as_str().into();
        }
    }
    // A request whose row was tampered with was denied by nobody but the house itself.
    if let Some(Decision::Reject(why)) = &approval.decision
        && approval.decider.is_empty()
        && approval.rule.is_empty()
    {
        entry["why"] = why.as_str().into();
    }
    if let Some(outcome) = &approval.outcome {
        entry["outcome"] = serde_json::to_value(outcome).unwrap_or_default();
    }
    entry
}

fn describe_pipeline(pipeline: &Pipeline) -> Value {
    let by = match pipeline.privilege {
        Privilege::None => Value::Null,
        Privilege::Sudo => "sudo".into(),
        Privilege::Pkexec => "pkexec".into(),
    };
    json!({
        "stages": pipeline.stages.iter().map(describe_stage).collect::<Vec<_>>(),
        // A list: names that somebody else chose are no keys of ours.
        "env": pipeline.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
        "cwd": pipeline.cwd.to_string_lossy(),
        "privileged": pipeline.privilege.is_privileged(),
        "by": by,
        "forward_agent": pipeline.forward_agent,
        "changeable": pipeline.changeable_code(),
    })
}

fn describe_stage(stage: &Stage) -> Value {
    let mut entry = json!({"argv": stage.argv, "file": describe_file(&stage.file)});
    if !stage.named.is_empty() {
        entry["named"] = stage.named.iter().map(describe_named).collect();
    }
    if stage.names_more {
        entry["names_more"] = true.into();
    }
    entry
}

fn describe_file(file: &Resolved) -> Value {
    let Resolved::Found { path, target, dev, inode, size, digest, writers, interpreters, libraries } = file else {
        let Resolved::Missing { errno, text } = file else { return Value::Null };
        return json!({"missing": text, "errno": errno});
    };
    let mut entry = json!({
        "path": path.to_string_lossy(),
        "target": target.to_string_lossy(),
        "dev": dev,
        "inode": inode,
        "size": size,
        "digest": hex_of(digest),
    });
    describe_writers(&mut entry, writers);
    if !interpreters.is_empty() {
        let interpreter = |found: &Interpreter| {
            let mut entry = json!({"name": found.name, "file": describe_file(&found.file)});
            if found.is_loader {
                entry["loader"] = true.into();
            }
            entry
        };
        entry["interpreters"] = interpreters.iter().map(interpreter).collect();
    }
    if !libraries.is_empty() {
        let library = |LibraryPath { path, writers }: &LibraryPath| {
            let mut entry = json!({"path": path.to_string_lossy()});
            describe_writers(&mut entry, writers);
            entry
        };
        entry["libraries"] = libraries.iter().map(library).collect();
    }
    entry
}

fn describe_named(file: &NamedFile) -> Value {
    let mut entry = json!({"word": file.word, "path": file.path.to_string_lossy()});
    for (key, holds) in [("directory", file.is_directory), ("code", file.is_code)] {
        if holds {
            entry[key] = true.into();
        }
    }
    if let Some(digest) = &file.digest {
        entry["digest"] = hex_of(digest).into();
    }
    describe_writers(&mut entry, &file.writers);
    entry
}

/// Who can change a file besides root, and why; nothing if nobody can.
fn describe_writers(entry: &mut Value, writers: &Writers) {
    if let Some(reason) = writers.reason() {
        entry["changeable"] = reason.into();
        entry["by_requester"] = matches!(writers, Writers::Requester(_)).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_input_is_hidden() {
        let raw = |text: &str| Raw(serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(readable(&raw(r#"{"command":"ls"}"#)), json!({"command": "ls"}));
        let plain = r#"[{"a":1,"b":-1.5},{"a":[null,true,"x"]}]"#;
        assert_eq!(readable(&raw(plain)), serde_json::from_str::<Value>(plain).unwrap());
        let deep = format!(r#"{{"command":"rm","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let huge = r#"{"command":"rm","x":1e999}"#.to_owned();
        let twice = r#"{"a":[{"command":"rm","command":"ls"}]}"#.to_owned();
        for hidden in [deep, huge, twice] {
            assert_eq!(readable(&raw(&hidden)), Value::String(hidden));
        }
    }
}
