//! The daemon of `hostel up`: the house's own directory, every door at once.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hostel_doors::claustrum;
use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Secret;
use hostel_doors::codecast;
use hostel_doors::mcp;
use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::sudo_proxy;
use hostel_doors::zeroclaw;
use tokio::net::TcpListener;

use super::House;
use super::Opening;
use super::Policy;
use super::Rival;
use super::bind;
use super::consent;
use super::consent::SudoProxyFace;
use super::doors::ClaustrumDoor;
use super::doors::Door;
use super::doors::McpDoor;
use super::doors::SudoProxyDoor;
use super::doors::ZeroclawDoor;
use super::doors::door_settings;
use super::hide_memory;
use super::launch::Launcher;
use super::log::Logs;
use super::log::Stream;
use super::opening;
use super::opening::CodecastFiles;
use super::opening::ZeroclawFace;
use super::sockets::Occupant;
use super::sockets::occupant;
use crate::codecast::PortFile;
use crate::config::Settings;
use crate::config::agents::Defaults;
use crate::error::CommandError;
use crate::paths::HouseDir;
use crate::zeroclaw::endpoint::Endpoint;
use crate::zeroclaw::endpoint::EndpointError;

/// How long processes have to end by themselves at `hostel down`.
const GRACE: Duration = Duration::from_secs(3);

/// Runs the daemon here. `launcher` hears when it is up; without one, `announce` is called with the addresses.
pub(crate) fn run(
    dir: HouseDir,
    settings: Settings,
    launcher: Option<Launcher>,
    announce: impl FnOnce(&[DoorAddress]),
) -> Result<ExitCode, CommandError> {
    hide_memory();
    let runtime =
        super::runtime().map_err(|error| CommandError::failure(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        let foreground = launcher.is_none();
        match open(dir, settings, foreground).await {
            Ok((house, opening)) => {
                let shown = opening.addresses.clone();
                let ready = || match launcher {
                    Some(launcher) => launcher.ready(),
                    None => announce(&shown),
                };
                house.serve(opening, ready, std::future::pending()).await
            }
            Err(error) => {
                if let Some(launcher) = launcher {
                    launcher.failed(&error.to_string());
                }
                Err(error)
            }
        }
    });
    // A login shell that is still being asked must not hold us up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn open(dir: HouseDir, settings: Settings, foreground: bool) -> Result<(House, Opening), CommandError> {
    dir.create()?;
    let stream = foreground.then_some(Stream::Error);
    let logs = Logs::open(&dir, settings.limits.log, Level::Info, stream)
        .map_err(|error| CommandError::failure(format!("cannot open the log: {error}")))?;
    logs.log.info(format_args!(
        "[hostel] version {} starts as process {} in {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        dir.root().display()
    ));
    let house = House::open(dir, settings, logs, Rival::Respect, Defaults::Found).await?;
    let face = ZeroclawFace { remote: house.settings.zeroclaw.enabled, ..ZeroclawFace::of_house(&house) };
    let zeroclaw = opening::zeroclaw_door(&house, face)?;
    let mut doors = Doors { house: &house, doors: Vec::new(), addresses: vec![opening::native_address(&house)] };
    doors.open_claustrum()?;
    doors.open_zeroclaw(&zeroclaw).await?;
    let sudo_proxy = doors.open_sudo_proxy().await?;
    doors.open_mcp(sudo_proxy).await?;
    let port_file = doors.open_codecast().await?;
    let Doors { doors, addresses, .. } = doors;
    for door in &addresses {
        let state = if door.open { "open" } else { "not open" };
        let note = door.note.as_deref().unwrap_or("");
        house.log.info(format_args!("[hostel] door {} on {}: {state} {note}", door.name, door.address));
    }
    let policy = Policy { keep_on_signal: true, doors_may_end: false, grace: GRACE };
    Ok((house, Opening { doors, addresses, port_file, zeroclaw, policy }))
}

/// The doors of a house as they are opened, and what became of each address the settings ask for.
struct Doors<'a> {
    house: &'a House,
    doors: Vec<Door>,
    addresses: Vec<DoorAddress>,
}

