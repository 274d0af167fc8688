//! Lists of members as they come from the broker: what of them is proven is taken, and the rest is told.

use std::sync::Arc;

use hostel_syncpoint::SyncPoint;
use hostel_wire::frames::server::Roster as RosterFrame;
use serde_json::json;

use super::calls::Line;
use crate::events::NewEvent;
use crate::mesh::core::Core;
use crate::roster::Admission;

/// Events about members that are told at once; a broker could make up any number.
const MAX_NOTICES: usize = 32;

/// Takes a list, or a part of one; `true` once a whole one is here. `is_first` for the lists that a connection begins
/// with: members that say there that they sign must do so from the present end of the log on.
pub(super) async fn take(core: &Arc<Core>, line: &Line, frame: RosterFrame, whole: bool, is_first: bool) -> bool {
    let signs_from = is_first.then(|| line.welcome.log.last_seq.saturating_add(1));
    let admission = Admission { signs_from, ..core.admission() };
    let admitted = core.roster.take_part(frame, whole, &admission);
    if !admitted.notices.is_empty() {
        let told = admitted.notices.iter().take(MAX_NOTICES).map(|notice| {
            let (event, mut data) = notice.told();
            core.log.warn(event, data.clone());
            data["mesh"] = core.me.slug.clone().into();
            data["event"] = event.into();
            NewEvent::new("system", data)
        });
        core.publish_all(told.collect()).await;
    }
    let core = Arc::clone(core);
    hostel_tasks::spawn(async move { keep(&core).await });
    admitted.is_whole
}

/// Stores what was learned about members. What cannot be stored now is stored with the next message.
pub(super) async fn keep(core: &Core) {
    if let Err(error) = core.inbox.keep_authors(SyncPoint::NONE).await {
        core.log.warn("authors_not_kept", json!({"error": error.to_string()}));
    }
}
