//! `process.*`: starting, feeding, ending and following processes.
//!
//! The house does all of it; here is what the contract adds: the order of checks, the words, the
//! waiting times, and which frames must be on the wire before a reply.

use super::connection::{Connection, Running};
use super::door::{self, Door};
use super::environment;
use super::errors::{self, RpcError, push_result};
use super::gojson::{Malformed, Object};
use super::lookup;
use super::params::{KillAndWaitParams, KillParams, ReattachParams, SpawnParams, StdinParams};
use super::stream::{self, CarriedReply, Subscription};
use hostel_house::insiders::Rights;
use hostel_house::processes::{Process, SpawnError, SpawnSpec, Status, StdinError};
use hostel_house::workspace::{PathError, errno_text};
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long `killAndWait` waits when nothing else is asked.
const DEFAULT_GRACE: Duration = Duration::from_millis(3000);
/// The longest it can be asked to wait.
const LONGEST_GRACE: Duration = Duration::from_millis(600_000);
/// How long it waits after the kill that nothing survives.
const AFTER_KILL: Duration = Duration::from_secs(7);

type Outcome = Result<Vec<u8>, RpcError>;

/// `process.spawn`. The reply goes out before the first frame.
pub(crate) async fn spawn(connection: Arc<Connection>, running: Running) {
    let door = Arc::clone(&connection.door);
    let (process, want_pid) = match spawn_process(&connection, &running.params).await {
        Ok(spawned) => spawned,
        Err(error) => return connection.answer(running, &Err(error)).await,
    };
    door.metrics.spawns.add(1);
    let hosted = door.host(&process, 0, 0);
    let subscription = Subscription::new(&process);
    let earlier = connection.subscribe(process.name(), &subscription);
    door.subscribed(&subscription, false);
    end_earlier(earlier).await;
    let mut line = Vec::new();
    push_result(&mut line, &running.id, |out| {
        let mut result = Object::open(out);
        result.boolean("success", true);
        if want_pid {
            push_identity(&mut result, &process);
        }
        result.close();
    });
    let reply = CarriedReply { line, id: running.id, after: 0, permit: running.permit };
    stream::start(connection, subscription, Some(hosted), 0, reply);
}

async fn spawn_process(connection: &Connection, params: &[u8]) -> Result<(Arc<Process>, bool), RpcError> {
    let (door, rights) = (&connection.door, &connection.rights);
    let params = SpawnParams::decode(params).map_err(invalid)?;
    if params.id.is_empty() {
        return Err(RpcError::params("Process ID is required"));
    }
    if params.command.is_empty() {
        return Err(RpcError::params("Command is required"));
    }
    rights.may_name("process.spawn", &params.id).await.map_err(|refusal| RpcError::refused(&refusal))?;
    let outcome = start(door, rights, &params).await;
    match &outcome {
        Ok(process) => {
            let (log, id) = (&door.log, &params.id);
            log.info(format_args!(
                "[process.Manager] Process {id} started, PID={}, command={}",
                process.pid(),
                params.command
            ));
            for stream in ["stdout", "stderr"] {
                log.debug(format_args!("[process.Manager] Starting {stream} streaming for process {id}"));
            }
        }
        Err(words) => door.log.error(format_args!("[process.Manager] Failed to start process {}: {words}", params.id)),
    }
    match outcome {
        Ok(process) => Ok((process, params.want_pid)),
        Err(words) => Err(RpcError::worded(errors::INTERNAL, words)),
    }
}

