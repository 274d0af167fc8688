//! A mesh as everybody else uses it: one value that sends, reads, subscribes, shares and tells how it stands.
//!
//! Invariant: what is promised is on disk before it is answered. Everything that needs no broker works without one. It
//! knows no HTTP, no socket and no terminal: doors and commands do.

mod answers;
pub(crate) mod core;
mod faces;
mod filing;
pub(crate) mod grants;
mod hooking;
pub(crate) mod invite;
mod options;
mod people;
mod reading;
mod refusal;
mod reloading;
mod requests;
mod rotating;
pub(crate) mod sending;
pub(crate) mod siblings;
mod subscribing;
mod telling;
pub(crate) mod tuning;
mod visiting;

pub use answers::{
    Ending, Fetched, FileItem, Health, InboxItem, InboxPage, Invited, MemberItem, OutboxItem, Peer, ProfileApplied,
    Registered, Requeued, Sent, SessionItem, Shared, State, Subscribed, Topic, Version,
};
pub use options::MeshOptions;
pub use refusal::Refusal;
pub use reloading::ReloadError;
pub use requests::{
    Caller, InboxRequest, InviteRequest, MemberAction, PostRequest, ProfileChange, RegisterRequest, SendRequest,
    SessionRef, ShareRequest,
};
pub use rotating::Rotated;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostel_tasks::SpawnBoxed as _;
use hostel_wire::frames::server::Member;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::core::{Core, Me, Parts, Standing};
use self::tuning::Tuning;
use crate::disk::Level;
use crate::home::{Live, MeshDir};
use crate::hooks::{self, Hooks};
use crate::inbox::{Inbox, InboxOptions};
use crate::keep::Kept;
use crate::keyring::{Keyring, Opening};
use crate::link::dial::BrokerUrl;
use crate::link::{Role, life};
use crate::metrics::Metrics;
use crate::outbox::{Outbox, OutboxError, OutboxOptions};
use crate::roster::{Admission, Roster};
use crate::sessions::Sessions;
use crate::time::MeshTime;
use crate::topics::Topics;
use crate::{files, recover, retention, schema};

/// How often it is looked whether sessions' processes are still there.
const REAP: Duration = Duration::from_secs(15);

/// How often it is looked whether earlier keys are to be let go.
const LET_GO: Duration = Duration::from_secs(3600);

/// How long the databases may take to close.
const CLOSING: Duration = Duration::from_secs(5);

/// Why a mesh could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The outbox is damaged; what it owed cannot be known. Somebody must look.
    #[error("outbox.db is damaged: {0}; run `claudemesh daemon recover`")]
    OutboxCorrupt(String),
    /// A later program was here.
    #[error("{0}")]
    TooNew(String),
    /// A setting cannot be.
    #[error("{0}")]
    Settings(String),
    /// The disk's reason, or a database's.
    #[error("{0}")]
    Io(String),
}

/// A mesh. Cheap to clone.
#[derive(Clone)]
pub struct Mesh {
    pub(crate) core: Arc<Core>,
}

