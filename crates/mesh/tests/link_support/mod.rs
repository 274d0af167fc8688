//! A real broker and real meshes in one process, over loopback, with a network that can be cut.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

pub mod fake;
mod net;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::RegistrySettings;
use hostel_broker::{AdminToken, Broker, Settings as BrokerSettings};
use hostel_mesh::cold::{Cold, ColdOptions};
use hostel_mesh::enrol::{Create, Enrol};
use hostel_mesh::events::EventFilter;
use hostel_mesh::home::{Membership, Memberships, MeshDir, Places, Settings};
use hostel_mesh::link::dial::NetDial;
use hostel_mesh::log::Log;
use hostel_mesh::{
    Caller, Ending, InboxItem, InboxRequest, InviteRequest, KeyOptions, Mesh, MeshOptions, PostRequest, SendRequest,
    Sent,
};
use hostel_wire::Clock;
use hostel_wire::keys::SecretKey;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

pub use net::Net;

/// How long anything may take before it counts as hanging; `HOSTEL_TEST_SCALE` makes it longer.
pub fn hang_limit() -> Duration {
    let scale = std::env::var("HOSTEL_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    Duration::from_secs(120).mul_f64(scale)
}

/// Waits for something, but not for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = hang_limit();
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {limit:?} in vain for: {what}"),
    }
}

