//! What processes inside the house may do here: the table's rules, applied before a method is served.
//!
//! Invariant: a method is served only after its rule was looked at. One that is about a session names it as `sessionId`,
//! and that session is looked at here; lists and new sessions are cut by the methods themselves.

use hostel_house::insiders::{Own, Refusal, Rights};
use serde_json::Value;

/// Whether the caller may use a method with these parameters.
pub(super) async fn check(rights: &Rights, method: &str, params: Option<&Value>) -> Result<(), Refusal> {
    let Some(own) = rights.check(method).await? else { return Ok(()) };
    // A session that is missing is told by the method, in the contract's words.
    let session = params.and_then(|params| params.get("sessionId")).and_then(Value::as_str);
    match (own, session) {
        (Own::SessionList | Own::NewSession, _) => Ok(()),
        (Own::Session | Own::Configured | Own::Made | Own::Prompted, None) => Ok(()),
        (Own::Session | Own::Configured, Some(session)) => rights.may_use(method, session).await,
        (Own::Made, Some(session)) => rights.may_end(method, session).await,
        (Own::Prompted, Some(session)) => rights.may_prompt(method, session).await,
        // Nothing of this door.
        (Own::Started | Own::Seen | Own::SeenList | Own::Name | Own::Content | Own::Request | Own::Mailbox, _) => {
            Err(rights.refuse(method, session.unwrap_or_default()).await)
        }
    }
}
