//! Sending: what a target means, what the request is, and into the outbox with it.
//!
//! Invariant: whatever is refused here leaves the caller's id free. A request that names an id that was used before is
//! answered from the outbox by what it says, not by how its target was written.

use hostel_wire::body::Body;
use hostel_wire::frames::server::Member;
use hostel_wire::topic as names;
use serde_json::Value;

use super::core::Core;
use super::{Caller, Mesh, PostRequest, Refusal, SendRequest, Sent, ShareRequest};
use crate::link::seal::sealed_len;
use crate::outbox::{AcceptError, DestKind, NewMessage, Payload, Status};
use crate::resolve::{self, Target};
use crate::topics::{Known, talk};

/// Mentions a message may have.
const MOST_MENTIONS: usize = 16;

/// A destination as the outbox has it, and as people see it.
pub(crate) struct Destination {
    pub(crate) kind: DestKind,
    pub(crate) reference: String,
    session: Option<String>,
    member: Option<Box<Member>>,
    topic: Option<String>,
    shown: String,
}

impl Mesh {
    /// Takes a message for somebody. It is on disk when this returns.
    pub async fn send(&self, request: SendRequest, caller: &Caller) -> Result<Sent, Refusal> {
        self.core.check()?;
        let counted = self.try_send(request, caller).await;
        self.count(counted)
    }

    async fn try_send(&self, request: SendRequest, caller: &Caller) -> Result<(Sent, DestKind), Refusal> {
        let destination = destination(&self.core, &request.to, caller).await?;
        let payload = payload(&request.message, request.meta, request.reply_to, &request.mentions, &destination)?;
        self.accept(request.client_message_id, destination, request.priority, payload, caller).await
    }

    /// Takes a post for a topic. It needs no subscription.
    pub async fn topic_post(&self, request: PostRequest, caller: &Caller) -> Result<Sent, Refusal> {
        self.core.check()?;
        let counted = self.try_post(request, caller).await;
        self.count(counted)
    }

    async fn try_post(&self, request: PostRequest, caller: &Caller) -> Result<(Sent, DestKind), Refusal> {
        let name = names::topic_name(&request.topic).map_err(|error| Refusal::field("topic", error.to_string()))?;
        let destination = to_topic(&self.core, &name).await.map_err(|refusal| refusal.about("topic"))?;
        let payload = payload(&request.message, request.meta, request.reply_to, &request.mentions, &destination)?;
        self.accept(request.client_message_id, destination, request.priority, payload, caller).await
    }

    fn count(&self, result: Result<(Sent, DestKind), Refusal>) -> Result<Sent, Refusal> {
        match result {
            Ok((sent, kind)) => {
                let status = if sent.duplicate { "duplicate" } else { "queued" };
                self.core.metrics.sent(kind.as_str(), status, 1);
                if sent.duplicate {
                    self.core.metrics.deduped("out", 1);
                }
                Ok(sent)
            }
            Err(refusal) => {
                self.core.metrics.sent("dm", "rejected", 1);
                Err(refusal)
            }
        }
    }

    pub(super) async fn accept(
        &self,
        client_message_id: Option<String>,
        destination: Destination,
        priority: hostel_wire::frames::Priority,
        payload: Payload,
        caller: &Caller,
    ) -> Result<(Sent, DestKind), Refusal> {
        let core = &self.core;
        check_size(core, &payload, client_message_id.as_deref())?;
        let kind = destination.kind;
        let accepted = core.outbox.accept(NewMessage {
            client_message_id,
            sender_session: caller.session().map(|session| session.id.clone()),
            dest_kind: kind,
            dest_ref: destination.reference,
            priority,
            payload,
        });
        let accepted = accepted.await.map_err(refusal)?;
        let online = destination.member.as_ref().map(|member| core.roster.is_online(&member.id));
        let sent = Sent {
            message_id: accepted.client_message_id.clone(),
            client_message_id: accepted.client_message_id,
            status: match accepted.status {
                Status::Inflight => "inflight",
                Status::Done => "done",
                _ => "queued",
            },
            broker_message_id: accepted.broker_message_id,
            duplicate: accepted.duplicate && accepted.status == Status::Done,
            topic: destination.topic,
            target: Some(destination.shown),
            target_pubkey: destination.member.map(|member| member.pubkey),
            recipient_online: online.filter(|_| core.line().is_ok()),
        };
        Ok((sent, kind))
    }
}

/// What a target means, in the outbox's words.
pub(crate) async fn destination(core: &Core, to: &str, caller: &Caller) -> Result<Destination, Refusal> {
    match resolve::target(&core.roster, to)? {
        Target::Member(member, session) => {
            check_self(core, &member, session.as_deref(), caller)?;
            let reference = match &session {
                Some(session) => format!("{}/{session}", member.id),
                None => member.id.clone(),
            };
            let shown = match &session {
                Some(session) => format!("{}/{session}", member.name),
                None => member.name.clone(),
            };
            Ok(Destination { kind: DestKind::Dm, reference, session, member: Some(member), topic: None, shown })
        }
        Target::All => Ok(plain(DestKind::All, "*".to_owned())),
        Target::Group(name) => Ok(plain(DestKind::Group, format!("@{name}"))),
        Target::Topic(name) => to_topic(core, &name).await.map_err(|refusal| refusal.about("to")),
    }
}

