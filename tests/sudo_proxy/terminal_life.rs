//! The life of `sudo-proxy` on its terminal: its socket, its log, its ends, and what it leaves behind.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};

use hostel_tests::house::path_text;
use hostel_tests::procfs::Identity;
use hostel_tests::sudo_proxy::{Client, Daemon, Options, Terminal, moment};
use hostel_tests::{binary, wait};
use rustix::process::Signal;
use rustix::termios::LocalModes;
use serde_json::{Value, json};

const QUESTION: &str = "default=N) ";
const NEXT_PAGE: &str = "n denies ";

fn request(id: &str, argv: &Value, privileged: bool) -> String {
    let time = format!("{}Z", moment::from_now(0));
    let request = json!({"id": id, "session": "tests", "time": time, "pipeline": [argv], "privileged": privileged});
    format!("{request}\n")
}

fn send(daemon: &Daemon, line: &str) -> Client {
    let mut client = daemon.connect();
    client.send(line.as_bytes()).expect("the door reads");
    client
}

/// Sends a request and waits until its question stands there.
fn ask(daemon: &mut Daemon, line: &str) -> Client {
    let start = daemon.terminal().length();
    let client = send(daemon, line);
    daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    client
}

fn answer(client: &mut Client) -> Value {
    serde_json::from_str(&client.line(wait::limit()).expect("an answer")).expect("JSON")
}

/// The same program again, beside the one that runs.
fn another(daemon: &Daemon, words: &[&str]) -> Output {
    let mut command = Command::new(binary::hostel());
    command.args(["as", "sudo-proxy", "--socket", path_text(&daemon.socket())]).args(words);
    daemon.set_environment(&mut command);
    command.stdin(Stdio::null()).output().expect("the program under test can be started")
}

#[test]
fn the_socket_is_private_and_stays_with_who_has_it() {
    let daemon = Daemon::start(Options::default());
    assert_eq!(daemon.socket().metadata().unwrap().mode() & 0o777, 0o600);
    let before = daemon.socket().metadata().unwrap().ino();
    let output = another(&daemon, &[]);
    let message = format!("error: sudo-proxy is already running on {}\n", daemon.socket().display());
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), (Some(1), message));
    assert_eq!(daemon.socket().metadata().unwrap().ino(), before);
}

#[test]
fn whatever_does_not_answer_is_replaced() {
    let mut daemon = Daemon::prepare(Options::default());
    fs::write(daemon.socket(), "a file").unwrap();
    daemon.serve();
    daemon.kill();
    assert!(daemon.socket().exists(), "a killed daemon cannot clean up");
    drop(UnixListener::bind(daemon.path().join("run/other.sock")).unwrap());
    fs::rename(daemon.path().join("run/other.sock"), daemon.socket()).unwrap();
    daemon.serve();
    let mut client = ask(&mut daemon, &request("here", &json!(["true"]), false));
    daemon.terminal().press("y");
    assert_eq!(answer(&mut client)["status"], "ok");
}

#[test]
fn a_directory_that_is_not_there_is_said_in_the_systems_words() {
    let daemon = Daemon::prepare(Options::default());
    let mut command = Command::new(binary::hostel());
    command.args(["as", "sudo-proxy", "--socket", "/no/such/directory/s.sock"]);
    daemon.set_environment(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: No such file or directory (os error 2)\n");
}

#[test]
fn a_signal_ends_it_and_what_it_runs() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut daemon = Daemon::start(Options::default());
        let mut client = ask(&mut daemon, &request("sleeper", &json!(["sh", "-c", "echo $$ > pid; sleep 100"]), false));
        // Its working directory is the root: it cannot write there, or should not.
        daemon.terminal().press("n");
        answer(&mut client);
        let pid_file = daemon.work().join("pid");
        let script = format!("echo $$ > {}; exec sleep 100", path_text(&pid_file));
        let mut client = ask(&mut daemon, &request("sleeper-2", &json!(["sh", "-c", script]), false));
        daemon.terminal().press("y");
        let sleeper = wait::eventually("the command to run", || {
            Identity::of(fs::read_to_string(&pid_file).ok()?.trim().parse().ok()?)
        });
        let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let status = daemon.ended(wait::LIMIT);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert!(!daemon.socket().exists());
        sleeper.wait_gone(wait::LIMIT);
        // Whoever asked is told, or sees the end; it does not hang.
        client.line(wait::limit()).ok();
    }
}

