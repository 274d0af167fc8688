//! What all parts of a mesh share: who we are, the databases, what is known of others, and how we stand to the broker.
//!
//! Invariant: how we stand changes only here, and everybody who waits for it is woken. Once revoked, always revoked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hostel_wire::Clock;
use hostel_wire::frames::Group;
use hostel_wire::frames::server::{HelloAck, Limits};
use hostel_wire::invite::CertPin;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::faces::Faces;
use super::tuning::Tuning;
use super::{Ending, Refusal, State};
use crate::authors::Authors;
use crate::events::{Events, NewEvent};
use crate::home::{Live, Settings};
use crate::inbox::{Inbox, InboxRow};
use crate::keyring::{Keyring, MemberKey};
use crate::link::calls::Line;
use crate::link::dial::{BrokerUrl, Dial};
use crate::link::reseal::Resealed;
use crate::link::seal::Pairs;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::outbox::{DeadRow, Outbox};
use crate::roster::{Admission, Roster};
use crate::sessions::Sessions;
use crate::shared::Shared;
use crate::time::MeshTime;
use crate::topics::Topics;

/// Who we are.
pub(crate) struct Me {
    pub(crate) slug: String,
    pub(crate) mesh_id: String,
    pub(crate) member_id: String,
    pub(crate) root: Option<RootKey>,
    pub(crate) owner: Option<SecretKey>,
    pub(crate) certificate: Option<CertPin>,
    pub(crate) hostname: String,
    pub(crate) cwd: String,
    pub(crate) version: String,
    pub(crate) host_fingerprint: Option<String>,
    pub(crate) groups: Vec<Group>,
}

/// For how long after its start a daemon is taken to be about to connect.
const SETTLING: Duration = Duration::from_secs(5);

/// How long the broker is waited for, which says what time it is, before the own clock is believed.
const UNHEARD: Duration = Duration::from_secs(5 * 60);

/// How the connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Connecting,
    Open,
    Reconnecting,
    Closed,
}

/// What we want others to see of us; told again after each reconnect.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Appearance {
    pub(crate) status: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) visible: Option<bool>,
    pub(crate) more: serde_json::Map<String, Value>,
}

/// Everything that is shared.
pub(crate) struct Core {
    pub(crate) me: Me,
    /// Our key, which may be replaced while we run.
    pub(crate) keys: Keyring,
    /// Held while something that came is being stored.
    pub(crate) storing: Arc<tokio::sync::Mutex<()>>,
    /// Our copies of other keys at the broker, as far as they were sealed anew for our own.
    pub(crate) resealed: Resealed,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) dial: Arc<dyn Dial>,
    /// `config.toml`, as it was last read.
    pub(crate) settings: Live<Settings>,
    pub(crate) tuning: Tuning,
    /// Why nothing may be sent until somebody has looked: the mark of `recover`.
    pub(crate) read_only: Option<String>,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    pub(crate) events: Events,
    pub(crate) roster: Roster,
    pub(crate) topics: Topics,
    pub(crate) shared: Shared,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Metrics,
    pub(crate) pairs: Pairs,
    pub(crate) files: crate::files::Spool,
    pub(crate) hooks: crate::hooks::Hooks,
    pub(crate) name: RwLock<String>,
    /// The name that this host was given.
    own_name: RwLock<String>,
    pub(crate) rename: RwLock<bool>,
    pub(crate) urls: RwLock<Vec<BrokerUrl>>,
    pub(crate) appearance: RwLock<Appearance>,
    /// What others see of sessions.
    pub(crate) faces: Faces,
    /// Until when, in time that passes, a caller's heartbeat keeps us `working`.
    pub(crate) heartbeat_until: watch::Sender<u64>,
    pub(crate) started: Instant,
    /// Wakes when there may be something that stays on this host.
    pub(crate) siblings: Notify,
    /// Rises when there may be something to send.
    woken: watch::Sender<u64>,
    standing: watch::Sender<Standing>,
    line: watch::Sender<Option<Arc<Line>>>,
    /// The key that the connection speaks with, or did.
    spoken: RwLock<Option<String>>,
    /// The connection ended because our key was replaced, and is being made again.
    switching: AtomicBool,
    welcome: RwLock<Option<HelloAck>>,
    lag_ms: AtomicU64,
    time: MeshTime,
    ending: watch::Sender<Option<Ending>>,
}

