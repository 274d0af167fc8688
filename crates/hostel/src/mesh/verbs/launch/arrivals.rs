//! Messages for the session, shown to the person at its prompt.
//!
//! Invariant: shown only while a prompt is waited for, so that nothing is written into an answer; what came during a turn is
//! shown after it, each message once, also when the daemon was away in between. Showing marks nothing as read.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;

use crate::mesh::client::Client;
use crate::mesh::client::Events;
use crate::mesh::client::with_query;
use crate::mesh::show;
use crate::ui::Ui;

/// The pause before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Arrivals {
    session: Client,
    stream: Option<Events>,
    last: Option<String>,
}

impl Arrivals {
    /// What arrives from now on. A stream that cannot be opened is tried again.
    pub(super) async fn begin(session: Client) -> Self {
        let mut new = Arrivals { session, stream: None, last: None };
        new.open().await;
        new
    }

    async fn open(&mut self) {
        let query = [("events", Some("message")), ("last_event_id", self.last.as_deref())];
        self.stream = self.session.stream(&with_query("/v1/events", &query)).await.ok();
    }

    /// Shows them as they come. Never comes to an end; giving up waiting loses nothing.
    pub(super) async fn show(&mut self, ui: &Ui, prompt_again: impl Fn()) -> Infallible {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep(AGAIN).await;
                self.open().await;
                continue;
            };
            let Ok(Some(event)) = stream.next().await else {
                self.stream = None;
                continue;
            };
            if !event.id.is_empty() {
                self.last = Some(event.id);
            }
            if event.name == "message"
                && let Ok(mut item) = serde_json::from_str::<Value>(&event.data)
            {
                item["received_at"] = item.get("ts").cloned().unwrap_or_default();
                ui.note(&format!("\n{}", show::message(ui, &item)));
                prompt_again();
            }
        }
    }
}
