//! `daemon reload`: the configuration read again, by a daemon that goes on running.
//!
//! Invariant: a file that cannot be used changes nothing: the daemon keeps what it had, and whoever asked is told the
//! file, the line and the key. What counts only after a restart is named and left as it is. The connection to the broker
//! stays.

use std::process::ExitCode;

use hostel_doors::claudemesh;
use hostel_doors::claudemesh::Door;
use hostel_mesh::Mesh;
use hostel_mesh::Refusal;
use hostel_mesh::ReloadError;
use hostel_mesh::home::Membership;
use hostel_mesh::home::Settings;
use hostel_mesh::log::Level;
use hostel_mesh::log::Log;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::settle;
use super::status;
use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::text;

/// Requests that may wait; there is never more than a moment's worth of work.
const WAITING: usize = 8;

/// Somebody wants to know what came of it.
pub(super) type Asked = oneshot::Sender<Result<Value, Refusal>>;

/// Reads the configuration of a running daemon again.
pub(super) struct Reloader {
    asked: mpsc::Receiver<Asked>,
    mesh: Mesh,
    door: Door,
    log: Log,
    /// As the door was opened: flags of the command line, and the token of a listener that others reach.
    opened: claudemesh::Settings,
    slug: String,
    /// Where the brokers are if the settings do not say.
    usual_urls: Vec<String>,
    /// As it was last read.
    running: Settings,
}

impl Reloader {
    /// `opened` are the door's settings as it was opened with, `running` those it came from.
    pub(super) fn new(
        mesh: &Mesh,
        door: &Door,
        log: &Log,
        opened: claudemesh::Settings,
        membership: &Membership,
        running: &Settings,
    ) -> Self {
        let (ask, asked) = mpsc::channel::<Asked>(WAITING);
        door.on_reload(move || {
            let (answer, answered) = oneshot::channel();
            let closed = || Refusal::new("closed", "the daemon is ending");
            ask.blocking_send(answer).map_err(|_| closed())?;
            answered.blocking_recv().map_err(|_| closed())?
        });
        Reloader {
            asked,
            mesh: mesh.clone(),
            door: door.clone(),
            log: log.clone(),
            opened,
            slug: membership.slug.clone(),
            usual_urls: route::broker_urls(membership),
            running: running.clone(),
        }
    }

