//! What a house needs so that people decide: its inbox, its rules, the commands they allow, and the door that asks.
//!
//! Invariant: a rule that cannot be understood keeps the house closed; none is passed over. What was approved before a
//! restart and nobody came back for is ended and put on record.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hostel_doors::claustrum::Log;
use hostel_doors::sudo_proxy;
use hostel_doors::sudo_proxy::notice::Notice;
use hostel_house::approvals::Action;
use hostel_house::approvals::ApprovalOptions;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Glob;
use hostel_house::approvals::LockoutLimits;
use hostel_house::approvals::Rule;
use hostel_house::pipelines::PasswordDesk;
use hostel_house::pipelines::PipelineLimits;
use hostel_house::pipelines::Pipelines;
use hostel_house::processes::Processes;
use tokio::sync::mpsc;

use super::House;
use crate::config::ApprovalSettings;
use crate::config::RuleAction;
use crate::config::RuleSettings;
use crate::config::Settings;
use crate::error::CommandError;
use crate::paths::HouseDir;

/// How often the limits of daemon and keeper are looked at.
const LIMITS_LOOK: Duration = Duration::from_secs(5);

/// What of our environment pkexec needs to ask on a display.
const DISPLAY: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"];

/// What the inbox of a house is like.
pub(super) fn approval_options(
    dir: &HouseDir,
    settings: &Settings,
    processes: &Processes,
) -> Result<ApprovalOptions, CommandError> {
    let ApprovalSettings { strict, max_pending, keep, lockout, rules, .. } = &settings.approvals;
    let mut options = ApprovalOptions::new(dir.approver_file(), processes.clone());
    options.strict = *strict;
    options.rules = rules.iter().map(rule).collect::<Result<_, _>>()?;
    options.eligible = settings.sudo_proxy.unattended_eligible;
    options.max_pending = *max_pending;
    options.keep = *keep;
    options.lockout = LockoutLimits { attempts: lockout.attempts, wait: lockout.wait, longest: lockout.longest };
    Ok(options)
}

/// A rule as the house applies it.
fn rule(settings: &RuleSettings) -> Result<Rule, CommandError> {
    let glob = |key: &str, text: &String| {
        Glob::new(text).map_err(|error| {
            CommandError::usage(format!("{}: `{key}` of rule `{}`: {error}", settings.origin, settings.name))
        })
    };
    let one = |key: &str, text: &Option<String>| text.as_ref().map(|text| glob(key, text)).transpose();
    let many = |key: &str, texts: &Option<Vec<String>>| {
        texts.as_ref().map(|texts| texts.iter().map(|text| glob(key, text)).collect::<Result<_, _>>()).transpose()
    };
    Ok(Rule {
        name: settings.name.clone(),
        action: match settings.action {
            RuleAction::Allow => Action::Allow,
            RuleAction::Ask => Action::Ask,
            RuleAction::Deny => Action::Deny,
        },
        requester: one("requester", &settings.requester)?,
        session: one("session", &settings.session)?,
        cwd: one("cwd", &settings.cwd)?,
        tool: one("tool", &settings.tool)?,
        argv: many("argv", &settings.argv)?,
        env: many("env", &settings.env)?,
        privileged: settings.privileged,
    })
}

/// The commands that an inbox allows.
pub(super) async fn pipelines(
    settings: &Settings,
    processes: &Processes,
    approvals: &Approvals,
) -> Result<Pipelines, CommandError> {
    let ours = &settings.sudo_proxy;
    let limits = PipelineLimits { time: ours.exec_timeout, output: ours.output, ..PipelineLimits::default() };
    Pipelines::open(processes.clone(), approvals.clone(), limits)
        .await
        .map_err(|error| CommandError::failure(error.to_string()))
}

/// Ends what was approved before a restart and nobody came back for, for as long as it is polled.
pub(super) async fn look_after(approvals: Approvals, pipelines: Pipelines, log: Log) {
    loop {
        for approval in approvals.abandoned().await {
            let outcome = pipelines.abandon(&approval, "nobody came back for it after a restart").await;
            log.warn(format_args!("[hostel] nobody came back for {}: {:?}", approval.id, outcome.end));
        }
    }
}

/// Writes every alarm to the log, for as long as it is polled.
pub(super) async fn log_alarms(approvals: Approvals, log: Log) {
    let mut alarms = approvals.follow_alarms();
    drop(approvals);
    while let Some(raised) = alarms.next().await {
        for alarm in &raised {
            log.error(format_args!("[hostel] ALARM: {}", alarm.text));
        }
    }
}

/// Raises an alarm once the limits of this process or of its keeper were lowered, for as long as it is polled.
pub(super) async fn watch_limits(processes: Processes, approvals: Approvals) {
    let mut pause = tokio::time::interval(LIMITS_LOOK);
    let mut told = Vec::new();
    loop {
        pause.tick().await;
        for whose in processes.lowered_limits().await {
            // One that the disk does not take is told again.
            if !told.contains(&whose) && approvals.report_lowered_limit(whose).await.is_ok() {
                told.push(whose);
            }
        }
    }
}

