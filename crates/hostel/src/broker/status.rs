//! `broker status`.

use std::process::ExitCode;

use serde_json::json;

use super::health;
use super::place::Place;
use crate::mesh::Desk;
use crate::mesh::failure::Failure;

pub(super) async fn run(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let place = Place::of(&desk.home);
    let Some(health) = health::running(&place).await else {
        let failure = match place.holder() {
            Some(pid) => Failure::daemon(1, "broker_silent", format!("broker: does not answer (pid {pid})"))
                .hint(format!("its log is `{}`", place.log().display()))
                .with_data(json!({"running": false, "pid": pid})),
            None => Failure::daemon(1, "not_running", "broker: not running")
                .hint("start it with `claudemesh broker up`")
                .with_data(json!({"running": false})),
        };
        return Err(failure);
    };
    let beyond = place.listening();
    if desk.ui.json() {
        desk.ui.data(&json!({
            "running": true, "pid": health.pid, "port": health.port, "url": health.url(),
            "listen": beyond.listen, "public_url": beyond.url, "health": health.answer,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("broker: running (pid {})", health.pid))?;
    desk.ui.line(&format!("here: {}", health.url()))?;
    match (beyond.listen, beyond.url) {
        (Some(listen), Some(url)) => desk.ui.line(&format!("other machines: {url} (listens on {listen}, TLS)"))?,
        _ => desk.ui.line("other machines: none, it is for this machine only")?,
    }
    Ok(ExitCode::SUCCESS)
}
