//! What a broker may be told, with what it does when it is told nothing.

use std::time::Duration;

use hostel_wire::frames::{FRAME_LIMIT, MESSAGE_LIMIT};

/// Bounds of everything that others can make grow.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Of a frame, in bytes.
    pub frame: usize,
    /// Of a sealed body as base64, in bytes.
    pub message: usize,
    /// Sends of a member per second; 0: as many as it likes.
    pub rate_per_s: u32,
    /// Sends of a member at once.
    pub burst: u32,
    /// Other requests of a member per second, and at once; 0: as many as it likes.
    pub requests_per_s: u32,
    /// At once.
    pub requests_burst: u32,
    /// Connections per mesh.
    pub capacity: usize,
    /// Connections in all, of every kind.
    pub connections: usize,
    /// Entries that may be on their way to a reader.
    pub window: usize,
    /// And their bytes.
    pub window_bytes: usize,
    /// Frames a connection may have sent whose answers are still to be written.
    pub pipeline: usize,
    /// News that may wait for a slow reader before it is let go.
    pub news: usize,
    /// How long an id is remembered, in days; 0: for ever.
    pub dedupe_days: u32,
    /// How long an entry is kept, in days.
    pub retention_days: u32,
    /// Of a file.
    pub file_bytes: u64,
    /// How long a file that is not persistent is kept.
    pub ephemeral: Duration,
    /// Of the body of a small HTTP request.
    pub body: usize,
    /// Of a request's headers.
    pub head: usize,
    /// How long a stranger may take: TLS, a request's head, a hello.
    pub handshake: Duration,
    /// How long the body of a small request may take.
    pub body_time: Duration,
    /// How long an upload or a download may stand still.
    pub transfer_stall: Duration,
    /// How long one stream may ask by HTTP, transfers included.
    pub http: Duration,
    /// Uploads and downloads at once.
    pub transfers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: FRAME_LIMIT,
            message: MESSAGE_LIMIT,
            rate_per_s: 100,
            burst: 1000,
            requests_per_s: 100,
            requests_burst: 1000,
            capacity: 100,
            connections: 1024,
            window: 256,
            window_bytes: 1 << 20,
            pipeline: 1024,
            news: 1024,
            dedupe_days: 30,
            retention_days: 30,
            file_bytes: 50 << 20,
            ephemeral: Duration::from_secs(24 * 3600),
            body: 256 * 1024,
            head: 64 * 1024,
            handshake: Duration::from_secs(5),
            body_time: Duration::from_secs(30),
            transfer_stall: Duration::from_secs(30),
            http: Duration::from_secs(600),
            transfers: 32,
        }
    }
}

/// What a broker may be told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it can be reached, told to daemons in every welcome.
    pub urls: Vec<String>,
    /// Its version.
    pub version: String,
    /// Bounds.
    pub limits: Limits,
    /// Whether hellos of the first protocol are taken.
    pub allow_v1_hello: bool,
    /// How long a member counts as present after its last connection broke.
    pub lease: Duration,
    /// How often a connection is asked whether it is there.
    pub ping: Duration,
    /// After so much silence a connection is dropped.
    pub silence: Duration,
    /// After so much time without a signal a member that works is idle.
    pub working: Duration,
    /// How long a daemon whose key was replaced may take to come with the new one.
    pub switch: Duration,
    /// A list in an answer has about so many bytes: less than a frame may have.
    pub list_bytes: usize,
    /// What `POST /mesh` asks for. Without one, nobody may make meshes over HTTP.
    pub admin_token: Option<AdminToken>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: Limits::default(),
            allow_v1_hello: true,
            lease: Duration::from_secs(90),
            ping: Duration::from_secs(30),
            silence: Duration::from_secs(75),
            working: Duration::from_secs(60),
            switch: Duration::from_secs(10),
            list_bytes: 200 * 1024,
            admin_token: None,
        }
    }
}

/// The word that lets somebody make meshes. It is never printed.
#[derive(Clone)]
pub struct AdminToken(std::sync::Arc<zeroize::Zeroizing<String>>);

impl AdminToken {
    /// Takes it as it is in its file, without the space around it; none if there is nothing.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(std::sync::Arc::new(zeroize::Zeroizing::new(text.to_owned()))))
    }

    /// Whether this is it; takes as long for a wrong one as for the right one.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        use subtle::ConstantTimeEq as _;
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken")
    }
}