/// Asks `probe` again and again until it gives something. An error is what it saw instead; the last one is reported when
/// the wait hangs.
pub async fn until<T, E: std::fmt::Debug>(what: &str, mut probe: impl AsyncFnMut() -> Result<T, E>) -> T {
    let (limit, mut pause) = (hang_limit(), Duration::from_millis(1));
    let end = tokio::time::Instant::now() + limit;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if tokio::time::Instant::now() >= end => {
                panic!("waited {limit:?} in vain for: {what}; last seen: {seen:?}")
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// For `until`: whether a condition holds, and what is seen if not.
pub fn holds<E>(condition: bool, seen: E) -> Result<(), E> {
    if condition { Ok(()) } else { Err(seen) }
}

/// Waits until a mesh owes nothing.
pub async fn drained(mesh: &Mesh) {
    until("the outbox to be drained", async || {
        let depth = mesh.health().await.queue_depth;
        if depth == 0 {
            return Ok(());
        }
        let mut owed = mesh.outbox_list(Some("pending"), 3).await.unwrap();
        owed.extend(mesh.outbox_list(Some("inflight"), 3).await.unwrap());
        Err((depth, owed))
    })
    .await;
}

/// The word that lets tests make meshes.
const TOKEN: &str = "a token of some length";

/// A broker that can be stopped and started again at the same place.
pub struct TestBroker {
    pub dir: TempDir,
    pub port: u16,
    /// For the next start.
    pub settings: BrokerSettings,
    running: Option<(Arc<Broker<SqliteEngine>>, JoinHandle<()>)>,
    /// Bound to the port and never listening: the system gives the port to nobody else while the broker is down.
    _reserved: TcpSocket,
}

impl TestBroker {
    pub async fn start() -> Self {
        Self::with(BrokerSettings::default()).await
    }

    pub async fn with(settings: BrokerSettings) -> Self {
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = reserved.local_addr().unwrap().port();
        let mut broker = Self { dir: tempfile::tempdir().unwrap(), port, settings, running: None, _reserved: reserved };
        broker.up().await;
        broker
    }

    pub async fn up(&mut self) {
        let options = EngineOptions::at(self.dir.path().join("broker.db"), self.dir.path().join("blobs"));
        let engine = SqliteEngine::open(options).await.unwrap();
        let log = hostel_broker::Log::silent();
        let settings = BrokerSettings { admin_token: AdminToken::new(TOKEN), ..self.settings.clone() };
        let broker = Broker::open(engine, settings, RegistrySettings::default(), Clock::system(), log);
        let broker = broker.await.unwrap();
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let serving = Arc::clone(&broker);
        let task = tokio::spawn(async move {
            serving.serve(listener, None, std::future::pending()).await;
        });
        self.running = Some((broker, task));
    }

    /// The broker itself.
    pub fn broker(&self) -> &Broker<SqliteEngine> {
        &self.running.as_ref().unwrap().0
    }

    /// Deletes a topic as its owner would.
    pub async fn delete_topic(&self, name: &str) {
        let (broker, _) = self.running.as_ref().unwrap();
        for mesh in broker.registry().meshes() {
            let owner = mesh.members().find(|member| member.is_admin()).unwrap();
            broker.registry().topic_delete(mesh.id(), &owner.id, name).await.unwrap();
        }
    }

    pub async fn down(&mut self) {
        let (broker, task) = self.running.take().unwrap();
        soon("the broker's end", broker.shutdown()).await;
        soon("serving's end", task).await.unwrap();
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}/ws", self.port)
    }
}

/// Copies the files of a directory into another that has none.
pub fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Puts a copy in the place of what is there.
pub fn put_back(copy: &std::path::Path, place: &std::path::Path) {
    for entry in std::fs::read_dir(place).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    copy_files(copy, place);
}

/// A host: a member of the mesh, with its files, whose daemon can be stopped and started.
pub struct Host {
    pub dir: TempDir,
    pub membership: Membership,
    pub net: Net,
    pub mesh: Mesh,
    pub settings: Settings,
    running: Option<JoinHandle<Ending>>,
}

impl Host {
    async fn of(dir: TempDir, membership: Membership, run: bool) -> Self {
        let net = Net::new();
        let settings = quick();
        let mesh =
            Mesh::open(options(dir.path().join("mesh"), &membership, net.clone(), settings.clone())).await.unwrap();
        let mut host = Self { dir, membership, net, mesh, settings, running: None };
        if run {
            host.run().await;
        }
        host
    }

    async fn run(&mut self) {
        let mesh = self.mesh.clone();
        self.running = Some(tokio::spawn(async move { mesh.run().await }));
    }

    /// Runs and waits for the connection.
    pub async fn up(&mut self) {
        // As it is now: its key may have been replaced.
        let known = Memberships::load(&places(self.dir.path())).unwrap();
        if let Some(membership) = known.find(&self.membership.slug) {
            self.membership = membership.clone();
        }
        let made = options(self.dir.path().join("mesh"), &self.membership, self.net.clone(), self.settings.clone());
        self.mesh = Mesh::open(made).await.unwrap();
        self.run().await;
    }

    pub async fn connected(&self) {
        soon("connecting", self.mesh.connected()).await;
    }

    pub async fn down(&mut self) -> Ending {
        self.mesh.shutdown();
        self.ended().await
    }

    pub async fn ended(&mut self) -> Ending {
        soon("the daemon's end", self.running.take().unwrap()).await.unwrap()
    }

    pub fn name(&self) -> String {
        self.mesh.display_name()
    }

    pub async fn send(&self, to: &str, message: &str) -> Sent {
        let request = SendRequest { to: to.to_owned(), message: message.to_owned(), ..SendRequest::default() };
        self.mesh.send(request, &Caller::Member).await.unwrap()
    }

    pub async fn post(&self, topic: &str, message: &str) -> Sent {
        let request = PostRequest { topic: topic.to_owned(), message: message.to_owned(), ..PostRequest::default() };
        self.mesh.topic_post(request, &Caller::Member).await.unwrap()
    }

    /// A number of its metrics.
    pub async fn metric(&self, name: &str) -> u64 {
        let text = self.mesh.metrics_text().await;
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// The key that its files say is its own.
    pub fn kept_key(&self) -> SecretKey {
        Memberships::load(&places(self.dir.path())).unwrap().find("lab").unwrap().key.clone()
    }

    /// The files of its daemon.
    pub fn files(&self) -> MeshDir {
        MeshDir::at(self.dir.path().join("mesh"))
    }

    /// All of the inbox, oldest first.
    pub async fn inbox(&self) -> Vec<InboxItem> {
        let request = InboxRequest { limit: 1000, mark_seen: false, ..InboxRequest::default() };
        let mut items = self.mesh.inbox(request, &Caller::Member).await.unwrap().items;
        items.reverse();
        items
    }

    /// Bodies, oldest first.
    pub async fn bodies(&self) -> Vec<String> {
        self.inbox().await.into_iter().map(|item| item.body.unwrap_or_else(|| "<null>".to_owned())).collect()
    }

    /// Waits until the inbox has this many messages.
    pub async fn wait_inbox(&self, count: usize) -> Vec<InboxItem> {
        self.wait_for(&format!("{count} messages for {}", self.name()), |items| items.len() >= count).await
    }

    pub async fn wait_for(&self, what: &str, enough: impl Fn(&[InboxItem]) -> bool) -> Vec<InboxItem> {
        let mut events = self.mesh.events(EventFilter::default(), &Caller::Member, None).await.unwrap();
        let waiting = async {
            loop {
                let items = self.inbox().await;
                if enough(&items) {
                    return items;
                }
                events.next().await.expect("the stream goes on");
            }
        };
        let limit = hang_limit();
        match tokio::time::timeout(limit, waiting).await {
            Ok(items) => items,
            Err(_) => panic!("waited {limit:?} in vain for: {what}; there are {:?}", self.bodies().await),
        }
    }

    /// Listens from now on for the next event of a name; what is returned waits for it.
    pub async fn follow<'a>(&self, name: &'a str) -> impl Future<Output = serde_json::Value> + use<'a> {
        let filter = EventFilter { events: vec![name.to_owned()], ..EventFilter::default() };
        let mut events = self.mesh.events(filter, &Caller::Member, None).await.unwrap();
        async move {
            let event = soon(name, events.next()).await.expect("the stream goes on");
            serde_json::from_str(&event.data).unwrap()
        }
    }

    /// Waits until nothing is owed.
    pub async fn drained(&self) {
        drained(&self.mesh).await;
    }
}

