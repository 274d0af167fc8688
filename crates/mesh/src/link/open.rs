//! How an entry of the log becomes a row of the inbox: checked, opened if its key is here.
//!
//! Invariant: whatever a peer or a broker sends, this gives a row or a reason to drop it; it never fails otherwise. A
//! body counts only if its box opens and speaks of the same request, destination and urgency as the frame around it.
//! There is no way around the box: what does not open is stored without a body.

use hostel_wire::body::Body;
use hostel_wire::encoding::unhex_array;
use hostel_wire::frames::server::Push;
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::keys::PublicKey;
use hostel_wire::parse_iso;
use hostel_wire::sealed::{PairKey, TopicKey};
use serde_json::{Value, json};

use crate::events::NewEvent;
use crate::inbox::{Arrival, Content, Plain, Sealed, Unreadable, Waiting};
use crate::mesh::core::Core;
use crate::topics::GENERAL;

/// What a frame is about, for the comparison with what is in its box.
struct Frame<'a> {
    client_message_id: &'a str,
    fingerprint: &'a str,
    /// `dm`, `topic`, `group` or `all`.
    dest_kind: &'static str,
    dest_ref: &'a str,
    /// Which urgencies would fit.
    priorities: &'a [Priority],
}

/// Checks and opens an entry; an error is the reason it is dropped, as the metrics name it.
pub(super) fn arrival(core: &Core, push: &Push) -> Result<Arrival, &'static str> {
    if push.mesh_id != core.me.mesh_id {
        return Err("mesh");
    }
    let kind = push.kind.filter(|kind| *kind != Kind::Sys).ok_or("kind")?;
    let short = |text: &str, most: usize| !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control);
    if !short(&push.client_message_id, 256) || !short(&push.message_id, 128) {
        return Err("id");
    }
    if unhex_array::<32>(&push.request_fingerprint).is_none() {
        return Err("fingerprint");
    }
    let sealer = PublicKey::from_hex(&push.sender_pubkey).ok_or("sender")?;
    let member_key =
        if push.sender_member_pubkey.is_empty() { &push.sender_pubkey } else { &push.sender_member_pubkey };
    let known = core.roster.member(&push.sender_member_id);
    if !short(&push.sender_member_id, 64)
        || push.origin.as_ref().is_some_and(|origin| !short(origin, 64))
        || PublicKey::from_hex(member_key).is_none()
        || (known.is_some() && !core.roster.owns(&push.sender_member_id, member_key, parse_iso(&push.created_at)))
    {
        return Err("sender");
    }
    let name = known.map_or_else(|| push.sender_name.clone(), |member| member.name);
    let topic = topic_name(core, push, kind);
    let mut arrival = Arrival {
        sender_member_id: push.sender_member_id.clone(),
        client_message_id: push.client_message_id.clone(),
        origin: push.origin.clone(),
        broker_message_id: push.message_id.clone(),
        broker_seq: push.seq,
        kind,
        topic,
        sender_pubkey: push.sender_pubkey.clone(),
        sender_member_pubkey: (*member_key != push.sender_pubkey).then(|| member_key.clone()),
        sender_name: name.chars().filter(|c| !c.is_control()).take(128).collect(),
        priority: push.priority,
        created_at: parse_iso(&push.created_at),
        recipient_pubkey: Some(core.pubkey()),
        recipient_session: None,
        content: Content::Unreadable(Unreadable::Failed),
    };
    arrival.content = match is_direct(push, kind) {
        true => direct(core, push, &sealer, &mut arrival),
        false => shared(core, push, kind),
    };
    if let Content::Open(plain) = &mut arrival.content {
        let direct = is_direct(push, kind);
        // An answer to that name goes back to the session that asked.
        if let Some(session) = &plain.sender {
            arrival.sender_name = format!("{}/{session}", arrival.sender_name);
        }
        finish(core, &arrival.sender_name, kind, direct, plain);
    }
    Ok(arrival)
}

/// A session's name as it stands in an address; what is none of a name is left out.
fn shown_session(name: &str) -> String {
    let fits = |c: &char| !c.is_control() && !c.is_whitespace() && *c != '/';
    name.chars().filter(fits).take(128).collect()
}

