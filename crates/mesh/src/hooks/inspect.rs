//! How hooks stand, for people: which files are there, which would run, and why one would not.
//!
//! It runs nothing and needs no daemon.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::name::HookName;
use super::policy::{self, Files, Network, Policy};
use super::{files, text};
use crate::home::files as disk;

/// A hook, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Its name.
    pub hook: String,
    /// Its file, if there is one that may be run.
    pub file: Option<PathBuf>,
    /// Whether it would run.
    pub runs: bool,
    /// Why not.
    pub reason: Option<String>,
    /// What its section says of the network.
    pub network: Option<&'static str>,
    /// What its section says of files.
    pub fs: Option<&'static str>,
}

/// A mesh's hooks, as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Where they are.
    pub directory: PathBuf,
    /// What is wrong with all of them.
    pub problem: Option<String>,
    /// Each that has a file or a section.
    pub hooks: Vec<Found>,
    /// Files that are no hook.
    pub strangers: Vec<String>,
}

/// Looks at a hooks' directory. `enabled` is what config.toml says.
#[must_use]
pub fn inspect(directory: &Path, enabled: bool) -> Inspection {
    let (policy, mut problem) = match Policy::load(directory) {
        Ok(Some(policy)) => (policy, None),
        Ok(None) => (Policy::default(), Some(format!("there is no `{}`: no hook runs without one", policy::FILE))),
        Err(error) => (Policy::default(), Some(error.to_string())),
    };
    if let Err(unfit) = files::directory(directory) {
        problem = Some(unfit.to_string());
    }
    if !enabled {
        problem = Some("hooks are switched off: `enabled = false` below `[hooks]` in config.toml".to_owned());
    }
    let (mut names, mut strangers) = (BTreeMap::new(), Vec::new());
    for (name, _) in policy.rules() {
        names.insert(name.to_string(), name.clone());
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(10_000) {
        let file = entry.file_name().to_string_lossy().into_owned();
        let bare = file.strip_suffix(".sh").unwrap_or(&file);
        match HookName::parse(bare) {
            Some(name) => drop(names.insert(name.to_string(), name)),
            None if file != policy::FILE => strangers.push(file),
            None => {}
        }
    }
    strangers.sort();
    let hooks = names.into_values().map(|name| found(directory, &policy, problem.as_ref(), &name)).collect();
    Inspection { directory: directory.to_owned(), problem, hooks, strangers }
}

fn found(directory: &Path, policy: &Policy, problem: Option<&String>, name: &HookName) -> Found {
    let program = files::program(directory, name);
    let rule = policy.rule(name);
    let reason = match (&program, rule) {
        _ if problem.is_some() => problem.cloned(),
        (Err(unfit), _) => Some(unfit.to_string()),
        (Ok(_), None) => Some(format!("`{}` has no section `[{name}]`", policy::FILE)),
        (Ok(_), Some(rule)) if !rule.enabled => Some("it is switched off in its section".to_owned()),
        (Ok(_), Some(_)) => None,
    };
    Found {
        hook: name.to_string(),
        file: program.ok(),
        runs: reason.is_none(),
        reason,
        network: rule.map(|rule| match rule.network {
            Network::Deny => "deny",
            Network::Allow => "allow",
        }),
        fs: rule.map(|rule| match rule.files {
            Files::ReadOnly => "readonly",
            Files::ReadWrite => "rw",
            Files::Sandbox => "sandbox",
        }),
    }
}

/// Makes the directory and a `hooks.toml` full of comments, if there is none; says whether it did.
pub fn init(directory: &Path) -> io::Result<bool> {
    disk::make_private_dir(directory)?;
    let file = directory.join(policy::FILE);
    if file.exists() {
        return Ok(false);
    }
    disk::write_atomic(&file, text::DEFAULT.as_bytes(), 0o600)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn each_hook_says_why_it_would_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = dir.path().join("hooks");
        assert!(init(&hooks).unwrap() && !init(&hooks).unwrap());
        assert!(inspect(&hooks, true).problem.is_none(), "what is written can be read");
        assert!(inspect(&hooks, false).problem.unwrap().contains("switched off"));
        fs::write(hooks.join("hooks.toml"), "[on-dm]\n[on-mention]\nenabled = false\n[on-message]\n").unwrap();
        for name in ["on-dm.sh", "on-mention", "on-startup.sh", "README"] {
            fs::write(hooks.join(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let found = inspect(&hooks, true);
        assert_eq!(found.strangers, ["README"]);
        let reason = |name: &str| {
            let hook = found.hooks.iter().find(|hook| hook.hook == name).unwrap();
            assert_eq!(hook.runs, hook.reason.is_none());
            hook.reason.clone().unwrap_or_default()
        };
        assert_eq!(reason("on-dm"), "");
        assert!(reason("on-mention").contains("switched off"));
        assert!(reason("on-startup").contains("no section"));
        assert!(reason("on-message").contains("no file"));
        fs::write(hooks.join("hooks.toml"), "[on-dm]\nnope = 1\n").unwrap();
        assert!(inspect(&hooks, true).problem.unwrap().contains("line 2"));
    }
}
