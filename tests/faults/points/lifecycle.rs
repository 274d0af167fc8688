//! The daemon killed while somebody makes, changes, stops or ends a session: what is on disk counts, once.

use hostel_tests::procfs::Identity;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{die_while_asked, die_while_starting, has_points, restart_after_death, until};
use crate::sessions::events::{self, Turn};
use crate::sessions::native::{Native, Trouble};
use crate::sessions::resident::Resident;

pub(super) const POINTS: &[&str] = &[
    "house.session.created",
    "house.session.named",
    "house.session.changed",
    "house.mail.policy",
    "house.session.learned",
    "house.events.idle-read",
    "house.turn.stopped",
    "house.turn.cancelled",
    "house.turn.cancel-told",
    "house.turn.restarted",
    "house.session.archived",
    "house.process.ended",
    "house.session.revived",
    "house.session.killed",
    "house.session.erased",
    "house.session.addresses-assigned",
    "doors.attachment.stored",
];

#[test]
fn sessions_are_what_they_were_told_to_be() {
    if !has_points() {
        return;
    }
    let mut house = Resident::start_with_points("");
    for point in POINTS {
        match *point {
            "house.session.created" => created(&mut house, point),
            "house.session.named" => configured(&mut house, point, "name", "wanted", "name"),
            "house.session.changed" => configured(&mut house, point, "mode", "plan", "mode"),
            "house.mail.policy" => configured(&mut house, point, "mesh", "on", "mesh"),
            "house.session.learned" => answered(&mut house, point, "claude", "say hello", "hello"),
            "house.events.idle-read" => idle(&mut house, point),
            "house.turn.stopped" => stopped(&mut house, point),
            "house.turn.cancelled" | "house.turn.cancel-told" => cancelled(&mut house, point),
            "house.turn.restarted" => restarted(&mut house, point),
            "house.session.archived" | "house.process.ended" => archived(&mut house, point),
            "house.session.revived" => revived(&mut house, point),
            "house.session.killed" => killed(&mut house, point),
            "house.session.erased" => erased(&mut house, point),
            "house.session.addresses-assigned" => addressed(&mut house, point),
            _ => attached(&mut house, point),
        }
    }
}

fn echo(house: &Resident) -> String {
    house.native().make(json!({"agent_alias": "echo", "cwd": house.work(), "mode": "auto"}))
}

fn sessions(native: &mut Native) -> Vec<Value> {
    native.ask("session/list", json!({"all": true, "limit": 1000}))["sessions"].as_array().expect("a list").clone()
}

fn works(house: &Resident, session: &str) {
    let ended = house.native().prompt(session, "hello");
    assert_eq!(ended["outcome"], "completed", "{ended}");
}

fn created(house: &mut Resident, point: &str) {
    let mut native = house.native();
    let before = sessions(&mut native);
    let work = house.work();
    die_while_asked(house, point, &mut native, "session/new", json!({"agent_alias": "echo", "cwd": work}));
    let mut after = sessions(&mut house.native());
    after.retain(|session| !before.iter().any(|known| known["session_id"] == session["session_id"]));
    assert_eq!(after.len(), 1, "one session was made: {after:?}");
    works(house, after[0]["session_id"].as_str().expect("an id"));
}

fn configured(house: &mut Resident, point: &str, key: &str, value: &str, shown: &str) {
    let session = echo(house);
    let mut native = house.native();
    die_while_asked(house, point, &mut native, "session/configure", json!({"session_id": session, key: value}));
    let listed = house.native().listed(&session).expect("a list");
    assert_eq!(listed[shown], value, "{listed}");
    works(house, &session);
}

/// A daemon that takes over a warm process reads again what that one said without being asked.
fn idle(house: &mut Resident, point: &str) {
    let session = echo(house);
    works(house, &session);
    house.kill();
    die_while_starting(house, point);
    house.serve();
    works(house, &session);
    assert_eq!(events::turns_of(&mut house.native(), &session).len(), 2, "{point}");
}

/// The first prompt of a session is put once and answered once.
fn answered(house: &mut Resident, point: &str, agent: &str, prompt: &str, answer: &str) {
    let work = house.work();
    let session = house.native().make(json!({"agent_alias": agent, "cwd": work, "mode": "auto"}));
    house.points().kill_next(point);
    let mut native = house.native();
    native.begin("session/send", json!({"session_id": session, "prompt": prompt})).expect("a request");
    restart_after_death(house, point);
    let turns = events::turns_of(&mut house.native(), &session);
    assert_eq!(turns.len(), 1, "{point}: {turns:?}");
    assert_eq!(turns[0].outcome, "completed", "{point}: {turns:?}");
    assert_eq!(turns[0].pieces.concat(), answer, "{point}: {turns:?}");
    works(house, &session);
}

fn last_two(house: &Resident, session: &str) -> Vec<Turn> {
    let turns = events::turns_of(&mut house.native(), session);
    assert_eq!(turns.len(), 2, "{turns:?}");
    turns
}

fn stopped(house: &mut Resident, point: &str) {
    let session = echo(house);
    let mut native = house.native();
    native.attach(&session, 0, true).expect("a session to attach to");
    native.send(&session, "sleep 200");
    native.update_of("agent_message_chunk");
    die_while_asked(house, point, &mut native, "session/cancel", json!({"session_id": session}));
    house.native().send(&session, "hello");
    let turns = last_two(house, &session);
    assert_eq!((turns[0].outcome.as_str(), turns[1].outcome.as_str()), ("cancelled", "completed"), "{turns:?}");
}

