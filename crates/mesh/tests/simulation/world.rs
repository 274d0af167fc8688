//! The world of a story: a broker and some hosts, each a machine of its own with its files, its clock and a plug that
//! can be pulled.
//!
//! Invariant: what runs on the machines is the real code, opened as the daemon opens it but for the stores, which have
//! no threads. Between machines there is nothing but the network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::RegistrySettings;
use hostel_broker::{AdminToken, Broker, PeerInfo, Settings as BrokerSettings};
use hostel_mesh::home::{Membership, Settings};
use hostel_mesh::log::{Level, Log};
use hostel_mesh::{Caller, Ending, InboxRequest, Mesh, MeshOptions, PostRequest, SendRequest};
use hostel_wire::Clock;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::simulation::chance::Chance;
use crate::simulation::ledger::{Ledger, Message, Report, To};
use crate::simulation::machine::{Machine, Ran};
use crate::simulation::network::{End, Network};
use crate::simulation::trace::Trace;

/// The time of day when a story begins.
const DAWN: u64 = 1_790_000_000_000;

/// Time goes on by no more than this at once, so that nobody's timers are later than this.
const STRIDE: u64 = 100;

/// Lets a host make a mesh.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789a";

pub const URL: &str = "ws://127.0.0.1:7/ws";

/// What a host is asked to do.
pub enum Order {
    Send(Message),
    Subscribe(&'static str, bool),
    Report,
    Stop,
}

/// A place where a machine may stand.
#[derive(Default)]
pub struct Place {
    pub machine: Option<Machine>,
    orders: Option<mpsc::UnboundedSender<Order>>,
}

pub struct World {
    pub trace: Trace,
    pub chance: Chance,
    pub network: Network,
    pub ledger: Arc<Mutex<Ledger>>,
    pub hosts: Vec<Place>,
    pub broker: Place,
    /// How far each host's clock is off; the last is the broker's.
    pub skews: Arc<Vec<AtomicI64>>,
    pub members: Vec<Membership>,
    pub dir: TempDir,
    /// Machines that lost power in the last instant: a host's number, or None for the broker.
    pub fallen: Vec<Option<usize>>,
}

/// A directory in memory, if the machine has such.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

impl World {
    pub fn new(seed: u64, dir: TempDir, members: Vec<Membership>, hosts: usize, now_ms: u64) -> Self {
        let mut chance = Chance::new(seed);
        let trace = Trace::new();
        trace.set_now(now_ms);
        let network = Network::new(trace.clone(), Chance::new(chance.next()), hosts);
        Self {
            network,
            chance,
            trace,
            ledger: Arc::default(),
            hosts: (0..hosts).map(|_| Place::default()).collect(),
            broker: Place::default(),
            skews: Arc::new((0..=hosts).map(|_| AtomicI64::new(0)).collect()),
            members,
            dir,
            fallen: Vec::new(),
        }
    }

    pub fn clock(&self, whose: usize) -> Clock {
        let (trace, skews) = (self.trace.clone(), Arc::clone(&self.skews));
        Clock::of(move || (DAWN + trace.now_ms()).saturating_add_signed(skews[whose].load(Ordering::Relaxed)))
    }

    pub fn now_ms(&self) -> u64 {
        self.trace.now_ms()
    }

    /// Switches the broker on.
    pub fn start_broker(&mut self) {
        let (incoming, streams) = mpsc::unbounded_channel();
        let mut options = EngineOptions::at(self.dir.path().join("broker.db"), self.dir.path().join("blobs"));
        options.inline = true;
        let main = serve(options, self.clock(self.hosts.len()), self.trace.clone(), streams);
        self.broker.machine = Some(Machine::start(self.now_ms(), main));
        self.network.listen(Some(incoming));
    }

    /// Switches a host on.
    pub fn start(&mut self, host: usize) {
        let (orders, coming) = mpsc::unbounded_channel();
        let life = Life { host, trace: self.trace.clone(), ledger: Arc::clone(&self.ledger) };
        let main = life.live(self.options(host), coming);
        self.hosts[host] = Place { machine: Some(Machine::start(self.now_ms(), main)), orders: Some(orders) };
    }

