//! Who is connected over HTTP, and which of them have left in the middle.
//!
//! Invariant: a session whose client holds no connection any more while a call of it is being worked on is ended after
//! a short wait, which cancels the call: a client that left does not get anything run. One that comes back in time goes
//! on. Sessions are bounded; the one that was idle longest makes room for a new one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_peer::Peer;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::Instant;

/// What is known of one session.
#[derive(Debug)]
struct Attendance {
    /// Response streams that a client holds.
    streams: usize,
    /// Calls being worked on.
    calls: usize,
    last: Instant,
    /// Dropped when the session is over, which calls of it notice.
    over: watch::Sender<()>,
    /// Streams a client holds for what the server says unasked.
    listening: watch::Sender<usize>,
    /// How many events of those streams were handed over, whether they arrived or not.
    handed: Arc<AtomicUsize>,
}

impl Default for Attendance {
    fn default() -> Self {
        Attendance {
            streams: 0,
            calls: 0,
            last: Instant::now(),
            over: watch::Sender::new(()),
            listening: watch::Sender::new(0),
            handed: Arc::default(),
        }
    }
}

/// Every session.
#[derive(Debug)]
pub(super) struct Visits {
    sessions: Mutex<HashMap<String, Attendance>>,
    leave: Duration,
    /// Hears of sessions whose client has left.
    left: mpsc::Sender<String>,
}

impl Visits {
    /// `left` hears the id of each session whose client was away for `leave` while a call of it was worked on.
    pub(super) fn new(leave: Duration, left: mpsc::Sender<String>) -> Arc<Self> {
        Arc::new(Visits { sessions: Mutex::default(), leave, left })
    }

    /// A request of a session, or one of none.
    pub(super) fn visit(self: &Arc<Self>, session: Option<&str>, peer: Option<Peer>) -> Visit {
        if let Some(session) = session {
            // Only sessions that exist are kept: an id that was made up is nobody's.
            if let Some(attendance) = self.sessions.lock().get_mut(session) {
                attendance.last = Instant::now();
            }
        }
        let sessions = self.sessions.lock();
        let known = session.and_then(|session| sessions.get(session));
        let over = known.map(|known| known.over.subscribe());
        let listening = known.map(|known| known.listening.subscribe());
        drop(sessions);
        Visit { visits: Arc::clone(self), session: session.map(str::to_owned), peer, over, listening }
    }

    /// A client of a session begins to listen to what the server says unasked; none if there is no such session.
    pub(super) fn listen(&self, session: &str) -> Option<Listening> {
        let sessions = self.sessions.lock();
        let known = sessions.get(session)?;
        known.listening.send_modify(|count| *count += 1);
        Some(Listening { count: known.listening.clone(), handed: Arc::clone(&known.handed) })
    }

    /// A session has begun.
    pub(super) fn begin(&self, session: &str) {
        self.sessions.lock().entry(session.to_owned()).or_default();
    }

    /// A session is over.
    pub(super) fn end(&self, session: &str) {
        self.sessions.lock().remove(session);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Whether another session can begin, if need be in the place of an idle one.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        self.count() < limit || self.idlest().is_some()
    }

    /// The session that is idle longest: nobody is connected and nothing runs.
    pub(super) fn idlest(&self) -> Option<String> {
        let sessions = self.sessions.lock();
        let idle = sessions.iter().filter(|(_, attendance)| attendance.streams == 0 && attendance.calls == 0);
        idle.min_by_key(|(_, attendance)| attendance.last).map(|(session, _)| session.clone())
    }

    fn change(&self, session: &str, change: impl FnOnce(&mut Attendance)) {
        if let Some(attendance) = self.sessions.lock().get_mut(session) {
            change(attendance);
            attendance.last = Instant::now();
        }
    }

    fn is_deserted(&self, session: &str) -> bool {
        self.sessions.lock().get(session).is_some_and(|attendance| attendance.streams == 0 && attendance.calls > 0)
    }

