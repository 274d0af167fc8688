//! What the table allows works: processes and sessions of one's own, questions, and messages where policy allows them.

use hostel_tests::wait;
use serde_json::{Value, json};

use super::attempts::base64;
use super::home::{Home, PASSPHRASE};

#[test]
fn a_process_inside_has_what_it_started() {
    let home = Home::start("");
    let inside = home.hosted("first", "exec $RELAY");
    let other = home.hosted("second", "exec $RELAY");
    let mut native = inside.native();
    let spawned =
        native.ask("process/spawn", json!({"argv": ["sh", "-c", "read a; echo got $a; read b"], "name": "own"}));
    let id = spawned["id"].clone();
    // Another hosted command does not have it, and neither does a name that is taken.
    for (method, params) in [
        ("process/stdin", json!({"id": id, "data": base64(b"x\n")})),
        ("process/close_stdin", json!({"id": id})),
        ("process/kill", json!({"id": id})),
        ("process/attach", json!({"id": id})),
        ("process/spawn", json!({"argv": ["true"], "name": "own", "replace": true})),
    ] {
        let answer = other.native().call(method, params);
        assert!(answer["error"]["message"].to_string().contains("inside this house"), "{method}: {answer}");
    }
    assert!(!other.native().ask("process/list", json!({})).to_string().contains("\"own\""));
    // Its own has it, by both doors.
    let listed = native.ask("process/list", json!({})).to_string();
    assert!(listed.contains("\"own\"") && listed.contains("\"first\"") && !listed.contains("\"second\""), "{listed}");
    native.ask("process/stdin", json!({"id": id, "data": base64(b"hello\n")}));
    native.ask("process/attach", json!({"id": "first", "follow": false}));
    let mut output = String::new();
    native.ask("process/attach", json!({"id": id}));
    while !output.contains(&base64(b"got hello\n")) {
        output += &native.frame().to_string();
    }
    let answer = inside.claustrum("process.stdin", &json!({"id": "own", "data": base64(b"more\n")}));
    assert_eq!(answer["result"]["success"], true, "{answer}");
    wait::eventually("its end", || {
        let listed = inside.native().ask("process/list", json!({}));
        let processes = listed["processes"].as_array()?.clone();
        processes.iter().find(|process| process["id"] == id && process["state"] == "exited").map(|_| ())
    });
    // One that a process which it started has started is its own as well.
    let answer = inside.claustrum("process.spawn", &json!({"id": "sleeper", "command": "/bin/sleep", "args": ["600"]}));
    assert_eq!(answer["result"]["success"], true, "{answer}");
    assert_eq!(native.ask("process/kill", json!({"id": "sleeper", "wait_ms": 10000}))["died"], true);
    native.ask("house/status", json!({}));
    native.ask("agents/list", json!({}));
}

#[test]
fn an_agent_reads_its_own_session_and_those_it_made() {
    let home = Home::start("");
    let (inside, session) = home.agent("agent", "code");
    let (foreign, _) = home.owners_session();
    let mut native = inside.native();
    for (method, params) in [
        ("session/messages", json!({"session_id": session})),
        ("session/state", json!({"session_id": session})),
        ("session/attach", json!({"session_id": session, "follow": false})),
        ("session/export", json!({"session_id": session})),
    ] {
        native.ask(method, params);
    }
    let listed = native.ask("session/list", json!({})).to_string();
    assert!(listed.contains(&session) && !listed.contains(&foreign), "{listed}");
    let made = native.ask("session/new", json!({"agent_alias": "echo", "cwd": home.work(), "mode": "code"}));
    let child = made["session_id"].as_str().expect("an id").to_owned();
    assert_eq!(made["mode"], "code");
    native.ask("session/send", json!({"session_id": child, "prompt": "hello"}));
    wait::eventually("an answer", || {
        let messages = inside.native().ask("session/messages", json!({"session_id": child}));
        if messages["total"] == 2 { Ok(()) } else { Err(messages) }
    });
    assert!(native.ask("session/list", json!({})).to_string().contains(&child));
    // It ends what it made, and not itself.
    assert!(native.call("session/close", json!({"session_id": session})).get("error").is_some());
    native.ask("session/close", json!({"session_id": child}));
    assert_eq!(home.session(&session)["standing"], "live");
    assert_eq!(home.session(&child)["standing"], "archived");
    // Prompts go where a policy takes them.
    let prompt = json!({"session_id": foreign, "prompt": "hello"});
    assert!(native.call("session/send", prompt.clone()).get("error").is_some());
    home.native().ask("session/configure", json!({"session_id": foreign, "mesh": "on"}));
    native.ask("session/send", prompt);
    // Files by their content, not by a path that the daemon would read for it.
    let file = |member: Value| json!({"session_id": session, "files": [member]});
    native.ask("file/attach", file(json!({"data_b64": "aGVsbG8=", "filename": "a"})));
    let path = home.socket("local_token");
    assert!(native.call("file/attach", file(json!({"path": path}))).get("error").is_some());
    home.native().ask("file/attach", file(json!({"path": path})));
}

#[test]
fn a_process_inside_asks_and_a_person_answers() {
    let home = Home::start("");
    let inside = home.hosted("plain", "exec $RELAY");
    let mut asking = inside.native();
    let question = asking.begin("approval/ask", json!({"question": "May I?"}));
    let id = wait::eventually("the question", || {
        let list = home.native().ask("approval/list", json!({}));
        Some(list["approvals"].as_array()?.first()?["id"].as_str()?.to_owned())
    });
    let mut person = home.native();
    person.ask("approval/unlock", json!({"passphrase": PASSPHRASE}));
    person.ask("approval/decide", json!({"id": id, "decision": "allow_once"}));
    assert_eq!(asking.answer(question)["result"]["state"], "approved");
}

/// A hosted `hostel` is a client like any other.
#[test]
fn the_command_line_works_inside_for_what_is_its_own() {
    let home = Home::start("");
    let program = hostel_tests::binary::hostel();
    let script = format!(
        "'{0}' run --name inner -- echo nested; '{0}' ps --all; '{0}' run --agent echo 'hello' ; '{0}' down; echo \"exit $?\"",
        program.display()
    );
    let mut outer = home.hostel(&["run", "--", "sh", "-c"]);
    outer.arg(script);
    let output = hostel_tests::house::run(outer);
    let said = String::from_utf8_lossy(&output.stdout);
    let heard = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nested") && said.contains("inner") && said.contains("hello"), "{said}\n{heard}");
    assert!(said.contains("exit 1") && heard.contains("inside this house"), "{said}\n{heard}");
    home.native().ask("house/status", json!({}));
}
