//! What each method does: decode, ask the house, encode.
//!
//! Invariant: a method's mistakes are the client's to hear and nobody else's; nothing here can end the daemon but
//! `house/down`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::insiders::Refusal;
use hostel_house::insiders::Rights;
use hostel_house::processes::Member;
use hostel_house::processes::Process;
use hostel_house::processes::Processes;
use hostel_house::processes::Relation;
use hostel_house::processes::StdinError;
use hostel_house::processes::StdinTicket;
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Settings;
use super::protocol::Collect;
use super::protocol::Collected;
use super::protocol::Down;
use super::protocol::GuardInfo;
use super::protocol::HouseStatus;
use super::protocol::JournalInfo;
use super::protocol::KeeperInfo;
use super::protocol::Kill;
use super::protocol::Killed;
use super::protocol::Pick;
use super::protocol::ProcessInfo;
use super::protocol::ProcessList;
use super::protocol::ProcessTree;
use super::protocol::STDIN_LIMIT;
use super::protocol::StalledInfo;
use super::protocol::State;
use super::protocol::Stdin;
use super::protocol::StdinApplied;
use super::protocol::Target;
use super::protocol::TreeMember;
use super::protocol::UnreadableInfo;
use super::protocol::Upgrade;
use super::protocol::Upgraded;
use super::protocol::Usage;
use super::protocol::code;
use super::protocol::pick;
use super::spawn;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// Every method but `initialize`.
pub(crate) const METHODS: [&str; 32] = [
    "process/spawn",
    "process/list",
    "process/tree",
    "process/strays",
    "process/attach",
    "process/detach",
    "process/stdin",
    "process/close_stdin",
    "process/kill",
    "journal/usage",
    "journal/gc",
    "house/status",
    "house/down",
    "keeper/upgrade",
    "approval/ask",
    "approval/list",
    "approval/get",
    "approval/watch",
    "approval/shown",
    "approval/unlock",
    "approval/lock",
    "approval/decide",
    "approval/why",
    "approval/grants",
    "approval/revoke",
    "approver/status",
    "approver/set",
    "approver/clear",
    "approver/confirm",
    "audit/show",
    "audit/verify",
    "audit/last",
];

/// The longest wait of `process/kill`.
const WAIT_LIMIT: Duration = Duration::from_secs(600);

/// How long a killed process may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(7);

/// Clock ticks in `/proc` are hundredths of a second on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Reads parameters.
pub(super) fn parse<T: DeserializeOwned>(params: &str) -> Result<T, Failure> {
    serde_json::from_str(params).map_err(|error| Failure::new(code::PARAMS, format!("bad params: {error}")))
}

/// Makes a result.
pub(super) fn value(result: &impl Serialize) -> Outcome {
    serde_json::to_value(result).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
}

fn nothing() -> Outcome {
    Ok(Value::Object(serde_json::Map::new()))
}

/// Finds a process by name, id, or the start of its id.
pub(super) fn find(processes: &Processes, wanted: &str) -> Result<Arc<Process>, Failure> {
    // No start of an id has other letters.
    if !wanted.bytes().all(|byte| byte.is_ascii_hexdigit())
        && let Some(process) = processes.get(wanted)
    {
        return Ok(process);
    }
    let list = processes.list();
    let ids: Vec<String> = list.iter().map(|process| process.id().to_string()).collect();
    let known = ids.iter().zip(&list).map(|(id, process)| (id.as_str(), process.name()));
    match pick(wanted, known) {
        Pick::One(position) => list.into_iter().nth(position).ok_or_else(|| not_found(wanted)),
        Pick::Nothing => Err(not_found(wanted)),
        Pick::Several => {
            Err(Failure::new(code::AMBIGUOUS, format!("`{wanted}` means several processes; give the whole id")))
        }
    }
}

fn not_found(wanted: &str) -> Failure {
    Failure::new(code::NOT_FOUND, format!("no process matches `{wanted}`"))
}

