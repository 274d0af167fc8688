//! F9: decisions, grants and requests that are written into the database while the daemon runs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::scene::{BOTH, Guard, PASSPHRASE, Scene};

/// What approves a command, with all that a daemon would look at.
const APPROVE: &str = "UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', runs = randomblob(16), \
    keeper = :keeper, run = 'due', decided_ns = created_ns + 1 WHERE id = :id";

/// One attack on a request of one's own: what changes its row, and whether anything ran.
fn forge(scene: &Scene, guard: Guard, sql: &[String], what: &str) {
    let witness = scene.witness("forged");
    let sql: Vec<String> = sql.iter().map(|sql| sql.replace("WITNESS", &witness.display().to_string())).collect();
    let asked = scene.witness("harmless");
    let facts = json!({"argv": ["touch", asked], "sql": sql});
    let attack = scene.begin(guard, "rows.request", &facts);
    let request = scene.command_with(&asked.display().to_string());
    attack.tell("go", &request);
    attack.wait_reached("changed");
    // Whoever approves now gets what was shown, or nothing.
    if what.contains("swapped") {
        scene.decide(&request, "allow_once");
    }
    let said = attack.end();
    assert!(!witness.exists(), "{guard:?}, {what}: {said}");
    if !what.contains("swapped") {
        assert!(!asked.exists(), "{guard:?}, {what}: {said}");
        scene.check_not_approved(&request, what);
    }
    let changed = said["changed"].as_array().is_some_and(|all| all.iter().any(Value::is_number));
    match guard {
        // The attack is what it claims to be, and is noticed.
        Guard::Off => assert!(changed && scene.is_alarmed(), "{what}: {said}"),
        Guard::Auto => assert!(!changed || !scene.is_full(), "{what}: {said}"),
    }
    scene.deny_all();
}

#[test]
fn nothing_is_approved_by_sql() {
    let scene = Scene::up("");
    let swap = |more: &str| {
        format!(
            "UPDATE approvals SET subject = replace(subject, 'harmless', 'forged'), input = replace(input, 'harmless', 'forged'){more} WHERE id = :id"
        )
    };
    let again = "INSERT INTO approvals (id, kind, request, tool, input, summary, state, created_ns, expires_ns, subject, \
        digest, requester, door, line, life_ns, open, seal) SELECT id || '-new', kind, request || 'n', tool, input, summary, \
        'pending', created_ns, expires_ns, replace(subject, 'harmless', 'forged'), digest, requester, door, line, life_ns, \
        1, seal FROM approvals WHERE id = :id";
    for guard in BOTH {
        forge(&scene, guard, &[APPROVE.to_owned()], "approved");
        forge(&scene, guard, &[swap("")], "swapped before it was approved");
        forge(&scene, guard, &[swap(""), APPROVE.to_owned()], "another command, approved");
        let exchange = [
            again.to_owned(),
            "DELETE FROM approvals WHERE id = :id".to_owned(),
            "UPDATE approvals SET id = :id WHERE id = :id || '-new'".to_owned(),
        ];
        forge(&scene, guard, &exchange, "swapped by another row");
    }
    // The control: the same request, decided by a person.
    let witness = scene.witness("honest");
    let facts = json!({"argv": ["touch", witness], "sql": [], "waits": true});
    let attack = scene.begin(Guard::Off, "rows.request", &facts);
    let request = scene.command_with(&witness.display().to_string());
    attack.tell("go", &request);
    scene.approve(&request);
    assert_eq!(attack.end()["answer"]["status"], "ok");
    assert!(witness.exists());
    assert_eq!(scene.broken(), Value::Null, "what the house did is recorded as it was");
}

