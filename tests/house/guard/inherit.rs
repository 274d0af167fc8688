//! What a guarded agent has the house start: processes, sessions and git get a guard that is at least as strict as its own,
//! whichever way the agent asks. Judged by effect: whether the house can be seen.

use std::fs;
use std::process::Command;

use hostel_tests::process::run;
use hostel_tests::wait;
use rustix::process::Signal;

use super::missing::{can_be_without, without_namespaces};
use super::place::{Place, text};

/// What of the house a guarded process sees.
const VIEW: &str = "mesh-sessions\nrun";

/// A file that lists the house, for `sh`.
fn look(place: &Place) -> String {
    place.write("work/look.sh", "ls \"$HOSTEL_HOME\"\n").display().to_string()
}

/// Whether a list of the house is that of a guarded process. The directory of a session's token is seen by what belongs to
/// that session.
fn is_view(listed: &str) -> bool {
    let listed = listed.trim();
    listed == VIEW || listed == "run"
}

#[test]
fn a_process_that_a_guarded_agent_has_started_is_guarded() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let (hostel, look) = (place.hostel.display().to_string(), look(&place));
    let spawn = format!("{hostel} run -- sh {look}");
    let free = place.script_of("bare", &spawn);
    assert!(free.contains("state.db"), "the control: {free}");
    let listed = place.script(&spawn);
    assert!(is_view(&listed), "{listed}");
    // Nor does it gain privileges, signal what is outside, or lead out by its own children.
    let [daemon] = place.sandbox.daemons()[..] else { panic!("one daemon runs") };
    let nested = format!("{hostel} run -- {hostel} run -- sh {look}");
    let listed = place.script(&nested);
    assert!(is_view(&listed), "{listed}");
    let told = place.script(&format!(
        "{hostel} run -- sh -c 'kill -0 {} 2>/dev/null && echo signalled; grep NoNewPrivs /proc/self/status'",
        daemon.pid
    ));
    assert_eq!(told.split_whitespace().collect::<Vec<_>>(), ["NoNewPrivs:", "1"]);
    // A working directory in the house leads nowhere, and neither does a program there.
    place.write("hostel/tool.sh", "#!/bin/sh\ncat state.db\n");
    let told = place.script(&format!(
        "{hostel} run -- sh {0}/tool.sh 2>&1; cd {0} && {hostel} run -- cat state.db 2>&1; echo done",
        place.home().display()
    ));
    assert!(told.ends_with("done") && !told.contains("SQLite"), "{told}");
}

/// Orphans and processes that left their terminal session are known by nothing but that they are inside.
#[test]
fn an_orphan_of_a_guarded_agent_starts_nothing_without_a_guard() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let (out, client) = (place.work().join("orphan"), place.work().join("client"));
    let look = look(&place);
    let script = place.write("work/orphan.sh", &format!("sh {look} >{0}.new 2>&1; mv {0}.new {0}\n", out.display()));
    // It may start processes, and none of them is its own afterwards: it cannot follow what they print.
    place.script(&format!(
        "setsid -f sh -c '(sleep 0; {} run -d -- sh {} >{} 2>&1) &' </dev/null >/dev/null 2>&1",
        place.hostel.display(),
        script.display(),
        client.display()
    ));
    let listed = wait::eventually("the orphan's process", || fs::read_to_string(&out).ok());
    assert!(is_view(&listed), "{listed}");
}

