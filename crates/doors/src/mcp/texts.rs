//! Every sentence of the sudo-proxy contract that a client may match. They are wire text: not to be reworded.

use std::path::Path;

pub(super) const LOCAL_UNPRIVILEGED: &str = "Refusing to run an unprivileged command on the local machine. Use your Bash tool instead — it applies the same controls without a second gate. sudo-proxy is for privilege escalation (privileged: true) and for commands on remote hosts.";
pub(super) const NO_COMMAND: &str = "Either `argv` or `pipeline` must be provided.";
pub(super) const AGENT_AND_ROOT: &str = "forward_agent is only allowed with privileged: false";
pub(super) const DENIED: &str = "Request denied by user.";
pub(super) const TIMED_OUT: &str = "Request timed out waiting for user approval.";

pub(super) fn invalid_host(reason: &str) -> String {
    format!("invalid host: {reason}")
}

pub(super) fn not_running(socket: &Path) -> String {
    format!("sudo-proxy is not running (socket not found at {}). Call start_server first.", socket.display())
}

pub(super) fn daemon_error(daemon: &str, client: &str, version: &str, message: &str) -> String {
    format!("Error from sudo-proxy {daemon} (client {client} {version}): {message}")
}

pub(super) fn connect_slow(seconds: u64, socket: &str) -> String {
    format!("connect timed out after {seconds}s — tunnel to {socket} may be dead, try restarting the server")
}

pub(super) fn write_slow(seconds: u64, socket: &str) -> String {
    format!("write timed out after {seconds}s — server at {socket} may be unresponsive")
}

pub(super) fn read_slow(seconds: u64) -> String {
    format!(
        "server did not respond within {seconds}s — it may be busy with another command or waiting for user approval"
    )
}

pub(super) fn closed(retries: u32) -> String {
    format!("server closed connection without response (after {retries} retries)")
}

pub(super) fn unreadable(daemon: &str, client: &str, version: &str, error: &str) -> String {
    format!("parse response from sudo-proxy {daemon} (client {client} {version}): {error}")
}

pub(super) fn already_running(socket: &Path) -> String {
    format!("sudo-proxy is already running at {}", socket.display())
}

pub(super) fn started(socket: &Path) -> String {
    format!("sudo-proxy started in terminal at {}", socket.display())
}

pub(super) fn not_started(socket: &Path) -> String {
    format!("Terminal opened but socket not ready after 5s at {}", socket.display())
}

pub(super) fn tunnel_active(host: &str, socket: &Path) -> String {
    format!("SSH tunnel to {host} is already active at {}", socket.display())
}

pub(super) fn tunnel_ready(host: &str, socket: &Path) -> String {
    format!("SSH tunnel to {host} established at {}", socket.display())
}

pub(super) fn tunnel_slow(host: &str) -> String {
    format!("Terminal opened for SSH to {host} but tunnel socket not ready after 30s")
}

pub(super) fn stop_nothing(host: &str, socket: &Path) -> String {
    format!("sudo-proxy is not running on {host} (no socket at {})", socket.display())
}

pub(super) fn stopped(host: &str) -> String {
    format!("Stopped sudo-proxy on {host}.")
}

pub(super) fn stop_too_old(host: &str, version: &str) -> String {
    format!(
        "{host} runs sudo-proxy {version}, which predates remote stop. Press q or Ctrl+C in that daemon's terminal window to stop it."
    )
}

pub(super) fn updated(host: &str) -> String {
    format!("Updated host {host}")
}

pub(super) fn unknown_resource(uri: &str) -> String {
    format!("Unknown resource: {uri}")
}
