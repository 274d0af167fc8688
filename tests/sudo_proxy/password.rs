//! sudo's password, typed at the terminal of `sudo-proxy`: a real user, a real sudo, a real terminal.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hostel_tests::house::path_text;
use hostel_tests::procfs::Identity;
use hostel_tests::sudo_proxy::{Terminal, moment};
use hostel_tests::{binary, procfs, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

const QUESTION: &str = "default=N) ";

fn request(id: &str, argv: &Value) -> String {
    let time = format!("{}Z", moment::from_now(0));
    json!({"id": id, "session": "tests", "time": time, "pipeline": [argv], "privileged": true}).to_string()
}

/// Whether a user with a password can be made here; says loudly if not.
fn can_make_users() -> bool {
    let can = rustix::process::getuid().is_root()
        && ["/usr/sbin/useradd", "/usr/sbin/chpasswd", "/usr/bin/sudo"].iter().all(|path| Path::new(path).exists());
    if !can {
        hostel_tests::skip("a password for sudo takes root, useradd and sudo");
    }
    can
}

/// A user with a password who may use sudo, for as long as it lives.
struct User(String);

impl User {
    fn make(home: &Path) -> Self {
        let name = format!("hostel-t{}", std::process::id());
        let run =
            |command: &str| assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
        run(&format!(
            "useradd --create-home --home-dir '{}' {name} && echo '{name}:tell-nobody' | chpasswd",
            home.display()
        ));
        let user = User(name);
        let rule = format!("Defaults:{0} !lecture\n{0} ALL=(ALL) SETENV: ALL\n", user.0);
        fs::write(format!("/etc/sudoers.d/{}", user.0), rule).unwrap();
        fs::set_permissions(format!("/etc/sudoers.d/{}", user.0), fs::Permissions::from_mode(0o440)).unwrap();
        user
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Nobody else's: the user was made for this test. Their environment is not the test's, so no mark tells.
        let uid = Command::new("id").args(["-u", &self.0]).output().ok();
        let uid = uid.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok());
        for process in procfs::descendants(1) {
            let owner = fs::metadata(format!("/proc/{}", process.pid)).ok().map(|found| found.uid());
            if uid.is_some() && owner == uid {
                process.signal(Signal::KILL);
            }
        }
        fs::remove_file(format!("/etc/sudoers.d/{}", self.0)).ok();
        Command::new("userdel").args(["--remove", "--force", &self.0]).stderr(Stdio::null()).status().ok();
    }
}

/// Sends a request as that user.
fn send(user: &User, socket: &Path, line: &str) -> Child {
    Command::new("setpriv")
        .args(["--init-groups", "--reset-env", "--reuid", &user.0, "--regid", &user.0])
        .args(["python3", "-c", CLIENT, path_text(socket), line])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn answer(client: &mut Child) -> Value {
    wait::end_of(client, "a client");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut client.stdout.take().unwrap(), &mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"))
}

#[test]
fn the_password_for_sudo_is_typed_where_it_was_approved() {
    if !can_make_users() {
        return;
    }
    let directory = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let home = directory.path().join("home");
    let user = User::make(&home);
    let socket = home.join("s.sock");
    let program = home.join("hostel");
    fs::copy(binary::hostel(), &program).unwrap();
    let (mut terminal, side) = Terminal::open();
    let tty = rustix::termios::ttyname(&side, Vec::new()).unwrap();
    assert!(Command::new("chown").arg(&user.0).arg(tty.to_str().unwrap()).status().unwrap().success());
    let mut command = Command::new("setsid");
    command.args(["--ctty", "setpriv", "--init-groups", "--reset-env", "--reuid", &user.0, "--regid", &user.0]);
    command.args(["env", "NO_COLOR=1"]).arg(&program).args(["as", "sudo-proxy", "--socket", path_text(&socket)]);
    let copy = || side.try_clone().unwrap();
    let mut daemon = command.current_dir(&home).stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
    wait::socket(&socket);
    // A file that becomes another one while the password is typed gets none.
    let script = home.join("script");
    fs::write(&script, "#!/bin/sh\necho as shown\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = send(&user, &socket, &request("swapped", &json!([path_text(&script)])));
    let asked = |text: &str| text.ends_with("Password: ");
    terminal.wait(0, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    let start = terminal.length();
    terminal.press("y");
    terminal.wait(start, wait::limit(), asked).expect("a password is asked for");
    fs::write(&script, "#!/bin/sh\necho something else\n").unwrap();
    terminal.press("tell-nobody\r");
    let answered = answer(&mut client);
    assert_eq!((&answered["status"], &answered["stdout"]), (&json!("ok"), &json!("")), "{answered}");
    assert_ne!(answered["stages"][0]["exit_code"], 0);
    terminal.wait(start, wait::limit(), |text| text.contains("has another content now")).expect("the reason");
    // One that stays what it is.
    let start = terminal.length();
    let mut client = send(&user, &socket, &request("root", &json!(["id", "-u"])));
    terminal.wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    let start = terminal.length();
    terminal.press("y");
    let shown =
        terminal.wait(start, wait::limit(), asked).unwrap_or_else(|text| panic!("no password is asked for: {text}"));
    assert!(shown.contains("sudo needs your password for: id -u"), "{shown}");
    let start = terminal.length();
    terminal.press("wrong\r");
    terminal.wait(start, wait::limit(), asked).expect("sudo asks again");
    terminal.press("tell-nobodx\x7fy\r");
    let answered = answer(&mut client);
    assert_eq!((&answered["status"], &answered["stdout"]), (&json!("ok"), &json!("MAo=")), "{answered}");
    let shown = terminal.painted(0);
    assert!(!shown.contains("tell") && !shown.contains("wrong"), "{shown}");
    // Whoever else asks the helper gets nothing.
    let houses: Vec<_> = fs::read_dir(home.join(".hostel/as")).unwrap().flatten().collect();
    let helper = houses[0].path().join("run/hostel-askpass");
    let asked = Command::new("setpriv")
        .args(["--init-groups", "--reset-env", "--reuid", &user.0, "--regid", &user.0])
        .arg(&helper)
        .arg("Password:")
        .output()
        .unwrap();
    assert!(!asked.status.success() && asked.stdout.is_empty(), "{asked:?}");
    let identity = Identity::of(i32::try_from(daemon.id()).unwrap()).unwrap();
    identity.signal(Signal::TERM);
    wait::end_of(&mut daemon, "the daemon");
    wait::eventually("everything of it to end", || {
        procfs::descendants(1).iter().all(|process| !procfs::command_line(process.pid).contains(path_text(&home)))
    });
}

const CLIENT: &str = "import socket, sys\n\
s = socket.socket(socket.AF_UNIX)\n\
s.connect(sys.argv[1])\n\
s.sendall(sys.argv[2].encode() + b'\\n')\n\
print(s.makefile().readline())\n";
