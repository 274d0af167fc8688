//! One connection: lines in, answers and notifications out.
//!
//! Invariant: requests about a process's stdin take effect in the order their lines arrived, and an attach is answered
//! before its first notification; everything else may finish in any order. Lines never mix on the wire.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Raw;
use hostel_house::insiders;
use hostel_house::insiders::Rights;
use hostel_house::processes::Processes;
use hostel_peer::accept::Arrival;
use hostel_tasks::SpawnBoxed as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::task::JoinSet;

use super::IN_FLIGHT;
use super::Phase;
use super::Settings;
use super::ask::Asking;
use super::consent;
use super::consent::Consent;
use super::line::Line;
use super::line::LineReader;
use super::methods;
use super::protocol::Attach;
use super::protocol::HouseClosing;
use super::protocol::Initialize;
use super::protocol::Initialized;
use super::protocol::LINE_LIMIT;
use super::protocol::PROTOCOL_VERSION;
use super::protocol::Target;
use super::protocol::code;
use super::stream;
use crate::rpc::Failure;
use crate::rpc::Outcome;
use crate::rpc::Writer;
use crate::rpc::hangup;
use crate::zeroclaw;
use crate::zeroclaw::Client;
use crate::zeroclaw::Face;
use crate::zeroclaw::Greeting;
use crate::zeroclaw::Incoming;
use crate::zeroclaw::Params;
use crate::zeroclaw::PeerNames as _;

/// What every request has to say of itself.
const VERSION: &str = r#""2.0""#;

/// Processes one connection may follow at once.
const STREAMS: usize = 256;

/// How long a goodbye may take to get through.
const GOODBYE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(default, borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
}

/// The streams of a connection, by process.
type Streams = Arc<Mutex<HashMap<String, AbortHandle>>>;

struct Connection {
    writer: Writer,
    processes: Processes,
    /// What the client may do, which is less for a process inside the house.
    rights: Rights,
    settings: Arc<Settings>,
    initialized: bool,
    /// What serves sessions, in a house that has some.
    client: Option<Client>,
    /// What serves the inbox, likewise.
    consent: Option<Consent>,
    /// What puts questions into it.
    asking: Option<Asking>,
    /// Requests being worked on, and streams that come to an end by themselves.
    work: JoinSet<()>,
    /// Streams that go on until somebody leaves.
    live: JoinSet<()>,
    streams: Streams,
    in_flight: Arc<Semaphore>,
}

/// Serves one connection to its end. Without a place it is told that there is no room.
pub(super) async fn run(
    arrival: Arrival<UnixStream>,
    processes: Processes,
    settings: Arc<Settings>,
    mut phase: watch::Receiver<Phase>,
) {
    let Arrival { stream, peer, place } = arrival;
    let (reader, half) = stream.into_split();
    let writer = Writer::unix(half);
    if place.is_none() {
        let full = Failure::new(code::LIMIT, format!("all {} connections are in use", settings.connections));
        let told = writer.answer(Some(&RawValue::NULL), Err(full));
        drop(tokio::time::timeout(GOODBYE, told).await);
        return;
    }
    let rights = settings.insiders.rights(insiders::Door::Native, peer.clone(), peer.label());
    let consent = settings.sessions.as_ref().map(|door| Consent::new(door, &peer, rights.clone()));
    let asking = settings.sessions.as_ref().map(|door| Asking::new(door, &peer));
    let client = settings.sessions.clone().map(|door| {
        let greeting = Greeting { version: settings.version.clone(), more: &methods::METHODS, admitted: true };
        Client::new(door, Face::Native, peer, writer.clone(), greeting)
    });
    let mut connection = Connection {
        writer: writer.clone(),
        processes,
        rights,
        settings,
        initialized: false,
        client,
        consent,
        asking: asking.clone(),
        work: JoinSet::new(),
        live: JoinSet::new(),
        streams: Streams::default(),
        in_flight: Arc::new(Semaphore::new(IN_FLIGHT)),
    };
    let mut lines = LineReader::new(reader, LINE_LIMIT);
    let closing = async {
        let seen = phase.wait_for(|phase| matches!(phase, Phase::Closing { .. })).await;
        match seen.as_deref() {
            Ok(Phase::Closing { keep }) => *keep,
            _ => true,
        }
    };
    tokio::select! {
        () = connection.serve(&mut lines) => {
            // Who closed its side still gets the answers it asked for, unless it is gone altogether.
            tokio::select! {
                () = connection.finish() => {}
                () = hangup::gone(lines.source().as_ref()) => {}
            }
            if let Some(asking) = asking {
                asking.left().await;
            }
        }
        keep = closing => {
            if !keep {
                // Every process has ended; who follows one is to hear how.
                let streams = async { while connection.live.join_next().await.is_some() {} };
                drop(tokio::time::timeout(GOODBYE, streams).await);
            }
            let words = HouseClosing { keep };
            let goodbye = writer.notify("house/closing", &words);
            drop(tokio::time::timeout(GOODBYE, goodbye).await);
        }
    }
    connection.live.abort_all();
}

