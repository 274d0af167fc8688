//! How a message gets into the log.
//!
//! The phases: B0, a message that is in the log already is answered as such, whatever else would be said of it; B1, its
//! shape, its size, the sender's rate; B2, where it goes; B3, the log. B0 and B2 are decided where the log is written.
//! Here they are asked beforehand only when something would be refused, so that the common way costs no read.
//!
//! Invariant: a refusal leaves no trace of the id. A refusal that is not for good shuts the message's lane until it comes
//! again. Nothing is awaited that waits for the disk on the way in: what is in line is a [`Pending`], and its ack is
//! written when the log says so.

mod ack;
mod shape;

use std::sync::Arc;

use hostel_wire::frames::client::Send;
use hostel_wire::frames::{Kind, To};

use super::Broker;
use super::connection::Connection;
use super::lanes::{Lane, Lanes};
use super::rate::Bucket;
use super::settings::Limits;
use crate::engine::{Append, Engine, Gate};
use crate::registry::{Ask, Mesh};
use ack::No;
pub(crate) use ack::{Pending, Promise};

const DAY_MS: u64 = 24 * 3_600_000;

/// What a message comes to: an ack at once, or one when the log is written.
pub(crate) enum Accepted {
    Now(String),
    Later(Box<Pending>),
}

/// The way in, of one connection.
pub(crate) struct Entrance<E: Engine> {
    broker: Arc<Broker<E>>,
    connection: Arc<Connection>,
    lanes: Lanes,
    bucket: Arc<Bucket>,
}

/// Where a message goes, and to which of a member's sessions.
struct Target {
    to: To,
    session: Option<String>,
}

impl<E: Engine> Entrance<E> {
    pub(crate) fn new(broker: &Arc<Broker<E>>, connection: &Arc<Connection>) -> Self {
        let bucket = broker.rates.of(&connection.mesh, &connection.member);
        let (broker, connection) = (Arc::clone(broker), Arc::clone(connection));
        Self { broker, connection, lanes: Lanes::default(), bucket }
    }

    /// Takes a message, or says why not.
    pub(crate) async fn take(&mut self, mut send: Send) -> Accepted {
        let lane = send.lane.as_deref().zip(send.lane_seq);
        let lane = lane.filter(|(name, place)| *place > 0 && shape::is_lane(name));
        let lane = lane.map(|(name, place)| (self.lanes.lane(name), place));
        if let Some((lane, place)) = &lane
            && !lane.admits(*place)
        {
            return Accepted::Now(No::LaneBlocked.ack(&self.broker.metrics, &send.id));
        }
        let no = match self.begin(&mut send, lane.as_ref()).await {
            Ok(pending) => return Accepted::Later(pending),
            Err(no) => no,
        };
        // B0: what is in the log is in the log.
        let text = match self.known(&send).await {
            Some(text) => {
                settle(lane.as_ref());
                text
            }
            None => {
                match (&lane, no.is_permanent()) {
                    (Some((lane, place)), false) => lane.refuse(*place),
                    _ => settle(lane.as_ref()),
                }
                no.ack(&self.broker.metrics, &send.id)
            }
        };
        Accepted::Now(text)
    }

    /// B1, B2 as far as memory knows, and a place in line for the rest.
    async fn begin(&self, send: &mut Send, lane: Option<&(Lane, u64)>) -> Result<Box<Pending>, No> {
        let fingerprint = shape::check(send, &self.broker.settings.limits, self.connection.protocol)?;
        let charged = self.bucket.take(&send.client_message_id).map_err(No::Rate)?;
        let mesh = self.broker.registry.mesh(&self.connection.mesh).ok_or(No::Forbidden)?;
        let origin = origin(&self.connection, &mesh, send)?;
        let target = target(&mesh, send)?;
        let kind = send.kind;
        // Within the first protocol bodies for many are not sealed with a topic's key, or do not say with which.
        let key_epoch = if self.connection.protocol >= 2 { Some(send.key_epoch.unwrap_or(0)) } else { send.key_epoch };
        let route = mesh.route(Ask { sender: &self.connection.member, kind, to: &target.to, key_epoch })?;
        let now_ms = self.broker.clock.now_ms();
        let session = target.session.as_deref();
        let bytes = shape::entry(&self.connection, &mesh, send, &route, session, origin.as_deref())?;
        let (expires_ms, forget_ms) = kept_until(&self.broker.settings.limits, now_ms);
        let append = Append {
            mesh: self.connection.mesh.clone(),
            kind: route.kind,
            dest: route.dest,
            sender: self.connection.member.clone(),
            client_id: send.client_message_id.clone(),
            origin,
            fingerprint,
            priority: send.priority,
            audience: route.audience,
            bytes,
            guards: route.guards,
            writes: Vec::new(),
            gate: lane.map(|(lane, place)| Gate { lane: lane.gate(), place: *place }),
            expires_ms,
            forget_ms,
            now_ms,
        };
        let ticket = self.broker.engine.submit_append(append).await.map_err(|_| No::Unavailable)?;
        let promise = Promise {
            id: send.id.clone(),
            priority: send.priority,
            charged: charged.then(|| Arc::clone(&self.bucket)),
        };
        Ok(Box::new(Pending::new(promise, ticket)))
    }

