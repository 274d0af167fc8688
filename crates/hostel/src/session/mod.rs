//! One process followed from here: its output to our streams, our stdin to it, through restarts of the daemon.
//!
//! Invariant: output goes on after the last frame handed over and stdin after the last byte acknowledged, so that
//! nothing is lost or doubled when the daemon goes away and comes back within the limit.
//!
//! It does not start processes and does not decide exit codes.

mod sink;
mod stdin;

use std::time::Duration;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Message;
use hostel_doors::native::client::Messages;
use hostel_doors::native::client::Questions;
use hostel_doors::native::client::decode;
use hostel_doors::native::protocol::Attach;
use hostel_doors::native::protocol::Attached;
use hostel_doors::native::protocol::Exit;
use hostel_doors::native::protocol::Failed;
use hostel_doors::native::protocol::HeldNotice;
use hostel_doors::native::protocol::HouseClosing;
use hostel_doors::native::protocol::Kill;
use hostel_doors::native::protocol::Output;
use hostel_doors::native::protocol::code;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use crate::error::CommandError;
use crate::houses::House;
use crate::ui::Ui;

pub(crate) use sink::Format;
pub(crate) use sink::Frame;
use sink::Sink;
pub(crate) use stdin::AtEnd;
pub(crate) use stdin::Input;

/// What Ctrl-C does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnInterrupt {
    /// The first is passed on to the process, the second leaves.
    PassOn,
    /// Leaves.
    Leave,
    /// Nothing of ours: the system ends us.
    System,
}

/// What to follow and how.
pub(crate) struct Session {
    pub(crate) house: House,
    /// The process's full id.
    pub(crate) id: String,
    /// The last frame that was handed over.
    pub(crate) since_seq: u64,
    /// Whether to go on after what is there.
    pub(crate) follow: bool,
    pub(crate) format: Format,
    pub(crate) input: Option<Input>,
    pub(crate) on_interrupt: OnInterrupt,
    /// How long to look for a daemon that went away.
    pub(crate) reconnect: Duration,
}

/// How following ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The process exited, and all it printed was handed over.
    Exited(Exit),
    /// Everything there was has been handed over.
    Replayed,
    /// Another process took its name, and it was ended.
    Replaced,
    /// The person left.
    Left,
    /// Nobody reads our output any more.
    ReaderGone,
    /// The house was closed, and its processes with it.
    HouseDown,
}

/// How one connection ended.
enum Cut {
    End(End),
    /// The daemon is gone, and may come back.
    Lost(ClientError),
}

impl Session {
    /// Follows until there is an end. `client` is the first connection.
    pub(crate) async fn follow(mut self, client: Client, ui: &Ui) -> Result<End, CommandError> {
        let mut sink = Sink::start(self.format)?;
        let mut interrupts = Interrupts::new(self.on_interrupt)?;
        let mut client = Some(client);
        let end = loop {
            let connection = match client.take() {
                Some(connection) => connection,
                None => match self.find_again(&mut interrupts).await? {
                    Some(connection) => connection,
                    None => break End::Left,
                },
            };
            match self.connected(connection, &mut sink, &mut interrupts, ui).await? {
                Cut::End(end) => break end,
                Cut::Lost(error) if self.reconnect.is_zero() => return Err(error.into()),
                Cut::Lost(_) => ui.note("hostel: the daemon went away, looking for it again"),
            }
        };
        // What was handed over has to reach the reader before we say how it ended.
        match (sink.finish().await, end) {
            (Ok(()), end) => Ok(end),
            (Err(error), _) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(End::ReaderGone),
            (Err(error), _) => Err(CommandError::failure(format!("cannot write the output: {error}"))),
        }
    }

    /// Tries to connect until the limit; none if the person left meanwhile.
    async fn find_again(&self, interrupts: &mut Interrupts) -> Result<Option<Client>, CommandError> {
        let go_on = format!("hostel attach {}", short(&self.id));
        tokio::select! {
            found = self.house.again(self.reconnect, &go_on) => found.map(Some),
            () = interrupts.next() => Ok(None),
        }
    }

    async fn connected(
        &mut self,
        client: Client,
        sink: &mut Sink,
        interrupts: &mut Interrupts,
        ui: &Ui,
    ) -> Result<Cut, CommandError> {
        let (mut questions, mut messages) = client.split();
        match self.exchange(&mut questions, &mut messages, sink, interrupts, ui).await {
            Ok(end) => Ok(Cut::End(end)),
            // The keeper's link being down for a moment is a restart in miniature.
            Err(error) if error.is_lost() || error.code() == Some(code::KEEPER) => Ok(Cut::Lost(error)),
            Err(error) => Err(error.into()),
        }
    }

