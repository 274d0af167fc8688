//! Execs that hang: what waits for them, and what does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hostel_house::processes::{Process, Processes, SpawnError, SpawnSpec, UpgradeError};
use hostel_journal::ProcessId;
use support::{TestHouse, hear, limit, opened, shell, until, within};

/// Takes a write lease of its argument, says so, and holds it until its input ends: until then nobody opens the file.
const HOLD: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

/// A program whose exec waits for as long as this lives, at most 45 seconds, and then does what its content says.
struct HungProgram {
    path: PathBuf,
    holder: Child,
}

impl HungProgram {
    fn new(directory: &Path, content: &str) -> Self {
        let path = directory.join("hung");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut holder = Command::new("python3");
        holder.arg("-c").arg(HOLD).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self { path, holder }
    }

    fn spec(&self, name: &str, id: ProcessId) -> SpawnSpec {
        SpawnSpec { program: self.path.clone(), id: Some(id), ..shell(name, "") }
    }

    fn let_go(mut self) {
        drop(self.holder.stdin.take());
        self.holder.wait().unwrap();
    }
}

/// Asks for a process and waits until the keeper has begun to start it.
async fn begin(
    house: &TestHouse,
    processes: &Processes,
    spec: SpawnSpec,
) -> tokio::task::JoinHandle<Result<Arc<Process>, SpawnError>> {
    let id = spec.id.unwrap();
    let processes = processes.clone();
    let asked = tokio::spawn(async move { processes.spawn(spec).await });
    let socket = house.keeper_socket();
    let known = async || {
        let socket = socket.clone();
        tokio::task::spawn_blocking(move || support::raw::known_processes(&socket)).await.unwrap()
    };
    until(&format!("the keeper knows {id}"), known, |count| *count > 0).await;
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_after_its_daemon_is_gone_leaves_no_process() {
    let house = TestHouse::new();
    let first = house.open().await;
    // Neither a script nor a program: its exec fails.
    let hung = HungProgram::new(house.path(), "nothing that can be executed");
    let id = ProcessId::random().unwrap();
    let asked = begin(&house, &first, hung.spec("ghost", id)).await;
    let second = house.open().await;
    within("the older daemon to be superseded", first.superseded()).await;
    asked.abort();
    let ghost = second.by_id(id).expect("it may still become a process");
    assert!(ghost.status().running);
    // Its number is no reason to look for others.
    assert_eq!(ghost.tree().await.members.iter().filter(|member| member.pid == std::process::id()).count(), 0);
    hung.let_go();
    assert!(ghost.wait_exit(limit()).await.is_some_and(|exit| exit.lost), "it never was a process");
    until("it is known no more", async || second.by_id(id).is_some(), |known| !known).await;
    let told = until("it is told", async || second.take_failed_starts(), |told| !told.is_empty()).await;
    assert_eq!(told[0].name, "ghost");
    assert!(told[0].reason.contains("Exec format error"), "{}", told[0].reason);
    second.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_works_after_its_daemon_is_gone_is_a_process() {
    let house = TestHouse::new();
    let first = house.open().await;
    let hung = HungProgram::new(house.path(), "#!/bin/sh\necho late\n");
    let id = ProcessId::random().unwrap();
    let asked = begin(&house, &first, hung.spec("late", id)).await;
    let second = house.open().await;
    asked.abort();
    hung.let_go();
    let late = second.get("late").expect("it is known by its name");
    assert_eq!(hear(&late, 0).await.stdout, b"late\n");
    assert_eq!(late.wait_exit(limit()).await.map(|exit| (exit.code, exit.lost)), Some((0, false)));
    second.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_exec_and_an_upgrade_beside_it_hold_up_nobody() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let cat = processes.spawn(shell("cat", "cat")).await.unwrap();
    let hung = HungProgram::new(house.path(), "#!/bin/sh\necho late\n");
    let id = ProcessId::random().unwrap();
    let other = processes.clone();
    let spec = hung.spec("hung", id);
    let asked = tokio::spawn(async move { other.spawn(spec).await });
    let socket = house.keeper_socket();
    let known = async || {
        let socket = socket.clone();
        tokio::task::spawn_blocking(move || support::raw::known_processes(&socket)).await.unwrap()
    };
    until("the keeper starts it", known, |count| *count == 2).await;
    let refused = within("the upgrade", processes.upgrade_keeper(opened(&house.options().program))).await.unwrap_err();
    assert!(matches!(&refused, UpgradeError::Refused(text) if text.contains("being started")), "{refused}");
    // Spawns, input and signals go on.
    let echo = within("another spawn", processes.spawn(shell("echo", "echo hello"))).await.unwrap();
    assert_eq!(hear(&echo, 0).await.stdout, b"hello\n");
    cat.stdin(None, b"more\n").await.unwrap().done().await.unwrap();
    within("a signal", cat.kill(rustix::process::Signal::KILL)).await;
    assert!(cat.wait_exit(limit()).await.is_some());
    assert!(!asked.is_finished());
    hung.let_go();
    let late = asked.await.unwrap().unwrap();
    assert_eq!(hear(&late, 0).await.stdout, b"late\n");
    processes.upgrade_keeper(opened(&house.options().program)).await.unwrap();
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}
