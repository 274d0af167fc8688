//! The MCP sessions of the door, no more than there may be.
//!
//! Invariant: a session that is over is known to be over everywhere: its calls are cancelled at once. When all places
//! are taken, the session that was idle longest gives up its own; one that is in use never does. What the server says
//! unasked is given once: `Last-Event-ID` goes on right after the event it names, and a client that comes back
//! without one gets what was not handed over yet. The newest stream of a session carries it: the library would go on
//! with an older one until it knows that the connection is gone, and would leave the newer one silent for good.

use std::collections::HashMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Weak;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManagerError;
use thiserror::Error;
use tokio::sync::Mutex as AsyncMutex;

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

type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send>>;

/// A stream that can be taken away from the connection that reads it.
///
/// The connection stays open and silent then. A client that holds two would otherwise open the closed one again and
/// again, each time in the place of the other.
struct Takeable(Arc<Mutex<Option<Events>>>);

impl Takeable {
    fn new(events: impl Stream<Item = ServerSseMessage> + Send + 'static) -> Self {
        let events: Events = Box::pin(events);
        Takeable(Arc::new(Mutex::new(Some(events))))
    }
}

impl Stream for Takeable {
    type Item = ServerSseMessage;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        match self.0.lock().as_mut() {
            Some(events) => events.as_mut().poll_next(context),
            None => Poll::Pending,
        }
    }
}

/// The sessions.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    visits: Arc<Visits>,
    limit: usize,
    /// By session, the stream that carries what the server says unasked.
    carriers: Mutex<HashMap<SessionId, Arc<AsyncMutex<Carrier>>>>,
}

/// The stream that carries what the server says unasked. Locked while another takes over from it.
#[derive(Default)]
struct Carrier(Weak<Mutex<Option<Events>>>);

impl Carrier {
    /// Silences the stream, so that the library hands what comes to the next one.
    fn silence(&self) {
        if let Some(events) = self.0.upgrade() {
            *events.lock() = None;
        }
    }

    /// Has another stream carry it.
    fn replace(&mut self, events: impl Stream<Item = ServerSseMessage> + Send + 'static) -> Takeable {
        let events = Takeable::new(events);
        self.0 = Arc::downgrade(&events.0);
        events
    }
}

impl Sessions {
    pub(super) fn new(limits: HttpLimits, visits: Arc<Visits>) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(limits.idle);
        Sessions { inner, visits, limit: limits.sessions, carriers: Mutex::default() }
    }

    /// A client begins to listen to what the server says unasked.
    fn listen(&self, id: &SessionId) -> Result<(Listening, Arc<AsyncMutex<Carrier>>), Trouble> {
        let not_found = || LocalSessionManagerError::SessionNotFound(id.clone());
        let listening = self.visits.listen(id).ok_or_else(not_found)?;
        Ok((listening, Arc::clone(self.carriers.lock().entry(id.clone()).or_default())))
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
        self.carriers.lock().remove(id);
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
        let (listening, carrier) = self.listen(id)?;
        let mut carrier = carrier.lock().await;
        carrier.silence();
        let handed = listening.handed();
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(carrier.replace(stream.filter_map(move |event| ready(unasked(event, handed, Some(&listening))))))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Trouble> {
        // An answer's stream has the number of its request in its ids; the one for what is said unasked has none.
        if last_event_id.contains('/') {
            return Ok(Takeable::new(self.inner.resume(id, last_event_id).await?));
        }
        let (listening, carrier) = self.listen(id)?;
        let mut carrier = carrier.lock().await;
        carrier.silence();
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(carrier.replace(stream.filter_map(move |event| ready(unasked(event, 0, Some(&listening))))))
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
