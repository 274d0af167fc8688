//! Modes: what sessions start in, who raises them, and what `strict` demands.

use hostel_tests::house::run;
use serde_json::json;

use super::home::{Home, PASSPHRASE};

fn id_of(answer: &serde_json::Value) -> String {
    let result = &answer["result"];
    result["session_id"].as_str().or(result["sessionId"].as_str()).expect("an id").to_owned()
}

#[test]
fn sessions_ask_wherever_no_contract_says_otherwise() {
    let home = Home::start("[agents.planner]\nkind = \"echo\"\nmode = \"plan\"\n");
    let owner = home.owner();
    let mode = |id: &str| home.session(id)["mode"].as_str().expect("a mode").to_owned();
    let echo = json!({"agent_alias": "echo", "cwd": home.work()});
    let native = owner.native().call("session/new", echo.clone());
    assert_eq!((mode(&id_of(&native)).as_str(), &native["result"]["mode"]), ("ask", &json!("ask")));
    assert_eq!(mode(&id_of(&owner.zeroclaw().call("session/new", echo))), "ask");
    let planned = owner.zeroclaw().call("session/new", json!({"agent_alias": "planner", "cwd": home.work()}));
    assert_eq!(mode(&id_of(&planned)), "plan", "the settings of the agent count");
    let codecast = owner.codecast("session.create", &json!({"path": home.work(), "cli_type": "echo"}));
    assert_eq!(mode(&id_of(&codecast)), "auto", "the contract of codecast");
    let listed = owner.codecast("session.list", &json!({}));
    assert!(listed.to_string().contains("\"mode\":\"auto\""), "{listed}");
    // The first line of a conversation, and the lists.
    let output = run(home.hostel(&["run", "--agent", "echo", "--name", "talk", "hello"]));
    let first = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    assert!(first.ends_with("with echo in mode ask"), "{first}");
    let output = run(home.hostel(&["sessions"]));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.lines().next().unwrap_or_default().contains("MODE") && table.contains("auto"), "{table}");
    let output = run(home.hostel(&["--json", "run", "-d", "--agent", "echo", "--mode", "auto", "hello"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"mode\":\"auto\""), "{output:?}");
}

#[test]
fn a_setting_changes_what_codecast_sessions_start_in() {
    let home = Home::start_codecast("mode = \"ask\"");
    let owner = home.owner();
    let made = owner.codecast("session.create", &json!({"path": home.work(), "cli_type": "echo"}));
    assert_eq!(home.session(&id_of(&made))["mode"], "ask");
    let made = owner.codecast("session.create", &json!({"path": home.work(), "cli_type": "echo", "mode": "auto"}));
    assert_eq!(home.session(&id_of(&made))["mode"], "auto", "who says what it wants gets it");
}

#[test]
fn raising_a_mode_takes_the_passphrase_where_strict_demands_it() {
    let home = Home::start("[approvals]\nstrict = true\n");
    let owner = home.owner();
    let made = owner.native().call("session/new", json!({"agent_alias": "echo", "cwd": home.work(), "name": "talk"}));
    let id = id_of(&made);
    let mode = || home.session(&id)["mode"].as_str().expect("a mode").to_owned();
    let raise = |more: Option<&str>| {
        let mut params = json!({"session_id": id, "mode": "auto"});
        if let Some(passphrase) = more {
            params["passphrase"] = passphrase.into();
        }
        params
    };
    for answer in [
        owner.native().call("session/configure", raise(None)),
        owner.native().call("session/configure", raise(Some("wrong one"))),
        owner.zeroclaw().call("session/configure", raise(None)),
    ] {
        assert_eq!(answer["error"]["code"], -32003, "{answer}");
        assert!(answer["error"]["message"].to_string().contains("hostel sessions mode"), "{answer}");
    }
    let answer = owner.codecast("session.set_mode", &json!({"sessionId": id, "mode": "auto"}));
    assert!(answer["error"]["message"].to_string().contains("hostel sessions mode"), "{answer}");
    assert_eq!(mode(), "ask");
    assert!(home.audit("mode_changed").is_empty());
    owner.native().ask("session/configure", raise(Some(PASSPHRASE)));
    assert_eq!(mode(), "auto");
    // Lowering takes nothing.
    owner.codecast("session.set_mode", &json!({"sessionId": id, "mode": "plan"}));
    assert_eq!(mode(), "plan");
    // The command asks for the passphrase where it is needed.
    let command = |words: &[&str], input: &str| {
        let file = home.path().join("input");
        std::fs::write(&file, input).expect("a file");
        let mut command = home.hostel(words);
        command.stdin(std::fs::File::open(&file).expect("the same file"));
        run(command)
    };
    let refused = command(&["sessions", "mode", "talk", "auto", "--passphrase-fd", "0"], "wrong one\n");
    assert!(!refused.status.success() && mode() == "plan", "{refused:?}");
    let raised = command(&["sessions", "mode", "talk", "code", "--passphrase-fd", "0"], &format!("{PASSPHRASE}\n"));
    assert!(raised.status.success() && mode() == "code", "{raised:?}");
    let shown = command(&["sessions", "mode", "talk"], "");
    assert!(String::from_utf8_lossy(&shown.stdout).starts_with("talk: mode code, "), "{shown:?}");
    let lowered = command(&["sessions", "mode", "talk", "ask"], "");
    assert!(lowered.status.success() && mode() == "ask", "{lowered:?}");
    // Every change is on record: what it was, what it is, and who changed it.
    let changes: Vec<(String, String)> = home
        .audit("mode_changed")
        .iter()
        .map(|record| {
            let body = &record["body"];
            assert_eq!(body["session"], id.as_str(), "{record}");
            assert!(!body["who"].as_str().unwrap_or_default().is_empty(), "{record}");
            (body["old"].as_str().unwrap().to_owned(), body["new"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [("ask", "auto"), ("auto", "plan"), ("plan", "code"), ("code", "ask")];
    assert_eq!(changes, expected.map(|(old, new)| (old.to_owned(), new.to_owned())));
    assert_eq!(home.native().ask("audit/verify", json!({}))["broken"], json!(null));
}

#[test]
fn without_strict_the_owner_raises_a_mode_at_every_door() {
    let home = Home::start("");
    let owner = home.owner();
    let id = id_of(&owner.native().call("session/new", json!({"agent_alias": "echo", "cwd": home.work()})));
    let mode = || home.session(&id)["mode"].clone();
    owner.zeroclaw().ask("session/configure", json!({"session_id": id, "mode": "code"}));
    assert_eq!(mode(), "code");
    owner.codecast("session.set_mode", &json!({"sessionId": id, "mode": "auto"}));
    assert_eq!(mode(), "auto");
    assert_eq!(home.audit("mode_changed").len(), 2);
}
