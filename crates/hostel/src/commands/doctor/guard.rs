//! Which guard agents have, why not a stronger one, and what lets an agent out of it.
//!
//! A house that is up says what it found. Otherwise the same is tried here, as the same user.

use std::path::Path;

use hostel_doors::native::protocol::GuardInfo;
use hostel_guard::Setting;

use super::Findings;
use crate::config::Settings;
use crate::conversation::words;
use crate::daemon;
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

/// Settings and files that leave a way out.
pub(super) fn ways_out(settings: &Settings, findings: &mut Findings) {
    for alias in settings.agents_with_guard(Setting::Off) {
        findings.warn(
            "guard",
            format!("the agent {alias} runs without one"),
            format!("remove `agents.{alias}.guard` or set it to \"auto\""),
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
