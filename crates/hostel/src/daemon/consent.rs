//! What a house needs so that people decide: its inbox, its rules, the commands they allow, and the door that asks.
//!
//! Invariant: a rule that cannot be understood keeps the house closed; none is passed over. What was approved before a
//! restart and nobody came back for is ended and put on record.

use std::collections::BTreeMap;

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
