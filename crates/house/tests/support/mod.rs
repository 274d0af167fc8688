//! A keeper of a test's own, started by its sub-command and ended with the test.

use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_keeper::{LOCK_NAME, SOCKET_NAME, SUBCOMMAND};

/// The example program that is nothing but a keeper.
pub(crate) fn keeper_program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().and_then(Path::parent).unwrap().join("examples/keeper");
    assert!(program.exists(), "{} is missing: run `cargo build -p hostel-house --examples` first", program.display());
    program
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
            .status()
            .unwrap();
        assert!(status.success());
        keeper
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