/// The launcher runs with the variables of the request before there is a guard.
#[test]
fn variables_do_not_lead_around_the_guard() {
    let mut place = Place::new();
    let runtime = place.path().join("bus");
    place.write("bus/socket", "of the owner");
    place.variable("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
    place.start();
    if !place.is_full() {
        return;
    }
    let hostel = place.hostel.display().to_string();
    let listing = format!("{hostel} run -- ls {0}; XDG_RUNTIME_DIR=/nowhere {hostel} run -- ls {0}", runtime.display());
    let free = place.script_of("bare", &listing);
    assert_eq!(free.matches("socket").count(), 2, "the control: {free}");
    let told = place.script(&listing);
    assert!(!told.lines().any(|line| line == "socket"), "{told}");
    // A library that the linker would load into the launcher.
    let source = place.write(
        "work/spy.c",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void spy(void) {\n\
           char path[4096]; FILE *log = fopen(getenv(\"SPY_LOG\"), \"a\");\n\
           snprintf(path, sizeof path, \"%s/state.db\", getenv(\"HOSTEL_HOME\"));\n\
           if (log) { fprintf(log, \"%s\\n\", access(path, F_OK) == 0 ? \"seen\" : \"hidden\"); fclose(log); }\n}\n",
    );
    let library = source.with_extension("so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let compiled = run(compile);
    assert!(compiled.status.success(), "cc: {}", text(&compiled));
    place.own(&place.work());
    let loaded = |agent: &str| {
        let log = place.work().join(format!("spied-{agent}"));
        let script = format!("LD_PRELOAD={} SPY_LOG={} {hostel} run -- true", library.display(), log.display());
        place.script_of(agent, &script);
        fs::read_to_string(log).unwrap()
    };
    assert!(loaded("bare").contains("seen"), "the control");
    let spied = loaded("fake");
    assert!(!spied.contains("seen"), "it was loaded outside the guard: {spied}");
    // Once into the client, and once into the program itself, which keeps its variables.
    assert_eq!(spied.matches("hidden").count(), 2, "{spied}");
}

/// A session has the stricter guard of its agent's and its maker's, for all its life.
#[test]
fn a_session_that_a_guarded_agent_made_is_guarded_also_after_a_restart() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let (hostel, look) = (place.hostel.display().to_string(), look(&place));
    let run = format!("{hostel} run --agent bare --name made 'tool sh {look}'");
    let said = place.script(&run);
    assert!(said.contains(VIEW) && !said.contains("state.db"), "{said}");
    let shown = |name: &str| {
        let all = place.json(&["sessions"])["sessions"].clone();
        let found = all.as_array().unwrap().iter().find(|session| session["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("{all}"))
    };
    assert_eq!(shown("made")["guard"]["active"], "full", "{}", shown("made"));
    kill_daemon(&place);
    place.start();
    // Its owner goes on with it: what it was made with counts still.
    let said = place.good(&["send", "--wait", "made", &format!("tool sh {look}")]);
    assert!(said.contains(VIEW) && !said.contains("state.db"), "{said}");
    // The same agent outside is what the settings say.
    assert!(place.script_of("bare", &format!("sh {look}")).contains("state.db"));
}

/// A process of a guarded agent that starts another one once it is told to, and what that one printed.
struct Waiting {
    done: std::path::PathBuf,
}

impl Waiting {
    fn start(place: &Place) -> Self {
        let (again, done) = (place.work().join("again"), place.work().join("done"));
        let (hostel, look) = (place.hostel.display(), look(place));
        let script = format!(
            "until test -e {0}; do sleep 0.05; done\n{hostel} run -- sh {look} >{1}.new 2>&1; mv {1}.new {1}\n",
            again.display(),
            done.display()
        );
        let script = place.write("work/waiting.sh", &script);
        place.script(&format!("{hostel} run -d --name waiting -- sh {}", script.display()));
        Waiting { done }
    }

    fn go_on(&self, place: &Place) -> String {
        place.write("work/again", "now");
        wait::eventually("the process to start another one", || fs::read_to_string(&self.done).ok())
    }
}

fn kill_daemon(place: &Place) {
    let [daemon] = place.sandbox.daemons()[..] else { panic!("one daemon runs") };
    daemon.signal(Signal::KILL);
    wait::process_end(daemon, wait::LIMIT);
}

/// The label of a process says which guard it has, so that a later daemon knows as well.
#[test]
fn what_was_started_before_a_restart_starts_nothing_without_a_guard_after_it() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let waiting = Waiting::start(&place);
    kill_daemon(&place);
    place.start();
    let listed = waiting.go_on(&place);
    assert!(is_view(&listed), "{listed}");
}

/// Where the machine allows less than whoever asks has, nothing is started.
#[test]
fn a_guarded_agent_starts_nothing_where_its_guard_cannot_be_made_any_more() {
    let place = Place::up("", "");
    if !place.is_full() || !can_be_without(&place) {
        return;
    }
    let waiting = Waiting::start(&place);
    kill_daemon(&place);
    let up = run(without_namespaces(&place, &["up"]));
    assert!(up.status.success(), "{}", text(&up));
    let told = waiting.go_on(&place);
    assert!(told.contains("does not allow it any more"), "{told}");
}
