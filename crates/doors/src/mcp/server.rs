//! The server: what an MCP client can ask for, whichever way it is connected.
//!
//! Invariant: a call that cannot be understood is a protocol error, one that did not work is a result that says so. No
//! more than a fixed number of calls run at once.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use hyper::http::request::Parts;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::CallToolRequestParams;
use rmcp::model::CallToolResponse;
use rmcp::model::CallToolResult;
use rmcp::model::Implementation;
use rmcp::model::JsonObject;
use rmcp::model::ListResourcesResult;
use rmcp::model::ListToolsResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ProtocolVersion;
use rmcp::model::ReadResourceRequestParams;
use rmcp::model::ReadResourceResponse;
use rmcp::model::ReadResourceResult;
use rmcp::model::Resource;
use rmcp::model::ResourceContents;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::model::Tool;
use rmcp::service::NotificationContext;
use rmcp::service::RequestContext;
use tokio::sync::Semaphore;

use super::Backend;
use super::Caller;
use super::Desk;
use super::Mesh;
use super::Profile;
use super::arguments::read;
use super::asking;
use super::execute;
use super::execute::failed;
use super::instructions::instructions;
use super::mesh;
use super::mesh::channel;
use super::servers;
use super::sessions;
use super::sessions::Memory;
use super::sudo::Contact;
use super::texts;
use super::tools::tools;
use super::visits::Visit;

/// The one resource: the registry of hosts.
const HOSTS: &str = "sudo-proxy://hosts";

/// Calls that run at once.
const CALLS: usize = 64;

/// Whether messages of the mesh are pushed to the client of a server already, and from when on they are. A clone is for
/// another client.
struct Channel {
    begun: AtomicBool,
    /// When the server was made for its client, in milliseconds since 1970. Messages that arrive from then on are pushed,
    /// even if the client's `initialized` is handled later.
    since_ms: u64,
}

impl Channel {
    /// True the first time.
    fn begins(&self) -> bool {
        !self.begun.swap(true, Ordering::AcqRel)
    }
}

impl Default for Channel {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis());
        Channel { begun: AtomicBool::default(), since_ms: u64::try_from(since).unwrap_or(u64::MAX) }
    }
}

impl Clone for Channel {
    fn clone(&self) -> Self {
        Channel::default()
    }
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub(super) profile: Arc<Profile>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) desk: Arc<dyn Desk>,
    pub(super) memory: Arc<Memory>,
    /// None where the tools of the mesh are not offered.
    pub(super) mesh: Option<Arc<dyn Mesh>>,
    /// Messages are pushed also to a client that did not say that it takes them.
    pub(super) channel: bool,
    /// Of this connection alone: every clone has its own.
    pushing: Channel,
    calls: Arc<Semaphore>,
    tools: Arc<Vec<Tool>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that presents itself so, and reaches the house through these.
    #[must_use]
    pub fn new(profile: Profile, backend: Arc<dyn Backend>, desk: Arc<dyn Desk>) -> Self {
        Server {
            tools: Arc::new(tools(profile.contract)),
            profile: Arc::new(profile),
            backend,
            desk,
            memory: Arc::default(),
            mesh: None,
            channel: false,
            pushing: Channel::default(),
            calls: Arc::new(Semaphore::new(CALLS)),
        }
    }

    /// The same server, with the tools of the mesh.
    #[must_use]
    pub fn with_mesh(mut self, mesh: Arc<dyn Mesh>) -> Self {
        self.tools = Arc::new(self.tools.iter().cloned().chain(mesh::tools()).collect());
        self.mesh = Some(mesh);
        self
    }

    /// The same server, for a client that takes messages of the mesh as notifications of a channel without saying so.
    #[must_use]
    pub fn with_channel(mut self) -> Self {
        self.channel = true;
        self
    }

    /// The host that is meant: none is this machine.
    pub(super) fn target(&self, host: Option<&str>) -> Result<Option<String>, String> {
        let Some(host) = host else { return Ok(None) };
        self.desk.check(host).map_err(|reason| texts::invalid_host(&reason))?;
        Ok((!self.desk.is_here(host)).then(|| host.to_owned()))
    }

    /// Notes that a host's daemon has answered; files are not for the runtime's own threads.
    pub(super) async fn seen(&self, host: &str, version: &str) {
        let (desk, host, version) = (Arc::clone(&self.desk), host.to_owned(), version.to_owned());
        hostel_tasks::spawn_blocking(move || desk.seen(&host, &version)).await.ok();
    }

    /// A line to a daemon.
    pub(super) fn contact<'a>(&'a self, host: Option<&'a str>, caller: &'a Caller) -> Contact<'a> {
        Contact { backend: &*self.backend, profile: &self.profile, host, caller }
    }

    /// The session that is named to a daemon.
    pub(super) fn session_word(&self, caller: &Caller) -> String {
        self.profile.session.map_or_else(|| format!("mcp {}", caller.word()), str::to_owned)
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let arguments = request.arguments;
        let caller = &caller(context);
        if !self.tools.iter().any(|tool| tool.name == request.name) {
            return Err(ErrorData::invalid_params("tool not found", None));
        }
        if let Some(why) = self.backend.refuses(caller, &request.name).await {
            return Ok(failed(why));
        }
        let done = match &*request.name {
            "execute" => execute::execute(self, read(arguments)?, caller, context).await,
            "start_server" => servers::start(self, read(arguments)?, caller, context).await?,
            "stop_server" => Some(servers::stop(self, read(arguments)?, caller).await),
            "status" => Some(servers::status(self, read(arguments)?, caller).await),
            "update_host" => Some(servers::update(self, read(arguments)?).await),
            "ask_approval" => asking::ask(self, read(arguments)?, caller, context).await,
            "session_list" => Some(sessions::list(self, read(arguments)?, caller).await),
            "session_send" => sessions::send(self, read(arguments)?, caller, context).await,
            "session_read" => Some(sessions::read(self, read(arguments)?, caller).await),
            "mesh_send" => Some(mesh::send(self, caller, read(arguments)?).await),
            "mesh_inbox" => Some(mesh::inbox(self, caller, read(arguments)?).await),
            "mesh_peers" => Some(mesh::peers(self, caller, read(arguments)?).await),
            _ => return Err(ErrorData::invalid_params("tool not found", None)),
        };
        // Nobody hears this: an answer to a cancelled request is not sent.
        Ok(done.unwrap_or_else(|| failed("cancelled")))
    }
}

