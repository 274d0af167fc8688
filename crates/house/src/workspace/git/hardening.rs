//! What git is told so that nothing a repository says makes it run a program.
//!
//! The configuration and the attributes of a repository can name programs: hooks, filters, monitors, helpers, pagers. A
//! process that the house hosts may write them, and the daemon's git must not run them. Three layers prevent that:
//!
//! - settings with a known name are overridden on the command line, which wins over every file ([`SETTINGS`]);
//! - filters and hooks have names that only the repository knows. [`Overrides`] switches off those that git reports, so
//!   that git answers as if they were not there;
//! - git is sealed (`hostel_keeper::confine::seal`) wherever it does not need to start itself: the kernel then refuses
//!   every other program, whatever the files say by the time git reads them.
//!
//! Settings that name no program keep their effect, whether they are the repository's, the user's or the system's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::run::GitError;

/// The settings that name a program git could run, or have git start one, and what they are instead. An empty value means
/// "none" where git knows that; `false` is a program that does nothing and fails.
const SETTINGS: [(&str, &str); 25] = [
    ("core.fsmonitor", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("interactive.diffFilter", ""),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("commit.gpgSign", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    // These have git start itself.
    ("checkout.workers", "1"),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
    // Hooks that are named in the configuration (since 2.54), by the events that our commands cause (since 2.55).
    ("hook.reference-transaction.enabled", "false"),
    ("hook.post-checkout.enabled", "false"),
    ("hook.post-index-change.enabled", "false"),
    ("hook.post-rewrite.enabled", "false"),
];

/// Variables that git is started with. The protocol list overrides `protocol.*` of every file: no address is fetched
/// from, also not for objects that a partial clone misses.
const VARIABLES: [(&str, &str); 8] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TRACE2", "0"),
    ("GIT_TRACE2_EVENT", "0"),
    ("GIT_TRACE2_PERF", "0"),
    ("GIT_PAGER", "cat"),
];

/// The variables of the daemon's that begin with `GIT_` and are passed on: they say where the user's and the system's
/// settings are and how far git looks for a repository. All others are dropped. Many would point git at another repository
/// than the one that was asked about, or name a program.
const INHERITED_VARIABLES: [&str; 5] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// The settings that [`Overrides`] are made from, as `git config --get-regexp` wants them.
pub(super) const NAMED_PROGRAMS: &str = r"^(filter|hook)\.";

const MAX_NAMED_PROGRAMS: usize = 256;
const MAX_NAME_BYTES: usize = 1024;
const MAX_INHERITED_SETTINGS: usize = 256;

/// The words that come before every command of git.
pub(super) fn settings() -> impl Iterator<Item = OsString> {
    SETTINGS.iter().flat_map(|(name, value)| [OsString::from("-c"), OsString::from(format!("{name}={value}"))])
}

/// Git's complete environment: the daemon's without what is `hidden` and without what could lead git astray.
pub(super) fn environment(hidden: &[OsString], overrides: &Overrides) -> Vec<(OsString, OsString)> {
    let is_passed_on = |name: &OsStr| {
        !hidden.iter().any(|hidden| hidden == name)
            && (!name.as_bytes().starts_with(b"GIT_") || INHERITED_VARIABLES.iter().any(|inherited| name == *inherited))
    };
    let inherited = std::env::vars_os().filter(|(name, _)| is_passed_on(name));
    let own = VARIABLES.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    // Settings that the daemon was started with count as well. Those of ours come later, so they win.
    let mut settings = inherited_settings(|name| std::env::var_os(name));
    settings.extend(overrides.0.iter().map(|(name, value)| (name.clone(), OsString::from(value))));
    inherited.chain(own).chain(setting_variables(settings)).collect()
}

/// The settings in the variables `GIT_CONFIG_COUNT`, `GIT_CONFIG_KEY_…` and `GIT_CONFIG_VALUE_…`.
fn inherited_settings(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let count = variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse::<usize>().ok());
    let setting = |number: usize| {
        Some((variable(&format!("GIT_CONFIG_KEY_{number}"))?, variable(&format!("GIT_CONFIG_VALUE_{number}"))?))
    };
    (0..count.unwrap_or(0).min(MAX_INHERITED_SETTINGS)).filter_map(setting).collect()
}

