//! `hostel up --foreground` as process 1 of a namespace: the daemon may die there too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::wait_until;

const HOSTEL: &str = env!("CARGO_BIN_EXE_hostel");

/// A process namespace whose first process is the program under test.
struct Container {
    unshare: Child,
    first: u32,
    home: tempfile::TempDir,
}

impl Container {
    /// `None` where namespaces cannot be made.
    fn start() -> Option<Self> {
        let allowed =
            Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a process namespace cannot be made here (needs CAP_SYS_ADMIN and unshare)");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let unshare = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc", HOSTEL, "up", "--foreground"])
            .env("HOSTEL_HOME", home.path())
            .env("HOME", home.path().join("user"))
            .env("XDG_RUNTIME_DIR", home.path().join("runtime"))
            .env("SHELL", "/bin/sh")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let read = || std::fs::read_to_string(&children).unwrap_or_default();
        let first = wait_until("the first process is there", read, |text| !text.trim().is_empty()).trim().parse().unwrap();
        let container = Self { unshare, first, home };
        container.until_up();
        Some(container)
    }

    fn inside(&self, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.first.to_string(), "-p", "-m"]).args(words);
        command.env("HOSTEL_HOME", self.home.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn until_up(&self) {
        wait_until("the house is up", || self.inside(&[HOSTEL, "ps"]), |outcome| outcome.status.success());
    }

    fn daemon(&self) -> String {
        std::fs::read_to_string(self.home.path().join("run/daemon.lock")).unwrap().trim().to_owned()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if Path::new(&format!("/proc/{}", self.first)).exists() {
            self.unshare.kill().ok();
            Command::new("kill").args(["-KILL", &self.first.to_string()]).status().ok();
        }
        self.unshare.wait().ok();
    }
}

#[test]
fn the_daemon_is_started_again_and_stopping_ends_everything() {
    let Some(mut container) = Container::start() else { return };
    let started =
        container.inside(&[HOSTEL, "run", "-d", "--name", "kept", "--", "sh", "-c", "echo printed; exec sleep 1000"]);
    assert!(started.status.success(), "{started:?}");
    for _ in 0..3 {
        let daemon = container.daemon();
        assert_ne!(daemon, "1");
        assert!(container.inside(&["kill", "-KILL", &daemon]).status.success());
        wait_until("there is another daemon", || container.daemon(), |now| *now != daemon && !now.is_empty());
        container.until_up();
    }
    let logs = container.inside(&[HOSTEL, "logs", "kept"]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "printed\n", "{logs:?}");
    Command::new("kill").args(["-TERM", &container.first.to_string()]).status().unwrap();
    let status = container.unshare.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!container.home.path().join("run/hostel.sock").exists());
}