    /// Waits until somebody asks for it.
    pub(super) async fn asked(&mut self) -> Asked {
        match self.asked.recv().await {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }

    /// Reads it again; says what has changed, and what has to wait for a restart.
    pub(super) fn reload(&mut self, desk: &Desk<'_>) -> Result<Value, Refusal> {
        let reloaded = self.try_reload(desk);
        match &reloaded {
            Ok(told) => self.log.info("config_reloaded", told.clone()),
            Err(refusal) => self.log.error("config_reload_refused", json!({"detail": refusal.detail()})),
        }
        reloaded
    }

    fn try_reload(&mut self, desk: &Desk<'_>) -> Result<Value, Refusal> {
        let slug = &self.slug;
        let dir = desk.host.dir(slug);
        let file = dir.config();
        let refused = |detail: String| Refusal::new("invalid_config", detail);
        let mut notes = Vec::new();
        let new = settle::load_settings(desk, &dir, &mut notes).map_err(|failure| refused(failure.message().into()))?;
        let line = |section: &str, key: &str| {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            format!("{}: line {}", file.display(), Settings::line_of(&text, section, key))
        };
        if let Some(other) = new.daemon.mesh.as_ref().filter(|mesh| *mesh != slug) {
            return Err(refused(format!(
                "{}: `daemon.mesh` is `{other}`, and this daemon serves `{slug}`",
                line("daemon", "mesh")
            )));
        }
        let restart = self.running.needs_restart(&new);
        let effective = new.until_restart(&self.running);
        let mut changed = self.running.changes(&effective);
        let urls =
            (effective.broker.urls != self.running.broker.urls).then(|| match effective.broker.urls.is_empty() {
                true => self.usual_urls.clone(),
                false => effective.broker.urls.clone(),
            });
        let hooks = self.mesh.reload(effective.clone(), urls.as_deref()).map_err(|error| match error {
            ReloadError::Setting { section, key, .. } => refused(format!("{}: {error}", line(section, key))),
            ReloadError::Hooks(text) => refused(text),
        })?;
        if hooks.changed && !changed.contains(&"hooks") {
            changed.push("hooks");
        }
        let mut door = claudemesh::Settings::of(&effective);
        door.public_health |= self.opened.public_health;
        door.external.clone_from(&self.opened.external);
        door.config_file.clone_from(&self.opened.config_file);
        self.door.reload(door);
        self.log.set_level(level(&effective));
        self.running = effective;
        let warnings: Vec<Value> = notes.into_iter().map(|(_, _, fields)| fields).collect();
        Ok(
            json!({"ok": true, "changed": changed, "restart_needed": restart, "warnings": warnings, "hooks": hooks.hooks}),
        )
    }
}

/// How much is logged.
pub(super) fn level(settings: &Settings) -> Level {
    match route::is_set("CLAUDEMESH_DEBUG") {
        true => Level::Debug,
        false => Level::parse(settings.daemon.log_level.as_str()).unwrap_or(Level::Info),
    }
}

/// `daemon reload`.
pub(super) async fn run(desk: &Desk<'_>, arguments: &cli::Reload) -> Result<ExitCode, Failure> {
    let meshes = match arguments.all {
        true => desk.host.slugs()?,
        false => vec![desk.host.slug(desk.mesh.as_deref())?],
    };
    let mut rows = Vec::new();
    let mut failed = None;
    for mesh in meshes {
        let Some(daemon) = status::running(desk, &mesh).await else {
            if arguments.all {
                continue;
            }
            return Err(Failure::daemon(1, "not_running", "daemon: not running")
                .hint(format!("its settings count when it is started: `claudemesh daemon up --mesh {mesh}`")));
        };
        match daemon.client.post("/v1/reload", &json!({})).await {
            Ok(answer) => {
                tell(desk, &mesh, &answer)?;
                rows.push(json!({"mesh": mesh, "reloaded": answer}));
            }
            Err(failure) => {
                let failure = failure.hint("the daemon goes on with the settings it had");
                if !arguments.all {
                    return Err(failure.with_exit(1));
                }
                if !desk.ui.json() {
                    desk.ui.note(&format!("{mesh}: {}", text::prose(&failure.text())));
                }
                rows.push(json!({"mesh": mesh, "error": failure.word(), "detail": failure.message()}));
                failed = Some(failure);
            }
        }
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    }
    Ok(failed.map_or(ExitCode::SUCCESS, |_| ExitCode::from(1)))
}

fn tell(desk: &Desk<'_>, mesh: &str, answer: &Value) -> Result<(), Failure> {
    if desk.ui.json() {
        return Ok(());
    }
    let words = |key: &str| -> Vec<String> {
        let words = answer.get(key).and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(|word| text::printable(word).into_owned()).collect()
    };
    let changed = words("changed");
    match changed.is_empty() {
        true => desk.ui.line(&format!("{mesh}: nothing has changed"))?,
        false => desk.ui.line(&format!("{mesh}: reloaded [{}]", changed.join("] [")))?,
    }
    for key in words("restart_needed") {
        desk.ui.note(&format!("{mesh}: `{key}` counts after `{} daemon restart --mesh {mesh}`", desk.called));
    }
    for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        let line = warning.get("line").and_then(Value::as_u64).map(|line| format!("line {line}: ")).unwrap_or_default();
        let said = warning.get("text").and_then(Value::as_str).unwrap_or_default();
        desk.ui.note(&format!("{mesh}: {line}{}", text::prose(said)));
    }
    Ok(())
}
