//! A broker and the hosts of one mesh, below one temporary directory.
//!
//! The broker is a process of its own and keeps its port over restarts. What goes out of scope takes its processes with
//! it.

use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::host::{Host, MESH};
use crate::procfs::Identity;
use crate::{binary, house, wait};

/// How long a process may take to be ready on a machine that has much else to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

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
    broker: Option<Child>,
    broker_variables: Vec<(String, String)>,
    root: TempDir,
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

    /// A broker, and hosts that have joined; no daemon runs.
    ///
    /// # Panics
    /// If somebody cannot join.
    pub fn prepare(options: &Options) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-mesh-").tempdir().expect("a temporary directory");
        let hosts: Vec<Host> = options.members.iter().map(|name| Host::new(name, root.path())).collect();
        hosts.iter().for_each(|host| host.configure(&with_tcp(&options.config)));
        let mut lab = Self { hosts, broker: None, broker_variables: options.broker_variables.clone(), root };
        fs::create_dir_all(lab.broker_home()).expect("a directory");
        fs::write(lab.broker_home().join("hostel.toml"), &options.broker).expect("a file");
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
        fs::read_to_string(self.broker_home().join("broker/port")).ok()?.trim().parse().ok()
    }

    /// The broker's process.
    ///
    /// # Panics
    /// If it does not run.
    pub fn broker(&self) -> Identity {
        let child = self.broker.as_ref().expect("the broker was started");
        Identity::of(i32::try_from(child.id()).expect("a pid")).expect("the broker runs")
    }

    /// Starts the broker, again if need be, and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_broker(&mut self) {
        assert!(self.broker.is_none(), "the broker is started already");
        let home = self.broker_home();
        fs::create_dir_all(&home).expect("a directory");
        let output = |name: &str| {
            OpenOptions::new().create(true).append(true).open(self.path().join(name)).expect("a file for output")
        };
        let mut command = Command::new(binary::hostel());
        command.args(["as", "claudemesh", "broker", "up", "--foreground"]);
        house::set_base_environment(&mut command, &home);
        command.env("HOSTEL_HOME", &home).current_dir(&home).stdin(Stdio::null());
        command.envs(self.broker_variables.iter().map(|(name, value)| (name, value)));
        command.stdout(output("broker.out")).stderr(output("broker.err"));
        // Kept before anything can fail: what was started must be ended.
        self.broker = Some(command.spawn().expect("the program can be started"));
        wait::until(PATIENCE, "the broker to accept", || {
            let child = self.broker.as_mut().expect("the broker was started");
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                panic!("the broker ended with {status}:\n{}", self.broker_printed());
            }
            TcpStream::connect(("127.0.0.1", self.broker_port()?)).ok().map(drop)
        });
    }

    /// Kills the broker with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// If it was not started.
    pub fn kill_broker(&mut self) {
        let mut child = self.broker.take().expect("the broker was started");
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
    }

    /// What the broker printed.
    pub fn broker_printed(&self) -> String {
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(self.path().join(name)).unwrap_or_default()).into_owned();
        read("broker.out") + &read("broker.err")
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

impl Drop for Lab {
    fn drop(&mut self) {
        self.hosts.clear();
        let Some(mut child) = self.broker.take() else { return };
        if let Some(identity) = i32::try_from(child.id()).ok().and_then(Identity::of) {
            identity.signal(Signal::TERM);
        }
        if wait::attempt(Duration::from_secs(5), || child.try_wait().ok().flatten()).is_none() {
            child.kill().ok();
            child.wait().ok();
        }
        if std::thread::panicking() {
            let printed = self.broker_printed();
            let skipped = printed.lines().count().saturating_sub(20);
            let tail: Vec<&str> = printed.lines().skip(skipped).collect();
            eprintln!("---- last lines of the broker\n{}\n----", tail.join("\n"));
        }
    }
}