/// A process inside the house may not.
pub(super) fn refused(refusal: &Refusal) -> Failure {
    Failure::new(code::REFUSED, refusal.text())
}

/// A method that needs no order among its fellows.
pub(super) async fn call(
    method: &str,
    params: &str,
    processes: &Processes,
    settings: &Settings,
    rights: &Rights,
) -> Outcome {
    match method {
        "process/spawn" => spawn::spawn(processes, settings, rights, parse(params)?).await,
        "process/list" => list(processes, rights).await,
        "process/tree" => tree(processes, rights, &parse(params)?).await,
        "process/strays" => strays(processes).await,
        "process/kill" => kill(processes, rights, &parse(params)?).await,
        "journal/usage" => usage(processes, settings).await,
        "journal/gc" => collect(processes, settings, parse(params)?).await,
        "house/status" => status(processes, settings, rights.insider().await.is_some()).await,
        "house/down" => parse::<Down>(params).and_then(|_| nothing()),
        "keeper/upgrade" => {
            parse::<Upgrade>(params)?;
            upgrade(processes, settings).await
        }
        _ => Err(Failure::new(code::METHOD, format!("there is no method `{method}`"))),
    }
}

async fn list(processes: &Processes, rights: &Rights) -> Outcome {
    let mut seen = Vec::new();
    for process in processes.list() {
        if rights.sees_process(&process).await {
            seen.push(describe(&process));
        }
    }
    value(&ProcessList { processes: seen })
}

fn describe(process: &Process) -> ProcessInfo {
    let status = process.status();
    ProcessInfo {
        id: process.id().to_string(),
        name: process.name().to_owned(),
        door: process.door().to_owned(),
        pid: process.pid(),
        command: String::from_utf8_lossy(process.command()).into_owned(),
        state: state(process),
        exit_code: status.exit.map(|exit| exit.code),
        signal: status.exit.map(|exit| exit.signal).filter(|signal| *signal != 0),
        started_ns: process.started_ns(),
        last_seq: status.last_seq,
        bytes: status.journal_bytes,
        stdin_applied: status.stdin_applied,
    }
}

fn state(process: &Process) -> State {
    let status = process.status();
    match (status.exit, status.held) {
        (Some(exit), _) if exit.lost => State::Lost,
        (Some(_), _) => State::Exited,
        (None, Some(_)) => State::Held,
        (None, None) => State::Running,
    }
}

async fn tree(processes: &Processes, rights: &Rights, target: &Target) -> Outcome {
    let process = find(processes, &target.id)?;
    rights.may_read("process/tree", &process).await.map_err(|refusal| refused(&refusal))?;
    let tree = process.tree().await;
    let members = tree.members.into_iter().filter(|member| !member.zombie);
    let processes = members
        .map(|member| {
            let relation = match member.relation {
                Relation::Leader => "leader",
                Relation::Group => "group",
                Relation::Escaped => "escaped",
            };
            tree_member(member, relation, None)
        })
        .collect();
    value(&ProcessTree { processes, partial: tree.partial })
}

async fn strays(processes: &Processes) -> Outcome {
    let strays = processes.strays().await.into_iter();
    let processes = strays.map(|(member, started_by)| tree_member(member, "stray", started_by)).collect();
    value(&ProcessTree { processes, partial: false })
}

fn tree_member(member: Member, relation: &str, started_by: Option<String>) -> TreeMember {
    let uptime = u64::try_from(rustix::system::sysinfo().uptime).unwrap_or(0);
    TreeMember {
        pid: member.pid,
        ppid: member.parent,
        age_s: uptime.saturating_sub(member.start_ticks / TICKS_PER_SECOND),
        command: member.command,
        relation: relation.to_owned(),
        started_by,
    }
}

