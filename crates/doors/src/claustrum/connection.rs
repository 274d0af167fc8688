//! One client: its lines in, its replies out.
//!
//! Lines are taken in order. What is cheap is answered at once, many answers in one write; what may
//! take time runs in a task of its own, so replies come in any order. Input for processes is put
//! in line before the next line is looked at, which keeps its order.
//!
//! When the client stops sending, what it asked for is finished and answered before the
//! connection is closed. Closing ends subscriptions and nothing else: processes live on.

use super::caught::{Caught, Panicked, catch};
use super::door::Door;
use super::errors::{self, RpcError, push_error, push_result};
use super::lines::LineBuffer;
use super::outbound::Outbound;
use super::patience::{AWAKE, Patience};
use super::request::{self, Asked, Call, Method, Refusal};
use super::stream::Subscription;
use super::{files, git, process, server};
use crate::zeroclaw::{Peer, PeerNames as _};
use hostel_house::insiders::{self, Rights};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Replies above this size are written by the request's own task instead of queued.
const SHORT_REPLY: usize = 16 * 1024;
/// Answers collected before they are sent without waiting for the end of what was read.
const COLLECTED: usize = 64 * 1024;
/// Bytes of params that count as one more request in flight.
const BYTES_PER_PERMIT: usize = 16 * 1024;

/// What the kernel may hold of what we send, doubled by it for its own needs. Enough for one batch
/// of frames, so that the next one can be made ready while the client reads.
const SEND_BUFFER: usize = 256 * 1024;

/// One connection.
pub(crate) struct Connection {
    pub(crate) door: Arc<Door>,
    pub(crate) outbound: Arc<Outbound>,
    /// What the client may do, which is less for a process inside the house.
    pub(crate) rights: Rights,
    peer: String,
    subscriptions: Mutex<HashMap<String, Arc<Subscription>>>,
    in_flight: Arc<Semaphore>,
    /// Places for `files.*` and `git.*`, held until the reply is written.
    files: Semaphore,
    git: Semaphore,
}

/// A request on its way through a task of its own.
#[derive(Debug)]
pub(crate) struct Running {
    /// The id as JSON text.
    pub(crate) id: Vec<u8>,
    /// The params as JSON text.
    pub(crate) params: Vec<u8>,
    /// Counts the request as running until dropped.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// What is left to do for a line after it has been looked at.
enum Rest {
    Nothing,
    Shutdown { id: Vec<u8> },
    Stdin { id: Vec<u8>, params: Vec<u8> },
    Task { id: Vec<u8>, method: Method, params: Vec<u8> },
}

impl Rest {
    /// The request it is about, and its method.
    fn request(&self) -> Option<(&[u8], Method)> {
        match self {
            Rest::Nothing => None,
            Rest::Shutdown { id } => Some((id, Method::ServerShutdown)),
            Rest::Stdin { id, .. } => Some((id, Method::ProcessStdin)),
            Rest::Task { id, method, .. } => Some((id, *method)),
        }
    }
}

/// Serves a client until it leaves or breaks the rules.
pub(crate) async fn serve(door: Arc<Door>, stream: UnixStream, client: Peer, local: &str, peer: String) {
    let route = format!("unix {local}->{peer}");
    let label = client.label();
    let rights = door.insiders.rights(insiders::Door::Claustrum, client, label);
    // Refused or cut down by the kernel's own limit: slower, not wrong.
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER).ok();
    let (input, output) = stream.into_split();
    let limits = &door.limits;
    let connection = Arc::new(Connection {
        outbound: Outbound::new(output, limits.unsent_replies, route, door.log.clone()),
        rights,
        peer,
        subscriptions: Mutex::default(),
        in_flight: Arc::new(Semaphore::new(limits.in_flight as usize)),
        files: Semaphore::new(limits.files_at_once),
        git: Semaphore::new(limits.git_at_once),
        door: Arc::clone(&door),
    });
    // Also when this task is aborted: tasks of this connection hold the socket open otherwise.
    let mut closing = CloseOnDrop { connection: Arc::clone(&connection), input };
    connection.read(&mut closing.input).await;
    // Every request in flight holds at least one permit until its reply is on its way.
    drop(connection.in_flight.acquire_many(limits.in_flight).await);
    connection.stop_subscriptions();
    connection.outbound.drained().await;
}