/// What is known of a house before its database is opened.
pub(super) struct Before {
    has_database: bool,
    /// There are journals, and so there was a house.
    has_journals: bool,
}

impl Before {
    /// Looks at the directory of a house and at that of its journals. Call it before anything is written there.
    pub(super) fn look(dir: &HouseDir, journals: &Path) -> Self {
        let has_journals = std::fs::read_dir(journals).is_ok_and(|mut entries| entries.next().is_some());
        Before { has_database: dir.database().exists(), has_journals }
    }

    /// Raises an alarm if a new record begins in which something is allowed unasked, or where there was a record before.
    pub(super) async fn tell(
        &self,
        settings: &Settings,
        journals: &Path,
        approvals: &Approvals,
    ) -> Result<(), CommandError> {
        let rules = settings.approvals.rules.iter().filter(|rule| rule.action == RuleAction::Allow).count();
        if self.has_database || !(self.has_journals || rules > 0) {
            return Ok(());
        }
        let text = new_record(rules, self.has_journals.then_some(journals), approvals.approver().is_set());
        let reported = approvals.report_new_record(text, self.has_journals).await;
        reported.map_err(|error| CommandError::failure(format!("cannot write to the record: {error}")))
    }
}

/// That a new record begins, in words.
fn new_record(rules: usize, journals: Option<&Path>, has_passphrase: bool) -> String {
    let mut text = "there was no state.db: a new record begins".to_owned();
    if let Some(journals) = journals {
        text.push_str(&format!(
            "; journals of an earlier house are in `{}`, so the record of that house is missing",
            journals.display()
        ));
    }
    match rules {
        0 => {}
        1 => text.push_str("; 1 rule in hostel.toml allows without asking"),
        rules => text.push_str(&format!("; {rules} rules in hostel.toml allow without asking")),
    }
    if !has_passphrase {
        text.push_str("; no passphrase is set");
    }
    text
}

/// How the sudo-proxy door presents itself.
#[derive(Debug)]
pub(crate) struct SudoProxyFace {
    /// Where sudo's password is typed.
    pub(crate) passwords: Option<PasswordDesk>,
    /// pkexec asks, where there is a display.
    pub(crate) pkexec: bool,
    /// Each request is logged.
    pub(crate) verbose: bool,
    /// Its requests are answered on a terminal of its own.
    pub(crate) terminal: bool,
    /// Who wants to know what it does.
    pub(crate) notices: Option<mpsc::Sender<Notice>>,
    pub(crate) log: Log,
}

impl SudoProxyFace {
    /// The face of a house that is asked in many ways.
    pub(crate) fn of_house(house: &House) -> Self {
        SudoProxyFace {
            passwords: None,
            pkexec: false,
            verbose: false,
            terminal: false,
            notices: None,
            log: house.log.clone(),
        }
    }
}

/// The sudo-proxy door of a house; all its sockets share it.
pub(crate) async fn sudo_proxy_door(house: &House, face: SudoProxyFace) -> Result<sudo_proxy::Door, CommandError> {
    let ours = &house.settings.sudo_proxy;
    house.pipelines.set_password_desk(face.passwords);
    let settings = sudo_proxy::Settings {
        reported_version: ours.reported_version.clone(),
        in_flight: ours.in_flight,
        prompt_time: ours.approval_wait,
        pkexec: (face.pkexec && crate::sudo_proxy::has_display()).then(display),
        keeps_user: ours.keep_user_for_root,
        agent_socket: crate::sudo_proxy::agent_socket(),
        terminal: face.terminal,
        verbose: face.verbose,
        notices: face.notices,
        ..sudo_proxy::Settings::default()
    };
    let (approvals, insiders, pipelines) = (house.approvals.clone(), house.insiders.clone(), house.pipelines.clone());
    sudo_proxy::Door::open(approvals, insiders, pipelines, settings, face.log)
        .await
        .map_err(|error| CommandError::failure(format!("cannot open `{}`: {error}", house.dir.database().display())))
}

fn display() -> BTreeMap<String, String> {
    let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok().filter(|value| !value.is_empty())?));
    DISPLAY.into_iter().filter_map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_record_is_told_with_what_is_odd_about_it() {
        assert_eq!(
            new_record(2, Some(Path::new("/h/journal")), false),
            "there was no state.db: a new record begins; journals of an earlier house are in `/h/journal`, so the record of \
             that house is missing; 2 rules in hostel.toml allow without asking; no passphrase is set"
        );
        assert_eq!(
            new_record(1, None, true),
            "there was no state.db: a new record begins; 1 rule in hostel.toml allows without asking"
        );
    }
}
