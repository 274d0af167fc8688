//! One host of a mesh: a home of its own, and the mesh daemon in it, to start, to kill and to start again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::Arc;

use serde_json::Value;

use super::client::{Client, Transport};
use super::space::Space;
use crate::process::{Process, show_log};
use crate::procfs::Identity;
use crate::sandbox::Sandbox;
use crate::{binary, house, wait};

/// The mesh all hosts of a lab are in.
pub const MESH: &str = "lab";

/// A host.
#[derive(Debug)]
pub struct Host {
    /// The name of its member.
    pub name: String,
    // Before the sandbox, whose end is the end of all processes.
    process: Process,
    sandbox: Sandbox,
    space: Option<Arc<Space>>,
    variables: Vec<(String, String)>,
}

impl Host {
    /// A host with a home and nothing in it.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn new(name: &str, root: &Path) -> Self {
        let sandbox = Sandbox::within(root.join(name));
        let process = Process::new(&format!("the daemon of {name}"), sandbox.join("printed"));
        Self { name: name.to_owned(), process, sandbox, space: None, variables: Vec::new() }
    }

    /// Its `HOME`.
    pub fn home(&self) -> PathBuf {
        self.sandbox.home()
    }

    /// Has everything of this host happen in a space from now on.
    pub fn move_into(&mut self, space: &Arc<Space>) {
        self.space = Some(Arc::clone(space));
    }

    /// Has a variable in the environment of everything of this host from now on; an empty value takes it out.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.variables.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Where the daemon's files are, as seen from here.
    pub fn directory(&self) -> PathBuf {
        let inside = self.own_directory();
        self.space.as_ref().map_or_else(|| inside.clone(), |space| space.path(&inside))
    }

    /// The same, as the host itself sees it.
    pub fn own_directory(&self) -> PathBuf {
        self.home().join(".claudemesh/daemon").join(MESH)
    }

    /// Writes `config.toml`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn configure(&self, text: &str) {
        fs::create_dir_all(self.directory()).expect("a directory");
        fs::write(self.directory().join("config.toml"), text).expect("a file");
    }

    /// A command of the program as claudemesh, with this host's environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.space {
            None => Command::new(binary::hostel()),
            Some(space) => {
                let entrance = space.entrance();
                let mut command = Command::new(&entrance[0]);
                command.args(&entrance[1..]).arg(binary::hostel());
                command
            }
        };
        command.args(["as", "claudemesh"]).args(arguments);
        self.set_environment(&mut command);
        command
    }

    /// Gives a command this host's environment and nothing else.
    pub fn set_environment(&self, command: &mut Command) {
        self.sandbox.set_environment(command);
        command.env("CLAUDEMESH_CONFIG_DIR", self.home().join(".claudemesh"));
        command.env("CLAUDEMESH_DAEMON_DIR", self.home().join(".claudemesh/daemon"));
        // Nothing starts unless a test starts it.
        command.env("CLAUDEMESH_INTERNAL_NO_AUTOSPAWN", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    /// Runs a command of claudemesh that must work, and gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "claudemesh {arguments:?} of {} ended with {}:\n{}{}",
            self.name,
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs a command of claudemesh.
    pub fn try_run(&self, arguments: &[&str]) -> Output {
        house::run(self.command(arguments))
    }

    /// An invite of the mesh, good for so many; the owner's daemon must run.
    ///
    /// # Panics
    /// If none is printed.
    pub fn invite(&self, uses: usize) -> String {
        let printed = self.run(&["mesh", "invite", "--mesh", MESH, "--uses", &uses.to_string()]);
        let link = printed.lines().map(str::trim).find(|line| line.starts_with("ic://"));
        link.expect("a link is printed").to_owned()
    }

    /// Its membership, as `config.json` has it.
    ///
    /// # Panics
    /// If there is none.
    pub fn membership(&self) -> Value {
        let path = self.home().join(".claudemesh/config.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let config: Value = serde_json::from_str(&text).expect("config.json is JSON");
        config["meshes"][0].clone()
    }

    /// A text of its membership.
    ///
    /// # Panics
    /// If there is none.
    pub fn member(&self, key: &str) -> String {
        self.membership()[key].as_str().unwrap_or_else(|| panic!("no `{key}` in config.json")).to_owned()
    }

    /// Starts the daemon, again if need be, and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(&mut self) {
        self.launch(&[]);
        self.wait_ready();
    }

    /// Starts the daemon with further arguments and does not wait.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn launch(&mut self, more: &[&str]) {
        assert!(!self.process.is_started(), "the daemon of {} is started already", self.name);
        fs::remove_file(self.directory().join("http.port")).ok();
        let mut arguments = vec!["daemon", "up", "--foreground", "--mesh", MESH];
        arguments.extend_from_slice(more);
        self.process.start(self.command(&arguments));
    }

    /// Waits until the daemon answers on both transports.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_ready(&mut self) {
        let directory = self.directory();
        // Another network's loopback is not ours.
        let has_network = self.space.as_ref().is_some_and(|space| space.has_network());
        self.process.wait_ready(|| -> Result<(), String> {
            let shown = |error: std::io::Error| error.to_string();
            let text =
                fs::read_to_string(directory.join("http.port")).map_err(|error| format!("http.port: {error}"))?;
            let port = text.trim().parse::<u16>().map_err(|_| format!("http.port contains {text:?}"))?;
            std::os::unix::net::UnixStream::connect(directory.join("sock")).map_err(shown)?;
            match has_network {
                true => Ok(()),
                false => std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(shown),
            }
        });
    }

    /// Waits until the daemon has its connection to the broker.
    pub fn wait_connected(&self) {
        let client = self.client(Transport::Socket);
        wait::eventually(&format!("{} to be connected", self.name), || {
            let health = client.get("/v1/health").json();
            if health["connected"] == true { Ok(()) } else { Err(health.to_string()) }
        });
    }

    /// What reaches the daemon.
    ///
    /// # Panics
    /// If it does not run.
    pub fn client(&self, transport: Transport) -> Client {
        let read = |name: &str| {
            let path = self.directory().join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
        };
        Client {
            transport,
            socket: self.directory().join("sock"),
            port: read("http.port").parse().expect("a port is a number"),
            token: read("local_token"),
        }
    }

    /// Its process.
    pub fn identity(&self) -> Identity {
        self.process.identity()
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop()
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        self.process.ended()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory().join("daemon.log")).unwrap_or_default()).into_owned()
    }

    /// What the daemon printed, and its log.
    pub fn printed(&self) -> String {
        self.process.printed() + &self.log()
    }

    /// Shows the end of what somebody printed, for who looks for the cause of a failure.
    pub fn tell(&self, who: &str, printed: &str) {
        show_log(who, printed);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_log(&format!("the log of {}", self.name), &self.log());
        }
    }
}