/// Waits for bytes in the way that suits this client.
async fn receive(input: &mut OwnedReadHalf, into: &mut Vec<u8>, patience: &mut Patience) -> io::Result<usize> {
    let began = Instant::now();
    let awake = patience.stay_awake();
    let mut received = None;
    while awake && received.is_none() && began.elapsed() < AWAKE {
        received = tokio::select! {
            biased;
            received = input.read_buf(into) => Some(received),
            () = tokio::task::yield_now() => None,
        };
    }
    let received = match received {
        Some(received) => received,
        None => input.read_buf(into).await,
    };
    patience.waited(awake, began.elapsed());
    received
}

struct CloseOnDrop {
    connection: Arc<Connection>,
    input: OwnedReadHalf,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.connection.stop_subscriptions();
        // What is sent stays readable for the client; a writer that waits for it gives up.
        let socket: &UnixStream = self.input.as_ref();
        rustix::net::shutdown(socket, rustix::net::Shutdown::Both).ok();
    }
}

impl Connection {
    async fn read(self: &Arc<Self>, input: &mut OwnedReadHalf) {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        let mut patience = Patience::default();
        loop {
            let ended = match receive(input, lines.room(), &mut patience).await {
                Ok(count) => count == 0,
                Err(_) => true,
            };
            loop {
                let line = match lines.next_line() {
                    Ok(Some(line)) => line,
                    Ok(None) => break,
                    Err(_) => {
                        let peer = &self.peer;
                        self.door
                            .log
                            .warn(format_args!("[Server] scanner error on {peer}: bufio.Scanner: token too long"));
                        return self.send(&mut out);
                    }
                };
                self.line(line, &mut out).await;
            }
            if ended {
                if let Some(line) = lines.last_line() {
                    self.line(line, &mut out).await;
                }
                return self.send(&mut out);
            }
            self.send(&mut out);
            if self.outbound.is_full() {
                self.outbound.room().await;
            }
        }
    }

    fn send(&self, out: &mut Vec<u8>) {
        self.outbound.reply(out);
        out.clear();
        if out.capacity() > COLLECTED {
            *out = Vec::new();
        }
    }

    /// Handles one line. Answers go to `out` or, later, directly to the client.
    async fn line(self: &Arc<Self>, line: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let rest = match catch(|| self.look(line, out)) {
            Ok(rest) => rest,
            Err(panicked) => {
                out.truncate(start);
                let id = catch(|| request::id_of(line)).unwrap_or_else(|_| b"null".to_vec());
                self.push_panic(out, &id, &panicked);
                Rest::Nothing
            }
        };
        if out.len() > COLLECTED {
            self.send(out);
        }
        // What is cheap is for everybody; the rest depends on who asks.
        if let Some((id, method)) = rest.request()
            && let Err(refusal) = self.rights.check(method.name()).await
        {
            return push_error(out, id, &RpcError::refused(&refusal));
        }
        match rest {
            Rest::Nothing => {}
            Rest::Shutdown { .. } => {
                self.send(out);
                self.door.shutdown.set();
                // No reply: the daemon closes the connection when it stops.
                std::future::pending::<()>().await;
            }
            Rest::Stdin { id, params } => {
                // Getting in line may take a moment; answers that are ready do not wait for it.
                self.send(out);
                let running = self.running(id, params, out).await;
                self.guarded(running, process::stdin).await;
            }
            Rest::Task { id, method, params } => {
                let running = self.running(id, params, out).await;
                let connection = Arc::clone(self);
                hostel_tasks::spawn(async move {
                    connection
                        .guarded(running, |connection, running| async move {
                            connection.run(method, running).await;
                        })
                        .await;
                });
            }
        }
    }

    /// Reads a line and answers it if that is cheap.
    fn look(&self, line: &[u8], out: &mut Vec<u8>) -> Rest {
        let Call { id, method, params } = match request::ask(line, &self.door.gate()) {
            Asked::Call(call) => call,
            Asked::Refuse(refusal) => {
                self.refuse(&refusal, out);
                return Rest::Nothing;
            }
        };
        let result = match method {
            Method::ServerPing => server::PONG,
            Method::ServerVersion => &self.door.version,
            Method::ServerCapabilities => &self.door.capabilities,
            Method::ServerShutdown => return Rest::Shutdown { id: id.into_owned() },
            Method::ProcessStdin => {
                return Rest::Stdin { id: id.into_owned(), params: params.to_vec() };
            }
            method => {
                return Rest::Task { id: id.into_owned(), method, params: params.to_vec() };
            }
        };
        push_result(out, &id, |out| out.extend_from_slice(result));
        Rest::Nothing
    }