#[test]
fn stop_is_answered_before_it_ends() {
    let mut daemon = Daemon::start(Options::default());
    let mut waiting = ask(&mut daemon, &request("waiting", &json!(["true"]), false));
    let start = daemon.terminal().length();
    let time = format!("{}Z", moment::from_now(0));
    let stop = json!({"id": "stop", "session": "the tests", "time": time, "pipeline": [], "action": "stop"});
    let mut client = send(&daemon, &format!("{stop}\n"));
    assert_eq!(answer(&mut client), json!({"id": "stop", "status": "ok", "stdout": "", "version": "1.2.0"}));
    assert_eq!(daemon.ended(wait::LIMIT).code(), Some(0));
    assert!(!daemon.socket().exists());
    assert_eq!(answer(&mut waiting)["id"], "waiting");
    let shown = daemon.terminal().painted(start);
    assert!(shown.contains("→ Withdrawn"), "{shown}");
}

#[test]
fn killed_outright_it_goes_on_where_it_was() {
    let mut daemon = Daemon::start(Options::default());
    let (go, ran) = (daemon.work().join("go"), daemon.work().join("ran"));
    let script =
        format!("echo once >> {}; until [ -e {} ]; do sleep 0.05; done; echo done", path_text(&ran), path_text(&go));
    let running = request("running", &json!(["sh", "-c", script]), false);
    let mut first = ask(&mut daemon, &running);
    daemon.terminal().press("y");
    wait::eventually("the command to run", || ran.exists());
    let pending = request("pending", &json!(["echo", "asked"]), false);
    let mut second = ask(&mut daemon, &pending);
    daemon.kill();
    first.closed(wait::limit()).expect("the connection is cut");
    second.closed(wait::limit()).expect("the connection is cut");
    daemon.serve();
    // The same bytes again, as the contract's own client sends them.
    let mut first = send(&daemon, &running);
    let mut second = send(&daemon, &pending);
    daemon.terminal().wait(0, wait::limit(), |text| text.ends_with(QUESTION)).expect("the question again");
    daemon.terminal().press("y");
    assert_eq!(answer(&mut second)["stdout"], "YXNrZWQK");
    fs::write(&go, "").unwrap();
    let answered = answer(&mut first);
    assert_eq!((&answered["status"], &answered["stdout"]), (&json!("ok"), &json!("ZG9uZQo=")));
    assert_eq!(fs::read_to_string(&ran).unwrap(), "once\n");
}

#[test]
fn a_stop_is_told_on_a_terminal_that_is_free() {
    let mut daemon = Daemon::start(Options::default());
    let time = format!("{}Z", moment::from_now(0));
    let stop = json!({"id": "stop", "session": "the tests", "time": time, "pipeline": [], "action": "stop"});
    assert_eq!(answer(&mut send(&daemon, &format!("{stop}\n")))["status"], "ok");
    assert_eq!(daemon.ended(wait::LIMIT).code(), Some(0));
    let told = |text: &str| text.contains("■ sudo-proxy stopped by the tests\r\n");
    daemon.terminal().wait(0, wait::limit(), told).expect("a notice");
}

#[test]
fn what_nobody_comes_back_for_is_ended_and_on_record() {
    let mut daemon = Daemon::start(Options::default());
    let pid_file = daemon.work().join("pid");
    let script = format!("echo $$ > {}; exec sleep 100", path_text(&pid_file));
    let client = ask(&mut daemon, &request("left-alone", &json!(["sh", "-c", script]), false));
    daemon.terminal().press("y");
    let sleeper = wait::eventually("the command to run", || {
        Identity::of(fs::read_to_string(&pid_file).ok()?.trim().parse().ok()?)
    });
    daemon.kill();
    drop(client);
    assert!(sleeper.alive(), "a killed daemon takes nothing with it");
    daemon.serve();
    sleeper.wait_gone(wait::LIMIT);
    let record = wait::eventually("a record of it", || {
        let shown = String::from_utf8_lossy(&hostel(&daemon, &["audit", "show"], "").stdout).into_owned();
        shown.contains("nobody").then_some(shown)
    });
    assert!(record.lines().count() > 3, "{record}");
}

#[test]
fn without_a_terminal_nobody_can_be_asked() {
    let daemon = Daemon::start(Options { detached: true, ..Options::default() });
    let mut client = send(&daemon, &request("alone", &json!(["true"]), false));
    let expected = json!({
        "id": "alone", "status": "error", "message": "prompt error: No such device or address (os error 6)",
        "version": "1.2.0",
    });
    assert_eq!(answer(&mut client), expected);
    let mut client = send(&daemon, &request("alone", &json!(["true"]), false));
    assert_eq!(answer(&mut client)["message"], "duplicate request id: alone");
}