    fn options(&self, host: usize) -> MeshOptions {
        let membership = &self.members[host];
        let dir = self.home(host);
        std::fs::create_dir_all(&dir).unwrap();
        let clock = self.clock(host);
        let trace = self.trace.clone();
        let level = if trace.prints() { Level::Debug } else { Level::Error };
        MeshOptions {
            slug: membership.slug.clone(),
            mesh_id: membership.mesh_id.clone(),
            member_id: membership.member_id.clone(),
            member_key: membership.key.clone(),
            keys: hostel_mesh::KeyOptions::default(),
            root_key: membership.root_key.clone(),
            owner_key: membership.owner_key.clone(),
            display_name: membership.display_name.clone().unwrap(),
            rename: false,
            groups: Vec::new(),
            broker_urls: membership.broker_urls.clone(),
            certificate: membership.cert,
            dir: Some(dir),
            leave_on_end: false,
            host_fingerprint: None,
            hostname: format!("host{host}"),
            cwd: "/".to_owned(),
            version: "0.0.0".to_owned(),
            settings: Settings::default(),
            log: Log::new(clock.clone(), level, move |_, line| trace.aside(format_args!("  h{host} {line}"))),
            clock,
            dial: self.network.dialler(host),
            hooks: Default::default(),
            inline_stores: true,
        }
    }

    pub fn home(&self, host: usize) -> PathBuf {
        self.dir.path().join(format!("h{host}"))
    }

    pub fn order(&self, host: usize, order: Order) -> bool {
        self.hosts[host].orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// Pulls a plug.
    pub fn crash(&mut self, host: Option<usize>, heard: bool) {
        let place = match host {
            Some(host) => &mut self.hosts[host],
            None => &mut self.broker,
        };
        let Some(machine) = place.machine.take() else { return };
        place.orders = None;
        let steps = machine.steps;
        // First it is silent, then it is gone: what is dropped says nothing to anybody.
        if host.is_none() {
            self.network.listen(None);
        }
        self.network.power_lost(host, heard);
        machine.crash();
        let who = host.map_or_else(|| "the broker".to_owned(), |host| format!("h{host}"));
        self.trace.note(format_args!("{who} loses power after {steps} steps, heard: {heard}"));
        self.fallen.push(host);
    }

    /// Lets everything happen that happens in this instant.
    pub fn settle(&mut self) {
        self.network.deliver();
        let mut order: Vec<Option<usize>> = (0..self.hosts.len()).map(Some).chain([None]).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.chance.index(last + 1));
        }
        for who in order {
            let now = self.now_ms();
            let machine = match who {
                Some(host) => &mut self.hosts[host].machine,
                None => &mut self.broker.machine,
            };
            let Some(machine) = machine else { continue };
            if machine.run(now) == Ran::Last {
                let heard = self.chance.percent(50);
                self.crash(who, heard);
            }
        }
    }

    /// Goes on to the next instant in which something may happen, but not beyond `most`.
    pub fn advance(&mut self, most: u64) {
        let now = self.now_ms();
        let next = self.network.next_due().unwrap_or(u64::MAX).min(now + STRIDE).min(most).max(now);
        self.trace.set_now(next);
        self.settle();
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        let until = self.now_ms() + ms;
        self.settle();
        while self.now_ms() < until {
            self.advance(until);
        }
    }

    /// What every host has now.
    pub fn reports(&mut self) {
        self.ledger.lock().reports.clear();
        for host in 0..self.hosts.len() {
            self.order(host, Order::Report);
        }
        self.settle();
    }
}

async fn serve(options: EngineOptions, clock: Clock, trace: Trace, mut streams: mpsc::UnboundedReceiver<End>) {
    let engine = SqliteEngine::open(options).await.unwrap();
    let log = match trace.prints() {
        true => hostel_broker::Log::new(move |level, text, fields| {
            trace.aside(format_args!("  broker {} {text} {}", level.as_str(), serde_json::Value::Object(fields)));
        }),
        false => hostel_broker::Log::silent(),
    };
    let settings = BrokerSettings { admin_token: AdminToken::new(TOKEN), ..BrokerSettings::default() };
    let opened = Broker::open(engine, settings, RegistrySettings::default(), clock, log).await;
    let broker = opened.unwrap();
    while let Some(stream) = streams.recv().await {
        let port = u16::try_from(1024 + stream.number() % 60_000).unwrap();
        let peer = PeerInfo { address: Some(([127, 0, 0, 1], port).into()) };
        let broker = Arc::clone(&broker);
        tokio::spawn(async move { broker.serve_connection(stream, peer).await });
    }
}

