//! The doors of a house, and of other machines, through their sockets.
//!
//! Invariant: the house is started at most once at a time, and only where that was allowed. A socket whose path is too
//! long for an address is reached all the same.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hostel_doors::mcp::Backend;
use hostel_doors::mcp::Caller;
use hostel_doors::mcp::Later;
use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_house::insiders::Door;
use hostel_house::insiders::Refusal;
use hostel_house::insiders::Rule;
use hostel_house::insiders::table;
use hostel_peer::Peer;
use hostel_peer::Standing;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::daemon::launch;
use crate::houses::House;
use crate::sudo_proxy::hosts;

/// How long a house may take to start.
const START: Duration = Duration::from_secs(60);

/// The shortest time after a failure to start it until that is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Times a house that goes away as soon as it is started is started for one connection.
const ATTEMPTS: usize = 3;

/// Starts a house that is not up.
#[derive(Debug)]
pub(super) struct Starter {
    house: House,
    /// The last failure, and when that was.
    failed: Mutex<Option<(Instant, String)>>,
}

impl Starter {
    pub(super) fn new(house: House) -> Arc<Self> {
        Arc::new(Starter { house, failed: Mutex::default() })
    }

    /// Starts it unless it is up; who comes meanwhile waits and gets the same answer.
    pub(super) async fn start(&self) -> Result<(), String> {
        let mut failed = self.failed.lock().await;
        if let Some((when, reason)) = &*failed
            && when.elapsed() < AGAIN
        {
            return Err(reason.clone());
        }
        let outcome = match self.house.connect().await {
            Ok(_) => Ok(()),
            Err(_) => up(self.house.dir.root()).await,
        };
        *failed = outcome.clone().err().map(|reason| (Instant::now(), reason));
        outcome
    }
}

/// Runs `hostel up`.
pub(crate) async fn up(home: &Path) -> Result<(), String> {
    let words: Vec<OsString> = vec!["--home".into(), home.as_os_str().to_owned(), "up".into()];
    let mut command = tokio::process::Command::from(launch::own_program("hostel".as_ref(), &words));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let failed = |reason: &str| format!("the house could not be started: {}", reason.trim());
    let ended = match tokio::time::timeout(START, command.output()).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Err(failed(&error.to_string())),
        Err(_) => return Err(failed("`hostel up` took too long")),
    };
    match ended.status.success() {
        true => Ok(()),
        false => Err(failed(&String::from_utf8_lossy(&ended.stderr))),
    }
}

/// The streams.
#[derive(Debug)]
pub(super) struct Sockets {
    /// The sudo-proxy door of this machine.
    local: PathBuf,
    house: Option<House>,
    starter: Option<Arc<Starter>>,
}

impl Sockets {
    /// Those of a house, which is started where there is a starter.
    pub(super) fn of_house(house: House, starter: Option<Arc<Starter>>) -> Self {
        Sockets { local: house.dir.sudo_proxy_socket(), house: Some(house), starter }
    }

    /// Those of the sudo-proxy contract.
    pub(super) fn of_contract() -> Self {
        Sockets { local: hosts::default_socket(), house: None, starter: None }
    }

    fn path(&self, host: Option<&str>) -> PathBuf {
        host.map_or_else(|| self.local.clone(), hosts::tunnel_socket)
    }

    /// Starts the house, if that may be and could help.
    async fn wake(&self) -> bool {
        match &self.starter {
            Some(starter) => starter.start().await.is_ok(),
            None => false,
        }
    }
}

/// Whether this program is a process inside a house.
async fn runs_inside() -> bool {
    match hostel_tasks::spawn_blocking(|| Peer::of_process(std::process::id())).await {
        Ok(own) => matches!(own.standing().await, Standing::Insider),
        Err(_) => false,
    }
}

impl Backend for Sockets {
    fn door(&self, host: Option<&str>) -> Option<PathBuf> {
        Some(self.path(host))
    }

    fn present<'a>(&'a self, host: Option<&'a str>) -> Later<'a, bool> {
        Box::pin(async move {
            let path = self.path(host);
            let exists = || async { tokio::fs::try_exists(&path).await.unwrap_or(false) };
            exists().await || (host.is_none() && self.wake().await && exists().await)
        })
    }

    fn dial<'a>(&'a self, host: Option<&'a str>, _: &'a Caller) -> Later<'a, io::Result<UnixStream>> {
        Box::pin(async move {
            let path = self.path(host);
            let mut left = if host.is_none() { ATTEMPTS } else { 0 };
            loop {
                match connect(&path).await {
                    Err(error) if left > 0 && is_down(&error) && self.wake().await => left -= 1,
                    outcome => return outcome,
                }
            }
        })
    }

    /// The doors behind refuse by themselves; what we do ourselves is refused here, so that the agent is told why.
    fn refuses<'a>(&'a self, _: &'a Caller, tool: &'a str) -> Later<'a, Option<String>> {
        Box::pin(async move {
            let rule = table::rule(Door::Mcp, tool);
            let Rule::Denied(_) = rule else { return None };
            match runs_inside().await {
                true => Refusal::of(tool, rule).map(|refusal| refusal.text().to_owned()),
                false => None,
            }
        })
    }

    fn is_inside<'a>(&'a self, _: &'a Caller) -> Later<'a, bool> {
        Box::pin(runs_inside())
    }

    fn house<'a>(&'a self, _: &'a Caller) -> Later<'a, Result<Client, ClientError>> {
        Box::pin(async move {
            let Some(house) = &self.house else {
                return Err(ClientError::Protocol("there is no house behind this server".to_owned()));
            };
            let mut left = ATTEMPTS;
            loop {
                match house.connect().await {
                    Err(ClientError::Connect { source, path }) if left > 0 && is_down(&source) => {
                        left -= 1;
                        if !self.wake().await {
                            return Err(ClientError::Connect { source, path });
                        }
                    }
                    outcome => return outcome,
                }
            }
        })
    }
}

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let dial = hostel_keeper::socket_path::shorten(path)?;
    UnixStream::connect(dial.as_ref() as &Path).await
}

/// Whether nobody listens, or somebody who was killed before they took the connection.
fn is_down(error: &io::Error) -> bool {
    let down = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset];
    down.contains(&error.kind())
}
