//! The house's settings: flag over environment over `hostel.toml` over what is built in.
//!
//! Invariant: all three layers go through the same typed reader, so a value is right or wrong in all of them
//! alike, and an unknown key is an error that names its line.
//!
//! It reads; it never writes a configuration file.

pub(crate) mod agents;
mod consent;
mod file;
mod guard;
mod keys;
mod mesh;
mod sections;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

use hostel_agents::Kind;
use hostel_guard::Setting;
use serde_json::json;

use crate::error::CommandError;

pub(crate) use consent::ApprovalSettings;
pub(crate) use consent::McpSettings;
pub(crate) use consent::NotifySettings;
pub(crate) use consent::Occasion;
pub(crate) use consent::RuleAction;
pub(crate) use consent::RuleSettings;
pub(crate) use consent::SHORTEST_KEY;
pub(crate) use consent::SudoProxySettings;
pub(crate) use guard::GuardSettings;
pub(crate) use mesh::BrokerSettings;
pub(crate) use mesh::MeshSettings;
pub(crate) use sections::CODECAST_PORT;
pub(crate) use sections::ClaustrumSettings;
pub(crate) use sections::CodecastSettings;
pub(crate) use sections::JournalSettings;
pub(crate) use sections::LimitSettings;
pub(crate) use sections::SessionSettings;
pub(crate) use sections::ZeroclawSettings;
pub(crate) use values::OnFull;
pub(crate) use values::Reattach;
pub(crate) use values::parse_host;

use agents::AgentSettings;
use file::Layer;
use keys::KEYS;

/// How a setting's text becomes a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    /// Taken as it stands.
    Text,
    /// A number or a truth value.
    Bare,
    /// Several texts, separated by commas.
    List,
    /// Names with values (`A=1`), separated by commas.
    Pairs,
}

/// The settings in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) claustrum: ClaustrumSettings,
    pub(crate) codecast: CodecastSettings,
    pub(crate) zeroclaw: ZeroclawSettings,
    pub(crate) sudo_proxy: SudoProxySettings,
    pub(crate) mcp: McpSettings,
    pub(crate) sessions: SessionSettings,
    /// What is said of agents, by name; [`agents::specs`] adds those that need no saying.
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    /// The inbox: who may answer, what is answered by rule, who is told.
    pub(crate) approvals: ApprovalSettings,
    pub(crate) mesh: MeshSettings,
    /// The embedded broker.
    pub(crate) broker: BrokerSettings,
    /// The guard around agents.
    pub(crate) guard: GuardSettings,
    pub(crate) journal: JournalSettings,
    pub(crate) limits: LimitSettings,
    /// Where each key that is not built in came from.
    origins: BTreeMap<String, String>,
}

