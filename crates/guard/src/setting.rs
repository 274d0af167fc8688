//! What is asked for: the setting of an agent, and what it may reach in spite of the guard.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Whether an agent is guarded.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Not at all.
    Off,
    /// As far as the machine allows.
    #[default]
    Auto,
    /// Completely; where the machine does not allow that, the agent is not started.
    Strict,
}

impl Setting {
    /// All of them, the weakest first.
    pub const ALL: [Setting; 3] = [Setting::Off, Setting::Auto, Setting::Strict];

    /// The word for it in settings and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Auto => "auto",
            Setting::Strict => "strict",
        }
    }

    /// The setting that a word means.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Setting::ALL.into_iter().find(|setting| setting.name() == word)
    }
}

/// Where the house looks for the programs that it starts itself, outside every guard.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnPrograms {
    /// In directories of the system that only root can change; on the search path where they are not there.
    #[default]
    System,
    /// On the search path alone.
    Path,
}

impl OwnPrograms {
    /// The word for it in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OwnPrograms::System => "system",
            OwnPrograms::Path => "path",
        }
    }
}

/// The guard that a process is to have.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Guard {
    /// Whether there is one.
    pub setting: Setting,
    /// Names of known things and absolute paths that stay reachable.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub grants: BTreeSet<String>,
}

impl Guard {
    /// No guard at all.
    #[must_use]
    pub fn off() -> Self {
        Guard { setting: Setting::Off, grants: BTreeSet::new() }
    }

    /// The guard for something of which only one thing is known: that somebody guarded has started it.
    #[must_use]
    pub fn of_unknown_insider() -> Self {
        Guard::default()
    }

    /// The weakest guard that is at least as strict as both.
    #[must_use]
    pub fn at_least(&self, other: &Guard) -> Guard {
        let grants = match (self.setting, other.setting) {
            // Without a guard everything is reachable, so the other one's grants are what both have.
            (Setting::Off, _) => other.grants.clone(),
            (_, Setting::Off) => self.grants.clone(),
            _ => self.grants.intersection(&other.grants).cloned().collect(),
        };
        Guard { setting: self.setting.max(other.setting), grants }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(setting: Setting, grants: &[&str]) -> Guard {
        Guard { setting, grants: grants.iter().map(|&grant| grant.to_owned()).collect() }
    }

    #[test]
    fn a_combination_has_no_right_that_one_of_the_two_lacks() {
        let (off, wide) = (Guard::off(), guard(Setting::Auto, &["docker", "ssh-agent"]));
        let narrow = guard(Setting::Strict, &["ssh-agent", "/srv/socket"]);
        assert_eq!(off.at_least(&wide), wide);
        assert_eq!(wide.at_least(&off), wide);
        assert_eq!(off.at_least(&off), off);
        assert_eq!(wide.at_least(&narrow), guard(Setting::Strict, &["ssh-agent"]));
        assert_eq!(narrow.at_least(&wide), wide.at_least(&narrow));
        assert_eq!(wide.at_least(&Guard::of_unknown_insider()), guard(Setting::Auto, &[]));
    }

    #[test]
    fn words() {
        for setting in Setting::ALL {
            assert_eq!(Setting::named(setting.name()), Some(setting));
            assert_eq!(serde_json::to_value(setting).unwrap(), setting.name());
        }
        assert_eq!(Setting::named("on"), None);
        assert_eq!(serde_json::from_str::<Guard>("{}").unwrap(), Guard::default());
    }
}