    /// What became of this id, if it is in use.
    async fn known(&self, send: &Send) -> Option<String> {
        if send.client_message_id.is_empty() {
            return None;
        }
        let mesh = self.broker.registry.mesh(&self.connection.mesh)?;
        // Ids of somebody else are not told about.
        let origin = origin(&self.connection, &mesh, send).ok()?;
        let whose = origin.as_ref().unwrap_or(&self.connection.member);
        let known = self.broker.engine.lookup(mesh.id(), whose, &send.client_message_id).await.ok().flatten()?;
        let fingerprint = shape::fingerprint(send, self.connection.protocol).ok()?;
        if fingerprint != known.fingerprint {
            return Some(No::Reused(known.id).ack(&self.broker.metrics, &send.id));
        }
        super::metrics::Metrics::count(&self.broker.metrics.duplicates);
        Some(ack::duplicate(&send.id, &known))
    }
}

/// When an entry that is written now may go, and when its id may be forgotten.
pub(crate) fn kept_until(limits: &Limits, now_ms: u64) -> (u64, u64) {
    let days = |days: u32| now_ms.saturating_add(u64::from(days) * DAY_MS);
    // 0: never.
    let forget_ms =
        if limits.dedupe_days == 0 { u64::MAX } else { days(limits.dedupe_days.max(limits.retention_days)) };
    (days(limits.retention_days), forget_ms)
}

fn settle(lane: Option<&(Lane, u64)>) {
    if let Some((lane, place)) = lane {
        lane.settle(*place);
    }
}

/// Whose id a message has, if not the sender's own: that of a member whose place the sender has taken, which both of them
/// have signed. So what either has sent is known when the other sends it, and nobody else's ids can be used up.
fn origin(connection: &Connection, mesh: &Mesh, send: &Send) -> Result<Option<String>, No> {
    let Some(origin) = send.origin.as_ref().filter(|origin| **origin != connection.member) else { return Ok(None) };
    match mesh.member(&connection.member).is_some_and(|member| member.descends_from(origin)) {
        true => Ok(Some(origin.clone())),
        false => Err(No::OriginUnknown),
    }
}

/// Where a message goes, in the words of either protocol.
fn target(mesh: &Mesh, send: &Send) -> Result<Target, No> {
    if let Some(to) = &send.to {
        return Ok(Target { to: to.clone(), session: None });
    }
    let spec = send.target_spec.as_deref().ok_or(No::Invalid("the message goes nowhere"))?;
    let plain = |to| Ok(Target { to, session: None });
    if spec == "*" {
        return plain(To::All(true));
    }
    if let Some(group) = spec.strip_prefix('@') {
        return plain(To::Group(group.to_owned()));
    }
    if let Some(topic) = spec.strip_prefix('#') {
        let found = mesh.topic(topic).ok_or(No::TopicNotFound)?;
        return plain(To::Topic(found.id.clone()));
    }
    if let Some(member) = mesh.member_by_key(spec).or_else(|| mesh.member(spec)) {
        return plain(To::Member(member.id.clone()));
    }
    let member = mesh.member_by_session(spec).ok_or(No::RecipientUnknown)?;
    Ok(Target { to: To::Member(member.id.clone()), session: Some(spec.to_owned()) })
}

/// Announcing a file is for who has put it there.
fn may_announce(connection: &Connection, mesh: &Mesh, send: &Send) -> bool {
    let may = |by: &str| mesh.are_one(by, &connection.member);
    match (send.kind, &send.file_id) {
        (Some(Kind::File), Some(file)) => mesh.file(file).is_some_and(|file| may(&file.uploaded_by)),
        (Some(Kind::File), None) => false,
        (_, file) => file.is_none(),
    }
}
