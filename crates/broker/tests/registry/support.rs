//! A registry in a scratch directory whose clock stands still until it is set, and people for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_broker::engine::{Append, Engine as _, EngineOptions, SqliteEngine};
use hostel_broker::registry::{
    CreatedMesh, JoinError, JoinRequest, Joined, Mesh, NewInvite, NewMesh, Registry, RegistrySettings, Role, Route,
};
use hostel_wire::Clock;
use hostel_wire::frames::Priority;
use hostel_wire::frames::client::Seal;
use hostel_wire::invite::{InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use serde_json::Value;

pub(crate) const NOW: u64 = 1_800_000_000_000;
pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const DAY: u64 = 24 * HOUR;

pub(crate) struct World {
    pub(crate) registry: Registry<SqliteEngine>,
    pub(crate) engine: SqliteEngine,
    pub(crate) owner: SecretKey,
    pub(crate) mesh: CreatedMesh,
    time: Arc<AtomicU64>,
    pub(crate) scratch: tempfile::TempDir,
}

impl World {
    /// With one mesh, `lab`, that `alice` owns.
    pub(crate) async fn new() -> Self {
        Self::with(RegistrySettings::default()).await
    }

    pub(crate) async fn with(settings: RegistrySettings) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let options = EngineOptions::at(scratch.path().join("broker.db"), scratch.path().join("blobs"));
        let engine = SqliteEngine::open(options).await.unwrap();
        let time = Arc::new(AtomicU64::new(NOW));
        let clock = clock(&time);
        let registry = Registry::open(engine.clone(), clock, settings).await.unwrap();
        let owner = SecretKey::generate();
        let mesh = registry.create_mesh(new_mesh("lab", &owner, &SecretKey::generate())).await.unwrap();
        Self { registry, engine, owner, mesh, time, scratch }
    }

    pub(crate) fn id(&self) -> &str {
        &self.mesh.mesh_id
    }

    pub(crate) fn alice(&self) -> &str {
        &self.mesh.member_id
    }

    pub(crate) fn now(&self) -> Arc<Mesh> {
        self.registry.mesh(self.id()).unwrap()
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.time.fetch_add(ms, Ordering::AcqRel);
    }

    pub(crate) fn clock(&self) -> Clock {
        clock(&self.time)
    }

    pub(crate) fn terms(&self, role: &str) -> Terms {
        Terms {
            mesh_id: self.id().to_owned(),
            mesh_slug: self.mesh.slug.clone(),
            broker_url: "ws://127.0.0.1:1/ws".to_owned(),
            expires_at: (self.clock().now_ms() + 7 * DAY) / 1000,
            role: role.to_owned(),
        }
    }

    /// A registered invite's token.
    pub(crate) async fn invite(&self, role: &str, uses: u32, preset: Option<Value>) -> String {
        let token = InviteLink::make(&self.terms(role), &self.owner, None).unwrap().token;
        let new = NewInvite {
            token: token.clone(),
            sealed_root_key: Some("c2VhbGVk".to_owned()),
            max_uses: Some(uses),
            preset,
        };
        let mesh = self.now();
        let owner = mesh.active().find(|member| member.role == Role::Owner).unwrap();
        self.registry.invite_create(self.id(), &owner.id, new).await.unwrap();
        token
    }

    pub(crate) async fn join_with(&self, token: &str, key: &SecretKey, name: &str) -> Result<Joined, JoinError> {
        self.registry.join(join(token, key, name)).await
    }

    /// A new member's id.
    pub(crate) async fn member(&self, name: &str) -> String {
        self.member_as(name, "member").await
    }

    pub(crate) async fn member_as(&self, name: &str, role: &str) -> String {
        let token = self.invite(role, 1, None).await;
        self.join_with(&token, &SecretKey::generate(), name).await.unwrap().member_id
    }

    /// Puts something into the log, as a server does.
    pub(crate) async fn append(&self, sender: &str, id: &str, route: Route) -> u64 {
        let append = Append {
            mesh: self.id().to_owned(),
            kind: route.kind,
            dest: route.dest,
            sender: sender.to_owned(),
            client_id: id.to_owned(),
            origin: None,
            fingerprint: [0; 32],
            priority: Priority::Next,
            audience: route.audience,
            bytes: "x".into(),
            guards: route.guards,
            writes: Vec::new(),
            gate: None,
            expires_ms: NOW + 30 * DAY,
            forget_ms: NOW + 60 * DAY,
            now_ms: NOW,
        };
        self.engine.append(append).await.unwrap().seq
    }
}

fn clock(time: &Arc<AtomicU64>) -> Clock {
    let time = Arc::clone(time);
    Clock::of(move || time.load(Ordering::Acquire))
}

pub(crate) fn new_mesh(name: &str, owner: &SecretKey, member: &SecretKey) -> NewMesh {
    NewMesh {
        name: name.to_owned(),
        owner_pubkey: owner.public().hex(),
        member_pubkey: member.public().hex(),
        display_name: "alice".to_owned(),
    }
}

pub(crate) fn join(token: &str, key: &SecretKey, name: &str) -> JoinRequest {
    JoinRequest {
        invite_token: token.to_owned(),
        invite_payload: None,
        peer_pubkey: key.public().hex(),
        display_name: name.to_owned(),
    }
}

pub(crate) fn seals(members: &[&str]) -> Vec<Seal> {
    let seal =
        |id: &&str| Seal { member_id: (*id).to_owned(), blob: "YmxvYg==".to_owned(), nonce: "bm9uY2U=".to_owned() };
    members.iter().map(seal).collect()
}
