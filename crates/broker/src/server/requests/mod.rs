//! Everything that can be asked of a broker besides sending: each request has one answer with its `_reqId`.
//!
//! Invariant: who may do what is the registry's to say; here words become calls and results become words. An answer is
//! never longer than a frame may be: long lists are cut and say so.

mod files;
mod history;
mod keys;
mod peers;
mod people;
mod shared;
mod topics;

use std::sync::Arc;

use hostel_wire::frames::client::{Call, Request};
use hostel_wire::frames::server::{Answer, ErrorFrame, ServerFrame};
use serde_json::{Map, Value, json};

use super::Broker;
use super::connection::{Connection, Status};
use crate::engine::Engine;
use crate::registry::{Mesh, RegistryError};

/// The longest `_reqId` that is echoed.
const REQ_ID: usize = 256;

/// What a request comes to.
pub(super) enum Reply {
    /// An answer of a type of its own.
    Of(&'static str, Value),
    /// `ok`, with what there is to say.
    Ok(Value),
    /// Nothing, unless the asker wants to be told: the first protocol has no answer.
    Silent,
    /// A frame that is an answer by itself.
    Frame(Box<ServerFrame>),
}

pub(super) type Outcome = Result<Reply, RegistryError>;

/// Who asks, about which mesh.
pub(super) struct Asker<'a, E: Engine> {
    pub(super) broker: &'a Arc<Broker<E>>,
    pub(super) connection: &'a Arc<Connection>,
}

impl<E: Engine> Asker<'_, E> {
    pub(super) fn mesh_id(&self) -> &str {
        &self.connection.mesh
    }

    pub(super) fn member(&self) -> &str {
        &self.connection.member
    }

    /// As much of a list as fits into an answer, and whether that is not all.
    pub(super) fn fitting(&self, items: impl IntoIterator<Item = Value>) -> (Vec<Value>, bool) {
        let mut bytes = 0;
        let mut kept = Vec::new();
        for item in items {
            bytes += item.to_string().len() + 1;
            if bytes > self.broker.settings.list_bytes && !kept.is_empty() {
                return (kept, true);
            }
            kept.push(item);
        }
        (kept, false)
    }

    /// A list as an answer has it: as much as fits, each item with its place, and `next`, the place of the last one, if that
    /// is not all. Whoever gives it as `after` gets what comes behind it.
    pub(super) fn paged(&self, name: &str, items: impl IntoIterator<Item = (String, Value)>) -> Value {
        let mut places = Vec::new();
        let (items, more) = self.fitting(items.into_iter().map(|(place, item)| {
            places.push(place);
            item
        }));
        let next = places.get(items.len().saturating_sub(1)).filter(|_| more);
        json!({name: items, "more": more, "next": next})
    }

    /// The mesh as it is now, if the asker is still in it.
    pub(super) fn mesh(&self) -> Result<Arc<Mesh>, RegistryError> {
        let mesh = self.broker.registry.mesh(self.mesh_id()).ok_or(RegistryError::MeshNotFound)?;
        match mesh.member(self.member()).is_some_and(|member| member.is_active()) {
            true => Ok(mesh),
            false => Err(RegistryError::Forbidden("you are not a member of this mesh".to_owned())),
        }
    }
}