async fn kill(processes: &Processes, rights: &Rights, request: &Kill) -> Outcome {
    let signal = signal(request.signal.as_deref().unwrap_or("TERM"))?;
    let process = match find(processes, &request.id) {
        Ok(process) => process,
        Err(failure) if failure.code == code::NOT_FOUND => {
            return value(&Killed { found: false, died: false, already_exited: false, escalated: false });
        }
        Err(failure) => return Err(failure),
    };
    rights.may_touch("process/kill", &process).await.map_err(|refusal| refused(&refusal))?;
    let mut killed = Killed { found: true, died: false, already_exited: false, escalated: false };
    if process.status().exit.is_some() {
        killed.died = true;
        killed.already_exited = true;
        return value(&killed);
    }
    if signal == Signal::KILL {
        process.kill_tree().await;
    } else {
        process.kill(signal).await;
    }
    if let Some(wait_ms) = request.wait_ms {
        let wait = Duration::from_millis(wait_ms).min(WAIT_LIMIT);
        killed.died = process.wait_exit(wait).await.is_some();
        if !killed.died && request.escalate {
            killed.escalated = true;
            process.kill_tree().await;
            killed.died = process.wait_exit(KILL_GRACE).await.is_some();
        }
    }
    value(&killed)
}

fn signal(name: &str) -> Result<Signal, Failure> {
    let upper = name.to_ascii_uppercase();
    Ok(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "TERM" => Signal::TERM,
        "KILL" => Signal::KILL,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        _ => {
            return Err(Failure::new(
                code::PARAMS,
                format!("`{name}` is not one of TERM, KILL, INT, HUP, QUIT, USR1, USR2, STOP, CONT"),
            ));
        }
    })
}

/// Puts input in line; the ticket tells what becomes of it.
pub(super) async fn stdin(processes: &Processes, rights: &Rights, params: &str) -> Result<StdinTicket, Failure> {
    let request: Stdin = parse(params)?;
    let data = base64_simd::STANDARD
        .decode_to_vec(&request.data)
        .map_err(|_| Failure::new(code::PARAMS, "`data` is not base64".to_owned()))?;
    if data.len() > STDIN_LIMIT {
        return Err(Failure::new(code::PARAMS, format!("`data` holds more than {STDIN_LIMIT} bytes")));
    }
    let process = find(processes, &request.id)?;
    rights.may_touch("process/stdin", &process).await.map_err(|refusal| refused(&refusal))?;
    process.stdin(request.offset, &data).await.map_err(|error| stdin_failure(&error))
}

/// What became of input.
pub(super) async fn stdin_done(ticket: StdinTicket) -> Outcome {
    let applied = ticket.done().await.map_err(|error| stdin_failure(&error))?;
    value(&StdinApplied { applied: applied.applied, duplicate: applied.duplicate })
}

/// Ends a process's input.
pub(super) async fn close_stdin(processes: &Processes, rights: &Rights, params: &str) -> Outcome {
    let target: Target = parse(params)?;
    let process = find(processes, &target.id)?;
    rights.may_touch("process/close_stdin", &process).await.map_err(|refusal| refused(&refusal))?;
    process.close_stdin().await.map_err(|error| stdin_failure(&error))?;
    nothing()
}

fn stdin_failure(error: &StdinError) -> Failure {
    let code = match error {
        StdinError::NotRunning => code::NOT_RUNNING,
        StdinError::Gap => code::STDIN_GAP,
        StdinError::Full => code::STDIN_FULL,
        StdinError::Owned => code::OWNED_INPUT,
        StdinError::Keeper(_) => code::KEEPER,
    };
    Failure::new(code, error.to_string())
}

