//! Subscriptions: what carries a process's frames to one connection.
//!
//! A subscription is a cursor into the journal and a task that copies from it to the socket, so a
//! client that does not read costs a place in a file and nothing else. Frames of a process reach a
//! connection in `seq` order with the exit last, and a connection has at most one subscription to
//! a name: a newer one starts only when the older has written its last byte.
//!
//! A reply can be carried along: it goes out behind the frame it must follow and before any later.

use super::connection::Connection;
use super::door::Hosted;
use super::errors::{self, RpcError};
use super::flag::Flag;
use super::frames::{FrameWriter, Stream};
use hostel_house::processes::{self, Batch, Item, Next, Process, Watch, WatchError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

/// Encoded bytes above which a buffer is given back when the stream pauses.
const KEPT_BUFFER: usize = 64 * 1024;

/// One connection's interest in one process.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Which process; its name may have passed to another one.
    pub(crate) process: Arc<Process>,
    /// Set to end it.
    pub(crate) stop: Flag,
    /// Set when it has written its last byte.
    pub(crate) ended: Flag,
    /// The last frame written; at first the one it starts behind.
    written: AtomicU64,
}

/// A reply that a subscription delivers.
#[derive(Debug)]
pub(crate) struct CarriedReply {
    /// The whole line.
    pub(crate) line: Vec<u8>,
    /// The id, in case there is no telling of what the line promises.
    pub(crate) id: Vec<u8>,
    /// The frame it must follow.
    pub(crate) after: u64,
    /// The request counts as running until the reply is written.
    pub(crate) permit: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn new(process: &Arc<Process>) -> Arc<Self> {
        Arc::new(Self {
            process: Arc::clone(process),
            stop: Flag::default(),
            ended: Flag::default(),
            written: AtomicU64::new(u64::MAX),
        })
    }

    /// The last frame it wrote.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
}

/// Marks a subscription as ended however its task ends.
struct EndOnDrop(Arc<Connection>, Arc<Subscription>, String);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.forget(&self.2, &self.1);
        self.1.ended.set();
    }
}

/// Starts the task that serves `subscription` from frame `from` (exclusive) on. Bytes are counted in
/// `hosted`, which is none for a process that has ended already.
pub(crate) fn start(
    connection: Arc<Connection>,
    subscription: Arc<Subscription>,
    hosted: Option<Arc<Hosted>>,
    from: u64,
    reply: CarriedReply,
) {
    let process = &subscription.process;
    let name = process.name().to_owned();
    let end = EndOnDrop(Arc::clone(&connection), Arc::clone(&subscription), name);
    let watch = process.watch(from);
    let frames = FrameWriter::new(process.name());
    let pump =
        Pump { frames, connection, subscription, hosted, reply: Some(reply), reply_encoded: false, out: Vec::new() };
    hostel_tasks::spawn(async move {
        // Dropped last: whoever waits for the end may then rely on every byte being written.
        let _end = end;
        pump.run(watch).await;
    });
}

struct Pump {
    connection: Arc<Connection>,
    subscription: Arc<Subscription>,
    hosted: Option<Arc<Hosted>>,
    frames: FrameWriter,
    /// Kept until it is written.
    reply: Option<CarriedReply>,
    /// Whether the buffer holds the reply.
    reply_encoded: bool,
    out: Vec<u8>,
}