/// A verb of `hostel` beside the daemon, with a passphrase on its standard input.
fn hostel(daemon: &Daemon, words: &[&str], input: &str) -> Output {
    let mut command = Command::new(binary::hostel());
    command.args(words);
    daemon.set_environment(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program under test can be started");
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

#[test]
fn an_answer_from_elsewhere_takes_the_question_away() {
    let mut daemon = Daemon::start(Options::default());
    let set = hostel(&daemon, &["approver", "set", "--passphrase-fd", "0"], "correct horse battery\n");
    if !set.status.success() {
        panic!("no passphrase: {}", String::from_utf8_lossy(&set.stderr));
    }
    for (word, status, label) in [("approve", "ok", "→ Approved elsewhere"), ("deny", "denied", "→ Denied elsewhere")]
    {
        let mut client = ask(&mut daemon, &request(word, &json!(["true"]), false));
        let start = daemon.terminal().length();
        let list = hostel(&daemon, &["--json", "approvals", "list"], "");
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let listed: Value = serde_json::from_str(list.lines().next().expect("a line")).expect("JSON");
        let house_id = find_id(&listed).unwrap_or_else(|| panic!("nothing waits: {list}"));
        let unread: &[&str] = if word == "approve" { &["--yes"] } else { &[] };
        let words = [&["approvals", word, &house_id, "--passphrase-fd", "0"], unread].concat();
        let (code, printed) = apart(&daemon, &words);
        assert_eq!(code, "0", "{printed}");
        assert_eq!(answer(&mut client)["status"], status);
        let shown = daemon.terminal().wait(start, wait::limit(), |text| text.contains("━━━━\r\n")).expect("an end");
        assert!(shown.contains(label), "{shown}");
    }
}

/// The same in a tree of its own: who asked may not decide. The passphrase is the right one.
fn apart(daemon: &Daemon, words: &[&str]) -> (String, String) {
    let place = tempfile::tempdir_in(daemon.path()).unwrap();
    // It begins once the shell is gone: until then it is of our own tree.
    let script = "(while kill -0 $$; do sleep 0.01; done
        exec setsid sh -c 'echo correct horse battery | \"$@\" >out 2>&1; echo $? >code.new; mv code.new code' sh \"$@\"
        ) </dev/null >/dev/null 2>&1 &";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(binary::hostel()).args(words);
    daemon.set_environment(&mut command);
    assert!(command.current_dir(place.path()).status().unwrap().success());
    let code = wait::whole_line(&place.path().join("code"));
    (code, fs::read_to_string(place.path().join("out")).unwrap_or_default())
}

/// The first `id` of a list, whatever it is wrapped in.
fn find_id(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => match fields.get("id").and_then(Value::as_str) {
            Some(id) => Some(id.to_owned()),
            None => fields.values().find_map(find_id),
        },
        Value::Array(items) => items.iter().find_map(find_id),
        _ => None,
    }
}

