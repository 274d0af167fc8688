//! A house of an ordinary user on a machine that has what a test needs.
//!
//! Run by root, the house lives in a mount namespace of its own. In it the user has a name, and programs that only root
//! can reach, or that are only unpacked, are where they belong. The machine itself stays as it is. Run by an ordinary
//! user, the tests take the machine as they find it.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_tests::house::path_text;
use hostel_tests::process::run;
use hostel_tests::sandbox::{Sandbox, keep_if_failed};
use hostel_tests::{agents, binary, skip};
use tempfile::TempDir;

use super::place::{PATH, Place, text};

/// The name of the user in a test that root runs.
const NAME: &str = "hostel-tester";

/// Not `/tmp`, which codex's sandbox leaves writable, and not `/dev/shm`, which the sandbox does not show.
const DIRECTORY: &str = "/var/tmp";

pub(super) struct Machine {
    pub(super) place: Place,
    /// What root does in the mount namespace: lines of a shell script.
    changes: Vec<String>,
    directory: TempDir,
}

impl Machine {
    /// A house that is not up yet; none outside of the tier that runs this.
    pub(super) fn new(what: &str) -> Option<Self> {
        if env::var_os("HOSTEL_AGENTS").is_none() {
            skip(&format!("{what}: scripts/test --agents runs it"));
            return None;
        }
        let directory = tempfile::Builder::new().prefix("hostel-agents-").tempdir_in(DIRECTORY);
        let directory = directory.expect("a directory of its own");
        let place = Place::of(Sandbox::within(directory.path().to_owned()));
        let mut machine = Machine { place, changes: Vec::new(), directory };
        if Self::is_roots() {
            // Some CLIs leave something in `/tmp`, and cannot use what those of another user have left there.
            let own = machine.tmp();
            fs::create_dir(&own).and_then(|()| fs::set_permissions(&own, Permissions::from_mode(0o1777))).unwrap();
            machine.change(format!("mount --bind '{}' /tmp", own.display()));
        }
        machine.works().then_some(machine)
    }

    /// Whether all changes can be made here; says loudly if not.
    fn works(&self) -> bool {
        let tried = run(self.command("true", &[]));
        if !tried.status.success() {
            skip(&format!("root cannot change mounts here: {}", text(&tried).trim().replace('\n', "; ")));
        }
        tried.status.success()
    }

    /// What the house and everything in it sees as `/tmp`.
    pub(super) fn tmp(&self) -> PathBuf {
        if Self::is_roots() { self.place.path().join("slash-tmp") } else { PathBuf::from("/tmp") }
    }

    /// Whether root runs the test, and so can change what the user sees of the machine.
    pub(super) fn is_roots() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn change(&mut self, line: String) {
        assert!(Self::is_roots(), "only root can do this: {line}");
        self.changes.push(line);
    }

    /// A directory for something to be mounted on.
    fn mount_point(&self, name: &str) -> PathBuf {
        self.place.sandbox.make(name)
    }

    /// The directory with the real CLIs, where the user can execute them.
    pub(super) fn agents(&mut self) -> PathBuf {
        let bin = agents::installed().unwrap_or_else(|reason| panic!("{reason}"));
        if !Self::is_roots() {
            return bin;
        }
        let here = self.mount_point("agents");
        self.change(format!("mount --bind '{}' '{}'", bin.parent().unwrap().display(), here.display()));
        here.join("bin")
    }

    /// Whether these programs are there. Those that `tests/agents/install-programs` has unpacked are laid over `/usr`.
    pub(super) fn has(&mut self, programs: &[&str]) -> bool {
        let in_system = |name: &&str| env::split_paths(PATH).any(|directory| directory.join(name).exists());
        let unpacked = binary::tools().join("agents-programs/usr");
        let is_unpacked =
            |name: &&str| ["bin", "sbin"].iter().any(|directory| unpacked.join(directory).join(name).exists());
        let missing: Vec<&str> = programs.iter().filter(|name| !in_system(name)).copied().collect();
        if missing.is_empty() {
            return true;
        }
        if !Self::is_roots() || !missing.iter().all(is_unpacked) {
            skip(&format!("not here: {}; scripts/setup --agents unpacks them for root", missing.join(", ")));
            return false;
        }
        self.change(format!("mount -t overlay -o 'lowerdir={}:/usr' overlay /usr", unpacked.display()));
        self.works()
    }

    /// The user's name. A user of a test that root runs gets one, with a home and a shell.
    pub(super) fn user(&mut self) -> String {
        let user = self.place.user;
        if !Self::is_roots() {
            let name = run(self.command("id", &["-un"]));
            return String::from_utf8(name.stdout).unwrap().trim().to_owned();
        }
        let home = self.place.sandbox.home();
        self.extend("passwd", &format!("{NAME}:x:{user}:{user}::{}:/bin/sh", home.display()));
        self.extend("group", &format!("{NAME}:x:{user}:"));
        NAME.to_owned()
    }

    /// Adds a line to a file of `/etc`, which need not exist.
    pub(super) fn extend(&mut self, file: &str, line: &str) {
        let path = Path::new("/etc").join(file);
        let known = fs::read_to_string(path).unwrap_or_default();
        self.write_etc(file, &format!("{known}{line}\n"));
    }

    /// Makes a file of root's in `/etc`. The whole directory is covered: a file that is covered alone becomes visible when
    /// somebody replaces it outside, as `useradd` does.
    pub(super) fn write_etc(&mut self, file: &str, text: &str) {
        let etc = self.place.path().join("etc");
        let path = etc.join(file);
        if !etc.exists() {
            self.change(format!("mount -t overlay -o 'lowerdir={}:/etc' overlay /etc", etc.display()));
        }
        fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(path, text)).unwrap();
    }

    /// Gives the house an agent `granted`, which is the agent `fake` with a grant.
    pub(super) fn grant(&self, name: &str) {
        self.settings(&format!("grant = [\"{name}\"]"), "");
    }

    /// Gives the house an agent `granted`, which is the agent `fake` with this setting, and further settings.
    pub(super) fn settings(&self, granted: &str, more: &str) {
        let program = self.place.path().join("claude");
        let agent = format!("kind = \"claude\"\nmode = \"auto\"\ncommand = [{program:?}]\n{granted}");
        self.place.settings("", &format!("\n[agents.granted]\n{agent}\n{more}"));
    }

    /// A program of the user, outside the house.
    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.command(program);
        command.args(arguments);
        self.changed(&command)
    }

    /// The same command on the changed machine.
    fn changed(&self, command: &Command) -> Command {
        let script = format!("set -e\n{}\nexec \"$@\"", self.changes.join("\n"));
        let mut changed = self.place.sandbox.command(if self.changes.is_empty() { "env" } else { "unshare" });
        if !self.changes.is_empty() {
            changed.args(["--mount", "sh", "-c", &script, "sh"]);
        }
        changed.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => changed.env(name, value),
                None => changed.env_remove(name),
            };
        }
        changed.current_dir(self.place.work());
        changed
    }

    /// Starts the house. Whether agents get a complete guard; says loudly if not.
    pub(super) fn up(&self) -> bool {
        let up = run(self.command(path_text(&self.place.hostel), &["up"]));
        assert!(up.status.success(), "hostel up: {}", text(&up));
        self.place.is_full()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the directory of the house is kept: {}", self.directory.path().display());
        }
        keep_if_failed(&mut self.directory);
    }
}
