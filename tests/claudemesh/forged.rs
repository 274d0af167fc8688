//! A broker that changes what is in its log, with real daemons: its database is edited while it is down, which is all that
//! a malicious one could do to messages it carries. Judged by what the receiver's inbox, hooks, events and sessions do.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::wait;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::session_mail::House;

const CONFIG: &str = "[hooks]\nconcurrency = 1\n[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n";

const POLICY: &str = "[on-message]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n\
     [on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n";

/// Notes every message it is run for, and whether its sender is verified.
const NOTES: &str = "#!/usr/bin/python3\nimport json, sys\nevent = json.load(sys.stdin)\n\
     open('runs', 'a').write('%s %s\\n' % (event['body'], event['verified']))\n";

/// Alice receives, bob and carol send; dave has joined and his program never came, so nothing is proven of him.
fn lab() -> Lab {
    let mut lab =
        Lab::prepare(&Options { config: CONFIG.to_owned(), ..Options::of(&["alice", "bob", "carol", "dave"]) });
    for hook in ["on-message", "on-dm"] {
        lab.host("alice").put_hook(hook, NOTES);
    }
    lab.host("alice").put_policy(POLICY);
    for name in ["alice", "bob", "carol"] {
        lab.host_mut(name).start();
    }
    for name in ["alice", "bob", "carol"] {
        lab.host(name).wait_connected();
    }
    lab
}

fn client(lab: &Lab, name: &str) -> Client {
    lab.host(name).client(Transport::Socket)
}

/// Sends, and waits until the broker has it.
fn send(lab: &Lab, from: &str, to: &str, text: &str) {
    let sender = client(lab, from);
    let answer = sender.post("/v1/send", &json!({"to": to, "message": text, "client_message_id": text}));
    assert_eq!(answer.status, 202, "{}", answer.json());
    wait::until_true(wait::LIMIT, &format!("{text} to be taken"), || sender.get_json("/v1/health")["queue_depth"] == 0);
}

/// Entries of the broker's log that were sent under this id; `change` makes others of them. The broker must be down.
fn rewrite(lab: &Lab, id: &str, change: impl Fn(&mut Value)) {
    let database = Connection::open(lab.broker_home().join("broker/broker.db")).unwrap();
    let mut statement = database.prepare("SELECT place, body FROM log WHERE client_id = ?").unwrap();
    let found = statement.query_map([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))).unwrap();
    let found: Vec<(i64, Vec<u8>)> = found.map(Result::unwrap).collect();
    assert_eq!(found.len(), 1, "entries of {id}");
    for (place, body) in found {
        let mut entry: Value = serde_json::from_slice(&body).unwrap();
        change(&mut entry);
        let (sender, kind) = (entry["senderMemberId"].as_str().unwrap(), entry["kind"].as_str().unwrap());
        let client_id = entry["client_message_id"].as_str().unwrap();
        let set = "UPDATE log SET body = ?2, sender = ?3, kind = ?4, client_id = ?5 WHERE place = ?1";
        database.execute(set, (place, entry.to_string().into_bytes(), sender, kind, client_id)).unwrap();
    }
}

/// Says that somebody else has sent an entry.
fn label(host: &Host) -> impl Fn(&mut Value) + use<> {
    let (id, key) = (host.member("memberId"), host.member("pubkey"));
    let name = host.name.clone();
    move |entry: &mut Value| {
        (entry["senderMemberId"], entry["senderMemberPubkey"]) = (json!(id), json!(key));
        entry["senderName"] = json!(name);
    }
}

/// Everything in alice's inbox, oldest first: sender, text or why there is none, verified.
fn inbox(lab: &Lab) -> Vec<(String, String, bool)> {
    let page = client(lab, "alice").get_json("/v1/inbox?limit=1000&mark_seen=false&order=oldest");
    let shown = |item: &Value| {
        let text = item["body"].as_str().or(item["decrypt_error"].as_str()).unwrap_or_default();
        (item["sender_name"].as_str().unwrap().to_owned(), text.to_owned(), item["verified"].as_bool().unwrap())
    };
    page["items"].as_array().unwrap().iter().map(shown).collect()
}

