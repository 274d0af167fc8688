//! A house of an ordinary user, with an agent that runs the commands it is given.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hostel_tests::binary;
use hostel_tests::process::run;
use hostel_tests::sandbox::Sandbox;
use serde_json::Value;

/// Where programs are looked for: what every user may execute.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The user of a test that root runs. Different tests have different users: some places are per user.
fn user() -> u32 {
    let own = rustix::process::geteuid();
    if own.is_root() { 40_000 + std::process::id() % 20_000 } else { own.as_raw() }
}

pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    pub(crate) user: u32,
    pub(crate) hostel: PathBuf,
    fakecli: PathBuf,
    variables: Vec<(String, String)>,
}

impl Place {
    /// A directory that belongs to the user; nothing runs yet.
    pub(crate) fn new() -> Self {
        Place::of(Sandbox::new("guard"))
    }

    /// The same in a sandbox that is somewhere else.
    pub(crate) fn of(sandbox: Sandbox) -> Self {
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = user();
        let hostel = reachable(&binary::hostel(), sandbox.path());
        let fakecli = reachable(&binary::testchild().with_file_name("fakecli"), sandbox.path());
        let place = Place { sandbox, user, hostel, fakecli, variables: Vec::new() };
        place.settings("", "");
        place.own(place.path());
        place
    }

    /// The same for a house of root's.
    pub(crate) fn of_root() -> Self {
        let place = Place { user: 0, ..Place::new() };
        place.own(place.path());
        place.settings("", "");
        place
    }

    /// A house that is up, with these settings of the guard and of the agent.
    pub(crate) fn up(guard: &str, agent: &str) -> Self {
        let place = Place::new();
        place.settings(guard, agent);
        place.start();
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// Has a variable in the environment of everything that is started from now on.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Writes `hostel.toml`: lines of `[guard]`, and of the agent `fake`. There is an agent `bare` without a guard beside it.
    pub(crate) fn settings(&self, guard: &str, agent: &str) {
        let fake = format!("kind = \"claude\"\nmode = \"auto\"\ncommand = [{:?}]\n", self.played("claude"));
        self.sandbox.write_settings(&format!(
            "[doors.codecast]\nlisten = []\n[guard]\n{guard}\n[agents.fake]\n{fake}{agent}\n[agents.bare]\n{fake}guard = \"off\"\n"
        ));
    }

    /// The program that plays a CLI, called by its name.
    fn played(&self, name: &str) -> PathBuf {
        let link = self.path().join(name);
        if fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink(&self.fakecli, &link).unwrap();
        }
        link
    }

    /// Gives everything below a path to the user.
    pub(crate) fn own(&self, path: &Path) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let metadata = fs::symlink_metadata(path).unwrap();
        if metadata.is_symlink() {
            return;
        }
        chown(path, Some(self.user), Some(self.user)).unwrap();
        if metadata.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.own(&entry.unwrap().path());
            }
        }
    }

    /// Writes a file that belongs to the user.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.own(path.parent().unwrap());
        path
    }

    /// A program of the user, outside the house.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.sandbox.command(program.as_ref());
        if self.user != rustix::process::geteuid().as_raw() {
            let mut changed = self.sandbox.command("setpriv");
            let user = self.user.to_string();
            changed.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]).arg(program.as_ref());
            command = changed;
        }
        command.env("PATH", PATH).current_dir(self.work());
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
    }

    /// `hostel` of the user, outside the house.
    pub(crate) fn hostel(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&self.hostel);
        command.args(arguments);
        run(command)
    }

    /// The same, which has to succeed; what it printed.
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let output = self.hostel(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let all: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        serde_json::from_str(&self.good(&all)).unwrap()
    }

    pub(crate) fn start(&self) {
        self.good(&["up"]);
    }

    /// Which guard agents of this house have.
    pub(crate) fn active(&self) -> String {
        self.json(&["up"])["status"]["guard"]["active"].as_str().unwrap().to_owned()
    }

    /// Whether agents get both layers here; says loudly if not.
    pub(crate) fn is_full(&self) -> bool {
        let status = self.json(&["up"])["status"]["guard"].clone();
        if status["active"] != "full" {
            hostel_tests::skip(&format!("this machine has no complete guard: {}", status["why_not_stronger"]));
        }
        status["active"] == "full"
    }

    /// What a command prints that an agent runs.
    pub(crate) fn told(&self, agent: &str, command: &str) -> String {
        let said = self.good(&["run", "--agent", agent, &format!("tool {command}")]);
        let said = said.trim_end();
        let heard = said.rsplit_once("tool said:").map(|(_, heard)| heard.trim_start_matches(' '));
        heard.unwrap_or_else(|| panic!("no tool ran: {said}")).to_owned()
    }

    /// What a script prints that a guarded agent runs with a shell.
    pub(crate) fn script(&self, script: &str) -> String {
        self.script_of("fake", script)
    }

    pub(crate) fn script_of(&self, agent: &str, script: &str) -> String {
        let file = self.write("work/script.sh", script);
        self.told(agent, &format!("sh {}", file.display()))
    }
}

/// What a command said, for a failure.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A program where another user can execute it: itself, or a copy.
fn reachable(program: &Path, directory: &Path) -> PathBuf {
    let open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 != 0);
    if !rustix::process::geteuid().is_root() || program.ancestors().all(open) {
        return program.to_owned();
    }
    let copy = directory.join(program.file_name().unwrap());
    fs::copy(program, &copy).unwrap();
    copy
}