impl Pump {
    async fn run(mut self, watch: Result<Watch, WatchError>) {
        let outcome = match watch {
            Ok(mut watch) => self.copy(&mut watch).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &outcome {
            self.connection.door.log.error(format_args!("[process.Manager] {error}"));
        }
        // Stopped, or failed, before the frame that the reply was to follow.
        if let Some(reply) = self.reply.take() {
            match outcome {
                Ok(()) => self.connection.outbound.reply(&reply.line),
                Err(error) => {
                    let mut line = Vec::new();
                    errors::push_error(&mut line, &reply.id, &RpcError::internal(&error));
                    self.connection.outbound.reply(&line);
                }
            }
        }
    }

    async fn copy(&mut self, watch: &mut Watch) -> Result<(), WatchError> {
        let start = watch.position();
        self.subscription.written.store(start, Ordering::Release);
        self.encode_reply(start);
        if self.reply_encoded && !self.write(start).await {
            return Ok(());
        }
        let mut batch = Batch::default();
        loop {
            let next = match watch.poll(&mut batch)? {
                Some(next) => next,
                None => {
                    self.shrink(&mut batch);
                    let stop = &self.subscription.stop;
                    tokio::select! {
                        biased;
                        () = stop.wait() => return Ok(()),
                        next = watch.next(&mut batch) => next?,
                    }
                }
            };
            match next {
                Next::Items => {}
                Next::Ended | Next::Replaced => return Ok(()),
            }
            let last = self.encode(&batch);
            if !self.write(last).await {
                return Ok(());
            }
        }
    }

    /// Fills the buffer with the batch's frames; gives the last one's number.
    fn encode(&mut self, batch: &Batch) -> u64 {
        let before = self.hosted.as_ref().map(|hosted| {
            let newest = batch.items().map(|item| seq_of(&item)).last().unwrap_or(0);
            hosted.streamed.fetch_max(newest, Ordering::Relaxed)
        });
        let mut fresh_bytes = 0;
        let mut last = 0;
        for item in batch.items() {
            let seq = seq_of(&item);
            self.encode_reply(seq.saturating_sub(1));
            match item {
                Item::Output { stream, seq, data, .. } => {
                    let stream = match stream {
                        processes::Stream::Out => Stream::Out,
                        processes::Stream::Err => Stream::Err,
                    };
                    if before.is_some_and(|before| seq > before) {
                        fresh_bytes += data.len() as u64;
                    }
                    self.frames.output(&mut self.out, stream, seq, data);
                }
                Item::Exit { seq, exit } => self.frames.exit(&mut self.out, seq, exit.code),
            }
            last = seq;
        }
        self.encode_reply(last);
        self.connection.door.metrics.stream_bytes.add(fresh_bytes);
        last
    }

    /// Appends the carried reply if frame `written` is the last it must follow, or later.
    fn encode_reply(&mut self, written: u64) {
        if let Some(reply) = &self.reply
            && !self.reply_encoded
            && reply.after <= written
        {
            self.out.extend_from_slice(&reply.line);
            self.reply_encoded = true;
        }
    }

    /// Writes the buffer, unless the subscription was stopped; whether to go on.
    async fn write(&mut self, last: u64) -> bool {
        let mut turn = self.connection.outbound.turn().await;
        // Looked at with the turn in hand: whoever stops us and writes afterwards knows that
        // nothing of ours follows. A replay that was asked for is finished and answered first.
        if self.subscription.stop.is_set() && self.reply.is_none() {
            return false;
        }
        let outcome = turn.write_all(&self.out).await;
        drop(turn);
        self.out.clear();
        if let Err(error) = outcome {
            let text = self.connection.outbound.error_text(&error);
            let what = if self.reply.is_some() { "replay write" } else { "write" };
            let log = &self.connection.door.log;
            log.warn(format_args!("[frameSink] {what} failed, detaching: {text}"));
            return false;
        }
        self.subscription.written.store(last, Ordering::Release);
        if self.reply_encoded
            && let Some(reply) = self.reply.take()
        {
            drop(reply.permit);
        }
        true
    }

    /// Gives large buffers back before a wait that may be long.
    fn shrink(&mut self, batch: &mut Batch) {
        if self.out.capacity() > KEPT_BUFFER {
            self.out = Vec::new();
            *batch = Batch::default();
        }
    }
}

fn seq_of(item: &Item<'_>) -> u64 {
    match item {
        Item::Output { seq, .. } | Item::Exit { seq, .. } => *seq,
    }
}
