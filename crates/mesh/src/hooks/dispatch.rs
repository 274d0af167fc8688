//! Every event that was stored, once to the hooks it is for.
//!
//! Invariant: hooks run only for what is in the ring of events, so only for rows that were new. How far they have come is
//! kept beside it, and moves past an event only when its hooks have ended and what they answered is in the outbox: a
//! daemon that is killed runs them again (their answers have the same ids), and none is passed over. What was owed at
//! the start waits for its turn; of what happens now, more than `MOST_QUEUED` events at once are counted and dropped.
//!
//! Who never had hooks has nothing to make up for: hooks begin with what comes after they were switched on. What was in
//! the broker's log before this inbox had a place in it is history (`inbox::history`), and runs none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use hostel_tasks::SpawnBoxed as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::invoke::{self, Invoked, Occasion};
use super::name::HookName;
use super::run::Exit;
use super::{HOP, Standing, State, leftovers, matching, payload, reply};
use crate::events::Happened;
use crate::inbox::InboxRow;
use crate::mesh::core::Core;
use crate::mesh::{Caller, Mesh, PostRequest, Refusal, SendRequest};
use hostel_wire::frames::Kind;

/// Events whose hooks may wait for their turn.
const MOST_QUEUED: usize = 256;

/// Events that are read at a time.
const READ: usize = 64;

/// How far hooks have come is written down after so many events that had none, or so long.
const BEHIND: u64 = 256;
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// How long hooks that run may take to end when the daemon does.
const FAREWELL: Duration = Duration::from_secs(2);

/// Something went wrong with the database; it is looked at again after this long.
const AGAIN: Duration = Duration::from_secs(1);

/// An answer that cannot be taken now is tried again after `AGAIN`, and then after twice as long each time, up to this.
const LONGEST: Duration = Duration::from_secs(30);

/// What is to be done about an event.
struct Job {
    n: u64,
    hooks: Vec<HookName>,
    event_id: String,
    what: What,
}

enum What {
    Message(Arc<InboxRow>),
    Event { name: &'static str, ts: u64, data: Value },
}

/// How far everything has come.
#[derive(Default)]
struct Progress {
    seen: u64,
    open: BTreeSet<u64>,
}

impl Progress {
    /// Everything up to here is done with.
    fn floor(&self) -> u64 {
        self.open.first().map_or(self.seen, |first| first - 1)
    }
}

/// Runs hooks until it is told to stop.
pub(crate) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let Some(place) = &core.hooks.place else { return };
    let socket = place.options.socket.clone();
    // Without a socket there is nothing to know an earlier daemon's hooks by, and no thread has to look for them: where
    // nothing but the clock may set the pace, as in a simulator, nothing else does.
    if !socket.as_os_str().is_empty() {
        let ended = hostel_tasks::spawn_blocking(move || leftovers::kill_of_earlier(&socket)).await;
        if let Ok(ended @ 1..) = ended {
            core.log.warn("hooks_of_earlier_daemon_ended", json!({"groups": ended}));
        }
    }
    let mut dispatcher = Dispatcher {
        queued: Arc::default(),
        progress: Arc::default(),
        jobs: JoinSet::new(),
        after: None,
        written: 0,
        written_at: Instant::now(),
        dropping: false,
        core,
    };
    dispatcher.startup().await;
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = dispatcher.serve() => {}
    }
    dispatcher.part().await;
}

struct Dispatcher {
    core: Arc<Core>,
    queued: Arc<AtomicUsize>,
    progress: Arc<Mutex<Progress>>,
    jobs: JoinSet<()>,
    /// The last event that was looked at; `None`: hooks are not on.
    after: Option<u64>,
    written: u64,
    written_at: Instant,
    /// Too many came at once, and that was said.
    dropping: bool,
}