impl Settings {
    /// Reads every layer. `flags` are `KEY=VALUE` texts of `--set`.
    pub(crate) fn load(file: &Path, flags: &[String]) -> Result<Self, CommandError> {
        let mut settings = Settings::default();
        match std::fs::read_to_string(file) {
            Ok(text) => settings.apply_file(&text, file)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CommandError::failure(format!("cannot read `{}`: {error}", file.display())));
            }
        }
        settings.apply_environment(|name| std::env::var(name).ok())?;
        settings.apply_flags(flags)?;
        settings.check()?;
        Ok(settings)
    }

    /// Reads one file and nothing else, for `config check`.
    pub(crate) fn check_file(file: &Path) -> Result<(), CommandError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| CommandError::failure(format!("cannot read `{}`: {error}", file.display())))?;
        let mut settings = Settings::default();
        settings.apply_file(&text, file)?;
        settings.check()
    }

    fn apply_file(&mut self, text: &str, file: &Path) -> Result<(), CommandError> {
        let layer = Layer::read(text).map_err(|problem| {
            CommandError::usage(format!("{}:{}: {}", file.display(), problem.line, problem.message))
                .hint("see every setting with `hostel config show`")
        })?;
        self.apply(layer, &file.display().to_string(), Some(text));
        Ok(())
    }

    fn apply_environment(&mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<(), CommandError> {
        // An agent's name may hold what a variable's cannot, so only agents that are known by name are looked for.
        let mut aliases: BTreeSet<String> = self.agents.keys().cloned().collect();
        aliases.extend(Kind::ALL.iter().map(|kind| kind.name().to_owned()));
        let agents = aliases.iter().flat_map(|alias| agents::KEYS.map(|(key, shape)| (agent_key(alias, key), shape)));
        let fixed = KEYS.iter().map(|(key, shape)| ((*key).to_owned(), *shape));
        for (key, shape) in fixed.chain(agents) {
            let name = variable(&key);
            let Some(value) = lookup(&name) else { continue };
            let layer = Layer::read(&document(&key, shape, &value)).map_err(|problem| {
                CommandError::usage(format!("{name}: {}", problem.message)).hint("correct or unset the variable")
            })?;
            self.apply(layer, &name, None);
        }
        Ok(())
    }

    fn apply_flags(&mut self, flags: &[String]) -> Result<(), CommandError> {
        for flag in flags {
            let Some((key, value)) = flag.split_once('=') else {
                return Err(CommandError::usage(format!("`--set {flag}` has no `=`"))
                    .hint("write for example `--set journal.quota=5GiB`"));
            };
            let Some((full, shape)) = find_key(key.trim()) else {
                return Err(CommandError::usage(format!("there is no setting `{}`", key.trim()))
                    .hint("see every setting with `hostel config show`"));
            };
            let layer = Layer::read(&document(&full, shape, value))
                .map_err(|problem| CommandError::usage(format!("--set {}: {}", key.trim(), problem.message)))?;
            self.apply(layer, "--set", None);
        }
        Ok(())
    }

    /// Rules about values that are well-formed one by one.
    fn check(&self) -> Result<(), CommandError> {
        let at_least_one = "must be at least 1";
        let absolute = "must be an absolute path";
        let relative = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.is_relative());
        let any_relative = |list: &[PathBuf]| list.iter().any(|path| path.is_relative());
        let (codecast, zeroclaw, sessions) = (&self.codecast, &self.zeroclaw, &self.sessions);
        let (approvals, sudo_proxy) = (&self.approvals, &self.sudo_proxy);
        let (lockout, longer) = (&approvals.lockout, "must be longer than nothing");
        let rules = [
            (any_relative(&sudo_proxy.listen), "doors.sudo-proxy.listen", "must hold absolute paths"),
            (sudo_proxy.in_flight == 0, "doors.sudo-proxy.in_flight", at_least_one),
            (sudo_proxy.approval_wait.is_zero(), "doors.sudo-proxy.approval_wait", "must be longer than nothing"),
            (sudo_proxy.exec_timeout.as_secs() == 0, "doors.sudo-proxy.exec_timeout", "must be at least 1s"),
            (sudo_proxy.output < 1 << 10, "doors.sudo-proxy.output", "must be at least 1 KiB"),
            (!self.mcp.listen.ip().is_loopback(), "doors.mcp.listen", "must be on this machine, such as 127.0.0.1:0"),
            (approvals.wait.is_zero(), "approvals.wait", longer),
            (approvals.max_pending == 0, "approvals.max_pending", at_least_one),
            (approvals.keep == 0, "approvals.keep", at_least_one),
            (lockout.attempts == 0, "approvals.lockout.attempts", at_least_one),
            (lockout.wait.is_zero(), "approvals.lockout.wait", longer),
            (lockout.longest < lockout.wait, "approvals.lockout.longest", "must not be shorter than the first wait"),
            (relative(&approvals.notify.secret_file), "approvals.notify.secret_file", absolute),
            (self.broker.capacity == 0, "broker.capacity", at_least_one),
            (self.broker.burst == 0, "broker.burst", at_least_one),
            (self.broker.dedupe_days < 7, "broker.dedupe_days", "must be at least 7: daemons retry for a week"),
            (self.broker.retention_days == 0, "broker.retention_days", at_least_one),
            (self.broker.log_size < 1 << 20, "broker.log_size", "must be at least 1 MiB"),
            (self.broker.audit_records < 100, "broker.audit_records", "must be at least 100"),
            (self.broker.audit_days == 0, "broker.audit_days", at_least_one),
            (self.broker.file_size < 1 << 10, "broker.file_size", "must be at least 1 KiB"),
            (self.broker.state_entries == 0, "broker.state_entries", at_least_one),
            (self.broker.state_size < 1 << 17, "broker.state_size", "must be at least 128 KiB, room for one value"),
            (self.broker.tasks == 0, "broker.tasks", at_least_one),
            (self.broker.ping.is_zero(), "broker.ping", longer),
            (self.broker.silence <= self.broker.ping, "broker.silence", "must be longer than `broker.ping`"),
            (self.limits.connections == 0, "limits.connections", at_least_one),
            (self.journal.quota < 1 << 20, "journal.quota", "must be at least 1 MiB"),
            (
                self.journal.per_process_quota.is_some_and(|quota| quota < 1 << 20),
                "journal.per_process_quota",
                "must be at least 1 MiB",
            ),
            (self.limits.log < 64 << 10, "limits.log", "must be at least 64 KiB"),
            (relative(&self.journal.dir), "journal.dir", absolute),
            (any_relative(&self.claustrum.listen), "doors.claustrum.listen", "must hold absolute paths"),
            (any_relative(&zeroclaw.listen), "doors.zeroclaw.listen", "must hold absolute paths"),
            (relative(&codecast.tls_cert), "doors.codecast.tls_cert", absolute),
            (relative(&codecast.tls_key), "doors.codecast.tls_key", absolute),
            (relative(&codecast.tokens_file), "doors.codecast.tokens_file", absolute),
            (relative(&zeroclaw.wss.cert), "doors.zeroclaw.wss_cert", absolute),
            (relative(&zeroclaw.wss.key), "doors.zeroclaw.wss_key", absolute),
            (relative(&zeroclaw.wss.token_file), "doors.zeroclaw.wss_token_file", absolute),
            (zeroclaw.session_limit == 0, "doors.zeroclaw.session_limit", at_least_one),
            (zeroclaw.approval_wait.is_zero(), "doors.zeroclaw.approval_wait", "must be longer than nothing"),
            (sessions.warm == 0, "sessions.warm", at_least_one),
            (sessions.turn_limit.as_secs() == 0, "sessions.turn_limit", "must be at least 1s"),
            (sessions.approval_wait.is_zero(), "sessions.approval_wait", "must be longer than nothing"),
            (sessions.line_limit < 64 << 10, "sessions.line_limit", "must be at least 64 KiB"),
            (sessions.prompt_limit < 1 << 10, "sessions.prompt_limit", "must be at least 1 KiB"),
        ];
        for (broken, key, rule) in rules {
            if broken {
                return Err(CommandError::usage(format!("{}: `{key}` {rule}", self.origin(key))));
            }
        }
        let cert_without_key = |cert: &Option<PathBuf>, key: &Option<PathBuf>| cert.is_some() != key.is_some();
        for (broken, cert, key) in [
            (
                cert_without_key(&codecast.tls_cert, &codecast.tls_key),
                "doors.codecast.tls_cert",
                "doors.codecast.tls_key",
            ),
            (
                cert_without_key(&zeroclaw.wss.cert, &zeroclaw.wss.key),
                "doors.zeroclaw.wss_cert",
                "doors.zeroclaw.wss_key",
            ),
        ] {
            if broken {
                let given = if self.origins.contains_key(cert) { cert } else { key };
                let rule = format!("`{cert}` and `{key}` belong together");
                return Err(CommandError::usage(format!("{}: {rule}", self.origin(given))));
            }
        }
        if let Some((key, problem)) = approvals.webhook_problem() {
            return Err(CommandError::usage(format!("{}: {problem}", self.origin(key))));
        }
        if let Some((key, problem)) = self.guard.problem() {
            return Err(CommandError::usage(format!("{}: {problem}", self.origin(key))));
        }
        if let Some((origin, problem)) = approvals.rule_problem() {
            return Err(CommandError::usage(format!("{origin}: {problem}")));
        }
        for (alias, agent) in &self.agents {
            if let Some(problem) = agent.problem(alias) {
                return Err(CommandError::usage(format!("{}: {problem}", self.origin(&format!("agents.{alias}")))));
            }
        }
        Ok(())
    }

    fn origin(&self, key: &str) -> String {
        self.origins.get(key).cloned().unwrap_or_else(|| "built in".to_owned())
    }

    /// The paths that a person named as hidden from agents or as read-only for them.
    pub(crate) fn named_guard_paths(&self) -> Vec<PathBuf> {
        let named = self.origins.contains_key("guard.read_only");
        let read_only = self.guard.read_only.iter().filter(|_| named);
        self.guard.hide.iter().chain(read_only).cloned().collect()
    }

    /// The agents that ask for this guard themselves.
    pub(crate) fn agents_with_guard(&self, setting: Setting) -> Vec<&str> {
        let asks = self.agents.iter().filter(|(_, agent)| agent.guard() == Some(setting));
        asks.map(|(alias, _)| alias.as_str()).collect()
    }

    /// Each setting as key, value in the form that can be typed back, and origin.
    pub(crate) fn rows(&self) -> Vec<(String, String, String)> {
        let mut rows: Vec<_> =
            KEYS.iter().map(|(key, _)| ((*key).to_owned(), self.value(key), self.origin(key))).collect();
        for (position, rule) in self.approvals.rules.iter().enumerate() {
            rows.push((format!("approvals.rules.{}", position + 1), rule.shown(), rule.origin.clone()));
        }
        for (alias, agent) in &self.agents {
            for (key, _) in agents::KEYS {
                if let Some(value) = agent.value(key) {
                    let full = format!("agents.{alias}.{key}");
                    let origin = self.origin(&full);
                    rows.push((full, value, origin));
                }
            }
        }
        rows
    }

    /// The same as data.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.rows()
            .into_iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}))
            .collect()
    }
}

