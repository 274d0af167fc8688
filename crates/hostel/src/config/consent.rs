//! Settings about consent: the inbox, who is told of it, its rules, and the doors that ask.
//!
//! Invariant: a rule stands in the file as it is applied, in the order it was written, and knows its line. Nothing here
//! decides anything: rules are only handed to the house.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hostel_house::approvals::Glob;
use serde::Deserialize;
use toml::Spanned;

use super::values::OneOrMany;
use crate::http_client::{Address, AddressError};

/// What the sudo-proxy door calls itself: clients show it to people.
const SUDO_PROXY_VERSION: &str = "1.2.0";

/// The longest name of a rule.
const LONGEST_RULE_NAME: usize = 64;

/// More rules than this are a mistake.
const MOST_RULES: usize = 1_000;

/// The shortest key a webhook is signed with, in bytes.
pub(crate) const SHORTEST_KEY: usize = 16;

/// The inbox.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalSettings {
    /// Whether the passphrase is demanded everywhere.
    pub(crate) strict: bool,
    /// How long a request waits, where its door has no rule of its own.
    pub(crate) wait: Duration,
    /// Requests that may wait at once.
    pub(crate) max_pending: usize,
    /// Settled requests that are kept.
    pub(crate) keep: usize,
    pub(crate) lockout: LockoutSettings,
    pub(crate) notify: NotifySettings,
    pub(crate) rules: Vec<RuleSettings>,
}

/// What wrong passphrases lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockoutSettings {
    /// Wrong ones in a row before nothing is taken for a while.
    pub(crate) attempts: u32,
    /// How long the first time; twice as long each further time.
    pub(crate) wait: Duration,
    /// But never longer than this.
    pub(crate) longest: Duration,
}

/// Who is told that a request waits or a turn has ended.
#[derive(Clone, Debug)]
pub(crate) struct NotifySettings {
    /// The desktop, where there is one.
    pub(crate) desktop: bool,
    /// The bell of terminals that show the inbox.
    pub(crate) bell: bool,
    /// Where to send a signed message; none = nowhere.
    pub(crate) webhook: Option<String>,
    /// The key it is signed with.
    pub(crate) secret_file: Option<PathBuf>,
    /// What is told.
    pub(crate) on: Vec<Occasion>,
}

/// What somebody can be told of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Occasion {
    /// A request waits for an answer.
    Request,
    /// A turn of an agent has ended.
    Turn,
}

impl Occasion {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Occasion::Request => "request",
            Occasion::Turn => "turn",
        }
    }
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RuleAction {
    Allow,
    Ask,
    Deny,
}

impl RuleAction {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RuleAction::Allow => "allow",
            RuleAction::Ask => "ask",
            RuleAction::Deny => "deny",
        }
    }
}

/// One `[[approvals.rules]]`.
#[derive(Clone, Debug)]
pub(crate) struct RuleSettings {
    /// What it is called; `rule N` if it was not called anything.
    pub(crate) name: String,
    pub(crate) action: RuleAction,
    /// Globs; none = any.
    pub(crate) requester: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) tool: Option<String>,
    /// One glob for each word; a last `**` for any further ones.
    pub(crate) argv: Option<Vec<String>>,
    /// One glob for each name of a variable that may be set although programs run other code by it.
    pub(crate) env: Option<Vec<String>>,
    /// Whether it is about requests for root; none = see the action.
    pub(crate) privileged: Option<bool>,
    /// Where it stands, `FILE:LINE`.
    pub(crate) origin: String,
}

/// The sudo-proxy door.
#[derive(Clone, Debug)]
pub(crate) struct SudoProxySettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Further endpoints beside `run/sudo.sock`.
    pub(crate) listen: Vec<PathBuf>,
    /// What the door calls itself.
    pub(crate) reported_version: String,
    /// Whether a person may let unprivileged commands pass until the daemon ends.
    pub(crate) unattended_eligible: bool,
    /// Whether privileged commands get the user's `HOME`, `USER` and `LOGNAME`, as the contract has it.
    pub(crate) keep_user_for_root: bool,
    /// Connections that are being served at once.
    pub(crate) in_flight: usize,
    /// How long a request waits for an answer once it is shown.
    pub(crate) approval_wait: Duration,
    /// How long a command may run.
    pub(crate) exec_timeout: Duration,
    /// Bytes kept of each stream of a command.
    pub(crate) output: u64,
}

