//! What can be done to a session besides prompting it.
//!
//! Invariant: an answer does not wait for an agent to die. The house has settled the matter when it is given, and
//! the rest follows.

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Mode;
use hostel_house::approvals::DecideError;
use hostel_house::approvals::Passphrase;
use hostel_house::insiders::RaiseError;
use hostel_house::sessions::Cause;
use hostel_house::sessions::ModeChange;
use hostel_house::sessions::ModeError;
use hostel_house::sessions::Scope;
use hostel_house::sessions::Session;
use hostel_house::sessions::Standing;
use hostel_house::sessions::Status;
use serde_json::Value;
use serde_json::json;

use super::Params;
use super::attachments;
use super::code;
use super::new;
use super::time;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use super::visitor::refused;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// How long an answer waits for an agent to be gone; the contract's client waits five seconds for anything.
const PATIENCE: Duration = Duration::from_secs(3);

/// `session/cancel`: the running turn, by the session's owner.
pub(crate) async fn cancel(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let session = visitor.house().sessions.get(id);
    let mine = session.filter(|session| visitor.face.is_native() || visitor.owns(session));
    let Some(session) = mine else {
        return Err(Failure::new(code::NOT_OWNER, format!("there is no session `{id}` of yours")));
    };
    let running = session.info().running_turn;
    if !session.interrupt(Scope::Running, Cause::ClientRpc).await {
        return Err(Failure::new(code::NO_SESSION, format!("nothing runs in session `{id}`")));
    }
    visitor.house().turns.hush(id, running);
    Ok(json!({"session_id": id, "cancelled": true}))
}

/// `session/interrupt`: the running turn and everything that waits.
pub(crate) async fn interrupt(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let session = visitor.live(id)?;
    let interrupted = session.interrupt(Scope::Everything, Cause::ClientRpc).await;
    if interrupted {
        visitor.house().turns.hush_all(id);
    }
    Ok(json!({"session_id": id, "interrupted": interrupted}))
}

/// `session/close`: whatever runs is cancelled; history stays.
pub(crate) async fn close(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let session = visitor.live(id)?;
    visitor.house().turns.hush_all(id);
    patiently(async move { session.close(Cause::SessionRemoved).await }).await?;
    Ok(json!({"session_id": id, "closed": true}))
}

/// `session/kill`: closed, and never to come back.
pub(crate) async fn kill(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let (sessions, owned) = (visitor.house().sessions.clone(), id.to_owned());
    if sessions.get(id).is_none() {
        // One that was killed already is not there any more, as little as one that never was.
        let stored = sessions.stored(id).await.map_err(internal)?;
        stored.filter(|stored| stored.standing != Standing::Killed).ok_or_else(|| no_session(id))?;
    }
    visitor.house().turns.hush_all(id);
    match patiently(async move { sessions.kill(&owned).await }).await? {
        Some(false) => Err(no_session(id)),
        Some(true) | None => Ok(json!({"session_id": id, "killed": true})),
    }
}

/// `session/delete`: closed and forgotten, with its files.
pub(crate) async fn delete(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    visitor.house().turns.hush_all(id);
    let (sessions, owned) = (visitor.house().sessions.clone(), id.to_owned());
    let uploads = attachments::directory(&visitor.house().settings.data_dir, id);
    let deleted = patiently(async move {
        let deleted = sessions.delete(&owned).await?;
        if deleted {
            // Often there are none.
            tokio::fs::remove_dir_all(uploads).await.ok();
        }
        Ok(deleted)
    });
    Ok(json!({"session_id": id, "deleted": deleted.await?.unwrap_or(true)}))
}

/// Waits for something that goes on by itself, for as long as an answer may take; none if that was too short.
async fn patiently<T: Send + 'static>(
    work: impl Future<Output = Result<T, hostel_house::store::StoreError>> + Send + 'static,
) -> Result<Option<T>, Failure> {
    match tokio::time::timeout(PATIENCE, hostel_tasks::spawn(work)).await {
        Ok(Ok(done)) => done.map(Some).map_err(internal),
        Ok(Err(error)) => Err(internal(error)),
        Err(_) => Ok(None),
    }
}

const CONFIGURE: &str = "session/configure";

