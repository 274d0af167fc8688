//! Where a mesh daemon listens: its socket, and loopback HTTP unless that is switched off.
//!
//! Invariant: only the holder of the mesh's lock is here, so a socket that is found is stale and may go. HTTP beyond
//! loopback needs a token of its own, which somebody has to have asked for.
//!
//! The socket has a second name in a directory that holds nothing else. Guarded agents see that directory in place of the
//! daemons' one.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_doors::claudemesh::Listeners;
use hostel_doors::claustrum::Secret;
use hostel_mesh::home::MeshDir;
use hostel_mesh::home::PidLock;
use tokio::net::TcpListener;

use super::settle::Settled;
use crate::broker::place::replace;
use crate::daemon;
use crate::daemon::sockets::Bound;
use crate::daemon::sockets::SocketFile;
use crate::mesh::Desk;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;

/// The least a token for others must have.
const SHORTEST_TOKEN: usize = 16;

/// Bound, and not served yet.
pub(super) struct Listening {
    socket: Bound,
    /// The socket's name in the directory for guarded agents.
    for_agents: Option<SocketFile>,
    tcp: Option<TcpListener>,
    address: Option<SocketAddr>,
    /// The token of a listener that others reach.
    external: Option<Arc<Secret>>,
    port_file: Option<PathBuf>,
}

impl Listening {
    pub(super) async fn bind(desk: &Desk<'_>, settled: &Settled, arguments: &Up) -> Result<Self, Failure> {
        let path = match &settled.runtime {
            Some(runtime) => runtime.join("sock"),
            None => desk.host.dir(&settled.membership.slug).sock(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::daemon(1, "cannot_listen", format!("cannot listen on `{}`: {error}", path.display()))
        };
        let socket = daemon::bind(&path).map_err(|error| failed(&error))?;
        let mode = settled.settings.ipc.uds_mode;
        if mode != 0o600 {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, permissions).map_err(|error| failed(&error))?;
        }
        let mut listening =
            Listening { socket, for_agents: None, tcp: None, address: None, external: None, port_file: None };
        if let Some(dir) = &settled.dir {
            match show_to_agents(desk, &settled.membership.slug, &listening.socket) {
                Ok(file) => listening.for_agents = Some(file),
                Err(error) => desk.ui.note(&format!("guarded agents will not reach this daemon: {error}")),
            }
            // A port of an earlier start would lead clients to somebody else.
            std::fs::remove_file(dir.http_port()).ok();
            if wants_tcp(settled, dir, arguments) {
                listening.bind_tcp(settled, dir).await?;
            }
        }
        Ok(listening)
    }

