//! Verbs that ask, on a real terminal: passphrases that are typed twice and never shown, questions that take one answer
//! alone, and Ctrl-C, after which everything is as it was, the terminal too.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use hostel_tests::claudemesh::{Host, Lab, Options};
use hostel_tests::sudo_proxy::Terminal;
use hostel_tests::{binary, house, wait};
use rustix::termios::{LocalModes, tcgetattr};

const PASSPHRASE: &str = "seven owls nobody sees";
const CTRL_C: &str = "\x03";

/// A command whose terminal this test holds.
struct Dialogue {
    terminal: Terminal,
    side: OwnedFd,
    before: LocalModes,
    child: Child,
    seen: usize,
}

impl Dialogue {
    fn start(inner: &Command) -> Self {
        let (terminal, side) = Terminal::open();
        let mut command = Command::new("setsid");
        // Whoever started the tests may ignore Ctrl-C, and that is inherited.
        command.args(["--ctty", "env", "--default-signal=INT"]);
        command.arg(inner.get_program()).args(inner.get_args()).env_clear();
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        if let Some(directory) = inner.get_current_dir() {
            command.current_dir(directory);
        }
        let copy = || side.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let before = tcgetattr(&side).unwrap().local_modes;
        let child = command.spawn().expect("the program under test can be started");
        Self { terminal, side, before, child, seen: 0 }
    }

    /// Waits for a question and answers it.
    fn answer(&mut self, question: &str, keys: &str) {
        let asked = self.terminal.wait(self.seen, wait::LIMIT, |text| text.contains(question));
        let shown = asked.unwrap_or_else(|shown| panic!("`{question}` is not asked: {shown}"));
        // What comes after it may be there already.
        self.seen += shown.find(question).unwrap_or_default() + question.len();
        self.terminal.press(keys);
    }

    /// Waits for the end: how it ended, and everything that was shown. What is not to be seen was not, and the terminal is
    /// as it was.
    fn ended(mut self) -> (ExitStatus, String) {
        let status = wait::attempt(wait::LIMIT, || self.child.try_wait().unwrap());
        let Some(status) = status else {
            self.child.kill().ok();
            self.child.wait().ok();
            panic!("it does not end: {}", self.terminal.painted(0));
        };
        assert_eq!(tcgetattr(&self.side).unwrap().local_modes, self.before, "the terminal is put back");
        // Ours is the last handle on this side: once it is closed everything that was painted has been read.
        drop(self.side);
        self.terminal.wait(0, wait::LIMIT, |_| false).unwrap_err();
        let shown = self.terminal.painted(0);
        assert!(!shown.contains("owls"), "something that was typed is shown: {shown}");
        (status, shown)
    }

    fn worked(self) -> String {
        let (status, shown) = self.ended();
        assert!(status.success(), "ended with {status}: {shown}");
        shown
    }

    fn refused(self, said: &str) {
        let (status, shown) = self.ended();
        assert!(status.code().is_some_and(|code| code != 0), "ended with {status}: {shown}");
        assert!(shown.contains(said), "`{said}` is not in: {shown}");
    }
}

/// The answers to the questions for a new passphrase that are none.
fn refuse_new(start: impl Fn() -> Dialogue, question: &str, out: &Path) {
    let again = "The same again: ";
    let mut mismatch = start();
    mismatch.answer(question, &format!("{PASSPHRASE}\r"));
    mismatch.answer(again, &format!("{PASSPHRASE} or not\r"));
    mismatch.refused("the two are not the same; nothing was changed");
    for (keys, said) in [("\r", "the passphrase is empty"), ("eleven owls\r", "fewer than 12 characters")] {
        let mut dialogue = start();
        dialogue.answer(question, keys);
        dialogue.refused(said);
    }
    let mut first = start();
    first.answer(question, &format!("{PASSPHRASE}{CTRL_C}"));
    first.refused("nothing was changed");
    let mut second = start();
    second.answer(question, &format!("{PASSPHRASE}\r"));
    second.answer(again, CTRL_C);
    second.refused("nothing was changed");
    let beside = fs::read_dir(out.parent().unwrap()).unwrap().flatten();
    let name = out.file_name().unwrap().to_str().unwrap();
    let left: Vec<_> =
        beside.map(|entry| entry.file_name()).filter(|left| left.to_string_lossy().contains(name)).collect();
    assert!(left.is_empty(), "no file is left: {left:?}");
}

/// Types it right, with a mistake that is taken back.
fn set_new(mut dialogue: Dialogue, question: &str, out: &Path) {
    dialogue.answer(question, &format!("wrong\x15{PASSPHRASE}x\x7f\r"));
    dialogue.answer("The same again: ", &format!("{PASSPHRASE}\r"));
    dialogue.worked();
    assert!(out.is_file());
}

/// The answers to the question for the passphrase of a backup that open nothing.
fn refuse_old(start: impl Fn() -> Dialogue) {
    let question = "Passphrase of the backup: ";
    for (keys, said) in [
        ("\r", "the passphrase is empty"),
        (CTRL_C, "nothing was changed"),
        ("other owls\r", "the passphrase is not the one it was made with"),
    ] {
        let mut dialogue = start();
        dialogue.answer(question, keys);
        dialogue.refused(said);
    }
}

fn prepared() -> Lab {
    Lab::prepare(&Options::of(&["alice"]))
}