/// An agent's question is approved by SQL: the agent's own tool does it.
#[test]
fn an_agents_question_is_not_answered_by_sql() {
    let scene = Scene::up("");
    for guard in BOTH {
        let witness = scene.witness("asked");
        let sql =
            ["UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', decided_ns = created_ns + 1 \
            WHERE state = 'pending'"];
        let command = format!("touch {}", witness.display());
        let (session, attack) = scene.begin_asking(guard, "rows.question", &json!({"sql": sql}), &command);
        let question = scene.question_of(&session);
        attack.tell("go", &question);
        let said = attack.end();
        match guard {
            Guard::Auto => {
                assert_eq!(scene.state(&question), "pending", "{said}");
                assert!(!witness.exists(), "{said}");
                // The control: a person's answer.
                scene.approve_tool(&session, &question);
                scene.wait_for(&witness);
            }
            Guard::Off => {
                hostel_tests::wait::eventually("the agent to be told", || {
                    if scene.state(&question) == "denied" { Ok(()) } else { Err(scene.state(&question)) }
                });
                hostel_tests::wait::eventually("the turn to end", || scene.messages(&session).contains("denied"));
                assert!(!witness.exists() && scene.is_alarmed(), "{said}");
                scene.check_not_approved(&question, "by SQL");
            }
        }
    }
}

/// How often a command has run that adds a line.
fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// A grant that was revoked is put back, made to last longer, made for another command; a decision that was carried out
/// is put back.
#[test]
fn neither_grants_nor_decisions_come_back() {
    let scene = Scene::up("");
    for guard in BOTH {
        let trace = scene.witness("trace");
        // A request lists the files that its words name: it is the same request only if the file is there each time.
        fs::write(&trace, "").unwrap();
        scene.place.own(&trace);
        let argv = json!(["sh", "-c", format!("echo ran >>{}", trace.display())]);
        let more = json!({"session": format!("session-{guard:?}")});
        let ask = json!({"argv": argv, "more": more, "unasked": true});
        let first = scene.begin(guard, "rows.again", &ask);
        let request = scene.command_with(&trace.display().to_string());
        let terms = json!({"scope": "session", "seconds": 3600, "count": 3});
        let decision = json!({"id": request, "decision": "allow_once", "grant": terms, "passphrase": PASSPHRASE});
        let grant = scene.owner().ask("approval/decide", decision)["grant"].as_u64().expect("a grant");
        assert_eq!(first.end()["answer"]["status"], "ok");
        // The control: it covers the same command, from the same session name.
        assert_eq!(scene.attack(guard, "rows.again", &ask)["answer"]["status"], "ok", "{guard:?}");
        let copy = scene.witness("copy");
        let saved = json!({"table": "grants", "condition": format!("no = {grant}"), "copy": copy});
        let said = scene.attack(guard, "rows.copy", &saved);
        scene.owner().ask("approval/revoke", json!({"grant": grant, "passphrase": PASSPHRASE}));
        assert_eq!(lines(&trace), 2);
        let wide = "UPDATE grants SET open = 1, revoked_ns = 0, used = 0, uses_left = 99, \
            expires_ns = expires_ns + 3600000000000";
        let mut restore = saved.clone();
        restore["sql"] = json!([wide]);
        scene.attack(guard, "rows.restore_row", &restore);
        ask_in_vain(&scene, guard, &ask, &trace, 2);
        // The request that was carried out, as if it were to be carried out.
        let saved = json!({"table": "approvals", "condition": format!("id = '{request}'"), "copy": copy});
        scene.attack(guard, "rows.copy", &saved);
        let mut restore = saved.clone();
        restore["sql"] = json!([format!(
            "UPDATE approvals SET run = 'due', open = 1, outcome = NULL, runs = randomblob(16) WHERE id = '{request}'"
        )]);
        let restored = scene.attack(guard, "rows.restore_row", &restore);
        ask_in_vain(&scene, guard, &ask, &trace, 2);
        let changed = restored["changed"].to_string();
        match guard {
            Guard::Off => assert!(scene.is_alarmed(), "{said}: {changed}"),
            Guard::Auto => assert!(changed.contains("failed") || !scene.is_full(), "{changed}"),
        }
    }
}

/// Asks again for what a grant allowed; a person is asked, and nothing runs.
fn ask_in_vain(scene: &Scene, guard: Guard, ask: &Value, trace: &Path, runs: usize) {
    let mut ask = ask.clone();
    ask["unasked"] = json!(false);
    let attack = scene.begin(guard, "rows.again", &ask);
    scene.command_with(&trace.display().to_string());
    assert_eq!(lines(trace), runs, "{guard:?}");
    attack.tell("enough", "");
    attack.end();
    scene.deny_all();
}