    fn refuse(&self, refusal: &Refusal<'_>, out: &mut Vec<u8>) {
        if let Some(method) = &refusal.unauthorized_method {
            let id = match &*refusal.id {
                b"null" => "".into(),
                id => String::from_utf8_lossy(id),
            };
            self.door.log.warn(format_args!("[Server] Unauthorized request: method={method}, id={id}"));
        }
        push_error(out, &refusal.id, &refusal.error);
    }

    /// Waits for a place among the running requests, having sent what is collected.
    async fn running(&self, id: Vec<u8>, params: Vec<u8>, out: &mut Vec<u8>) -> Running {
        let weight = 1 + params.len() / BYTES_PER_PERMIT;
        let weight = u32::try_from(weight).unwrap_or(u32::MAX).min(self.door.limits.in_flight);
        let places = Arc::clone(&self.in_flight);
        let permit = match Arc::clone(&places).try_acquire_many_owned(weight) {
            Ok(permit) => permit,
            Err(_) => {
                self.send(out);
                loop {
                    // Fails only for a closed semaphore, and nobody closes this one.
                    if let Ok(permit) = Arc::clone(&places).acquire_many_owned(weight).await {
                        break permit;
                    }
                }
            }
        };
        Running { id, params, permit }
    }

    /// Runs a handler and answers for it if it panics.
    async fn guarded<Work: Future<Output = ()>>(
        self: &Arc<Self>,
        running: Running,
        handler: impl FnOnce(Arc<Self>, Running) -> Work,
    ) {
        let id = running.id.clone();
        let work = Caught::new(handler(Arc::clone(self), running));
        if let Err(panicked) = work.await {
            let mut line = Vec::new();
            self.push_panic(&mut line, &id, &panicked);
            self.outbound.reply(&line);
        }
    }

    async fn run(self: Arc<Self>, method: Method, running: Running) {
        match method {
            Method::FilesList
            | Method::FilesValidate
            | Method::FilesStat
            | Method::FilesRead
            | Method::FilesExtractTar => {
                let place = self.files.acquire().await;
                files::call(&self, method, running).await;
                drop(place);
            }
            Method::GitInfo
            | Method::GitStatus
            | Method::GitListBranches
            | Method::GitWorktreeCreate
            | Method::GitWorktreeRemove => {
                let place = self.git.acquire().await;
                let outcome = git::call(&self.door, method, &running.params).await;
                self.answer(running, &outcome).await;
                drop(place);
            }
            Method::ProcessSpawn => process::spawn(self, running).await,
            Method::ProcessKill => {
                let outcome = process::kill(&self, &running.params).await;
                self.answer(running, &outcome).await;
            }
            Method::ProcessKillAndWait => {
                let outcome = process::kill_and_wait(&self, &running.params).await;
                self.answer(running, &outcome).await;
            }
            Method::ProcessReattach => process::reattach(self, running).await,
            Method::ProcessStdin
            | Method::ServerPing
            | Method::ServerVersion
            | Method::ServerCapabilities
            | Method::ServerShutdown => {}
        }
    }

    /// Sends the reply of a finished request.
    pub(crate) async fn answer(&self, running: Running, outcome: &Result<Vec<u8>, RpcError>) {
        let mut line = Vec::new();
        errors::push_reply(&mut line, &running.id, outcome);
        if line.len() <= SHORT_REPLY {
            self.outbound.reply(&line);
        } else {
            self.outbound.send(&line).await;
        }
        drop(running.permit);
    }

    fn push_panic(&self, out: &mut Vec<u8>, id: &[u8], panicked: &Panicked) {
        let words = &panicked.0;
        self.door.log.error(format_args!("[Server] recovered panic: {words}"));
        let error = RpcError::worded(errors::INTERNAL, format!("recovered panic: {words}"));
        push_error(out, id, &error);
    }

    /// Makes `subscription` the one for `name`; gives the one it takes the place of.
    pub(crate) fn subscribe(&self, name: &str, subscription: &Arc<Subscription>) -> Option<Arc<Subscription>> {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.insert(name.to_owned(), Arc::clone(subscription))
    }

    /// The subscription for `name`.
    pub(crate) fn subscription(&self, name: &str) -> Option<Arc<Subscription>> {
        self.subscriptions.lock().get(name).cloned()
    }

    /// Drops `subscription` if it is still the one for `name`.
    pub(crate) fn forget(&self, name: &str, subscription: &Arc<Subscription>) {
        if let Entry::Occupied(entry) = self.subscriptions.lock().entry(name.to_owned())
            && Arc::ptr_eq(entry.get(), subscription)
        {
            entry.remove();
        }
    }

    fn stop_subscriptions(&self) {
        for subscription in self.subscriptions.lock().values() {
            subscription.stop.set();
        }
    }
}
