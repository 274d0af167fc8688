//! Services: the house and the mesh daemons kept up by the system's own supervisor.
//!
//! | module | what it is |
//! |---|---|
//! | `unit` | what is to be kept up, and its systemd unit |
//! | `plist` | the same for launchd |
//! | `place` | where such files are, written and removed |
//! | `manager` | systemctl and loginctl |
//! | `house` | `hostel service` |
//! | `cli` | the words both `hostel service` and `daemon install-service` take |
//!
//! Invariant: nothing is written outside the directory that was said or is the supervisor's own, a unit of somebody
//! else's is never replaced, and a supervisor that is not there is said to be so instead of being waited for.

pub(crate) mod cli;
pub(crate) mod house;
pub(crate) mod manager;
pub(crate) mod place;
pub(crate) mod plist;
pub(crate) mod unit;

use std::path::Path;

use crate::mesh::failure::Failure;
use cli::Kind;

/// Whose service it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scope {
    /// One user's, without root.
    User,
    /// The machine's.
    System,
}

impl Scope {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::System => "system",
        }
    }

    /// How a command line of systemctl begins, for people.
    pub(crate) fn systemctl(self) -> &'static str {
        match self {
            Scope::User => "systemctl --user",
            Scope::System => "systemctl",
        }
    }

    pub(crate) fn journalctl(self) -> &'static str {
        match self {
            Scope::User => "journalctl --user",
            Scope::System => "journalctl",
        }
    }
}

/// Which supervisor is meant; one we have no files for is refused.
pub(crate) fn kind(asked: Option<Kind>) -> Result<Kind, Failure> {
    let here = match std::env::consts::OS {
        "macos" => Kind::Launchd,
        "windows" => Kind::Windows,
        _ => Kind::Systemd,
    };
    match asked.unwrap_or(here) {
        Kind::Windows => Err(Failure::daemon(1, "unsupported", "Windows services are not part of this release")
            .hint("systemd units and launchd property lists are, see `--kind`")),
        kind => Ok(kind),
    }
}

/// Refuses on a build server, whose machines and identities do not last.
pub(crate) fn refuse_ci(allowed: bool) -> Result<(), Failure> {
    match hostel_mesh::home::surroundings::Surroundings::here().ci {
        Some(variable) if !allowed => Err(Failure::daemon(
            1,
            "ci",
            format!("this looks like a build job ({variable} is set): nothing is installed that would outlive it"),
        )
        .hint("if it shall stay all the same: `--allow-ci-persistent`")),
        _ => Ok(()),
    }
}

/// The program a supervisor starts: our own file, which must be there after the next boot too.
pub(crate) fn program() -> Result<String, Failure> {
    let program = crate::daemon::own_program()?;
    if program.starts_with("/proc") {
        return Err(Failure::daemon(1, "no_program", "the file of this program was replaced or removed meanwhile")
            .hint("start the program that is there now"));
    }
    text_of(&program)
}

/// A path as text; units and property lists are texts.
pub(crate) fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        Failure::daemon(1, "path", format!("`{}` cannot stand in a unit", path.display()))
            .hint("only paths of plain text without control characters can")
    })
}
