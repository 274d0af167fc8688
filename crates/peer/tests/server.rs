//! The process that serves a socket, as a process finds it whose limits somebody has lowered, and as a hosted one does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hostel_peer::{marks, server};
use rustix::process::{Pid, Resource, Rlimit};

use crate::helper::program;

/// What a keeper's children have, and what its grandchildren's houses start.
const HOSTED: u64 = (1 << 63) - 3;

/// A process in the role of a server: listens, and lets others wait until it ends.
pub(crate) fn serve(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    println!("\nready");
    let mut kept = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        kept.push(stream);
    }
}

/// A process in the role of a server that ends and leaves its socket to another process.
pub(crate) fn leave(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    let heir =
        Command::new("sh").args(["-c", "echo; echo ready; exec sleep 1000"]).stdin(OwnedFd::from(listener)).spawn();
    println!("\nheir {}", heir.unwrap().id());
}

/// A process in the role of a client: says what it finds of a server, as a daemon and as a keeper.
pub(crate) fn look(socket: &Path) {
    println!("\nready");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::connect(socket).await.unwrap();
        let daemon = match server::daemon(&stream).await {
            Ok(served) => served.doubt.map_or_else(|| "good".to_owned(), |doubt| format!("doubt: {}", short(&doubt))),
            Err(error) => short(&error),
        };
        let keeper = server::keeper(&stream, &std::env::current_exe().unwrap()).await;
        println!("found {daemon}, {}", keeper.map_or_else(|error| short(&error), |_| "good".to_owned()));
    });
}

fn short(error: &server::ServerError) -> String {
    match error {
        server::ServerError::Inside { .. } => "inside".to_owned(),
        server::ServerError::ThisIsInside => "this is inside".to_owned(),
        other => format!("{other:?}"),
    }
}

struct Role {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Role {
    fn begin(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut role = Role { output: BufReader::new(child.stdout.take().unwrap()), child };
        role.line("ready");
        role
    }

    fn line(&mut self, start: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
        }
        line.trim_end()[start.len()..].trim_start().to_owned()
    }

    /// As any process of the same user can.
    fn lower(&self, limit: u64) {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        rustix::process::prlimit(Pid::from_raw(self.child.id() as i32), Resource::Locks, limit).unwrap();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A program that has a limit from its start.
fn limited(inner: &Command, limit: u64) -> Command {
    crate::helper::through(&["prlimit", &format!("--locks={limit}")], inner)
}

#[test]
fn a_lowered_limit_makes_no_server_more_trusted() {
    let found = |server: Option<u64>, client: &dyn Fn(Command) -> Command, lowered: Option<u64>| {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let serving = program("hidden server", &socket);
        let _server =
            Role::begin(server.map_or_else(|| program("hidden server", &socket), |limit| limited(&serving, limit)));
        let mut client = Role::begin(client(program("looker", &socket)));
        if let Some(limit) = lowered {
            client.lower(limit);
        }
        client.child.stdin.take().unwrap().write_all(b"x").unwrap();
        client.line("found")
    };
    let plain = |command: Command| command;
    assert_eq!(found(None, &plain, None), "good, good", "the control");
    assert_eq!(found(Some(HOSTED), &plain, None), "inside, inside");
    // Lowered while it runs: to the server's own limit, below it, and to nothing.
    for limit in [HOSTED, HOSTED - 1, 0] {
        assert_eq!(found(Some(HOSTED), &plain, Some(limit)), "inside, this is inside", "{limit}");
        assert_eq!(found(Some(0), &plain, Some(limit)), "inside, this is inside", "{limit}");
        assert_eq!(found(None, &plain, Some(limit)), "good, this is inside", "{limit}");
    }
    // Lowered before it is started.
    let low = |command: Command| limited(&command, HOSTED);
    assert_eq!(found(Some(HOSTED), &low, None), "inside, this is inside");
    // A hosted process uses a house that is inside as well, and tells it no secret; not one that is further inside.
    for name in [marks::TAG_VARIABLE, marks::NESTED_VARIABLE] {
        let nested = |mut command: Command| limited(command.env(name, "1"), HOSTED);
        assert_eq!(found(Some(HOSTED), &nested, None), "doubt: this is inside, good", "{name}");
        assert_eq!(found(Some(HOSTED - 1), &nested, None), "inside, inside", "{name}");
        assert_eq!(found(None, &nested, None), "good, this is inside", "the keeper outside is not for it");
        // What it compares with is what it had when it was started.
        assert_eq!(found(Some(HOSTED - 1), &nested, Some(0)), "inside, this is inside", "{name}");
        // The variable alone makes nobody a hosted process.
        let said = |mut command: Command| {
            command.env(name, "1");
            command
        };
        assert_eq!(found(Some(HOSTED), &said, None), "inside, inside", "{name}");
    }
}

/// A process that began to listen and has ended, so that another one may get its number.
#[test]
fn a_socket_that_outlived_its_process_is_nobodys() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let mut leaving =
        program("server that leaves", &socket).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(leaving.stdout.take().unwrap());
    let mut heard = String::new();
    while !heard.contains("heir ") || !heard.contains("ready\n") {
        assert!(output.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    assert!(leaving.wait().unwrap().success(), "{heard}");
    let mut client = Role::begin(program("looker", &socket));
    client.child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(client.line("found"), "Ended, Ended");
    let heir = heard.lines().find_map(|line| line.strip_prefix("heir ")).unwrap();
    rustix::process::kill_process(Pid::from_raw(heir.parse().unwrap()).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
}
