//! The MCP sessions of the door, no more than there may be.
//!
//! Invariant: a session that is over is known to be over everywhere: its calls are cancelled at once. When all places
//! are taken, the session that was idle longest gives up its own; one that is in use never does.

use std::sync::Arc;

use futures_util::Stream;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManagerError;
use thiserror::Error;

use super::HttpLimits;
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
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Trouble> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}
