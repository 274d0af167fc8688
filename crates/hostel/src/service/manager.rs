//! systemd as it is asked: through systemctl and loginctl, like a person would.
//!
//! Invariant: every call is bounded in time and in what is read of its answer. Whether there is a systemd to talk to is
//! asked of systemctl itself and never guessed.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::Scope;
use crate::mesh::failure::Failure;
use crate::text;

/// How long a call may take; starting a unit is among them.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most of an answer that is kept for people.
const ANSWER: usize = 400;

/// What a systemd that can be talked to says of itself.
const ALIVE: [&str; 6] = ["initializing", "starting", "running", "degraded", "maintenance", "stopping"];

/// What came of a call.
struct Said {
    ok: bool,
    out: String,
    complaint: String,
}

/// The supervisor of a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manager {
    pub(crate) scope: Scope,
}

impl Manager {
    pub(crate) fn of(scope: Scope) -> Self {
        Manager { scope }
    }

    /// Why nothing can be started here; none if it can.
    pub(crate) async fn absence(self) -> Option<String> {
        match self.ask(&["is-system-running"]).await {
            Ok(said) if ALIVE.contains(&said.out.trim()) => None,
            Ok(said) if said.out.trim() == "offline" => Some("systemd does not run here".to_owned()),
            Ok(said) => {
                let why =
                    [&said.complaint, &said.out].into_iter().map(|text| text.trim()).find(|text| !text.is_empty());
                let why = text::cut(why.unwrap_or("no answer").lines().next().unwrap_or_default(), ANSWER).into_owned();
                Some(format!("systemd of this {} does not answer: {why}", self.scope.word()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("there is no systemd here".to_owned()),
            Err(error) => Some(format!("systemctl cannot be asked: {error}")),
        }
    }

    /// Reads the unit files again.
    pub(crate) async fn reload(self) -> Result<(), Failure> {
        self.order(&["daemon-reload"]).await
    }

    /// Has a unit start at boot or login, and on demand now.
    pub(crate) async fn enable(self, unit: &str, now: bool) -> Result<(), Failure> {
        match now {
            true => self.order(&["enable", "--now", unit]).await,
            false => self.order(&["enable", unit]).await,
        }
    }

    /// Ends a unit and has it start no more.
    pub(crate) async fn disable(self, unit: &str) -> Result<(), Failure> {
        self.order(&["disable", "--now", unit]).await
    }

    /// Has a unit start now; whoever needs it waits for it.
    pub(crate) async fn start(self, unit: &str) -> Result<(), Failure> {
        self.order(&["start", "--no-block", unit]).await
    }

    /// A word about a unit: `is-active`, `is-enabled`.
    pub(crate) async fn word(self, question: &str, unit: &str) -> Option<String> {
        let said = self.ask(&[question, unit]).await.ok()?;
        let word = said.out.trim().lines().next().unwrap_or_default().to_owned();
        Some(word).filter(|word| !word.is_empty())
    }

    async fn order(self, words: &[&str]) -> Result<(), Failure> {
        let line = format!("{} {}", self.scope.systemctl(), words.join(" "));
        let failed = |why: &str| {
            Failure::daemon(1, "systemctl", format!("`{line}` failed: {}", text::cut(why.trim(), ANSWER)))
                .hint("the file is written; try the command yourself to see more")
        };
        match self.ask(words).await {
            Ok(said) if said.ok => Ok(()),
            Ok(said) => Err(failed(&said.complaint)),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    async fn ask(self, words: &[&str]) -> io::Result<Said> {
        let mut command = Command::new("systemctl");
        if self.scope == Scope::User {
            command.arg("--user");
        }
        run(command.args(words)).await
    }
}

/// Whether services of a user run without a login; none if nobody can say.
pub(crate) async fn lingers() -> Option<bool> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let said = run(Command::new("loginctl").args(["show-user", &uid, "--property=Linger"])).await.ok()?;
    match said.out.trim() {
        "Linger=yes" => Some(true),
        "Linger=no" => Some(false),
        // loginctl knows only users who are logged in or linger.
        _ if said.complaint.contains("not logged in or lingering") => Some(false),
        _ => None,
    }
}

async fn run(command: &mut Command) -> io::Result<Said> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(Said {
        ok: output.status.success(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        complaint: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
