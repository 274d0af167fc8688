//! An ordinary user with a password who may use the real sudo, and a `sudo-proxy` of theirs on a terminal.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostel_tests::house::path_text;
use hostel_tests::procfs::Identity;
use hostel_tests::sudo_proxy::{Terminal, moment};
use hostel_tests::{binary, procfs, wait};
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

/// The end of a question.
pub(crate) const QUESTION: &str = "default=N) ";

/// The user's password.
pub(crate) const PASSWORD: &str = "tell-nobody";

/// A user for as long as it lives, with a daemon on a terminal of its own.
pub(crate) struct User {
    name: String,
    home: PathBuf,
    pub(crate) terminal: Terminal,
    daemon: Child,
    /// Where the last text that was waited for ended.
    seen: usize,
    _directory: tempfile::TempDir,
}

impl User {
    /// A user whose daemon runs with these settings; none, and a note about it, where none can be made.
    pub(crate) fn start(settings: &str) -> Option<Self> {
        let tools = ["/usr/sbin/useradd", "/usr/sbin/chpasswd", "/usr/bin/sudo"];
        if !rustix::process::getuid().is_root() || !tools.iter().all(|path| Path::new(path).exists()) {
            hostel_tests::skip("a user with a password for sudo takes root, useradd and sudo");
            return None;
        }
        let directory = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let home = directory.path().join("home");
        let name = format!("hostel-t{}", std::process::id());
        let make = format!(
            "useradd --create-home --home-dir '{}' {name} && echo '{name}:{PASSWORD}' | chpasswd",
            home.display()
        );
        assert!(Command::new("sh").args(["-c", &make]).status().unwrap().success(), "{make}");
        let rule = format!("/etc/sudoers.d/{name}");
        fs::write(&rule, format!("Defaults:{name} !lecture\n{name} ALL=(ALL) SETENV: ALL\n")).unwrap();
        fs::set_permissions(&rule, fs::Permissions::from_mode(0o440)).unwrap();
        let program = home.join("hostel");
        fs::copy(binary::hostel(), &program).unwrap();
        let (terminal, side) = Terminal::open();
        tcsetwinsize(&side, Winsize { ws_col: 120, ws_row: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let tty = rustix::termios::ttyname(&side, Vec::new()).unwrap();
        assert!(Command::new("chown").arg(&name).arg(tty.to_str().unwrap()).status().unwrap().success());
        let script =
            "mkdir -p .hostel && printf %s \"$1\" >.hostel/hostel.toml && exec ./hostel as sudo-proxy --socket \"$2\"";
        let mut command = Command::new("setsid");
        command.args(["--ctty", "setpriv", "--init-groups", "--reset-env", "--reuid", &name, "--regid", &name]);
        command.args(["env", "NO_COLOR=1", "sh", "-c", script, "sh", settings, path_text(&home.join("s.sock"))]);
        let copy = || side.try_clone().unwrap();
        let daemon = command.current_dir(&home).stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
        let user = Self { name, home, terminal, daemon, seen: 0, _directory: directory };
        wait::socket(&user.socket());
        Some(user)
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.join("s.sock")
    }

    /// The house of the daemon.
    pub(crate) fn house(&self) -> PathBuf {
        fs::read_dir(self.home.join(".hostel/as")).unwrap().flatten().next().unwrap().path()
    }

    /// A command that runs as the user.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--init-groups", "--reset-env", "--reuid", &self.name, "--regid", &self.name]).args(words);
        command.current_dir(&self.home);
        command
    }

    /// A program of the user's.
    pub(crate) fn program(&self, name: &str, content: &str) -> String {
        let path = self.home.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&path, Some(self.uid()), None).unwrap();
        path_text(&path).to_owned()
    }

    fn uid(&self) -> u32 {
        fs::metadata(&self.home).unwrap().uid()
    }

    /// A process of the user sends a request.
    pub(crate) fn ask(&self, id: &str, argv: &[&str], more: &Value) -> Asked {
        let mut request = json!({"id": id, "session": "tests", "time": format!("{}Z", moment::from_now(0)),
            "pipeline": [argv], "privileged": true});
        for (key, value) in more.as_object().expect("members") {
            request[key] = value.clone();
        }
        let socket = self.socket();
        let words = ["python3", "-c", CLIENT, path_text(&socket), &request.to_string()];
        Asked(self.command(&words).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until the terminal shows a text behind the last one that was waited for; gives all that is new.
    pub(crate) fn see(&mut self, wanted: &str) -> String {
        let shown = self.terminal.wait(self.seen, wait::limit(), |text| text.contains(wanted));
        let shown = shown.unwrap_or_else(|text| panic!("no {wanted:?}: {text}"));
        self.seen = self.terminal.length();
        shown
    }

    /// What the terminal shows behind the last text that was waited for.
    pub(crate) fn unseen(&self) -> String {
        self.terminal.painted(self.seen)
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    /// Waits for a question, agrees, and types the password when sudo asks for it.
    pub(crate) fn agree(&mut self) -> String {
        let shown = self.see(QUESTION);
        self.press("y");
        self.see("Password: ");
        self.press(&format!("{PASSWORD}\r"));
        shown
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(daemon) = Identity::of(i32::try_from(self.daemon.id()).unwrap_or(0)) {
            daemon.signal(Signal::TERM);
        }
        self.daemon.wait().ok();
        // Nobody else's: the user was made for this test. Their environment is not the test's, so no mark tells.
        for process in procfs::descendants(1) {
            let owner = fs::metadata(format!("/proc/{}", process.pid)).ok().map(|found| found.uid());
            if owner == Some(self.uid()) || procfs::command_line(process.pid).contains(path_text(&self.home)) {
                process.signal(Signal::KILL);
            }
        }
        fs::remove_file(format!("/etc/sudoers.d/{}", self.name)).ok();
        Command::new("userdel").args(["--remove", "--force", &self.name]).stderr(Stdio::null()).status().ok();
    }
}

/// A request that was sent.
pub(crate) struct Asked(Child);

impl Asked {
    /// The answer, with its output as text.
    pub(crate) fn answer(mut self) -> Value {
        wait::end_of(&mut self.0, "a client");
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let mut answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"));
        if let Some(stdout) = answer["stdout"].as_str() {
            answer["stdout"] = decoded(stdout).into();
        }
        answer
    }
}

/// Base64 as text.
fn decoded(text: &str) -> String {
    let output = Command::new("sh").args(["-c", "printf %s \"$1\" | base64 -d", "sh", text]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const CLIENT: &str = "import socket, sys\n\
s = socket.socket(socket.AF_UNIX)\n\
s.connect(sys.argv[1])\n\
s.sendall(sys.argv[2].encode() + b'\\n')\n\
print(s.makefile().readline())\n";
