//! One host of a mesh: a home of its own, and the mesh daemon in it, to start, to kill and to start again.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::client::{Client, Transport};
use super::lab::PATIENCE;
use super::space::Space;
use crate::procfs::Identity;
use crate::{binary, house, wait};

/// The mesh all hosts of a lab are in.
pub const MESH: &str = "lab";

/// A host.
#[derive(Debug)]
pub struct Host {
    /// The name of its member.
    pub name: String,
    root: PathBuf,
    child: Option<Child>,
    space: Option<Arc<Space>>,
    variables: Vec<(String, String)>,
}

impl Host {
    /// A host with a home and nothing in it.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn new(name: &str, root: &Path) -> Self {
        let root = root.join(name);
        for directory in ["", "home", "hostel"] {
            fs::create_dir_all(root.join(directory)).expect("a fresh directory");
        }
        Self { name: name.to_owned(), root, child: None, space: None, variables: Vec::new() }
    }

    /// Its `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
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
        house::set_base_environment(command, &self.home());
        command.env("HOSTEL_HOME", self.root.join("hostel"));
        command.env("CLAUDEMESH_CONFIG_DIR", self.home().join(".claudemesh"));
        command.env("CLAUDEMESH_DAEMON_DIR", self.home().join(".claudemesh/daemon"));
        // Nothing starts unless a test starts it.
        command.env("CLAUDEMESH_INTERNAL_NO_AUTOSPAWN", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.root).stdin(Stdio::null());
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
        assert!(self.child.is_none(), "the daemon of {} is started already", self.name);
        fs::remove_file(self.directory().join("http.port")).ok();
        let output = |name: &str| {
            OpenOptions::new().create(true).append(true).open(self.root.join(name)).expect("a file for output")
        };
        let mut arguments = vec!["daemon", "up", "--foreground", "--mesh", MESH];
        arguments.extend_from_slice(more);
        let mut command = self.command(&arguments);
        command.stdout(output("printed.out")).stderr(output("printed.err"));
        self.child = Some(command.spawn().expect("the program can be started"));
    }

    /// Waits until the daemon answers on both transports.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_ready(&mut self) {
        let directory = self.directory();
        wait::until(PATIENCE, &format!("the daemon of {} to be ready", self.name), || {
            let child = self.child.as_mut().expect("the daemon was started");
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                panic!("the daemon of {} ended with {status}:\n{}", self.name, self.printed());
            }
            let port = fs::read_to_string(directory.join("http.port")).ok()?.trim().parse::<u16>().ok()?;
            std::os::unix::net::UnixStream::connect(directory.join("sock")).ok()?;
            // Another network's loopback is not ours.
            if self.space.as_ref().is_some_and(|space| space.has_network()) {
                return Some(());
            }
            std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
        });
    }

    /// Waits until the daemon has its connection to the broker.
    pub fn wait_connected(&self) {
        let client = self.client(Transport::Socket);
        wait::until_true(PATIENCE, &format!("{} to be connected", self.name), || {
            client.get("/v1/health").json()["connected"] == true
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
    ///
    /// # Panics
    /// If it does not run.
    pub fn identity(&self) -> Identity {
        let child = self.child.as_ref().expect("the daemon was started");
        Identity::of(i32::try_from(child.id()).expect("a pid")).expect("the daemon runs")
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// If it was not started.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the daemon was started");
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) -> ExitStatus {
        self.identity().signal(Signal::TERM);
        self.ended()
    }

    /// Waits until the daemon has ended by itself.
    ///
    /// # Panics
    /// If it does not end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the daemon was started");
        let ended = wait::attempt(wait::LIMIT, || child.try_wait().expect("our own child can be waited for"));
        ended.unwrap_or_else(|| {
            child.kill().expect("our own child can be killed");
            child.wait().expect("our own child can be reaped");
            panic!("the daemon of {} did not end:\n{}", self.name, self.printed())
        })
    }

    /// What the daemon printed, and its log.
    pub fn printed(&self) -> String {
        let paths = [self.root.join("printed.out"), self.root.join("printed.err"), self.directory().join("daemon.log")];
        paths.iter().map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()).collect()
    }
}

impl Host {
    /// Shows the end of what somebody printed, for who looks for the cause of a failure.
    pub fn tell(&self, who: &str, printed: &str) {
        let skipped = printed.lines().count().saturating_sub(40);
        let tail: Vec<&str> = printed.lines().skip(skipped).collect();
        eprintln!("---- last lines of {who}\n{}\n----", tail.join("\n"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(identity) = i32::try_from(child.id()).ok().and_then(Identity::of) {
            identity.signal(Signal::TERM);
        }
        // Whether a stop works is for the tests to say; here it only must be over.
        if wait::attempt(Duration::from_secs(5), || child.try_wait().ok().flatten()).is_none() {
            child.kill().ok();
            child.wait().ok();
        }
        if std::thread::panicking() {
            self.tell(&format!("the daemon of {}", self.name), &self.printed());
        }
    }
}