fn wait_inbox(lab: &Lab, count: usize) -> Vec<(String, String, bool)> {
    wait::eventually(&format!("{count} messages"), || {
        let found = inbox(lab);
        if found.len() >= count { Ok(found) } else { Err(format!("{found:?}")) }
    })
}

fn runs(lab: &Lab) -> Vec<String> {
    lab.host("alice").hook_output("runs").lines().map(str::to_owned).collect()
}

fn row(name: &str, text: &str, verified: bool) -> (String, String, bool) {
    (name.to_owned(), text.to_owned(), verified)
}

#[test]
fn nobody_hears_what_a_broker_makes_up() {
    let mut lab = lab();
    send(&lab, "bob", "*", "honest");
    assert_eq!(wait_inbox(&lab, 1), [row("bob", "honest", true)]);
    lab.host_mut("alice").stop();
    for id in ["relabelled", "moved", "repeated", "kept"] {
        send(&lab, "carol", "*", id);
    }
    for id in ["forged", "older"] {
        send(&lab, "carol", "alice", id);
    }
    lab.kill_broker();
    let (bob, dave) = (label(lab.host("bob")), label(lab.host("dave")));
    rewrite(&lab, "relabelled", &bob);
    // As if bob's program were an older one, whose bodies have no ids.
    rewrite(&lab, "forged", |entry| {
        bob(entry);
        entry["bodyVersion"] = json!(1);
    });
    rewrite(&lab, "repeated", |entry| entry["client_message_id"] = json!("repeated again"));
    rewrite(&lab, "moved", |entry| entry["kind"] = json!("file"));
    // Nothing is known of dave, whose program may well be an older one.
    rewrite(&lab, "older", &dave);
    lab.start_broker();
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
    send(&lab, "bob", "*", "at last");
    let mut found = wait_inbox(&lab, 8);
    found.sort();
    let mut expected = vec![
        row("bob", "honest", true),
        row("bob", "bad_signature", false),
        row("bob", "unsigned", false),
        row("carol", "bad_signature", false),
        row("carol", "mismatch", false),
        row("carol", "kept", true),
        row("dave", "older", false),
        row("bob", "at last", true),
    ];
    expected.sort();
    assert_eq!(found, expected);
    wait::until_true(wait::LIMIT, "the last hook", || runs(&lab).iter().any(|run| run.starts_with("at last")));
    let mut runs = runs(&lab);
    runs.sort();
    runs.dedup();
    assert_eq!(runs, ["at last True", "honest True", "kept True", "older False"]);
    let shown = lab.host("alice").run(&["inbox", "--limit", "20"]);
    assert!(shown.contains("dave") && shown.contains("unverified"), "{shown}");
    assert!(shown.contains("(refused: the signature is not the sender's)"), "{shown}");
}

#[test]
fn a_session_takes_no_prompt_from_who_is_not_proven() {
    let mut lab = lab();
    let house = House::start(lab.host("alice"), "");
    let session = house.session("Build", "on");
    send(&lab, "bob", "alice/build", "honest");
    assert_eq!(house.wait_letters(&session, 1), ["honest"]);
    lab.host_mut("alice").stop();
    for id in ["as bob", "as dave"] {
        send(&lab, "carol", "alice/build", id);
    }
    lab.kill_broker();
    rewrite(&lab, "as bob", label(lab.host("bob")));
    rewrite(&lab, "as dave", label(lab.host("dave")));
    lab.start_broker();
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
    lab.host("bob").wait_connected();
    send(&lab, "bob", "alice/build", "at last");
    // What is said to be bob's is nobody's; what is said to be dave's is for a person to look at.
    assert_eq!(house.wait_letters(&session, 2), ["honest", "at last"]);
    let pending = house.wait_pending(1);
    let subject = &pending[0]["subject"];
    assert_eq!(
        (&subject["from"], &subject["text"], &subject["verified"]),
        (&json!("dave"), &json!("as dave"), &json!(false))
    );
    assert!(pending[0]["summary"].as_str().unwrap().starts_with("unverified mesh message"), "{pending:?}");
    house.decide(&pending[0], "allow_once");
    assert_eq!(house.wait_letters(&session, 3), ["honest", "at last", "as dave"]);
    let prompt = house.messages(&session, "user").pop().unwrap();
    assert!(prompt.contains("Nobody has proven that this sender wrote it"), "{prompt}");
}