#[test]
fn the_passphrase_of_an_identity_is_typed_twice_and_never_shown() {
    let lab = prepared();
    let alice = lab.host("alice");
    let out = lab.path().join("alice.backup");
    let path = out.to_str().unwrap();
    let question = "Passphrase for the backup of `lab`: ";
    let backup = || Dialogue::start(&alice.command(&["daemon", "backup", "--mesh", "lab", "--out", path]));
    refuse_new(backup, question, &out);
    set_new(backup(), question, &out);
    let other = Host::new("other", lab.path());
    let restore = || Dialogue::start(&other.command(&["daemon", "restore", "--in", path]));
    refuse_old(restore);
    assert!(!other.home().join(".claudemesh/config.json").exists(), "nothing was written");
    let mut right = restore();
    right.answer("Passphrase of the backup: ", &format!("{PASSPHRASE}\r"));
    right.worked();
    assert_eq!(other.member("pubkey"), alice.member("pubkey"));
}

#[test]
fn the_passphrase_of_a_house_is_typed_twice_and_never_shown() {
    let root = tempfile::tempdir().unwrap();
    let (user, home) = (root.path().join("user"), root.path().join("house"));
    fs::create_dir_all(&user).unwrap();
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("hostel.toml"), "# kept\n").unwrap();
    let out = root.path().join("kept.backup");
    let path = out.to_str().unwrap();
    let start = |home: &Path, words: &[&str]| {
        let mut command = Command::new(binary::hostel());
        house::set_base_environment(&mut command, &user);
        command.env("HOSTEL_HOME", home).args(words).current_dir(&user).stdin(Stdio::null());
        Dialogue::start(&command)
    };
    let question = "Passphrase for the backup of this house: ";
    let backup = || start(&home, &["backup", "--out", path]);
    refuse_new(backup, question, &out);
    set_new(backup(), question, &out);
    let second = root.path().join("second");
    let restore = || start(&second, &["restore", "--in", path]);
    refuse_old(restore);
    assert!(!second.exists(), "nothing was written");
    let mut right = restore();
    right.answer("Passphrase of the backup: ", &format!("{PASSPHRASE}\r"));
    right.worked();
    assert_eq!(fs::read_to_string(second.join("hostel.toml")).unwrap(), "# kept\n");
}

#[test]
fn what_cannot_be_undone_takes_the_name_of_the_mesh() {
    let lab = prepared();
    let alice = lab.host("alice");
    let (directory, question) = (alice.directory(), "Type `lab` to go on: ");
    let key = alice.member("pubkey");
    for verb in ["reset", "uninstall"] {
        for keys in ["\r", "y\r", "yes\r", "LAB\r", "lab2\r", "\x04"] {
            let mut dialogue = Dialogue::start(&alice.command(&["daemon", verb, "--mesh", "lab"]));
            dialogue.answer(question, keys);
            dialogue.refused("nothing was changed");
        }
        let mut dialogue = Dialogue::start(&alice.command(&["daemon", verb, "--mesh", "lab"]));
        dialogue.answer(question, CTRL_C);
        let (status, shown) = dialogue.ended();
        assert_eq!(status.signal(), Some(2), "{status}: {shown}");
        assert!(directory.is_dir() && alice.member("pubkey") == key, "nothing was changed");
    }
    fs::write(directory.join("roster.json"), "{}").unwrap();
    let mut dialogue = Dialogue::start(&alice.command(&["daemon", "reset", "--mesh", "lab"]));
    dialogue.answer(question, "lab\r");
    dialogue.worked();
    assert!(!directory.join("roster.json").exists() && alice.member("pubkey") == key);
    let mut dialogue = Dialogue::start(&alice.command(&["daemon", "uninstall", "--mesh", "lab"]));
    dialogue.answer(question, " lab \r");
    let shown = dialogue.worked();
    assert!(shown.contains("`lab` is gone from this host"), "{shown}");
    assert!(!directory.exists());
}

#[test]
fn recovering_asks_which_way_to_go() {
    let mut lab = Lab::start(&["alice"]);
    lab.host_mut("alice").stop();
    let alice = lab.host("alice");
    let path = alice.directory().join("outbox.db");
    for name in ["outbox.db-wal", "outbox.db-shm"] {
        fs::remove_file(alice.directory().join(name)).ok();
    }
    let damaged = vec![0x5a; 16 * 4096];
    fs::write(&path, &damaged).unwrap();
    let start = |more: &[&str]| {
        let words: Vec<&str> = ["daemon", "recover", "--mesh", "lab"].iter().chain(more).copied().collect();
        Dialogue::start(&alice.command(&words))
    };
    let question = "Which one [b/r/f/q]? ";
    for keys in ["q\r", "\r", "x\r", "B\r", "\x04"] {
        let mut dialogue = start(&[]);
        dialogue.answer("outbox.db: damaged", "");
        dialogue.answer(question, keys);
        dialogue.refused("nothing was changed");
    }
    let mut dialogue = start(&[]);
    dialogue.answer(question, CTRL_C);
    assert_eq!(dialogue.ended().0.signal(), Some(2));
    // A way that was named is asked about all the same.
    let mut dialogue = start(&["--fresh"]);
    dialogue.answer("Type `lab` to go on: ", "yes\r");
    dialogue.refused("nothing was changed");
    assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was changed");
    let mut dialogue = start(&[]);
    dialogue.answer(question, "r\r");
    assert!(dialogue.worked().contains("sends are refused until `daemon recover` is run again"));
    let mut dialogue = start(&[]);
    dialogue.answer("the daemon only reads", "");
    dialogue.answer(question, "b\r");
    dialogue.worked();
    assert_ne!(fs::read(&path).unwrap_or_default(), damaged);
    let mut dialogue = start(&["--fresh"]);
    dialogue.answer("Type `lab` to go on: ", "lab\r");
    dialogue.worked();
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
}
