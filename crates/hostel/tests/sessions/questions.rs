//! What sessions ask of people: answered from the command line, from elsewhere, and on the terminal where they run.

use std::fs::File;
use std::io::Read as _;
use std::io::Write as _;
use std::process::Child;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;

use serde_json::json;

use super::Running;
use super::answer;
use super::common::House;
use super::common::finish;
use super::common::send;
use super::common::wait_until;
use super::detached;
use super::pending;

#[test]
fn questions_are_approved_and_denied_from_the_command_line() {
    let house = House::up();
    let run = Running::start(house.command().args(["run", "approve"]));
    let id = pending(&house);
    let list = house.hostel(["approvals"]);
    assert!(list.out.contains(&id[..8]) && list.out.contains("touch approved.txt"), "{list:?}");
    assert!(house.hostel(["sessions"]).out.contains(" asks "), "a session that asks shows it");
    let shown = house.hostel(["approvals", "show", &id[..8]]);
    assert!(shown.out.contains("\ncommand   touch approved.txt\n"), "{shown:?}");
    let outcome = answer(&house, &["approve", &id[..8]]);
    assert_eq!((outcome.code, outcome.out.contains("allowed once")), (0, true), "{outcome:?}");
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "approved\n"), "{outcome:?}");
    let hint = format!("answer with `hostel approvals approve {0}` or `hostel approvals deny {0}`; it waits", &id[..8]);
    assert!(outcome.err.contains(&hint) && outcome.err.contains("  └ allowed once\n"), "{outcome:?}");

    let run = Running::start(house.command().args(["run", "--name", "no", "approve"]));
    let denied = pending(&house);
    let outcome = answer(&house, &["deny", &denied, "--reason", "not today"]);
    assert_eq!((outcome.code, outcome.out.contains(" denied: ")), (0, true), "{outcome:?}");
    assert_eq!(run.finish().out, "denied\n");
    let watched = house.hostel(["watch", "--no-follow", "no"]).out;
    assert!(watched.contains("? bash asks for permission\n    command: touch approved.txt\n  └ denied\n"), "{watched}");
    let document = house.hostel(["sessions", "export", "no"]).out;
    assert!(document.contains("*denied: not today*"), "{document}");

    let outcome = answer(&house, &["approve", &denied]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    assert!(outcome.err.contains("cannot be answered any more, it is denied"), "{outcome:?}");
    assert_eq!(house.json(["approvals", "--json"]), json!({"approvals": []}));
    let all = house.json(["approvals", "list", "--all", "--json"]);
    let states: Vec<&str> =
        all["approvals"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["denied", "approved"]);
}

#[test]
fn who_watches_approvals_sees_them_come_and_go() {
    let house = House::up();
    let mut watch = Running::start(house.command().args(["approvals", "watch"]));
    detached(&house, "q", "approve");
    let id = pending(&house);
    watch.until("    command: touch approved.txt\n");
    assert_eq!(answer(&house, &["approve", "--always", &id]).code, 0);
    watch.until(&format!("{} approved by ", &id[..8]));
    send("INT", &watch.pid());
    assert_eq!(watch.finish().code, 0);
}

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
}

impl OnTerminal {
    fn start(house: &House, words: &[&str]) -> Self {
        let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let hostel = house.command();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(hostel.get_program()).args(words).env_clear();
        command.envs(hostel.get_envs().filter_map(|(key, value)| Some((key, value?)))).env("TERM", "xterm");
        command.current_dir(house.path());
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        let keys = File::from(master);
        let mut reader = keys.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal's end is an error on Linux.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        OnTerminal { child, keys, screen }
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    fn until(&self, text: &str) {
        wait_until(&format!("`{text}` is on the screen"), || self.screen(), |screen| screen.contains(text));
    }

    fn type_in(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    /// Types an answer until it is taken: what comes in the moment before a question listens is thrown away.
    fn answer(&mut self, answer: &str, taken: &str) {
        let type_again = || {
            if !self.screen().contains(taken) {
                self.keys.write_all(answer.as_bytes()).unwrap();
            }
            self.screen()
        };
        wait_until("the answer is taken", type_again, |screen| screen.contains(taken));
    }
}

#[test]
fn on_a_terminal_the_question_is_asked_right_there() {
    let house = House::up();
    let mut run = OnTerminal::start(&house, &["run", "approve"]);
    // Typed before anybody asked: no answer, whatever it says.
    run.type_in("y\ny\n");
    run.until("allow it? y = once, a = always, n = no: ");
    pending(&house);
    run.answer("n\n", "└ denied");
    run.until("✓ done in ");
    let screen = run.screen();
    assert!(screen.contains("\u{1b}[33m? \u{1b}[0m\u{1b}[1mbash\u{1b}[0m"), "{screen:?}");
    assert!(!screen.contains("allowed"), "{screen:?}");
    assert_eq!(finish(run.child).code, 0);

    let mut run = OnTerminal::start(&house, &["run", "approve"]);
    run.until("allow it?");
    run.answer("y\n", "└ allowed once");
    // What was typed too often is echoed by the terminal, perhaps in the middle of a line.
    run.until("✓ done in ");
    assert!(run.screen().contains("approved"), "{:?}", run.screen());
    assert_eq!(finish(run.child).code, 0);

    // Answered from elsewhere, the question here is settled.
    let run = OnTerminal::start(&house, &["run", "approve"]);
    run.until("allow it?");
    assert_eq!(answer(&house, &["deny", &pending(&house)]).code, 0);
    run.until("└ denied");
    assert_eq!(finish(run.child).code, 0);
}
