//! Two hosts on one machine, through the real program: a mesh made, joined, and talked over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::common;
use crate::mesh_common;

use common::finish;
use common::wait_until;
use mesh_common::Host;
use mesh_common::pair;
use serde_json::Value;

#[test]
fn a_mesh_is_made_and_joined_with_no_options_at_all() {
    let (alice, bob) = (Host::new(), Host::new());
    let outcome = alice.house.hostel(["mesh", "create", "lab", "--name", "alice"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.out.starts_with("mesh `lab` is made: this machine only\nits daemon is up (pid "), "{outcome:?}");
    let next = outcome.out.lines().find(|line| line.contains("hostel mesh join ")).unwrap();
    let invite = next.split('\'').nth(1).unwrap();
    assert!(invite.starts_with("ic://join/") && invite.contains("#k="), "{invite}");
    let outcome = bob.house.hostel(["mesh", "join", invite, "--name", "bob"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.out.starts_with("bob joined mesh `lab`\nits daemon is up (pid "), "{outcome:?}");
    alice.wait_connected("lab");
    bob.wait_connected("lab");
    let named = |peers: &Value| peers.as_array().unwrap().iter().any(|peer| peer["displayName"] == "bob");
    wait_until("they see each other", || alice.json(["peers"]), named);
    let outcome = alice.claudemesh(["send", "bob", "hello"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.out.starts_with("sent to bob (") && outcome.out.ends_with("..) (online)\n"), "{outcome:?}");
    let item = bob.wait_received("hello");
    assert_eq!((&item["sender_name"], &item["topic"], &item["seen_at"]), (&"alice".into(), &Value::Null, &Value::Null));
    let shown = bob.good(["inbox", "--unread"]);
    assert!(shown.starts_with("alice (") && shown.ends_with("\n  hello\n"), "{shown}");
    assert_eq!(bob.good(["inbox", "--unread"]), "(nothing)\n");
    // The invite was for one.
    let carol = Host::new();
    let outcome = carol.claudemesh(["join", invite, "--name", "carol"]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    assert!(outcome.err.contains("invite create"), "{outcome:?}");
}

#[test]
fn what_is_sent_to_a_host_that_is_away_is_delivered_when_it_is_back() {
    let (alice, bob) = pair();
    assert!(bob.good(["daemon", "down"]).starts_with("daemon: stopped (was pid "));
    wait_until("bob is seen to be away", || alice.json(["peers", "--all"]), |peers| {
        peers.as_array().unwrap().iter().any(|peer| peer["displayName"] == "bob" && peer["online"] == false)
    });
    let outcome = alice.claudemesh(["send", "bob", "for later"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.out.starts_with("queued for bob ("), "{outcome:?}");
    let sent = alice.json(["send", "bob", "again", "--idempotency-key", "k1"]);
    assert_eq!((&sent["ok"], &sent["via"], &sent["duplicate"]), (&true.into(), &"daemon".into(), &false.into()));
    assert_eq!((&sent["target"], &sent["recipientOnline"]), (&"bob".into(), &false.into()));
    assert_eq!(alice.json(["send", "bob", "again", "--idempotency-key", "k1"])["messageId"], "k1");
    let outcome = alice.claudemesh(["send", "bob", "something else", "--idempotency-key", "k1"]);
    assert_eq!(outcome.code, 6, "{outcome:?}");
    bob.good(["daemon", "up"]);
    bob.wait_received("for later");
    bob.wait_received("again");
    let items = bob.json(["inbox"]);
    assert_eq!(items.as_array().unwrap().iter().filter(|item| item["body"] == "again").count(), 1);
    let found = bob.json(["search", "later"]);
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(bob.json(["daemon", "search", "later"]), found);
}

#[test]
fn topics_are_made_posted_to_and_listed() {
    let (alice, bob) = pair();
    assert_eq!(bob.good(["subscribe", "#alerts"]), "subscribed to #alerts, which is new\n");
    assert_eq!(alice.good(["topic", "subscribe", "alerts"]), "subscribed to #alerts\n");
    let outcome = alice.claudemesh(["post", "alerts", "OOM on worker-3", "--mention", "bob"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "sent to #alerts\n"), "{outcome:?}");
    let item = bob.wait_received("OOM on worker-3");
    assert_eq!((&item["topic"], &item["mention"]), (&"alerts".into(), &true.into()));
    let names: Vec<Value> =
        alice.json(["topics"]).as_array().unwrap().iter().map(|topic| topic["name"].clone()).collect();
    assert!(names.contains(&"alerts".into()) && names.contains(&"general".into()), "{names:?}");
    let outcome = alice.claudemesh(["post", "nowhere", "x"]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
    assert_eq!(alice.good(["unsubscribe", "alerts"]), "not subscribed to #alerts any more\n");
}

#[test]
fn files_are_shared_and_fetched() {
    let (alice, bob) = pair();
    let file = alice.house.path().join("notes.txt");
    std::fs::write(&file, "what was found\n").unwrap();
    let shared = alice.json(["file".as_ref(), "share".as_ref(), file.as_os_str(), "--to".as_ref(), "bob".as_ref()]);
    assert_eq!((&shared["name"], &shared["size"]), (&"notes.txt".into(), &15.into()));
    let id = shared["fileId"].as_str().unwrap();
    wait_until("bob hears of it", || bob.json(["file", "list"]), |files| {
        files.as_array().unwrap().iter().any(|file| file["id"] == id)
    });
    let outcome = bob.claudemesh(["file", "get", id]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(std::fs::read_to_string(bob.house.path().join("notes.txt")).unwrap(), "what was found\n");
    let outcome = bob.claudemesh(["file", "get", id]);
    assert_eq!(outcome.code, 6, "{outcome:?}");
    let outcome = bob.claudemesh(["file", "get", "01jh3q5w6e7r8t9y0a1s2d3f4g", "--out", "x"]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
}

#[test]
fn without_a_daemon_a_message_goes_out_cold() {
    let (alice, bob) = pair();
    alice.good(["daemon", "down"]);
    let sent = alice.json(["send", "bob", "from nowhere"]);
    assert_eq!((&sent["via"], &sent["ok"]), (&"cold".into(), &true.into()));
    let item = bob.wait_received("from nowhere");
    assert_eq!(item["sender_name"], "alice");
    assert!(alice.json(["peers"]).as_array().unwrap().iter().any(|peer| peer["displayName"] == "bob"));
    let outcome = alice.claudemesh(["inbox"]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert_eq!(
        outcome.err,
        "no daemon is up for mesh `lab`\n  the inbox needs one; start it with `claudemesh daemon up --mesh lab`\n"
    );
    let outcome =
        finish(alice.command().env("CLAUDEMESH_STRICT_DAEMON", "1").args(["send", "bob", "x"]).spawn().unwrap());
    assert_eq!(outcome.code, 4, "{outcome:?}");
    alice.good(["daemon", "up"]);
    let mut command = alice.command();
    let outcome =
        finish(command.env("CLAUDEMESH_NO_DAEMON", "1").args(["--json", "send", "bob", "round"]).spawn().unwrap());
    assert!(outcome.out.contains("\"via\":\"cold\""), "{outcome:?}");
    bob.wait_received("round");
}

#[test]
fn a_member_is_revoked_and_its_daemon_ends_for_good() {
    let (alice, bob) = pair();
    let members = alice.json(["member", "list"]);
    assert_eq!(members.as_array().unwrap().len(), 2, "{members}");
    let outcome = bob.claudemesh(["member", "revoke", "alice"]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    let outcome = alice.claudemesh(["member", "revoke", "bob"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "bob: revoked\n"), "{outcome:?}");
    wait_until("bob's daemon ends", || bob.claudemesh(["daemon", "status"]), |status| status.code == 1);
    let ended = finish(bob.command().args(["daemon", "up", "--foreground", "--mesh", "lab"]).spawn().unwrap());
    assert_eq!(ended.code, 78, "{ended:?}");
    let audit = alice.json(["audit"]);
    assert!(audit.to_string().contains("revoke"), "{audit}");
    let outcome = bob.claudemesh(["send", "alice", "x"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    alice.good(["member", "unban", "bob"]);
    bob.good(["daemon", "up"]);
    bob.wait_connected("lab");
}

#[test]
fn invites_are_made_listed_and_taken_back() {
    let alice = Host::new();
    alice.create("lab", "alice");
    let made = alice.json(["invite", "create", "--uses", "3", "--expires", "2d"]);
    assert_eq!(made["maxUses"], 3);
    let outcome = alice.claudemesh(["invite", "--uses", "2"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.out.lines().count(), 1);
    let link = outcome.out.trim();
    assert!(link.starts_with("ic://join/"), "{outcome:?}");
    assert_eq!(alice.json(["invite", "list"]).as_array().unwrap().len(), 3);
    assert_eq!(alice.good(["invite", "revoke", link]), "the invite is taken back\n");
    let bob = Host::new();
    let outcome = bob.claudemesh(["join", link]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    let outcome = bob.claudemesh(["join", "nonsense"]);
    assert_eq!(outcome.code, 3, "{outcome:?}");
    bob.join(made["invite"].as_str().unwrap(), "bob");
    let outcome = bob.claudemesh(["invite", "create"]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    // Without its daemon the owner can invite all the same.
    alice.good(["daemon", "down"]);
    assert!(alice.json(["invite", "create"])["invite"].as_str().unwrap().starts_with("ic://join/"));
    let outcome = bob.claudemesh(["leave", "--mesh", "lab"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "left mesh `lab`\n"), "{outcome:?}");
    assert_eq!(bob.good(["list"]), "(none)\n");
    assert_eq!(bob.claudemesh(["daemon", "status"]).code, 1);
}

#[test]
fn both_sides_see_the_same_safety_number() {
    let (alice, bob) = pair();
    let number = alice.json(["verify", "bob"])["safetyNumber"].as_str().unwrap().to_owned();
    assert_eq!(number.chars().filter(char::is_ascii_digit).count(), 30, "{number}");
    assert_eq!(bob.json(["verify", "alice"])["safetyNumber"], number.as_str());
    let set = alice.json(["profile", "--summary", "training run 7", "--status", "working"]);
    assert_eq!(set["ok"], true);
    wait_until("bob sees it", || bob.json(["peers"]), |peers| {
        peers.as_array().unwrap().iter().any(|peer| peer["summary"] == "training run 7")
    });
    let chosen = bob.json(["peers", "displayName,status"]);
    let alice_row = chosen.as_array().unwrap().iter().find(|peer| peer["displayName"] == "alice").unwrap();
    assert_eq!(alice_row.as_object().unwrap().len(), 2);
    alice.good(["rename", "ada"]);
    wait_until("bob hears of the name", || bob.good(["peers", "--all"]), |peers| peers.contains("ada"));
}

#[test]
fn wrong_words_and_missing_meshes_have_the_contracts_exit_codes() {
    let host = Host::new();
    for (words, code, text) in [
        (&["send", "x", "y"][..], 5, "no mesh is joined on this host"),
        (&["daemon", "up"], 2, "no mesh is joined on this host"),
        (&["daemon", "up", "--mesh", "lab"], 2, "no mesh is joined on this host"),
        (&["daemon", "status"], 1, "daemon: not running"),
        (&["daemon", "status", "--mesh", "lab"], 1, "daemon: not running"),
        (&["frob"], 3, "unrecognized subcommand 'frob'"),
        (&["send", "x"], 3, "the following required arguments were not provided"),
        (&["daemon", "up", "--ttl", "1h"], 3, "`--ttl` is for ephemeral daemons"),
        (&["create", "lab", "--listen", "0.0.0.0:1"], 3, "required arguments"),
        (&["create", "lab", "--broker", "ws://192.0.2.1/ws"], 7, "`ws://192.0.2.1/ws` is beyond this machine"),
        (&["create", "lab", "--name", "two words"], 3, "`two words` cannot be a name"),
        (&["create", "lab", "--no-start"], 4, "the broker is not up"),
        (&["join", "ic://join/x"], 3, ""),
        (&["broker", "status"], 1, "broker: not running"),
        (&["broker", "up", "--listen", "0.0.0.0:0"], 3, "is beyond this machine"),
        (&["broker", "up", "--listen", "0.0.0.0:0", "--url", "ws://x/ws"], 3, "does not begin with wss://"),
    ] {
        let outcome = host.claudemesh(words);
        assert_eq!(outcome.code, code, "{words:?} {outcome:?}");
        assert!(outcome.err.contains(text), "{words:?} {outcome:?}");
        assert_eq!(outcome.out, "", "{words:?}");
    }
    let mut command = host.command();
    let outcome = finish(command.args(["daemon", "status", "--mesh", "lab", "--json"]).spawn().unwrap());
    assert_eq!((outcome.code, outcome.out.as_str()), (1, "{\"running\":false}\n"), "{outcome:?}");
    assert!(host.good(["--help"]).contains("claudemesh send ada"));
    assert!(host.good(["send", "--help"]).contains("Examples:\n  claudemesh send worker-3"));
    assert!(host.good(["--version"]).starts_with("claudemesh "));
    // Called as `hostel`, failures are 1 and mistakes 2, as everywhere.
    assert_eq!(host.house.hostel(["mesh", "send", "x", "y"]).code, 1);
    assert_eq!(host.house.hostel(["mesh", "create", "lab", "--name", "two words"]).code, 2);
    assert_eq!(host.house.hostel(["mesh", "daemon", "up"]).code, 2);
}
