//! `hook-launch`: a process that takes away from itself what a hook shall not have, says what it could not, and becomes
//! the hook.
//!
//! Invariant: the one line it writes comes before anything of the hook's. Everything it gives up it gives up for good:
//! what runs after it cannot take it back. Where something cannot be enforced the hook runs all the same; where it
//! cannot be started, that is in the line.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;

use hostel_keeper::confine;
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

/// What a program needs to run at all.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt"];

/// Devices that hold nothing of anybody's.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

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
    let mut report = Report::default();
    let mut command = match &plan.bwrap {
        Some(bwrap) => {
            let mut command = Command::new(bwrap);
            command.args(wrapped(&plan));
            command
        }
        None => {
            report.unenforced = confine_self(&plan);
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

/// The words of bubblewrap for a plan: no processes of others, no `/proc`, no message bus, a `/tmp` of its own.
fn wrapped(plan: &Plan) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |some: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(some.iter().map(|word| word.as_ref().to_owned()));
    };
    add(&[&"--unshare-user-try", &"--unshare-ipc", &"--unshare-pid", &"--unshare-uts", &"--unshare-cgroup-try"]);
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
    if plan.files != "rw" {
        add(&[&"--tmpfs", &"/tmp", &"--tmpfs", &"/run", &"--tmpfs", &"/proc", &"--dir", &plan.scratch]);
        add(&[&"--ro-bind", &plan.hooks, &plan.hooks]);
    }
    if let Some(socket) = &plan.socket {
        add(&[&"--ro-bind", socket, socket]);
    }
    add(&[&"--chdir", &plan.hooks, &"--", &plan.program]);
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
        for part in ["--unshare-net", "--ro-bind / /", "--tmpfs /run", "--dir /tmp/id-on-dm", "--chdir /h -- /h/on-dm"]
        {
            assert!(readonly.contains(part), "{part} in {readonly}");
        }
        assert!(!readonly.contains(" --bind "));
        assert!(
            words(&plan("sandbox")).contains("--ro-bind /usr /usr") && !words(&plan("sandbox")).contains("bind / /")
        );
        let open = Plan { no_network: false, socket: Some("/d/sock".into()), ..plan("rw") };
        let open = words(&open);
        assert!(open.contains("--bind / /") && !open.contains("--unshare-net") && open.contains("--ro-bind /d/sock"));
    }
}
