//! A hook for an event: everything that has to be right before it runs, the run, and what is written down of it.
//!
//! Invariant: what is refused is said with its reason and counted; every run is counted, told and, unless its section
//! says otherwise, written to the log. Neither the log nor the event has anything of what it was told or printed.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::name::HookName;
use super::policy::Rule;
use super::run::{self, Exit, Ran, Task};
use super::sandbox;
use super::{State, files, payload};
use crate::events::RUN;
use crate::inbox::InboxRow;
use crate::mesh::core::Core;

/// Where hooks find programs.
const PATH: &str = "/usr/bin:/bin";

/// What a hook that fails has said, for who looks for a fault.
const SHOWN: usize = 500;

/// What a hook is run for.
pub(super) struct Occasion<'a> {
    pub(super) hook: &'a HookName,
    pub(super) rule: &'a Rule,
    pub(super) event_id: &'a str,
    pub(super) payload: Value,
    /// The message, for a token that is bound to it.
    pub(super) row: Option<&'a Arc<InboxRow>>,
}

/// A hook that has run.
pub(super) struct Invoked {
    pub(super) ran: Ran,
    pub(super) calls: u64,
}

/// Runs a hook; an error is why it was not.
pub(super) async fn invoke(core: &Core, state: &State, occasion: Occasion<'_>) -> Result<Invoked, String> {
    let Occasion { hook, rule, event_id, payload, row } = occasion;
    let refuse = |reason: String| {
        core.metrics.hooks.ran(hook.label(), "refused");
        core.log.warn("hook_refused", json!({"hook": hook.to_string(), "event_id": event_id, "reason": reason}));
        Err(reason)
    };
    let Some(place) = &core.hooks.place else { return refuse("hooks are off".to_owned()) };
    let program = match files::program(&place.directory, hook) {
        Ok(program) => program,
        Err(unfit) => return refuse(unfit.to_string()),
    };
    let held = row.and_then(|row| core.hooks.grants.mint(hook, event_id, row, &rule.scopes));
    let options = &place.options;
    let confined = sandbox::confine(
        &options.tools,
        rule,
        &program,
        &place.directory,
        sandbox::scratch(event_id, hook),
        held.as_ref().map(|_| options.socket.as_path()),
    );
    let confined = match confined {
        Ok(confined) => confined,
        Err(reason) => {
            unenforced(core, hook, event_id, "sandbox");
            return refuse(reason);
        }
    };
    let mut environment: Vec<(&'static str, OsString)> = vec![
        ("CLAUDEMESH_MESH", place.mesh.clone().into()),
        ("CLAUDEMESH_HOOK_NAME", hook.to_string().into()),
        ("CLAUDEMESH_EVENT_ID", event_id.into()),
        ("CLAUDEMESH_DAEMON_SOCK", options.socket.clone().into()),
        ("PATH", PATH.into()),
        ("HOME", options.home.clone().unwrap_or_else(|| "/".into())),
        ("LANG", options.lang.clone().unwrap_or_else(|| "C.UTF-8".into())),
    ];
    if let Some(held) = &held {
        environment.push(("CLAUDEMESH_CAPABILITY_TOKEN", held.token().into()));
    }
    let over = || {
        if let Some(held) = &held {
            held.end();
        }
    };
    let ran = run::run(Task {
        confined,
        environment,
        directory: &place.directory,
        stdin: payload::written(payload, &rule.redact, state.settings.stdin_limit),
        timeout: Duration::from_secs(rule.timeout_s.unwrap_or(state.settings.default_timeout_s)),
        most_output: rule.output_size_limit,
        // Below bubblewrap the first process is bubblewrap: ended alone, it would leave the hook behind.
        whole_group: rule.kill_group || rule.bubblewrap,
        marks: [format!("CLAUDEMESH_EVENT_ID={event_id}"), format!("CLAUDEMESH_HOOK_NAME={hook}")],
        over: &over,
    });
    let ran = ran.await;
    let calls = held.as_ref().map_or(0, |held| held.grant.calls());
    drop(held);
    for reason in &ran.unenforced {
        unenforced(core, hook, event_id, reason);
    }
    if ran.overflow {
        core.log.warn(
            "hook_output_truncated",
            json!({"hook": hook.to_string(), "event_id": event_id, "limit": rule.output_size_limit,
                   "stdout_bytes": ran.stdout_bytes, "stderr_bytes": ran.stderr_bytes}),
        );
    }
    if ran.exit != Exit::Code(0) {
        let said = String::from_utf8_lossy(&ran.stderr);
        let said: String = said.chars().filter(|c| !c.is_control() || *c == '\n').take(SHOWN).collect();
        core.log.debug("hook_stderr", json!({"hook": hook.to_string(), "event_id": event_id, "stderr": said}));
    }
    Ok(Invoked { ran, calls })
}

/// Something of the policy could not be enforced; the hook runs all the same.
fn unenforced(core: &Core, hook: &HookName, event_id: &str, reason: &str) {
    core.metrics.hooks.unenforced(hook.label(), reason);
    core.log
        .warn("hook_policy_unenforceable", json!({"hook": hook.to_string(), "event_id": event_id, "reason": reason}));
}

/// Counts a run, writes it down and tells of it.
pub(super) async fn record(
    core: &Core,
    hook: &HookName,
    rule: &Rule,
    event_id: &str,
    invoked: &Invoked,
    replied: bool,
) {
    let Invoked { ran, calls } = invoked;
    core.metrics.hooks.ran(hook.label(), label(&ran.exit));
    core.metrics.hooks.took(hook.label(), ran.took);
    let mut fields = json!({
        "hook": hook.to_string(), "event_id": event_id, "exit": ran.exit.code(),
        "duration_ms": u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX), "stdout_bytes": ran.stdout_bytes,
        "stderr_bytes": ran.stderr_bytes, "replied": replied, "capability_calls": calls,
    });
    match &ran.exit {
        Exit::TimedOut => fields["reason"] = "timeout".into(),
        Exit::Failed(reason) => fields["reason"] = reason.clone().into(),
        Exit::Code(_) | Exit::Signal(_) => {}
    }
    if rule.audit {
        core.log.record(RUN, fields.clone());
    }
    fields["mesh"] = core.me.slug.clone().into();
    core.publish(RUN, fields).await;
}

/// How an end is counted.
fn label(exit: &Exit) -> &'static str {
    match exit {
        Exit::Code(0) => "0",
        Exit::Code(1) => "1",
        Exit::Code(2) => "2",
        Exit::Code(126) => "126",
        Exit::Code(127) => "127",
        Exit::Code(_) => "other",
        Exit::Signal(_) => "signal",
        Exit::TimedOut => "timeout",
        Exit::Failed(_) => "failed",
    }
}
