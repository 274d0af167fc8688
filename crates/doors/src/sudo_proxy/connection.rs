//! One connection: a request line is read, judged, served and answered.
//!
//! Invariant: one line is read and one is written; nothing is said before the request is there. Whoever used an id
//! gets an answer, even from a handler that broke. A client that only finished sending is still there.

use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use std::time::Instant;

use futures_util::FutureExt as _;
use hostel_house::insiders;
use hostel_house::insiders::Rights;
use hostel_peer::Peer;
use hostel_peer::PeerInfo;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use sha2::Digest as _;
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::ReadHalf;
use tokio::net::unix::WriteHalf;

use super::LINE_LIMIT;
use super::NAME;
use super::answer;
use super::answer::Plain;
use super::command;
use super::dispatch;
use super::door::Door;
use super::door::Ended;
use super::gates::Accepted;
use super::gates::Refused;
use super::gates::Screened;
use super::notice::Notice;
use super::replay::Seen;
use super::request;
use super::request::Action;
use crate::admission;
use crate::rpc::hangup;
use crate::rpc::line::Line;
use crate::rpc::line::LineReader;
use crate::zeroclaw::PeerNames as _;

/// How long one that sent too much is listened to, so that it hears why.
const LINGER: Duration = Duration::from_secs(1);

/// A client while it is served.
pub(crate) struct Client<'a> {
    pub(crate) door: &'a Door,
    read: ReadHalf<'a>,
    write: WriteHalf<'a>,
    peer: Peer,
    progress: &'a mut Progress,
}

/// How far a client was served: known to whoever cleans up after a broken handler.
#[derive(Debug, Default)]
struct Progress {
    id: String,
    answered: bool,
}

/// What came of listening.
enum Heard {
    /// A request line, without its newline.
    Line(Vec<u8>),
    /// Nothing that wants an answer.
    Nothing,
    /// No request line, and why; `more` if the client may still be sending.
    Refused { message: String, more: bool },
}

/// Serves a connection to its end.
pub(crate) async fn run(mut stream: UnixStream, door: &Door, peer: Peer) {
    let mut progress = Progress::default();
    let served = AssertUnwindSafe(serve(&mut stream, door, peer, &mut progress)).catch_unwind().await;
    if served.is_err() {
        door.0.log.error(format_args!("the handler of a request broke"));
        if !progress.answered {
            let failed = Plain::Error("internal error; the request was given up".to_owned());
            let line = answer::line(&progress.id, &failed, &door.0.settings.reported_version);
            admission::say_at_once(&stream, &line);
        }
    }
    admission::discard(&stream);
}

async fn serve(stream: &mut UnixStream, door: &Door, peer: Peer, progress: &mut Progress) {
    let (read, write) = stream.split();
    let mut client = Client { door, read, write, peer, progress };
    match client.listen().await {
        Heard::Nothing => {}
        Heard::Line(line) => client.answer(line).await,
        Heard::Refused { message, more } => {
            client.say(&Plain::Error(message)).await.ok();
            if more {
                client.write.shutdown().await.ok();
                let mut lines = LineReader::new(client.read, LINE_LIMIT);
                drop(tokio::time::timeout(LINGER, lines.discard()).await);
            }
        }
    }
}

