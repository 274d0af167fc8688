//! The agents of a house: what the settings say of each, and what is there without being said.
//!
//! Invariant: every alias has a kind. Those of the CLIs on the PATH and `echo` exist by themselves; an entry of the
//! same name is laid over them. An agent whose program is missing stays in the list: the session that wants it says
//! what is missing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::path::PathBuf;

use hostel_agents::Kind;
use hostel_agents::Mode;
use hostel_guard::Guard;
use hostel_guard::Setting;
use hostel_house::sessions::AgentLimits;
use hostel_house::sessions::AgentSpec;
use rustix::fs::Access;

use super::GuardSettings;
use super::Shape;
use super::file;
use super::guard;
use crate::paths;
use crate::text;

/// The hidden sub-command that is the built-in agent.
pub(crate) const ECHO: &str = "echo-agent";

/// The kinds that are a CLI of their own name.
pub(crate) const CLIS: [Kind; 4] = [Kind::Claude, Kind::Codex, Kind::Gemini, Kind::Opencode];

/// The longest name of an agent.
const LONGEST_NAME: usize = 64;

/// Less memory than this starts nothing.
const LEAST_MEMORY: u64 = 1 << 20;

/// Every key an agent has.
pub(super) const KEYS: [(&str, Shape); 10] = [
    ("kind", Shape::Text),
    ("command", Shape::List),
    ("env", Shape::Pairs),
    ("model", Shape::Text),
    ("mode", Shape::Text),
    ("cwd", Shape::Text),
    ("memory", Shape::Text),
    ("cpu", Shape::Text),
    ("guard", Shape::Text),
    ("grant", Shape::List),
];

/// What the settings say of one agent, all layers together.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSettings {
    kind: Option<Kind>,
    command: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    model: Option<String>,
    mode: Option<Mode>,
    cwd: Option<PathBuf>,
    memory: Option<u64>,
    cpu_percent: Option<u32>,
    guard: Option<Setting>,
    grant: Option<Vec<String>>,
}

impl AgentSettings {
    /// Lays a layer's entry over this one; gives the keys it had.
    pub(super) fn apply(&mut self, layer: &file::Agent) -> Vec<&'static str> {
        let mut taken = Vec::new();
        macro_rules! take {
            ($key:literal, $from:expr, $into:ident) => {
                if let Some(value) = $from {
                    self.$into = Some(value);
                    taken.push($key);
                }
            };
        }
        take!("kind", layer.kind, kind);
        take!("command", layer.command.clone().map(|list| list.0), command);
        take!("env", layer.env.clone(), env);
        take!("model", layer.model.clone(), model);
        take!("mode", layer.mode, mode);
        take!("cwd", layer.cwd.as_deref().map(paths::expand), cwd);
        take!("memory", layer.memory.map(|size| size.0), memory);
        take!("cpu", layer.cpu.map(|percent| percent.0), cpu_percent);
        take!("guard", layer.guard, guard);
        take!("grant", layer.grant.clone().map(guard::grants), grant);
        taken
    }

    /// What is wrong with it; nothing if it can be used.
    pub(super) fn problem(&self, alias: &str) -> Option<String> {
        let named = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        if alias.is_empty() || alias.len() > LONGEST_NAME || !alias.chars().all(named) {
            return Some(format!(
                "`{alias}` cannot be the name of an agent; use up to {LONGEST_NAME} letters, digits, `-`, `_` and `.`"
            ));
        }
        let Some(kind) = self.kind(alias) else {
            let known: Vec<String> = Kind::ALL.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
            return Some(format!("`agents.{alias}` has no `kind`; it is one of {}", known.join(", ")));
        };
        if kind == Kind::Acp && self.command().is_empty() {
            return Some(format!(
                "`agents.{alias}` has no `command`; write for example `command = [\"my-agent\", \"--acp\"]`"
            ));
        }
        if self.cwd().is_some_and(Path::is_relative) {
            return Some(format!("`agents.{alias}.cwd` must be an absolute path"));
        }
        if self.memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            return Some(format!("`agents.{alias}.memory` must be at least {}", text::size(LEAST_MEMORY)));
        }
        let bad = |name: &str| name.is_empty() || name.contains(['=', '\0']);
        if self.env.iter().flatten().any(|(name, value)| bad(name) || value.contains('\0')) {
            return Some(format!("`agents.{alias}.env` has a name or value that no environment can hold"));
        }
        guard::grant_problem(&format!("agents.{alias}.grant"), self.grant.as_deref().unwrap_or_default())
    }

    /// The value of a key in the form that can be typed back; none if it is not set.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        match key {
            "kind" => self.kind.map(|kind| kind.name().to_owned()),
            "command" => self.command.as_ref().map(|words| words.join(",")),
            "env" => self.env.as_ref().map(|env| {
                let pairs: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
                pairs.join(",")
            }),
            "model" => self.model.clone(),
            "mode" => self.mode.map(|mode| mode.name().to_owned()),
            "cwd" => self.cwd.as_ref().map(|cwd| cwd.display().to_string()),
            "memory" => self.memory.map(text::size),
            "cpu" => self.cpu_percent.map(|percent| format!("{percent}%")),
            "guard" => self.guard.map(|setting| setting.name().to_owned()),
            "grant" => self.grant.as_ref().map(|grant| grant.join(",")),
            _ => None,
        }
    }

    /// Its kind: what was said, else what its name says.
    fn kind(&self, alias: &str) -> Option<Kind> {
        self.kind.or_else(|| Kind::named(alias))
    }

    /// Its own variables.
    pub(crate) fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The guard that was asked for.
    pub(super) fn guard(&self) -> Option<Setting> {
        self.guard
    }

    /// Nothing said and an empty list are the same.
    fn command(&self) -> &[String] {
        self.command.as_deref().unwrap_or_default()
    }

    fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref().filter(|cwd| !cwd.as_os_str().is_empty())
    }
}

