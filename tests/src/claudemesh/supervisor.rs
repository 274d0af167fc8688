//! A home with a stand-in for systemd: `systemctl`, `loginctl` and `journalctl` that write down what they are asked, and
//! start and end what a unit file of the user says, in the bare environment a service has.
//!
//! Everything lies below one temporary directory. What goes out of scope takes its processes with it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::procfs::{self, Identity};
use crate::sandbox::Sandbox;
use crate::{binary, house};

const SYSTEMCTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
units=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
echo "$*" >> "$here/../asked"
[ "$1" = --user ] && shift
verb=$1; shift
state=$(cat "$here/../state" 2>/dev/null || echo running)
alive() {
  [ -e "$here/../$1.pid" ] || return 1
  letter=$(sed 's/.*) //' "/proc/$(cat "$here/../$1.pid")/stat" 2>/dev/null | cut -c1)
  [ -n "$letter" ] && [ "$letter" != Z ]
}
end() {
  alive "$1" || return 0
  kill -TERM "$(cat "$here/../$1.pid")"
  while alive "$1"; do sleep 0.02; done
}
begin() {
  alive "$1" && return 0
  [ -e "$here/../broken" ] && return 0
  [ -e "$units/$1" ] || { echo "Unit $1 not found." >&2; exit 5; }
  command=$(sed -n 's/^ExecStart=//p' "$units/$1")
  variables=$(sed -n 's/^Environment=//p' "$units/$1")
  # The mark of the test, by which the runner finds what was left behind, is no part of the environment.
  setsid env -i ${HOSTEL_TEST_ID:+HOSTEL_TEST_ID="$HOSTEL_TEST_ID"} HOME="$HOME" LC_ALL=C PATH=/usr/bin:/bin $variables $command </dev/null >> "$here/../$1.out" 2>&1 &
  echo $! > "$here/../$1.pid"
}
now=
for word in "$@"; do
  case $word in
    --now) now=yes ;;
    -*) ;;
    *)
      unit=${word%.service}.service
      case $verb in
        enable) [ -n "$now" ] && begin "$unit" ;;
        start) begin "$unit" ;;
        restart) end "$unit"; begin "$unit" ;;
        disable|stop) end "$unit" ;;
        is-active) alive "$unit" && echo active || { echo inactive; exit 3; } ;;
        is-enabled) echo enabled ;;
      esac ;;
  esac
done
case $verb in
  is-system-running) echo "$state"; [ "$state" = running ] ;;
esac
exit $?
"#;

const LOGINCTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "loginctl $*" >> "$here/../asked"
case $1 in
  show-user) [ -e "$here/../lingers" ] && echo Linger=yes || echo Linger=no ;;
  enable-linger) : > "$here/../lingers" ;;
esac
"#;

const JOURNALCTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "journalctl $*" >> "$here/../asked"
"#;

/// A home whose services are looked after by the stand-in.
#[derive(Debug)]
pub struct Supervised {
    sandbox: Sandbox,
}

impl Supervised {
    /// A fresh home.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new() -> Self {
        let sandbox = Sandbox::new("svc");
        let (bin, _) = (sandbox.make("bin"), sandbox.make("config"));
        for (name, text) in [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL), ("journalctl", JOURNALCTL)] {
            let path = bin.join(name);
            fs::write(&path, text).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        std::os::unix::fs::symlink(binary::hostel(), bin.join("hostel")).expect("a link");
        Self { sandbox }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.sandbox.home()
    }

    /// Where the user's units are.
    pub fn units(&self) -> PathBuf {
        self.path().join("config/systemd/user")
    }

    /// Where a mesh's daemon has its files.
    pub fn mesh(&self, mesh: &str) -> PathBuf {
        self.home().join(".claudemesh/daemon").join(mesh)
    }

    /// Says what systemd says of itself: `offline` where there is none.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn set_state(&self, state: &str) {
        fs::write(self.path().join("state"), state).expect("a file");
    }

    /// Has units be started in name only.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn set_broken(&self, broken: bool) {
        let marker = self.path().join("broken");
        match broken {
            true => fs::write(marker, "").expect("a file"),
            false => drop(fs::remove_file(marker)),
        }
    }

    /// What systemctl and its like were asked, one line each.
    pub fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The same, from now on.
    pub fn forget_asked(&self) {
        fs::remove_file(self.path().join("asked")).ok();
    }

    /// A command in this home.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.sandbox.command(program);
        // As at a user's: a service has the house in its default place.
        command.env_remove("HOSTEL_MESH_BROKER").env_remove("HOSTEL_HOME");
        let own = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        let path = format!("{}:{}:{own}", self.path().join("bin").display(), self.home().join(".local/bin").display());
        command.env("PATH", path).env("XDG_CONFIG_HOME", self.path().join("config"));
        command.current_dir(self.sandbox.work());
        command
    }

    /// The program with these words, as `hostel`.
    pub fn hostel(&self, words: &[&str]) -> Output {
        let mut command = self.command(binary::hostel());
        command.args(words);
        house::run(command)
    }

    /// The program with these words, as `claudemesh`.
    pub fn claudemesh(&self, words: &[&str]) -> Output {
        let mut all = vec!["as", "claudemesh"];
        all.extend_from_slice(words);
        self.hostel(&all)
    }

    /// What it prints, of a command that must work.
    ///
    /// # Panics
    /// If it fails.
    pub fn good(&self, words: &[&str]) -> String {
        let output = self.claudemesh(words);
        assert!(output.status.success(), "claudemesh {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same as JSON, however it ends.
    ///
    /// # Panics
    /// If it prints none.
    pub fn json(&self, words: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend_from_slice(words);
        let output = self.claudemesh(&all);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
    }

    /// The process of a unit that was started.
    pub fn process(&self, unit: &str) -> Option<Identity> {
        let pid = fs::read_to_string(self.path().join(format!("{unit}.pid"))).ok()?.trim().parse().ok()?;
        let found = Identity::of(pid)?;
        // The number may be somebody else's by now.
        procfs::command_line(pid).contains(self.path().to_str()?).then_some(found)
    }
}

impl Default for Supervised {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Daemons of meshes that a test took away from the house are ended by name.
        for words in [&["as", "claudemesh", "daemon", "down", "--all"][..], &["down"], &["broker", "down"]] {
            let mut command = self.command(binary::hostel());
            command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().ok();
        }
        for entry in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(process) = name.strip_suffix(".pid").and_then(|unit| self.process(unit)) {
                process.signal(Signal::KILL);
            }
        }
    }
}
