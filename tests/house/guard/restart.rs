//! A daemon that is killed and started again is there for agents that run on: their view shows a directory, so they find
//! the new sockets in it.

use std::fs;

use hostel_tests::wait;
use rustix::process::Signal;

use super::place::Place;

#[test]
fn an_agent_in_the_middle_of_a_turn_reaches_the_next_daemon() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let (before, again, done) = (place.work().join("before"), place.work().join("again"), place.work().join("done"));
    let script = place.write(
        "work/turn.sh",
        &format!(
            "{hostel} ps >/dev/null && echo reached >{}\nuntil grep -q now {} 2>/dev/null; do sleep 0.05; done\n\
             {hostel} ps >/dev/null && test -S $HOSTEL_HOME/run/sudo.sock && echo reached again >{}\n",
            before.display(),
            again.display(),
            done.display(),
            hostel = place.hostel.display()
        ),
    );
    place.good(&["run", "--agent", "fake", "-d", &format!("tool sh {}", script.display())]);
    let holds = |path: &std::path::Path, text: &str| fs::read_to_string(path).is_ok_and(|found| found.contains(text));
    wait::eventually("the agent to reach the first daemon", || holds(&before, "reached"));
    let [daemon] = place.sandbox.daemons()[..] else { panic!("one daemon runs") };
    let agent = place.json(&["sessions"])["sessions"][0].clone();
    daemon.signal(Signal::KILL);
    wait::process_end(daemon, wait::LIMIT);
    place.start();
    // The new daemon knows which guard the old one gave it.
    let after = place.json(&["sessions"])["sessions"][0].clone();
    assert_eq!((&after["pid"], &after["guard"]), (&agent["pid"], &agent["guard"]));
    assert_eq!(after["guard"]["active"], "full");
    place.write("work/again", "now\n");
    wait::eventually("the agent to reach the second daemon", || holds(&done, "reached again"));
    wait::eventually("the turn to end", || place.json(&["sessions"])["sessions"][0]["status"] == "idle");
}