impl Client<'_> {
    async fn listen(&mut self) -> Heard {
        let mut lines = LineReader::new(&mut self.read, LINE_LIMIT);
        let read = tokio::time::timeout(self.door.0.settings.line_time, lines.next());
        let read = tokio::select! {
            biased;
            read = read => read,
            // Nothing was asked yet, and a client that asks later finds nobody.
            _ = self.door.closed() => return Heard::Nothing,
        };
        let refused = |message: &str, more| Heard::Refused { message: message.to_owned(), more };
        match read {
            // An empty line is as good as none.
            Ok(Ok(Line::Ready(range))) if range.is_empty() => Heard::Nothing,
            // What came behind it is nobody's; the buffer goes with it.
            Ok(Ok(Line::Ready(range))) => Heard::Line(lines.line(&range).to_vec()),
            Ok(Ok(Line::Closed)) if lines.rest().is_empty() => Heard::Nothing,
            Ok(Ok(Line::Closed)) => refused("read error: request missing trailing newline", false),
            Ok(Ok(Line::TooLong)) => refused("read error: request exceeds maximum size", true),
            Ok(Err(error)) => refused(&format!("read error: {error}"), false),
            Err(_) => refused("handshake deadline exceeded", true),
        }
    }

    /// Takes the request through the gates and serves it.
    async fn answer(&mut self, line: Vec<u8>) {
        let digest: [u8; 32] = Sha256::digest(&line).into();
        let decoded = request::decode(&line);
        drop(line);
        let fields = match decoded {
            Ok(fields) => fields,
            Err(error) => {
                return self.refuse(Refused { id: String::new(), message: format!("invalid JSON: {error}") }).await;
            }
        };
        let screened = match Screened::of(fields, self.door.0.settings.stages) {
            Ok(screened) => screened,
            Err(refused) => return self.refuse(refused).await,
        };
        if screened.action() == Action::Exec
            && self.door.0.approvals.is_orphan(NAME, screened.id())
            && let Some(approval) =
                self.door.0.approvals.rejoin(NAME, screened.id(), &digest, self.peer().await.as_ref())
        {
            screened.id().clone_into(&mut self.progress.id);
            return dispatch::resume(self, approval).await;
        }
        let now = jiff::Timestamp::now().as_second();
        let accepted = match screened.accept(now, self.door.0.settings.window) {
            Ok(accepted) => accepted,
            Err(refused) => return self.refuse(refused).await,
        };
        // What waits to be taken up again after a restart is older than the memory of ids, perhaps.
        let is_taken = self.door.0.approvals.is_orphan(NAME, &accepted.id);
        let message = match self.door.0.replay.take(&accepted.id, Instant::now()) {
            Seen::First if !is_taken => {
                accepted.id.clone_into(&mut self.progress.id);
                return self.carry_out(accepted, digest).await;
            }
            Seen::First | Seen::Again => format!("duplicate request id: {}", accepted.id),
            Seen::Full => "server busy: too many recent requests".to_owned(),
        };
        self.refuse(Refused { id: accepted.into_fields().id, message }).await;
    }

    async fn carry_out(&mut self, request: Accepted, digest: [u8; 32]) {
        if let Err(refusal) = self.rights().check(request.action.name()).await {
            self.say(&Plain::Error(refusal.text().to_owned())).await.ok();
            return;
        }
        self.log(&request);
        match request.action {
            Action::Ping => self.say(&Plain::Pong).await.unwrap_or_default(),
            Action::Stop => {
                self.say(&Plain::Stopping).await.ok();
                self.door.tell(|| Notice::Stopping { session: request.session.clone() });
                self.door.close(Ended::Stopped);
            }
            Action::Exec => dispatch::start(self, request, digest).await,
        }
    }

    fn log(&self, request: &Accepted) {
        if !self.door.0.settings.verbose {
            return;
        }
        let client = if request.version.is_empty() { "unknown" } else { &request.version };
        match request.action {
            Action::Exec => {
                let kind = if request.privileged { "privileged" } else { "unprivileged" };
                let command = command::line(&request.pipeline);
                self.door.0.log.info(format_args!("[{}] [{kind}] [client {client}] {command}", request.id));
            }
            Action::Ping => {
                self.door.0.log.info(format_args!("[{}] ping from {} (client {client})", request.id, request.session));
            }
            Action::Stop => {}
        }
    }

    async fn refuse(&mut self, refused: Refused) {
        self.progress.id = refused.id;
        self.say(&Plain::Error(refused.message)).await.ok();
    }

    /// Sends an answer without output.
    pub(crate) async fn say(&mut self, answer: &Plain) -> io::Result<()> {
        let line = answer::line(&self.progress.id, answer, &self.door.0.settings.reported_version);
        self.send(&line).await
    }

    /// Sends a part of the answer. A client that takes nothing for too long is given up.
    pub(crate) async fn send(&mut self, mut part: &[u8]) -> io::Result<()> {
        self.progress.answered = true;
        while !part.is_empty() {
            let written = tokio::time::timeout(self.door.0.settings.write_stall, self.write.write(part));
            let written = written.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            part = part.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Lets the system hold more of what is sent, as far as it allows.
    pub(crate) fn widen(&self, bytes: usize) {
        rustix::net::sockopt::set_socket_send_buffer_size(self.write.as_ref(), bytes).ok();
    }

    /// The id that is answered.
    pub(crate) fn id(&self) -> &str {
        &self.progress.id
    }

    /// Waits until the client has closed both directions: one that only finished sending still wants its answer.
    pub(crate) async fn gone(&self) {
        hangup::gone(self.read.as_ref()).await;
    }

    /// Whether it has, as far as the system knows this moment.
    pub(crate) fn is_gone(&self) -> bool {
        let mut poll = [PollFd::new(self.read.as_ref(), PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // Who cannot be looked at is not there.
        rustix::event::poll(&mut poll, Some(&now)).is_err()
            || poll[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// What the client may do, which is less for a process inside the house.
    fn rights(&self) -> Rights {
        self.door.0.insiders.rights(insiders::Door::SudoProxy, self.peer.clone(), self.peer.label())
    }

    /// Who is asking, as the system knows it.
    pub(crate) async fn peer(&self) -> Option<PeerInfo> {
        self.peer.info().await
    }
}
