//! `hook-launch`: a process that takes away from itself what a hook shall not have, says what it could not, and becomes
//! the hook.
//!
//! Invariant: the one line it writes comes before anything of the hook's. Everything it gives up it gives up for good:
//! what runs after it cannot take it back. Where something cannot be enforced the hook runs all the same; where it
//! cannot be started, that is in the line. A sandbox that was asked for by name is tried first, with nothing in it: if it
//! cannot be had, the hook is not started. The same goes for the filter that keeps a hook without a token from unix
//! sockets: through those it would reach everything that was taken from it.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use hostel_keeper::confine;
use hostel_keeper::syscall_filter::SyscallFilter;
use hostel_mesh::hooks::sandbox::Plan;
use hostel_mesh::hooks::sandbox::Report;
use landlock::ABI;
use landlock::Access as _;
use landlock::AccessFs;
use landlock::AccessNet;
use landlock::CompatLevel;
use landlock::Compatible as _;
use landlock::Ruleset;
use landlock::RulesetAttr as _;
use landlock::RulesetCreatedAttr as _;
use landlock::RulesetError;
use landlock::RulesetStatus;
use landlock::path_beneath_rules;
use rustix::fs::MemfdFlags;

/// What a program needs to run at all.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt"];

/// Devices that hold nothing of anybody's.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What is passed on of what bubblewrap says, in characters: the line has a bound.
const SAID: usize = 500;

/// What the kernel is asked to know; where it knows less, the rest is said to be missing.
const FILES: ABI = ABI::V5;
const NETWORK: ABI = ABI::V4;

/// Becomes the hook that the only word describes.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    confine::close_inherited();
    let plan = match words {
        [word] => word.to_str().and_then(Plan::parse),
        _ => None,
    };
    let Some(plan) = plan else {
        return say(&Report { failed: Some("it was not told what to start".to_owned()), ..Report::default() });
    };
    // The doors of the house tell by the mark that a hostel process started the hook.
    if let Err(error) = hostel_peer::marks::mark_as_hosted() {
        return say(&Report { failed: Some(format!("it cannot be marked: {error}")), ..Report::default() });
    }
    // With a token it may talk to the daemon, whose socket is one of those.
    let filter = match SyscallFilter::isolated(plan.socket.is_some()) {
        Ok(filter) => filter,
        Err(error) => return unfiltered(&error),
    };
    let mut report = Report::default();
    // Open until the hook is started: bubblewrap reads it.
    let _passed: OwnedFd;
    let mut command = match &plan.bwrap {
        Some(bwrap) => {
            if let Err(reason) = try_out(bwrap, &plan) {
                let failed = Some(format!("bubblewrap cannot start here: {reason}"));
                return say(&Report { unenforced: vec!["sandbox".to_owned()], failed });
            }
            let mut command = Command::new(bwrap);
            match passed_on(&filter) {
                Ok(passed) => {
                    command.arg("--seccomp").arg(passed.as_raw_fd().to_string());
                    _passed = passed;
                }
                Err(error) => return unfiltered(&error),
            }
            command.args(wrapped(&plan)).arg(&plan.program);
            command
        }
        None => {
            report.unenforced = confine_self(&plan);
            if let Err(error) = filter.install() {
                return unfiltered(&error);
            }
            Command::new(&plan.program)
        }
    };
    say(&report);
    let error = command.exec();
    // Too late for the line above: this is one of the hook's own, and the exit code is the shells'.
    let text = format!("cannot run `{}`: {error}\n", plan.program.display());
    std::io::stderr().write_all(text.as_bytes()).ok();
    ExitCode::from(126)
}

fn say(report: &Report) -> ExitCode {
    std::io::stderr().write_all(report.line().as_bytes()).ok();
    ExitCode::from(126)
}

/// Without the filter a hook is not started.
fn unfiltered(error: &std::io::Error) -> ExitCode {
    let failed = Some(format!(
        "nothing here keeps it from unix sockets ({error}), and it has no token for them: the kernel must know seccomp filters"
    ));
    say(&Report { unenforced: vec!["sockets".to_owned()], failed })
}