fn topic_name(core: &Core, push: &Push, kind: Kind) -> Option<String> {
    if kind != Kind::Topic {
        return None;
    }
    let known = push.topic_id.as_deref().and_then(|id| core.topics.by_id(id)).map(|known| known.name);
    known.or_else(|| push.topic.as_deref().and_then(|name| hostel_wire::topic::topic_name(name).ok()))
}

/// Files may be for one member or for everybody; those for everybody name an epoch.
fn is_direct(push: &Push, kind: Kind) -> bool {
    kind == Kind::Dm || (kind == Kind::File && push.key_epoch.is_none())
}

fn direct(core: &Core, push: &Push, sealer: &PublicKey, arrival: &mut Arrival) -> Content {
    // An older program may have sealed it for the key of one of our sessions.
    let session = push.recipient_pubkey.as_deref().and_then(|key| core.sessions.by_key(key));
    let member = core.key();
    let ours = session.as_ref().map_or(&member.key, |session| &session.key);
    if let Some(session) = &session {
        arrival.recipient_pubkey = Some(session.pubkey.clone());
        arrival.recipient_session = Some(session.entry.session_id.clone());
    }
    let opened = core.pairs.get(ours, sealer).and_then(|pair| pair.open_parts(&push.nonce, &push.ciphertext).ok());
    let opened = opened.or_else(|| with_earlier(core, push, sealer));
    let Some(bytes) = opened else { return Content::Unreadable(Unreadable::Failed) };
    let Ok(body) = Body::from_bytes(push.body_version, &bytes) else { return Content::Unreadable(Unreadable::Failed) };
    let dest_ref = match &body.session {
        Some(session) => format!("{}/{session}", core.me.member_id),
        None => core.me.member_id.clone(),
    };
    judge(body, &frame(push, "dm", &dest_ref))
}

/// Opens what was sealed for a key of ours that was replaced since, or for one that is only about to count.
fn with_earlier(core: &Core, push: &Push, sealer: &PublicKey) -> Option<Vec<u8>> {
    let theirs = sealer.x25519().ok()?;
    let (bytes, archived) = core
        .keys
        .try_others(|ours| PairKey::with_box_key(ours, &theirs).ok()?.open_parts(&push.nonce, &push.ciphertext).ok())?;
    if archived {
        core.metrics.decrypt_archived();
    }
    Some(bytes)
}

fn frame<'a>(push: &'a Push, dest_kind: &'static str, dest_ref: &'a str) -> Frame<'a> {
    Frame {
        client_message_id: &push.client_message_id,
        fingerprint: &push.request_fingerprint,
        dest_kind,
        dest_ref,
        priorities: std::slice::from_ref(&push.priority),
    }
}

fn shared(core: &Core, push: &Push, kind: Kind) -> Content {
    // The first version put posts into frames as they were; whoever can write frames could write such posts.
    if push.body_version < 2 {
        return Content::Unreadable(Unreadable::Failed);
    }
    let topic_id = push.topic_id.clone().unwrap_or_default();
    let ring = match kind {
        Kind::Topic if push.topic.as_deref() == Some(GENERAL) => GENERAL.to_owned(),
        Kind::Topic => core.topics.ring(&topic_id),
        _ => GENERAL.to_owned(),
    };
    let epoch = push.key_epoch.unwrap_or_default();
    let Some(key) = core.topics.key(&ring, epoch) else {
        return Content::KeyPending(Sealed {
            topic_id: ring,
            key_epoch: epoch,
            body_version: push.body_version,
            request_fingerprint: push.request_fingerprint.clone(),
            nonce: push.nonce.clone(),
            ciphertext: push.ciphertext.clone(),
        });
    };
    let group = push.group.as_deref().map(|name| format!("@{}", name.trim_start_matches('@'))).unwrap_or_default();
    let (dest_kind, dest_ref) = match kind {
        Kind::Topic => ("topic", topic_id.as_str()),
        Kind::Group => ("group", group.as_str()),
        _ => ("all", "*"),
    };
    unbox(&key, &push.nonce, &push.ciphertext, push.body_version, &frame(push, dest_kind, dest_ref))
}

fn unbox(key: &TopicKey, nonce: &str, ciphertext: &str, version: u32, frame: &Frame<'_>) -> Content {
    let Ok(bytes) = key.open_parts(nonce, ciphertext) else { return Content::Unreadable(Unreadable::Failed) };
    match Body::from_bytes(version, &bytes) {
        Ok(body) => judge(body, frame),
        Err(_) => Content::Unreadable(Unreadable::Failed),
    }
}

