//! A broker and the hosts of one mesh, below one temporary directory.
//!
//! The broker is a process of its own and keeps its port over restarts.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::net;
use serde_json::Value;
use tempfile::TempDir;

use super::host::{Host, MESH};
use crate::house;
use crate::process::Process;
use crate::procfs::Identity;
use crate::sandbox::{Sandbox, keep_if_failed};
use crate::wait;

/// What a lab begins with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The names of the members; the first one makes the mesh.
    pub members: Vec<String>,
    /// `config.toml` of each.
    pub config: String,
    /// `hostel.toml` of the broker.
    pub broker: String,
    /// Variables in the environment of the broker.
    pub broker_variables: Vec<(String, String)>,
}

impl Options {
    /// These members, all by default.
    pub fn of(members: &[&str]) -> Self {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        Self { members, config: String::new(), broker: String::new(), broker_variables: Vec::new() }
    }
}

/// A lab.
pub struct Lab {
    // Before the directory: what runs in it must be gone first.
    /// The hosts, by the order of their names in the options.
    pub hosts: Vec<Host>,
    broker: Process,
    broker_variables: Vec<(String, String)>,
    /// The broker's, but for its house, which tests know by its path.
    sandbox: Sandbox,
    /// Keeps the broker's port while no broker listens there.
    _reserved: OwnedFd,
    root: TempDir,
}

impl Drop for Lab {
    fn drop(&mut self) {
        keep_if_failed(&mut self.root);
    }
}

impl Lab {
    /// A lab with these members, all connected.
    pub fn start(members: &[&str]) -> Self {
        Self::start_with(&Options::of(members))
    }

    /// A lab, all connected.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(options: &Options) -> Self {
        let mut lab = Self::prepare(options);
        for host in &mut lab.hosts {
            host.start();
        }
        for host in &lab.hosts {
            host.wait_connected();
        }
        lab
    }

    /// Waits until every host has the statements of all members. A statement changes the roster once more after a daemon
    /// has connected, and a message that is under way at that moment is sent twice. Whether a host counts a member as one
    /// that signs is another matter: that begins with the host's next connection.
    ///
    /// # Panics
    /// If a host does not get them.
    pub fn wait_stated(&self) {
        for host in &self.hosts {
            let what = format!("the statements of all {} members", self.hosts.len());
            wait::content(&host.directory().join("roster.json"), &what, |text| {
                let roster: Value = serde_json::from_str(text).ok()?;
                let members = roster["members"].as_object()?;
                let count = members.values().filter(|member| member["statement"].is_object()).count();
                (count == self.hosts.len()).then_some(())
            });
        }
    }

    /// A broker, and hosts that have joined; no daemon runs.
    ///
    /// # Panics
    /// If somebody cannot join.
    pub fn prepare(options: &Options) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-mesh-").tempdir().expect("a temporary directory");
        let hosts: Vec<Host> = options.members.iter().map(|name| Host::new(name, root.path())).collect();
        hosts.iter().for_each(|host| host.configure(&with_tcp(&options.config)));
        let sandbox = Sandbox::within(root.path().join("broker-sandbox"));
        let broker = Process::new("the broker", &sandbox.join("printed"));
        let (reserved, port) = reserve_port();
        let broker_variables = options.broker_variables.clone();
        let mut lab = Self { hosts, broker, broker_variables, sandbox, _reserved: reserved, root };
        fs::create_dir_all(lab.broker_home().join("broker")).expect("a directory");
        fs::write(lab.broker_home().join("hostel.toml"), &options.broker).expect("a file");
        // A broker listens where it did the last time.
        fs::write(lab.broker_home().join("broker/port"), format!("{port}\n")).expect("a file");
        lab.start_broker();
        let url = format!("ws://127.0.0.1:{}/ws", lab.broker_port().expect("the broker runs"));
        let broker_home = lab.broker_home();
        let (first, others) = lab.hosts.split_first_mut().expect("a lab has a member");
        let mut create = first.command(&["mesh", "create", MESH, "--name", &first.name, "--broker", &url]);
        create.env("HOSTEL_HOME", &broker_home);
        let output = house::run(create);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mesh create ended with {}:\n{complaint}", output.status);
        if !others.is_empty() {
            // An invite is the owner's to make, and its daemon the one that registers it.
            first.start();
            first.wait_connected();
            let link = first.invite(others.len());
            for host in others {
                host.run(&["join", &link, "--name", &host.name]);
            }
            first.stop();
        }
        lab
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The house of the broker.
    pub fn broker_home(&self) -> PathBuf {
        self.root.path().join("broker")
    }

    /// Where the broker listens, once it has said so.
    pub fn broker_port(&self) -> Option<u16> {
        read_port(&self.broker_home().join("broker/port"))
    }

    /// The broker's process.
    pub fn broker(&self) -> Identity {
        self.broker.identity()
    }

    /// Starts the broker, again if need be, and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_broker(&mut self) {
        let home = self.broker_home();
        fs::create_dir_all(&home).expect("a directory");
        let mut command = self.sandbox.hostel(&["as", "claudemesh", "broker", "up", "--foreground"]);
        command.env("HOME", &home).env("HOSTEL_HOME", &home).current_dir(&home);
        command.envs(self.broker_variables.iter().map(|(name, value)| (name, value)));
        self.broker.start(command);
        let port_file = home.join("broker/port");
        self.broker.wait_ready(|| -> Result<(), String> {
            let port = read_port(&port_file).ok_or("its port is not told yet")?;
            TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| format!("port {port}: {error}"))
        });
    }

    /// Kills the broker with SIGKILL and waits until it is gone.
    pub fn kill_broker(&mut self) {
        self.broker.kill();
    }

    /// What the broker printed.
    pub fn broker_printed(&self) -> String {
        self.broker.printed()
    }

    /// A host by its name.
    ///
    /// # Panics
    /// If there is none.
    pub fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|host| host.name == name).unwrap_or_else(|| panic!("no host {name}"))
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// If there is none.
    pub fn host_mut(&mut self, name: &str) -> &mut Host {
        self.hosts.iter_mut().find(|host| host.name == name).unwrap_or_else(|| panic!("no host {name}"))
    }
}

/// The settings with loopback TCP switched on: where the tests run in a container a daemon has none by default.
fn with_tcp(config: &str) -> String {
    let tcp = "[ipc]\ntcp_enabled = true\n";
    if config.contains("[ipc]\n") { config.replace("[ipc]\n", tcp) } else { format!("{config}{tcp}") }
}

/// A port of loopback that the system gives to nobody else while this is open: it is bound and never listens, so that a
/// server, which sets `SO_REUSEADDR`, may listen there. A broker whose port was taken while it was down does not start.
fn reserve_port() -> (OwnedFd, u16) {
    let socket = net::socket_with(net::AddressFamily::INET, net::SocketType::STREAM, net::SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option of every socket");
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = SocketAddr::try_from(net::getsockname(&socket).expect("a bound socket")).expect("an address");
    (socket, address.port())
}

fn read_port(file: &Path) -> Option<u16> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