/// The filter in a descriptor that bubblewrap inherits.
fn passed_on(filter: &SyscallFilter) -> std::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("hook-filter", MemfdFlags::empty())?;
    let mut file = std::fs::File::from(file);
    file.write_all(&filter.to_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Gives up what the plan says; what could not be given up.
fn confine_self(plan: &Plan) -> Vec<String> {
    let mut missing = Vec::new();
    if plan.no_network && confine::leave_network().is_err() {
        missing.push("network".to_owned());
        // Better than nothing: no TCP. The rest of the network is still there, so it stays said.
        no_tcp().ok();
    }
    if plan.files != "rw" && !matches!(restrict_files(plan), Ok(RulesetStatus::FullyEnforced)) {
        missing.push("filesystem".to_owned());
    }
    missing
}

fn no_tcp() -> Result<(), RulesetError> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    rules.handle_access(AccessNet::from_all(NETWORK))?.create()?.restrict_self().map(drop)
}

/// Lets files be read and not written; with `sandbox` only those of the system, and the hooks' own.
fn restrict_files(plan: &Plan) -> Result<RulesetStatus, RulesetError> {
    let (all, read, write) = (AccessFs::from_all(FILES), AccessFs::from_read(FILES), AccessFs::from_write(FILES));
    let narrow = plan.files == "sandbox";
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let rules = rules.handle_access(if narrow { all } else { write })?.create()?;
    let rules = if narrow {
        let readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).chain([plan.hooks.clone()]).collect();
        rules.add_rules(path_beneath_rules(readable, read))?
    } else {
        rules
    };
    let (devices, own) = if narrow { (read | AccessFs::WriteFile, all) } else { (AccessFs::WriteFile.into(), write) };
    let rules = rules.add_rules(path_beneath_rules(DEVICES, devices))?;
    let rules = rules.add_rules(path_beneath_rules([&plan.scratch], own))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Whether bubblewrap can make the sandbox of a plan, with a program in it that does nothing. Its own end would not tell:
/// it is 1 as well where a hook ended so. Why not, in its own words.
fn try_out(bwrap: &Path, plan: &Plan) -> Result<(), String> {
    let nothing = ["/bin/sh", "-c", ":"];
    let tried = Command::new(bwrap).args(wrapped(plan)).args(nothing).stdin(Stdio::null()).output();
    let tried = tried.map_err(|error| format!("`{}`: {error}", bwrap.display()))?;
    if tried.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&tried.stderr);
    let said: String = said.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(SAID).collect();
    Err(if said.is_empty() { tried.status.to_string() } else { said })
}

