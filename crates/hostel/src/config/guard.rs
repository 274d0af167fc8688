//! The guard around agents: what counts for every agent of the house.

use std::path::PathBuf;

use hostel_guard::Names;
use hostel_guard::OwnPrograms;
use hostel_guard::Setting;
use serde::Deserialize;

use super::values::OneOrMany;
use crate::paths;

/// The guard of agents that do not say otherwise, and what it hides and grants.
#[derive(Clone, Debug)]
pub(crate) struct GuardSettings {
    pub(crate) setting: Setting,
    /// Names of known things and absolute paths that every agent may reach.
    pub(crate) grant: Vec<String>,
    /// Further paths that agents do not see.
    pub(crate) hide: Vec<PathBuf>,
    /// Paths that agents see and cannot change.
    pub(crate) read_only: Vec<PathBuf>,
    /// Where the daemon looks for the programs that it starts itself.
    pub(crate) programs: OwnPrograms,
}

impl Default for GuardSettings {
    fn default() -> Self {
        // A key that an agent adds there lets it come back by ssh, outside its guard.
        let keys = paths::expand("~/.ssh/authorized_keys");
        let read_only = Some(keys).filter(|keys| keys.is_absolute()).into_iter().collect();
        GuardSettings {
            setting: Setting::Auto,
            grant: Vec::new(),
            hide: Vec::new(),
            read_only,
            programs: OwnPrograms::System,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Guard {
    pub(super) setting: Option<Setting>,
    pub(super) grant: Option<OneOrMany>,
    pub(super) hide: Option<OneOrMany>,
    pub(super) read_only: Option<OneOrMany>,
    pub(super) programs: Option<OwnPrograms>,
}

impl GuardSettings {
    /// The key that is wrong and what is wrong with it; none if all can be used.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let relative = |list: &[PathBuf]| list.iter().any(|path| path.is_relative());
        if let Some(problem) = grant_problem("guard.grant", &self.grant) {
            return Some(("guard.grant", problem));
        }
        [("guard.hide", &self.hide), ("guard.read_only", &self.read_only)]
            .into_iter()
            .find(|(_, list)| relative(list))
            .map(|(key, _)| (key, format!("`{key}` must hold absolute paths")))
    }
}

/// What is granted, with home directories as paths.
pub(super) fn grants(list: OneOrMany) -> Vec<String> {
    let expanded = |text: String| match text.starts_with("~/") {
        true => paths::expand(&text).to_string_lossy().into_owned(),
        false => text,
    };
    list.0.into_iter().map(expanded).collect()
}

/// What is wrong with a list of grants.
pub(super) fn grant_problem(key: &str, grants: &[String]) -> Option<String> {
    let wrong = grants.iter().find(|grant| !hostel_guard::is_grant(grant))?;
    let names: Vec<String> = Names::ALL.iter().map(|name| format!("\"{name}\"")).collect();
    Some(format!("`{key}` holds `{wrong}`, which is no absolute path and none of {}", names.join(", ")))
}
