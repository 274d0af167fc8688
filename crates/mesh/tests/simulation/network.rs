//! The network between hosts and the broker: streams whose bytes take their time, stand still, get lost with their
//! stream, or arrive after the host that sent them has long dialled again.
//!
//! Invariant: it behaves as TCP does. Bytes of one direction arrive in order, and none is skipped while the stream
//! lives; each end may hear late or never that the other is gone. Everything it decides comes from the seed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hostel_mesh::link::dial::{BoxStream, BrokerUrl, Dial, Dialling};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use crate::simulation::chance::Chance;
use crate::simulation::trace::Trace;

/// Bytes a direction holds; who writes more waits.
const ROOM: usize = 64 * 1024;

/// How long a host waits for a broker that does not answer its dialling.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end of a stream that is a host's, and the one that is the broker's.
pub const HOST: usize = 0;
pub const BROKER: usize = 1;

/// What a host hears of the network, and the network of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Everything goes.
    No,
    /// Nothing the host says gets out; it hears.
    Mute,
    /// It hears nothing; what it says gets out.
    Deaf,
    /// Nothing goes.
    Whole,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Both ends hear it at once; what was under way is lost.
    Clean,
    /// The host hears it. What was under way to the broker arrives there, and then nothing more, ever.
    HostHears,
    /// The broker hears it; the host goes on talking into a hole.
    BrokerHears,
}

#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

struct State {
    trace: Trace,
    chance: Chance,
    /// Nothing bad happens by itself.
    calm: bool,
    streams: Vec<Stream>,
    cuts: Vec<Cut>,
    broker: Option<mpsc::UnboundedSender<End>>,
}

struct Stream {
    host: usize,
    /// What an end says is in the direction of its own number.
    ways: [Way; 2],
    /// This end gets an error for whatever it does.
    reset: [bool; 2],
    /// Nobody is at this end any more.
    gone: [bool; 2],
    /// The first bytes the host said, to be said again by somebody else.
    said: Vec<u8>,
}