/// Starts the process, or says in Go's words why not.
async fn start(door: &Arc<Door>, rights: &Rights, params: &SpawnParams<'_>) -> Result<Arc<Process>, String> {
    let command = params.command.clone().into_owned();
    let login_path = door.login_shell.path().await;
    let environment = environment::for_child(&door.environment, login_path.as_deref(), &params.env)
        .map_err(|error| error.to_string())?;
    let program = look_up(door, command.clone()).await?;
    let cwd = (!params.cwd.is_empty()).then(|| door.path(&params.cwd));
    // What holds a zero byte cannot even be said to the kernel.
    let holds_zero = |text: &str| text.contains('\0');
    if holds_zero(&command) || params.args.iter().any(|word| holds_zero(word)) {
        return Err(exec_text(&program, rustix::io::Errno::INVAL.raw_os_error()));
    }
    if holds_zero(&params.cwd) {
        return Err(chdir_text(cwd.as_deref(), &program, 0).await);
    }
    let argv = std::iter::once(command).chain(params.args.iter().cloned());
    let mut spec = SpawnSpec {
        name: params.id.clone().into_owned(),
        door: door::NAME.to_owned(),
        program: program.clone(),
        argv: argv.map(OsString::from).collect(),
        env: environment,
        cwd: cwd.clone(),
        id: None,
        socket_stdin: false,
        session: None,
        asked_by: None,
        owned_input: false,
        guard: None,
    };
    rights.inherit(&mut spec).await;
    match door.processes.spawn(spec).await {
        Ok(process) => Ok(process),
        Err(SpawnError::Chdir { errno }) => Err(chdir_text(cwd.as_deref(), &program, errno).await),
        Err(SpawnError::Exec { errno }) => Err(exec_text(&program, errno)),
        Err(SpawnError::Limit(words) | SpawnError::Guard(words) | SpawnError::Keeper(words)) => Err(words),
    }
}

