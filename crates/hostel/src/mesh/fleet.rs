//! What `hostel up` and `hostel down` do for meshes: the embedded broker, and one daemon per mesh that is joined.
//!
//! Invariant: they are processes of their own that outlive the daemon; whoever comes next finds them by their
//! handshake. A mesh that does not start is said to be so and keeps nothing else from starting.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use serde_json::json;

use super::Desk;
use super::cli;
use super::daemon;
use super::failure::Failure;
use super::host::Host;
use super::wait;
use crate::broker;
use crate::broker::place::Place;
use crate::config::MeshSettings;
use crate::daemon::launch;
use crate::text;
use crate::ui::Ui;

/// What became of one of them.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// `broker`, or `mesh` and its name.
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    /// It was up already.
    pub(crate) already: bool,
    /// Why it is not up.
    pub(crate) problem: Option<String>,
}

impl Member {
    pub(crate) fn to_json(&self) -> Value {
        json!({"name": self.name, "pid": self.pid, "already": self.already, "problem": self.problem})
    }
}

/// Starts what is not up.
pub(crate) fn up(ui: &Ui, home: &Path, settings: &MeshSettings) -> Vec<Member> {
    let Ok(host) = Host::of_environment(ui) else { return Vec::new() };
    let desk = Desk { ui, home: home.to_owned(), host, mesh: None, called: "hostel mesh" };
    wait(async { Ok(start_all(&desk, settings).await) }).unwrap_or_default()
}

async fn start_all(desk: &Desk<'_>, settings: &MeshSettings) -> Vec<Member> {
    let mut members = Vec::new();
    if settings.broker {
        members.push(start_broker(desk).await);
    }
    if !settings.daemons {
        return members;
    }
    let meshes = match desk.host.meshes() {
        Ok(meshes) => meshes,
        Err(failure) => {
            members.push(not_up("mesh", &failure));
            return members;
        }
    };
    for joined in meshes {
        let name = format!("mesh {}", joined.slug);
        members.push(match daemon::running(desk, &joined.slug).await {
            Some(running) => Member { name, pid: running.pid(), already: true, problem: None },
            None => match daemon::start(desk, &joined.slug, &cli::Up::default()).await {
                Ok(started) => Member { name, pid: Some(started.pid), already: false, problem: None },
                Err(failure) => not_up(&name, &failure),
            },
        });
    }
    members
}

async fn start_broker(desk: &Desk<'_>) -> Member {
    let name = "broker".to_owned();
    let place = Place::of(&desk.home);
    if let Some(health) = broker::running(&place).await {
        return Member { name, pid: Some(health.pid), already: true, problem: None };
    }
    match broker::start(&desk.home, &broker::Asked::default()).await {
        Ok(health) => Member { name, pid: Some(health.pid), already: false, problem: None },
        Err(failure) => not_up(&name, &failure),
    }
}

fn not_up(name: &str, failure: &Failure) -> Member {
    Member { name: name.to_owned(), pid: None, already: false, problem: Some(failure.to_string()) }
}

/// What is up, in one line; nothing if nothing was to be started.
pub(crate) fn summary(fleet: &[Member]) -> Option<String> {
    let up: Vec<&str> =
        fleet.iter().filter(|member| member.problem.is_none()).map(|member| member.name.as_str()).collect();
    let mut lines = Vec::new();
    if !up.is_empty() {
        lines.push(format!("Up beside it: {}", text::printable(&up.join(", "))));
    }
    for member in fleet {
        if let Some(problem) = &member.problem {
            lines.push(format!("Not up: {}: {}", text::printable(&member.name), text::prose(problem)));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Starts what is not up through processes of its own, which are waited for in the background: a daemon in the
/// foreground must not become the parent of what outlives it.
pub(crate) fn up_beside(home: &Path, settings: &MeshSettings) {
    let mut verbs: Vec<&[&str]> = Vec::new();
    if settings.broker {
        verbs.push(&["broker", "up"]);
    }
    if settings.daemons {
        verbs.push(&["mesh", "daemon", "up", "--all"]);
    }
    let home = home.to_owned();
    let start = move || {
        for verb in verbs {
            let mut words: Vec<OsString> = vec!["--home".into(), home.clone().into()];
            words.extend(verb.iter().map(OsString::from));
            let mut command = launch::own_program("hostel".as_ref(), &words);
            // What is up already is not worth a word, and what fails has a log.
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
        }
    };
    // Without a thread there is no mesh, and the house is up all the same.
    std::thread::Builder::new().name("mesh-start".to_owned()).spawn(start).ok();
}

/// What was ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ended {
    pub(crate) daemons: usize,
    pub(crate) broker: bool,
}

/// Ends every mesh daemon of this user that is not another house's, then the broker.
pub(crate) async fn down(ui: &Ui, home: &Path) -> Result<Ended, Failure> {
    let Ok(host) = Host::of_environment(ui) else { return Ok(Ended::default()) };
    let desk = Desk { ui, home: home.to_owned(), host, mesh: None, called: "hostel mesh" };
    let mut ended = Ended::default();
    for mesh in desk.host.slugs().unwrap_or_default() {
        if daemon::belongs_to_another(&desk, &mesh) {
            continue;
        }
        ended.daemons += usize::from(daemon::stop(&desk, &mesh).await?.is_some());
    }
    ended.broker = broker::stop(&Place::of(home)).await?.is_some();
    Ok(ended)
}