/// The words of bubblewrap for a plan, up to the program: no processes of others, no `/proc`, no message bus, nothing to write to but the
/// hook's own directory. Later words cover what earlier ones show.
fn wrapped(plan: &Plan) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |some: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(some.iter().map(|word| word.as_ref().to_owned()));
    };
    add(&[&"--unshare-user-try", &"--unshare-ipc", &"--unshare-pid", &"--unshare-uts", &"--unshare-cgroup-try"]);
    // Root keeps its capabilities otherwise, and could make what is read-only writable again.
    add(&[&"--cap-drop", &"ALL"]);
    if plan.no_network {
        add(&[&"--unshare-net"]);
    }
    match plan.files.as_str() {
        "rw" => add(&[&"--bind", &"/", &"/", &"--dev-bind", &"/dev", &"/dev"]),
        "sandbox" => {
            for path in SYSTEM.iter().filter(|path| Path::new(path).exists()) {
                add(&[&"--ro-bind", path, path]);
            }
            add(&[&"--dev", &"/dev"]);
        }
        _ => add(&[&"--ro-bind", &"/", &"/", &"--dev", &"/dev"]),
    }
    add(&[&"--tmpfs", &"/run", &"--tmpfs", &"/proc"]);
    if plan.files == "rw" {
        add(&[&"--bind", &plan.hooks, &plan.hooks]);
    } else {
        add(&[&"--tmpfs", &"/tmp", &"--bind", &plan.scratch, &plan.scratch]);
        add(&[&"--ro-bind", &plan.hooks, &plan.hooks]);
    }
    if let Some(socket) = &plan.socket {
        add(&[&"--ro-bind", socket, socket]);
    }
    // At last, when everything above has its place: memory is not to be filled with files either.
    add(&[&"--remount-ro", &"/run", &"--remount-ro", &"/proc"]);
    if plan.files != "rw" {
        add(&[&"--remount-ro", &"/tmp", &"--remount-ro", &"/dev", &"--remount-ro", &"/"]);
    }
    add(&[&"--chdir", &plan.hooks, &"--"]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: &str) -> Plan {
        Plan {
            program: "/h/on-dm".into(),
            no_network: true,
            files: files.to_owned(),
            hooks: "/h".into(),
            scratch: "/tmp/id-on-dm".into(),
            bwrap: Some("/usr/bin/bwrap".into()),
            socket: None,
        }
    }

    #[test]
    fn what_bubblewrap_is_told() {
        let words = |plan: &Plan| wrapped(plan).join(" ".as_ref()).into_string().expect("words");
        let readonly = words(&plan("readonly"));
        for part in [
            "--cap-drop ALL",
            "--unshare-net",
            "--ro-bind / /",
            "--tmpfs /run",
            "--tmpfs /proc",
            "--bind /tmp/id-on-dm /tmp/id-on-dm",
            "--remount-ro /tmp",
            "--chdir /h --",
        ] {
            assert!(readonly.contains(part), "{part} in {readonly}");
        }
        assert_eq!(readonly.matches(" --bind ").count(), 1, "{readonly}");
        assert!(
            words(&plan("sandbox")).contains("--ro-bind /usr /usr") && !words(&plan("sandbox")).contains("bind / /")
        );
        let open = Plan { no_network: false, socket: Some("/d/sock".into()), ..plan("rw") };
        let open = words(&open);
        assert!(open.contains("--bind / /") && !open.contains("--unshare-net") && open.contains("--ro-bind /d/sock"));
        assert!(open.contains("--tmpfs /proc") && !open.contains("/tmp"), "{open}");
    }

    /// What a script below bubblewrap writes; nothing where bubblewrap is not there or may not do anything.
    fn said(files: &str, script: &str) -> Option<String> {
        use std::os::unix::fs::PermissionsExt as _;
        let bwrap = Path::new("/usr/bin/bwrap");
        let probe =
            Command::new(bwrap).args(["--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"]).output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            return None;
        }
        let (hooks, scratch) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir_in("/tmp").expect("one"));
        let program = hooks.path().join("on-dm");
        std::fs::write(&program, script).expect("a script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("a mode");
        let (hooks, scratch) = (hooks.path().to_owned(), scratch.path().to_owned());
        let plan = Plan { program, hooks, scratch: scratch.clone(), ..plan(files) };
        let ran = Command::new(bwrap)
            .args(wrapped(&plan))
            .arg(&plan.program)
            .env("SCRATCH", scratch)
            .output()
            .expect("it runs");
        Some(format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)))
    }

    #[test]
    fn a_sandbox_that_cannot_be_made_is_told_from_a_hook_that_failed() {
        let with = |program: &str| try_out(Path::new(program), &plan("readonly"));
        assert_eq!(with("/bin/true"), Ok(()));
        // One that says why, one that does not, and one that is not there.
        assert!(with("/usr/bin/env").is_err_and(|reason| reason.contains("unshare") && reason.lines().count() == 1));
        assert!(with("/bin/false").is_err_and(|reason| reason.contains('1')));
        assert!(with("/no/bwrap").is_err_and(|reason| reason.contains("/no/bwrap")));
    }

    #[test]
    fn what_bubblewrap_makes_of_it() {
        let script = "#!/bin/sh\nfor place in $SCRATCH . /tmp /run /proc /dev /dev/shm / /usr; do\n\
            if (echo x >$place/x.$$) 2>/dev/null; then echo \"wrote $place\"; rm -f $place/x.$$; fi; done\n\
            ls /proc /run\n(mount -o remount,rw,bind /usr) 2>/dev/null && echo remounted\necho x >/dev/null && echo end\n";
        for files in ["readonly", "sandbox"] {
            let Some(said) = said(files, script) else {
                eprintln!("skipped: bubblewrap is not there or may not make namespaces");
                return;
            };
            let wrote: Vec<&str> = said.lines().filter(|line| line.starts_with("wrote ")).collect();
            assert_eq!(wrote.len(), 1, "{files}: {said}");
            assert!(said.ends_with("/proc:\n\n/run:\nend\n"), "{files}: {said}");
        }
    }
}
