//! `session/new`: a session is made, taken over, or brought back.
//!
//! Invariant: a live session stays as it is; only whose it is changes. Nothing is started, so the answer comes at once.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_agents::Hosting;
use hostel_agents::Mode;
use hostel_house::sessions::MeshPolicy;
use hostel_house::sessions::NewSession;
use hostel_house::sessions::Session;
use hostel_house::sessions::SessionError;
use hostel_house::sessions::SessionInfo;
use hostel_house::sessions::Standing;
use hostel_house::sessions::variables;
use serde_json::json;

use super::Params;
use super::code;
use super::listing;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use super::visitor::refused as not_own;
use crate::rpc::Failure;
use crate::rpc::Outcome;

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(code::PARAMS, message)
}

/// Makes, takes over or brings back a session, for the client that asks.
pub(crate) async fn new(visitor: &Visitor, params: &Params) -> Outcome {
    let mut new = wanted(visitor, params)?;
    new.maker = visitor.rights.maker().await;
    if new.maker.is_some() {
        // The daemon reads the mail of whom these lead to: a process inside the house must not choose.
        new.env.retain(|(name, _)| !variables::ALL.iter().any(|known| name == known));
    }
    let session = match &new.id {
        None => create(visitor, new).await?,
        Some(id) => match visitor.house().sessions.get(id) {
            Some(session) => {
                may_take(visitor, id).await?;
                take(visitor, session, &new.agent).await?
            }
            None => match visitor.house().sessions.stored(id).await.map_err(internal)? {
                Some(stored) => {
                    may_take(visitor, id).await?;
                    bring_back(visitor, &stored, &new.agent).await?
                }
                None => create(visitor, new).await?,
            },
        },
    };
    let info = session.info();
    let mut answer = json!({
        "session_id": info.id,
        "agent_alias": info.agent,
        "message_count": listing::message_count(&info),
        "workspace_dir": info.cwd.display().to_string(),
    });
    if visitor.face.is_native() {
        answer["mode"] = json!(info.mode.name());
    }
    Ok(answer)
}

/// Whether the client may have a session that is there already.
async fn may_take(visitor: &Visitor, id: &str) -> Result<(), Failure> {
    visitor.rights.may_use("session/new", id).await.map_err(|refusal| not_own(&refusal))
}

/// What is asked for, checked as far as it can be without the house.
fn wanted(visitor: &Visitor, params: &Params) -> Result<NewSession, Failure> {
    let agent = params.need("agent_alias")?.to_owned();
    let cwd = params.text("cwd")?.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|cwd| cwd.is_relative()) {
        return Err(bad("`cwd` must be an absolute path"));
    }
    if !matches!(params.text("chat_mode")?, None | Some("chat" | "acp")) {
        return Err(bad("`chat_mode` is neither `chat` nor `acp`"));
    }
    // Of no consequence here, but a mistake is told as the contract tells it.
    params.flag("exclude_memory")?;
    params.flag("keep_siblings")?;
    let identity = visitor.identity().ok_or_else(|| Failure::new(code::AUTH, "initialize first"))?;
    // Only one's own environment: another client's is none of this one's business.
    let env = match params.text("tui_id")? {
        Some(whose) if whose == identity.id => as_environment(&identity.env)?,
        _ => Vec::new(),
    };
    let settings = &visitor.house().settings;
    Ok(NewSession {
        id: params.text("session_id")?.map(str::to_owned),
        name: params.text("name")?.map(str::to_owned),
        agent,
        cwd,
        mode: mode(params)?,
        model: params.text("model")?.map(str::to_owned),
        hosting: match params.text("hosting")? {
            None | Some("warm") => Hosting::Warm,
            Some("per-message" | "per_message") => Hosting::PerMessage,
            Some(_) => return Err(bad("`hosting` is neither `warm` nor `per-message`")),
        },
        door: visitor.face.door(),
        owner: Some(identity.id),
        env,
        approval_wait: match visitor.face.is_native() {
            true => settings.native_approval_wait,
            false => settings.approval_wait,
        },
        mesh: mesh(params)?,
        maker: None,
    })
}

/// A mode by its name.
pub(crate) fn mode(params: &Params) -> Result<Option<Mode>, Failure> {
    let Some(word) = params.text("mode")? else { return Ok(None) };
    Mode::named(word).map(Some).ok_or_else(|| bad(format!("there is no mode `{word}`: auto, code, plan or ask")))
}

/// What is to become of messages from meshes, by its name.
pub(crate) fn mesh(params: &Params) -> Result<Option<MeshPolicy>, Failure> {
    let Some(word) = params.text("mesh")? else { return Ok(None) };
    MeshPolicy::named(word).map(Some).ok_or_else(|| bad(format!("`mesh` is `off`, `ask` or `on`, not `{word}`")))
}

fn as_environment(env: &[(String, String)]) -> Result<Vec<(OsString, OsString)>, Failure> {
    let possible =
        |(name, value): &&(String, String)| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
    if !env.iter().all(|pair| possible(&pair)) {
        return Err(bad("`env` holds a variable that cannot be one"));
    }
    Ok(env.iter().map(|(name, value)| (name.into(), value.into())).collect())
}

async fn create(visitor: &Visitor, new: NewSession) -> Result<Arc<Session>, Failure> {
    visitor.door.create(new).await.map_err(|error| refused(&error))
}

/// Moves a live session to the client that asks for it.
async fn take(visitor: &Visitor, session: Arc<Session>, agent: &str) -> Result<Arc<Session>, Failure> {
    same_agent(&session.info(), agent)?;
    own(visitor, &session).await?;
    Ok(session)
}

async fn bring_back(visitor: &Visitor, stored: &SessionInfo, agent: &str) -> Result<Arc<Session>, Failure> {
    if stored.standing == Standing::Killed {
        return Err(Failure::new(code::NO_SESSION, format!("the session `{}` was ended for good", stored.id)));
    }
    same_agent(stored, agent)?;
    let session = visitor.door.revive(&stored.door, &stored.id).await.map_err(|error| refused(&error))?;
    own(visitor, &session).await?;
    Ok(session)
}

fn same_agent(info: &SessionInfo, agent: &str) -> Result<(), Failure> {
    match info.agent == agent {
        true => Ok(()),
        false => Err(bad(format!("the session `{}` is one of agent `{}`, not `{agent}`", info.id, info.agent))),
    }
}

async fn own(visitor: &Visitor, session: &Arc<Session>) -> Result<(), Failure> {
    let identity = visitor.identity().map(|identity| identity.id);
    session.set_owner(identity).await.map_err(internal)
}

/// Why there is no session, in the contract's codes.
fn refused(error: &SessionError) -> Failure {
    let code = match error {
        SessionError::NoDirectory(_) | SessionError::BadId(_) => code::PARAMS,
        SessionError::Killed(_) => code::NO_SESSION,
        SessionError::NotFound(id) => return no_session(id),
        SessionError::Limit(_) => code::SESSION_LIMIT,
        SessionError::MoreRights(_) => code::NOT_OWNER,
        SessionError::UnknownAgent { .. } | SessionError::MissingCli { .. } | SessionError::Store(_) => code::INTERNAL,
    };
    Failure::new(code, error.to_string())
}