/// Changes the mode. Raising it is refused to processes inside the house, and takes the approver's passphrase where
/// `approvals.strict` is set.
async fn set_mode(visitor: &Visitor, params: &Params, session: &Arc<Session>, mode: Mode) -> Result<(), Failure> {
    let may_raise = mode > session.mode();
    if may_raise {
        let shown = params.text("passphrase")?.map(|text| Passphrase::new(text.to_owned()));
        visitor.rights.may_raise(CONFIGURE, shown, session.id()).await.map_err(|error| match error {
            RaiseError::Refused(refusal) => refused(&refusal),
            RaiseError::Passphrase(DecideError::Store(error)) => internal(error),
            RaiseError::Passphrase(why) => Failure::new(
                code::NOT_OWNER,
                format!("{why}; `hostel sessions mode {} {}` asks for it", session.id(), mode.name()),
            ),
        })?;
    }
    let who = visitor.identity().map(|identity| identity.id).unwrap_or_default();
    let change = ModeChange { mode, who: format!("{} ({who})", visitor.rights.label()), may_raise };
    session.set_mode(change).await.map_err(|error| match error {
        ModeError::Raises(_) => Failure::new(code::NOT_OWNER, format!("{error}: it was changed meanwhile")),
        ModeError::Store(error) => internal(error),
    })
}

/// `session/configure`: from the next turn on.
pub(crate) async fn configure(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let session = visitor.live(id)?;
    let overrides = params.get("overrides")?.cloned().unwrap_or_else(|| json!({}));
    let overrides = Params::of(&overrides, "`overrides`")?;
    let (mode, mesh) = (new::mode(params)?, new::mesh(params)?);
    let name = params.text("name")?.map(str::to_owned);
    let model = overrides.text("model")?.or(params.text("model")?).map(str::to_owned);
    // Everything is checked before anything is changed.
    if let Some(mesh) = mesh {
        visitor.rights.may_change_mesh(CONFIGURE, &session.info(), mesh).await.map_err(|refusal| refused(&refusal))?;
    }
    if let Some(mode) = mode {
        set_mode(visitor, params, &session, mode).await?;
    }
    if let Some(model) = model {
        session.set_model(Some(model).filter(|model| !model.is_empty())).await.map_err(internal)?;
    }
    if let Some(name) = name {
        session.set_name(Some(name).filter(|name| !name.is_empty())).await.map_err(internal)?;
    }
    if let Some(mesh) = mesh {
        session.set_mesh(mesh).await.map_err(internal)?;
    }
    let info = session.info();
    let mut overrides = json!({});
    if let Some(model) = &info.model_chosen {
        overrides["model"] = json!(model);
    }
    let mut answer = json!({
        "session_id": id,
        "overrides": overrides,
        "mode": info.mode.name(),
        "model": info.model_chosen,
        "name": info.name,
    });
    if visitor.face.is_native() {
        answer["mesh"] = json!(info.mesh.word());
        answer["address"] = json!(info.address);
    }
    Ok(answer)
}

/// `session/state`: idle or running, also of a session that is not live.
pub(crate) async fn state(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let sessions = &visitor.house().sessions;
    let info = match sessions.get(id) {
        Some(session) => session.info(),
        None => sessions.stored(id).await.map_err(internal)?.ok_or_else(|| no_session(id))?,
    };
    let state = match info.status {
        Status::Idle => "idle",
        Status::Busy => "running",
    };
    let mut answer = json!({"session_id": id, "state": state});
    if let Some(turn) = info.running_turn {
        answer["turn_id"] = json!(turn.to_string());
        answer["turn_started_at"] = json!(time::rfc3339(info.active_ns));
    }
    Ok(answer)
}

/// `session/git_branch`: branch and commit of the session's directory; nothing outside a repository.
pub(crate) async fn git_branch(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let session = visitor.live(id)?;
    let head = visitor.house().git.head(&session.info().cwd).await.map_err(internal)?;
    let (branch, commit) = head.map(|head| (head.branch, head.commit)).unwrap_or_default();
    let mut answer = json!({"session_id": id});
    for (key, found) in [("branch", branch), ("hash", commit)] {
        if let Some(found) = found {
            answer[key] = Value::String(String::from_utf8_lossy(&found).into_owned());
        }
    }
    Ok(answer)
}
