//! What is one's own stays so when the daemon is killed.

use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::json;

use super::attempts::base64;
use super::home::Home;

#[test]
fn what_a_process_inside_started_and_made_is_its_own_after_a_restart() {
    let home = Home::start("");
    let inside = home.hosted("first", "exec $RELAY");
    let other = home.hosted("second", "exec $RELAY");
    let spawned = inside.native().ask("process/spawn", json!({"argv": ["cat"], "name": "own"}));
    let made = inside.native().ask("session/new", json!({"agent_alias": "echo", "cwd": home.work()}));
    let session = made["session_id"].clone();
    let (foreign, question) = home.owners_session();
    let agent = home.agent_process(&foreign);
    let lock = std::fs::read_to_string(home.socket("daemon.lock")).expect("a lock");
    let daemon = Identity::of(lock.trim().parse().expect("a pid")).expect("a daemon");
    daemon.signal(Signal::KILL);
    daemon.wait_gone(wait::LIMIT);
    home.up();
    let stdin = json!({"id": spawned["id"], "data": base64(b"hello\n")});
    assert!(other.native().call("process/stdin", stdin.clone()).get("error").is_some());
    assert_eq!(inside.native().ask("process/stdin", stdin)["applied"], 6);
    assert!(other.native().call("session/messages", json!({"session_id": session})).get("error").is_some());
    inside.native().ask("session/messages", json!({"session_id": session}));
    // An agent's input is the house's own, still.
    for doors in [&inside, &home.owner()] {
        let answer = doors.native().call("process/stdin", json!({"id": agent, "data": base64(b"yes\n")}));
        assert!(answer.get("error").is_some(), "{answer}");
    }
    let kept = home.native().ask("approval/get", json!({"id": question}));
    assert_eq!(kept["approval"]["state"], "pending");
}