#[derive(Default)]
struct Way {
    /// When it arrives, and what; nothing is the end of the stream.
    under_way: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// Nothing gets through from now on.
    hole: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Network {
    pub fn new(trace: Trace, chance: Chance, hosts: usize) -> Self {
        let cuts = vec![Cut::No; hosts];
        Self(Arc::new(Mutex::new(State { trace, chance, calm: true, streams: Vec::new(), cuts, broker: None })))
    }

    /// From now on bad things happen, or do not.
    pub fn calm(&self, calm: bool) {
        self.0.lock().calm = calm;
    }

    /// How a host reaches the broker.
    pub fn dialler(&self, host: usize) -> Arc<dyn Dial> {
        Arc::new(Dialler { network: self.clone(), host })
    }

    /// The broker listens, or does not.
    pub fn listen(&self, broker: Option<mpsc::UnboundedSender<End>>) {
        self.0.lock().broker = broker;
    }

    pub fn cut(&self, host: usize, cut: Cut) {
        self.0.lock().cuts[host] = cut;
    }

    /// Ends the streams of a host. Says whether there was one.
    pub fn break_all(&self, host: usize, how: Break) -> bool {
        let mut state = self.0.lock();
        let mut wakers = Vec::new();
        let mut any = false;
        for stream in state.streams.iter_mut().filter(|stream| stream.host == host && !stream.is_over()) {
            any = true;
            match how {
                Break::Clean => {
                    wakers.extend(stream.hear(HOST));
                    wakers.extend(stream.hear(BROKER));
                }
                Break::HostHears | Break::BrokerHears => {
                    let side = if how == Break::HostHears { HOST } else { BROKER };
                    wakers.extend(stream.hear(side));
                    stream.ways[side].hole = true;
                }
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        any
    }

    /// The machine at an end of these streams has lost its power. The other end hears it, or hears nothing.
    pub fn power_lost(&self, host: Option<usize>, heard: bool) {
        let mut state = self.0.lock();
        let here = if host.is_some() { HOST } else { BROKER };
        let mut wakers = Vec::new();
        for stream in state.streams.iter_mut().filter(|stream| host.is_none_or(|host| stream.host == host)) {
            if stream.gone[here] {
                continue;
            }
            stream.gone[here] = true;
            stream.ways[here].hole = true;
            stream.ways[1 - here].hole = true;
            if heard {
                wakers.extend(stream.hear(1 - here));
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Somebody says to the broker what a host said at the beginning of an earlier stream.
    pub fn replay(&self, host: usize) -> bool {
        let mut state = self.0.lock();
        let said = state.streams.iter().rev().find(|stream| stream.host == host && !stream.said.is_empty());
        let Some(said) = said.map(|stream| stream.said.clone()) else { return false };
        let Some(broker) = state.broker.clone() else { return false };
        let now = state.trace.now_ms();
        let mut stream = Stream::new(host);
        stream.gone[HOST] = true;
        stream.ways[HOST].bytes = said.len();
        stream.ways[HOST].under_way.push_back((now + 1, said));
        stream.ways[HOST].under_way.push_back((now + 3000, Vec::new()));
        stream.ways[BROKER].hole = true;
        state.streams.push(stream);
        let number = state.streams.len() - 1;
        drop(state);
        broker.send(End { network: self.clone(), stream: number, side: BROKER }).is_ok()
    }

    /// When something arrives next.
    pub fn next_due(&self) -> Option<u64> {
        let state = self.0.lock();
        let now = state.trace.now_ms();
        let heads = state.streams.iter().flat_map(|stream| {
            (0..2).filter_map(|side| {
                let (due, _) = stream.ways[side].under_way.front()?;
                (!held(state.cuts[stream.host], side) && *due > now).then_some(*due)
            })
        });
        heads.min()
    }

    /// Wakes who can read something now.
    pub fn deliver(&self) {
        let mut state = self.0.lock();
        let now = state.trace.now_ms();
        let cuts = state.cuts.clone();
        let mut wakers = Vec::new();
        for stream in &mut state.streams {
            for side in 0..2 {
                let way = &mut stream.ways[side];
                let here = way.under_way.front().is_some_and(|(due, _)| *due <= now);
                if here && !held(cuts[stream.host], side) {
                    wakers.extend(way.reader.take());
                }
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Whether what this end says stands still.
fn held(cut: Cut, side: usize) -> bool {
    match cut {
        Cut::No => false,
        Cut::Whole => true,
        Cut::Mute => side == HOST,
        Cut::Deaf => side == BROKER,
    }
}

impl Stream {
    fn new(host: usize) -> Self {
        Self { host, ways: [Way::default(), Way::default()], reset: [false; 2], gone: [false; 2], said: Vec::new() }
    }

    fn is_over(&self) -> bool {
        (self.reset[HOST] || self.gone[HOST]) && (self.reset[BROKER] || self.gone[BROKER])
    }

    /// This end hears that the stream is over; nothing more comes out of it than what is under way.
    fn hear(&mut self, side: usize) -> Vec<Waker> {
        self.reset[side] = true;
        self.ways[1 - side].hole = true;
        self.ways[1 - side].under_way.clear();
        let mut wakers = Vec::new();
        wakers.extend(self.ways[1 - side].reader.take());
        wakers.extend(self.ways[side].writer.take());
        wakers
    }
}

impl State {
    /// How long something takes.
    fn delay(&mut self) -> u64 {
        if self.calm {
            return 1;
        }
        match self.chance.below(100) {
            0..60 => self.chance.between(0, 3),
            60..90 => self.chance.between(2, 40),
            90..99 => self.chance.between(20, 400),
            _ => self.chance.between(400, 5000),
        }
    }
}

struct Dialler {
    network: Network,
    host: usize,
}

impl Dial for Dialler {
    fn dial<'a>(&'a self, _url: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async move {
            let (delay, lost) = {
                let mut state = self.network.0.lock();
                let delay = state.delay();
                let lost = !state.calm && state.chance.percent(5);
                (delay, lost || state.cuts[self.host] != Cut::No)
            };
            if lost {
                tokio::time::sleep(PATIENCE).await;
                return Err(ErrorKind::TimedOut.into());
            }
            tokio::time::sleep(Duration::from_millis(delay)).await;
            let (broker, number) = {
                let mut state = self.network.0.lock();
                let Some(broker) = state.broker.clone() else { return Err(ErrorKind::ConnectionRefused.into()) };
                state.streams.push(Stream::new(self.host));
                let number = state.streams.len() - 1;
                state.trace.note(format_args!("h{} dials: stream {number}", self.host));
                (broker, number)
            };
            let end = |side| End { network: self.network.clone(), stream: number, side };
            broker.send(end(BROKER)).map_err(|_| io::Error::from(ErrorKind::ConnectionRefused))?;
            Ok(Box::new(end(HOST)) as BoxStream)
        })
    }
}

/// One end of a stream.
pub struct End {
    network: Network,
    stream: usize,
    side: usize,
}

impl End {
    pub fn number(&self) -> usize {
        self.stream
    }
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.0.lock();
        let now = state.trace.now_ms();
        let held = held(state.cuts[state.streams[self.stream].host], 1 - self.side);
        let stream = &mut state.streams[self.stream];
        if stream.reset[self.side] {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let way = &mut stream.ways[1 - self.side];
        match way.under_way.front_mut() {
            Some((due, bytes)) if *due <= now && !held => {
                // The end of the stream stays where it is.
                if bytes.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let count = bytes.len().min(buf.remaining());
                buf.put_slice(&bytes[..count]);
                bytes.drain(..count);
                if bytes.is_empty() {
                    way.under_way.pop_front();
                }
                way.bytes = way.bytes.saturating_sub(count);
                let writer = way.writer.take();
                drop(state);
                writer.into_iter().for_each(Waker::wake);
                Poll::Ready(Ok(()))
            }
            _ => {
                way.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.network.0.lock();
        if state.streams[self.stream].reset[self.side] {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let (now, delay) = (state.trace.now_ms(), state.delay());
        // A write may be cut in two, as a packet ends where it ends.
        let share = if !state.calm && state.chance.percent(10) { state.chance.between(1, 99) } else { 100 };
        let stream = &mut state.streams[self.stream];
        let way = &mut stream.ways[self.side];
        let room = ROOM.saturating_sub(way.bytes);
        if room == 0 {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let wanted = (buf.len() * usize::try_from(share).unwrap() / 100).max(1);
        let count = wanted.min(room).min(buf.len());
        way.bytes += count;
        if !way.hole && count > 0 {
            let after = way.under_way.back().map_or(0, |(due, _)| *due);
            way.under_way.push_back((after.max(now + delay), buf[..count].to_vec()));
        }
        if self.side == HOST && stream.said.len() < 16 * 1024 {
            stream.said.extend_from_slice(&buf[..count]);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.network.0.lock().finish(self.stream, self.side);
        Poll::Ready(Ok(()))
    }
}

impl State {
    /// This end says nothing more.
    fn finish(&mut self, stream: usize, side: usize) {
        let (now, delay) = (self.trace.now_ms(), self.delay());
        let way = &mut self.streams[stream].ways[side];
        let ended = way.under_way.back().is_some_and(|(_, bytes)| bytes.is_empty());
        if !way.hole && !ended {
            let after = way.under_way.back().map_or(0, |(due, _)| *due);
            way.under_way.push_back((after.max(now + delay), Vec::new()));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.network.0.lock();
        if !state.streams[self.stream].gone[self.side] {
            state.finish(self.stream, self.side);
            state.streams[self.stream].gone[self.side] = true;
        }
    }
}