#[test]
fn the_file_makes_it_eligible_and_the_flag_counts_more() {
    for (file, flag, offered) in [
        (r#"{"policy":{"unattended_eligible":true}}"#, None, true),
        (r#"{"policy":{"unattended_eligible":true}}"#, Some("--no-unattended-eligible"), false),
        (r#"{"policy":{"confirm_unprivileged":false}}"#, None, false),
        (r#"{"policy":{"unattended_eligible":true}"#, None, false),
        ("", Some("--unattended-eligible"), true),
    ] {
        let flags = flag.map(str::to_owned).into_iter().collect();
        let mut daemon = Daemon::prepare(Options { flags, ..Options::default() });
        let folder = daemon.path().join("config/sudo-proxy");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hosts.json"), file).unwrap();
        daemon.serve();
        // Read once: what is written now changes nothing.
        fs::write(folder.join("hosts.json"), r#"{"policy":{"unattended_eligible":true}}"#).unwrap();
        let mut client = ask(&mut daemon, &request("offer", &json!(["true"]), false));
        let shown = daemon.terminal().painted(0);
        assert_eq!(shown.contains("[y/N/a]"), offered, "{file} {flag:?} {shown}");
        daemon.terminal().press("a");
        assert_eq!(answer(&mut client)["status"], "ok");
        if offered {
            assert_eq!(answer(&mut send(&daemon, &request("unasked", &json!(["true"]), false)))["status"], "ok");
        } else {
            let mut client = ask(&mut daemon, &request("asked", &json!(["true"]), false));
            daemon.terminal().press("n");
            assert_eq!(answer(&mut client)["status"], "denied");
        }
    }
}

/// A daemon whose standard error is its terminal too, and the terminal's own side.
struct OnTerminal {
    place: Daemon,
    terminal: Terminal,
    side: OwnedFd,
    child: Child,
}

impl OnTerminal {
    fn start(words: &[&str]) -> Self {
        let place = Daemon::prepare(Options::default());
        let (terminal, side) = Terminal::open();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(binary::hostel()).args(["as", "sudo-proxy", "--socket", path_text(&place.socket())]);
        command.args(words);
        place.set_environment(&mut command);
        let copy = || side.try_clone().expect("a second handle");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().expect("the program under test can be started");
        let started = OnTerminal { place, terminal, side, child };
        wait::socket(&started.place.socket());
        started
    }

    fn modes(&self) -> LocalModes {
        rustix::termios::tcgetattr(&self.side).expect("a terminal").local_modes
    }

    fn ask(&self, id: &str) -> Client {
        self.ask_until(id, QUESTION)
    }

    /// Sends a request and waits until the terminal shows this at the end.
    fn ask_until(&self, id: &str, end: &str) -> Client {
        let start = self.terminal.length();
        let client = send(&self.place, &request(id, &json!(["true"]), true));
        self.terminal.wait(start, wait::limit(), |text| text.ends_with(end)).expect("a question");
        client
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn log_lines_wait_for_an_open_question() {
    let mut daemon = OnTerminal::start(&["-v"]);
    let hello = format!("sudo-proxy listening on {}\r\nmode: remote (TUI + sudo)\r\n", daemon.place.socket().display());
    daemon.terminal.wait(0, wait::limit(), |text| text.starts_with(&hello)).expect("what -v says at the start");
    let mut first = daemon.ask("first");
    let start = daemon.terminal.length();
    let time = format!("{}Z", moment::from_now(0));
    for number in 0..3 {
        let ping = json!({"id": format!("ping-{number}"), "time": time, "action": "ping", "session": "tests"});
        assert_eq!(answer(&mut send(&daemon.place, &format!("{ping}\n")))["message"], "pong");
    }
    assert_eq!(daemon.terminal.painted(start), "", "something was painted below an open question");
    daemon.terminal.press("n");
    assert_eq!(answer(&mut first)["status"], "denied");
    let shown =
        daemon.terminal.wait(start, wait::limit(), |text| text.contains("[ping-2] ping from tests")).expect("lines");
    assert!(shown.find("→ Denied").unwrap() < shown.find("[ping-0] ping").unwrap(), "{shown}");
}

#[test]
fn the_terminal_is_as_it_was_whatever_happens() {
    let mut daemon = OnTerminal::start(&[]);
    let usual = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    assert!(daemon.modes().contains(usual));
    let mut client = daemon.ask("answered");
    assert_eq!(daemon.modes() & usual, LocalModes::ISIG);
    daemon.terminal.press("n");
    assert_eq!(answer(&mut client)["status"], "denied");
    wait::eventually("the terminal to be put in order", || daemon.modes().contains(usual));
    let client = daemon.ask("withdrawn");
    drop(client);
    wait::eventually("the terminal to be put in order", || daemon.modes().contains(usual));
    // A resize in the middle of a question harms nothing.
    let mut client = daemon.ask("resized");
    let size = rustix::termios::Winsize { ws_row: 5, ws_col: 20, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&daemon.side, size).unwrap();
    daemon.terminal.press("n");
    assert_eq!(answer(&mut client)["status"], "denied");
    // The small screen has room for a question in pages only.
    let start = daemon.terminal.length();
    let mut client = daemon.ask_until("paged", NEXT_PAGE);
    assert_eq!(daemon.modes() & usual, LocalModes::ISIG);
    daemon.terminal.wait_question(start, wait::limit()).expect("the last page");
    daemon.terminal.press("n");
    assert_eq!(answer(&mut client)["status"], "denied");
    wait::eventually("the terminal to be put in order", || daemon.modes().contains(usual));
    // Ctrl-C is a signal, also in the middle of a question.
    let _client = daemon.ask_until("interrupted", NEXT_PAGE);
    daemon.terminal.press("\x03");
    let status = wait::end_of(&mut daemon.child, "the daemon");
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
    assert!(daemon.modes().contains(usual) && !daemon.place.socket().exists());
}

#[test]
fn strict_means_the_passphrase_here_too() {
    let settings = "[approvals]\nstrict = true\n".to_owned();
    let mut daemon = Daemon::start(Options { settings, ..Options::default() });
    let set = hostel(&daemon, &["approver", "set", "--passphrase-fd", "0"], "correct horse battery\n");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let mut client = ask(&mut daemon, &request("strict", &json!(["echo", "in"]), false));
    let start = daemon.terminal().length();
    daemon.terminal().press("y");
    daemon.terminal().wait(start, wait::limit(), |text| text.ends_with("Approver's passphrase: ")).expect("a question");
    daemon.terminal().press("wrong horse battery\r");
    daemon.terminal().wait(start, wait::limit(), |text| text.contains("Not decided: that is not")).expect("a refusal");
    // It is asked again.
    daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("the question again");
    let again = daemon.terminal().length();
    daemon.terminal().press("y");
    daemon.terminal().wait(again, wait::limit(), |text| text.ends_with("passphrase: ")).expect("a question");
    daemon.terminal().press("correct horse battery\r");
    assert_eq!(answer(&mut client)["stdout"], "aW4K");
    let shown = daemon.terminal().painted(0);
    assert!(!shown.contains("horse"), "{shown}");
}
