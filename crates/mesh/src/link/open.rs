//! How an entry of the log becomes a row of the inbox: checked, opened if its key is here.
//!
//! Invariant: whatever a peer or a broker sends, this gives a row or a reason to drop it; it never fails otherwise. A
//! body counts only if its box opens and speaks of the same request, destination and urgency as the frame around it, and
//! if its author is who the frame names, as far as that author has ever proven anything (see `authors`). There is no way
//! around the box: what does not open is stored without a body.

use hostel_wire::body::Body;
use hostel_wire::encoding::unhex_array;
use hostel_wire::frames::server::Push;
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::keys::PublicKey;
use hostel_wire::parse_iso;
use hostel_wire::sealed::{PairKey, TopicKey};
use serde_json::{Value, json};

use crate::authors::{Claim, Forgery, Verdict};
use crate::events::NewEvent;
use crate::inbox::{Arrival, Content, Plain, Sealed, Unreadable, Waiting};
use crate::mesh::core::Core;
use crate::topics::GENERAL;

/// What a frame is about, for the comparison with what is in its box.
#[derive(Clone, Copy)]
struct Frame<'a> {
    client_message_id: &'a str,
    fingerprint: &'a str,
    kind: Kind,
    /// `dm`, `topic`, `group` or `all`.
    dest_kind: &'static str,
    dest_ref: &'a str,
    priority: Priority,
    sender: Sender<'a>,
    seq: u64,
    /// It came in the order of the log.
    in_order: bool,
    created_at: Option<u64>,
}

/// Who a frame says it is from.
#[derive(Clone, Copy)]
struct Sender<'a> {
    member_id: &'a str,
    member_key: PublicKey,
    /// Of the connection.
    key: PublicKey,
}

/// Checks and opens an entry; an error is the reason it is dropped, as the metrics name it. `in_order`: it is no entry
/// that is stored already.
pub(super) fn arrival(core: &Core, push: &Push, in_order: bool) -> Result<Arrival, &'static str> {
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
    let public = PublicKey::from_hex(member_key).ok_or("sender")?;
    if !short(&push.sender_member_id, 64) || push.origin.as_ref().is_some_and(|origin| !short(origin, 64)) {
        return Err("sender");
    }
    let known = core.roster.name(&push.sender_member_id);
    let created_at = parse_iso(&push.created_at);
    // Of a member that signs the proof inside the box counts, which may also show that the key is a new one.
    if known.is_some()
        && !core.authors().signs(&push.sender_member_id)
        && !core.roster.owns(&push.sender_member_id, member_key, created_at)
    {
        return Err("sender");
    }
    let sender = Sender { member_id: &push.sender_member_id, member_key: public, key: sealer };
    let name = match known {
        Some(name) => name,
        // Nobody we know: the name of one that we know is not theirs.
        None => told_apart(core, &push.sender_member_id, push.sender_name.clone(), member_key),
    };
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
        created_at,
        recipient_pubkey: Some(core.pubkey()),
        recipient_session: None,
        content: Content::Unreadable(Unreadable::Failed),
    };
    let frame = Frame {
        client_message_id: &push.client_message_id,
        fingerprint: &push.request_fingerprint,
        kind,
        dest_kind: "",
        dest_ref: "",
        priority: push.priority,
        sender,
        seq: push.seq,
        in_order,
        created_at,
    };
    let is_direct = is_direct(push, kind);
    arrival.content = match is_direct {
        true => direct(core, push, frame, &mut arrival),
        false => shared(core, push, frame),
    };
    if matches!(arrival.content, Content::Unreadable(_)) {
        // Nothing that cannot be read says that something else has come.
        arrival.origin = None;
    }
    if let Content::Open(plain) = &mut arrival.content {
        arrival.sender_name = shown_name(core, sender.member_id, &arrival.sender_name, plain);
        // That it has the id of another member counts only if the broker, which knows who has taken whose place, and the
        // author both say so: one alone could have messages of others taken for known.
        if plain.author.is_some() && arrival.origin != plain.origin {
            arrival.origin = None;
        }
        finish(core, &arrival.sender_name, kind, is_direct, plain);
    }
    Ok(arrival)
}

