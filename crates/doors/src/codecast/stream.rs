//! The stream of `session.send`: a cursor into the session's events, written as frames while the client reads.
//!
//! Invariant: nothing is queued for a client. A client that does not read stops its own cursor and nothing else, and
//! when it goes, what it had not read is owed to it. Many events go into one piece of the body; a piece is sent as
//! soon as there is nothing more to add to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use hostel_agents::Event;
use hostel_house::sessions::{Entry, Events, NextEvents, Sent, Session, Status};
use hostel_house::store::StoreError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::event::{Out, Shape};
use super::link::{Link, Ticket};
use super::parcel::{Connection, Parcel, Trail};
use super::present::Presenter;

/// A piece of the body is sent when it has this many bytes.
const PIECE: usize = 64 * 1024;
/// What an ordinary piece needs.
const SMALL_PIECE: usize = 512;
/// How often it is noted how far the client is.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How often a turn that is over is looked at again until its session rests.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// A piece of the body.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// Nothing comes after it.
    pub(super) last: bool,
}

/// Everything a new stream needs to know.
pub(super) struct Start {
    pub(super) link: Arc<Link>,
    pub(super) connection: Arc<Connection>,
    pub(super) ticket: Ticket,
    pub(super) sent: Sent,
    pub(super) ping: Duration,
    pub(super) stop: watch::Receiver<bool>,
}

/// A stream that follows a session until it rests.
pub(super) struct Following {
    session: Arc<Session>,
    connection: Arc<Connection>,
    events: Events,
    presenter: Presenter,
    out: Out,
    /// Read and not written yet.
    batch: std::vec::IntoIter<Arc<Entry>>,
    /// The last event that was written.
    seq: u64,
    /// The last event was the end of a turn.
    turn_over: bool,
    look: Duration,
    ping: Duration,
    ping_at: Instant,
    note_at: Instant,
    stop: watch::Receiver<bool>,
    handed: Option<Handed>,
    finished: bool,
}

/// What goes back when the stream does.
struct Handed {
    link: Arc<Link>,
    ticket: Ticket,
    trail: Trail,
}

/// What ended a wait.
enum Woken {
    Events(Result<NextEvents, StoreError>),
    Ping,
    Look,
    Stop,
}

impl Following {
    pub(super) fn new(start: Start) -> Self {
        let Start { link, connection, ticket, sent, ping, stop } = start;
        let session = Arc::clone(link.session());
        let mut presenter = Presenter::new(session.kind(), session.hosting());
        presenter.expect(sent.turn);
        let mut out = Out::new(Shape::Frames);
        out.bare("ping");
        let now = Instant::now();
        Self {
            events: session.events(sent.after_seq),
            session,
            connection,
            presenter,
            out,
            batch: Vec::new().into_iter(),
            seq: sent.after_seq,
            turn_over: false,
            look: FIRST_LOOK,
            ping,
            ping_at: now + ping,
            note_at: now + NOTE_EVERY,
            stop,
            handed: Some(Handed { link, ticket, trail: Trail::new(sent.after_seq) }),
            finished: false,
        }
    }

