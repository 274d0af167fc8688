//! Telling people who are not looking: a request waits, a turn has ended.
//!
//! The daemon calls one function, beside its doors, and drops it to end it:
//! `notify::run(settings.approvals.notify.clone(), programs, label, approvals.clone(), sessions.clone(), log.clone())`,
//! where `programs` says where `notify-send` is looked for and `label` is the house's name for people. It never returns by itself and never fails.
//!
//! Invariant: nobody waits for a notification. What is told goes through a short queue per way; a way that is slow loses
//! its oldest news and says so in the log. What is told holds ids, kinds and the name of a program, never arguments,
//! environments, prompts or answers.

mod desktop;
mod news;
mod webhook;

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

use hostel_doors::claustrum::Log;
use hostel_guard::OwnPrograms;
use hostel_house::approvals::Approvals;
use hostel_house::sessions::NextEvents;
use hostel_house::sessions::Session;
use hostel_house::sessions::Sessions;
use hostel_tasks::SpawnBoxed as _;
use std::sync::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::config::NotifySettings;
use crate::config::Occasion;
use news::News;

pub(crate) use desktop::PROGRAM as NOTIFIER;

/// News that may wait on one way; older ones are given up.
const QUEUE: usize = 128;

/// Tells what happens, until it is dropped.
pub(crate) async fn run(
    settings: NotifySettings,
    programs: OwnPrograms,
    house: String,
    approvals: Approvals,
    sessions: Sessions,
    log: Log,
) {
    let mut ways = JoinSet::new();
    let mut queues = Vec::new();
    if let Some(program) = desktop::program(programs).filter(|_| settings.desktop) {
        let queue = Queue::new();
        queues.push(Arc::clone(&queue));
        ways.spawn_boxed(desktop::tell(program, queue, log.clone()));
    }
    if let (Some(url), Some(secret)) = (settings.webhook.clone(), settings.secret_file.clone()) {
        match webhook::Webhook::new(&url, secret) {
            Ok(webhook) => {
                let queue = Queue::new();
                queues.push(Arc::clone(&queue));
                ways.spawn_boxed(webhook.tell(queue, log.clone()));
            }
            Err(error) => log.warn(format_args!("[hostel] nothing is sent to the webhook: {error}")),
        }
    }
    if queues.is_empty() {
        return std::future::pending().await;
    }
    let teller = Teller { house, queues: queues.into() };
    let wants = |occasion| settings.on.contains(&occasion);
    // Alarms are told whatever the settings say: who could change those could silence them.
    let alarms = watch_alarms(teller.clone(), approvals.clone());
    let requests = watch_requests(wants(Occasion::Request), teller.clone(), approvals);
    let turns = watch_turns(wants(Occasion::Turn), teller, sessions);
    tokio::join!(alarms, requests, turns);
    std::future::pending::<()>().await;
}

/// Where news go.
#[derive(Clone)]
struct Teller {
    house: String,
    queues: Arc<[Arc<Queue>]>,
}

impl Teller {
    fn tell(&self, news: &News) {
        for queue in self.queues.iter() {
            queue.push(news.clone());
        }
    }
}

/// News on their way; the oldest go if there are too many.
struct Queue {
    waiting: Mutex<(VecDeque<News>, u64)>,
    more: Notify,
}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Queue { waiting: Mutex::default(), more: Notify::new() })
    }

    fn push(&self, news: News) {
        // A poisoned lock holds news like any other.
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waiting.0.len() >= QUEUE {
            waiting.0.pop_front();
            waiting.1 += 1;
        }
        waiting.0.push_back(news);
        drop(waiting);
        self.more.notify_one();
    }

    /// The next news, and how many were given up before it.
    async fn next(&self) -> (News, u64) {
        loop {
            let taken = {
                let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                waiting.0.pop_front().map(|news| (news, std::mem::take(&mut waiting.1)))
            };
            match taken {
                Some(taken) => return taken,
                None => self.more.notified().await,
            }
        }
    }
}

/// Each request once, when it begins to wait. Those that wait already were told by the daemon before.
async fn watch_requests(wanted: bool, teller: Teller, approvals: Approvals) {
    if !wanted {
        return;
    }
    let mut changed = approvals.changed();
    changed.borrow_and_update();
    let mut known: HashSet<String> = approvals.pending().into_iter().map(|approval| approval.id).collect();
    while changed.changed().await.is_ok() {
        let pending = approvals.pending();
        for approval in pending.iter().filter(|approval| !known.contains(&approval.id)) {
            teller.tell(&News::request(&teller.house, approval));
        }
        known = pending.into_iter().map(|approval| approval.id).collect();
    }
}

/// Each alarm once.
async fn watch_alarms(teller: Teller, approvals: Approvals) {
    let mut alarms = approvals.follow_alarms();
    drop(approvals);
    while let Some(raised) = alarms.next().await {
        for alarm in &raised {
            teller.tell(&News::alarm(&teller.house, alarm));
        }
    }
}

/// Each end of a turn, in every session.
async fn watch_turns(wanted: bool, teller: Teller, sessions: Sessions) {
    if !wanted {
        return;
    }
    let mut changed = sessions.changed();
    let mut followed: HashMap<String, tokio::task::AbortHandle> = HashMap::new();
    let mut followers = JoinSet::new();
    loop {
        changed.borrow_and_update();
        let live = sessions.list();
        followed.retain(|id, follower| {
            let there = !follower.is_finished() && live.iter().any(|session| session.id() == id);
            if !there {
                follower.abort();
            }
            there
        });
        for session in live {
            if !followed.contains_key(session.id()) {
                let id = session.id().to_owned();
                followed.insert(id, followers.spawn_boxed(follow(teller.clone(), session)));
            }
        }
        tokio::select! {
            more = changed.changed() => if more.is_err() { return },
            Some(_) = followers.join_next(), if !followers.is_empty() => {}
        }
    }
}

async fn follow(teller: Teller, session: Arc<Session>) {
    // What was told before the daemon started is not told again.
    session.current().await;
    let mut events = session.events(session.last_seq());
    let (id, agent) = (session.id().to_owned(), session.agent().to_owned());
    drop(session);
    loop {
        match events.next().await {
            Ok(NextEvents::Entries(entries)) => {
                for entry in entries {
                    if let Some(news) = News::turn(&teller.house, &id, &agent, &entry.event) {
                        teller.tell(&news);
                    }
                }
            }
            Ok(NextEvents::Gap { .. }) => {}
            Ok(NextEvents::Closed) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_way_loses_the_oldest_and_knows_how_many() {
        let queue = Queue::new();
        for number in 0..QUEUE + 3 {
            queue.push(News { id: number.to_string(), ..News::default() });
        }
        let (news, lost) = queue.next().await;
        assert_eq!((news.id.as_str(), lost), ("3", 3));
        assert_eq!(queue.next().await.1, 0);
    }
}
