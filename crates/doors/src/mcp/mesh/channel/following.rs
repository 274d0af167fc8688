//! One mesh, followed for one client.
//!
//! Invariant: what was pushed is remembered by its id, and the stream is taken up after the last event that was pushed. A
//! place the daemon no longer knows, and the time before the first stream stood, are made up for from the inbox,
//! oldest first, beginning with what came right before the last that is known to be pushed.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::iso;
use hostel_wire::parse_iso;
use serde_json::Value;

use super::super::Line;
use super::super::Mesh;
use super::super::list;
use super::super::text;
use super::Ear;
use super::notice;
use crate::mcp::Caller;

/// The first pause after a daemon was lost, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Messages that are asked for at once where some were missed.
const PAGE: &str = "50";

/// How far before the last message the inbox is looked through again, in milliseconds: events and rows are timed apart.
const MARGIN: u64 = 10_000;

/// Messages that are remembered as pushed: more than arrive in that time.
const REMEMBERED: usize = 4096;

/// The client is gone.
pub(super) struct Gone;

/// A mesh and a client.
pub(super) struct Following {
    mesh: Arc<dyn Mesh>,
    name: String,
    caller: Arc<Caller>,
    /// The last event that was pushed; none before the first, and where the daemon has forgotten it.
    last: Option<String>,
    /// Everything received before this was pushed, or is none of the client's business.
    since: u64,
    pushed: Remembered,
    pause: Duration,
}

impl Following {
    /// What arrives from a moment on, in milliseconds of the clock.
    pub(super) fn new(mesh: Arc<dyn Mesh>, name: String, caller: Arc<Caller>, since: u64) -> Self {
        Following { mesh, name, caller, last: None, since, pushed: Remembered::default(), pause: PAUSES.0 }
    }

    /// Pushes until the client is gone.
    pub(super) async fn run(mut self, ear: Arc<dyn Ear>) {
        loop {
            if self.connected(&*ear).await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {}
                () = ear.gone() => return,
            }
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
    }

    /// Follows one stream to its end.
    async fn connected(&mut self, ear: &dyn Ear) -> Result<(), Gone> {
        let mesh = Arc::clone(&self.mesh);
        let Ok(mut followed) = mesh.follow(&self.caller, &self.name, self.last.as_deref()).await else {
            return Ok(());
        };
        if self.last.is_none() && !self.catch_up(ear, followed.session).await? {
            return Ok(());
        }
        while let Some(event) = followed.events.next().await {
            self.pause = PAUSES.0;
            match event.name.as_str() {
                "message" => {
                    self.push(ear, &event.data, followed.session).await?;
                    if let Some(time) = parse_iso(text(&event.data, "ts")) {
                        self.since = self.since.max(time.saturating_sub(MARGIN));
                    }
                }
                "gap" => {
                    self.last = None;
                    if !self.catch_up(ear, followed.session).await? {
                        return Ok(());
                    }
                }
                _ => {}
            }
            if !event.id.is_empty() {
                self.last = Some(event.id);
            }
        }
        Ok(())
    }

    /// Pushes what the inbox has and the stream did not bring; false if the daemon went away in between.
    async fn catch_up(&mut self, ear: &dyn Ear, session: bool) -> Result<bool, Gone> {
        let (mesh, caller, name) = (Arc::clone(&self.mesh), Arc::clone(&self.caller), self.name.clone());
        let line = Line { mesh: &*mesh, caller: &caller, name: Some(&name) };
        let since = iso(self.since);
        let mut cursor: Option<String> = None;
        loop {
            let query = [
                ("order", Some("oldest")),
                ("mark_seen", Some("false")),
                ("limit", Some(PAGE)),
                // A page that goes on says where by itself.
                ("since", Some(since.as_str())),
                ("cursor", cursor.as_deref()),
            ];
            let Ok(answer) = line.get("/v1/inbox", &query).await else { return Ok(false) };
            let items = list(answer.body, "items");
            let Some(end) = items.last().map(|item| text(item, "cursor").to_owned()) else { return Ok(true) };
            for item in &items {
                self.push(ear, item, session).await?;
                if let Some(time) = parse_iso(text(item, "received_at")) {
                    self.since = self.since.max(time);
                }
            }
            if end.is_empty() {
                return Ok(true);
            }
            cursor = Some(end);
        }
    }

    /// Pushes a message, unless it was or is not this client's.
    async fn push(&mut self, ear: &dyn Ear, message: &Value, session: bool) -> Result<(), Gone> {
        let id = text(message, "id");
        let anothers = !session && message.get("recipient_session").is_some_and(|session| !session.is_null());
        if anothers || self.pushed.has(id) {
            return Ok(());
        }
        if !ear.ready().await || !ear.hear(notice::of(&self.name, message)).await {
            return Err(Gone);
        }
        self.pushed.add(id.to_owned());
        Ok(())
    }
}

/// The last so many ids.
#[derive(Default)]
struct Remembered {
    order: VecDeque<String>,
    ids: HashSet<String>,
}

impl Remembered {
    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn add(&mut self, id: String) {
        if !self.ids.insert(id.clone()) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered() {
        let mut pushed = Remembered::default();
        for number in 0..=REMEMBERED {
            pushed.add(number.to_string());
            pushed.add(number.to_string());
        }
        assert!(!pushed.has("0") && pushed.has("1") && pushed.has(&REMEMBERED.to_string()));
        assert_eq!((pushed.order.len(), pushed.ids.len()), (REMEMBERED, REMEMBERED));
    }
}