impl Dispatcher {
    async fn serve(&mut self) {
        let mut changed = self.core.hooks.changed.subscribe();
        let mut told = self.core.events.told();
        loop {
            changed.borrow_and_update();
            told.borrow_and_update();
            let state = self.core.hooks.state();
            let since = self.core.hooks.since.lock().take();
            if let Some(since) = since {
                self.begin(since);
                // At once: what comes from here on is owed, also by the daemon after one that is killed.
                self.write_place(since).await;
            }
            let on = match &state.standing {
                Standing::Ready(_) => true,
                Standing::Broken(_) => false,
                Standing::Off(_) => {
                    self.forget().await;
                    false
                }
            };
            let looked = match on {
                true => self.look(&state).await,
                false => Ok(false),
            };
            match looked {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    self.core.log.error("hooks_cannot_read_events", json!({"error": error}));
                    tokio::time::sleep(AGAIN).await;
                }
            }
            let waiting = self.progress.lock().floor() != self.written;
            tokio::select! {
                moved = changed.changed() => if moved.is_err() { return },
                moved = told.changed(), if on => if moved.is_err() { return },
                Some(_) = self.jobs.join_next() => {
                    while self.jobs.try_join_next().is_some() {}
                    self.write().await;
                }
                () = tokio::time::sleep(WRITE_EVERY), if on && waiting => self.write().await,
            }
        }
    }

    /// Reads on; whether there was anything.
    async fn look(&mut self, state: &Arc<State>) -> Result<bool, String> {
        let text = |error: hostel_store::StoreError| error.to_string();
        let after = match self.after {
            Some(after) => after,
            None => {
                let began = self.core.hooks.began;
                let last = *self.core.events.told().borrow();
                let kept = self.core.inbox.hooks_cursor().await.map_err(text)?;
                // A place beyond the end is of another database.
                let from = kept.filter(|kept| *kept <= last).unwrap_or(began);
                self.begin(from);
                self.write_place(from).await;
                from
            }
        };
        let happened = self.core.events.happened(after, READ).await.map_err(text)?;
        if happened.is_empty() {
            return Ok(false);
        }
        for one in happened {
            self.after = Some(one.n);
            match job(&self.core, state, one) {
                Ok(job) => self.take(state, job).await,
                Err(n) => {
                    self.progress.lock().seen = n;
                }
            }
        }
        let floor = self.progress.lock().floor();
        if floor.saturating_sub(self.written) >= BEHIND || self.written_at.elapsed() >= WRITE_EVERY {
            self.write().await;
        }
        Ok(true)
    }

    /// Goes on after an event.
    fn begin(&mut self, from: u64) {
        *self.progress.lock() = Progress { seen: from, open: BTreeSet::new() };
        self.after = Some(from);
    }

    /// Puts a job into the queue, or drops it.
    async fn take(&mut self, state: &Arc<State>, job: Job) {
        let owed = job.n <= self.core.hooks.began;
        while self.queued.load(Ordering::Relaxed) >= MOST_QUEUED {
            if !owed {
                self.drop_job(&job);
                self.progress.lock().seen = job.n;
                return;
            }
            // What a killed daemon owed is not dropped: it waits.
            self.jobs.join_next().await;
            self.write().await;
        }
        self.dropping = false;
        {
            let mut progress = self.progress.lock();
            progress.seen = job.n;
            progress.open.insert(job.n);
        }
        self.spawn(state, job).await;
    }

    async fn spawn(&mut self, state: &Arc<State>, job: Job) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        let (core, state) = (Arc::clone(&self.core), Arc::clone(state));
        let (queued, progress) = (Arc::clone(&self.queued), Arc::clone(&self.progress));
        let mut place = Box::pin(Arc::<Semaphore>::clone(&state.pool).acquire_owned());
        // Waits in line from here on: tasks begin in any order, and hooks are to begin in the order of their events.
        let at_once = futures_util::poll!(&mut place);
        self.jobs.spawn_boxed(async move {
            let place = match at_once {
                Poll::Ready(place) => place,
                Poll::Pending => place.await,
            };
            queued.fetch_sub(1, Ordering::Relaxed);
            // Closed: the daemon is ending, and the next one will do it.
            let Ok(_place) = place else { return };
            for hook in &job.hooks {
                run_one(&core, &state, hook, &job).await;
            }
            progress.lock().open.remove(&job.n);
        });
    }

    fn drop_job(&mut self, job: &Job) {
        for hook in &job.hooks {
            self.core.metrics.hooks.ran(hook.label(), "dropped");
        }
        if !self.dropping {
            self.dropping = true;
            self.core.log.warn("hooks_dropped", json!({"queue": MOST_QUEUED, "first_event_id": job.event_id}));
        }
    }

    async fn startup(&mut self) {
        let (core, hook) = (&self.core, HookName::Startup);
        let state = core.hooks.state();
        if !state.policy().is_some_and(|policy| policy.runs(&hook)) {
            return;
        }
        let ts = core.clock.now_ms();
        let event_id = payload::ring_id(core.events.boot(), 0, ts);
        let data = json!({"version": core.me.version, "pid": std::process::id()});
        let what = What::Event { name: "startup", ts, data };
        self.spawn(&state, Job { n: 0, hooks: vec![hook], event_id, what }).await;
    }

    /// Hooks are off: what comes now is not owed to anybody.
    async fn forget(&mut self) {
        self.after = None;
        if matches!(self.core.inbox.hooks_cursor().await, Ok(Some(_))) {
            self.core.inbox.set_hooks_cursor(None).await.ok();
        }
    }

    /// Writes down how far everything has come.
    async fn write(&mut self) {
        let floor = self.progress.lock().floor();
        if self.after.is_some() && floor != self.written {
            self.write_place(floor).await;
        }
    }

    async fn write_place(&mut self, place: u64) {
        self.written_at = Instant::now();
        match self.core.inbox.set_hooks_cursor(Some(place)).await {
            Ok(()) => self.written = place,
            // It is tried again with the next event; until then more would be run again.
            Err(error) => self.core.log.warn("hooks_place_not_kept", json!({"error": error.to_string()})),
        }
    }

    /// The daemon ends: what waits is for the next one, what runs has a moment.
    async fn part(mut self) {
        let state = self.core.hooks.state();
        state.pool.close();
        let ended = async { while self.jobs.join_next().await.is_some() {} };
        tokio::time::timeout(FAREWELL, ended).await.ok();
        self.write().await;
        // Whoever is still there is ended with its job.
        self.jobs.shutdown().await;
    }
}