    /// The next piece of the body; `None` after the last, and when the daemon stops.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        // The first piece is the ping: the client learns at once that its message was taken.
        if !self.out.is_empty() {
            return Some(self.piece(false));
        }
        while !self.finished {
            if self.write_batch() {
                return Some(self.piece(false));
            }
            if self.turn_over && self.rests() {
                return Some(self.finish());
            }
            // Without waiting first: a full piece is cheaper than two.
            let woken = match self.events.next().now_or_never() {
                Some(events) => Woken::Events(events),
                None if !self.out.is_empty() => return Some(self.piece(false)),
                None => self.wait().await,
            };
            match woken {
                Woken::Events(Ok(NextEvents::Entries(entries))) => self.batch = entries.into_iter(),
                Woken::Events(Ok(NextEvents::Gap { from, to })) => {
                    Presenter::gap(from, to, &mut self.out);
                    self.seq = to;
                    self.turn_over = true;
                }
                Woken::Events(Ok(NextEvents::Closed)) => return Some(self.finish()),
                Woken::Events(Err(error)) => {
                    self.out.error(&format!("the events cannot be read: {error}"));
                    self.out.done();
                    let piece = self.piece(true);
                    // Not the end: what could not be read is owed.
                    if let Some(handed) = self.handed.take() {
                        handed.link.lost(&handed.ticket, self.seq);
                    }
                    self.finished = true;
                    return Some(piece);
                }
                Woken::Ping => {
                    self.ping_at = Instant::now() + self.ping;
                    self.out.bare("ping");
                }
                Woken::Look => self.look = (self.look * 2).min(LAST_LOOK),
                Woken::Stop => return None,
            }
        }
        None
    }

    /// Writes what was read. True if that makes a piece.
    fn write_batch(&mut self) -> bool {
        let until = self.handed.as_ref().map(|handed| Arc::clone(&handed.ticket.until));
        for entry in self.batch.by_ref() {
            if until.as_ref().is_some_and(|until| entry.seq > until.load(Ordering::Relaxed)) {
                // Another stream has taken over. Ours is over, whatever the session does.
                self.batch = Vec::new().into_iter();
                self.turn_over = true;
                return false;
            }
            self.presenter.tell(&entry, &mut self.out);
            self.seq = entry.seq;
            self.turn_over = matches!(entry.event, Event::TurnEnded { .. });
            self.look = FIRST_LOOK;
            if self.out.len() >= PIECE {
                return true;
            }
        }
        false
    }

    async fn wait(&mut self) -> Woken {
        let look_at = Instant::now() + self.look;
        tokio::select! {
            biased;
            events = self.events.next() => Woken::Events(events),
            () = tokio::time::sleep_until(self.ping_at) => Woken::Ping,
            () = tokio::time::sleep_until(look_at), if self.turn_over => Woken::Look,
            _ = self.stop.wait_for(|stop| *stop) => Woken::Stop,
        }
    }

    /// Whether the session has nothing more to say to this stream, and the stream may therefore end.
    fn rests(&self) -> bool {
        let Some(handed) = &self.handed else { return true };
        let replaced = handed.ticket.until.load(Ordering::Relaxed) <= self.seq;
        let quiet = self.session.status() == Status::Idle && self.seq >= self.session.last_seq();
        (replaced || quiet) && handed.link.finish(handed.ticket.stream)
    }

    /// The last piece.
    fn finish(&mut self) -> Piece {
        if let Some(handed) = &self.handed {
            handed.link.finish(handed.ticket.stream);
        }
        self.out.done();
        let piece = self.piece(true);
        self.give_back(Some(self.seq));
        piece
    }

    fn piece(&mut self, last: bool) -> Piece {
        let now = Instant::now();
        // A stream that is never silent needs its pings too.
        if now >= self.ping_at && !last {
            self.ping_at = now + self.ping;
            self.out.bare("ping");
        }
        let room = if self.out.len() >= PIECE / 2 { PIECE + PIECE / 8 } else { SMALL_PIECE };
        let bytes = Bytes::from(self.out.take(room));
        if let Some(handed) = &mut self.handed {
            if now >= self.note_at {
                self.note_at = now + NOTE_EVERY;
                handed.note(&self.connection);
            }
            handed.trail.hand(bytes.len(), self.seq);
        }
        self.connection.line.give(bytes.len());
        Piece { bytes, last }
    }

    fn give_back(&mut self, end: Option<u64>) {
        self.finished = true;
        if let Some(Handed { link, ticket, trail }) = self.handed.take() {
            self.connection.hand_in(Parcel::Stream { link, ticket, trail, end });
        }
    }
}

impl Handed {
    /// Notes how far the client is.
    fn note(&mut self, connection: &Connection) {
        let (line, layers) = (&connection.line, connection.layers);
        if let Some(unread) = line.unread(layers) {
            self.trail.read(unread);
        }
        self.trail.read(connection.behind + line.held_back(layers));
        // Should the daemon die now, the kernel still delivers what it has.
        self.link.reached(self.ticket.stream, self.trail.at(line.held_back(layers)));
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Before its end: the client has gone, or the daemon stops.
        self.give_back(None);
    }
}
