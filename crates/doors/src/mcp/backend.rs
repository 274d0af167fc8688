//! How the tools reach the house: connections to its doors, and nothing else.
//!
//! Invariant: what is opened here is a stream to a door like any client's. Dropping it is leaving.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use tokio::net::UnixStream;

use super::Caller;
use crate::native::client::Client;
use crate::native::client::ClientError;

/// Something that is not there yet.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens streams to doors.
pub trait Backend: Send + Sync + 'static {
    /// The socket of the sudo-proxy door of a host, `None` being this machine. No path: it is in this process and
    /// always there.
    fn door(&self, host: Option<&str>) -> Option<PathBuf>;

    /// Whether there is such a door. A house that may be started is.
    fn present<'a>(&'a self, host: Option<&'a str>) -> Later<'a, bool> {
        Box::pin(async move {
            match self.door(host) {
                Some(socket) => tokio::fs::try_exists(socket).await.unwrap_or(false),
                None => true,
            }
        })
    }

    /// A connection to that door.
    fn dial<'a>(&'a self, host: Option<&'a str>, caller: &'a Caller) -> Later<'a, io::Result<UnixStream>>;

    /// Why a caller may not use a tool, because it is a process inside the house; none where it may.
    fn refuses<'a>(&'a self, caller: &'a Caller, tool: &'a str) -> Later<'a, Option<String>>;

    /// Why this server starts no ssh for a caller: it would run outside the guard that the caller has.
    fn refuses_ssh<'a>(&'a self, _caller: &'a Caller, _host: &'a str) -> Later<'a, Option<String>> {
        Box::pin(async { None })
    }

    /// Whether a caller is a process inside the house, which could have written the files of this user.
    fn is_inside<'a>(&'a self, caller: &'a Caller) -> Later<'a, bool>;

    /// A connection to the house's own door.
    fn house<'a>(&'a self, caller: &'a Caller) -> Later<'a, Result<Client, ClientError>>;
}