async fn usage(processes: &Processes, settings: &Settings) -> Outcome {
    let usage = processes.usage().await.map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
    let (unreadable, _) = processes.unreadable_journals();
    let list = usage
        .by_process
        .iter()
        .map(|(id, bytes)| {
            let process = processes.by_id(*id);
            JournalInfo {
                id: id.to_string(),
                name: process.as_ref().map(|process| process.name().to_owned()).unwrap_or_default(),
                bytes: *bytes,
                state: process.as_ref().map_or(State::Lost, |process| state(process)),
            }
        })
        .collect();
    value(&Usage {
        bytes: usage.bytes,
        files: usage.files as u64,
        quota_bytes: usage.quota_bytes,
        free_bytes: usage.free_bytes,
        dir: settings.journal_dir.display().to_string(),
        processes: list,
        unreadable: unreadable
            .into_iter()
            .map(|journal| UnreadableInfo {
                file: journal.file,
                reason: journal.reason,
                set_aside: journal.is_set_aside,
            })
            .collect(),
    })
}

fn journal(process: &Process) -> JournalInfo {
    JournalInfo {
        id: process.id().to_string(),
        name: process.name().to_owned(),
        bytes: process.status().journal_bytes,
        state: state(process),
    }
}

async fn collect(processes: &Processes, settings: &Settings, request: Collect) -> Outcome {
    let before: HashMap<String, JournalInfo> =
        processes.list().iter().map(|process| journal(process)).map(|journal| (journal.id.clone(), journal)).collect();
    let collected = settings
        .housekeeping
        .collect(request.all, request.dry_run, request.changed_before_ns)
        .await
        .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
    let removed = collected
        .removed
        .into_iter()
        .map(|(id, name)| {
            let id = id.to_string();
            let known = before.get(&id);
            JournalInfo {
                name,
                state: known.map_or(State::Lost, |journal| journal.state),
                bytes: known.map_or(0, |journal| journal.bytes),
                id,
            }
        })
        .collect();
    value(&Collected { removed, freed_bytes: collected.freed_bytes })
}

async fn status(processes: &Processes, settings: &Settings, inside: bool) -> Outcome {
    let guards = Arc::clone(processes.guards());
    // Right after the start it is still being found out.
    let guard = hostel_tasks::spawn_blocking(move || {
        guards.look();
        guards.usual_status()
    });
    let guard = guard.await.ok().map(GuardInfo::from);
    let keeper = processes.keeper_status();
    let keeper = KeeperInfo {
        pid: keeper.pid,
        build: keeper.build,
        proto: keeper.proto,
        features: keeper.features,
        since_ns: keeper.since_ns,
        children: keeper.children as u64,
        child_limit: keeper.child_limit,
        cgroup: keeper.cgroup,
    };
    let (named, unnamed) = processes.unreadable_journals();
    value(&HouseStatus {
        unreadable_journals: (named.len() + unnamed) as u64,
        stalled: settings
            .housekeeping
            .stalled()
            .map(|stalled| StalledInfo { sessions: stalled.sessions as u64, error: stalled.error }),
        version: settings.version.clone(),
        pid: std::process::id(),
        uptime_s: settings.started.elapsed().as_secs(),
        home: settings.home.display().to_string(),
        doors: settings.doors.clone(),
        keeper,
        inside,
        guard,
    })
}

/// Tells the daemon to close, once the answer is out.
pub(super) fn down(params: &str, settings: &Settings) {
    let keep = parse::<Down>(params).is_ok_and(|down| down.keep);
    // A full queue means that somebody else has asked already.
    settings.down.try_send(keep).unwrap_or_default();
}

async fn upgrade(processes: &Processes, settings: &Settings) -> Outcome {
    let before = processes.keeper_status();
    processes
        .upgrade_keeper(Arc::clone(&settings.program))
        .await
        .map_err(|error| Failure::new(code::INTERNAL, format!("the keeper stays as it is: {error}")))?;
    let after = processes.keeper_status();
    value(&Upgraded { pid: after.pid, build_before: before.build, build_after: after.build })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name() {
        assert_eq!(signal("TERM").unwrap(), Signal::TERM);
        assert_eq!(signal("sigint").unwrap(), Signal::INT);
        assert!(signal("9").is_err() && signal("").is_err());
    }
}
