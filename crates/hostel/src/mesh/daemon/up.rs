//! `daemon up`: the daemon of a mesh in the background, or held in this terminal.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::serve;
use super::service;
use super::status;
use crate::daemon::launch;
use crate::daemon::launch::Launcher;
use crate::daemon::launch::Outcome;
use crate::mesh;
use crate::mesh::Desk;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;
use crate::text;

/// How long a daemon may take until its socket answers: usually a moment, longer after a crash, when its databases are
/// looked through.
const START: Duration = Duration::from_secs(30);

/// A daemon that was started.
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) log: PathBuf,
}

pub(super) fn run(desk: &Desk<'_>, arguments: &Up) -> Result<ExitCode, Failure> {
    check(arguments)?;
    if arguments.launched {
        let launcher =
            Launcher::take().map_err(|error| Failure::internal(format!("cannot leave the launcher: {error}")))?;
        let joined = match desk.host.joined_for_daemon(desk.mesh.as_deref()) {
            Ok(joined) => joined,
            Err(failure) => {
                launcher.failed(&told(&failure));
                return Err(failure);
            }
        };
        return serve::run(desk, joined, arguments, Some(launcher));
    }
    if arguments.all {
        return mesh::wait(up_all(desk));
    }
    let joined = desk.host.joined_for_daemon(desk.mesh.as_deref())?;
    if let (Some(asked), Some(known), false, false) =
        (&arguments.name, &joined.display_name, arguments.rename, arguments.ephemeral)
        && asked != known
    {
        desk.ui.note(&format!("this host stays `{}`; add `--rename` to take another name", text::printable(known)));
    }
    if arguments.foreground {
        return serve::run(desk, joined, arguments, None);
    }
    let started = mesh::wait(start(desk, &joined.slug, arguments))?;
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "detached": true, "pid": started.pid, "log": started.log, "mesh": joined.slug,
            "socket": desk.host.dir(&joined.slug).sock(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("daemon started (pid {})", started.pid))?;
    desk.ui.line(&format!("  log: {}", started.log.display()))?;
    desk.ui.line(&format!("  stop it with `{} daemon down --mesh {}`", desk.called, joined.slug))?;
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &Up) -> Result<(), Failure> {
    if let Some(ttl) = &arguments.ttl {
        text::parse_duration(ttl).map_err(|error| Failure::arguments(error).with_exit(3))?;
        if !arguments.ephemeral {
            return Err(Failure::arguments("`--ttl` is for ephemeral daemons").hint("add `--ephemeral`").with_exit(3));
        }
    }
    Ok(())
}

/// Starts every daemon that is not up.
async fn up_all(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let mut failed = None;
    for joined in desk.host.meshes()? {
        let mesh = joined.slug;
        let (row, line) = match status::running(desk, &mesh).await {
            Some(daemon) => {
                let pid = daemon.pid().unwrap_or_default();
                (json!({"ok": true, "mesh": mesh, "pid": pid, "already": true}), format!("{mesh}: up (pid {pid})"))
            }
            None => match start(desk, &mesh, &Up::default()).await {
                Ok(started) => {
                    let pid = started.pid;
                    (json!({"ok": true, "mesh": mesh, "pid": pid}), format!("{mesh}: daemon started (pid {pid})"))
                }
                Err(failure) => {
                    let row = json!({"ok": false, "mesh": mesh, "error": failure.word(), "detail": failure.message()});
                    let line = format!("{mesh}: {}", failure.message());
                    failed = Some(failure);
                    (row, line)
                }
            },
        };
        rows.push(row);
        if !desk.ui.json() {
            desk.ui.line(&line)?;
        }
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    } else if rows.is_empty() {
        desk.ui.line("no mesh is joined")?;
    }
    Ok(failed.map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.exit_code())))
}

