//! Sending: what a target means, what the request is, and into the outbox with it.
//!
//! Invariant: whatever is refused here leaves the caller's id free. A request that names an id that was used before is
//! answered from the outbox by what it says, not by how its target was written.

use hostel_wire::body::Body;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use hostel_wire::frames::server::Member;
use hostel_wire::topic as names;
use serde_json::{Value, json};

use super::core::Core;
use super::{Caller, Mesh, PostRequest, Refusal, SendRequest, Sent, ShareRequest};
use crate::hooks::gate;
use crate::link::seal::sealed_len;
use crate::outbox::{AcceptError, DestKind, NewMessage, Payload, Status};
use crate::resolve::{self, Target};
use crate::topics::{Known, talk};

/// Mentions a message may have.
const MOST_MENTIONS: usize = 16;

/// What a signature, or the member's word for a session key, takes in a body.
const PROOF_BYTES: usize = 160;

/// A destination as the outbox has it, and as people see it.
pub(crate) struct Destination {
    pub(crate) kind: DestKind,
    pub(crate) reference: String,
    session: Option<String>,
    member: Option<Box<Member>>,
    topic: Option<String>,
    shown: String,
    /// It stays on this host; whether who shall have it runs.
    here: Option<bool>,
}

impl Destination {
    /// Whether it stays on this host.
    pub(super) fn is_here(&self) -> bool {
        self.here.is_some()
    }

    /// As the hook `pre-send` sees it.
    fn told(&self) -> Value {
        match (&self.member, &self.topic) {
            (Some(member), _) => json!({
                "member_id": member.id, "pubkey": member.pubkey, "name": member.name, "session": self.session,
            }),
            (None, Some(topic)) => json!({"topic": topic}),
            (None, None) => json!({"name": self.shown}),
        }
    }

    /// Whether who shall have it is there, if that is known.
    fn online(&self, core: &Core) -> Option<bool> {
        let member = self.member.as_ref()?;
        self.here.or_else(|| core.line().is_ok().then(|| core.roster.is_online(&member.id)))
    }
}

/// A request was taken.
pub(super) struct Taken {
    sent: Sent,
    /// It had been before.
    again: bool,
}

impl Mesh {
    /// Takes a message for somebody. It is on disk when this returns.
    pub async fn send(&self, request: SendRequest, caller: &Caller) -> Result<Sent, Refusal> {
        self.core.check_sending()?;
        let kind = kind_of(&request.to);
        let taken = self.try_send(request, caller).await;
        self.count(kind, taken)
    }

    async fn try_send(&self, request: SendRequest, caller: &Caller) -> Result<Taken, Refusal> {
        let destination = destination(&self.core, &request.to, caller).await?;
        let payload = payload(&request.message, request.meta, request.reply_to, &request.mentions, &destination)?;
        self.accept(request.client_message_id, destination, request.priority, payload, caller).await
    }

    /// Takes a post for a topic. It needs no subscription.
    pub async fn topic_post(&self, request: PostRequest, caller: &Caller) -> Result<Sent, Refusal> {
        self.core.check_sending()?;
        let taken = self.try_post(request, caller).await;
        self.count("topic", taken)
    }

    async fn try_post(&self, request: PostRequest, caller: &Caller) -> Result<Taken, Refusal> {
        let name = names::topic_name(&request.topic).map_err(|error| Refusal::field("topic", error.to_string()))?;
        let destination = to_topic(&self.core, &name).await.map_err(|refusal| refusal.about("topic"))?;
        let payload = payload(&request.message, request.meta, request.reply_to, &request.mentions, &destination)?;
        self.accept(request.client_message_id, destination, request.priority, payload, caller).await
    }

    /// Counts what became of a request of this kind.
    fn count(&self, kind: &str, taken: Result<Taken, Refusal>) -> Result<Sent, Refusal> {
        let metrics = &self.core.metrics;
        match &taken {
            Ok(Taken { again: true, .. }) => {
                metrics.sent(kind, "duplicate", 1);
                metrics.deduped("out", 1);
            }
            Ok(_) => metrics.sent(kind, "queued", 1),
            Err(_) => metrics.sent(kind, "rejected", 1),
        }
        taken.map(|taken| taken.sent)
    }

    /// Takes a message that nobody has looked at yet.
    async fn accept(
        &self,
        client_message_id: Option<String>,
        destination: Destination,
        priority: Priority,
        payload: Payload,
        caller: &Caller,
    ) -> Result<Taken, Refusal> {
        let id = client_message_id.as_deref();
        let payload = self.admit(id, &destination, priority, payload, caller).await?;
        self.take(client_message_id, destination, priority, payload, caller).await
    }

