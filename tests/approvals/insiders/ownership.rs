//! Whose a session is: an `UPDATE` of `state.db` gives it to nobody.

use rusqlite::Connection;
use serde_json::json;

use super::home::Home;

/// What everybody of the same user can do to the database.
fn sql(home: &Home, statement: &str) {
    let database = Connection::open(home.hostel_home().join("state.db")).expect("the user may open it");
    database.busy_timeout(hostel_tests::wait::limit()).expect("a timeout");
    assert_eq!(database.execute(statement, []).expect("a statement"), 1, "{statement}");
}

#[test]
fn a_session_is_not_given_away_by_sql() {
    let home = Home::start("");
    let (inside, session) = home.agent("agent", "code");
    let (running, _) = home.owners_session();
    let closed = home.native().ask("session/new", json!({"agent_alias": "echo", "cwd": home.work(), "mode": "auto"}));
    let closed = closed["session_id"].as_str().expect("an id").to_owned();
    home.native().ask("session/close", json!({"session_id": closed}));
    let made = inside.native().ask("session/new", json!({"agent_alias": "echo", "cwd": home.work()}));
    let made = made["session_id"].as_str().expect("an id").to_owned();
    inside.native().ask("session/close", json!({"session_id": made}));
    inside.native().ask("session/messages", json!({"session_id": made}));
    for victim in [&running, &closed] {
        sql(&home, &format!("UPDATE sessions SET made_by = 'session:{session}' WHERE id = '{victim}'"));
        for (method, params) in [
            ("session/messages", json!({"session_id": victim})),
            ("session/send", json!({"session_id": victim, "prompt": "hello"})),
            ("session/new", json!({"agent_alias": "echo", "cwd": home.work(), "session_id": victim})),
            ("session/export", json!({"session_id": victim})),
        ] {
            let answer = inside.native().call(method, params);
            assert!(answer.get("error").is_some(), "{method}: {answer}");
        }
        let listed = inside.native().ask("session/list", json!({"all": true})).to_string();
        assert!(!listed.contains(victim.as_str()), "{listed}");
    }
    // What it really made is still its own, and nobody's once the row says something else.
    inside.native().ask("session/messages", json!({"session_id": made}));
    sql(&home, &format!("UPDATE sessions SET mode = 'auto', guard = NULL WHERE id = '{made}'"));
    assert!(inside.native().call("session/messages", json!({"session_id": made})).get("error").is_some());
    assert_eq!(home.session(&made)["mode"], "ask");
    assert!(!home.audit("tampered").is_empty());
}
