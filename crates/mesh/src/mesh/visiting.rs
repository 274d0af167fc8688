//! Sessions as callers see them.

use std::sync::Arc;

use hostel_wire::iso;

use super::{Mesh, Refusal, RegisterRequest, Registered, SessionItem, SessionRef};
use crate::sessions::Session;

impl Mesh {
    /// A session begins.
    pub async fn session_register(&self, request: RegisterRequest) -> Result<Registered, Refusal> {
        self.core.check()?;
        let session = self.core.sessions.register(request)?;
        // Rows it left behind are its own to send again.
        self.core.wake();
        Ok(Registered {
            ok: true,
            registered_at: iso(session.entry.registered_at),
            presence_accepted: session.entry.presence,
            address: self.address(&session),
        })
    }

    /// A session ends; `false` if nobody has this token.
    pub async fn session_remove(&self, token: &str) -> bool {
        let removed = self.core.sessions.remove(token);
        // What it still owes is the member's to send now.
        self.core.wake();
        removed
    }

    /// The session that shows this token.
    #[must_use]
    pub fn session_by_token(&self, token: &str) -> Option<SessionRef> {
        self.core.sessions.by_token(token).map(|session| session.reference())
    }

    /// A session.
    #[must_use]
    pub fn session(&self, session: &SessionRef) -> Option<SessionItem> {
        self.core.sessions.by_id(&session.id).map(|session| self.session_item(&session))
    }

    /// All sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionItem> {
        self.core.sessions.running().iter().map(|session| self.session_item(session)).collect()
    }

    fn address(&self, session: &Session) -> String {
        format!("{}/{}", self.core.display_name(), session.entry.name)
    }

    fn session_item(&self, session: &Arc<Session>) -> SessionItem {
        let entry = &session.entry;
        SessionItem {
            session_id: entry.session_id.clone(),
            mesh: self.core.me.slug.clone(),
            display_name: entry.name.clone(),
            address: self.address(session),
            pid: entry.pid,
            cwd: entry.cwd.clone(),
            role: entry.role.clone(),
            groups: entry.groups.clone(),
            registered_at: iso(entry.registered_at),
            pubkey: entry.presence.then(|| session.pubkey.clone()),
            connected: session.is_connected(),
        }
    }
}
