//! Other processes: this very program, started again in a role.
//!
//! A role is played by the test `a_process_in_a_role`, which does nothing unless it was started for one. It ends when its
//! connection is closed, so nothing is left behind whatever happened to its parents.

use std::ffi::OsString;
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostel_peer::{Peer, marks};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

const ROLE: &str = "PEER_TEST_ROLE";
const SOCKET: &str = "PEER_TEST_SOCKET";
const HEIR: &str = "PEER_TEST_HEIR";

#[test]
fn a_process_in_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    marks::take_own();
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    match role.as_str() {
        "client" => stay(UnixStream::connect(socket).unwrap()),
        "hidden client" => {
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
            stay(UnixStream::connect(socket).unwrap());
        }
        "client that raises its limits" => {
            let unlimited = rustix::process::Rlimit { current: None, maximum: None };
            let raised = rustix::process::setrlimit(rustix::process::Resource::Locks, unlimited);
            assert!(raised.is_err(), "an ordinary user cannot");
            stay(UnixStream::connect(socket).unwrap());
        }
        "client that lowers its limits" => {
            let low = rustix::process::Rlimit { current: Some(5), maximum: Some(5) };
            rustix::process::setrlimit(rustix::process::Resource::Locks, low).unwrap();
            stay(UnixStream::connect(socket).unwrap());
        }
        "tcp client" => stay(TcpStream::connect(socket.to_str().unwrap()).unwrap()),
        "hidden tcp client" => {
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
            stay(TcpStream::connect(socket.to_str().unwrap()).unwrap());
        }
        "testator" => {
            let connection = UnixStream::connect(socket).unwrap();
            hand_over(&std::env::var_os(HEIR).unwrap(), connection.as_fd());
        }
        "adopter" => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
            let client = program("client", &socket);
            // Forked twice and in a session of its own: its parent is gone, and this process adopts it.
            let mut between = Command::new("sh");
            between.args(["-c", r#"setsid "$@" </dev/null >/dev/null 2>&1 &"#, "sh"]).arg(client.get_program());
            between.args(client.get_args()).envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
            assert!(between.status().unwrap().success());
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "hidden server" => {
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
            crate::server::serve(&socket);
        }
        "server that leaves" => crate::server::leave(&socket),
        "looker" => crate::server::look(&socket),
        "namespace" => crate::recycled::in_a_namespace(&socket),
        other => panic!("{other}"),
    }
}

fn stay(mut connection: impl std::io::Read + std::io::Write) {
    connection.write_all(b"x").unwrap();
    // Closed, one way or the other.
    connection.read(&mut [0]).unwrap_or_default();
}

fn hand_over(heir: &OsString, descriptor: std::os::fd::BorrowedFd<'_>) {
    let to = UnixStream::connect(heir).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut messages = SendAncillaryBuffer::new(&mut space);
    let rights = [descriptor];
    assert!(messages.push(SendAncillaryMessage::ScmRights(&rights)));
    rustix::net::sendmsg(&to, &[IoSlice::new(b"x")], &mut messages, SendFlags::empty()).unwrap();
}

/// This program, in a role, with its arguments and environment.
pub(crate) fn program(role: &str, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "helper::a_process_in_a_role", "--nocapture"]).env_clear();
    command.env(ROLE, role).env(SOCKET, socket).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// The same, started by another program: `setsid`, `unshare`, `setpriv` and the like.
pub(crate) fn through(wrapper: &[&str], inner: &Command) -> Command {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

pub(crate) fn heir(mut command: Command, heir: &Path) -> Command {
    command.env(HEIR, heir);
    command
}

/// A listener in a directory of its own that everybody may enter.
pub(crate) struct Door {
    directory: tempfile::TempDir,
    listener: UnixListener,
}

impl Door {
    pub(crate) fn open() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        for path in [directory.path().to_owned(), directory.path().join("s")] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        Door { directory, listener }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn accept(&self) -> (UnixStream, Peer) {
        let (stream, _) = self.listener.accept().unwrap();
        let peer = Peer::of_unix(&stream);
        (stream, peer)
    }

    /// Starts a client and lets it in, once it is what it wants to be.
    pub(crate) fn visit(&self, mut command: Command) -> Visit {
        let child = command.spawn().unwrap();
        let (mut stream, peer) = self.accept();
        stream.read_exact(&mut [0]).unwrap();
        Visit { peer, child, stream: Some(stream.into()) }
    }
}

/// A client that is connected; it ends when this is dropped.
pub(crate) struct Visit {
    pub(crate) peer: Peer,
    pub(crate) child: Child,
    pub(crate) stream: Option<OwnedFd>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        drop(self.stream.take());
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Whether this machine lets the tests do something; says so if not.
pub(crate) fn can(what: &[&str]) -> bool {
    let done = Command::new(what[0]).args(&what[1..]).stdin(Stdio::null()).output();
    let can = done.is_ok_and(|done| done.status.success());
    if !can {
        println!("skipped: {} does not work here", what.join(" "));
    }
    can
}

pub(crate) fn flush() {
    std::io::stdout().flush().unwrap();
}
