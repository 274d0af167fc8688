//! Agents launched into a mesh: what is done inside is done by the session, peers see it beside its host, and it is gone
//! with the command that launched it, however that ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use hostel_tests::binary;
use hostel_tests::mcp::Place;
use hostel_tests::sudo_proxy::Terminal;
use hostel_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A host whose agent `fake` does what its prompt says.
struct Host(Place);

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.0.hostel(&["down"]));
    }
}

impl Host {
    fn new() -> Self {
        let place = Place::new();
        let fake = binary::testchild().with_file_name("fakecli").display().to_string();
        fs::create_dir_all(place.house()).unwrap();
        let settings = format!("[agents.fake]\nkind = \"claude\"\nmode = \"auto\"\ncommand = [{fake:?}, \"claude\"]\n");
        fs::write(place.house().join("hostel.toml"), settings).unwrap();
        Self(place)
    }

    /// The program under the contract's name.
    fn command(&self) -> Command {
        let mut command = self.0.command(binary::hostel());
        command.arg0("claudemesh");
        command
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.command().arg("--json").args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn good(&self, words: &[&str]) {
        let output = self.command().args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    fn code(&self, words: &[&str]) -> (i32, String) {
        let output = self.command().args(words).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn status(&self) -> Value {
        let output = self.command().args(["--json", "daemon", "status", "--mesh", "lab"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn key(&self) -> String {
        self.json(&["list"])[0]["pubkey"].as_str().unwrap().to_owned()
    }

    /// Who is called so and connected, as this host sees it.
    fn peer(&self, name: &str) -> Option<Value> {
        let peers = self.json(&["peers"]);
        peers.as_array().unwrap().iter().find(|peer| peer["displayName"] == name).cloned()
    }

    fn wait_peer(&self, name: &str) -> Value {
        wait::until(wait::LIMIT, "the session to be seen", || self.peer(name))
    }

    fn wait_no_peer(&self, name: &str) {
        wait::until_true(wait::LIMIT * 2, "the session to be gone", || self.peer(name).is_none());
    }

    /// Waits for a message with this text in the whole inbox.
    fn wait_received(&self, body: &str) -> Value {
        wait::until(wait::LIMIT, "the message to arrive", || {
            let inbox = self.json(&["inbox", "--keep-unread", "--limit", "1000"]);
            inbox.as_array().unwrap().iter().find(|item| item["body"] == body).cloned()
        })
    }

    /// What is left of tokens.
    fn tokens(&self) -> usize {
        fs::read_dir(self.0.house().join("run/launch")).map_or(0, |files| files.flatten().count())
    }
}

/// Two hosts in mesh `lab`, both connected.
fn pair() -> (Host, Host) {
    let (alice, bob) = (Host::new(), Host::new());
    let made = alice.json(&["create", "lab", "--name", "alice"]);
    bob.good(&["join", made["invite"].as_str().unwrap(), "--name", "bob"]);
    for host in [&alice, &bob] {
        wait::until_true(wait::LIMIT, "the daemon to be connected", || host.status()["health"]["connected"] == true);
    }
    (alice, bob)
}

/// A launched session whose prompts come from a pipe.
struct Launched {
    child: Child,
    prompts: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Launched {
    fn start(host: &Host, name: &str) -> Self {
        let mut command = host.command();
        command.args(["launch", "--agent", "fake", "--name", name]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (prompts, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (say, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, prompts, answers }
    }

    fn ask(&mut self, prompt: &str) {
        writeln!(self.prompts.as_mut().unwrap(), "{prompt}").unwrap();
    }

    /// Has the agent run a verb, and waits for a line of its answer that has this in it.
    fn verb(&mut self, words: &str, wanted: &str) -> String {
        self.ask(&format!("tool {} mesh {words}", binary::hostel().display()));
        let mut heard = Vec::new();
        while let Ok(line) = self.answers.recv_timeout(wait::LIMIT * 2) {
            if line.contains(wanted) {
                return line;
            }
            heard.push(line);
        }
        panic!("no {wanted:?} in {heard:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.prompts = None;
        wait::until(wait::LIMIT, "the end of the command", || self.child.try_wait().unwrap())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn what_is_done_inside_is_done_by_the_session() {
    let (alice, bob) = pair();
    let mut review = Launched::start(&alice, "review");
    review.verb("send bob 'from inside'", "sent to bob");
    let sent = bob.wait_received("from inside");
    let seen = bob.wait_peer("review");
    assert_eq!(seen["memberPubkey"], alice.key().as_str(), "a sibling of the member: {seen}");
    assert_ne!(sent["sender_pubkey"], alice.key().as_str());
    assert_eq!(sent["sender_pubkey"], seen["pubkey"]);
    // From outside it is the member who speaks.
    alice.good(&["send", "bob", "from outside"]);
    assert_eq!(bob.wait_received("from outside")["sender_pubkey"], alice.key().as_str());

    // What is for the session is in its mailbox, what is for the host is not.
    bob.good(&["send", "alice/review", "just for review"]);
    bob.good(&["send", "alice", "just for alice"]);
    alice.wait_received("just for review");
    alice.wait_received("just for alice");
    let inbox = review.verb("inbox --json", "just for review");
    assert!(!inbox.contains("just for alice"), "{inbox}");

    // A name is one session's.
    let (code, told) = alice.code(&["launch", "--agent", "echo", "--name", "review", "-p", "hi"]);
    assert_eq!((code, told.contains("--name NAME")), (6, true), "{told}");

    assert_eq!(alice.tokens(), 1);
    assert!(review.end().success());
    assert_eq!(alice.tokens(), 0);
    bob.wait_no_peer("review");
    let rows: Value = serde_json::from_str(&alice.0.succeed(&["--json", "sessions", "--all"])).unwrap();
    let text = rows.to_string();
    assert!(text.contains("archived") && !text.contains("\"live\""), "{text}");
}

#[test]
fn it_is_gone_with_its_command() {
    let (alice, bob) = pair();
    for (name, signal) in [("killed", Signal::KILL), ("ended", Signal::TERM), ("hung-up", Signal::HUP)] {
        let mut launched = Launched::start(&alice, name);
        launched.verb("send bob hello", "sent to bob");
        bob.wait_peer(name);
        launched.signal(signal);
        let status = wait::until(wait::LIMIT, "the end of the command", || launched.child.try_wait().unwrap());
        if signal != Signal::KILL {
            assert_eq!(status.code(), Some(1), "{name}");
        }
        bob.wait_no_peer(name);
    }
    // What a killed one left is taken away by the next.
    let mut next = Launched::start(&alice, "killed");
    next.verb("peers", "bob");
    assert_eq!(alice.tokens(), 1);
    assert!(next.end().success());
}

#[test]
fn it_stays_itself_while_the_daemon_dies() {
    let (alice, bob) = pair();
    let mut review = Launched::start(&alice, "review");
    review.verb("send bob first", "sent to bob");
    bob.wait_received("first");
    let pid = i32::try_from(alice.status()["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    wait::until_true(wait::LIMIT, "the daemon to be gone", || alice.status()["running"] == false);
    // It has no other voice: nothing goes out as somebody else meanwhile.
    review.verb("send bob lost 2>&1", "no daemon is up");
    bob.good(&["send", "alice/review", "meanwhile"]);
    alice.good(&["daemon", "up", "--mesh", "lab"]);
    let seen = bob.wait_peer("review");
    review.verb("send bob second", "sent to bob");
    let sent = bob.wait_received("second");
    assert_ne!(sent["sender_pubkey"], alice.key().as_str());
    assert_eq!(seen["memberPubkey"], alice.key().as_str());
    alice.wait_received("meanwhile");
    review.verb("inbox --json", "meanwhile");
    assert!(review.end().success());
}

#[test]
fn on_a_terminal_it_asks_until_there_is_nothing_more() {
    let (alice, bob) = pair();
    let (mut terminal, slave) = Terminal::open();
    let (input, output, errors) = (slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave);
    let mut child = alice
        .command()
        .args(["launch", "--agent", "echo", "--name", "talk", "first words"])
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .spawn()
        .unwrap();
    terminal.wait(0, wait::LIMIT, |shown| shown.contains("alice/talk")).unwrap();
    let shown = terminal.wait(0, wait::LIMIT, |shown| shown.contains("first words") && shown.ends_with("> ")).unwrap();
    let before = terminal.length();
    assert!(shown.contains("mesh `lab`"), "{shown}");
    terminal.press("more words\n");
    terminal
        .wait(before, wait::LIMIT, |shown| shown.matches("more words").count() >= 2 && shown.ends_with("> "))
        .unwrap();
    // What is written to it is shown to who sits there.
    let before = terminal.length();
    bob.good(&["send", "alice/talk", "knock knock"]);
    terminal.wait(before, wait::LIMIT, |shown| shown.contains("knock knock") && shown.ends_with("> ")).unwrap();
    terminal.press("/quit\n");
    let status = wait::until(wait::LIMIT, "the end of the command", || child.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn one_turn_and_its_answer() {
    let (alice, bob) = pair();
    let output = alice.command().args(["launch", "--agent", "echo", "-p", "just this"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("just this"), "{output:?}");
    assert_eq!(alice.tokens(), 0);
    let failed = alice.code(&["launch", "--agent", "fake", "-p", "fail on purpose"]);
    assert_eq!(failed.0, 8, "{}", failed.1);
    for (words, code, told) in [
        (&["launch", "--agent", "nobody", "-p", "x"][..], 9, "there is no agent `nobody`"),
        (&["launch", "-p", " "], 3, "empty"),
        (&["launch", "--name", "a/b", "-p", "x"], 3, "cannot be a name"),
        (&["--mesh", "other", "launch", "-p", "x"], 5, "no mesh `other`"),
    ] {
        let (found, text) = alice.code(words);
        assert!(found == code && text.contains(told), "{words:?}: {found} {text}");
    }
    bob.good(&["daemon", "down", "--mesh", "lab"]);
    let (code, text) = bob.code(&["launch", "--no-start", "--agent", "echo", "-p", "x"]);
    assert!(code == 4 && text.contains("daemon up --mesh lab"), "{code} {text}");
    // `hostel` has the exit codes of all its verbs.
    assert_eq!(alice.0.hostel(&["mesh", "launch", "--agent", "nobody", "-p", "x"]).status.code(), Some(1));
}
