//! Houses and keepers of a test's own, ended with the test.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code, shared by files that use parts of it

use std::ffi::OsString;
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_guard::Guards;
use hostel_house::processes::{Batch, Exit, Item, KeeperOptions, Next, Process, Processes, SpawnSpec, Stream};

pub(crate) mod pipelines;
pub(crate) mod raw;
pub(crate) mod sessions;

use hostel_keeper::{LOCK_NAME, OUTSIDE_LIMIT_OPTION, SOCKET_NAME, SUBCOMMAND};

/// The pause between two observations of something that is waited for.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The limit against hangs: whatever takes longer never happens. HOSTEL_TEST_SCALE stretches it.
pub(crate) fn limit() -> Duration {
    let scale = std::env::var("HOSTEL_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    Duration::from_secs(120).mul_f64(scale)
}

/// The example program that is nothing but a keeper.
pub(crate) fn keeper_program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().and_then(Path::parent).unwrap().join("examples/keeper");
    assert!(program.exists(), "{} is missing: run `cargo build -p hostel-house --examples` first", program.display());
    program
}

/// A program, open, as a daemon passes it to the keeper for an upgrade.
pub(crate) fn opened(program: &Path) -> Arc<OwnedFd> {
    Arc::new(OwnedFd::from(std::fs::File::open(program).unwrap()))
}

/// Puts a copy of a program in the place of another one that may be running.
pub(crate) fn install(program: &Path, place: &Path) {
    let next = place.with_extension("next");
    std::fs::copy(program, &next).unwrap();
    std::fs::rename(&next, place).unwrap();
}

/// A keeper in a directory of its own.
pub(crate) struct RawKeeper {
    directory: tempfile::TempDir,
}

impl RawKeeper {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["run", "journal"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let keeper = Self { directory };
        let status = Command::new(keeper_program())
            .arg(SUBCOMMAND)
            .arg("--run-dir")
            .arg(keeper.run_dir())
            .arg("--journal-dir")
            .arg(keeper.directory.path().join("journal"))
            .args([OUTSIDE_LIMIT_OPTION, &hostel_peer::marks::lowest_outside().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
        keeper
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    fn run_dir(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir().join(SOCKET_NAME)
    }

    /// The process that answers on the socket.
    pub(crate) fn pid(&self) -> u32 {
        let stream = std::os::unix::net::UnixStream::connect(self.socket()).unwrap();
        rustix::net::sockopt::socket_peercred(&stream).unwrap().pid.as_raw_nonzero().get() as u32
    }
}

impl Drop for RawKeeper {
    /// TERM ends its children in order, then itself; the lock says when.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let lock = std::fs::File::open(self.run_dir().join(LOCK_NAME)).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    }
}

pub(crate) struct TestHouse {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl Drop for TestHouse {
    fn drop(&mut self) {
        if self.mounted {
            let journal = self.directory.path().join("journal");
            drop(std::process::Command::new("umount").arg("-l").arg(journal).status());
        }
    }
}

impl TestHouse {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["run", "journal"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory, mounted: false }
    }

    /// A house whose journals lie on a file system of so many bytes; `None` where mounting is not allowed.
    pub(crate) fn small(size: &str) -> Option<Self> {
        let mut house = Self::new();
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(house.directory.path().join("journal"))
            .stderr(std::process::Stdio::null())
            .status();
        house.mounted = status.is_ok_and(|status| status.success());
        if house.mounted {
            return Some(house);
        }
        eprintln!("skipped: a small file system cannot be mounted here (needs CAP_SYS_ADMIN)");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    pub(crate) fn keeper_socket(&self) -> PathBuf {
        self.path().join("run").join(SOCKET_NAME)
    }

    pub(crate) fn options(&self) -> KeeperOptions {
        options_at(self.path())
    }

    /// A house whose keeper runs from a file of its own, which can be replaced as a package manager does.
    pub(crate) async fn open_with_own_program(&self) -> (Processes, PathBuf) {
        let program = self.path().join("keeper");
        std::fs::copy(keeper_program(), &program).unwrap();
        let options = KeeperOptions { program: program.clone(), ..self.options() };
        (Processes::connect(options).await.unwrap(), program)
    }

    pub(crate) async fn open(&self) -> Processes {
        Processes::connect(self.options()).await.unwrap()
    }
}

/// A keeper in this directory.
pub(crate) fn options_at(directory: &Path) -> KeeperOptions {
    KeeperOptions {
        run_dir: directory.join("run"),
        journal_dir: directory.join("journal"),
        program: keeper_program(),
        cgroup_root: None,
        total_quota: 1 << 40,
        process_quota: 1 << 40,
        floor: 1,
        drop_oldest: false,
        child_umask: 0o022,
        child_nofile: 1024,
        guards: Arc::new(Guards::none()),
    }
}

pub(crate) fn shell(name: &str, script: &str) -> SpawnSpec {
    SpawnSpec {
        name: name.to_owned(),
        door: "test".to_owned(),
        program: PathBuf::from("/bin/sh"),
        argv: ["sh", "-c", script].map(OsString::from).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: Some(PathBuf::from("/")),
        id: None,
        socket_stdin: false,
        session: None,
        asked_by: None,
        owned_input: false,
        guard: None,
    }
}

pub(crate) struct Heard {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    pub(crate) exit: Option<Exit>,
}

/// All a process prints after a number, to its end; the numbers must rise by one.
pub(crate) async fn hear(process: &Arc<Process>, after: u64) -> Heard {
    let mut watch = process.watch(after).unwrap();
    let mut batch = Batch::default();
    let mut heard = Heard { stdout: Vec::new(), stderr: Vec::new(), seqs: Vec::new(), exit: None };
    let mut last = after;
    loop {
        match within("output or the end", watch.next(&mut batch)).await.unwrap() {
            Next::Items => {}
            Next::Ended | Next::Replaced => return heard,
        }
        for item in batch.items() {
            let number = match item {
                Item::Output { stream, seq, data, .. } => {
                    assert!(data.len() <= 32768 && !data.is_empty());
                    match stream {
                        Stream::Out => heard.stdout.extend_from_slice(data),
                        Stream::Err => heard.stderr.extend_from_slice(data),
                    }
                    seq
                }
                Item::Exit { seq, exit } => {
                    heard.exit = Some(exit);
                    seq
                }
            };
            assert_eq!(number, last + 1);
            last = number;
            heard.seqs.push(number);
        }
    }
}

/// Observes again and again until it is as wanted; gives that observation, or fails with the last one.
pub(crate) async fn until<T: Debug>(what: &str, mut observe: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + limit();
    loop {
        let observed = observe().await;
        if wanted(&observed) {
            return observed;
        }
        assert!(Instant::now() < end, "waited in vain until {what}; last seen: {observed:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// For tests without a runtime of their own.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Waits for something that happens by itself; fails if it does not.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit(), work).await {
        Ok(done) => done,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Waits until a process has ended: it is gone, or a zombie that nobody has reaped yet.
pub(crate) async fn until_ended(pid: u32) {
    let state = async || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    until("a process has ended", state, |stat| stat.is_empty() || stat.contains(") Z ")).await;
}

/// Waits until nobody but the caller has the database open, as after the end of a process that had it.
pub(crate) fn until_closed(writer: &std::sync::Weak<()>) {
    let end = Instant::now() + limit();
    while writer.strong_count() > 0 {
        assert!(Instant::now() < end, "the writer of the database does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}
