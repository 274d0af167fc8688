//! A connection of a daemon: who it is, what is on its way to it, how it ends.
//!
//! Invariant: one task serves a connection, from the challenge to the close. Its reading half handles frames in the order
//! in which they came; its writing half is the only one that writes. What others have to say to it goes through a queue
//! with a bound, and a connection that does not keep up is let go rather than waited for.
//!
//! It holds nothing that must survive: a daemon that comes back says where it was.

mod delivery;
mod hello;
mod reader;
mod serve;
mod window;
mod writer;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hostel_wire::frames::{Group, close};
use hostel_wire::keys::PublicKey;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub(crate) use delivery::frame;
pub(crate) use serve::serve;
pub(crate) use window::Window;
pub(crate) use writer::FAREWELL;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A member's daemon.
    Service,
    /// A session of a member.
    Session,
}

/// A connection that was let in.
pub(crate) struct Connection {
    /// Unlike any other of this broker's life.
    pub(crate) id: u64,
    /// Its name outside.
    pub(crate) presence_id: String,
    /// Which mesh.
    pub(crate) mesh: String,
    /// Which member.
    pub(crate) member: String,
    /// The member's key.
    pub(crate) member_key: PublicKey,
    /// The key of this connection: the member's, or a session's.
    pub(crate) key: PublicKey,
    /// What it is for.
    pub(crate) role: Role,
    /// 1 or 2.
    pub(crate) protocol: u32,
    /// Entries of the log are sent to it.
    pub(crate) wants_entries: bool,
    /// Also changes of what is shared.
    pub(crate) shares: bool,
    /// It takes news of several members' coming and going in one frame.
    pub(crate) hears_batches: bool,
    /// What its hello said of it.
    pub(crate) about: About,
    /// What it says of itself now.
    pub(crate) now: Mutex<Now>,
    /// What is on its way to it.
    pub(crate) window: Mutex<Window>,
    /// Rung when the window opens or something else changes what may be sent.
    pub(crate) opened: Notify,
    /// It said that it leaves.
    pub(crate) bye: AtomicBool,
    /// How far it had read when that was last kept.
    pub(crate) cursor_saved: AtomicU64,
    /// Held while a frame is being handled: its answer belongs before the close.
    turn: tokio::sync::Mutex<()>,
    news: mpsc::Sender<Utf8Bytes>,
    end: OnceLock<(u16, String)>,
    ended: Notify,
}

/// What a hello says of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) session_id: String,
    pub(crate) pid: u32,
    pub(crate) cwd: String,
    pub(crate) hostname: String,
    pub(crate) peer_type: String,
    pub(crate) channel: String,
    pub(crate) model: Option<String>,
    pub(crate) display_name: String,
    pub(crate) groups: Vec<Group>,
    pub(crate) connected_ms: u64,
    pub(crate) host_fingerprint: Option<String>,
    /// It is there for others' sessions only.
    pub(crate) control_plane: bool,
}

/// What a connection says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    pub(crate) status: Status,
    /// When it said so.
    pub(crate) at: Instant,
    pub(crate) summary: Option<String>,
    pub(crate) visible: bool,
}

/// Whether a peer may be disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Working,
    Dnd,
}

impl Status {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "idle" => Some(Self::Idle),
            "working" => Some(Self::Working),
            "dnd" => Some(Self::Dnd),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Dnd => "dnd",
        }
    }
}

impl Connection {
    /// Says something to it. One that does not read what others say is let go: it learns everything when it comes back.
    pub(crate) fn tell(&self, text: Utf8Bytes) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.news.try_send(text) {
            self.end(close::GOING_AWAY, "too_slow");
        }
    }

    /// Ends it: what was told before is sent first. The first reason counts.
    pub(crate) fn end(&self, code: u16, reason: &str) {
        self.end.set((code, reason.to_owned())).ok();
        self.ended.notify_waiters();
        self.ended.notify_one();
    }

    /// Why it ends, if it does.
    pub(crate) fn ending(&self) -> Option<&(u16, String)> {
        self.end.get()
    }

    /// Waits until somebody ends it.
    pub(crate) async fn ended(&self) {
        while self.end.get().is_none() {
            self.ended.notified().await;
        }
    }

    /// Whether it may be disturbed by what is not urgent, and if not, until when that may change by itself.
    pub(crate) fn held(&self, working: std::time::Duration) -> Option<Option<Instant>> {
        if self.role == Role::Service {
            return None;
        }
        let now = self.now.lock();
        match now.status {
            Status::Idle => None,
            Status::Dnd => Some(None),
            Status::Working if now.at.elapsed() >= working => None,
            Status::Working => Some(Some(now.at + working)),
        }
    }

    /// Its status as others see it.
    pub(crate) fn status(&self, working: std::time::Duration) -> Status {
        let now = self.now.lock();
        match now.status {
            Status::Working if now.at.elapsed() >= working => Status::Idle,
            status => status,
        }
    }

    /// It has left by its own will or for good: nobody need wait for it to come back.
    pub(crate) fn left_for_good(&self) -> bool {
        let ended = self.ending().map(|(code, _)| *code);
        self.bye.load(Ordering::Acquire) || matches!(ended, Some(close::BANNED | close::KICKED))
    }
}