impl Mesh {
    /// Opens databases and what else is kept. Nothing is said to anybody yet.
    pub async fn open(options: MeshOptions) -> Result<Self, OpenError> {
        let io = |error: std::io::Error| OpenError::Io(error.to_string());
        let mut urls = Vec::new();
        for text in &options.broker_urls {
            let url = BrokerUrl::parse(text).map_err(|error| OpenError::Settings(error.to_string()))?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        let dir = options.dir.as_deref();
        if let Some(dir) = dir {
            schema::check(dir).map_err(|error| match error {
                schema::SchemaError::TooNew { .. } => OpenError::TooNew(error.to_string()),
                other => OpenError::Io(format!("{other}; run `claudemesh daemon recover`")),
            })?;
            // What a recovery has put ready and not in its place, because it was cut off, gets there now.
            recover::finish(dir).map_err(io)?;
        }
        let read_only = dir.map(recover::read_only).transpose().map_err(io)?.flatten();
        let time = MeshTime::new(options.clock.clone());
        // The damaged outbox stays as it is until somebody has decided about it.
        let outbox = open_outbox(&options, &time, dir.filter(|_| read_only.is_none())).await?;
        let inbox = open_inbox(&options, &time, dir).await?;
        if let Some(dir) = dir {
            schema::record(dir).map_err(|error| OpenError::Io(error.to_string()))?;
        }
        let (log, clock) = (options.log.clone(), options.clock.clone());
        let roster = Roster::load(Kept::new(dir, "roster.json"), log.clone()).map_err(io)?;
        roster.settle(Member {
            id: options.member_id.clone(),
            name: options.display_name.clone(),
            pubkey: options.member_key.public().hex(),
            ..Member::default()
        });
        roster.remember(&Admission {
            authors: inbox.authors(),
            mesh_id: &options.mesh_id,
            own_id: &options.member_id,
            signs_from: None,
        });
        let topics = Topics::load(Kept::new(dir, "topics.json"), log.clone(), options.root_key.as_ref()).map_err(io)?;
        let sessions = Sessions::load(Kept::new(dir, "sessions.json"), log.clone(), clock.clone()).map_err(io)?;
        let spool = files::Spool::load(dir, log.clone(), clock.now_ms()).map_err(io)?;
        // Where the outbox is set aside nobody knows what it announces: the files wait as it does.
        if read_only.is_none() {
            let announced = outbox.announced_files(spool.unsettled()).await;
            spool.resume(&announced.map_err(|error| OpenError::Io(format!("outbox.db: {error}")))?);
        }
        let hooks =
            Hooks::open(dir, &options.slug, options.hooks, &options.settings.hooks, &log, inbox.events().told());
        let settings = Live::new(options.settings);
        let tuning = Tuning::new(settings.clone(), options.leave_on_end, dir.is_none());
        let keys = Keyring::open(Opening {
            mesh_id: options.mesh_id.clone(),
            member_id: options.member_id.clone(),
            key: options.member_key,
            dir: options.dir.clone().map(MeshDir::at),
            options: options.keys,
            settings: settings.clone(),
            // An earlier key's time passes; it does not end because a clock is set.
            clock: time.waiting(),
            ages: time.ages(),
            log: log.clone(),
        });
        let keys = keys.map_err(io)?;
        let me = Me {
            slug: options.slug,
            mesh_id: options.mesh_id,
            member_id: options.member_id,
            root: options.root_key,
            owner: options.owner_key,
            certificate: options.certificate,
            hostname: options.hostname,
            cwd: options.cwd,
            version: options.version,
            host_fingerprint: options.host_fingerprint,
            groups: options.groups,
        };
        let core = Core::new(Parts {
            me,
            keys,
            clock,
            time,
            log,
            dial: options.dial,
            settings,
            tuning,
            read_only,
            outbox,
            inbox,
            roster,
            topics,
            sessions,
            files: spool,
            hooks,
            name: options.display_name,
            rename: options.rename,
            urls,
        });
        Ok(Self { core: Arc::new(core) })
    }

    /// Connects, sends and receives until it ends, and says why it did. To be called once.
    pub async fn run(&self) -> Ending {
        let core = &self.core;
        let (stop, stopping) = watch::channel(false);
        let mut member = hostel_tasks::spawn(life::live(Arc::clone(core), Role::Member, stopping.clone()));
        let mut hooks = hostel_tasks::spawn(hooks::dispatch::run(Arc::clone(core), stopping.clone()));
        let mut links = JoinSet::new();
        let ending = {
            let keeping = self.keep_house();
            tokio::pin!(keeping);
            loop {
                self.start_links(&mut links, &stopping);
                tokio::select! {
                    ending = core.ended() => break ending,
                    () = core.sessions.changed() => {}
                    Some(_) = links.join_next(), if !links.is_empty() => {}
                    () = &mut keeping => {}
                    _ = &mut member => {
                        // It has said why it ended, unless it broke.
                        core.end(Ending::Broken("the link to the broker broke".to_owned()));
                        break core.ended().await;
                    }
                }
            }
        };
        stop.send_replace(true);
        let parting = async {
            if !member.is_finished() {
                (&mut member).await.ok();
            }
            while links.join_next().await.is_some() {}
            (&mut hooks).await.ok();
        };
        tokio::time::timeout(CLOSING, parting).await.ok();
        member.abort();
        hooks.abort();
        core.lost(Standing::Closed);
        self.close().await;
        // A revocation may have come while we said goodbye.
        core.ending().borrow().clone().unwrap_or(ending)
    }

    /// Starts a link for each session that shall be seen and has none.
    fn start_links(&self, links: &mut JoinSet<()>, stopping: &watch::Receiver<bool>) {
        for session in self.core.sessions.running() {
            if !session.entry.presence || !session.claim_link() {
                continue;
            }
            let (core, all) = (Arc::clone(&self.core), stopping.clone());
            links.spawn_boxed(async move {
                let (stop, own) = watch::channel(false);
                let (mut ended, mut all) = (session.stopping(), all);
                let life = life::live(core.clone(), Role::Session(Arc::clone(&session)), own);
                tokio::pin!(life);
                tokio::select! {
                    () = &mut life => return,
                    _ = ended.wait_for(|ended| *ended) => {}
                    _ = all.wait_for(|all| *all) => {}
                }
                stop.send_replace(true);
                life.await;
            });
        }
    }

    /// What has to be done from time to time.
    async fn keep_house(&self) {
        let core = &self.core;
        let (told, mut rounds) = tokio::sync::mpsc::channel(4);
        let tell = move |swept| drop(told.try_send(swept));
        let sweeping = retention::run(core.outbox.clone(), core.inbox.clone(), core.timely(), || core.believed(), tell);
        let reporting = async {
            while let Some(swept) = rounds.recv().await {
                if let Some(health) = swept.health {
                    core.log.info("inbox_looked_through", json!({"found": format!("{health:?}")}));
                }
                if let Some(damage) = swept.outbox_damage {
                    core.log.error("outbox_damaged", json!({"found": damage}));
                    core.end(Ending::Broken(OutboxError::Corrupt(damage).to_string()));
                }
                if let Some(rows) = swept.inbox {
                    core.log.info("inbox_prune_completed", json!({"rows": rows, "outbox_rows": swept.outbox}));
                }
                if let Some(error) = swept.failed {
                    core.log.error("sweep_failed", json!({"error": error.to_string()}));
                }
                core.report_dead(swept.dead).await;
            }
            std::future::pending::<()>().await;
        };
        // One sign of the outbox for every link that listens.
        let waking = async {
            loop {
                core.outbox.woken().notified().await;
                core.wake();
            }
        };
        let reaping = async {
            loop {
                tokio::time::sleep(REAP).await;
                for session in core.sessions.reap() {
                    core.log.info("session_ended", json!({"session": session, "reason": "process_gone"}));
                }
            }
        };
        let letting_go = async {
            core.timely().await;
            loop {
                if core.keys.is_due() {
                    let core = Arc::clone(core);
                    hostel_tasks::spawn_blocking(move || core.keys.look_after()).await.ok();
                }
                tokio::time::sleep(LET_GO).await;
            }
        };
        tokio::join!(
            sweeping,
            reporting,
            waking,
            reaping,
            letting_go,
            siblings::deliver(core),
            self.watch_pressure(),
            files::upload::run(core),
            self.watch_heartbeat()
        );
    }

    /// Tells when the outbox fills up.
    async fn watch_pressure(&self) {
        let core = &self.core;
        let mut levels = core.outbox.levels();
        loop {
            let level = *levels.borrow_and_update();
            if level >= Level::High {
                let pressure = core.outbox.pressure();
                let data = json!({"mesh": core.me.slug, "percent": pressure.percent(), "level": word(level)});
                core.log.warn("outbox_pressure_high", data.clone());
                core.publish("outbox_pressure_high", data).await;
            }
            if levels.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Asks it to end.
    pub fn shutdown(&self) {
        self.core.end(Ending::Shutdown);
    }

    async fn close(&self) {
        let core = &self.core;
        core.events.close();
        let closing = [core.outbox.close(), core.inbox.close()];
        let closed = async {
            while closing.iter().any(|store| store.strong_count() > 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(CLOSING, closed).await.ok();
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// Waits until there is a connection to the broker.
    pub async fn connected(&self) {
        let mut standing = self.core.watch_standing();
        standing.wait_for(|standing| *standing == Standing::Open).await.ok();
    }

    /// Whether there is no room for anything new at all.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.is_full()
    }

    /// The mesh's short name.
    #[must_use]
    pub fn slug(&self) -> &str {
        &self.core.me.slug
    }

    /// The member's key, hex.
    #[must_use]
    pub fn member_pubkey(&self) -> String {
        self.core.pubkey()
    }

    /// The member's id.
    #[must_use]
    pub fn member_id(&self) -> &str {
        &self.core.me.member_id
    }

    /// The member's name.
    #[must_use]
    pub fn display_name(&self) -> String {
        self.core.display_name()
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::High => "high",
        Level::Full => "full",
        Level::Degraded => "degraded",
    }
}

/// Where a database is; in memory for who writes nothing.
fn database(dir: Option<&Path>, name: &str) -> PathBuf {
    dir.map_or_else(|| PathBuf::from(":memory:"), |dir| dir.join(name))
}

async fn open_outbox(options: &MeshOptions, time: &MeshTime, dir: Option<&Path>) -> Result<Outbox, OpenError> {
    let settings = &options.settings;
    let opened = Outbox::open(OutboxOptions {
        path: database(dir, "outbox.db"),
        member: Some(options.member_id.clone()),
        // What waits becomes older by waiting, not by a clock that is set.
        clock: time.waiting(),
        ages: time.ages(),
        limits: reloading::outbox_limits(settings),
        max_age_hours: settings.outbox.max_age_hours,
        inline: options.inline_stores || dir.is_none(),
        seed: None,
    });
    opened.await.map_err(|error| match error {
        OutboxError::Corrupt(text) => OpenError::OutboxCorrupt(text),
        OutboxError::TooNew(text) => OpenError::TooNew(text),
        OutboxError::Age(error) => OpenError::Settings(error.to_string()),
        OutboxError::Store(error) => OpenError::Io(error.to_string()),
    })
}

async fn open_inbox(options: &MeshOptions, time: &MeshTime, dir: Option<&Path>) -> Result<Inbox, OpenError> {
    let opened = Inbox::open(InboxOptions {
        path: database(dir, "inbox.db"),
        mesh: options.slug.clone(),
        clock: options.clock.clone(),
        ages: time.ages(),
        retention_days: options.settings.inbox.retention_days,
        max_bytes: options.settings.inbox.max_bytes,
        inline: options.inline_stores || dir.is_none(),
    });
    let (inbox, opened) = opened.await.map_err(|error| OpenError::Io(error.to_string()))?;
    let kept = inbox.believed_time().await.map_err(|error| OpenError::Io(error.to_string()))?;
    if let Some(kept) = kept {
        time.resume(kept);
    }
    if let Some(corrupt) = opened.recovered {
        options.log.error("inbox_corruption_recovered", json!({"renamed_to": corrupt.display().to_string()}));
    }
    if opened.authors_lost {
        options.log.warn("authors_lost", json!({"mesh": options.slug}));
    }
    if opened.rebuilt {
        options.log.warn("inbox_index_rebuilt", json!({"mesh": options.slug}));
    }
    Ok(inbox)
}