/// What is to be done about something that happened; its number alone if nothing is.
fn job(core: &Core, state: &State, happened: Happened) -> Result<Job, u64> {
    let Happened { n, boot, ts, row, history, name, data } = happened;
    let Some(policy) = state.policy() else { return Err(n) };
    if history {
        return Err(n);
    }
    if let Some(row) = row {
        let hooks: Vec<HookName> = matching::of_message(&row).into_iter().filter(|hook| policy.runs(hook)).collect();
        if hooks.is_empty() {
            return Err(n);
        }
        let event_id = payload::event_id(&row);
        return Ok(Job { n, hooks, event_id, what: What::Message(Arc::new(row)) });
    }
    // A connection that was lost before this daemon began is nothing to tell now.
    if boot != core.events.boot() {
        return Err(n);
    }
    let data: Value = data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default();
    match matching::of_event(&name, &data).filter(|hook| policy.runs(hook)) {
        None => Err(n),
        Some(hook) => {
            let name = if hook == HookName::Disconnect { "disconnect" } else { "reconnect" };
            let event_id = payload::ring_id(&boot, n, ts);
            Ok(Job { n, hooks: vec![hook], event_id, what: What::Event { name, ts, data } })
        }
    }
}

/// Runs one hook of an event, and sends what it answers.
async fn run_one(core: &Arc<Core>, state: &State, hook: &HookName, job: &Job) {
    let Some(rule) = state.policy().and_then(|policy| policy.rule(hook)) else { return };
    let (told, row) = match &job.what {
        What::Message(row) => (payload::of_message(row, hook, &job.event_id), Some(row)),
        What::Event { name, ts, data } => {
            (payload::of_event(name, hook, &job.event_id, &core.me.slug, *ts, data), None)
        }
    };
    let occasion = Occasion { hook, rule, event_id: &job.event_id, payload: told, row };
    let Ok(invoked) = invoke::invoke(core, state, occasion).await else { return };
    let replied = match row {
        Some(row) if rule.allow_reply && hook.answers() => answer(core, hook, &job.event_id, row, &invoked).await,
        _ => false,
    };
    invoke::record(core, hook, rule, &job.event_id, &invoked, replied).await;
}