/// Whether the box belongs into its frame.
fn judge(body: Body, frame: &Frame<'_>) -> Content {
    if !body.matches(frame.client_message_id, frame.fingerprint) {
        return Content::Unreadable(Unreadable::Mismatch);
    }
    if let Some(inside) = body.fingerprint {
        let fits = |priority: &Priority| {
            body.fingerprint_for(frame.dest_kind, frame.dest_ref, *priority).is_ok_and(|made| made == inside)
        };
        if !frame.priorities.iter().any(fits) {
            return Content::Unreadable(Unreadable::Mismatch);
        }
    }
    Content::Open(plain(body))
}

fn plain(body: Body) -> Plain {
    Plain {
        body: body.body,
        meta: body.meta,
        reply_to_id: body.reply_to,
        mentions: body.mentions,
        session: body.session,
        sender: body.sender.as_deref().map(shown_session).filter(|session| !session.is_empty()),
        ..Plain::default()
    }
}

/// What depends on us: whether we are mentioned, whose mailbox it is, which file it announces.
fn finish(core: &Core, sender: &str, kind: Kind, direct: bool, plain: &mut Plain) {
    let me = core.display_name().to_lowercase();
    plain.mention = plain.mentions.iter().any(|name| name.trim_start_matches('@').to_lowercase() == me);
    plain.session = plain.session.take().map(|word| core.sessions.mailbox(&word));
    if kind != Kind::File {
        return;
    }
    let file = plain.meta.as_ref().and_then(|meta| meta.get("file")).filter(|file| file.is_object()).cloned();
    plain.file = file.clone();
    let mut data = json!({"mesh": core.me.slug, "from": sender, "message": plain.body});
    if let (Some(Value::Object(file)), Value::Object(data)) = (file, &mut data) {
        for (key, value) in file {
            data.entry(if key == "id" { "fileId".to_owned() } else { key }).or_insert(value);
        }
    }
    // What is for the member alone is no session's business.
    let session = plain.session.clone().or_else(|| direct.then(String::new));
    let event = NewEvent { session, ..NewEvent::new("file_shared", data) };
    plain.events.push(event);
}

/// Opens what waited for its key.
pub(crate) fn waited(core: &Core, key: &TopicKey, row: &Waiting) -> Result<Plain, Unreadable> {
    let sealed = &row.sealed;
    let every = [Priority::Now, Priority::Next, Priority::Low];
    let id = core.topics.id_of_ring(&sealed.topic_id).unwrap_or_default();
    // The group's name is not kept with a row that waits, so that much cannot be compared.
    let (dest_kind, dest_ref) = match row.kind {
        Kind::Topic => ("topic", id.as_str()),
        Kind::Group => ("group", ""),
        _ => ("all", "*"),
    };
    let frame = Frame {
        client_message_id: &row.client_message_id,
        fingerprint: &sealed.request_fingerprint,
        dest_kind,
        dest_ref,
        priorities: &every,
    };
    let content = match row.kind {
        Kind::Group => match key
            .open_parts(&sealed.nonce, &sealed.ciphertext)
            .map(|bytes| Body::from_bytes(sealed.body_version, &bytes))
        {
            Ok(Ok(body)) if body.matches(&row.client_message_id, &sealed.request_fingerprint) => {
                Content::Open(plain(body))
            }
            Ok(Ok(_)) => Content::Unreadable(Unreadable::Mismatch),
            _ => Content::Unreadable(Unreadable::Failed),
        },
        _ => unbox(key, &sealed.nonce, &sealed.ciphertext, sealed.body_version, &frame),
    };
    match content {
        Content::Open(mut plain) => {
            let mut sender = core.roster.member(&row.sender_member_id).map(|member| member.name).unwrap_or_default();
            if let Some(session) = &plain.sender {
                sender = format!("{sender}/{session}");
            }
            finish(core, &sender, row.kind, false, &mut plain);
            Ok(plain)
        }
        Content::Unreadable(why) => {
            core.metrics.invalid(if why == Unreadable::Mismatch { "mismatch" } else { "decrypt" });
            Err(why)
        }
        Content::KeyPending(_) => Err(Unreadable::Failed),
    }
}
