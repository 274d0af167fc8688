//! How a hook is confined: what the program that starts it is told, and what that program says could not be done.
//!
//! Invariant: this crate changes nothing about its own process. Whoever opens the mesh names a program (a verb of
//! ours) that confines itself, says in one line on stderr what it could not do, and becomes the hook; the hook's own
//! output comes after that line and cannot be taken for it. What cannot be enforced is said and counted, and the hook
//! runs all the same; a sandbox that was asked for by name and cannot be had is a reason not to run, and so is the filter
//! that keeps a hook without a token from unix sockets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::name::HookName;
use super::policy::{Files, Network, Rule};

/// What the launching verb is called.
pub const VERB: &str = "hook-launch";

/// The longest first line a launcher writes.
pub(super) const LONGEST_REPORT: usize = 4096;

/// Why something could not be enforced, as it is counted.
pub const REASONS: [&str; 5] = ["network", "filesystem", "sockets", "sandbox", "launcher"];

/// What the launcher shall do before it becomes the hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The hook.
    pub program: PathBuf,
    /// Without network.
    pub no_network: bool,
    /// `rw`, `readonly` or `sandbox`.
    pub files: String,
    /// The hooks' directory, which may be read.
    pub hooks: PathBuf,
    /// The only place that may be written to.
    pub scratch: PathBuf,
    /// bubblewrap, if the hook runs under it.
    pub bwrap: Option<PathBuf>,
    /// The daemon's socket, if the hook has a token for it. Without one it may use no unix socket at all.
    pub socket: Option<PathBuf>,
}

impl Plan {
    /// As the launcher's only argument.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what `text` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// What the launcher says before it becomes the hook.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// What could not be enforced, each one of `REASONS`.
    #[serde(default)]
    pub unenforced: Vec<String>,
    /// Why the hook was not started at all.
    #[serde(default)]
    pub failed: Option<String>,
}

impl Report {
    /// One line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    /// Takes the line off the beginning of what was printed; what is left is the hook's own.
    pub(super) fn take(printed: &mut Vec<u8>) -> Option<Self> {
        let end = printed.iter().take(LONGEST_REPORT).position(|byte| *byte == b'\n')?;
        let report = serde_json::from_slice(&printed[..end]).ok()?;
        printed.drain(..=end);
        Some(report)
    }
}

/// What is there to confine hooks with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// The program, and its words, that confines itself and becomes a hook; without one hooks are started as they are.
    pub launcher: Vec<OsString>,
    /// bubblewrap.
    pub bwrap: Option<PathBuf>,
}

/// What can be said before a hook is started.
pub(super) struct Confined {
    /// Program and words.
    pub(super) command: Vec<OsString>,
    /// Whether the launcher's line comes first.
    pub(super) reports: bool,
    /// What cannot be enforced, whoever tries.
    pub(super) unenforced: Vec<&'static str>,
    /// To be made before and removed after.
    pub(super) scratch: Option<PathBuf>,
}

/// How a hook is started.
pub(super) fn confine(
    tools: &Tools,
    rule: &Rule,
    program: &Path,
    hooks: &Path,
    scratch: PathBuf,
    socket: Option<&Path>,
) -> Result<Confined, String> {
    let mut unenforced = Vec::new();
    let bwrap = match (rule.bubblewrap, &tools.bwrap) {
        (false, _) => None,
        (true, Some(bwrap)) => Some(bwrap.clone()),
        (true, None) => {
            return Err("`sandbox = \"bubblewrap\"`, and there is no `bwrap` here: install bubblewrap".into());
        }
    };
    let Some((launcher, words)) = tools.launcher.split_first() else {
        if bwrap.is_some() {
            return Err("`sandbox = \"bubblewrap\"`, and nothing here starts hooks in a sandbox".into());
        }
        if rule.network == Network::Deny || rule.files != Files::ReadWrite || socket.is_none() {
            unenforced.push("launcher");
        }
        let command = vec![program.as_os_str().to_owned()];
        return Ok(Confined { command, reports: false, unenforced, scratch: None });
    };
    let writes = rule.files == Files::ReadWrite;
    let plan = Plan {
        program: program.to_owned(),
        no_network: rule.network == Network::Deny,
        files: match rule.files {
            Files::ReadOnly => "readonly",
            Files::ReadWrite => "rw",
            Files::Sandbox => "sandbox",
        }
        .to_owned(),
        hooks: hooks.to_owned(),
        scratch: scratch.clone(),
        bwrap,
        socket: socket.map(Path::to_owned),
    };
    let mut command = vec![launcher.clone()];
    command.extend(words.iter().cloned());
    command.push(plan.text().into());
    let scratch = (!writes).then_some(scratch);
    Ok(Confined { command, reports: true, unenforced, scratch })
}

/// The only place a confined hook may write to: it finds it by the variables it has.
pub(super) fn scratch(event_id: &str, name: &HookName) -> PathBuf {
    Path::new("/tmp").join(format!("{event_id}-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_launchers() {
        let report = Report { unenforced: vec!["network".into()], failed: None };
        let mut printed = report.line().into_bytes();
        printed.extend(b"{\"unenforced\":[]}\nthe hook's own\n");
        assert_eq!(Report::take(&mut printed), Some(report));
        assert_eq!(printed, b"{\"unenforced\":[]}\nthe hook's own\n");
        assert_eq!(Report::take(&mut b"no line".to_vec()), None);
        assert_eq!(Report::take(&mut b"no JSON\n".to_vec()), None);
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let (program, hooks, scratch) = (Path::new("/h/on-dm"), Path::new("/h"), PathBuf::from("/tmp/x"));
        let start = |tools: &Tools, rule: &Rule| confine(tools, rule, program, hooks, scratch.clone(), None);
        let bare = Tools::default();
        assert_eq!(start(&bare, &Rule::default()).unwrap().unenforced, ["launcher"]);
        let open = Rule { network: Network::Allow, files: Files::ReadWrite, ..Rule::default() };
        assert_eq!(start(&bare, &open).unwrap().unenforced, ["launcher"], "it has no token, and all sockets");
        let told = confine(&bare, &open, program, hooks, scratch.clone(), Some(Path::new("/d/sock"))).unwrap();
        assert!(told.unenforced.is_empty());
        let wrapped = Rule { bubblewrap: true, ..open };
        assert!(start(&bare, &wrapped).is_err());
        assert!(start(&Tools { bwrap: Some("/bin/bwrap".into()), ..bare.clone() }, &wrapped).is_err());
        let tools = Tools { launcher: vec!["/bin/us".into(), VERB.into()], bwrap: None };
        let confined = start(&tools, &Rule::default()).unwrap();
        assert!(confined.reports && confined.scratch.is_some());
        let plan = Plan::parse(confined.command[2].to_str().unwrap()).unwrap();
        assert!(plan.no_network && plan.files == "readonly" && plan.program == program);
    }
}
