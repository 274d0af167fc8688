//! A broker and the hosts of one mesh, as processes below one temporary directory.
//!
//! Everything is set up with the program's own commands. Limits on how often somebody may send are lifted, because they
//! would be what is measured. Whatever goes out of scope takes its processes with it, before the directory goes.

use std::fs;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::door::Door;
use super::door::Transport;
use crate::procfs;
use crate::server;
use crate::subject::Subject;

/// The mesh all hosts are in.
const MESH: &str = "lab";

/// How long a process may take to be ready or to go away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a host's daemon is told.
const CONFIG: &str = "[ipc]\ntcp_enabled = true\nrate_per_s = 0\n\n[outbox]\nmax_queue_size = 10000000\n";

/// What the broker is told.
const BROKER_CONFIG: &str = "[broker]\nrate_per_s = 0\n";

/// A process of the lab.
struct Process(Child);

impl Process {
    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end and waits until it has.
    fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(pid, Signal::TERM).context("asking a process to stop")?;
        let mut status = None;
        let ended = procfs::wait_until(PATIENCE, || {
            status = self.0.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(ended, "it still runs {} s after SIGTERM", PATIENCE.as_secs());
        ensure!(status.is_some_and(|status| status.success()), "it ended with {status:?}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        server::end(&mut self.0);
    }
}

/// A host: a home of its own and the daemon in it.
pub(crate) struct Host {
    name: &'static str,
    root: PathBuf,
    program: PathBuf,
    daemon: Option<Process>,
}

impl Host {
    fn new(name: &'static str, root: PathBuf, program: &Path) -> Result<Host> {
        let host = Host { name, root, program: program.to_owned(), daemon: None };
        for dir in [host.root.clone(), host.root.join("h"), host.root.join("u")] {
            fs::DirBuilder::new().mode(0o700).create(dir)?;
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(host.dir())?;
        fs::write(host.dir().join("config.toml"), CONFIG)?;
        Ok(host)
    }

    /// Where the daemon's files are.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.join("u/.claudemesh/daemon").join(MESH)
    }

    /// A command of the program as claudemesh, with this host's environment and nothing else.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["as", "claudemesh"]).args(arguments).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.root.join("u"))
            .env("HOSTEL_HOME", self.root.join("h"))
            .env("CLAUDEMESH_INTERNAL_NO_AUTOSPAWN", "1")
            // As `daemon up` starts one in the background.
            .env("MALLOC_ARENA_MAX", "2")
            .current_dir(&self.root)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end; its answer as JSON.
    fn run(mut command: Command) -> Result<Value> {
        let output = command.output().context("starting the program")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{:?} ended with {}: {complaint}", command.get_args(), output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("{:?} printed no JSON", command.get_args()))
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) fn start(&mut self) -> Result<()> {
        let port = self.dir().join("http.port");
        if let Err(error) = fs::remove_file(&port) {
            ensure!(error.kind() == std::io::ErrorKind::NotFound, "{}: {error}", port.display());
        }
        let log = File::create(self.root.join("printed"))?;
        let mut command = self.command(&["daemon", "up", "--foreground", "--mesh", MESH]);
        command.stdout(log.try_clone()?).stderr(log);
        self.daemon = Some(Process(command.spawn().context("starting a daemon")?));
        let (socket, mut ended) = (self.dir().join("sock"), None);
        let daemon = self.daemon.as_mut().context("the daemon was started")?;
        let ready = procfs::wait_until(PATIENCE, || {
            ended = daemon.0.try_wait().ok().flatten();
            ended.is_some() || (port.exists() && std::os::unix::net::UnixStream::connect(&socket).is_ok())
        });
        if let Some(status) = ended {
            let printed = fs::read_to_string(self.root.join("printed")).unwrap_or_default();
            bail!("the daemon of {} ended with {status}: {printed}", self.name);
        }
        ensure!(ready, "the daemon of {} did not start", self.name);
        Ok(())
    }

    /// Waits until the daemon has its connection to the broker.
    pub(crate) fn wait_connected(&self) -> Result<()> {
        let mut client = self.door()?.client(Transport::Socket)?;
        let connected = procfs::wait_until(PATIENCE, || {
            client.get("/v1/health").is_ok_and(|health| health["connected"] == Value::Bool(true))
        });
        ensure!(connected, "the daemon of {} did not reach the broker", self.name);
        Ok(())
    }

    /// What reaches the daemon.
    pub(crate) fn door(&self) -> Result<Door> {
        let read = |name: &str| fs::read_to_string(self.dir().join(name)).with_context(|| format!("reading {name}"));
        Ok(Door {
            socket: self.dir().join("sock"),
            port: read("http.port")?.trim().parse().context("the port")?,
            token: read("local_token")?.trim().to_owned(),
        })
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.daemon.as_ref().context("the daemon does not run")?.pid())
    }

    /// Asks the daemon to stop and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let daemon = self.daemon.take().context("the daemon does not run")?;
        daemon.stop().with_context(|| format!("stopping the daemon of {}", self.name))
    }

