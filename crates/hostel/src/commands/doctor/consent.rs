//! Whether people can decide here, whether anything could run as root, and whether the record of it is whole.
//!
//! Invariant: no command is run and no passphrase is looked at.

use std::path::Path;
use std::path::PathBuf;

use hostel_doors::native::client::Client;
use hostel_house::pipelines::EXECUTION_PATH;
use serde::Deserialize;
use serde_json::json;

use super::Findings;
use crate::commands::approver::Alarm;
use crate::config::Settings;
use crate::daemon::sockets::Occupant;
use crate::daemon::sockets::occupant;
use crate::error::CommandError;
use crate::paths::HouseDir;

/// What is known of the audit.
#[derive(Deserialize)]
struct Audit {
    records: u64,
    broken: Option<Broken>,
}

/// The first record that is not as it was written.
#[derive(Deserialize)]
struct Broken {
    no: u64,
    what: String,
}

/// What can be seen without a daemon.
pub(super) fn check(home: &Path, settings: &Settings, findings: &mut Findings) {
    let file = HouseDir::at(home).approver_file();
    match (file.exists(), settings.approvals.strict) {
        (true, _) => findings.good("approver", "a passphrase is set"),
        (false, true) => findings.bad(
            "approver",
            "`approvals.strict` demands a passphrase and none is set: nobody can approve anything",
            "set one with `hostel approver set`",
        ),
        (false, false) => findings.warn(
            "approver",
            "no passphrase is set: only `session/approve` and the terminal of `sudo-proxy` can approve",
            "set one with `hostel approver set`",
        ),
    }
    let found: Vec<String> =
        ["sudo", "pkexec"].into_iter().filter_map(find).map(|path| path.display().to_string()).collect();
    match found.is_empty() {
        false => findings.good("root", format!("is reached by {}", found.join(" and "))),
        true => findings.warn(
            "root",
            format!("neither sudo nor pkexec is in {EXECUTION_PATH}: nothing can run as root"),
            "install sudo, if anything should",
        ),
    }
}

fn find(name: &str) -> Option<PathBuf> {
    EXECUTION_PATH.split(':').map(|directory| Path::new(directory).join(name)).find(|path| path.is_file())
}

/// What waits for the approver's word, and what people have to hear of.
#[derive(Deserialize)]
struct Approver {
    #[serde(default)]
    unconfirmed: Vec<String>,
    #[serde(default)]
    alarms: Vec<Alarm>,
}

/// What only the daemon knows.
pub(super) async fn ask(client: &mut Client, findings: &mut Findings) -> Result<(), CommandError> {
    let approver: Approver = client.call("approver/status", &json!({})).await?;
    for reason in &approver.unconfirmed {
        findings.warn(
            "settings",
            format!("not in force: {reason}"),
            "`hostel approver confirm`, if that is what you want",
        );
    }
    for alarm in &approver.alarms {
        let hint = "`hostel audit show` tells when; find out who writes to the house's files";
        findings.bad("tampering", format!("{} {}", alarm.time, alarm.text), hint);
    }
    let audit: Audit = client.call("audit/verify", &json!({})).await?;
    match audit.broken {
        None => findings.good("audit", format!("{} records, each as it was written", audit.records)),
        Some(broken) => findings.bad(
            "audit",
            format!("record {} is not as it was written: {}", broken.no, broken.what),
            "somebody changed state.db: find out who, and keep a copy of it",
        ),
    }
    Ok(())
}

/// While the house is down: who has the addresses it would open.
pub(super) fn addresses(settings: &Settings, findings: &mut Findings) {
    if settings.sudo_proxy.enabled {
        for path in settings.sudo_proxy.listen.iter().filter(|path| occupant(path) == Occupant::Listening) {
            findings.warn(
                "door",
                format!("sudo-proxy on {}: somebody listens there", path.display()),
                "end the other program, or change `doors.sudo-proxy.listen`",
            );
        }
    }
}
