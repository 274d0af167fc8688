//! The MCP sessions of the door, no more than there may be.
//!
//! Invariant: a session that is over is known to be over everywhere: its calls are cancelled at once. When all places
//! are taken, the session that was idle longest gives up its own; one that is in use never does. What the server says
//! unasked is given once: `Last-Event-ID` goes on right after the event it names, and a client that comes back
//! without one gets what was not handed over yet.

use std::future::ready;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::StreamExt as _;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManagerError;
use thiserror::Error;

use super::HttpLimits;
use crate::mcp::visits::Listening;
use crate::mcp::visits::Visits;

/// Why a session could not be used.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error("too many sessions")]
    Full,
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

/// The sessions.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    visits: Arc<Visits>,
    limit: usize,
}

impl Sessions {
    pub(super) fn new(limits: HttpLimits, visits: Arc<Visits>) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(limits.idle);
        Sessions { inner, visits, limit: limits.sessions }
    }

    /// Ends a session whose client has left.
    pub(super) async fn end(&self, session: &str) {
        self.close_session(&session.into()).await.ok();
    }

    /// Ends all of them.
    pub(super) async fn end_all(&self) {
        let all: Vec<SessionId> = self.inner.sessions.read().await.keys().cloned().collect();
        for session in all {
            self.close_session(&session).await.ok();
        }
    }
}

impl SessionManager for Sessions {
    type Error = Trouble;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Trouble> {
        if self.visits.count() >= self.limit {
            let idlest = self.visits.idlest().ok_or(Trouble::Full)?;
            self.end(&idlest).await;
        }
        let (session, transport) = self.inner.create_session().await?;
        self.visits.begin(&session);
        Ok((session, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Trouble> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Trouble> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Trouble> {
        self.visits.end(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Trouble> {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Trouble> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Trouble> {
        let listening = self.visits.listen(id);
        let handed = listening.as_ref().map_or(0, Listening::handed);
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(stream.filter_map(move |event| ready(unasked(event, handed, listening.as_ref()))))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Trouble> {
        // An answer's stream has the number of its request in its ids; the one for what is said unasked has none.
        let listening = if last_event_id.contains('/') { None } else { self.visits.listen(id) };
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(stream.filter_map(move |event| {
            ready(match &listening {
                Some(listening) => unasked(event, 0, Some(listening)),
                None => Some(event),
            })
        }))
    }
}

/// An event of what is said unasked, unless it is one of the first `handed`. Its id is the number of events up to it:
/// the library counts from 0 and goes on *at* the number it is shown, so this one goes on after it.
fn unasked(mut event: ServerSseMessage, handed: usize, listening: Option<&Listening>) -> Option<ServerSseMessage> {
    let Some(index) = event.event_id.as_deref().and_then(|id| id.parse::<usize>().ok()) else { return Some(event) };
    if index < handed {
        return None;
    }
    let count = index.saturating_add(1);
    if let Some(listening) = listening {
        listening.hand(count);
    }
    event.event_id = Some(count.to_string());
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_by_how_many_there_were() {
        let event = |id: Option<&str>| {
            let mut event = ServerSseMessage::default();
            event.event_id = id.map(str::to_owned);
            event
        };
        let told = |id: &str, handed| unasked(event(Some(id)), handed, None).map(|event| event.event_id.unwrap());
        assert_eq!(told("0", 0).as_deref(), Some("1"));
        assert_eq!((told("1", 2), told("2", 2).as_deref()), (None, Some("3")));
        assert!(unasked(event(None), 7, None).is_some());
    }
}