/// Which CLIs have an alias without being named in the settings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Defaults {
    /// Those that are on the PATH.
    Found,
    /// All of them: a contract that promises them says itself what is missing.
    All,
}

/// The agents of a house, by name. `program` is our own file, `path` where CLIs are looked for.
pub(crate) fn specs(
    settings: &BTreeMap<String, AgentSettings>,
    guard: &GuardSettings,
    defaults: Defaults,
    program: &Path,
    path: Option<&OsStr>,
) -> Vec<AgentSpec> {
    let mut all = settings.clone();
    for kind in CLIS {
        if defaults == Defaults::All || find(kind.name(), path).is_some() {
            all.entry(kind.name().to_owned()).or_default();
        }
    }
    all.entry(Kind::Echo.name().to_owned()).or_default();
    all.iter().filter_map(|(alias, agent)| Some(spec(alias, agent, guard, agent.kind(alias)?, program))).collect()
}

fn spec(alias: &str, agent: &AgentSettings, guard: &GuardSettings, kind: Kind, program: &Path) -> AgentSpec {
    let command = match (agent.command(), kind) {
        ([], Kind::Echo) => vec![echo_program(program), ECHO.to_owned()],
        (words, _) => words.to_vec(),
    };
    AgentSpec {
        alias: alias.to_owned(),
        kind,
        command,
        env: agent.env.clone().into_iter().flatten().collect(),
        model: agent.model.clone().filter(|model| !model.is_empty()),
        mode: agent.mode,
        cwd: agent.cwd().map(Path::to_owned),
        limits: AgentLimits { memory: agent.memory, cpu_percent: agent.cpu_percent },
        guard: Guard {
            setting: agent.guard.unwrap_or(guard.setting),
            grants: guard.grant.iter().chain(agent.grant.iter().flatten()).cloned().collect(),
        },
    }
}

/// Our own program as text. The keeper, which starts agents, is the same program and knows itself by that link.
fn echo_program(program: &Path) -> String {
    program.to_str().unwrap_or("/proc/self/exe").to_owned()
}

/// The file a program's name or path means.
pub(crate) fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let usable = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(usable);
    }
    std::env::split_paths(path?).map(|directory| directory.join(program)).find(usable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(directory: &Path, name: &str, mode: u32) {
        let file = directory.join(name);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn clis_on_the_path_and_echo_are_there_by_themselves() {
        let scratch = tempfile::tempdir().unwrap();
        program(scratch.path(), "claude", 0o755);
        program(scratch.path(), "codex", 0o644);
        std::fs::create_dir(scratch.path().join("gemini")).unwrap();
        let path = Some(scratch.path().as_os_str());
        let aliases = |defaults| -> Vec<String> {
            let specs = specs(&BTreeMap::new(), &GuardSettings::default(), defaults, Path::new("/opt/hostel"), path);
            specs.into_iter().map(|spec| spec.alias).collect()
        };
        assert_eq!(aliases(Defaults::Found), ["claude", "echo"]);
        assert_eq!(aliases(Defaults::All), ["claude", "codex", "echo", "gemini", "opencode"]);
        let echo = specs(&BTreeMap::new(), &GuardSettings::default(), Defaults::Found, Path::new("/opt/hostel"), None);
        assert_eq!(echo.len(), 1);
        assert_eq!(echo[0].command, ["/opt/hostel", "echo-agent"]);
    }

    #[test]
    fn an_entry_is_laid_over_the_alias_of_its_name() {
        let own = AgentSettings { model: Some("small".to_owned()), ..AgentSettings::default() };
        let other = AgentSettings {
            kind: Some(Kind::Acp),
            command: Some(vec!["my-agent".to_owned()]),
            cwd: Some(PathBuf::from("/src")),
            ..AgentSettings::default()
        };
        let settings = BTreeMap::from([("claude".to_owned(), own), ("helper".to_owned(), other)]);
        let specs = specs(&settings, &GuardSettings::default(), Defaults::Found, Path::new("/opt/hostel"), None);
        let named = |alias: &str| specs.iter().find(|spec| spec.alias == alias).unwrap();
        assert_eq!((named("claude").kind, named("claude").model.as_deref()), (Kind::Claude, Some("small")));
        assert!(named("claude").command.is_empty());
        assert_eq!(named("helper").command, ["my-agent"]);
        assert_eq!(named("helper").cwd.as_deref(), Some(Path::new("/src")));
        assert_eq!(specs.len(), 3);
    }
}