fn plain(kind: DestKind, reference: String) -> Destination {
    Destination { kind, shown: reference.clone(), reference, session: None, member: None, topic: None }
}

/// The broker hands nobody their own messages, so one to oneself would never arrive.
fn check_self(core: &Core, member: &Member, session: Option<&str>, caller: &Caller) -> Result<(), Refusal> {
    if member.id != core.me.member_id {
        return Ok(());
    }
    let detail = match (session, caller) {
        (Some(_), _) => "sessions of the same member do not reach each other through the broker",
        (None, Caller::Session(_)) => "a session cannot send to its own member",
        (None, Caller::Member) => "a member cannot send to itself",
    };
    Err(Refusal::field("to", detail))
}

async fn to_topic(core: &Core, name: &str) -> Result<Destination, Refusal> {
    let topic = find_topic(core, name).await?;
    Ok(Destination {
        kind: DestKind::Topic,
        reference: topic.id,
        session: None,
        member: None,
        shown: format!("#{}", topic.name),
        topic: Some(topic.name),
    })
}

/// A topic by name; the broker is asked if it is not known here.
pub(crate) async fn find_topic(core: &Core, name: &str) -> Result<Known, Refusal> {
    if let Some(known) = core.topics.by_name(name) {
        return Ok(known);
    }
    let missing = || Refusal::new("topic_not_found", format!("there is no topic `{name}`"));
    let Ok(line) = core.line() else {
        let wanted = core.topics.wants().iter().any(|(wanted, want)| wanted == name && want.subscribed);
        // It will exist once the broker has heard of it; until then it has no id that could be promised.
        return Err(if wanted { Refusal::offline() } else { missing() });
    };
    talk::refresh(&core.topics, &line).await?;
    core.topics.by_name(name).ok_or_else(missing)
}

/// The request's payload; mentions that are given count over those in the text.
pub(super) fn payload(
    message: &str,
    meta: Option<Value>,
    reply_to: Option<String>,
    mentions: &[String],
    destination: &Destination,
) -> Result<Payload, Refusal> {
    if reply_to.as_ref().is_some_and(|id| id.len() > 256 || id.chars().any(char::is_control)) {
        return Err(Refusal::field("replyToId", "a message's id has at most 256 bytes"));
    }
    let mentions: Vec<String> = match mentions.is_empty() {
        true => names::mentions(message),
        false => mentions.iter().map(|name| name.trim_start_matches('@').to_lowercase()).collect(),
    };
    if mentions.len() > MOST_MENTIONS || mentions.iter().any(|name| names::display_name(name).is_err()) {
        return Err(Refusal::field(
            "mentions",
            format!("at most {MOST_MENTIONS} names can be mentioned, each as members are called"),
        ));
    }
    Ok(Payload {
        body: message.to_owned(),
        meta: meta.filter(|meta| !meta.is_null()),
        reply_to,
        mentions,
        session: destination.session.clone(),
        file_id: None,
    })
}

/// What the mesh would refuse is not taken: it could never be sent.
fn check_size(core: &Core, payload: &Payload, id: Option<&str>) -> Result<(), Refusal> {
    let most = core.limits().message_bytes;
    // Escaped and sealed, text grows at most eightfold: most messages need no closer look.
    if payload.meta.is_none() && payload.body.len() * 8 + 16 * 1024 <= most {
        return Ok(());
    }
    let body = Body {
        body: payload.body.clone(),
        meta: payload.meta.clone(),
        reply_to: payload.reply_to.clone(),
        mentions: payload.mentions.clone(),
        // As long as one that will be made.
        client_message_id: Some(id.map_or_else(|| "x".repeat(26), str::to_owned)),
        fingerprint: Some([0; 32]),
        session: payload.session.clone(),
    };
    let size = sealed_len(body.to_bytes().len());
    match size <= most {
        true => Ok(()),
        false => Err(Refusal::new(
            "message_too_large",
            format!("sealed, the message has {size} bytes; the mesh allows {most}"),
        )
        .about("message")),
    }
}

pub(crate) fn refusal(error: AcceptError) -> Refusal {
    match error {
        AcceptError::Reused(conflict) => {
            let code = conflict.code();
            let detail = match (conflict.same, &conflict.reason) {
                (_, Some(reason)) => format!("this id was used for a message that was given up: {reason}"),
                (true, None) => "this id was used for a message that was given up".to_owned(),
                (false, None) => "this id was used for another message".to_owned(),
            };
            Refusal::new("idempotency_key_reused", detail)
                .with("conflict", code)
                .with("daemon_fingerprint_prefix", conflict.fingerprint_prefix)
                .with("broker_message_id", conflict.broker_message_id)
        }
        AcceptError::Full => Refusal::new("insufficient_storage", "the outbox is nearly full"),
        AcceptError::Degraded => Refusal::new("insufficient_storage", "the outbox is full: degraded"),
        AcceptError::Meta(error) => Refusal::field("meta", error.to_string()),
        AcceptError::BadId => Refusal::field("client_message_id", error.to_string()),
        AcceptError::Store(error) => Refusal::internal(error),
    }
}

impl ShareRequest {
    /// The text of its announcement.
    pub(super) fn text(&self) -> String {
        self.message.clone().unwrap_or_default()
    }
}
