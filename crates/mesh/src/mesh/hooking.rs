//! What hooks and their tokens may do with a mesh.
//!
//! Invariant: a token sends where its event allows and nowhere else; whatever is outside of that is refused with one and
//! the same word, whether it exists or not. What is sent says how many hooks in a row led to it, and goes through the
//! gate like everything else.

use std::sync::Arc;

use hostel_wire::topic as names;
use serde_json::{Map, Value, json};

use super::core::Core;
use super::{Caller, Mesh, PostRequest, Refusal, SendRequest, Sent};
use crate::hooks::{Grant, HOP};
use crate::resolve::{self, Target};

impl Mesh {
    /// The mesh that all this is a part of.
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// What a hook's token stands for, if it is good.
    #[must_use]
    pub fn capability(&self, token: &[u8]) -> Option<Arc<Grant>> {
        self.core.hooks.grant(token)
    }

    /// A hook asked for something that no token opens.
    pub fn capability_denied(&self, grant: &Grant, what: &str) -> Refusal {
        self.core.metrics.hooks.called(grant.hook.label(), "denied");
        self.core.log.warn(
            "hook_capability_denied",
            json!({"hook": grant.hook.to_string(), "event_id": grant.event_id, "asked_for": what}),
        );
        Refusal::new("capability_denied", "this hook's token is for answering its own event, as `hooks.toml` says")
    }

    /// Takes a message of a hook.
    pub async fn send_as_hook(&self, grant: &Grant, request: SendRequest) -> Result<Sent, Refusal> {
        let to = request.to.trim();
        if to.starts_with('#') {
            let SendRequest { to, message, priority, meta, reply_to, client_message_id, mentions } = request;
            let post = PostRequest { topic: to, message, priority, mentions, meta, reply_to, client_message_id };
            return self.post_as_hook(grant, post).await;
        }
        // Whom it means is looked up here alone; what it does not mean is not said.
        let (member, session) = match resolve::target(&self.core.roster, to) {
            Ok(Target::Member(member, session)) => (member.id, session),
            _ => return Err(self.capability_denied(grant, "send")),
        };
        let Some(scope) = grant.may_write_to(&member) else { return Err(self.capability_denied(grant, "send")) };
        self.core.metrics.hooks.called(grant.hook.label(), scope);
        let request = SendRequest {
            // By its id from here on: names may change hands before it is looked up again.
            to: session.map_or_else(|| member.clone(), |session| format!("{member}/{session}")),
            meta: Some(counted(grant, request.meta)),
            reply_to: Some(request.reply_to.unwrap_or_else(|| grant.row.client_message_id.clone())),
            client_message_id: Some(request.client_message_id.unwrap_or_else(|| grant.next_id())),
            ..request
        };
        self.send(request, &Caller::Member).await
    }

    /// Takes a post of a hook.
    pub async fn post_as_hook(&self, grant: &Grant, request: PostRequest) -> Result<Sent, Refusal> {
        let topic = names::topic_name(&request.topic).ok();
        let Some(scope) = topic.and_then(|topic| grant.may_post_to(&topic)) else {
            return Err(self.capability_denied(grant, "topic/post"));
        };
        self.core.metrics.hooks.called(grant.hook.label(), scope);
        let request = PostRequest {
            meta: Some(counted(grant, request.meta)),
            reply_to: Some(request.reply_to.unwrap_or_else(|| grant.row.client_message_id.clone())),
            client_message_id: Some(request.client_message_id.unwrap_or_else(|| grant.next_id())),
            ..request
        };
        self.topic_post(request, &Caller::Member).await
    }
}

/// What goes beside a hook's message, with how many hooks in a row led to it.
fn counted(grant: &Grant, meta: Option<Value>) -> Value {
    let mut meta = match meta {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.insert(HOP.to_owned(), grant.hop().into());
    Value::Object(meta)
}
