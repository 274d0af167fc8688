//! Health, version, metrics, heartbeat and the token.

use hostel_mesh::home::GRACE_S;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::json;

use super::super::answer::{self, Refused};
use super::super::respond::Asked;
use super::{Outcome, optional_fields};

const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn health(asked: &Asked) -> Outcome {
    Ok(answer::ok(&asked.door.mesh.health().await))
}

pub(super) fn version(asked: &Asked) -> Outcome {
    Ok(answer::ok(&asked.door.mesh.version()))
}

pub(super) fn compat(asked: &Asked) -> Outcome {
    Ok(answer::ok(&asked.door.mesh.compat()))
}

pub(super) async fn metrics(asked: &Asked) -> Outcome {
    let text = asked.door.mesh.metrics_text().await + &asked.door.metrics.text();
    Ok(answer::bytes(StatusCode::OK, PROMETHEUS, text))
}

pub(super) async fn heartbeat(asked: &Asked) -> Outcome {
    optional_fields(asked)?;
    let ts = asked.door.mesh.heartbeat(&asked.caller).await?;
    Ok(answer::ok(&json!({"ok": true, "ts": ts})))
}

/// Whoever started the daemon reads its configuration again.
pub(super) async fn reload(asked: &Asked) -> Outcome {
    optional_fields(asked)?;
    let Some(reload) = asked.door.reloading.get().cloned() else {
        let detail = "this daemon has no configuration that could be read again";
        return Err(Refused::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail));
    };
    // It reads a file and may wait for one.
    let reloaded = hostel_tasks::spawn_blocking(move || reload()).await;
    let reloaded =
        reloaded.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    Ok(answer::ok(&reloaded?))
}

/// The new token is in its file; the old one is good for a while.
pub(super) async fn rotate(asked: &Asked) -> Outcome {
    optional_fields(asked)?;
    let tokens = asked.door.tokens.clone();
    let failed = |error: String| {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("the token cannot be changed: {error}"))
    };
    let rotated = hostel_tasks::spawn_blocking(move || tokens.rotate()).await;
    rotated.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
    asked.door.mesh.metrics().token_rotated();
    Ok(answer::ok(&json!({"ok": true, "grace_s": GRACE_S})))
}

/// Another key for the member; whoever asks waits until it counts.
pub(super) async fn rotate_keypair(asked: &Asked) -> Outcome {
    optional_fields(asked)?;
    Ok(answer::ok(&asked.door.mesh.rotate_keypair().await?))
}
