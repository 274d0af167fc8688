//! What processes inside the house may do here: the table's rules, applied before a method is served.
//!
//! Invariant: a method is served only after its rule was looked at. One that is about a session names it as `session_id`,
//! and that session is looked at here; lists are cut by the methods themselves, and so are new sessions.

use hostel_house::insiders::Own;

use super::Params;
use super::visitor::Visitor;
use super::visitor::refused;
use crate::rpc::Failure;

/// Whether the client may use a method with these parameters.
pub(super) async fn check(visitor: &Visitor, method: &str, params: &Params) -> Result<(), Failure> {
    let rights = &visitor.rights;
    let Some(own) = rights.check(method).await.map_err(|refusal| refused(&refusal))? else { return Ok(()) };
    // A session that is missing or no text is told by the method, in its own words.
    let session = params.text("session_id").ok().flatten();
    let checked = match (own, session) {
        (Own::SessionList | Own::NewSession, _) => Ok(()),
        (Own::Session | Own::Configured | Own::Made | Own::Prompted | Own::Content, None) => Ok(()),
        (Own::Session | Own::Configured, Some(session)) => rights.may_use(method, session).await,
        (Own::Made, Some(session)) => rights.may_end(method, session).await,
        (Own::Prompted | Own::Content, Some(session)) => rights.may_prompt(method, session).await,
        // Nothing of this door.
        (Own::Started | Own::Seen | Own::SeenList | Own::Name | Own::Request | Own::Mailbox, _) => {
            Err(rights.refuse(method, session.unwrap_or_default()).await)
        }
    };
    checked.map_err(|refusal| refused(&refusal))
}
