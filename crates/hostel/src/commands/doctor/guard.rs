//! Which guard agents have, why not a stronger one, and what lets an agent out of it.
//!
//! A house that is up says what it found. Otherwise the same is tried here, as the same user.

use std::path::Path;

use hostel_doors::native::protocol::GuardInfo;
use hostel_guard::Setting;
use hostel_house::processes::program;

use super::Findings;
use crate::config::Settings;
use crate::conversation::words;
use crate::daemon;
use crate::notify::NOTIFIER;
use crate::paths;
use crate::paths::HouseDir;

/// Where an ssh server is.
const SSH_SERVERS: [&str; 2] = ["/usr/sbin/sshd", "/run/current-system/sw/bin/sshd"];

/// What can be done about a guard that is not complete.
const HINT: &str = "docs/guard.md says what each layer needs; `guard.setting = \"strict\"` refuses sessions without it";

/// What a house that is up has found.
pub(super) fn told(guard: Option<&GuardInfo>, findings: &mut Findings) {
    match guard {
        Some(guard) if guard.active == "full" => findings.good("guard", words::guard(guard)),
        Some(guard) => findings.warn("guard", words::guard(guard), HINT),
        None => findings.warn("guard", "the daemon knows none", "`hostel down --keep && hostel up`"),
    }
}

/// Tries it here.
pub(super) fn try_out(dir: &HouseDir, settings: &Settings, findings: &mut Findings) {
    if let Ok(guards) = daemon::guard::guards(dir, settings) {
        guards.look();
        told(Some(&guards.usual_status().into()), findings);
    }
}

/// A program that the daemon starts itself and that agents may be able to replace.
pub(super) fn unprotected(check: &'static str, file: &Path, findings: &mut Findings) {
    findings.warn(
        check,
        format!("others than root can change `{}`, and the daemon runs it outside every guard", file.display()),
        "install the system's own, or add the directory of this one to `guard.read_only`",
    );
}

/// Programs that the daemon starts itself, besides git.
pub(super) fn own_programs(settings: &Settings, findings: &mut Findings) {
    let path = std::env::var_os("PATH");
    let found = program::own(NOTIFIER, settings.guard.programs, path.as_deref());
    if let Some(found) = found.filter(|found| settings.approvals.notify.desktop && !found.is_protected) {
        unprotected("notifications", &found.file, findings);
    }
}

/// Settings and files that leave a way out.
pub(super) fn ways_out(settings: &Settings, findings: &mut Findings) {
    for alias in settings.agents_with_guard(Setting::Off) {
        findings.warn(
            "guard",
            format!("the agent {alias} runs without one"),
            format!("remove `agents.{alias}.guard` or set it to \"auto\""),
        );
    }
    for path in settings.named_guard_paths().iter().filter(|path| path.symlink_metadata().is_err()) {
        findings.warn(
            "guard",
            format!(
                "`{}` does not exist: agents that run now will see it and can change it when it appears",
                path.display()
            ),
            "make it, or remove it from `guard.hide` and `guard.read_only`; `strict` refuses sessions meanwhile",
        );
    }
    let keys = paths::expand("~/.ssh/authorized_keys");
    let serves_ssh = SSH_SERVERS.iter().any(|server| Path::new(server).exists());
    if serves_ssh && settings.guard.setting != Setting::Off && keys.is_absolute() && !keys.exists() {
        findings.warn(
            "guard",
            format!("`{}` does not exist and this machine has an ssh server: an agent can make it", keys.display()),
            "make it, empty: the guard then keeps agents from changing it",
        );
    }
}