/// The variables that give git these settings. Unlike words of the command line they can hold any name.
fn setting_variables(settings: Vec<(OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    let count = (!settings.is_empty()).then(|| ("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
    let pairs = settings.into_iter().enumerate().flat_map(|(number, (name, value))| {
        let variable = |kind: &str| OsString::from(format!("GIT_CONFIG_{kind}_{number}"));
        [(variable("KEY"), name), (variable("VALUE"), value)]
    });
    count.into_iter().chain(pairs)
}

/// Settings for one run whose names are not known beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Overrides(Vec<(OsString, &'static str)>);

/// No setting.
pub(super) static NO_OVERRIDES: Overrides = Overrides(Vec::new());

impl Overrides {
    /// Those that switch off every filter and hook in `listing`: names of settings, each ended by a null byte.
    pub(super) fn of_named_programs(listing: &[u8]) -> Result<Self, GitError> {
        let mut seen = std::collections::BTreeSet::new();
        let mut overrides = Self::default();
        for setting in listing.split(|byte| *byte == 0) {
            let Some((section, name)) = section_and_name(setting) else { continue };
            if !seen.insert((section, name)) {
                continue;
            }
            if seen.len() > MAX_NAMED_PROGRAMS || name.len() > MAX_NAME_BYTES {
                return Err(GitError::TooManyPrograms { limit: MAX_NAMED_PROGRAMS });
            }
            let switches: &[_] = match section {
                b"filter" => &[("process", ""), ("clean", ""), ("smudge", ""), ("required", "false")],
                _ => &[("enabled", "false")],
            };
            for (variable, value) in switches {
                overrides.set([section, b".", name, b".", variable.as_bytes()].concat(), value);
            }
        }
        Ok(overrides)
    }

    pub(super) fn set(&mut self, setting: Vec<u8>, value: &'static str) {
        self.0.push((OsString::from_vec(setting), value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The parts of `filter.NAME.clean`; none for a setting without a name.
fn section_and_name(setting: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = setting.iter().position(|byte| *byte == b'.')?;
    let last = setting.iter().rposition(|byte| *byte == b'.')?;
    (first < last).then(|| (&setting[..first], &setting[first + 1..last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_filter_and_hook_is_switched_off_once() {
        let listing = b"filter.lfs.clean\0filter.lfs.process\0filter.a.b=c.smudge\0hook.x.command\0filter.clean\0\0";
        let overrides = Overrides::of_named_programs(listing).unwrap();
        let names: Vec<_> = overrides.0.iter().map(|(name, value)| format!("{}={value}", name.display())).collect();
        let lfs = ["filter.lfs.process=", "filter.lfs.clean=", "filter.lfs.smudge=", "filter.lfs.required=false"];
        assert_eq!(names[..4], lfs);
        assert_eq!(names[4], "filter.a.b=c.process=");
        assert_eq!(names[8..], ["hook.x.enabled=false"]);
    }

    #[test]
    fn settings_of_the_daemon_come_before_ours() {
        let variable = |name: &str| match name {
            "GIT_CONFIG_COUNT" => Some("3".into()),
            "GIT_CONFIG_KEY_0" => Some("safe.directory".into()),
            "GIT_CONFIG_VALUE_0" => Some("*".into()),
            "GIT_CONFIG_KEY_1" => Some("without.value".into()),
            _ => None,
        };
        let mut settings = inherited_settings(variable);
        settings.push(("filter.x.clean".into(), "".into()));
        let variables: Vec<_> = setting_variables(settings)
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        let expected = [
            "GIT_CONFIG_COUNT=2",
            "GIT_CONFIG_KEY_0=safe.directory",
            "GIT_CONFIG_VALUE_0=*",
            "GIT_CONFIG_KEY_1=filter.x.clean",
            "GIT_CONFIG_VALUE_1=",
        ];
        assert_eq!(variables, expected);
        assert_eq!(setting_variables(inherited_settings(|_| None)).count(), 0);
    }

    #[test]
    fn endless_names_are_refused() {
        let many: Vec<u8> =
            (0..=MAX_NAMED_PROGRAMS).flat_map(|n| format!("filter.n{n}.clean\0").into_bytes()).collect();
        assert!(Overrides::of_named_programs(&many).is_err());
        assert!(Overrides::of_named_programs(format!("filter.{}.clean", "x".repeat(2000)).as_bytes()).is_err());
    }
}
