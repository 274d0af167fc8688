//! `/v1/sessions/…`: sessions of the member on this host.
//!
//! Invariant: a token that registers a session is never given back by anything.

use hostel_mesh::{Caller, RegisterRequest};
use hostel_wire::frames::Group;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::guard;
use super::super::respond::Asked;
use super::{Outcome, this_mesh};

pub(super) async fn register(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let request = register_request(&fields)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    Ok(answer::ok(&asked.door.mesh.session_register(request).await?))
}

/// Reads a registration.
pub(in super::super) fn register_request(fields: &Fields<'_>) -> Result<RegisterRequest, Refused> {
    let token = fields.required("token")?;
    if !is_token(&token) {
        return Err(Refused::field("token", "`token` has 64 hex digits"));
    }
    // Older clients say here what the connection shall be vouched for with; that they say something is what counts.
    let presence = match fields.value("presence")? {
        None => false,
        Some(Value::Bool(wanted)) => wanted,
        Some(Value::Object(_)) => true,
        Some(_) => return Err(Refused::field("presence", "`presence` must be true or false")),
    };
    let groups: Option<Vec<Group>> = fields.typed("groups", "a list of groups with names")?;
    Ok(RegisterRequest {
        token: token.to_ascii_lowercase(),
        session_id: fields.required("session_id")?,
        display_name: fields.required("display_name")?,
        pid: fields.number(&["pid"])?.ok_or_else(|| Refused::field("pid", "`pid` is missing"))?,
        cwd: fields.text("cwd")?,
        role: fields.text("role")?,
        groups: groups.unwrap_or_default(),
        presence,
    })
}

fn is_token(token: &str) -> bool {
    token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn me(asked: &Asked) -> Outcome {
    let session = asked.caller.session().and_then(|session| asked.door.mesh.session(session));
    Ok(answer::ok(&session.ok_or_else(guard::no_session)?))
}

pub(super) fn list(asked: &Asked) -> Outcome {
    Ok(answer::ok(&json!({"sessions": asked.door.mesh.sessions()})))
}

pub(super) async fn remove(asked: &Asked) -> Outcome {
    let missing = || Refused::new(StatusCode::NOT_FOUND, "session_not_found", "no session has this token");
    let token = asked.part.to_ascii_lowercase();
    let session =
        Some(&token).filter(|token| is_token(token)).and_then(|token| asked.door.mesh.session_by_token(token));
    let Some(session) = session else { return Err(missing()) };
    if !matches!(&asked.caller, Caller::Member) && asked.caller.session() != Some(&session) {
        return Err(missing());
    }
    if !asked.door.mesh.session_remove(&token).await {
        return Err(missing());
    }
    Ok(answer::ok(&json!({"ok": true})))
}
