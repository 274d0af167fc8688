//! Attacks by an agent, each judged by what it did to the house and to a program outside.
//!
//! Every attack is made twice: by an agent without a guard, for whom it works (or the test proves nothing), and by one
//! with a guard.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use hostel_tests::wait;
use serde_json::Value;

use super::place::Place;

/// What does not work for an agent without a guard either: there is nothing of that name, another user owns it, or the
/// machine has no such thing.
const NEVER: [&str; 3] = ["reach the owner's socket", "uncover the house", "leave the group of processes"];

/// What may work or not for an agent without a guard, depending on the machine: whether processes can be traced, what a
/// namespace may do, whose the files of groups and of the program are, whether a directory can be moved.
const DEPENDS: [&str; 12] = [
    "trace another process",
    "read the memory of another process by its file",
    "enter the namespace of another process",
    "uncover it in a nested namespace",
    "bind around it in a nested namespace",
    "move everything away in a nested namespace",
    "replace the directory above the house",
    "change our own program",
    "replace our own program",
    "reach the keeper",
    "read by a descriptor of another process",
    "leave the group of processes",
];

/// A program of the user that the attacks aim at.
struct Victim {
    child: Child,
    input: ChildStdin,
    facts: Value,
    said: Arc<Mutex<Vec<String>>>,
}

impl Victim {
    fn start(place: &Place) -> Self {
        let script = place.write("victim.py", include_str!("victim.py"));
        place.write("private/secret", "a secret of the person\n");
        let mut command = place.command("python3");
        command.arg(script).arg(place.path().join("private")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let facts = lines.next().expect("a line").expect("a text");
        let facts = serde_json::from_str(&facts).unwrap_or_else(|_| panic!("{facts}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line)));
        Victim { input: child.stdin.take().unwrap(), child, facts, said }
    }

    /// What has happened to it since the last time, once it has said everything.
    fn effects(&mut self) -> Vec<String> {
        self.input.write_all(b"\n").unwrap();
        wait::eventually("the victim to tell of its memory", || {
            let mut said = self.said.lock().unwrap();
            let told = said.iter().any(|line| line.starts_with("memory "));
            told.then(|| std::mem::take(&mut *said))
        })
    }

    fn end(self) {
        let Victim { mut child, input, .. } = self;
        drop(input);
        wait::end_of(&mut child, "the victim");
    }
}

fn attack(place: &Place, victim: &Victim, agent: &str) -> Value {
    let script = place.write("work/attacks.py", include_str!("attacks.py"));
    let facts = place.write("work/facts.json", &victim.facts.to_string());
    let told = place.told(
        agent,
        &format!(
            "python3 {} \"$(cat {})\" {} {} {}",
            script.display(),
            facts.display(),
            place.home().display(),
            place.sandbox.home().display(),
            place.hostel.display()
        ),
    );
    serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"))
}

fn prepare() -> Place {
    let place = Place::new();
    place.write("home/.claudemesh/config.json", "{\"meshes\":[]}");
    place.write("home/.ssh/authorized_keys", "");
    place.write("hostel/approver", "a digest");
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
    // The victim stands in the house, so that its working directory leads there.
    std::os::unix::fs::symlink(place.home().join("state.db"), place.path().join("private-state")).unwrap();
    place.write("private/state.db", "SQLite");
    place.start();
    place
}

#[test]
fn what_works_for_an_agent_without_a_guard_does_not_for_one_with_it() {
    let place = prepare();
    if !place.is_full() {
        return;
    }
    let mut victim = Victim::start(&place);
    let bare = attack(&place, &victim, "bare");
    let happened = victim.effects();
    for (name, worked) in bare["effects"].as_object().unwrap() {
        if !NEVER.contains(&name.as_str()) && !DEPENDS.contains(&name.as_str()) {
            assert_eq!(*worked, true, "without a guard: {name}: {}", bare["reasons"][name]);
        }
    }
    for effect in ["connected abstract", "connected runtime", "connected tmux", "terminal written", "signalled"] {
        assert!(happened.iter().any(|line| line == effect), "without a guard: {effect}: {happened:?}");
    }
    let guarded = attack(&place, &victim, "fake");
    for (name, worked) in guarded["effects"].as_object().unwrap() {
        assert_eq!(*worked, false, "with a guard: {name}");
    }
    assert_eq!(guarded["effects"].as_object().unwrap().len(), bare["effects"].as_object().unwrap().len());
    let happened = victim.effects();
    assert!(happened.iter().all(|line| line.starts_with("memory ")), "with a guard: {happened:?}");
    // The house has not noticed anything, because nothing reached it.
    assert!(place.home().join("state.db").exists());
    assert_eq!(place.active(), "full");
    victim.end();
}

/// Whoever ends the daemon from inside would at least disturb everybody else.
#[test]
fn a_guarded_agent_ends_neither_the_daemon_nor_the_keeper() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let (daemons, keepers) = (place.sandbox.daemons(), place.sandbox.keepers());
    let pids: Vec<String> = daemons.iter().chain(&keepers).map(|process| process.pid.to_string()).collect();
    assert_eq!(pids.len(), 2);
    let told = place.script(&format!("kill -KILL {} 2>/dev/null || echo refused", pids.join(" ")));
    assert_eq!(told.trim(), "refused");
    assert!(daemons.iter().chain(&keepers).all(|process| process.alive()));
    // Nor does it gain a privilege by executing something.
    assert_eq!(place.script("grep NoNewPrivs /proc/self/status").split_whitespace().last(), Some("1"));
}

/// Two agents are strangers to each other.
#[test]
fn a_guarded_agent_reaches_no_other_agent() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let note = place.work().join("pid");
    place.good(&["run", "--agent", "fake", "-d", &format!("tool echo $$ >{} && exec sleep 600", note.display())]);
    let pid = wait::eventually("the first agent to work", || {
        let text = fs::read_to_string(&note).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    });
    let script = format!(
        "kill -0 {pid} 2>/dev/null && echo signalled; cat /proc/{pid}/environ 2>/dev/null | head -c 1; \
         ls /proc/{pid}/root/ 2>/dev/null; ls $HOSTEL_HOME/mesh-sessions | wc -l"
    );
    // Of the tokens in meshes each sees its own alone.
    assert_eq!(place.script(&script), "1");
    assert!(place.script_of("bare", &script).starts_with("signalled"));
}

/// Root can do much to a machine, but a guarded agent of root's does not see the house and keeps no capability by which
/// it would.
#[test]
fn an_agent_of_root_does_not_see_the_house_either() {
    if !rustix::process::geteuid().is_root() {
        return hostel_tests::skip("a house of root's takes root");
    }
    let place = Place::of_root();
    place.start();
    if !place.is_full() {
        return;
    }
    let [daemon] = place.sandbox.daemons()[..] else { panic!("one daemon runs") };
    let script = format!(
        "ls $HOSTEL_HOME; umount $HOSTEL_HOME 2>/dev/null && echo uncovered; nsenter -t {0} -m true 2>/dev/null && echo entered; \
         kill -0 {0} 2>/dev/null && echo signalled; head -c 1 /proc/{0}/environ 2>/dev/null; \
         test -w /proc/sys/kernel/core_pattern && echo writable; mknod disk b 8 0 2>/dev/null && echo device; \
         touch mine && chown 12345:12345 mine && stat -c %u mine && rm mine; id -u",
        daemon.pid
    );
    assert_eq!(place.script(&script), "mesh-sessions\nrun\n12345\n0");
}