/// What a host does with its orders.
#[derive(Clone)]
struct Life {
    host: usize,
    trace: Trace,
    ledger: Arc<Mutex<Ledger>>,
}

impl Life {
    async fn live(self, options: MeshOptions, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mesh = match Mesh::open(options).await {
            Ok(mesh) => mesh,
            Err(error) => return self.wrong(format_args!("cannot be opened: {error}")),
        };
        let (running, life) = (mesh.clone(), self.clone());
        tokio::spawn(async move {
            let ending = running.run().await;
            life.trace.note(format_args!("h{} ended: {ending:?}", life.host));
            if ending != Ending::Shutdown {
                life.wrong(format_args!("ended by itself: {ending:?}"));
            }
        });
        while let Some(order) = orders.recv().await {
            let (mesh, life) = (mesh.clone(), self.clone());
            tokio::spawn(async move { life.obey(&mesh, order).await });
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("h{}: {what}", self.host));
        self.ledger.lock().wrong.push(format!("h{}: {what}", self.host));
    }

    async fn obey(&self, mesh: &Mesh, order: Order) {
        match order {
            Order::Send(message) => self.send(mesh, message).await,
            Order::Subscribe(topic, on) => {
                let answer = if on { mesh.subscribe(topic).await } else { mesh.unsubscribe(topic).await };
                let answer = answer.map(|answer| answer.pending).map_err(|refusal| refusal.code().to_owned());
                self.trace.note(format_args!("h{} subscribes to {topic}: {on}, pending: {answer:?}", self.host));
            }
            Order::Report => match self.report(mesh).await {
                Ok(report) => drop(self.ledger.lock().reports.insert(self.host, report)),
                Err(error) => self.wrong(format_args!("cannot report: {error}")),
            },
            Order::Stop => mesh.shutdown(),
        }
    }

    async fn send(&self, mesh: &Mesh, message: Message) {
        let (key, body) = (message.key.clone(), message.body.clone());
        // Asked first when it reaches the mesh: an order that is lost with its machine was none.
        self.ledger
            .lock()
            .messages
            .entry(key.clone())
            .or_insert(Message { asked: self.trace.stamp(), ..message.clone() });
        let answer = match &message.to {
            To::Topic(topic) => {
                let post = PostRequest {
                    topic: (*topic).to_owned(),
                    message: body.clone(),
                    priority: message.priority,
                    client_message_id: Some(key.clone()),
                    ..PostRequest::default()
                };
                mesh.topic_post(post, &Caller::Member).await
            }
            to => {
                let to = if let To::Host(host) = to { format!("h{host}") } else { "*".to_owned() };
                let send = SendRequest {
                    to,
                    message: body.clone(),
                    priority: message.priority,
                    client_message_id: Some(key.clone()),
                    ..SendRequest::default()
                };
                mesh.send(send, &Caller::Member).await
            }
        };
        let shown = answer.as_ref().map(|sent| sent.status).map_err(|refusal| refusal.code().to_owned());
        self.trace
            .note(format_args!("h{} sends {key} to {:?} {:?}: {shown:?}", self.host, message.to, message.priority));
        let mut ledger = self.ledger.lock();
        let Some(noted) = ledger.messages.get_mut(&key) else { return };
        let same = noted.body == body;
        match answer {
            Ok(_) if same => noted.promised = noted.promised.or(Some(self.trace.stamp())),
            Ok(sent) => ledger.wrong.push(format!("another text was taken under the same key: {sent:?}")),
            Err(refusal) if same && noted.promised.is_some() && refusal.code() != "broker_unavailable" => {
                ledger.wrong.push(format!("{key} was promised and is refused now: {refusal:?}"));
            }
            Err(refusal) => noted.refused = Some(refusal.code().to_owned()).filter(|_| same).or(noted.refused.take()),
        }
    }

    async fn report(&self, mesh: &Mesh) -> Result<Report, hostel_mesh::Refusal> {
        let mut report = Report { outbox: mesh.outbox_list(None, 1000).await?, ..Report::default() };
        let mut cursor = None;
        loop {
            let request = InboxRequest { limit: 1000, mark_seen: false, cursor, ..InboxRequest::default() };
            let page = mesh.inbox(request, &Caller::Member).await?;
            report.inbox.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        report.inbox.reverse();
        Ok(report)
    }
}