/// What a core is made of, besides what it makes itself.
pub(crate) struct Parts {
    pub(crate) me: Me,
    pub(crate) keys: Keyring,
    pub(crate) clock: Clock,
    pub(crate) time: MeshTime,
    pub(crate) log: Log,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) settings: Live<Settings>,
    pub(crate) tuning: Tuning,
    pub(crate) read_only: Option<String>,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    pub(crate) roster: Roster,
    pub(crate) topics: Topics,
    pub(crate) sessions: Sessions,
    pub(crate) files: crate::files::Spool,
    pub(crate) hooks: crate::hooks::Hooks,
    pub(crate) name: String,
    pub(crate) rename: bool,
    pub(crate) urls: Vec<BrokerUrl>,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        // The mesh's own name stands for a name that is not known.
        let own_name = Some(parts.name.clone()).filter(|name| *name != parts.me.slug).unwrap_or_default();
        Self {
            events: parts.inbox.events(),
            shared: Shared::new(parts.me.root.as_ref()),
            me: parts.me,
            keys: parts.keys,
            storing: Arc::default(),
            resealed: Resealed::default(),
            clock: parts.clock,
            log: parts.log,
            dial: parts.dial,
            settings: parts.settings,
            tuning: parts.tuning,
            read_only: parts.read_only,
            outbox: parts.outbox,
            inbox: parts.inbox,
            roster: parts.roster,
            topics: parts.topics,
            sessions: parts.sessions,
            files: parts.files,
            hooks: parts.hooks,
            metrics: Metrics::default(),
            pairs: Pairs::default(),
            own_name: RwLock::new(own_name),
            name: RwLock::new(parts.name),
            rename: RwLock::new(parts.rename),
            urls: RwLock::new(parts.urls),
            appearance: RwLock::default(),
            faces: Faces::default(),
            heartbeat_until: watch::channel(0).0,
            started: Instant::now(),
            siblings: Notify::new(),
            woken: watch::channel(0).0,
            standing: watch::channel(Standing::Connecting).0,
            line: watch::channel(None).0,
            spoken: RwLock::default(),
            switching: AtomicBool::new(false),
            welcome: RwLock::new(None),
            lag_ms: AtomicU64::new(u64::MAX),
            time: parts.time,
            ending: watch::channel(None).0,
        }
    }

    /// Wakes every link.
    pub(crate) fn wake(&self) {
        self.woken.send_modify(|count| *count += 1);
    }

    pub(crate) fn woken(&self) -> watch::Receiver<u64> {
        self.woken.subscribe()
    }

    /// Refuses everything once the member is revoked.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self.is_revoked() {
            true => Err(Refusal::revoked()),
            false => Ok(()),
        }
    }

    /// Refuses what is to be sent, where nothing may be.
    pub(crate) fn check_sending(&self) -> Result<(), Refusal> {
        self.check()?;
        match &self.read_only {
            Some(reason) => Err(Refusal::new(
                "degraded",
                format!("this daemon only reads: {reason}; `claudemesh daemon recover` ends that"),
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn is_revoked(&self) -> bool {
        *self.ending.borrow() == Some(Ending::Revoked)
    }

    /// The connection, to ask something.
    pub(crate) fn line(&self) -> Result<Arc<Line>, Refusal> {
        self.check()?;
        self.line.borrow().clone().ok_or_else(Refusal::offline)
    }

    /// The connection, waited for where we have only just started and never had one: who asks then means "as soon as
    /// you are there". Later a connection that is gone is said to be gone at once.
    pub(crate) async fn line_soon(&self) -> Result<Arc<Line>, Refusal> {
        let starting = SETTLING.saturating_sub(self.started.elapsed());
        // With another key the connection is made anew; that takes a moment and is no outage.
        let switching = self.switching.load(Ordering::Relaxed);
        let left = if switching { SETTLING } else { starting };
        if !left.is_zero() && (switching || self.standing() == Standing::Connecting) {
            self.check()?;
            let (mut standing, mut ending) = (self.watch_standing(), self.ending());
            let is_settled = |standing: &Standing| match standing {
                Standing::Open | Standing::Closed => true,
                Standing::Connecting => false,
                Standing::Reconnecting => !switching,
            };
            let settled = async {
                tokio::select! {
                    settled = standing.wait_for(is_settled) => drop(settled),
                    ended = ending.wait_for(Option::is_some) => drop(ended),
                }
            };
            tokio::time::timeout(left, settled).await.ok();
        }
        self.line()
    }

    /// The connection stands, and speaks with this key. Says whether it is the first.
    pub(crate) fn opened(&self, line: Arc<Line>, key: &MemberKey) -> bool {
        *self.spoken.write() = Some(key.pubkey.clone());
        self.switching.store(false, Ordering::Relaxed);
        let first = self.welcome.write().replace(line.welcome.clone()).is_none();
        self.line.send_replace(Some(line));
        self.standing.send_replace(Standing::Open);
        first
    }

    /// Our key was replaced: the connection is made again with the new one.
    pub(crate) fn switch(&self) {
        self.switching.store(true, Ordering::Relaxed);
    }

    /// It could not be made at once: it is an outage like any other.
    pub(crate) fn switched(&self) {
        self.switching.store(false, Ordering::Relaxed);
    }

    /// The key that the connection speaks with, or did.
    pub(crate) fn spoken_with(&self) -> Option<String> {
        self.spoken.read().clone()
    }

    /// Our key, as it is now.
    pub(crate) fn key(&self) -> Arc<MemberKey> {
        self.keys.current()
    }

    /// What is proven about other members.
    pub(crate) fn authors(&self) -> &Authors {
        self.inbox.authors()
    }

    /// By what lists of members are judged.
    pub(crate) fn admission(&self) -> Admission<'_> {
        let Me { mesh_id, member_id, .. } = &self.me;
        Admission { authors: self.authors(), mesh_id, own_id: member_id, signs_from: None }
    }

    /// The name that we sign: the one this host was given, not the one that the broker says. Else a broker could have us
    /// sign any name, another member's too. While another name is asked for, the one that is known still counts.
    pub(crate) fn signed_name(&self) -> String {
        let own = self.own_name.read().clone();
        if !own.is_empty() && !*self.rename.read() {
            return own;
        }
        let listed = self.roster.name(&self.me.member_id).filter(|name| !name.is_empty());
        listed.unwrap_or_else(|| self.display_name())
    }

    /// Another name was asked for here, and this is what came of it.
    pub(crate) fn set_own_name(&self, name: &str) {
        name.clone_into(&mut self.own_name.write());
    }

    /// Its public half, hex.
    pub(crate) fn pubkey(&self) -> String {
        self.keys.current().pubkey.clone()
    }

    /// The connection is gone.
    pub(crate) fn lost(&self, next: Standing) {
        self.line.send_replace(None);
        self.standing.send_replace(next);
        self.lag_ms.store(u64::MAX, Ordering::Relaxed);
    }

    pub(crate) fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    pub(crate) fn watch_standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// What time is believed, for the next daemon.
    pub(crate) fn believed(&self) -> hostel_wire::BelievedTime {
        self.time.believed()
    }

    /// Waits until the broker has said what time it is, or does not come: before that nothing is judged by its age.
    pub(crate) async fn timely(&self) {
        let mut standing = self.watch_standing();
        let heard = standing.wait_for(|standing| *standing == Standing::Open);
        tokio::time::timeout(UNHEARD, heard).await.ok();
    }

    /// As callers see it.
    pub(crate) fn state(&self) -> State {
        if self.is_revoked() {
            return State::Revoked;
        }
        let degraded = self.read_only.is_some() || self.is_full();
        match self.standing() {
            Standing::Closed => State::Closed,
            _ if degraded => State::Degraded,
            Standing::Open => State::Open,
            Standing::Connecting => State::Connecting,
            Standing::Reconnecting => State::Reconnecting,
        }
    }

    /// Whether there is no room for anything new at all.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.pressure().level() == crate::disk::Level::Degraded
            || self.outbox.was_refused_by_disk()
            || self.inbox.was_refused_by_disk()
    }

    /// What the broker last said of itself.
    pub(crate) fn welcome(&self) -> Option<HelloAck> {
        self.welcome.read().clone()
    }

    /// What the mesh allows, as far as we know.
    pub(crate) fn limits(&self) -> Limits {
        self.welcome.read().as_ref().map(|welcome| welcome.limits.clone()).unwrap_or_default()
    }

    pub(crate) fn lag_ms(&self) -> Option<u64> {
        Some(self.lag_ms.load(Ordering::Relaxed)).filter(|lag| *lag != u64::MAX)
    }

    pub(crate) fn set_lag(&self, ms: u64) {
        self.lag_ms.store(ms.min(u64::MAX - 1), Ordering::Relaxed);
    }

    /// Notes what the broker's clock says. Challenges make signatures fresh; the time in them only has to please the
    /// broker, so a host whose clock is wrong is not locked out.
    pub(crate) fn note_broker_time(&self, broker_ms: u64) {
        self.time.note(broker_ms);
    }

    /// The time as the broker has it, to whatever our own clock was set since it said so.
    pub(crate) fn broker_now_ms(&self) -> u64 {
        self.time.broker_ms()
    }

    /// Ends everything, for the first reason that is given; revocation counts over all others.
    pub(crate) fn end(&self, ending: Ending) {
        self.ending.send_if_modified(move |now| {
            let counts = now.is_none() || (ending == Ending::Revoked && *now != Some(Ending::Revoked));
            if counts {
                *now = Some(ending);
            }
            counts
        });
    }

    pub(crate) fn ending(&self) -> watch::Receiver<Option<Ending>> {
        self.ending.subscribe()
    }

    /// Waits until everything shall end.
    pub(crate) async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        match ending.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or(Ending::Shutdown),
            Err(_) => Ending::Shutdown,
        }
    }

    /// Waits until nothing is owed, for a moment: what an ephemeral member did not send is gone.
    pub(crate) async fn drained(&self) {
        let empty = async {
            while self.outbox.depth().pending + self.outbox.depth().inflight > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(2), empty).await.ok();
    }

    pub(crate) fn display_name(&self) -> String {
        self.name.read().clone()
    }

    /// Tells an event.
    pub(crate) async fn publish(&self, name: &str, data: Value) {
        self.publish_all(vec![NewEvent::new(name, data)]).await;
    }

    /// Tells several.
    pub(crate) async fn publish_all(&self, events: Vec<NewEvent>) {
        if let Err(error) = self.events.publish_all(events).await {
            self.log.warn("event_not_told", json!({"error": error.to_string()}));
        }
    }

    /// Counts a message that came in.
    pub(crate) fn count_received(&self, row: &InboxRow) {
        let from = if row.sender_pubkey == row.sender_member_pubkey { "member" } else { "session" };
        self.metrics.received(row.kind.as_str(), from);
    }

    /// Tells of rows that were given up.
    pub(crate) async fn report_dead(&self, dead: Vec<DeadRow>) {
        for row in dead {
            self.metrics.sent(row.kind(), "dead", 1);
            self.log.warn(
                "drain_permanent_failure",
                json!({"id": row.id, "client_message_id": row.client_message_id, "code": row.code, "error": row.error}),
            );
            let data = json!({
                "mesh": self.me.slug, "id": row.id, "client_message_id": row.client_message_id, "reason": row.code,
                "detail": row.error,
            });
            self.publish("outbox_dead", data).await;
        }
    }
}