/// The door for clients that speak MCP over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct McpSettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Where; port 0 = any that is free.
    pub(crate) listen: SocketAddr,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        ApprovalSettings {
            strict: false,
            wait: Duration::from_secs(86_400),
            max_pending: 1_000,
            keep: 10_000,
            lockout: LockoutSettings {
                attempts: 5,
                wait: Duration::from_secs(30),
                longest: Duration::from_secs(3_600),
            },
            notify: NotifySettings {
                desktop: true,
                bell: true,
                webhook: None,
                secret_file: None,
                on: vec![Occasion::Request, Occasion::Turn],
            },
            rules: Vec::new(),
        }
    }
}

impl Default for SudoProxySettings {
    fn default() -> Self {
        SudoProxySettings {
            enabled: true,
            listen: vec![default_sudo_proxy_endpoint()],
            reported_version: SUDO_PROXY_VERSION.to_owned(),
            unattended_eligible: false,
            keep_user_for_root: false,
            in_flight: 64,
            approval_wait: Duration::from_secs(60),
            exec_timeout: Duration::from_secs(300),
            output: 16 << 20,
        }
    }
}

impl Default for McpSettings {
    fn default() -> Self {
        McpSettings { enabled: true, listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0) }
    }
}

/// The contract's own sudo-proxy endpoint.
fn default_sudo_proxy_endpoint() -> PathBuf {
    let runtime = match std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw())),
    };
    runtime.join("sudo-proxy.sock")
}

impl ApprovalSettings {
    /// What is wrong with the rules, and where it stands.
    pub(super) fn rule_problem(&self) -> Option<(&str, String)> {
        if let Some(rule) = self.rules.get(MOST_RULES) {
            return Some((&rule.origin, format!("there are more than {MOST_RULES} rules")));
        }
        for (position, rule) in self.rules.iter().enumerate() {
            let earlier = self.rules.get(..position).unwrap_or_default();
            if let Some(problem) = rule.problem(earlier) {
                return Some((&rule.origin, problem));
            }
        }
        None
    }

    /// What is wrong with the webhook; the key it is about.
    pub(super) fn webhook_problem(&self) -> Option<(&'static str, String)> {
        let url = self.notify.webhook.as_deref()?;
        let key = "approvals.notify.webhook";
        match Address::parse(url) {
            Ok(_) => {}
            Err(AddressError::Scheme) => {
                return Some((key, format!("`{key}` must start with `https://` or `http://`")));
            }
            Err(error) => return Some((key, format!("`{key}` is not a URL: {error}"))),
        }
        if self.notify.secret_file.is_none() {
            let secret = "approvals.notify.secret_file";
            return Some((key, format!("`{key}` needs `{secret}`: what is sent is signed")));
        }
        None
    }
}

impl RuleSettings {
    fn problem(&self, earlier: &[RuleSettings]) -> Option<String> {
        let name = &self.name;
        if name.is_empty() || name.chars().count() > LONGEST_RULE_NAME || name.chars().any(char::is_control) {
            return Some(format!("a rule's `name` has 1 to {LONGEST_RULE_NAME} characters on one line"));
        }
        if earlier.iter().any(|rule| rule.name == *name) {
            return Some(format!("two rules are called `{name}`; `hostel approvals why` could not tell them apart"));
        }
        let conditions = [&self.requester, &self.session, &self.cwd, &self.tool];
        if self.action == RuleAction::Allow && self.argv.is_none() && conditions.iter().all(|glob| glob.is_none()) {
            return Some(format!(
                "`{name}` allows everything; say what with `argv`, `tool`, `cwd`, `session` or `requester`"
            ));
        }
        if self.action == RuleAction::Allow
            && let Some(problem) = self.weakness()
        {
            return Some(problem);
        }
        let globs = [&self.requester, &self.session, &self.cwd, &self.tool].into_iter().flatten();
        for glob in globs.chain(self.argv.iter().flatten()).chain(self.env.iter().flatten()) {
            if let Err(error) = Glob::new(glob) {
                return Some(format!("in `{name}`: {error}"));
            }
        }
        if self.env.is_some() && (self.action != RuleAction::Allow || self.argv.is_none()) {
            return Some(format!(
                "`env` of `{name}` names variables that a command may bring; it is for rules that allow, with `argv`"
            ));
        }
        match self.argv.as_deref() {
            Some([]) => Some(format!("`argv` of `{name}` is empty; write for example `argv = [\"make\", \"test\"]`")),
            Some([words @ .., _]) if words.iter().any(|word| word == "**") => {
                Some(format!("`**` can only be the last word of `argv` in `{name}`"))
            }
            Some([program, ..]) if self.action == RuleAction::Allow && program.contains(['*', '?', '[']) => {
                Some(format!("`{name}` allows any program; the first word of `argv` must name one"))
            }
            _ => None,
        }
    }

