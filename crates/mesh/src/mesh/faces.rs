//! What others see of a session: it has a connection of its own and shows itself there, not the member.
//!
//! Invariant: what was shown is told again on each connection of that session, and forgotten with the session. A session
//! without a connection of its own is not seen, so nothing of it is shown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::client::Call;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::core::{Appearance, Core};
use super::{ProfileChange, Refusal};
use crate::link::calls::Line;
use crate::sessions::Session;

/// A sign that a session is busy is passed on this often; the broker forgets it after a minute.
const BUSY: Duration = Duration::from_secs(20);

/// All sessions that are or will be seen.
#[derive(Default)]
pub(crate) struct Faces(Mutex<HashMap<String, Face>>);

#[derive(Default)]
struct Face {
    line: Option<Arc<Line>>,
    shown: Appearance,
    /// When it was last said to be busy.
    busy: Option<Instant>,
}

impl Faces {
    /// A session's connection stands: what it shows is told.
    pub(crate) async fn came(&self, session: &Session, line: &Arc<Line>) {
        let shown = {
            let mut faces = self.0.lock();
            let face = faces.entry(session.entry.session_id.clone()).or_default();
            face.line = Some(Arc::clone(line));
            face.shown.clone()
        };
        if shown != Appearance::default() {
            // What fails is told on the next connection.
            tell(line, shown).await.ok();
        }
    }

    /// It stands no more; with the session's end all of it is forgotten.
    pub(crate) fn went(&self, core: &Core, session: &Session, line: &Arc<Line>) {
        let id = &session.entry.session_id;
        let mut faces = self.0.lock();
        let Some(face) = faces.get_mut(id) else { return };
        // Another connection of it may stand already.
        if face.line.as_ref().is_some_and(|known| !Arc::ptr_eq(known, line)) {
            return;
        }
        face.line = None;
        if core.sessions.by_id(id).is_none() {
            faces.remove(id);
        }
    }

    /// Changes what a session shows; the names of what was used.
    pub(super) async fn change(&self, session: &Session, change: ProfileChange) -> Result<Vec<String>, Refusal> {
        if !session.entry.presence {
            return Ok(Vec::new());
        }
        let ProfileChange { summary, status, visible, .. } = change;
        let given = [("summary", summary.is_some()), ("status", status.is_some()), ("visible", visible.is_some())];
        let line = {
            let mut faces = self.0.lock();
            let face = faces.entry(session.entry.session_id.clone()).or_default();
            face.shown.summary = summary.clone().or(face.shown.summary.take());
            face.shown.status = status.clone().or(face.shown.status.take());
            face.shown.visible = visible.or(face.shown.visible);
            face.line.clone()
        };
        if let Some(line) = line.filter(|_| given.iter().any(|(_, given)| *given)) {
            tell(&line, Appearance { status, summary, visible, ..Appearance::default() }).await?;
        }
        Ok(given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned()).collect())
    }

    /// A session is busy.
    pub(super) async fn busy(&self, session: &Session) {
        let line = {
            let mut faces = self.0.lock();
            let Some(face) = faces.get_mut(&session.entry.session_id) else { return };
            if face.busy.is_some_and(|since| since.elapsed() < BUSY) {
                return;
            }
            face.busy = Some(Instant::now());
            face.line.clone()
        };
        if let Some(line) = line {
            let status = Some("working".to_owned());
            tell(&line, Appearance { status, ..Appearance::default() }).await.ok();
        }
    }
}

async fn tell(line: &Line, shown: Appearance) -> Result<(), Refusal> {
    let Appearance { status, summary, visible, .. } = shown;
    line.ask(Call::PresenceSet { status, summary, visible }).await.map(drop)
}