/// Who calls.
fn caller(context: &RequestContext<RoleServer>) -> Caller {
    let client = context.client_info();
    let (name, version) = client.map(|client| (client.name, client.version)).unwrap_or_default();
    Caller { name, version, peer: visit(context).and_then(|visit| visit.peer.clone()) }
}

/// The HTTP connection a call came by, if it did.
pub(super) fn visit(context: &RequestContext<RoleServer>) -> Option<&Visit> {
    context.extensions.get::<Parts>()?.extensions.get::<Visit>()
}

/// The session of a call that came over HTTP: none for one that belongs to no session, and nothing for another
/// transport.
pub(super) fn http_session(context: &RequestContext<RoleServer>) -> Option<Option<String>> {
    visit(context).map(|visit| visit.session.clone())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        if self.mesh.is_some() {
            capabilities.experimental = Some([(channel::CAPABILITY.to_owned(), JsonObject::default())].into());
        }
        let mut own = Implementation::new(self.profile.name, self.profile.version.clone());
        if !self.profile.contract {
            own = own.with_title("hostel").with_description("A safe home for AI agents on this machine");
        }
        let mut info = ServerConfig::new(capabilities).with_server_info(own).with_instructions(instructions(
            &self.profile,
            &*self.desk,
            self.mesh.is_some(),
        ));
        if self.profile.contract {
            info = info.with_protocol_version(ProtocolVersion::V_2025_03_26);
        }
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Some(mesh) = &self.mesh else { return };
        let client = context.peer.peer_info();
        let experimental = client.as_ref().and_then(|client| client.capabilities.experimental.as_ref());
        let announced = experimental.is_some_and(|known| known.contains_key(channel::CAPABILITY));
        // Who says twice that it is ready is told everything once.
        if (announced || self.channel) && self.pushing.begins() {
            let visit = context.extensions.get::<Parts>().and_then(|head| head.extensions.get::<Visit>()).cloned();
            let (name, version) = client
                .map(|client| (client.client_info.name.clone(), client.client_info.version.clone()))
                .unwrap_or_default();
            let caller = Caller { name, version, peer: visit.as_ref().and_then(|visit| visit.peer.clone()) };
            channel::begin(Arc::clone(mesh), caller, context.peer, visit, self.pushing.since_ms);
        }
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let newest = match self.profile.contract {
            true => &ProtocolVersion::V_2025_03_26,
            // What came after has no way for what nobody asked for: a client that speaks it gets no channel, and one that
            // finds it offered speaks it.
            false if self.channel => &ProtocolVersion::LATEST_WITH_INITIALIZE,
            false => &ProtocolVersion::LATEST,
        };
        Cow::Borrowed(ProtocolVersion::known_up_to(newest))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_place) = self.calls.try_acquire() else {
            return Ok(failed(format!("{CALLS} calls are being worked on already; try again later")).into());
        };
        let _busy = visit(&context).map(Visit::busy);
        Ok(self.call(request, &context).await?.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let hosts = Resource::new(HOSTS, "known-hosts")
            .with_description("Hosts whose sudo-proxy daemons are known, with what is noted about them")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![hosts]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != HOSTS {
            return Err(ErrorData::resource_not_found(texts::unknown_resource(&request.uri), None));
        }
        let text = ResourceContents::text(self.desk.registry(), HOSTS).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![text]).into())
    }
}
