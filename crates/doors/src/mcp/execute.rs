//! `execute`: a command on a sudo-proxy host, once a person has approved it.
//!
//! Invariant: the checks come in the contract's order and its words. Cancelling the call closes the connection to the
//! daemon, which withdraws the request.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use rmcp::service::RequestContext;

use super::Caller;
use super::Profile;
use super::Server;
use super::arguments::Execute;
use super::progress;
use super::sudo::Request;
use super::sudo::Response;
use super::sudo::Status;
use super::texts;

/// The longest wait that can be asked for.
const LONGEST: u64 = 600_000;

/// The wait for a privileged command unless another was asked for.
const PRIVILEGED_WAIT: Duration = Duration::from_secs(120);

/// What a client is told while a person thinks.
const WAITING: &str = "waiting for a person to approve the command, or for the command to end";

/// A result that says what went wrong.
pub(super) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// A result of one text.
pub(super) fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

/// Runs a command. None when the call was cancelled.
pub(super) async fn execute(
    server: &Server,
    arguments: Execute,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let target = match server.target(arguments.host.as_deref()) {
        Ok(target) => target,
        Err(text) => return Some(failed(text)),
    };
    let limit = limit(arguments.privileged, arguments.timeout);
    let pipeline = match check(server, &arguments, target.as_deref()).await {
        Ok(pipeline) => pipeline,
        Err(text) => return Some(failed(text)),
    };
    let nothing = BTreeMap::new();
    let session = server.session_word(caller);
    let request = Request {
        id: Request::new_id(),
        host: target.as_deref().unwrap_or_default(),
        session: &session,
        time: Request::now(),
        pipeline: &pipeline,
        action: None,
        env: arguments.env.as_ref().unwrap_or(&nothing),
        reason: arguments.description.as_deref().unwrap_or_default(),
        privileged: arguments.privileged,
        forward_agent: arguments.forward_agent,
        version: &server.profile.version,
    };
    let line = request.line();
    let contact = server.contact(target.as_deref(), caller);
    Some(match progress::waiting(context, WAITING, contact.send(&line, limit)).await? {
        Ok(response) => {
            server.seen(target.as_deref().unwrap_or("localhost"), &response.version).await;
            rendered(&server.profile, &response)
        }
        Err(text) => failed(text),
    })
}

/// What has to hold before anything is sent; gives the stages.
async fn check(server: &Server, arguments: &Execute, target: Option<&str>) -> Result<Vec<Vec<String>>, String> {
    if target.is_none() && !arguments.privileged {
        return Err(texts::LOCAL_UNPRIVILEGED.to_owned());
    }
    if let Some(socket) = server.backend.door(target)
        && !server.backend.present(target).await
    {
        return Err(texts::not_running(&socket));
    }
    let pipeline = match (&arguments.pipeline, &arguments.argv) {
        (Some(pipeline), _) if !pipeline.is_empty() => pipeline.clone(),
        (_, Some(argv)) if !argv.is_empty() => vec![argv.clone()],
        _ => return Err(texts::NO_COMMAND.to_owned()),
    };
    if arguments.forward_agent && arguments.privileged {
        return Err(texts::AGENT_AND_ROOT.to_owned());
    }
    Ok(pipeline)
}

/// Whether there is a file of that name.
pub(super) async fn exists(path: &Path) -> bool {
    tokio::fs::try_exists(path).await.unwrap_or(false)
}

fn limit(privileged: bool, asked: Option<u64>) -> Option<Duration> {
    match asked {
        Some(milliseconds) => Some(Duration::from_millis(milliseconds.min(LONGEST))),
        None => privileged.then_some(PRIVILEGED_WAIT),
    }
}

/// A daemon's answer as a result.
pub(super) fn rendered(profile: &Profile, response: &Response) -> CallToolResult {
    match response.status {
        Status::Denied => failed(texts::DENIED),
        Status::Timeout => failed(texts::TIMED_OUT),
        Status::Error => {
            let message = response.message.as_deref().unwrap_or("unknown error");
            failed(texts::daemon_error(response.daemon(), profile.client, &profile.version, message))
        }
        Status::Ok => ended(response),
    }
}

/// The result of a command that ran.
fn ended(response: &Response) -> CallToolResult {
    let last = response.stages.last().map_or(0, |stage| stage.exit_code);
    let several = response.stages.len() > 1;
    let mut parts = Vec::new();
    let stdout = decoded(response.stdout.as_deref().unwrap_or_default());
    if !stdout.is_empty() {
        parts.push(stdout);
    }
    for (number, stage) in response.stages.iter().enumerate() {
        let stderr = decoded(&stage.stderr);
        if !stderr.is_empty() {
            let label = if several { format!("[stderr stage {number}]") } else { "[stderr]".to_owned() };
            parts.push(format!("{label}\n{stderr}"));
        }
    }
    if parts.is_empty() || last != 0 {
        let codes: Vec<String> = response.stages.iter().map(|stage| stage.exit_code.to_string()).collect();
        parts.push(if several {
            format!("[exit codes: {}]", codes.join(", "))
        } else {
            format!("[exit code: {last}]")
        });
    }
    parts.extend(cuts(response, several));
    let blocks = parts.into_iter().map(ContentBlock::text).collect();
    if last == 0 { CallToolResult::success(blocks) } else { CallToolResult::error(blocks) }
}

