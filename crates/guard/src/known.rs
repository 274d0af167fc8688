//! Control sockets of other programs that can start processes outside the guard or take orders from whoever reaches them.
//!
//! Each has a name under which a setting grants it. Sockets that nobody lists here are reachable unless `guard.hide` names
//! their directory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The names that a grant may use besides absolute paths.
pub struct Names;

/// One thing that is hidden unless it is granted.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// Directories that vanish as a whole.
    pub(crate) directories: Vec<PathBuf>,
    /// Sockets in directories that others need: these are rebuilt without the socket.
    pub(crate) sockets: Vec<PathBuf>,
    /// Sockets and directories in the runtime directory, which is empty unless something in it is granted.
    pub(crate) in_runtime: &'static [&'static str],
    /// Variables by which programs find it.
    pub(crate) variables: &'static [&'static str],
}

impl Names {
    /// User namespaces inside the guard: nothing that is hidden, but a way to move what is.
    pub(crate) const USER_NAMESPACES: &'static str = "user-namespaces";

    /// All of them, in alphabetical order.
    pub const ALL: [&'static str; 12] = [
        "containerd",
        "docker",
        "gpg-agent",
        "libvirt",
        "lxd",
        "podman",
        "screen",
        "session-bus",
        "ssh-agent",
        "tmux",
        Names::USER_NAMESPACES,
        "x11",
    ];
}

/// Whether a text can be granted: a known name, or an absolute path.
#[must_use]
pub fn is_grant(text: &str) -> bool {
    Names::ALL.contains(&text) || text.starts_with('/')
}

/// The environment of the process that is to be started, as far as it matters here.
pub(crate) struct Surroundings<'a> {
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) uid: u32,
}

impl Surroundings<'_> {
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The user's directory for sockets.
    pub(crate) fn runtime_directory(&self) -> PathBuf {
        self.path("XDG_RUNTIME_DIR").unwrap_or_else(|| Path::new("/run/user").join(self.uid.to_string()))
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }
}

/// Everything that is hidden unless it is granted.
pub(crate) fn all(around: &Surroundings<'_>) -> Vec<Known> {
    let uid = around.uid;
    let under = |directory: &str, name: String| Path::new(directory).join(name);
    let home = around.home();
    let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let plain = |name, directories: &[&str], in_runtime, variables| Known {
        name,
        directories: directories.iter().map(PathBuf::from).collect(),
        sockets: Vec::new(),
        in_runtime,
        variables,
    };
    let mut tmux = plain("tmux", &[], &[], &["TMUX", "TMUX_PANE"]);
    tmux.directories = vec![under("/tmp", format!("tmux-{uid}")), under("/tmp", format!("zellij-{uid}"))];
    tmux.directories.extend(around.path("TMUX_TMPDIR").map(|directory| directory.join(format!("tmux-{uid}"))));
    // `TMUX` is `SOCKET,PID,SESSION`.
    let socket = around.variable("TMUX").and_then(OsStr::to_str).and_then(|value| value.split(',').next());
    tmux.directories.extend(socket.and_then(|socket| own_parent(Path::new(socket))));
    let mut ssh = plain(
        "ssh-agent",
        &[],
        &["openssh_agent", "ssh-agent.socket", "keyring", "gcr"],
        &["SSH_AUTH_SOCK", "SSH_AGENT_PID"],
    );
    ssh.directories.extend(around.path("SSH_AUTH_SOCK").and_then(|socket| own_parent(&socket)));
    let mut docker = plain("docker", &[], &["docker.sock", "docker"], &["DOCKER_HOST"]);
    docker.sockets = vec![PathBuf::from("/run/docker.sock")];
    docker.directories = [in_home(".docker/run"), in_home(".docker/desktop")].into_iter().flatten().collect();
    let mut screen = plain("screen", &["/run/screen", "/tmp/screens"], &[], &["STY"]);
    screen.directories.extend(in_home(".screen"));
    let mut bus = plain("session-bus", &[], &["bus", "systemd"], &["DBUS_SESSION_BUS_ADDRESS"]);
    if uid == 0 {
        // Root's orders are taken on the system's bus as well.
        bus.directories.push(PathBuf::from("/run/dbus"));
        bus.sockets.push(PathBuf::from("/run/systemd/private"));
    }
    vec![
        plain("containerd", &["/run/containerd"], &[], &["CONTAINERD_ADDRESS"]),
        docker,
        plain("gpg-agent", &[], &["gnupg"], &["GPG_AGENT_INFO"]),
        plain("libvirt", &["/run/libvirt"], &["libvirt"], &["LIBVIRT_DEFAULT_URI"]),
        plain(
            "lxd",
            &["/run/lxd", "/run/incus", "/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd"],
            &[],
            &[],
        ),
        plain("podman", &["/run/podman"], &["podman"], &["CONTAINER_HOST"]),
        screen,
        bus,
        ssh,
        tmux,
        plain(
            "x11",
            &["/tmp/.X11-unix", "/tmp/.ICE-unix"],
            &["wayland-0", "wayland-1", ".mutter-Xwaylandauth"],
            &["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"],
        ),
    ]
}

/// The directory of a socket, if it is made for that socket alone and so can vanish: neither a place that everybody
/// uses nor a home directory.
fn own_parent(socket: &Path) -> Option<PathBuf> {
    let parent = socket.parent()?;
    let depth = parent.components().count();
    let shared = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run"].iter().any(|place| parent == Path::new(place));
    let beneath_tmp = ["/tmp", "/var/tmp"].iter().any(|place| parent.parent() == Some(Path::new(place)));
    (!shared && depth > 2 && beneath_tmp).then(|| parent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_thing_can_be_granted_by_its_name() {
        let environment = [("SSH_AUTH_SOCK", "/tmp/ssh-XX/agent.1"), ("TMUX", "/tmp/tmux-7/default,1,0")];
        let environment = environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let known = all(&Surroundings { environment: &environment, uid: 7 });
        let mut names: Vec<&str> = known.iter().map(|known| known.name).chain([Names::USER_NAMESPACES]).collect();
        names.sort_unstable();
        assert_eq!(names, Names::ALL);
        let of = |name: &str| &known.iter().find(|known| known.name == name).unwrap().directories;
        assert_eq!(of("ssh-agent"), &[PathBuf::from("/tmp/ssh-XX")]);
        assert!(of("tmux").contains(&PathBuf::from("/tmp/tmux-7")));
        assert!(of("docker").is_empty(), "there is no home directory");
        assert!(is_grant("docker") && is_grant("/run/x.sock") && !is_grant("dockr") && !is_grant("run/x"));
    }

    #[test]
    fn a_directory_that_others_use_does_not_vanish_for_one_socket() {
        let parent = |socket: &str| own_parent(Path::new(socket));
        assert_eq!(parent("/tmp/ssh-abc/agent.1"), Some(PathBuf::from("/tmp/ssh-abc")));
        for socket in ["/tmp/agent", "/home/ada/agent", "/home/ada/.ssh/agent", "/agent", "/run/agent", "agent"] {
            assert_eq!(parent(socket), None, "{socket}");
        }
    }
}