    /// What a rule that allows relies on, if that is something any program of the user can pretend to be.
    fn weakness(&self) -> Option<String> {
        let name = &self.name;
        let requester = self.requester.as_deref().unwrap_or_default();
        let names_a_program = requester.contains('/') || (requester.contains("**") && requester != "**");
        if self.privileged == Some(true) && names_a_program {
            return Some(format!(
                "`{name}` allows root commands to the program `{requester}`; any program of yours can pass for it, so \
                 name a door (`requester = \"sudo-proxy\"`) or leave `requester` out"
            ));
        }
        if self.session.is_some() && (self.argv.is_some() || self.privileged.is_some()) {
            return Some(format!(
                "`{name}` allows commands of a session, which is only what the requester says; leave `session` out, or \
                 ask or deny instead"
            ));
        }
        None
    }

    /// The rule on one line, as it could stand in the file.
    pub(super) fn shown(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut line = format!("{}: action = {}", self.name, quoted(self.action.name()));
        let globs =
            [("requester", &self.requester), ("session", &self.session), ("cwd", &self.cwd), ("tool", &self.tool)];
        // Writing to a string cannot fail.
        for (key, glob) in globs {
            if let Some(glob) = glob {
                write!(line, ", {key} = {}", quoted(glob)).unwrap_or_default();
            }
        }
        if let Some(argv) = &self.argv {
            let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
            write!(line, ", argv = [{}]", words.join(", ")).unwrap_or_default();
        }
        if let Some(env) = &self.env {
            let names: Vec<String> = env.iter().map(|name| quoted(name)).collect();
            write!(line, ", env = [{}]", names.join(", ")).unwrap_or_default();
        }
        if let Some(privileged) = self.privileged {
            write!(line, ", privileged = {privileged}").unwrap_or_default();
        }
        line
    }
}

/// `[approvals]` in one layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Approvals {
    pub(super) strict: Option<bool>,
    pub(super) wait: Option<super::values::Time>,
    pub(super) max_pending: Option<usize>,
    pub(super) keep: Option<usize>,
    pub(super) lockout: Lockout,
    pub(super) notify: Notify,
    pub(super) rules: Vec<Spanned<Rule>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Lockout {
    pub(super) attempts: Option<u32>,
    pub(super) wait: Option<super::values::Time>,
    pub(super) longest: Option<super::values::Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Notify {
    pub(super) desktop: Option<bool>,
    pub(super) bell: Option<bool>,
    pub(super) webhook: Option<String>,
    pub(super) secret_file: Option<String>,
    pub(super) on: Option<Vec<Occasion>>,
}

/// A rule of the file. Only `action` must be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    name: Option<String>,
    action: RuleAction,
    requester: Option<String>,
    session: Option<String>,
    cwd: Option<String>,
    tool: Option<String>,
    argv: Option<OneOrMany>,
    env: Option<OneOrMany>,
    privileged: Option<bool>,
}

impl Rule {
    /// As it is applied; `number` counts from 1.
    pub(super) fn settings(self, number: usize, origin: String) -> RuleSettings {
        RuleSettings {
            name: self.name.unwrap_or_else(|| format!("rule {number}")),
            action: self.action,
            requester: self.requester,
            session: self.session,
            cwd: self.cwd.map(|cwd| crate::paths::expand(&cwd).display().to_string()),
            tool: self.tool,
            argv: self.argv.map(|words| words.0),
            env: self.env.map(|names| names.0),
            privileged: self.privileged,
            origin,
        }
    }
}

/// `[doors.sudo-proxy]` in one layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SudoProxy {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<OneOrMany>,
    pub(super) reported_version: Option<String>,
    pub(super) unattended_eligible: Option<bool>,
    pub(super) keep_user_for_root: Option<bool>,
    pub(super) in_flight: Option<usize>,
    pub(super) approval_wait: Option<super::values::Time>,
    pub(super) exec_timeout: Option<super::values::Time>,
    pub(super) output: Option<super::values::Size>,
}

/// `[doors.mcp]` in one layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mcp {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<super::values::Address>,
}