/// A key as it is typed, and as it stands in a document.
fn find_key(typed: &str) -> Option<(String, Shape)> {
    if let Some((key, shape)) = KEYS.iter().find(|(known, _)| *known == typed) {
        return Some(((*key).to_owned(), *shape));
    }
    let (alias, last) = typed.strip_prefix("agents.")?.rsplit_once('.')?;
    let (key, shape) = agents::KEYS.iter().find(|(known, _)| *known == last)?;
    Some((agent_key(alias, key), *shape))
}

/// An agent's key; its name is quoted, because it may hold a point.
fn agent_key(alias: &str, key: &str) -> String {
    format!("agents.{}.{key}", quoted(alias))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// `journal.quota` is `HOSTEL_JOURNAL_QUOTA`; whatever a variable's name cannot hold is `_`.
fn variable(key: &str) -> String {
    let bare = key.replace(['"', '\''], "");
    let name: String = bare
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("HOSTEL_{name}")
}

/// One setting as a small TOML document, so that it takes the same way as a file's.
fn document(key: &str, shape: Shape, value: &str) -> String {
    let items = || value.split(',').map(str::trim).filter(|item| !item.is_empty());
    let value = match shape {
        Shape::Text => quoted(value),
        Shape::Bare => match value.trim() {
            bare if bare.parse::<u64>().is_ok() || bare == "true" || bare == "false" => bare.to_owned(),
            other => quoted(other),
        },
        Shape::List => format!("[{}]", items().map(quoted).collect::<Vec<_>>().join(", ")),
        Shape::Pairs => {
            let pair = |item: &str| {
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                format!("{} = {}", quoted(name), quoted(value))
            };
            format!("{{{}}}", items().map(pair).collect::<Vec<_>>().join(", "))
        }
    };
    format!("{key} = {value}\n")
}
