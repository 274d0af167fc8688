//! What the tests of outbox, inbox and events share.
#![allow(dead_code)] // each test program uses its part

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_mesh::inbox::{Arrival, Content, Cursor, Inbox, InboxOptions, InboxQuery, InboxRow, Plain, Sealed, Stored};
use hostel_mesh::outbox::{AckedRow, DestKind, NewMessage, Outbox, OutboxOptions, Payload, Row};
use hostel_wire::Clock;
use hostel_wire::frames::{Kind, Priority};

/// A Tuesday in 2026.
pub(crate) const START: u64 = 1_790_000_000_000;

/// A clock that stands until it is set.
#[derive(Clone)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    pub(crate) fn clock(&self) -> Clock {
        let hands = Arc::clone(&self.0);
        Clock::of(move || hands.load(Ordering::SeqCst))
    }

    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) const HOUR: u64 = 60 * 60 * 1000;
pub(crate) const DAY: u64 = 24 * HOUR;

pub(crate) fn outbox_options(directory: &Path, hands: &Hands) -> OutboxOptions {
    let mut options = OutboxOptions::new(directory.join("outbox.db"), hands.clock());
    options.inline = true;
    options.seed = Some(1);
    options
}

pub(crate) async fn outbox(directory: &Path, hands: &Hands) -> Outbox {
    Outbox::open(outbox_options(directory, hands)).await.unwrap()
}

pub(crate) fn inbox_options(directory: &Path, hands: &Hands) -> InboxOptions {
    let mut options = InboxOptions::new(directory.join("inbox.db"), "lab", hands.clock());
    options.inline = true;
    options
}

pub(crate) async fn inbox(directory: &Path, hands: &Hands) -> Inbox {
    Inbox::open(inbox_options(directory, hands)).await.unwrap().0
}

/// A direct message to `to`.
pub(crate) fn dm(id: &str, to: &str, body: &str) -> NewMessage {
    NewMessage {
        client_message_id: Some(id.to_owned()),
        sender_session: None,
        dest_kind: DestKind::Dm,
        dest_ref: to.to_owned(),
        priority: Priority::Next,
        payload: Payload { body: body.to_owned(), ..Payload::default() },
    }
}

pub(crate) fn acked(row: &Row, seq: u64) -> AckedRow {
    AckedRow { key: row.key, broker_message_id: format!("broker-{seq}"), epoch: "e1".to_owned(), seq: Some(seq) }
}

/// Claims everything that can be claimed.
pub(crate) async fn claim_all(outbox: &Outbox) -> Vec<Row> {
    outbox.claim(1000, usize::MAX, |_| true).await.unwrap().rows
}

pub(crate) fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.client_message_id.as_str()).collect()
}

/// A message that has come from `sender`.
pub(crate) fn arrival(sender: &str, id: &str, seq: u64, body: &str) -> Arrival {
    Arrival {
        sender_member_id: sender.to_owned(),
        client_message_id: id.to_owned(),
        origin: None,
        broker_message_id: format!("broker-{seq}"),
        broker_seq: seq,
        kind: Kind::Dm,
        topic: None,
        sender_pubkey: format!("key-of-{sender}"),
        sender_member_pubkey: None,
        sender_name: sender.to_uppercase(),
        priority: Priority::Next,
        created_at: Some(START),
        recipient_pubkey: Some("our-key".to_owned()),
        recipient_session: None,
        content: Content::Open(Plain { body: body.to_owned(), ..Plain::default() }),
    }
}

/// A post in a topic.
pub(crate) fn post(sender: &str, id: &str, seq: u64, topic: &str, body: &str) -> Arrival {
    Arrival { kind: Kind::Topic, topic: Some(topic.to_owned()), ..arrival(sender, id, seq, body) }
}

pub(crate) async fn store(inbox: &Inbox, arrivals: Vec<Arrival>) -> Vec<Stored> {
    inbox.store(arrivals, Vec::new(), None).await.unwrap()
}

pub(crate) fn bodies(rows: &[InboxRow]) -> Vec<&str> {
    rows.iter().map(|row| row.body.as_deref().unwrap_or("-")).collect()
}

pub(crate) async fn all(inbox: &Inbox) -> Vec<InboxRow> {
    inbox.list(InboxQuery { limit: 1000, ..InboxQuery::default() }).await.unwrap().items
}

pub(crate) fn cursor(seq: u64, above: &[u64]) -> Cursor {
    Cursor { epoch: "e1".to_owned(), seq, above: above.to_vec(), ..Cursor::default() }
}

pub(crate) fn sealed(epoch: u64) -> Content {
    Content::KeyPending(Sealed {
        topic_id: "t1".to_owned(),
        key_epoch: epoch,
        body_version: 3,
        request_fingerprint: "ff".to_owned(),
        nonce: "n".to_owned(),
        ciphertext: "c".to_owned(),
        ..Sealed::default()
    })
}