    async fn bind_tcp(&mut self, settled: &Settled, dir: &MeshDir) -> Result<(), Failure> {
        let ipc = &settled.settings.ipc;
        let address = SocketAddr::new(ipc.http_bind, ipc.http_port);
        if !ipc.http_bind.is_loopback() {
            self.external = Some(external_token(ipc.http_external_auth.as_deref(), address)?);
        }
        let failed = |error: std::io::Error| {
            Failure::daemon(1, "cannot_listen", format!("cannot listen on {address}: {error}"))
                .hint("choose another port in config.toml (`[ipc] http_port`), or go without with `--no-tcp`")
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        replace(&dir.http_port(), format!("{}\n", bound.port()).as_bytes(), 0o644).map_err(failed)?;
        self.port_file = Some(dir.http_port());
        self.address = Some(bound);
        self.tcp = Some(listener);
        Ok(())
    }

    pub(super) fn socket(&self) -> &Path {
        self.socket.path()
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.address.map(|address| address.port())
    }

    pub(super) fn external(&self) -> Option<Arc<Secret>> {
        self.external.clone()
    }

    /// The listeners, for the door.
    pub(super) fn take(&mut self) -> Result<Listeners, Failure> {
        let socket = self.socket.listener();
        let socket =
            socket.map_err(|error| Failure::daemon(1, "cannot_listen", format!("cannot serve the socket: {error}")))?;
        Ok(Listeners { socket, tcp: self.tcp.take() })
    }

    /// Makes the link that older clients look for.
    pub(super) fn link(&self, desk: &Desk<'_>) {
        link_shared(desk, None);
    }

    /// Takes everything away by which we are found.
    pub(super) fn unlink(&mut self, desk: &Desk<'_>) {
        self.socket.close();
        self.socket.file().unlink();
        if let Some(file) = self.for_agents.take() {
            file.unlink();
        }
        if let Some(file) = self.port_file.take() {
            std::fs::remove_file(file).ok();
        }
        link_shared(desk, Some(self.socket.path()));
    }
}

/// Gives the socket a name in the directory that guarded agents see. The directory stays when the daemon ends, so agents
/// that run on find the next one in it.
fn show_to_agents(desk: &Desk<'_>, slug: &str, socket: &Bound) -> io::Result<SocketFile> {
    let directory = desk.host.places().agents(slug);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    socket.file().link_to(&directory.join("sock"))
}

/// `daemon/daemon.sock` leads to the only daemon that runs; with none or several there is no such link.
fn link_shared(desk: &Desk<'_>, leaving: Option<&Path>) {
    let link = desk.host.places().shared_socket();
    let slugs = desk.host.slugs().unwrap_or_default();
    let running: Vec<&String> = slugs
        .iter()
        .filter(|slug| {
            let dir = desk.host.dir(slug);
            leaving != Some(dir.sock().as_path()) && PidLock::holder(&dir.pid()).is_some() && dir.sock().exists()
        })
        .collect();
    // Whatever else somebody put there is theirs.
    let ours = link.symlink_metadata().map_or(true, |metadata| metadata.is_symlink());
    match running.as_slice() {
        [only] if ours => {
            let draft = link.with_extension(format!("sock.{}", std::process::id()));
            let target = PathBuf::from(only.as_str()).join("sock");
            std::fs::remove_file(&draft).ok();
            let made = std::os::unix::fs::symlink(target, &draft).and_then(|()| std::fs::rename(&draft, &link));
            if made.is_err() {
                std::fs::remove_file(&draft).ok();
            }
        }
        _ if ours => drop(std::fs::remove_file(&link)),
        _ => {}
    }
}

/// Whether loopback HTTP is opened: not where it was switched off, and in a container or a build job only where the
/// configuration asks for it in so many words.
fn wants_tcp(settled: &Settled, dir: &MeshDir, arguments: &Up) -> bool {
    if arguments.no_tcp || !settled.settings.ipc.tcp_enabled {
        return false;
    }
    let confined = arguments.container || settled.surroundings.container.is_some() || settled.surroundings.ci.is_some();
    !confined || says_tcp(&std::fs::read_to_string(dir.config()).unwrap_or_default())
}

/// Whether a configuration says `tcp_enabled = true` itself.
fn says_tcp(text: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    table.get("ipc").and_then(|ipc| ipc.get("tcp_enabled")).and_then(toml::Value::as_bool) == Some(true)
}

/// The token of a listener that other machines reach.
fn external_token(file: Option<&Path>, address: SocketAddr) -> Result<Arc<Secret>, Failure> {
    let Some(file) = file else {
        return Err(Failure::daemon(
            1,
            "external_auth",
            format!("{address} is beyond this machine and has no token of its own"),
        )
        .hint("name a token file in config.toml (`[ipc] http_external_auth`), or bind loopback"));
    };
    let text = std::fs::read(file)
        .map_err(|error| Failure::daemon(1, "external_auth", format!("cannot read `{}`: {error}", file.display())))?;
    let token = text.trim_ascii();
    if token.len() < SHORTEST_TOKEN {
        return Err(Failure::daemon(1, "external_auth", format!("the token in `{}` is too short", file.display()))
            .hint(format!("it needs at least {SHORTEST_TOKEN} characters")));
    }
    Ok(Arc::new(Secret::new(token.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_to_say_so_itself() {
        assert!(says_tcp("[ipc]\ntcp_enabled = true\n"));
        for text in ["", "# [ipc]\n# tcp_enabled = true\n", "[ipc]\ntcp_enabled = false\n", "not toml ["] {
            assert!(!says_tcp(text), "{text}");
        }
    }
}
