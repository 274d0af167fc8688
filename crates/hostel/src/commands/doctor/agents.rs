//! Which agents there are, which of their programs are missing, and who has the addresses of the agents' doors.
//!
//! Invariant: a CLI is asked for its version and nothing else, all at once and for a bounded time.

use std::net::SocketAddr;
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use hostel_agents::Kind;
use hostel_house::sessions::AgentSpec;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::Findings;
use crate::config::Settings;
use crate::config::agents;
use crate::config::agents::Defaults;
use crate::daemon;
use crate::daemon::sockets::Occupant;
use crate::daemon::sockets::occupant;
use crate::error::CommandError;
use crate::text;

/// How long a CLI may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The most of a version that is shown.
const VERSION_LENGTH: usize = 60;

/// How long a port may take to answer.
const PORT_LIMIT: Duration = Duration::from_millis(300);

/// What a look for an agent's program brought.
enum Found {
    /// Here it is, and what it says of itself.
    Program { path: String, version: Option<String> },
    /// It is not there.
    Missing(String),
    /// It is part of us.
    BuiltIn,
}

/// Looks at every agent.
pub(super) async fn check(settings: &Settings, findings: &mut Findings) -> Result<(), CommandError> {
    let path = std::env::var_os("PATH");
    let program = daemon::own_program()?;
    let specs = agents::specs(&settings.agents, &settings.guard, Defaults::Found, &program, path.as_deref());
    let mut asked = JoinSet::new();
    for (place, spec) in specs.iter().cloned().enumerate() {
        asked.spawn(async move { (place, look(&spec).await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    let mut usable = false;
    for (spec, (_, found)) in specs.iter().zip(answers) {
        let alias = &spec.alias;
        match found {
            Found::BuiltIn => findings.good("agent", format!("{alias} is built in")),
            Found::Missing(program) => findings.warn(
                "agent",
                format!("{alias}: `{program}` was not found"),
                format!("install it, or correct `agents.{alias}.command`"),
            ),
            Found::Program { path, version } => {
                usable = true;
                let version = version.map(|version| format!(", {version}")).unwrap_or_default();
                findings.good("agent", format!("{alias} is {path}{version}"));
            }
        }
    }
    if !usable {
        findings.warn(
            "agents",
            "only the built-in one can be used",
            "install claude, codex, gemini or opencode, or name one in hostel.toml (`[agents.NAME]`)",
        );
    }
    Ok(())
}

async fn look(spec: &AgentSpec) -> Found {
    let path = std::env::var_os("PATH");
    let own_name = spec.command.is_empty();
    let program = spec.command.first().map_or(spec.kind.name(), String::as_str);
    if spec.command.last().is_some_and(|word| word == agents::ECHO) && spec.kind == Kind::Echo {
        return Found::BuiltIn;
    }
    let Some(file) = agents::find(program, path.as_deref()) else {
        return Found::Missing(program.to_owned());
    };
    let version = match own_name {
        // A command of somebody's own may do anything with a flag it does not know.
        false => None,
        true => ask_version(&file.display().to_string()).await,
    };
    Found::Program { path: file.display().to_string(), version }
}

async fn ask_version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_LIMIT, command.output()).await.ok()?.ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(text::cut(line, VERSION_LENGTH).into_owned())
}

/// While the house is down: who has the addresses it would open.
pub(super) fn addresses(settings: &Settings, findings: &mut Findings) {
    let taken = |address: &SocketAddr| TcpStream::connect_timeout(address, PORT_LIMIT).is_ok();
    if settings.codecast.enabled {
        for address in settings.codecast.listen.iter().filter(|address| taken(address)) {
            findings.warn(
                "door",
                format!("codecast on {address}: somebody listens there"),
                "end the other program, or change `doors.codecast.listen`; `hostel up` takes another port",
            );
        }
    }
    if settings.zeroclaw.enabled {
        for path in settings.zeroclaw.listen.iter().filter(|path| occupant(path) == Occupant::Listening) {
            findings.warn(
                "door",
                format!("zeroclaw on {}: somebody listens there", path.display()),
                "end the other program, or change `doors.zeroclaw.listen`",
            );
        }
    }
}
