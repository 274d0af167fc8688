//! `daemon status`: every daemon in a table, or one in two lines.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::memory;
use crate::daemon::lock::DaemonLock;
use crate::mesh::Desk;
use crate::mesh::client::Client;
use crate::mesh::failure::Failure;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// A daemon that answered.
pub(crate) struct Running {
    pub(crate) mesh: String,
    pub(crate) health: Value,
    pub(crate) client: Client,
}

impl Running {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.health.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.health.get(name).and_then(Value::as_u64)
    }

    pub(crate) fn connected(&self) -> bool {
        self.health.get("connected").and_then(Value::as_bool).unwrap_or_default()
    }

    /// One word: how it stands.
    fn state(&self) -> &str {
        match show::field(&self.health, "state") {
            "" | "ok" if self.connected() => "running",
            "" | "ok" => "reconnecting",
            state => state,
        }
    }
}

/// The daemon of a mesh, by its handshake.
pub(crate) async fn running(desk: &Desk<'_>, mesh: &str) -> Option<Running> {
    for socket in desk.host.sockets(mesh) {
        let client = Client::new(socket).of_member();
        if client.handshake(mesh).await.is_some() {
            let health = client.get("/v1/health").await.ok()?;
            return Some(Running { mesh: mesh.to_owned(), health, client });
        }
    }
    None
}

pub(super) async fn run(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    match &desk.mesh {
        Some(mesh) => one(desk, mesh).await,
        None => all(desk).await,
    }
}

fn paint_of(state: &str) -> Paint {
    match state {
        "running" => Paint::Green,
        "revoked" => Paint::Red,
        _ => Paint::Yellow,
    }
}

fn not_running() -> Failure {
    Failure::daemon(1, "not_running", "daemon: not running")
}

async fn one(desk: &Desk<'_>, mesh: &str) -> Result<ExitCode, Failure> {
    let Some(daemon) = running(desk, mesh).await else {
        let (row, _) = stopped(desk, mesh.to_owned());
        let data = match show::field(&row, "state") {
            "stopped" => json!({"running": false}),
            state => json!({"running": false, "state": state, "last_exit": row["last_exit"]}),
        };
        let failure = not_running().with_data(data);
        return Err(match row["last_exit"]["detail"].as_str() {
            Some(why) => failure.hint(format!("it ended because: {}", text::printable(why))),
            None => failure,
        });
    };
    if desk.ui.json() {
        desk.ui.data(&json!({"running": true, "pid": daemon.pid(), "health": daemon.health}))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("daemon: running (pid {})", daemon.pid().unwrap_or_default()))?;
    desk.ui.line(&format!("socket: {}", daemon.client.socket().display()))?;
    let state = daemon.state();
    if state != "running" {
        desk.ui.line(&format!("state: {}", text::printable(state)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One that does not answer: stopped, or why it could not go on, or hanging.
fn stopped(desk: &Desk<'_>, mesh: String) -> (Value, Vec<(Paint, String)>) {
    let hangs = desk.host.locks(&mesh).iter().any(|lock| DaemonLock::is_held(lock).unwrap_or_default());
    let ended = memory::ended(&desk.host.dir(&mesh));
    let (state, paint) = match (&ended, hangs) {
        (_, true) => ("unresponsive", Paint::Red),
        (Some(ended), _) => (ended.state(), Paint::Red),
        (None, _) => ("stopped", Paint::Dim),
    };
    let why = ended
        .as_ref()
        .filter(|_| !hangs)
        .map(|ended| json!({"exit": ended.exit, "error": ended.word, "detail": ended.message}));
    let row = json!({
        "mesh": mesh, "running": false, "state": state, "pid": null, "connected": false, "queue": null,
        "lag_ms": null, "uptime_s": null, "last_exit": why,
    });
    (row, vec![(Paint::Bold, mesh), (paint, state.to_owned())])
}

async fn all(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let mut table = Table::new(&["MESH", "STATE", ">PID", "CONNECTED", ">QUEUE", ">LAG", ">UPTIME"]);
    let mut any = false;
    for mesh in desk.host.slugs()? {
        let Some(daemon) = running(desk, &mesh).await else {
            let (row, cells) = stopped(desk, mesh);
            rows.push(row);
            table.row(cells);
            continue;
        };
        any = true;
        let state = daemon.state();
        rows.push(json!({
            "mesh": daemon.mesh, "running": true, "state": state, "pid": daemon.pid(),
            "connected": daemon.connected(), "queue": daemon.number("queue_depth"), "lag_ms": daemon.number("lag_ms"),
            "uptime_s": daemon.number("uptime_s"), "socket": daemon.client.socket(), "health": daemon.health,
        }));
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        table.row(vec![
            (Paint::Bold, daemon.mesh.clone()),
            (paint_of(state), state.to_owned()),
            (Paint::Plain, number(daemon.pid().map(u64::from))),
            (Paint::Plain, if daemon.connected() { "yes" } else { "no" }.to_owned()),
            (Paint::Plain, number(daemon.number("queue_depth"))),
            (Paint::Plain, daemon.number("lag_ms").map_or_else(|| "-".to_owned(), |lag| format!("{lag} ms"))),
            (Paint::Dim, text::duration(Duration::from_secs(daemon.number("uptime_s").unwrap_or_default()))),
        ]);
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    } else if any || rows.iter().any(|row| show::field(row, "state") != "stopped") {
        desk.ui.line(&table.render(desk.ui))?;
    } else {
        return Err(not_running().hint("start it with `claudemesh daemon up`"));
    }
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