/// What is missing of the output.
fn cuts(response: &Response, several: bool) -> impl Iterator<Item = String> {
    let stdout = response.stdout_truncated.then(|| "[stdout truncated: the daemon kept only its beginning]".to_owned());
    let stages = response.stages.iter().enumerate().filter(|(_, stage)| stage.stderr_truncated);
    let stages: Vec<String> = stages
        .map(|(number, _)| {
            let which = if several { format!("stderr stage {number}") } else { "stderr".to_owned() };
            format!("[{which} truncated: the daemon kept only its beginning]")
        })
        .collect();
    stdout.into_iter().chain(stages)
}

/// Text from base64; bytes that are no text are replaced, and what is not base64 is nothing.
fn decoded(text: &str) -> String {
    let bytes = base64_simd::STANDARD.decode_to_vec(text).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn result(answer: Value) -> (Vec<String>, bool) {
        let profile = Profile::sudo_proxy("1.2.0");
        let result = rendered(&profile, &serde_json::from_value(answer).unwrap());
        let texts = result.content.iter().map(|block| block.as_text().unwrap().text.clone()).collect();
        (texts, result.is_error.unwrap())
    }

    fn base64(text: &str) -> String {
        base64_simd::STANDARD.encode_to_string(text)
    }

    #[test]
    fn output_in_the_order_of_the_contract() {
        let stage = |code: i32, stderr: &str| json!({"exit_code": code, "stderr": base64(stderr)});
        let ok = |stages: Value, stdout: &str| json!({"id": "1", "status": "ok", "stages": stages, "stdout": base64(stdout), "version": "1.2.0"});
        assert_eq!(result(ok(json!([stage(0, "")]), "out\n")), (vec!["out\n".to_owned()], false));
        assert_eq!(result(ok(json!([stage(0, "")]), "")), (vec!["[exit code: 0]".to_owned()], false));
        assert_eq!(
            result(ok(json!([stage(3, "no")]), "o")),
            (vec!["o".to_owned(), "[stderr]\nno".to_owned(), "[exit code: 3]".to_owned()], true)
        );
        assert_eq!(
            result(ok(json!([stage(1, "a"), stage(0, "")]), "")),
            (vec!["[stderr stage 0]\na".to_owned()], false)
        );
        assert_eq!(
            result(ok(json!([stage(1, ""), stage(-1, "")]), "")),
            (vec!["[exit codes: 1, -1]".to_owned()], true)
        );
    }

    #[test]
    fn what_was_cut_is_said() {
        let answer = json!({"id": "1", "status": "ok", "stdout": base64("o"), "stdout_truncated": true,
            "stages": [{"exit_code": 0, "stderr": base64("e"), "stderr_truncated": true}]});
        let (texts, failed) = result(answer);
        assert!(!failed);
        assert_eq!(texts.len(), 4);
        assert!(texts[2].starts_with("[stdout truncated") && texts[3].starts_with("[stderr truncated"), "{texts:?}");
    }

    #[test]
    fn decisions_and_errors() {
        assert_eq!(result(json!({"id": "1", "status": "denied"})), (vec![texts::DENIED.to_owned()], true));
        assert_eq!(result(json!({"id": "1", "status": "timeout"})), (vec![texts::TIMED_OUT.to_owned()], true));
        assert_eq!(
            result(json!({"id": "", "status": "error", "message": "no", "version": "1.1.0"})).0,
            ["Error from sudo-proxy 1.1.0 (client sudo-proxy-mcp 1.2.0): no"]
        );
        assert_eq!(
            result(json!({"id": "", "status": "error"})).0,
            ["Error from sudo-proxy unknown (client sudo-proxy-mcp 1.2.0): unknown error"]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let answer = json!({"id": "1", "status": "ok", "stages": [{"exit_code": 0, "stderr": "!"}], "stdout": "/w=="});
        assert_eq!(result(answer).0, ["\u{fffd}"]);
    }

    #[test]
    fn waits() {
        assert_eq!(limit(true, None), Some(PRIVILEGED_WAIT));
        assert_eq!(limit(false, None), None);
        assert_eq!(limit(false, Some(5)), Some(Duration::from_millis(5)));
        assert_eq!(limit(true, Some(u64::MAX)), Some(Duration::from_millis(LONGEST)));
    }
}
