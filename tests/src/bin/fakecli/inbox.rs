//! What happens to the process while it works: lines on its standard input, signals, tools that end.

use std::io::{self, BufRead as _, Read as _};
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::tools;

pub(crate) enum Arrival {
    Line(String),
    /// Standard input has ended.
    Eof,
    /// SIGINT, where the CLI makes something of it.
    Interrupt,
    /// A tool has ended.
    Tool {
        number: u64,
        output: String,
        code: i32,
    },
}

/// What a CLI does about a signal.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum OnSignal {
    /// Dies of it, as any program.
    Die,
    /// Exits with this status, and leaves its tools running.
    Exit(i32),
    /// Ends its tools first.
    CleanExit(i32),
    /// Tells the turn.
    Tell,
}

pub(crate) struct Inbox {
    sender: Sender<Arrival>,
    receiver: Receiver<Arrival>,
}

impl Inbox {
    pub(crate) fn new(interrupt: OnSignal, terminate: OnSignal) -> Self {
        let (sender, receiver) = mpsc::channel();
        if interrupt != OnSignal::Die || terminate != OnSignal::Die {
            watch_signals(interrupt, terminate, sender.clone());
        }
        Inbox { sender, receiver }
    }

    /// From now on lines of standard input arrive. A line that is no UTF-8 arrives with replacements.
    pub(crate) fn listen(&self) {
        let sender = self.sender.clone();
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            let mut line = Vec::new();
            loop {
                line.clear();
                let count = input.read_until(b'\n', &mut line).unwrap_or(0);
                let arrival = match count {
                    0 => Arrival::Eof,
                    _ => Arrival::Line(String::from_utf8_lossy(&line).trim_end().to_owned()),
                };
                if sender.send(arrival).is_err() || count == 0 {
                    return;
                }
            }
        });
    }

    pub(crate) fn sender(&self) -> Sender<Arrival> {
        self.sender.clone()
    }

    /// The next thing, however long it takes.
    pub(crate) fn next(&self) -> Arrival {
        self.receiver.recv().expect("this end keeps a sender")
    }

    /// The next thing until then; None when the time has passed.
    pub(crate) fn next_until(&self, deadline: Instant) -> Option<Arrival> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.receiver.recv_timeout(left) {
            Ok(arrival) => Some(arrival),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end keeps a sender"),
        }
    }

    /// What is there already.
    pub(crate) fn at_once(&self) -> Option<Arrival> {
        self.receiver.try_recv().ok()
    }
}

fn watch_signals(interrupt: OnSignal, terminate: OnSignal, sender: Sender<Arrival>) {
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let mut watched: Vec<(OnSignal, tokio::signal::unix::Signal)> = Vec::new();
            for (what, kind) in [(interrupt, SignalKind::interrupt()), (terminate, SignalKind::terminate())] {
                if what != OnSignal::Die {
                    watched.push((what, signal(kind).expect("a signal can be watched")));
                }
            }
            ready.send(()).ok();
            loop {
                let what = match watched.as_mut_slice() {
                    [(what, only)] => {
                        only.recv().await;
                        *what
                    }
                    [(first, one), (second, other)] => tokio::select! {
                        _ = one.recv() => *first,
                        _ = other.recv() => *second,
                    },
                    _ => unreachable!("one or two are watched"),
                };
                match what {
                    OnSignal::Exit(code) => process::exit(code),
                    OnSignal::CleanExit(code) => {
                        tools::end_running();
                        process::exit(code);
                    }
                    OnSignal::Tell | OnSignal::Die => sender.send(Arrival::Interrupt).unwrap_or(()),
                }
            }
        });
    });
    // A signal must never find the program half prepared.
    is_ready.recv_timeout(Duration::from_secs(10)).expect("signals are watched soon");
}

/// All of standard input, as a prompt: what the one-turn modes do. With patience for the first byte only that long.
pub(crate) fn whole_stdin(patience: Option<Duration>) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        let begun = input.fill_buf().is_ok();
        sender.send(None).ok();
        let mut text = Vec::new();
        if begun {
            input.read_to_end(&mut text).unwrap_or(0);
        }
        sender.send(Some(text)).ok();
    });
    let first = patience.map_or_else(|| receiver.recv().ok(), |patience| receiver.recv_timeout(patience).ok());
    if first.is_none() {
        eprintln!("Warning: no stdin data received, proceeding without it.");
        return String::new();
    }
    let text = receiver.recv().ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}