impl Doors<'_> {
    fn say(&mut self, name: &str, address: &str, open: bool, note: Option<String>) {
        self.addresses.push(DoorAddress { name: name.to_owned(), address: address.to_owned(), open, note });
    }

    fn open_claustrum(&mut self) -> Result<(), CommandError> {
        let settings = &self.house.settings.claustrum;
        if !settings.enabled {
            return Ok(());
        }
        let token_file = self.house.dir.token_file();
        let token = opening::token(&token_file)?;
        let token_note = format!("token in {}", token_file.display());
        let counters = Arc::default();
        let house = self.house;
        let open = |path: &Path| -> Result<Door, CommandError> {
            let settings = door_settings(house, &token, &counters);
            Ok(Door::Claustrum(ClaustrumDoor { bound: bind(path)?, settings }))
        };
        let own = house.dir.claustrum_socket();
        self.doors.push(open(&own)?);
        self.say(claustrum::NAME, &own.display().to_string(), true, Some(token_note.clone()));
        for path in &settings.listen {
            let opened = opening::endpoint_directory(path).and_then(|()| match occupant(path) {
                Occupant::Listening => Err("taken: somebody listens there".to_owned()),
                Occupant::Other => Err("taken: not a socket of ours".to_owned()),
                Occupant::Nobody | Occupant::Stale => open(path).map_err(|error| error.to_string()),
            });
            let note = match &opened {
                Ok(_) => token_note.clone(),
                Err(note) => note.clone(),
            };
            self.say(claustrum::NAME, &path.display().to_string(), opened.is_ok(), Some(note));
            self.doors.extend(opened);
        }
        Ok(())
    }

    async fn open_zeroclaw(&mut self, door: &zeroclaw::Door) -> Result<(), CommandError> {
        let settings = &self.house.settings.zeroclaw;
        if !settings.enabled {
            return Ok(());
        }
        let own = self.house.dir.zeroclaw_socket();
        self.doors.push(Door::Zeroclaw(ZeroclawDoor { bound: bind(&own)?, door: door.clone(), endpoint: None }));
        let bound = bind(&self.house.dir.agents().join(own.file_name().unwrap_or_default()))?;
        self.doors.push(Door::Zeroclaw(ZeroclawDoor { bound, door: door.clone(), endpoint: None }));
        self.say(zeroclaw::NAME, &own.display().to_string(), true, None);
        for path in &settings.listen {
            let opened = opening::endpoint_directory(path).and_then(|()| {
                let endpoint = Endpoint::take(path).map_err(|error| taken_note(&error))?;
                let bound = bind(path).map_err(|error| error.to_string())?;
                Ok(Door::Zeroclaw(ZeroclawDoor { bound, door: door.clone(), endpoint: Some(endpoint) }))
            });
            self.say(zeroclaw::NAME, &path.display().to_string(), opened.is_ok(), opened.as_ref().err().cloned());
            self.doors.extend(opened);
        }
        if let Some((opened, told)) = opening::open_wss(self.house, door).await {
            self.doors.extend(opened);
            self.addresses.push(told);
        }
        Ok(())
    }

    /// Opens the sudo-proxy door on our own socket, and where it is asked for if nobody is there.
    async fn open_sudo_proxy(&mut self) -> Result<Option<sudo_proxy::Door>, CommandError> {
        let settings = &self.house.settings.sudo_proxy;
        if !settings.enabled {
            return Ok(None);
        }
        let door = consent::sudo_proxy_door(self.house, SudoProxyFace::of_house(self.house)).await?;
        let own = self.house.dir.sudo_proxy_socket();
        self.doors.push(Door::SudoProxy(SudoProxyDoor { bound: bind(&own)?, door: door.clone() }));
        let bound = bind(&self.house.dir.agents().join(own.file_name().unwrap_or_default()))?;
        self.doors.push(Door::SudoProxy(SudoProxyDoor { bound, door: door.clone() }));
        self.say(sudo_proxy::NAME, &own.display().to_string(), true, None);
        for path in &settings.listen {
            let opened = opening::endpoint_directory(path).and_then(|()| match occupant(path) {
                Occupant::Listening => Err("taken: somebody listens there".to_owned()),
                Occupant::Other => Err("taken: not a socket of ours".to_owned()),
                Occupant::Nobody | Occupant::Stale => {
                    let bound = bind(path).map_err(|error| error.to_string())?;
                    Ok(Door::SudoProxy(SudoProxyDoor { bound, door: door.clone() }))
                }
            });
            self.say(sudo_proxy::NAME, &path.display().to_string(), opened.is_ok(), opened.as_ref().err().cloned());
            self.doors.extend(opened);
        }
        Ok(Some(door))
    }

    /// Opens the MCP door where it is asked for. Its port is told in a file; an address that is taken is said to be so.
    async fn open_mcp(&mut self, sudo_proxy: Option<sudo_proxy::Door>) -> Result<(), CommandError> {
        let settings = &self.house.settings.mcp;
        if !settings.enabled {
            return Ok(());
        }
        let token_file = self.house.dir.token_file();
        let token = opening::token(&token_file)?;
        let listener = match TcpListener::bind(settings.listen).await {
            Ok(listener) => listener,
            Err(error) => {
                self.say(mcp::NAME, &settings.listen.to_string(), false, Some(opening::bind_note(&error)));
                return Ok(());
            }
        };
        let failed = |error: std::io::Error| CommandError::failure(format!("cannot open the MCP door: {error}"));
        let address = listener.local_addr().map_err(failed)?;
        let port_file = PortFile::write(&self.house.dir.mcp_port_file(), address.port()).map_err(failed)?;
        let settings = mcp::HttpSettings {
            token: Secret::new(token.to_vec()),
            limits: mcp::HttpLimits::default(),
            log: self.house.log.clone(),
        };
        self.doors.push(Door::Mcp(McpDoor { listener, settings, sudo_proxy, port_file }));
        self.say(mcp::NAME, &format!("http://{address}/mcp"), true, Some(format!("token in {}", token_file.display())));
        Ok(())
    }

    /// Opens the codecast door where it is asked for, and on a port of the system's choice if this machine could not
    /// reach it otherwise. The port is told in a file.
    async fn open_codecast(&mut self) -> Result<Option<PortFile>, CommandError> {
        let settings = &self.house.settings.codecast;
        if !settings.enabled {
            return Ok(None);
        }
        let files = CodecastFiles::new(&opening::user_home().join(".codecast"), settings);
        // The contract's clients cannot answer questions, so its default asks none: that is not to be overlooked.
        let modes = format!("sessions start in mode {}", settings.mode.name());
        let mut own_port = None;
        for address in &settings.listen {
            let opened = match TcpListener::bind(address).await {
                Ok(listener) => self.codecast_on(listener, &files, &mut own_port),
                Err(error) => Err(opening::bind_note(&error)),
            };
            self.say(
                codecast::NAME,
                &address.to_string(),
                opened.is_ok(),
                Some(opened.err().unwrap_or_else(|| modes.clone())),
            );
        }
        if own_port.is_none() {
            let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
            let failed = |error: std::io::Error| CommandError::failure(format!("cannot listen on {any}: {error}"));
            let listener = TcpListener::bind(any).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?.to_string();
            let opened = self.codecast_on(listener, &files, &mut own_port);
            let note = format!("port in {}, {modes}", self.house.dir.port_file().display());
            self.say(codecast::NAME, &address, opened.is_ok(), Some(opened.err().unwrap_or(note)));
        }
        let Some(port) = own_port else { return Ok(None) };
        let file = self.house.dir.port_file();
        let written = PortFile::write(&file, port);
        written.map(Some).map_err(|error| CommandError::failure(format!("cannot write `{}`: {error}", file.display())))
    }

    fn codecast_on(
        &mut self,
        listener: TcpListener,
        files: &CodecastFiles,
        own_port: &mut Option<u16>,
    ) -> Result<(), String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        self.doors.push(opening::codecast_door(self.house, listener, files).map_err(|error| error.to_string())?);
        if address.ip().is_loopback() {
            own_port.get_or_insert(address.port());
        }
        Ok(())
    }
}

/// Why an endpoint could not be had, for people.
fn taken_note(error: &EndpointError) -> String {
    match error {
        EndpointError::Held(_) | EndpointError::Listening(_) => "taken: somebody listens there".to_owned(),
        EndpointError::NotASocket(_) => "taken: not a socket of ours".to_owned(),
        EndpointError::Untrusted { .. } | EndpointError::System { .. } => error.to_string(),
    }
}