/// A prompt that waits is cancelled together with the one that runs.
fn cancelled(house: &mut Resident, point: &str) {
    let session = echo(house);
    let mut native = house.native();
    native.attach(&session, 0, true).expect("a session to attach to");
    native.send(&session, "sleep 200");
    native.update_of("agent_message_chunk");
    native.send(&session, "hello");
    house.points().kill_next(point);
    let asked = native.begin("session/interrupt", json!({"session_id": session})).expect("a request");
    restart_after_death(house, point);
    if point == "house.turn.cancelled" {
        assert_eq!(native.finish(asked), Err(Trouble::Lost), "nobody was told");
        // The kill came before the running turn was stopped: only what waited is cancelled.
        house.native().ask("session/cancel", json!({"session_id": session}));
    }
    let turns = last_two(house, &session);
    assert!(turns.iter().all(|turn| turn.outcome == "cancelled"), "{turns:?}");
    assert_eq!(turns[1].prompt, "", "the prompt that waited was put: {turns:?}");
    works(house, &session);
}

/// The warm process dies after its next turn has begun in the database and before its prompt is put.
fn restarted(house: &mut Resident, point: &str) {
    let work = house.work();
    let session = house.native().make(json!({"agent_alias": "claude", "cwd": work, "mode": "auto"}));
    house.native().prompt(&session, "say before");
    let process: Identity = house.process_of(&session);
    house.points().hold_next("house.turn.started");
    let mut native = house.native();
    native.begin("session/send", json!({"session_id": session, "prompt": "say once"})).expect("a request");
    house.points().met();
    process.signal(Signal::KILL);
    process.wait_gone(hostel_tests::wait::LIMIT);
    // A daemon that does not know yet gives the prompt to the dead process: then the turn fails, as it may have been read.
    hostel_tests::wait::eventually("the daemon to know of the death", || {
        let list = house.native().ask("process/list", json!({}));
        let ours = list["processes"].as_array().expect("a list").iter().find(|listed| listed["pid"] == process.pid);
        match ours {
            Some(listed) if listed["exit_code"].is_null() => Err(listed.to_string()),
            _ => Ok(()),
        }
    });
    house.points().release_and_kill_next(point);
    restart_after_death(house, point);
    let turns = last_two(house, &session);
    assert_eq!((turns[1].outcome.as_str(), turns[1].pieces.concat().as_str()), ("completed", "once"), "{turns:?}");
    let put = house.cli_prompts().iter().filter(|prompt| *prompt == "say once").count();
    assert_eq!(put, 1, "the prompt was put {put} times");
}

fn archived(house: &mut Resident, point: &str) {
    let session = echo(house);
    works(house, &session);
    let process = house.process_of(&session);
    let mut native = house.native();
    die_while_asked(house, point, &mut native, "session/close", json!({"session_id": session}));
    let refused = house.native().call("session/send", json!({"session_id": session, "prompt": "hello"}));
    assert!(matches!(refused, Err(Trouble::Refused(..))), "{refused:?}");
    until("the process of a closed session to end", || !process.alive());
    assert_eq!(house.native().listed(&session).expect("a list")["turns"], 1);
}

fn revived(house: &mut Resident, point: &str) {
    let session = echo(house);
    works(house, &session);
    house.native().ask("session/close", json!({"session_id": session}));
    let (mut native, work) = (house.native(), house.work());
    let new = json!({"agent_alias": "echo", "cwd": work, "session_id": session});
    die_while_asked(house, point, &mut native, "session/new", new.clone());
    house.native().ask("session/new", new);
    works(house, &session);
    assert_eq!(events::turns_of(&mut house.native(), &session).len(), 2);
}

fn killed(house: &mut Resident, point: &str) {
    let session = echo(house);
    works(house, &session);
    let mut native = house.native();
    die_while_asked(house, point, &mut native, "session/kill", json!({"session_id": session}));
    let work = house.work();
    let refused =
        house.native().call("session/new", json!({"agent_alias": "echo", "cwd": work, "session_id": session}));
    assert!(matches!(refused, Err(Trouble::Refused(..))), "{refused:?}");
    assert!(!events::all(&mut house.native(), &session).is_empty(), "the history of a killed session is gone");
}

fn erased(house: &mut Resident, point: &str) {
    let session = echo(house);
    works(house, &session);
    let mut native = house.native();
    die_while_asked(house, point, &mut native, "session/delete", json!({"session_id": session}));
    let mut native = house.native();
    // Asked again, it says that nothing is there any more, or deletes the rest.
    native.ask("session/delete", json!({"session_id": session}));
    assert!(!sessions(&mut native).iter().any(|listed| listed["session_id"] == *session));
}

/// Sessions of a version that knew no addresses.
fn addressed(house: &mut Resident, point: &str) {
    let session = echo(house);
    let before = house.native().listed(&session).expect("a list")["address"].clone();
    house.terminate();
    let database = rusqlite::Connection::open(house.home().join("state.db")).expect("the database");
    database.execute("UPDATE sessions SET address = NULL", []).expect("no addresses");
    drop(database);
    die_while_starting(house, point);
    house.serve();
    assert_eq!(house.native().listed(&session).expect("a list")["address"], before);
    works(house, &session);
}

fn attached(house: &mut Resident, point: &str) {
    let session = echo(house);
    let mut native = house.native();
    let file = json!({"data_b64": "aGVsbG8=", "filename": "a.txt", "mime_type": "text/plain"});
    let params = json!({"session_id": session, "files": [file]});
    die_while_asked(house, point, &mut native, "file/attach", params.clone());
    let again = house.native().ask("file/attach", params);
    assert_eq!(again["files"][0]["deduplicated"], true, "{again}");
    works(house, &session);
}