/// The frame that answers a request, if it is answered.
pub(crate) async fn answer<E: Engine>(
    broker: &Arc<Broker<E>>,
    connection: &Arc<Connection>,
    request: Request,
) -> Option<String> {
    let req_id = request.req_id.filter(|id| id.len() <= REQ_ID);
    let asker = Asker { broker, connection };
    let frame = match asker.call(request.call, req_id.clone()).await {
        Ok(Reply::Of(r#type, value)) => ServerFrame::Answer(answer_of(r#type, req_id, value)),
        Ok(Reply::Ok(value)) => ServerFrame::Answer(answer_of("ok", req_id, value)),
        Ok(Reply::Silent) => ServerFrame::Answer(answer_of("ok", Some(req_id?), json!({}))),
        Ok(Reply::Frame(frame)) => *frame,
        Err(error) => ServerFrame::Error(ErrorFrame {
            code: error.code().to_owned(),
            message: error.to_string(),
            id: req_id.clone(),
            req_id,
        }),
    };
    Some(frame.encode())
}

fn answer_of(r#type: &str, req_id: Option<String>, value: Value) -> Answer {
    let fields = match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    Answer { r#type: r#type.to_owned(), req_id, fields }
}

/// A place in a list that is sorted by time: the time, and the id of what is there.
pub(super) fn dated(place: &str) -> Result<(u64, &str), RegistryError> {
    let read = || {
        let (at, id) = place.split_once(':')?;
        Some((at.parse().ok()?, id))
    };
    read().ok_or_else(|| RegistryError::Invalid("`after` is no place in this list".to_owned()))
}

fn status(word: &str) -> Result<Status, RegistryError> {
    let invalid = || RegistryError::Invalid("`status` must be `idle`, `working` or `dnd`".to_owned());
    Status::parse(word).ok_or_else(invalid)
}

impl<E: Engine> Asker<'_, E> {
    async fn call(&self, call: Call, req_id: Option<String>) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let (registry, connection) = (&self.broker.registry, self.connection);
        match call {
            Call::ListPeers { all, after } => self.list_peers(all, after.as_deref()),
            Call::SetStatus { status: word } => {
                self.broker.set_presence(connection, Some(status(&word)?), None, None).await?;
                Ok(Reply::Silent)
            }
            Call::SetSummary { summary } => {
                self.broker.set_presence(connection, None, Some(summary), None).await?;
                Ok(Reply::Silent)
            }
            Call::SetVisible { visible } => {
                self.broker.set_presence(connection, None, None, Some(visible)).await?;
                Ok(Reply::Ok(json!({"visible": visible})))
            }
            Call::PresenceSet { status: word, summary, visible } => {
                let word = word.as_deref().map(status).transpose()?;
                self.broker.set_presence(connection, word, summary, visible).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::SetProfile { profile } => {
                registry.set_profile(mesh, member, profile).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::JoinGroup { name, role } => {
                registry.join_group(mesh, member, &name, role).await?;
                Ok(Reply::Silent)
            }
            Call::LeaveGroup { name } => {
                registry.leave_group(mesh, member, &name).await?;
                Ok(Reply::Silent)
            }
            Call::Rename { display_name } => {
                let after = registry.rename(mesh, member, &display_name).await?;
                let name = after.member(member).map(|member| member.name.clone());
                Ok(Reply::Ok(json!({"displayName": name})))
            }
            Call::Leave { after_hours } => {
                registry.leave(mesh, member, after_hours).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::GrantSet { target, capabilities } => {
                let sender = registry.grant_set(mesh, member, &target, capabilities).await?;
                Ok(Reply::Ok(people::who(&sender)))
            }
            Call::GrantList { after } => {
                let grants = registry.grant_list(mesh, member)?;
                let behind = |id: &str| after.as_deref().is_none_or(|after| id > after);
                let grants =
                    grants.into_iter().filter(|(sender, _)| behind(&sender.id)).map(|(sender, capabilities)| {
                        let mut grant = people::who(&sender);
                        grant["capabilities"] = json!(capabilities);
                        (sender.id.clone(), grant)
                    });
                Ok(Reply::Of("grants_list", self.paged("grants", grants)))
            }
            call @ (Call::TopicCreate { .. }
            | Call::TopicList { .. }
            | Call::TopicJoin { .. }
            | Call::TopicLeave { .. }
            | Call::TopicSubscribe { .. }
            | Call::TopicUnsubscribe { .. }
            | Call::TopicMembers { .. }
            | Call::TopicDelete { .. }
            | Call::TopicKeyPut { .. }
            | Call::TopicKeyGet { .. }) => self.topics(call, req_id).await,
            call @ (Call::RotateKey { .. }
            | Call::MemberState { .. }
            | Call::TopicKeyReplace { .. }
            | Call::FileKeyReplace { .. }) => self.keys(call).await,
            call @ (Call::History { .. } | Call::TopicHistory { .. } | Call::MessageStatus { .. }) => {
                self.history(call).await
            }
            call @ (Call::Revoke { .. }
            | Call::Kick { .. }
            | Call::Disconnect { .. }
            | Call::Ban { .. }
            | Call::Unban { .. }
            | Call::ListBans { .. }
            | Call::InviteCreate { .. }
            | Call::InviteList { .. }
            | Call::InviteRevoke { .. }
            | Call::AuditQuery { .. }) => self.people(call).await,
            call @ (Call::GetFile { .. }
            | Call::ListFiles { .. }
            | Call::DeleteFile { .. }
            | Call::GrantFileAccess { .. }) => self.files(call).await,
            call @ (Call::StateSet(_)
            | Call::StateGet(_)
            | Call::StateList(_)
            | Call::TaskCreate(_)
            | Call::TaskStep(_)
            | Call::TaskGet(_)
            | Call::TaskList(_)
            | Call::SharedLinks(_)
            | Call::SharedLinkPut(_)) => self.shared(call).await,
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }
}
