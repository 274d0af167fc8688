//! What was shown is what runs: files that are swapped after they were shown, by an ordinary user's processes.
//!
//! Each attack is judged by its effect, and each has a case beside it in which nobody attacks.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hostel_tests::house::path_text;
use serde_json::json;

use crate::user::{PASSWORD, QUESTION, User};

/// Replaces bytes of a file through a mapping that was made before the file was shown: neither its inode nor its size nor
/// its times change. Waits for a line of its input before each step.
const SWAP: &str = "import mmap, os, sys\n\
path, good, evil = sys.argv[1:]\n\
f = open(path, 'r+b')\n\
m = mmap.mmap(f.fileno(), 0)\n\
at = m.find(good.encode())\n\
m[at:at + len(good)] = good.encode()\n\
before = os.stat(path)\n\
print('mapped', flush=True)\n\
sys.stdin.readline()\n\
m[at:at + len(evil)] = evil.encode()\n\
m.close(); f.close()\n\
after = os.stat(path)\n\
same = all(getattr(before, n) == getattr(after, n) for n in ('st_ino', 'st_size', 'st_mtime_ns', 'st_ctime_ns'))\n\
print('swapped', 'unseen' if same else 'seen', flush=True)\n";

/// The attacker.
struct Swapper {
    child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Swapper {
    fn map(user: &User, path: &str, good: &str, evil: &str) -> Self {
        use std::io::BufRead as _;
        let mut command = user.command(&["python3", "-c", SWAP, path, good, evil]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "mapped");
        Self { child, lines }
    }

    /// Swaps; whether the times of the file say so.
    fn swap(mut self) -> String {
        use std::io::Write as _;
        self.child.stdin.take().unwrap().write_all(b"now\n").unwrap();
        let said = self.lines.next().unwrap().unwrap();
        self.child.wait().unwrap();
        said
    }
}

/// A directory of the user's in memory, and one on disk.
fn places(user: &User) -> [tempfile::TempDir; 2] {
    let owner = fs::metadata(user.home()).unwrap();
    [Path::new("/dev/shm"), Path::new("/var/tmp")].map(|place| {
        let directory = tempfile::tempdir_in(place).unwrap();
        std::os::unix::fs::chown(directory.path(), Some(std::os::unix::fs::MetadataExt::uid(&owner)), None).unwrap();
        directory
    })
}

#[test]
fn bytes_that_are_swapped_through_a_mapping_do_not_run() {
    let Some(mut user) = User::start("") else { return };
    for (number, place) in places(&user).iter().enumerate() {
        let tool = place.path().join("tool");
        // Larger than a script needs to be, so that some pages are never looked at by accident.
        let script = format!("#!/bin/sh\n# {}\necho good\n", "x".repeat(20_000));
        fs::write(&tool, &script).unwrap();
        assert!(Command::new("chmod").args(["-R", "a+rwx", path_text(place.path())]).status().unwrap().success());
        let tool = path_text(&tool);
        let swapper = Swapper::map(&user, tool, "echo good", "echo evil");
        let unprivileged = json!({"privileged": false});
        // Shown once before, so that nothing has to be read for the second time it is shown.
        let asked = user.ask(&format!("before-{number}"), &[tool], &unprivileged);
        let shown = user.see(QUESTION);
        user.press("y");
        assert_eq!(asked.answer()["stdout"], "good\n");
        assert!(shown.contains("can change this file"), "{shown}");
        let asked = user.ask(&format!("swapped-{number}"), &[tool], &unprivileged);
        user.see(QUESTION);
        let said = swapper.swap();
        assert!(number > 0 || said == "swapped unseen", "the attack is what it claims to be: {said}");
        user.press("y");
        let answer = asked.answer();
        assert_eq!(answer["status"], "error", "{answer}");
        assert!(answer["message"].as_str().unwrap().ends_with("has another content now"), "{answer}");
    }
}

#[test]
fn root_runs_what_the_requester_can_change_only_after_that_was_confirmed() {
    let Some(mut user) = User::start("") else { return };
    let tool = user.program("tool", "#!/bin/sh\necho good\n");
    // A key is not enough.
    let asked = user.ask("key", &[&tool], &json!({}));
    let shown = user.see(QUESTION);
    assert!(shown.contains("the requester can change this file: user "), "{shown}");
    user.press("y");
    user.see("Type changeable to run it all the same, anything else denies: ");
    user.press("y\r");
    assert_eq!(asked.answer()["status"], "denied");
    // Nor is it for whoever gives the tool to an interpreter, or writes another first line.
    for (id, argv) in [("bash", vec!["bash", tool.as_str()]), ("text", vec!["sh", "-c", &format!("exec {tool}")])] {
        let asked = user.ask(id, &argv, &json!({}));
        user.see(QUESTION);
        user.press("y");
        user.see("anything else denies: ");
        user.press("\x1b");
        assert_eq!(asked.answer()["status"], "denied");
    }
    // Confirmed, it runs, and the record says that it was.
    let asked = user.ask("word", &[&tool], &json!({}));
    user.see(QUESTION);
    user.press("y");
    user.see("anything else denies: ");
    user.press("changeable\r");
    user.see("Password: ");
    user.press(&format!("{PASSWORD}\r"));
    assert_eq!(asked.answer()["stdout"], "good\n");
    let house = user.house();
    let audit = user.command(&["./hostel", "--home", path_text(&house), "audit", "show", "--json"]).output().unwrap();
    let audit = String::from_utf8_lossy(&audit.stdout);
    assert!(audit.contains("allow_changeable") && audit.contains("user "), "{audit}");
    // Swapped while the password is typed: it does not run.
    let asked = user.ask("late", &[&tool], &json!({}));
    let swapper = Swapper::map(&user, &tool, "good", "evil");
    user.see(QUESTION);
    user.press("y");
    user.see("anything else denies: ");
    user.press("changeable\r");
    user.see("Password: ");
    swapper.swap();
    user.press(&format!("{PASSWORD}\r"));
    user.see("The password was not passed on: ");
    let answer = asked.answer();
    assert!(!answer.to_string().contains("evil") && answer["stages"][0]["exit_code"] != 0, "{answer}");
    // What only root can change needs no word.
    let asked = user.ask("roots", &["id", "-un"], &json!({}));
    let shown = user.agree();
    assert!(!shown.contains("can change"), "{shown}");
    assert_eq!(asked.answer()["stdout"], "root\n");
}

#[test]
fn an_interpreter_that_is_swapped_does_not_run() {
    let Some(mut user) = User::start("") else { return };
    let interpreter = user.program("interpreter", "#!/bin/sh\necho good\n");
    let script = user.program("script", &format!("#!{interpreter}\n"));
    let by_env = user.program("by-env", "#!/usr/bin/env -S sh -e\necho by env\n");
    let unprivileged = json!({"privileged": false});
    let asked = user.ask("control", &[&script], &unprivileged);
    let shown = user.see(QUESTION);
    assert!(shown.contains(&format!("Run by:   {interpreter}")) && shown.contains("Run by:   /bin/sh"), "{shown}");
    user.press("y");
    assert_eq!(asked.answer()["stdout"], "good\n");
    let asked = user.ask("env", &[&by_env], &unprivileged);
    let shown = user.see(QUESTION);
    assert!(shown.contains("Run by:   /usr/bin/env") && shown.contains("sh"), "{shown}");
    user.press("y");
    assert_eq!(asked.answer()["stdout"], "by env\n");
    let asked = user.ask("swapped", &[&script], &unprivileged);
    user.see(QUESTION);
    user.program("interpreter", "#!/bin/sh\necho evil\n");
    user.press("y");
    let answer = asked.answer();
    assert_eq!(answer["status"], "error", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("the interpreter of the script is not what was shown"));
}

/// Writes other words over the rest of a script while its shell waits at the first line.
fn rewrite_while_it_runs(user: &mut User, id: &str, argv: &[&str], script: &str) -> String {
    let gate = user.home().join(format!("{id}-gate"));
    assert!(user.command(&["mkfifo", path_text(&gate)]).status().unwrap().success());
    // Longer than what a shell reads ahead, so that it has not read the last line while it waits.
    let text =
        |word: &str| format!("#!/bin/sh\nread -r line <{}\n# {}\necho {word}\n", gate.display(), "x".repeat(20_000));
    let path = user.program(script, &text("good"));
    let argv: Vec<&str> = argv.iter().map(|word| if *word == "SCRIPT" { path.as_str() } else { word }).collect();
    let asked = user.ask(id, &argv, &json!({"privileged": false}));
    user.see(QUESTION);
    user.press("y");
    user.see("→ Approved");
    // Somebody reads the gate once the script runs; opening it waits for that.
    let open = format!("exec 3>{}; printf %s \"$1\" >{path}; echo >&3", gate.display());
    assert!(user.command(&["sh", "-c", &open, "sh", &text("evil")]).status().unwrap().success());
    asked.answer()["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn a_script_that_is_rewritten_while_it_runs_runs_as_it_was_shown() {
    let Some(mut user) = User::start("") else { return };
    assert_eq!(rewrite_while_it_runs(&mut user, "sealed", &["SCRIPT"], "one"), "good\n");
    // The attack is what it claims to be: a shell that opens the file itself runs what stands there by then.
    assert_eq!(rewrite_while_it_runs(&mut user, "open", &["sh", "SCRIPT"], "two"), "evil\n");
}

#[test]
fn a_script_that_uses_its_own_path_still_finds_what_lies_beside_it() {
    let Some(mut user) = User::start("") else { return };
    fs::write(user.home().join("beside"), "beside\n").unwrap();
    for (id, content) in [
        ("shell", "#!/bin/sh\ncat \"$(dirname \"$0\")/beside\"\necho \"$1\"\n"),
        (
            "python",
            "#!/usr/bin/env python3\nimport os, sys\nprint(open(os.path.join(os.path.dirname(__file__), 'beside'))\
             .read() + sys.argv[1])\n",
        ),
    ] {
        let script = user.program(id, content);
        let asked = user.ask(id, &[&script, "word"], &json!({"privileged": false}));
        user.see(QUESTION);
        user.press("y");
        assert_eq!(asked.answer()["stdout"], "beside\nword\n", "{id}");
    }
}

#[test]
fn a_binary_of_the_requesters_runs_by_its_descriptor() {
    let Some(mut user) = User::start("") else { return };
    let copy = user.home().join("copy");
    fs::copy("/bin/cat", &copy).unwrap();
    let path = path_text(&copy).to_owned();
    user.program("copy", "");
    fs::copy("/bin/cat", &copy).unwrap();
    let asked = user.ask("cat", &[&path, "/etc/hostname"], &json!({"privileged": false}));
    user.see(QUESTION);
    user.press("y");
    assert_eq!(asked.answer()["stdout"], fs::read_to_string("/etc/hostname").unwrap());
    // Another file under the same name.
    let asked = user.ask("renamed", &[&path, "/etc/hostname"], &json!({"privileged": false}));
    user.see(QUESTION);
    fs::copy("/bin/echo", user.home().join("other")).unwrap();
    fs::rename(user.home().join("other"), &copy).unwrap();
    user.press("y");
    let answer = asked.answer();
    assert!(answer["message"].as_str().is_some_and(|text| text.ends_with("is another file now")), "{answer}");
}

/// Puts code of the user's where every Python of that user runs it.
fn plant_customization(user: &User) -> std::path::PathBuf {
    let witness = user.home().join("witness");
    let plant = "import os, site\n\
                 place = site.getusersitepackages()\n\
                 os.makedirs(place, exist_ok=True)\n\
                 open(place + '/usercustomize.py', 'w').write('import os\\n\
                 if os.getuid() == 0:\\n    open(' + repr(os.path.expanduser('~/witness')) + ', \"w\").write(\"root\")\\n')\n";
    let mut planting = user.command(&["env", &format!("HOME={}", user.home().display()), "python3", "-c", plant]);
    assert!(planting.status().unwrap().success());
    witness
}

#[test]
fn root_does_not_read_the_requesters_home() {
    let Some(mut user) = User::start("") else { return };
    let witness = plant_customization(&user);
    let print = "import os; print(os.environ['HOME'], os.environ['USER'], os.environ['LOGNAME'])";
    let home = path_text(user.home()).to_owned();
    for (id, more) in [("plain", json!({})), ("brought", json!({"env": {"HOME": home}}))] {
        let asked = user.ask(id, &["python3", "-c", print], &more);
        let shown = user.agree();
        assert!(shown.contains("Env:     HOME=/root LOGNAME=root PATH=") && shown.contains(" USER=root"), "{shown}");
        assert_eq!(asked.answer()["stdout"], "/root root root\n", "{id}");
        assert!(!witness.exists(), "code of the user ran as root");
    }
    // A command that does not run as root keeps the user's.
    let asked = user.ask("own", &["python3", "-c", print], &json!({"privileged": false}));
    user.see(QUESTION);
    user.press("y");
    assert!(asked.answer()["stdout"].as_str().unwrap().starts_with(&home));
}

#[test]
fn the_contracts_home_is_a_setting_and_the_attack_is_real() {
    let Some(mut user) = User::start("[doors.sudo-proxy]\nkeep_user_for_root = true\n") else { return };
    let witness = plant_customization(&user);
    let asked = user.ask("kept", &["python3", "-c", "pass"], &json!({}));
    let shown = user.agree();
    assert!(shown.contains(&format!("Env:     HOME={}", user.home().display())), "{shown}");
    assert_eq!(asked.answer()["status"], "ok");
    assert_eq!(fs::read_to_string(&witness).ok().as_deref(), Some("root"));
}