    /// Looks again after a while whether somebody came back.
    fn watch(self: &Arc<Self>, session: &str) {
        if !self.is_deserted(session) {
            return;
        }
        let (visits, session, since) = (Arc::clone(self), session.to_owned(), Instant::now());
        hostel_tasks::spawn(async move {
            tokio::time::sleep(visits.leave).await;
            let away = visits.sessions.lock().get(&session).is_some_and(|attendance| attendance.last <= since);
            if away && visits.is_deserted(&session) {
                visits.left.send(session).await.ok();
            }
        });
    }
}

/// One HTTP request, as the tools see it.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    visits: Arc<Visits>,
    pub(super) session: Option<String>,
    /// The process at the other end.
    pub(super) peer: Option<Peer>,
    over: Option<watch::Receiver<()>>,
    listening: Option<watch::Receiver<usize>>,
}

impl Visit {
    /// Waits until somebody listens to what the server says unasked; false if nobody ever will.
    pub(super) async fn heard(&self) -> bool {
        match self.listening.clone() {
            Some(mut listening) => listening.wait_for(|count| *count > 0).await.is_ok(),
            None => false,
        }
    }

    /// Comes back when the session is over; never for a request that belongs to none.
    pub(super) async fn over(&self) {
        match self.over.clone() {
            Some(mut over) => while over.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }

    /// A call is being worked on for as long as this lives.
    pub(super) fn busy(&self) -> Busy {
        self.count(true, 1);
        Busy(self.clone())
    }

    /// A client holds a response stream for as long as this lives.
    pub(super) fn stream(&self) -> Held {
        self.count(false, 1);
        Held(self.clone())
    }

    fn count(&self, call: bool, by: isize) {
        if let Some(session) = &self.session {
            self.visits.change(session, |attendance| {
                let count = if call { &mut attendance.calls } else { &mut attendance.streams };
                *count = count.saturating_add_signed(by);
            });
        }
    }
}

/// A client that listens, for as long as this lives.
pub(super) struct Listening {
    count: watch::Sender<usize>,
    handed: Arc<AtomicUsize>,
}

impl Listening {
    /// How many events were handed over before.
    pub(super) fn handed(&self) -> usize {
        self.handed.load(Ordering::Acquire)
    }

    /// So many have been by now.
    pub(super) fn hand(&self, count: usize) {
        self.handed.fetch_max(count, Ordering::AcqRel);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A call being worked on.
pub(super) struct Busy(Visit);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count(true, -1);
    }
}

/// A response stream that a client holds.
pub(super) struct Held(Visit);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.count(false, -1);
        if let Some(session) = &self.0.session {
            self.0.visits.watch(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_leaves_in_the_middle_is_told_of() {
        let (left, mut heard) = mpsc::channel(8);
        let visits = Visits::new(Duration::from_secs(10), left);
        visits.begin("s");
        let visit = visits.visit(Some("s"), None);
        let (busy, stream) = (visit.busy(), visit.stream());
        drop(stream);
        assert_eq!(heard.recv().await.as_deref(), Some("s"));
        // One that came back in time is not.
        let stream = visit.stream();
        drop(stream);
        let back = visit.stream();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(heard.try_recv().is_err());
        drop(busy);
        drop(back);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_idlest_makes_room() {
        let visits = Visits::new(Duration::from_secs(10), mpsc::channel(8).0);
        for session in ["a", "b", "c"] {
            visits.begin(session);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        visits.visit(Some("a"), None);
        let busy = visits.visit(Some("b"), None).busy();
        assert_eq!((visits.count(), visits.idlest().as_deref()), (3, Some("c")));
        visits.end("c");
        assert_eq!(visits.idlest().as_deref(), Some("a"));
        drop(busy);
        visits.visit(Some("made up"), None).busy();
        assert_eq!(visits.count(), 2);
    }
}
