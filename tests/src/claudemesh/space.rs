//! A part of the machine that nobody else sees: mounts of its own, or mounts and a network of its own.
//!
//! A process that does nothing but wait holds it open, and ends when its standard input does: when the test is over,
//! however it is over, mounts, links and addresses are gone with it. Nothing is left on the machine.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{house, skip, wait};

/// A place of its own on this machine.
#[derive(Debug)]
pub struct Space {
    holder: Child,
    network: bool,
}

impl Space {
    /// Mounts of its own. None where this machine does not allow that; then the reason is printed.
    pub fn mounts() -> Option<Self> {
        Self::open(&["--mount"], false)
    }

    /// Mounts and a network of its own, with nothing but loopback in it. None where this machine does not allow that;
    /// then the reason is printed.
    pub fn network() -> Option<Self> {
        let space = Self::open(&["--mount", "--net"], true)?;
        match space.try_run("ip link set lo up") {
            Ok(()) => Some(space),
            Err(reason) => skipped(&reason),
        }
    }

    fn open(kinds: &[&str], network: bool) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return skipped("namespaces of its own need root");
        }
        let mut command = Command::new("unshare");
        command.args(kinds).args(["--", "/bin/sh", "-c", "echo ready; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = match command.spawn() {
            Ok(holder) => holder,
            Err(error) => return skipped(&format!("unshare: {error}")),
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("stdout is a pipe")).read_line(&mut line).expect("a pipe is read");
        let space = Self { holder, network };
        if line != "ready\n" {
            return skipped("unshare is not allowed here");
        }
        // Somebody who cannot go in cannot use it.
        match space.try_run("mount -t tmpfs -o size=64k none /mnt && umount /mnt") {
            Ok(()) => Some(space),
            Err(reason) => skipped(&reason),
        }
    }

    /// Says why a test does not go on here.
    pub fn skipped(reason: &str) {
        skip(reason);
    }

    /// Its number, for those who move something into it.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Whether loopback is another one in it.
    pub fn has_network(&self) -> bool {
        self.network
    }

    /// What goes in front of a command that shall run in it.
    pub fn entrance(&self) -> Vec<OsString> {
        let target = self.pid().to_string();
        let mut words: Vec<OsString> = ["nsenter", "--target", &target, "--mount"].map(OsString::from).into();
        if self.network {
            words.push("--net".into());
        }
        words.push("--".into());
        words
    }

    /// A path of it, from outside.
    ///
    /// # Panics
    /// If the path is not absolute.
    pub fn path(&self, inside: &Path) -> PathBuf {
        let below = inside.strip_prefix("/").expect("a path of a space is absolute");
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(below)
    }

    /// Runs a script in it that must work.
    ///
    /// # Panics
    /// If it does not.
    pub fn run(&self, script: &str) {
        self.try_run(script).unwrap_or_else(|reason| panic!("{reason}"));
    }

    /// Runs a script in it.
    ///
    /// # Errors
    /// What it complained about.
    pub fn try_run(&self, script: &str) -> Result<(), String> {
        let entrance = self.entrance();
        let mut command = Command::new(&entrance[0]);
        command.args(&entrance[1..]).args(["/bin/sh", "-ec", script]).stdin(Stdio::null());
        let output = house::run(command);
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("`{script}`: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
        }
    }

    /// A cable from this one to another: `10.77.0.1` here, `10.77.0.2` there.
    ///
    /// # Panics
    /// If it cannot be laid.
    pub fn connect(&self, other: &Self) {
        self.run(&format!("ip link add cable0 type veth peer name cable0 netns {}", other.pid()));
        for (space, address) in [(self, "10.77.0.1/24"), (other, "10.77.0.2/24")] {
            space.run(&format!("ip addr add {address} dev cable0; ip link set cable0 up"));
        }
    }

    /// Pulls the cable out, or puts it back: what is sent meanwhile is gone, and nobody is told.
    ///
    /// # Panics
    /// If there is none.
    pub fn set_cable(&self, up: bool) {
        self.run(&format!("ip link set cable0 {}", if up { "up" } else { "down" }));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        if wait::try_end_of(&mut self.holder, Duration::from_secs(5)).is_none() {
            self.holder.kill().ok();
            self.holder.wait().ok();
        }
    }
}

fn skipped(reason: &str) -> Option<Space> {
    skip(reason);
    None
}