    /// Forgets what has come: the next start has everything again.
    pub(crate) fn forget_inbox(&self) -> Result<()> {
        for suffix in ["", "-wal", "-shm"] {
            let path = self.dir().join(format!("inbox.db{suffix}"));
            if path.exists() {
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }
}

/// A broker and two hosts that have joined; no daemon runs.
pub(crate) struct Lab {
    // The order matters: processes end before the directory is removed.
    pub(crate) alice: Host,
    pub(crate) bob: Host,
    broker: Option<Process>,
    program: PathBuf,
    dir: TempDir,
}

impl Lab {
    /// Sets everything up.
    pub(crate) fn prepare(subject: &Subject, parent: &Path) -> Result<Lab> {
        let dir = server::scratch(parent)?;
        let program = subject.program.clone();
        let alice = Host::new("alice", dir.path().join("a"), &program)?;
        let bob = Host::new("bob", dir.path().join("b"), &program)?;
        fs::DirBuilder::new().mode(0o700).create(dir.path().join("k"))?;
        fs::write(dir.path().join("k/hostel.toml"), BROKER_CONFIG)?;
        let mut lab = Lab { alice, bob, broker: None, program, dir };
        lab.start_broker()?;
        let url = format!("ws://127.0.0.1:{}/ws", lab.broker_port().context("the broker's port")?);
        let words = ["mesh", "create", MESH, "--name", "alice", "--broker", &url, "--no-start", "--json"];
        let mut create = lab.alice.command(&words);
        // The word that lets somebody make meshes lies beside the broker.
        create.env("HOSTEL_HOME", lab.broker_home());
        let created = Host::run(create)?;
        let invite = created["invite"].as_str().context("no invite was printed")?;
        Host::run(lab.bob.command(&["join", invite, "--name", "bob", "--no-start", "--json"]))?;
        Ok(lab)
    }

    /// The same with both daemons started and connected.
    pub(crate) fn start(subject: &Subject, parent: &Path) -> Result<Lab> {
        let mut lab = Lab::prepare(subject, parent)?;
        for host in [&mut lab.alice, &mut lab.bob] {
            host.start()?;
            host.wait_connected()?;
        }
        Ok(lab)
    }

    fn broker_home(&self) -> PathBuf {
        self.dir.path().join("k")
    }

    fn broker_port(&self) -> Option<u16> {
        fs::read_to_string(self.broker_home().join("broker/port")).ok()?.trim().parse().ok()
    }

    /// Starts the broker, again if need be, and waits until it accepts.
    pub(crate) fn start_broker(&mut self) -> Result<()> {
        let home = self.broker_home();
        let log = File::create(self.dir.path().join("broker.log"))?;
        let mut command = Command::new(&self.program);
        command
            .args(["as", "claudemesh", "broker", "up", "--foreground"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &home)
            .env("HOSTEL_HOME", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.broker = Some(Process(command.spawn().context("starting the broker")?));
        let accepts = procfs::wait_until(PATIENCE, || {
            self.broker_port().is_some_and(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
        });
        let printed = || fs::read_to_string(self.dir.path().join("broker.log")).unwrap_or_default();
        ensure!(accepts, "the broker did not start: {}", printed());
        Ok(())
    }

    /// Asks the broker to stop and waits until it has.
    pub(crate) fn stop_broker(&mut self) -> Result<()> {
        self.broker.take().context("the broker does not run")?.stop().context("stopping the broker")
    }

    /// Ends everything that runs, the polite way.
    pub(crate) fn stop(mut self) -> Result<()> {
        for host in [&mut self.alice, &mut self.bob] {
            if host.daemon.is_some() {
                host.stop()?;
            }
        }
        if self.broker.is_some() {
            self.stop_broker()?;
        }
        Ok(())
    }
}