/// Finds the program on a thread that may wait for a slow disk.
async fn look_up(door: &Arc<Door>, command: String) -> Result<PathBuf, String> {
    if command.contains('/') {
        return Ok(PathBuf::from(command));
    }
    let search_path = door.search_path.clone();
    let looked = hostel_tasks::spawn_blocking(move || lookup::program(&command, search_path.as_deref()));
    match looked.await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn exec_text(program: &Path, errno: i32) -> String {
    format!("fork/exec {}: {}", program.display(), errno_text(errno))
}

/// Why a working directory cannot be used: what looking at it says, if that says anything.
async fn chdir_text(cwd: Option<&Path>, program: &Path, errno: i32) -> String {
    let Some(cwd) = cwd else {
        return exec_text(program, errno);
    };
    let directory = cwd.display();
    match tokio::fs::metadata(cwd).await {
        Err(error) => format!("chdir {directory}: {}", PathError::new("stat", cwd, &error)),
        Ok(metadata) if !metadata.is_dir() => {
            let not_a_directory = rustix::io::Errno::NOTDIR.raw_os_error();
            format!("chdir {directory}: {}", errno_text(not_a_directory))
        }
        Ok(_) => exec_text(program, errno),
    }
}

/// `process.stdin`, up to where the input stands in line; the answer is waited for elsewhere.
pub(crate) async fn stdin(connection: Arc<Connection>, running: Running) {
    let queued = async {
        let params = StdinParams::decode(&running.params).map_err(invalid)?;
        let data = super::base64::decode(params.data.as_bytes()).ok_or(RpcError::params("Invalid base64 data"))?;
        let process = connection.door.processes.get(&params.id).ok_or(RpcError::params("Process not found"))?;
        may_touch(&connection, "process.stdin", &process).await?;
        if !process.status().running {
            return Err(not_running());
        }
        match process.stdin(params.offset, &data).await {
            Ok(ticket) => Ok((process, ticket)),
            Err(error) => Err(stdin_error(&connection.door, &process, &error)),
        }
    };
    match queued.await {
        Err(error) => connection.answer(running, &Err(error)).await,
        Ok((process, ticket)) => {
            hostel_tasks::spawn(async move {
                let outcome = match ticket.done().await {
                    Ok(applied) => {
                        connection.door.count_stdin(&process, applied.applied);
                        let mut result = Vec::new();
                        Object::open(&mut result)
                            .boolean("success", true)
                            .unsigned("applied", applied.applied)
                            .flag("duplicate", applied.duplicate)
                            .close();
                        Ok(result)
                    }
                    Err(error) => Err(stdin_error(&connection.door, &process, &error)),
                };
                connection.answer(running, &outcome).await;
            });
        }
    }
}

/// Whether the client may write to a process or end it.
async fn may_touch(connection: &Connection, method: &str, process: &Process) -> Result<(), RpcError> {
    connection.rights.may_touch(method, process).await.map_err(|refusal| RpcError::refused(&refusal))
}

fn not_running() -> RpcError {
    RpcError::params("Process not running")
}

fn stdin_error(door: &Door, process: &Process, error: &StdinError) -> RpcError {
    match error {
        StdinError::NotRunning => not_running(),
        StdinError::Gap => RpcError::fixed(errors::OFFSET_GAP, "stdin offset gap: offset ahead of applied bytes"),
        StdinError::Full => {
            door.warn_full(process);
            RpcError::fixed(errors::BACKPRESSURE, "stdin backpressure: queue full")
        }
        // Nothing is wrong with the daemon: the client asked for what it may not have.
        StdinError::Owned => RpcError::params("stdin belongs to the session or pipeline of this process"),
        StdinError::Keeper(_) => RpcError::internal(error),
    }
}

/// `process.kill`: never fails, never waits for the end.
pub(crate) async fn kill(connection: &Connection, params: &[u8]) -> Outcome {
    let params = KillParams::decode(params).map_err(invalid)?;
    if let Some(process) = connection.door.processes.get(&params.id) {
        may_touch(connection, "process.kill", &process).await?;
        process.kill(signal_named(&params.signal)).await;
    }
    let mut result = Vec::new();
    Object::open(&mut result).boolean("success", true).close();
    Ok(result)
}

/// `process.killAndWait`.
pub(crate) async fn kill_and_wait(connection: &Connection, params: &[u8]) -> Outcome {
    let params = KillAndWaitParams::decode(params).map_err(invalid)?;
    if params.id.is_empty() {
        return Err(RpcError::params("Process ID is required"));
    }
    let Some(process) = connection.door.processes.get(&params.id) else {
        return Ok(Ended::default().result());
    };
    may_touch(connection, "process.killAndWait", &process).await?;
    let mut ended = Ended { found: true, ..Ended::default() };
    if !process.status().running {
        ended.already_exited = true;
        ended.died = true;
    } else {
        process.kill(signal_named(&params.signal)).await;
        ended.died = process.wait_exit(grace(params.timeout_ms)).await.is_some();
        if !ended.died && params.escalate.unwrap_or(true) {
            ended.escalated = true;
            process.kill(Signal::KILL).await;
            ended.died = process.wait_exit(AFTER_KILL).await.is_some();
        }
    }
    if ended.died
        && let Some(subscription) = connection.subscription(process.name())
        && subscription.process.id() == process.id()
    {
        subscription.ended.wait().await;
    }
    Ok(ended.result())
}

#[derive(Debug, Default, PartialEq)]
struct Ended {
    found: bool,
    died: bool,
    already_exited: bool,
    escalated: bool,
}

impl Ended {
    fn result(&self) -> Vec<u8> {
        let mut result = Vec::new();
        Object::open(&mut result)
            .boolean("found", self.found)
            .boolean("died", self.died)
            .flag("alreadyExited", self.already_exited)
            .flag("escalated", self.escalated)
            .close();
        result
    }
}

fn grace(timeout_ms: Option<i64>) -> Duration {
    match timeout_ms.and_then(|asked| u64::try_from(asked).ok()) {
        None | Some(0) => DEFAULT_GRACE,
        Some(asked) => Duration::from_millis(asked).min(LONGEST_GRACE),
    }
}

/// The four signals that have names here; everything else asks politely.
fn signal_named(name: &str) -> Signal {
    match name.strip_prefix("SIG").unwrap_or(name) {
        "KILL" => Signal::KILL,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        _ => Signal::TERM,
    }
}

/// `process.reattach`. Everything up to the moment of the call is replayed before the reply, and
/// nothing later comes before it.
pub(crate) async fn reattach(connection: Arc<Connection>, running: Running) {
    let params = match ReattachParams::decode(&running.params) {
        Ok(params) if params.id.is_empty() => {
            let error = RpcError::params("Process ID is required");
            return connection.answer(running, &Err(error)).await;
        }
        Ok(params) => params,
        Err(error) => return connection.answer(running, &Err(invalid(error))).await,
    };
    let door = &connection.door;
    let Some(process) = door.processes.get(&params.id) else {
        let result = reattach_result(None, false);
        return connection.answer(running, &Ok(result)).await;
    };
    if let Err(refusal) = connection.rights.may_read("process.reattach", &process).await {
        return connection.answer(running, &Err(RpcError::refused(&refusal))).await;
    }
    door.metrics.reattaches.add(1);
    let subscription = Subscription::new(&process);
    let earlier = connection.subscribe(process.name(), &subscription);
    door.subscribed(&subscription, true);
    // Frames this connection was about to get are owed to it, whatever it says it has.
    let owed = end_earlier(earlier)
        .await
        .filter(|earlier| earlier.process.id() == process.id())
        .map_or(u64::MAX, |earlier| earlier.written());
    let status = process.status();
    let from = params.from_seq.min(status.last_seq).min(owed);
    let result = reattach_result(Some((&process, &status)), params.want_pid);
    let mut line = Vec::new();
    push_result(&mut line, &running.id, |out| out.extend_from_slice(&result));
    let reply = CarriedReply { line, id: running.id, after: status.last_seq, permit: running.permit };
    let hosted = door.hosted(&process);
    stream::start(Arc::clone(&connection), subscription, hosted, from, reply);
}

fn reattach_result(found: Option<(&Process, &Status)>, want_pid: bool) -> Vec<u8> {
    let status = found.map(|(_, status)| status);
    let mut out = Vec::new();
    let mut result = Object::open(&mut out);
    result
        .boolean("found", found.is_some())
        .boolean("running", status.is_some_and(|status| status.running))
        .unsigned("firstSeq", status.map_or(0, |status| status.first_seq))
        .unsigned("lastSeq", status.map_or(0, |status| status.last_seq))
        .unsigned("stdinApplied", status.map_or(0, |status| status.stdin_applied));
    if let Some((process, _)) = found.filter(|_| want_pid) {
        push_identity(&mut result, process);
    }
    result.close();
    out
}

/// Pid and start time; each is left out while it is zero.
fn push_identity(result: &mut Object<'_>, process: &Process) {
    if process.pid() != 0 {
        result.unsigned("pid", process.pid().into());
    }
    if process.started_ns() != 0 {
        result.float("startTime", process.started_ns() as f64 / 1e9);
    }
}

/// Ends a subscription whose place has been taken; gives it back when its last byte is written.
async fn end_earlier(earlier: Option<Arc<Subscription>>) -> Option<Arc<Subscription>> {
    let earlier = earlier?;
    earlier.stop.set();
    earlier.ended.wait().await;
    Some(earlier)
}

fn invalid(_: Malformed) -> RpcError {
    RpcError::invalid_params()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_waits() {
        for (name, signal) in [
            ("KILL", Signal::KILL),
            ("SIGKILL", Signal::KILL),
            ("INT", Signal::INT),
            ("SIGHUP", Signal::HUP),
            ("TERM", Signal::TERM),
            ("", Signal::TERM),
            ("kill", Signal::TERM),
            ("QUIT", Signal::TERM),
            ("SIGSIGKILL", Signal::TERM),
            ("9", Signal::TERM),
        ] {
            assert_eq!(signal_named(name), signal, "{name}");
        }
        for (asked, milliseconds) in [
            (None, 3000),
            (Some(0), 3000),
            (Some(-100), 3000),
            (Some(50), 50),
            (Some(8000), 8000),
            (Some(600_001), 600_000),
            (Some(i64::MAX), 600_000),
        ] {
            assert_eq!(grace(asked), Duration::from_millis(milliseconds), "{asked:?}");
        }
    }

    #[test]
    fn results() {
        let text = |result: Vec<u8>| String::from_utf8(result).unwrap();
        assert_eq!(text(Ended::default().result()), r#"{"found":false,"died":false}"#);
        let ended = Ended { found: true, died: true, already_exited: true, escalated: true };
        assert_eq!(text(ended.result()), r#"{"found":true,"died":true,"alreadyExited":true,"escalated":true}"#);
        assert_eq!(
            text(reattach_result(None, true)),
            r#"{"found":false,"running":false,"firstSeq":0,"lastSeq":0,"stdinApplied":0}"#
        );
    }
}