/// Sends what a hook has answered; whether it did.
async fn answer(core: &Arc<Core>, hook: &HookName, event_id: &str, row: &InboxRow, invoked: &Invoked) -> bool {
    if invoked.ran.exit != Exit::Code(0) {
        return false;
    }
    let about = |fields: Value| {
        let mut all = json!({"hook": hook.to_string(), "event_id": event_id});
        if let (Some(all), Value::Object(fields)) = (all.as_object_mut(), fields) {
            all.extend(fields);
        }
        all
    };
    let reply = match reply::reply(&invoked.ran.stdout) {
        Ok(None) => return false,
        Ok(Some(reply)) => reply,
        Err(reason) => {
            core.log.warn("hook_output_not_understood", about(json!({"reason": reason})));
            return false;
        }
    };
    let mut meta = reply.meta;
    meta.insert(HOP.to_owned(), matching::hops(row.meta.as_ref()).saturating_add(1).into());
    let (meta, id) = (Some(Value::Object(meta)), format!("hook:{event_id}:{hook}"));
    let mesh = Mesh::of(Arc::clone(core));
    let reply_to = Some(row.client_message_id.clone());
    let topic = row.topic.clone().filter(|_| row.kind == Kind::Topic);
    let request = SendRequest {
        to: sender(row),
        message: reply.text,
        priority: reply.priority,
        meta,
        reply_to,
        client_message_id: Some(id),
        mentions: Vec::new(),
    };
    let send = || {
        let (mesh, request, topic) = (mesh.clone(), request.clone(), topic.clone());
        async move {
            let Some(topic) = topic else { return mesh.send(request, &Caller::Member).await };
            let SendRequest { message, priority, meta, reply_to, client_message_id, mentions, .. } = request;
            let post = PostRequest { topic, message, priority, meta, reply_to, client_message_id, mentions };
            mesh.topic_post(post, &Caller::Member).await
        }
    };
    let mut said = false;
    let waits = |refusal: &Refusal| {
        if !std::mem::replace(&mut said, true) {
            let fields = json!({"code": refusal.code(), "error": refusal.detail()});
            core.log.warn("hook_reply_waits", about(fields));
        }
    };
    let sent = patiently(send, waits).await;
    match sent {
        Ok(_) => true,
        // It ran again after a crash and thought of something else; the first answer stands.
        Err(refusal) if refusal.code() == "idempotency_key_reused" => {
            core.log.info("hook_reply_was_sent_before", about(json!({})));
            false
        }
        Err(refusal) => {
            let fields = json!({"code": refusal.code(), "error": refusal.detail()});
            core.log.warn("hook_reply_not_sent", about(fields));
            false
        }
    }
}

/// Whether a refusal passes by itself or by what somebody does about it: no room, or a disk that fails.
fn passes(code: &str) -> bool {
    matches!(code, "insufficient_storage" | "degraded" | "daemon_busy" | "internal")
}

/// Tries until something is taken or refused for good. Its event stays open meanwhile and keeps its place in the pool, so
/// that no more wait than may run; if the daemon ends first, the next one runs the hook again.
async fn patiently<T, F>(mut send: impl FnMut() -> F, mut waits: impl FnMut(&Refusal)) -> Result<T, Refusal>
where
    F: Future<Output = Result<T, Refusal>>,
{
    let mut pause = AGAIN;
    loop {
        match send().await {
            Err(refusal) if passes(refusal.code()) => waits(&refusal),
            settled => return settled,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// The address of who sent a message: the session that wrote it, if it was one.
pub(crate) fn sender(row: &InboxRow) -> String {
    match row.sender_name.split_once('/') {
        Some((_, session)) => format!("{}/{session}", row.sender_member_id),
        None => row.sender_member_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_passed_that_is_not_done() {
        let mut progress = Progress { seen: 9, open: BTreeSet::from([5, 7]) };
        assert_eq!(progress.floor(), 4);
        progress.open.remove(&5);
        assert_eq!(progress.floor(), 6);
        progress.open.remove(&7);
        assert_eq!(progress.floor(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_while_there_is_no_room_for_it() {
        let codes = ["insufficient_storage", "degraded", "daemon_busy", "internal"];
        let (mut tries, mut waited, begun) = (0, Vec::new(), Instant::now());
        let send = || {
            let code = codes.get(tries).copied();
            tries += 1;
            async move { code.map_or(Ok("sent"), |code| Err(Refusal::new(code, ""))) }
        };
        let sent = patiently(send, |refusal| waited.push(refusal.code().to_owned())).await;
        assert_eq!(sent.unwrap(), "sent");
        assert_eq!(waited, codes);
        assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 4 + 8);
        // What is refused for good is not tried again.
        for code in ["blocked_by_pre_send", "idempotency_key_reused", "invalid", "member_revoked", "peer_not_found"] {
            let mut tries = 0;
            let send = || {
                tries += 1;
                std::future::ready(Err::<(), _>(Refusal::new(code, "")))
            };
            assert_eq!(patiently(send, |_| panic!("it waits")).await.unwrap_err().code(), code);
            assert_eq!(tries, 1, "{code}");
        }
    }

    #[test]
    fn an_answer_goes_to_the_session_that_asked() {
        let row = super::super::tests::row();
        assert_eq!(sender(&row), "bob");
        assert_eq!(sender(&InboxRow { sender_name: "bob/review".into(), ..row }), "bob/review");
    }
}