/// Starts the daemon of a mesh in the background and waits until it answers.
pub(crate) async fn start(desk: &Desk<'_>, mesh: &str, arguments: &Up) -> Result<Started, Failure> {
    if let Some(daemon) = status::running(desk, mesh).await {
        return Err(already(daemon.pid()));
    }
    let dir = desk.host.dir(mesh);
    let log = dir.log();
    if let Some(started) = service::start(desk, mesh, arguments).await? {
        return Ok(Started { pid: started, log });
    }
    let mut command = launch::own_program("hostel".as_ref(), &words(desk, mesh, arguments));
    // What was allocated together is given back together: few arenas keep an idle daemon small.
    command.env("MALLOC_ARENA_MAX", "2").current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    let launched = hostel_tasks::spawn_blocking(move || launch::launch(command, b"", START)).await;
    let log_hint = format!("its log is `{}`", log.display());
    let appeared = |text: String| {
        Failure::daemon(1, "socket_not_appeared", text)
            .with_data(json!({"ok": false, "reason": "socket_not_appeared", "log": log}))
            .hint(log_hint.clone())
    };
    match launched {
        Ok(Ok(Outcome::Ready)) => {}
        Ok(Ok(Outcome::Failed(reason))) => return Err(heard(&reason)),
        Ok(Ok(Outcome::Ended(_))) => return Err(appeared("the daemon ended while starting".to_owned())),
        Ok(Ok(Outcome::TimedOut)) => {
            return Err(appeared(format!("the daemon was not ready within {}", text::duration(START))));
        }
        Ok(Err(error)) => return Err(appeared(format!("cannot start the daemon: {error}"))),
        Err(error) => return Err(appeared(format!("cannot start the daemon: {error}"))),
    }
    match status::running(desk, mesh).await.and_then(|daemon| daemon.pid()) {
        Some(pid) => Ok(Started { pid, log }),
        None => Err(appeared("the daemon started and went away again".to_owned())),
    }
}

/// Somebody has the mesh already.
pub(super) fn already(pid: Option<u32>) -> Failure {
    let pid = pid.unwrap_or_default();
    Failure::daemon(1, "already_running", format!("daemon already running (pid {pid})"))
        .with_data(json!({"ok": false, "reason": "already_running", "pid": pid}))
}

/// The words by which this program becomes the daemon.
fn words(desk: &Desk<'_>, mesh: &str, arguments: &Up) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--home".into(), desk.home.clone().into()];
    words.extend(["mesh", "--mesh", mesh, "daemon", "up", "--launched"].map(OsString::from));
    let flags = [
        (arguments.rename, "--rename"),
        (arguments.ephemeral, "--ephemeral"),
        (arguments.persistent, "--persistent"),
        (arguments.accept_cloned_identity, "--accept-cloned-identity"),
        (arguments.remint, "--remint"),
        (arguments.no_tcp, "--no-tcp"),
        (arguments.public_health, "--public-health"),
        (arguments.container, "--container"),
    ];
    words.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into()));
    for (flag, value) in [("--name", &arguments.name), ("--ttl", &arguments.ttl)] {
        if let Some(value) = value {
            words.extend([flag.into(), value.into()]);
        }
    }
    words
}

/// A failure in one line, for the launcher.
pub(super) fn told(failure: &Failure) -> String {
    json!({
        "exit": failure.own_exit().unwrap_or(1), "word": failure.word(), "message": failure.message(),
        "hints": failure.hints(), "data": failure.to_json(),
    })
    .to_string()
}

/// The same, read again.
fn heard(reason: &str) -> Failure {
    let Ok(told) = serde_json::from_str::<Value>(reason) else {
        return Failure::daemon(1, "not_started", reason);
    };
    let exit = told.get("exit").and_then(Value::as_u64).and_then(|exit| u8::try_from(exit).ok()).unwrap_or(1);
    let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut failure = Failure::daemon(exit, text("word"), text("message"));
    for hint in told.get("hints").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        failure = failure.hint(hint);
    }
    match told.get("data") {
        Some(data) if data.is_object() => failure.with_data(data.clone()),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_way_to_the_launcher() {
        let failure = Failure::daemon(4, "cloned_identity", "not this host").hint("a").hint("b");
        let again = heard(&told(&failure));
        assert_eq!((again.exit_code(), again.word(), again.text()), (4, "cloned_identity", failure.text()));
        assert_eq!(heard("no JSON").text(), "no JSON");
    }

    #[test]
    fn a_time_to_live_is_for_what_ends() {
        let up = |ttl: &str, ephemeral| Up { ttl: Some(ttl.to_owned()), ephemeral, ..Up::default() };
        assert!(check(&up("2h", true)).is_ok());
        assert_eq!(check(&up("2h", false)).unwrap_err().exit_code(), 3);
        assert_eq!(check(&up("soon", true)).unwrap_err().exit_code(), 3);
    }
}