    /// Whether a message may leave: it is not too large, and the hook `pre-send` lets it through, with the words it may
    /// have put there. Nothing has left when this returns.
    pub(super) async fn admit(
        &self,
        id: Option<&str>,
        destination: &Destination,
        priority: Priority,
        payload: Payload,
        caller: &Caller,
    ) -> Result<Payload, Refusal> {
        check_size(&self.core, &payload, id, caller)?;
        self.through_gate(id, destination, priority, payload, caller).await
    }

    /// Puts a message that was let through into the outbox.
    pub(super) async fn take(
        &self,
        client_message_id: Option<String>,
        destination: Destination,
        priority: Priority,
        payload: Payload,
        caller: &Caller,
    ) -> Result<Taken, Refusal> {
        let core = &self.core;
        let (here, online) = (destination.is_here(), destination.online(core));
        let accepted = core.outbox.accept(NewMessage {
            client_message_id,
            sender_session: caller.session().map(|session| session.id.clone()),
            dest_kind: destination.kind,
            dest_ref: destination.reference,
            priority,
            payload,
        });
        let accepted = accepted.await.map_err(refusal)?;
        if here {
            core.siblings.notify_one();
        }
        let again = accepted.duplicate;
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
            recipient_online: online,
        };
        Ok(Taken { sent, again })
    }

    /// Asks the hook `pre-send`, if there is one. Who asks again under an id that has a row is answered by that row.
    async fn through_gate(
        &self,
        id: Option<&str>,
        destination: &Destination,
        priority: Priority,
        mut payload: Payload,
        caller: &Caller,
    ) -> Result<Payload, Refusal> {
        let core = &self.core;
        if !gate::is_there(core) {
            return Ok(payload);
        }
        if let Some(id) = id
            && core.outbox.knows(id).await?
        {
            return Ok(payload);
        }
        let asked = fingerprint::request(
            destination.kind.as_str(),
            &destination.reference,
            payload.reply_to.as_deref(),
            priority,
            payload.meta.as_ref(),
            payload.body.as_bytes(),
        );
        let leaving = gate::Leaving {
            to: destination.told(),
            kind: if payload.file_id.is_some() { "file" } else { destination.kind.as_str() },
            topic: destination.topic.as_deref(),
            priority: priority.as_str(),
            client_message_id: id,
            session: caller.session().map(|session| session.name.as_str()),
        };
        if gate::ask(core, &mut payload, leaving).await? {
            payload.asked = asked.ok().map(|asked| hex(&asked));
            check_size(core, &payload, id, caller)?;
        }
        Ok(payload)
    }
}

/// The kind of a target that could not be resolved, for the counters: as it is written.
fn kind_of(to: &str) -> &'static str {
    match to.trim().bytes().next() {
        Some(b'*') => "all",
        Some(b'#') => "topic",
        Some(b'@') => "group",
        _ => "dm",
    }
}

/// What a target means, in the outbox's words.
pub(crate) async fn destination(core: &Core, to: &str, caller: &Caller) -> Result<Destination, Refusal> {
    match target(core, to)? {
        Target::Member(member, session) if member.id == core.me.member_id => {
            here(core, member, session.as_deref(), caller)
        }
        Target::Member(member, session) => {
            let (reference, shown) = addresses(&member, session.as_deref());
            Ok(Destination { session, member: Some(member), reference, ..plain(DestKind::Dm, shown) })
        }
        Target::All => Ok(plain(DestKind::All, "*".to_owned())),
        Target::Group(name) => Ok(plain(DestKind::Group, format!("@{name}"))),
        Target::Topic(name) => to_topic(core, &name).await.map_err(|refusal| refusal.about("to")),
    }
}

/// Our own sessions are known by their keys also without a broker, who tells of others'.
fn target(core: &Core, to: &str) -> Result<Target, Refusal> {
    let session = core.sessions.by_key(&to.trim().to_ascii_lowercase());
    match session.zip(core.roster.member(&core.me.member_id)) {
        Some((session, me)) => Ok(Target::Member(Box::new(me), Some(session.entry.session_id.clone()))),
        None => {
            let target = resolve::target(&core.roster, to).map_err(|refusal| unknown(core, to, refusal))?;
            // The broker says whose sessions are. One whose key was proven is not somebody else's.
            let owner = core.authors().session_owner(&to.trim().to_ascii_lowercase());
            match (&target, owner) {
                (Target::Member(member, Some(_)), Some(owner)) if member.id != owner => Err(Refusal::new(
                    "peer_not_found",
                    "the broker says that this session is of another member than the one that proved it",
                )
                .about("to")),
                _ => Ok(target),
            }
        }
    }
}