/// Where the files of a host are.
pub fn places(root: &std::path::Path) -> Places {
    Places::at(root.join("config"), root.join("daemon"))
}

/// As in life, but nobody waits long for a reconnect.
pub fn quick() -> Settings {
    let mut settings = Settings::default();
    settings.reconnect.initial_backoff_ms = 20;
    settings.reconnect.max_backoff_ms = 200;
    settings.inbox.max_bytes = 0;
    settings
}

pub fn options(dir: PathBuf, membership: &Membership, net: Net, settings: Settings) -> MeshOptions {
    std::fs::create_dir_all(&dir).unwrap();
    MeshOptions {
        slug: membership.slug.clone(),
        mesh_id: membership.mesh_id.clone(),
        member_id: membership.member_id.clone(),
        member_key: membership.key.clone(),
        keys: KeyOptions { places: dir.parent().map(places), at_step: None },
        root_key: membership.root_key.clone(),
        owner_key: membership.owner_key.clone(),
        display_name: membership.display_name.clone().unwrap_or_else(|| "nameless".to_owned()),
        rename: false,
        groups: Vec::new(),
        broker_urls: membership.broker_urls.clone(),
        certificate: membership.cert,
        dir: Some(dir),
        leave_on_end: false,
        host_fingerprint: None,
        hostname: "testhost".to_owned(),
        cwd: "/".to_owned(),
        version: "0.9.0".to_owned(),
        settings,
        clock: Clock::system(),
        dial: Arc::new(net),
        log: log(),
        hooks: Default::default(),
        inline_stores: false,
    }
}

/// Lines go to the test's output when `MESH_LOG` is set.
pub fn log() -> Log {
    match std::env::var_os("MESH_LOG") {
        Some(_) => Log::new(Clock::system(), hostel_mesh::log::Level::Debug, |_, line| eprintln!("{line}")),
        None => Log::silent(),
    }
}

pub fn cold_options(membership: &Membership) -> ColdOptions {
    ColdOptions {
        slug: membership.slug.clone(),
        mesh_id: membership.mesh_id.clone(),
        member_id: membership.member_id.clone(),
        member_key: membership.key.clone(),
        root_key: membership.root_key.clone(),
        owner_key: membership.owner_key.clone(),
        certificate: membership.cert,
        display_name: membership.display_name.clone().unwrap_or_default(),
        broker_urls: membership.broker_urls.clone(),
        dial: Arc::new(NetDial::new(None).unwrap()),
        clock: Clock::system(),
        dir: None,
    }
}

/// The memberships of a new mesh, the first is the owner's.
pub async fn enrol(broker: &TestBroker, names: &[&str]) -> Vec<(TempDir, Membership)> {
    let mut all: Vec<(TempDir, Membership)> = Vec::new();
    let mut invite = None;
    for name in names {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::at(dir.path().join("config"), dir.path().join("daemon"));
        let enrol = Enrol::new(places, Clock::system());
        let membership = match &invite {
            None => {
                let create = Create {
                    broker_url: broker.url(),
                    admin_token: Some(TOKEN.to_owned().into()),
                    name: "lab".to_owned(),
                    display_name: (*name).to_owned(),
                    cert: None,
                };
                let membership = enrol.create(create).await.unwrap();
                let cold = soon("the cold way", Cold::connect(cold_options(&membership))).await.unwrap();
                let request = InviteRequest { max_uses: Some(100), ..InviteRequest::default() };
                invite = Some(soon("inviting", cold.invite_create(request)).await.unwrap().invite);
                cold.leave().await;
                membership
            }
            Some(link) => enrol.join(link, name).await.unwrap().membership,
        };
        all.push((dir, membership));
    }
    all
}

/// Hosts of a new mesh, all connected.
pub async fn hosts<const N: usize>(broker: &TestBroker, names: [&str; N]) -> [Host; N] {
    let mut hosts = Vec::new();
    for (dir, membership) in enrol(broker, &names).await {
        hosts.push(Host::of(dir, membership, true).await);
    }
    for host in &hosts {
        host.connected().await;
    }
    hosts.try_into().ok().unwrap()
}

/// A further host, by invite.
pub async fn join(invite: &str, name: &str) -> Host {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::at(dir.path().join("config"), dir.path().join("daemon"));
    let joined = Enrol::new(places, Clock::system()).join(invite, name).await.unwrap();
    Host::of(dir, joined.membership, true).await
}
