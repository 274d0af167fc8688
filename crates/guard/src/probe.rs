//! Finding out which layers a machine allows, by trying them in a process of its own.
//!
//! Guarantees: a layer counts as available only if its effect was seen: what is hidden is gone, user namespaces are refused,
//! and the process that asked cannot be signalled. Trying takes a bounded time and leaves nothing behind.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::launcher::{TRY, VERB, fail};
use crate::layers::Availability;
use crate::plan::Plan;
use crate::{nested, scopes, view};

/// How long a try may take.
const TRY_LIMIT: Duration = Duration::from_secs(5);

/// The pause between two looks at a process that tries.
const LOOK: Duration = Duration::from_millis(2);

/// The most of its answer that is read.
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// The other side: tries both layers in this process and prints what could not be had.
pub(crate) fn try_out(plan: &Plan) -> ExitCode {
    let parent = rustix::process::getppid();
    let view = view::enter(plan).map_err(|error| explain(&error.to_string())).and_then(|()| is_hidden(plan));
    let no_view = view.and_then(|()| nested::refuse()).and_then(|()| nested::is_refused()).err();
    let scoped = rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string());
    let no_scopes = scoped.and_then(|()| scopes::enter()).and_then(|()| cannot_signal(parent)).err();
    let found = Availability { no_view, no_scopes };
    match serde_json::to_string(&found) {
        Ok(text) if io::stdout().write_all(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
        _ => fail(1, "hostel: cannot say what was found"),
    }
}

/// Whether hidden directories show nothing but what was put there.
fn is_hidden(plan: &Plan) -> Result<(), String> {
    for hidden in &plan.hidden {
        let placed = plan.shown.iter().map(|shown| &shown.to).chain(&plan.granted);
        let names: Vec<PathBuf> = placed.filter_map(|path| first_below(hidden, path)).collect();
        for entry in fs::read_dir(hidden).into_iter().flatten().flatten() {
            let name = PathBuf::from(entry.file_name());
            // Nothing is shown at the directory itself if something is: then all of it is what was put there.
            let itself = plan.shown.iter().any(|shown| shown.to == *hidden);
            if !itself && !names.contains(&name) && !name.to_string_lossy().starts_with(".ssh_config") {
                return Err(format!("`{}` is still there", hidden.join(name).display()));
            }
        }
    }
    Ok(())
}

/// The name below a directory that leads to a path.
fn first_below(directory: &Path, path: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix(directory).ok()?;
    inside.components().next().map(|part| PathBuf::from(part.as_os_str()))
}

fn cannot_signal(parent: Option<rustix::process::Pid>) -> Result<(), String> {
    let Some(parent) = parent else { return Err("the parent process is not in sight".to_owned()) };
    match rustix::process::test_kill_process(parent) {
        Err(rustix::io::Errno::PERM) => Ok(()),
        _ => Err("processes outside can still be signalled".to_owned()),
    }
}

/// Adds what most likely stands in the way.
fn explain(error: &str) -> String {
    let value = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).map(|text| text.trim().to_owned()).ok();
    let is = |name: &str, expected: &str| value(name).is_some_and(|value| value == expected);
    let hint = if rustix::process::geteuid().is_root() {
        "root lacks CAP_SYS_ADMIN, as in most containers"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces; docs/guard.md has a profile for hostel"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone is 0"
    } else if is("user/max_user_namespaces", "0") {
        "user.max_user_namespaces is 0"
    } else if !Path::new("/proc/self/ns/user").exists() {
        "the kernel has no user namespaces"
    } else {
        return error.to_owned();
    };
    format!("{error} ({hint})")
}

/// Tries a plan in a process of its own. Blocks for up to [`TRY_LIMIT`].
pub(crate) fn ask(program: &Path, plan: &Plan) -> Availability {
    let Some(argument) = plan.argument() else { return Availability::nothing("a path of the house is no text") };
    let mut command = Command::new(program);
    // Not under the name of a personality: what ends all processes of that name does not mean this one.
    command.arg0("hostel").arg(VERB).arg(TRY).arg(argument).current_dir("/").env_clear();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Availability::nothing(&format!("it cannot be tried: {error}")),
    };
    let ended = wait(&mut child);
    let mut answer = String::new();
    if let Some(out) = child.stdout.take().filter(|_| ended) {
        out.take(MAX_ANSWER_BYTES).read_to_string(&mut answer).ok();
    }
    serde_json::from_str(&answer)
        .unwrap_or_else(|_| Availability::nothing(if ended { "trying it failed" } else { "trying it took too long" }))
}

/// Waits for the end, or makes it. Says whether the process ended by itself.
fn wait(child: &mut Child) -> bool {
    let deadline = Instant::now() + TRY_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
            _ => {
                child.kill().ok();
                child.wait().ok();
                return false;
            }
        }
    }
}