impl Connection {
    async fn finish(&mut self) {
        while self.work.join_next().await.is_some() {}
        if let Some(client) = &mut self.client {
            client.finish().await;
        }
    }

    async fn serve(&mut self, lines: &mut LineReader<OwnedReadHalf>) {
        loop {
            let range = match lines.next().await {
                Ok(Line::Ready(range)) => range,
                Ok(Line::Closed | Line::TooLong) | Err(_) => return,
            };
            if self.line(lines.line(&range)).await.is_err() {
                return;
            }
            while self.work.try_join_next().is_some() {}
            while self.live.try_join_next().is_some() {}
        }
    }

    /// Takes one line. An error is the socket's.
    async fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let object = line.trim_ascii_start().starts_with(b"{");
        let request: Request<'_> = match serde_json::from_slice(line) {
            Ok(request) if object => request,
            // An array with the right members in the right places is no request either.
            Ok(_) => {
                let failure = Failure::new(code::REQUEST, "not a request: not an object".to_owned());
                return self.writer.answer(Some(&RawValue::NULL), Err(failure)).await;
            }
            // The answer to a question of ours is not a request.
            Err(_) if self.is_answer(line) => return Ok(()),
            Err(error) if error.is_data() => {
                let failure = Failure::new(code::REQUEST, format!("not a request: {error}"));
                return self.writer.answer(Some(&RawValue::NULL), Err(failure)).await;
            }
            Err(_) => {
                let failure = Failure::new(code::PARSE, "not JSON".to_owned());
                return self.writer.answer(Some(&RawValue::NULL), Err(failure)).await;
            }
        };
        if request.jsonrpc.is_none_or(|version| version.get() != VERSION) {
            let failure = Failure::new(code::REQUEST, format!("not a request: `jsonrpc` is not {VERSION}"));
            return self.writer.answer(Some(&request.id.unwrap_or(RawValue::NULL)), Err(failure)).await;
        }
        let params = request.params.map_or("{}", RawValue::get);
        if let Some(client) = &mut self.client
            && zeroclaw::methods::named(&request.method, true).is_some()
        {
            let id = request.id.map(Raw::from);
            let params: Value = serde_json::from_str(params).unwrap_or_default();
            if request.method == "initialize"
                && let Err(failure) = names_its_version(&params)
            {
                return self.writer.answer(request.id.as_ref(), Err(failure)).await;
            }
            client.call(id, &request.method, Some(params)).await?;
            self.initialized = client.is_initialized();
            return Ok(());
        }
        if request.method == "initialize" {
            let outcome = self.initialize(params);
            self.initialized |= outcome.is_ok();
            return self.writer.answer(request.id.as_ref(), outcome).await;
        }
        if !methods::METHODS.contains(&request.method.as_str()) {
            let failure = Failure::new(code::METHOD, format!("there is no method `{}`", request.method));
            return self.writer.answer(request.id.as_ref(), Err(failure)).await;
        }
        if !self.initialized {
            let failure = Failure::new(code::INITIALIZE_FIRST, "initialize first".to_owned());
            return self.writer.answer(request.id.as_ref(), Err(failure)).await;
        }
        if let Err(refusal) = self.rights.check(&request.method).await {
            return self.writer.answer(request.id.as_ref(), Err(methods::refused(&refusal))).await;
        }
        match request.method.as_str() {
            "approval/ask" => self.ask(request.id, params).await,
            inbox if consent::serves(inbox) => self.inbox(request.id, inbox, params).await,
            "process/attach" => self.attach(request.id, params).await,
            "process/detach" => {
                let outcome = self.detach(params);
                self.writer.answer(request.id.as_ref(), outcome).await
            }
            "process/stdin" => self.stdin(request.id, params).await,
            "process/close_stdin" => {
                let outcome = methods::close_stdin(&self.processes, &self.rights, params).await;
                self.writer.answer(request.id.as_ref(), outcome).await
            }
            method => {
                self.in_background(request.id, method.to_owned(), params.to_owned()).await;
                Ok(())
            }
        }
    }

    /// A question waits for its person beside everything else.
    async fn ask(&mut self, id: Option<&RawValue>, params: &str) -> io::Result<()> {
        let Some(asking) = self.asking.clone() else {
            let failure = Failure::new(code::METHOD, "there is no method `approval/ask`".to_owned());
            return self.writer.answer(id.as_ref(), Err(failure)).await;
        };
        let (id, params, writer) = (id.map(ToOwned::to_owned), params.to_owned(), self.writer.clone());
        self.work.spawn_boxed(async move {
            let outcome = asking.ask(&params).await;
            drop(writer.answer(id.as_ref(), outcome).await);
        });
        Ok(())
    }

    /// One after the other: what an unlock allows is allowed to the request behind it.
    async fn inbox(&mut self, id: Option<&RawValue>, method: &str, params: &str) -> io::Result<()> {
        let Some(consent) = &mut self.consent else {
            let failure = Failure::new(code::METHOD, format!("there is no method `{method}`"));
            return self.writer.answer(id.as_ref(), Err(failure)).await;
        };
        let outcome = consent.call(method, params).await;
        let watches = method == "approval/watch" && outcome.is_ok();
        self.writer.answer(id.as_ref(), outcome).await?;
        if watches && let Some(show) = consent.shows(&self.writer) {
            self.live.spawn_boxed(show);
        }
        Ok(())
    }

    fn initialize(&self, params: &str) -> Outcome {
        let asked: Initialize = methods::parse(params)?;
        if asked.protocol_version != PROTOCOL_VERSION {
            return Err(Failure::new(
                code::VERSION,
                format!("protocol version {} is not spoken here, only {PROTOCOL_VERSION}", asked.protocol_version),
            ));
        }
        let capabilities = std::iter::once("initialize").chain(methods::METHODS).map(str::to_owned).collect();
        methods::value(&Initialized {
            protocol_version: PROTOCOL_VERSION,
            server_version: self.settings.version.clone(),
            server_pid: std::process::id(),
            capabilities,
        })
    }

    /// Takes a line that answers a question of ours.
    fn is_answer(&self, line: &[u8]) -> bool {
        let Some(client) = &self.client else { return false };
        let Incoming::Response { id, result } = zeroclaw::read(line) else { return false };
        client.answered(id.as_ref(), result);
        true
    }

    /// Works on a request beside the others, as soon as there is room for it.
    async fn in_background(&mut self, id: Option<&RawValue>, method: String, params: String) {
        let Ok(permit) = Arc::clone(&self.in_flight).acquire_owned().await else {
            return;
        };
        let id = id.map(ToOwned::to_owned);
        let (writer, processes, settings) = (self.writer.clone(), self.processes.clone(), Arc::clone(&self.settings));
        let rights = self.rights.clone();
        self.work.spawn_boxed(async move {
            let outcome = methods::call(&method, &params, &processes, &settings, &rights).await;
            let closing = method == "house/down" && outcome.is_ok();
            // A client that is gone wants no answer, but what it asked for still counts.
            drop(writer.answer(id.as_ref(), outcome).await);
            if closing {
                methods::down(&params, &settings);
            }
            drop(permit);
        });
    }

    /// Puts input in line here and now, and waits for its fate elsewhere.
    async fn stdin(&mut self, id: Option<&RawValue>, params: &str) -> io::Result<()> {
        let Ok(permit) = Arc::clone(&self.in_flight).acquire_owned().await else {
            return Ok(());
        };
        match methods::stdin(&self.processes, &self.rights, params).await {
            Err(failure) => self.writer.answer(id.as_ref(), Err(failure)).await,
            Ok(ticket) => {
                let id = id.map(ToOwned::to_owned);
                let writer = self.writer.clone();
                self.work.spawn_boxed(async move {
                    let outcome = methods::stdin_done(ticket).await;
                    drop(writer.answer(id.as_ref(), outcome).await);
                    drop(permit);
                });
                Ok(())
            }
        }
    }

    async fn attach(&mut self, id: Option<&RawValue>, params: &str) -> io::Result<()> {
        let room = self.live.len() < STREAMS;
        let prepared = methods::parse::<Attach>(params)
            .and_then(|attach| match room {
                true => Ok(attach),
                false => Err(Failure::new(code::LIMIT, format!("a connection follows at most {STREAMS} processes"))),
            })
            .and_then(|attach| stream::prepare(&self.processes, &attach).map(|prepared| (attach, prepared)));
        let (attach, prepared) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return self.writer.answer(id.as_ref(), Err(failure)).await,
        };
        if let Err(refusal) = self.rights.may_read("process/attach", prepared.process()).await {
            return self.writer.answer(id.as_ref(), Err(methods::refused(&refusal))).await;
        }
        self.writer.answer(id.as_ref(), methods::value(&prepared.attached)).await?;
        let key = prepared.attached.id.clone();
        let task = stream::run(prepared, attach.follow, self.writer.clone());
        let set = if attach.follow { &mut self.live } else { &mut self.work };
        let handle = set.spawn_boxed(task);
        // One stream for each process: a second attach takes the place of the first.
        if let Some(earlier) = self.streams.lock().insert(key, handle) {
            earlier.abort();
        }
        Ok(())
    }

    fn detach(&self, params: &str) -> Outcome {
        let target: Target = methods::parse(params)?;
        let process = methods::find(&self.processes, &target.id)?;
        if let Some(stream) = self.streams.lock().remove(&process.id().to_string()) {
            stream.abort();
        }
        Ok(serde_json::Value::Object(serde_json::Map::new()))
    }
}

/// Our own clients always say which version they speak.
fn names_its_version(params: &Value) -> Result<(), Failure> {
    match Params::read(params.clone(), &["protocol_version"])?.get("protocol_version")? {
        Some(_) => Ok(()),
        None => Err(Failure::new(code::PARAMS, "bad params: missing field `protocol_version`")),
    }
}