    async fn exchange(
        &mut self,
        questions: &mut Questions,
        messages: &mut Messages,
        sink: &mut Sink,
        interrupts: &mut Interrupts,
        ui: &Ui,
    ) -> Result<End, ClientError> {
        let asked = questions
            .send("process/attach", &Attach { id: self.id.clone(), since_seq: self.since_seq, follow: self.follow })
            .await?;
        // The answer comes before the first notification.
        let attached: Attached = loop {
            if let Message::Answer { id, result } = messages.next().await?
                && id == asked
            {
                break decode(result)?;
            }
        };
        if let Some(input) = &mut self.input {
            input.resume(attached.stdin_applied, attached.running);
        }
        let mut waiting: Option<Frame> = None;
        let mut last: Option<End> = None;
        loop {
            if waiting.is_none()
                && let Some(end) = last
            {
                return Ok(end);
            }
            if let Some(input) = &mut self.input {
                input.send(questions, &self.id).await?;
            }
            tokio::select! {
                message = messages.next(), if waiting.is_none() => match message? {
                    Message::Notification { method, params } => match method.as_str() {
                        "process/output" => {
                            let frame = Frame::decode(&parse::<Output>(&params)?)?;
                            if frame.seq > self.since_seq {
                                self.since_seq = frame.seq;
                                waiting = Some(frame);
                            }
                        }
                        "process/exit" => last = Some(End::Exited(parse(&params)?)),
                        "process/held" => ui.note(&held(&parse::<HeldNotice>(&params)?)),
                        "process/replayed" => last = Some(End::Replayed),
                        "process/replaced" => last = Some(End::Replaced),
                        "process/failed" => {
                            let message = parse::<Failed>(&params)?.message;
                            return Err(ClientError::Reply { code: code::INTERNAL, message });
                        }
                        "house/closing" if !parse::<HouseClosing>(&params)?.keep => return Ok(End::HouseDown),
                        _ => {}
                    },
                    Message::Answer { id, result } => {
                        if let Some(input) = &mut self.input {
                            input.answered(id, result)?;
                        }
                    }
                },
                room = sink.room(), if waiting.is_some() => match (room, waiting.take()) {
                    (Some(room), Some(frame)) => room.send(frame),
                    _ => return Ok(End::ReaderGone),
                },
                () = Input::progress(&mut self.input) => {}
                () = interrupts.next() => {
                    if interrupts.leave() {
                        return Ok(End::Left);
                    }
                    let kill = Kill {
                        id: self.id.clone(),
                        signal: Some("INT".to_owned()),
                        wait_ms: None,
                        escalate: false,
                    };
                    questions.send("process/kill", &kill).await?;
                }
            }
        }
    }
}

/// What is said of a process that waits for room, or goes on.
fn held(notice: &HeldNotice) -> String {
    let why = match notice.because.as_deref() {
        None => return format!("hostel: {} goes on", short(&notice.id)),
        Some("quota") => "a quota of the journals is used up; `hostel gc` makes room, `hostel df` shows what is large",
        Some("disk_full") => "the disk is full, or nearly so; make room on it, `hostel gc` gives back what it can",
        Some(_) => "the disk reports errors; see `hostel doctor`",
    };
    format!("hostel: {} is held and waits: {why}", short(&notice.id))
}

fn parse<T: serde::de::DeserializeOwned>(params: &serde_json::value::RawValue) -> Result<T, ClientError> {
    serde_json::from_str(params.get()).map_err(|error| ClientError::Protocol(error.to_string()))
}

/// The start of an id, as much as people need.
pub(crate) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Ctrl-C as the session sees it.
struct Interrupts {
    rule: OnInterrupt,
    signals: Option<Signal>,
    count: u32,
}

impl Interrupts {
    fn new(rule: OnInterrupt) -> Result<Self, CommandError> {
        let signals = match rule {
            OnInterrupt::System => None,
            OnInterrupt::PassOn | OnInterrupt::Leave => Some(
                signal(SignalKind::interrupt())
                    .map_err(|error| CommandError::failure(format!("cannot watch for Ctrl-C: {error}")))?,
            ),
        };
        Ok(Interrupts { rule, signals, count: 0 })
    }

    /// Waits for the next Ctrl-C; for ever if they are not ours.
    async fn next(&mut self) {
        match &mut self.signals {
            Some(signals) => {
                signals.recv().await;
                self.count += 1;
            }
            None => std::future::pending().await,
        }
    }

    /// Whether the last one means to leave.
    fn leave(&self) -> bool {
        self.rule == OnInterrupt::Leave || self.count > 1
    }
}