/// Only the broker can say that somebody does not exist: without it, they may have joined since it was last heard.
pub(super) fn unknown(core: &Core, to: &str, refusal: Refusal) -> Refusal {
    if refusal.code() != "peer_not_found" || core.line().is_ok() || !resolve::is_nobody(&core.roster, to) {
        return refusal;
    }
    let why = format!("{}, as far as is known here, and the broker cannot be asked now", refusal.detail());
    let field = refusal.field_name().unwrap_or("to");
    Refusal::offline_because(why).about(field)
}

/// A member, or a session of one, as the outbox and as people write it.
fn addresses(member: &Member, session: Option<&str>) -> (String, String) {
    match session {
        Some(session) => (format!("{}/{session}", member.id), format!("{}/{session}", member.name)),
        None => (member.id.clone(), member.name.clone()),
    }
}

fn plain(kind: DestKind, reference: String) -> Destination {
    Destination { kind, shown: reference.clone(), reference, session: None, member: None, topic: None, here: None }
}

/// Somebody of this host: sessions write to each other and to the member, and the member to its sessions. Nobody writes
/// to themselves: that is a mistake, and an agent that answers itself would never end.
fn here(core: &Core, member: Box<Member>, session: Option<&str>, caller: &Caller) -> Result<Destination, Refusal> {
    let mailbox = session.map(|word| core.sessions.mailbox(word));
    let itself = match (&mailbox, caller) {
        (None, Caller::Member) => true,
        (Some(mailbox), Caller::Session(caller)) => *mailbox == caller.id,
        (None, Caller::Session(_)) | (Some(_), Caller::Member) => false,
    };
    if itself {
        return Err(Refusal::field(
            "to",
            "that is yourself; a session of this host is addressed as `host/session-name`",
        ));
    }
    let shown = addresses(&member, session).1;
    // By its id, however it was written: the same message to the same session is the same request.
    let (reference, _) = addresses(&member, mailbox.as_deref());
    let running = mailbox.as_ref().is_none_or(|id| core.sessions.by_id(id).is_some());
    let kept =
        Destination { session: mailbox, member: Some(member), here: Some(running), ..plain(DestKind::Dm, shown) };
    Ok(Destination { reference, ..kept })
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
        here: None,
    })
}

/// A topic by name; the broker is asked if it is not known here.
pub(crate) async fn find_topic(core: &Core, name: &str) -> Result<Known, Refusal> {
    if let Some(known) = core.topics.by_name(name) {
        return Ok(known);
    }
    // Only the broker can say that there is none: somebody may have made it while we were away.
    let line = core.line_soon().await?;
    talk::refresh(&core.topics, &line).await?;
    core.topics.by_name(name).ok_or_else(|| Refusal::new("topic_not_found", format!("there is no topic `{name}`")))
}

/// Who is mentioned: those who are given count over those in the text.
pub(crate) fn mentioned(message: &str, given: &[String]) -> Result<Vec<String>, Refusal> {
    let mentions: Vec<String> = match given.is_empty() {
        true => names::mentions(message),
        false => given.iter().map(|name| name.trim_start_matches('@').to_lowercase()).collect(),
    };
    if mentions.len() > MOST_MENTIONS || mentions.iter().any(|name| names::display_name(name).is_err()) {
        return Err(Refusal::field(
            "mentions",
            format!("at most {MOST_MENTIONS} names can be mentioned, each as members are called"),
        ));
    }
    Ok(mentions)
}

/// The request's payload.
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
    Ok(Payload {
        body: message.to_owned(),
        meta: meta.filter(|meta| !meta.is_null()),
        reply_to,
        mentions: mentioned(message, mentions)?,
        session: destination.session.clone(),
        file_id: None,
        asked: None,
    })
}

/// What the mesh would refuse is not taken: it could never be sent.
fn check_size(core: &Core, payload: &Payload, id: Option<&str>, caller: &Caller) -> Result<(), Refusal> {
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
        // The longest name or id a session may have: it may be called otherwise when this is sent.
        sender: caller.session().map(|_| "x".repeat(128)),
        author: Some("x".repeat(64)),
        origin: None,
        session_proof: None,
        successions: core.keys.recent_lineage(&core.key(), core.broker_now_ms()),
        signature: None,
    };
    let size = sealed_len(body.to_bytes().len() + PROOF_BYTES);
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
