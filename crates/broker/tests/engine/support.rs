//! An engine in a scratch directory, and entries for it.

use std::path::Path;

use hostel_broker::engine::{Append, EngineOptions, SqliteEngine};
use hostel_wire::frames::{Kind, Priority};

pub(crate) const NOW: u64 = 1_800_000_000_000;
pub(crate) const DAY: u64 = 86_400_000;

pub(crate) async fn open(directory: &Path) -> SqliteEngine {
    SqliteEngine::open(options(directory)).await.unwrap()
}

pub(crate) fn options(directory: &Path) -> EngineOptions {
    EngineOptions::at(directory.join("broker.db"), directory.join("blobs"))
}

/// A direct message from `alice` to `bob`.
pub(crate) fn dm(mesh: &str, client_id: &str) -> Append {
    Append {
        mesh: mesh.to_owned(),
        kind: Kind::Dm,
        dest: "bob".to_owned(),
        sender: "alice".to_owned(),
        client_id: client_id.to_owned(),
        origin: None,
        fingerprint: [1; 32],
        priority: Priority::Next,
        audience: Vec::new(),
        bytes: format!("the bytes of {client_id}").into(),
        guards: Vec::new(),
        writes: Vec::new(),
        gate: None,
        expires_ms: NOW + 30 * DAY,
        forget_ms: NOW + 60 * DAY,
        now_ms: NOW,
    }
}