/// A name with the beginning of a key behind it, if somebody else is known here by that name.
fn told_apart(core: &Core, member_id: &str, name: String, key: &str) -> String {
    match core.roster.is_name_of_other(member_id, &name) {
        true => format!("{name}-{}", key.chars().take(8).collect::<String>()),
        false => name,
    }
}

/// What the sender of an opened message is called. A name that the author signed counts over what the broker says, unless
/// somebody else is known here by it.
fn shown_name(core: &Core, member_id: &str, listed: &str, plain: &Plain) -> String {
    let mut name = listed.to_owned();
    if let Some(author) = plain.author.as_ref().filter(|_| plain.verified && !core.authors().is_named(member_id)) {
        let key = core.roster.key(member_id).map(|key| key.hex()).unwrap_or_default();
        name = told_apart(core, member_id, hostel_wire::topic::display_name(author).unwrap_or(name), &key);
    }
    // An answer to that name goes back to the session that asked.
    match &plain.sender {
        Some(session) => format!("{name}/{session}"),
        None => name,
    }
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

fn direct(core: &Core, push: &Push, frame: Frame<'_>, arrival: &mut Arrival) -> Content {
    let sealer = &frame.sender.key;
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
    judge(core, body, &Frame { dest_kind: "dm", dest_ref: &dest_ref, ..frame })
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

fn shared(core: &Core, push: &Push, frame: Frame<'_>) -> Content {
    let kind = frame.kind;
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
    let group =
        (kind == Kind::Group).then(|| push.group.as_deref().unwrap_or_default().trim_start_matches('@').to_owned());
    let Some(key) = core.topics.key(&ring, epoch) else {
        return Content::KeyPending(Sealed {
            topic_id: ring,
            key_epoch: epoch,
            body_version: push.body_version,
            request_fingerprint: push.request_fingerprint.clone(),
            nonce: push.nonce.clone(),
            ciphertext: push.ciphertext.clone(),
            group,
            in_order: frame.in_order,
        });
    };
    let group = format!("@{}", group.unwrap_or_default());
    let (dest_kind, dest_ref) = destination(kind, &topic_id, &group);
    let frame = Frame { dest_kind, dest_ref, ..frame };
    unbox(core, &key, &push.nonce, &push.ciphertext, push.body_version, &frame)
}

/// Where something for several goes, as its fingerprint and its signature name it.
fn destination<'a>(kind: Kind, topic_id: &'a str, group: &'a str) -> (&'static str, &'a str) {
    match kind {
        Kind::Topic => ("topic", topic_id),
        Kind::Group => ("group", group),
        _ => ("all", "*"),
    }
}

fn unbox(core: &Core, key: &TopicKey, nonce: &str, ciphertext: &str, version: u32, frame: &Frame<'_>) -> Content {
    let Ok(bytes) = key.open_parts(nonce, ciphertext) else { return Content::Unreadable(Unreadable::Failed) };
    match Body::from_bytes(version, &bytes) {
        Ok(body) => judge(core, body, frame),
        Err(_) => Content::Unreadable(Unreadable::Failed),
    }
}

/// Whether the box belongs into its frame, and whether its author is the frame's sender.
fn judge(core: &Core, body: Body, frame: &Frame<'_>) -> Content {
    if !body.matches(frame.client_message_id, frame.fingerprint) {
        return Content::Unreadable(Unreadable::Mismatch);
    }
    if let Some(inside) = body.fingerprint {
        let made = body.fingerprint_for(frame.dest_kind, frame.dest_ref, frame.priority);
        if !made.is_ok_and(|made| made == inside) {
            return Content::Unreadable(Unreadable::Mismatch);
        }
    }
    let verdict = core.authors().judge(&Claim {
        mesh_id: &core.me.mesh_id,
        member_id: frame.sender.member_id,
        member_key: &frame.sender.member_key,
        sender_key: &frame.sender.key,
        kind: frame.kind,
        destination: (frame.dest_kind != "dm").then_some(frame.dest_ref),
        client_message_id: frame.client_message_id,
        created_at: frame.created_at,
        seq_in_order: frame.in_order.then_some(frame.seq),
        seq: frame.seq,
        body: &body,
    });
    match verdict {
        Verdict::Verified => Content::Open(Plain { verified: true, ..plain(body) }),
        Verdict::Unverified => Content::Open(plain(body)),
        Verdict::Refused(Forgery::Unsigned) => Content::Unreadable(Unreadable::Unsigned),
        Verdict::Refused(Forgery::BadSignature) => Content::Unreadable(Unreadable::BadSignature),
        Verdict::Refused(Forgery::UnprovenKey) => Content::Unreadable(Unreadable::UnprovenKey),
    }
}

fn plain(body: Body) -> Plain {
    Plain {
        body: body.body,
        meta: body.meta,
        reply_to_id: body.reply_to,
        mentions: body.mentions,
        session: body.session,
        sender: body.sender.as_deref().map(shown_session).filter(|session| !session.is_empty()),
        author: body.author,
        origin: body.origin.filter(|origin| !origin.is_empty() && origin.len() <= 64),
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
    let content = match senders_keys(row) {
        Some(_) if row.kind == Kind::Group && row.sealed.group.is_none() => without_group(key, row),
        Some(sender) => {
            let sealed = &row.sealed;
            let id = core.topics.id_of_ring(&sealed.topic_id).unwrap_or_default();
            let group = format!("@{}", sealed.group.as_deref().unwrap_or_default());
            let (dest_kind, dest_ref) = destination(row.kind, &id, &group);
            let frame = Frame {
                client_message_id: &row.client_message_id,
                fingerprint: &sealed.request_fingerprint,
                kind: row.kind,
                dest_kind,
                dest_ref,
                priority: row.priority,
                sender,
                seq: row.broker_seq,
                in_order: sealed.in_order,
                created_at: None,
            };
            unbox(core, key, &sealed.nonce, &sealed.ciphertext, sealed.body_version, &frame)
        }
        None => Content::Unreadable(Unreadable::Failed),
    };
    match content {
        Content::Open(mut plain) => {
            let listed = core.roster.name(&row.sender_member_id).unwrap_or_else(|| row.sender_name.clone());
            let sender = shown_name(core, &row.sender_member_id, &listed, &plain);
            plain.sender_name = Some(sender.clone());
            finish(core, &sender, row.kind, false, &mut plain);
            Ok(plain)
        }
        Content::Unreadable(why) => {
            count(core, why);
            Err(why)
        }
        Content::KeyPending(_) => Err(Unreadable::Failed),
    }
}

/// Opens a message for a group that was stored by a program which did not keep the group's name: where it was for cannot be
/// compared, so nobody is proven to have written it.
fn without_group(key: &TopicKey, row: &Waiting) -> Content {
    let sealed = &row.sealed;
    let Ok(bytes) = key.open_parts(&sealed.nonce, &sealed.ciphertext) else {
        return Content::Unreadable(Unreadable::Failed);
    };
    match Body::from_bytes(sealed.body_version, &bytes) {
        Ok(body) if body.matches(&row.client_message_id, &sealed.request_fingerprint) => Content::Open(plain(body)),
        Ok(_) => Content::Unreadable(Unreadable::Mismatch),
        Err(_) => Content::Unreadable(Unreadable::Failed),
    }
}

fn senders_keys(row: &Waiting) -> Option<Sender<'_>> {
    Some(Sender {
        member_id: &row.sender_member_id,
        member_key: PublicKey::from_hex(&row.sender_member_pubkey)?,
        key: PublicKey::from_hex(&row.sender_pubkey)?,
    })
}

/// Counts a message that is not shown.
pub(super) fn count(core: &Core, why: Unreadable) {
    core.metrics.invalid(match why {
        Unreadable::Failed => "decrypt",
        why => why.as_str(),
    });
}
