//! Which of the two programs a server is: ours, or the one of the sudo-proxy contract.

use std::time::Duration;

/// How a server presents itself and what it offers.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name in `serverInfo`.
    pub name: &'static str,
    /// What it calls itself towards daemons and in error texts.
    pub client: &'static str,
    /// Its version.
    pub version: String,
    /// The session it names to a daemon; none: the name of the MCP client.
    pub session: Option<&'static str>,
    /// Only what the sudo-proxy contract has: five tools, two protocol versions, empty capabilities.
    pub contract: bool,
    /// For how long a request is sent again when its daemon went away without an answer.
    pub rejoin: Duration,
    /// Hears what the server does, for who looks for a fault.
    pub trace: Option<fn(&str)>,
}

impl Profile {
    /// The server of `hostel mcp` and of `/mcp`.
    #[must_use]
    pub fn hostel(version: impl Into<String>) -> Self {
        Profile {
            name: "hostel",
            client: "hostel-mcp",
            version: version.into(),
            session: None,
            contract: false,
            rejoin: Duration::from_secs(10),
            trace: None,
        }
    }

    /// The server of the sudo-proxy contract.
    #[must_use]
    pub fn sudo_proxy(version: impl Into<String>) -> Self {
        Profile {
            name: "sudo-proxy",
            client: "sudo-proxy-mcp",
            version: version.into(),
            session: Some("sudo-proxy-mcp"),
            contract: true,
            rejoin: Duration::from_secs(2),
            trace: None,
        }
    }

    /// Says something to who looks for a fault; made only if somebody does.
    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = self.trace {
            trace(&text());
        }
    }
}
