//! What the tools need of the program around them: known hosts, and starting a daemon.
//!
//! Invariant: a host's text was checked by [`Desk::check`] before it is used for anything.

use std::collections::BTreeMap;
use std::io;

use super::Later;

/// One host of the registry. An empty text means that it is not known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostInfo {
    /// What it is, for people.
    pub description: String,
    /// Its operating system.
    pub os: String,
    /// When its daemon last answered.
    pub last_connected: String,
    /// The daemon's version then.
    pub version: String,
}

/// How a daemon was started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Launched {
    /// A terminal was opened; the daemon starts in it.
    Terminal,
    /// The house was started in the background.
    House,
}

/// What a person was asked about a machine that is about to be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FirstContact {
    /// It was reached before, or a person has agreed.
    Agreed,
    /// Nobody was asked: the terminal that is opened asks first.
    AskInTerminal,
}

/// Why a daemon could not be started.
#[derive(Debug)]
pub enum LaunchError {
    /// There is no terminal emulator; the text names those that were looked for.
    NoTerminal(String),
    /// It could not be run.
    Spawn(io::Error),
    /// Anything else, in words.
    Other(String),
}

/// The registry of hosts and the starting of daemons.
pub trait Desk: Send + Sync + 'static {
    /// Whether a text can name a host; why not, otherwise.
    ///
    /// # Errors
    /// The reason.
    fn check(&self, host: &str) -> Result<(), String>;

    /// Whether a host is this machine.
    fn is_here(&self, host: &str) -> bool;

    /// Every known host.
    fn known(&self) -> BTreeMap<String, HostInfo>;

    /// The registry as JSON for people.
    fn registry(&self) -> String;

    /// Notes what a host is.
    ///
    /// # Errors
    /// When the registry cannot be written.
    fn update(&self, host: &str, description: Option<&str>, os: Option<&str>) -> io::Result<()>;

    /// A daemon has answered.
    fn seen(&self, host: &str, version: &str);

    /// Whether the daemon's program is there.
    fn has_program(&self) -> bool;

    /// Starts a daemon, `None` being this machine. The ssh agent is never lent.
    fn launch<'a>(&'a self, host: Option<&'a str>, first: FirstContact) -> Later<'a, Result<Launched, LaunchError>>;
}

/// The text of a host's metadata as lists show it, with what comes before the description.
pub(super) fn suffix(info: &HostInfo, lead: &str, version: bool) -> String {
    let mut text = String::new();
    if !info.description.is_empty() {
        text.push_str(lead);
        text.push_str(&info.description);
    }
    if !info.os.is_empty() {
        text.push_str(&format!(" ({})", info.os));
    }
    if version && !info.version.is_empty() {
        text.push_str(&format!(" [sudo-proxy {}]", info.version));
    }
    if !info.last_connected.is_empty() {
        text.push_str(&format!(" [last: {}]", info.last_connected));
    }
    text
}
