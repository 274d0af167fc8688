//! The tools of the mesh, on standard streams and over HTTP, between two hosts with real mesh daemons.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use hostel_tests::binary;
use hostel_tests::mcp::{Http, Place, Stdio, is_error, text};
use hostel_tests::wait;
use serde_json::{Value, json};

fn server(place: &Place) -> Stdio {
    let mut command = place.command(binary::hostel());
    command.args(["mcp", "--no-start"]);
    Stdio::start(command)
}

/// Two hosts in mesh `lab`, both connected.
fn pair() -> (Place, Place) {
    let (alice, bob) = (Place::new(), Place::new());
    let made: Value =
        serde_json::from_str(&alice.succeed(&["--json", "mesh", "create", "lab", "--name", "alice"])).unwrap();
    bob.succeed(&["mesh", "join", made["invite"].as_str().unwrap(), "--name", "bob"]);
    for place in [&alice, &bob] {
        wait::until_true(wait::LIMIT, "the daemon to be connected", || {
            let status = place.hostel(&["--json", "mesh", "daemon", "status", "--mesh", "lab"]);
            let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
            status["health"]["connected"] == true
        });
    }
    (alice, bob)
}

/// What a tool gave.
fn given(answer: &Value) -> &Value {
    assert!(!is_error(answer), "{answer}");
    &answer["result"]["structuredContent"]
}

/// Waits until a text is in the inbox, without reading it; that message.
fn wait_received(client: &mut Stdio, body: &str) -> Value {
    wait::until(wait::LIMIT, "the message", || {
        let inbox = client.tool("mesh_inbox", &json!({"keep_unread": true}));
        let messages = given(&inbox)["messages"].as_array().unwrap().clone();
        messages.into_iter().find(|message| message["body"] == body)
    })
}

/// Ends what the verbs of the mesh started: there is no house to end it with.
struct Ended(Place);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.hostel(&["down"]));
    }
}

#[test]
fn without_a_mesh_or_its_daemon_it_says_what_to_do() {
    let place = Ended(Place::new());
    let mut client = server(&place.0);
    for (tool, arguments) in [
        ("mesh_send", json!({"to": "bob", "message": "hi"})),
        ("mesh_inbox", json!({})),
        ("mesh_peers", json!({"mesh": "lab"})),
    ] {
        let told = client.tool(tool, &arguments);
        assert!(is_error(&told), "{told}");
        assert!(text(&told).starts_with("no mesh is joined on this host; join one with `hostel mesh join"), "{told}");
    }
    assert!(!place.0.house().join("run").exists());
    let made: Value =
        serde_json::from_str(&place.0.succeed(&["--json", "mesh", "create", "lab", "--name", "alice"])).unwrap();
    // Who is connected when `create` returns can be asked at once; on a machine that is too busy for that, soon.
    let peers = wait::until(wait::LIMIT * 3, "the daemon to be connected", || {
        let peers = client.tool("mesh_peers", &json!({}));
        assert!(made["connected"] == false || !is_error(&peers), "{peers}");
        (!is_error(&peers)).then_some(peers)
    });
    assert_eq!(given(&peers)["peers"][0]["name"], "alice");
    let told = text(&client.tool("mesh_peers", &json!({"mesh": "../x"})));
    assert!(told.starts_with("there is no mesh `../x` here"), "{told}");
    place.0.succeed(&["mesh", "daemon", "down", "--mesh", "lab"]);
    let told = text(&client.tool("mesh_inbox", &json!({})));
    assert!(told.starts_with("no daemon is up for mesh `lab`; "), "{told}");
    assert!(told.contains("`hostel mesh daemon up --mesh lab`"), "{told}");
    assert_eq!(client.tool("mesh_send", &json!({"to": "bob"}))["error"]["code"], -32602);
    assert_eq!(client.tool("mesh_inbox", &json!({"limit": -1}))["error"]["code"], -32602);
    assert!(client.close().success());
}

#[test]
fn agents_of_two_hosts_talk() {
    let (alice, bob) = pair();
    let (alice, bob) = (Ended(alice), Ended(bob));
    let (mut from, mut to) = (server(&alice.0), server(&bob.0));
    let peers = wait::until(wait::LIMIT, "both to be seen", || {
        let peers = given(&from.tool("mesh_peers", &json!({}))).clone();
        let names: Vec<&Value> = peers["peers"].as_array().unwrap().iter().map(|peer| &peer["name"]).collect();
        (names == ["alice", "bob"]).then_some(peers)
    });
    assert_eq!((&peers["mesh"], &peers["left_out"]), (&json!("lab"), &json!(0)));
    assert_eq!(peers["peers"][1]["online"], true);

    // Once, however often it is asked for.
    let message = json!({"to": "bob", "message": "is it green?", "request_id": "k1"});
    let sent = from.tool("mesh_send", &message);
    assert_eq!((&given(&sent)["message_id"], &given(&sent)["duplicate"]), (&json!("k1"), &json!(false)));
    let received = wait_received(&mut to, "is it green?");
    assert_eq!((&received["from"], &received["message_id"]), (&json!("alice"), &json!("k1")));
    assert_eq!(given(&from.tool("mesh_send", &message))["message_id"], "k1");
    let other = from.tool("mesh_send", &json!({"to": "bob", "message": "something else", "request_id": "k1"}));
    assert!(is_error(&other) && text(&other).contains("idempotency_key_reused"), "{other}");

    // Reading marks as read; looking does not.
    let unread = |client: &mut Stdio| {
        given(&client.tool("mesh_inbox", &json!({"unread": true})))["messages"].as_array().unwrap().len()
    };
    assert_eq!((unread(&mut to), unread(&mut to)), (1, 0));
    let found = to.tool("mesh_inbox", &json!({"query": "green"}));
    assert_eq!(given(&found)["messages"].as_array().unwrap().len(), 1);
    assert!(text(&found).ends_with(":\nis it green?"), "{found}");
    assert!(is_error(&to.tool("mesh_inbox", &json!({"query": "green", "from": "alice"}))));

    let answer = to.tool("mesh_send", &json!({"to": "alice", "message": "yes", "reply_to": "k1", "priority": "now"}));
    assert!(!is_error(&answer), "{answer}");
    let received = wait_received(&mut from, "yes");
    assert_eq!((&received["reply_to"], &received["priority"]), (&json!("k1"), &json!("now")));

    for (wrong, word) in [
        (json!({"to": "carol", "message": "hi"}), "peer_not_found"),
        (json!({"to": " ", "message": "hi"}), "mesh_peers"),
        (json!({"to": "bob", "message": "hi", "priority": "soon"}), "priority"),
        (json!({"to": "bob", "message": "x".repeat(300 << 10)}), "file share"),
    ] {
        let told = from.tool("mesh_send", &wrong);
        assert!(is_error(&told) && text(&told).contains(word), "{told}");
    }
    assert!(is_error(&from.tool("mesh_inbox", &json!({"since": "yesterday"}))));
}

#[test]
fn pages_go_on_where_the_last_one_ended() {
    let (alice, bob) = pair();
    let (alice, bob) = (Ended(alice), Ended(bob));
    let (mut from, mut to) = (server(&alice.0), server(&bob.0));
    // Six of these do not fit into one answer.
    let large = |number: u32| format!("{number} {}", "y".repeat(50_000));
    for number in 0..6 {
        given(&from.tool("mesh_send", &json!({"to": "bob", "message": large(number)})));
    }
    wait_received_count(&mut to, 6);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..6 {
        let page = to.tool("mesh_inbox", &json!({"cursor": cursor}));
        // Who reads the words alone learns that there is more, and how to get it.
        let (words, page) = (text(&page), given(&page));
        assert_eq!(page["more"], !page["next"].is_null());
        let told = words.lines().last().is_some_and(|last| {
            last.contains("this is not all") && last.contains(&format!("`cursor`: {}", page["next"]))
        });
        assert_eq!(told, page["more"] == true, "{:?}", words.lines().last());
        assert!(page["messages"].to_string().len() < 300 << 10);
        let bodies = page["messages"].as_array().unwrap().iter().map(|message| message["body"].as_str().unwrap());
        seen.extend(bodies.map(|body| body.split(' ').next().unwrap().to_owned()));
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["5", "4", "3", "2", "1", "0"]);
}

fn wait_received_count(client: &mut Stdio, count: usize) {
    wait::until_true(wait::LIMIT, "all messages", || {
        let found = client.tool("mesh_inbox", &json!({"keep_unread": true, "limit": 1}));
        let mut messages = given(&found)["messages"].as_array().unwrap().len();
        let mut cursor = given(&found)["next"].clone();
        while !cursor.is_null() && messages < count {
            let found = client.tool("mesh_inbox", &json!({"keep_unread": true, "limit": 1, "cursor": cursor}));
            messages += given(&found)["messages"].as_array().unwrap().len();
            cursor = given(&found)["next"].clone();
        }
        messages == count
    });
}

#[test]
fn the_same_over_http() {
    let (alice, bob) = pair();
    let (alice, bob) = (Ended(alice), Ended(bob));
    alice.0.up();
    let (address, token) = alice.0.door();
    let mut client = Http::new(address, &token);
    client.initialize();
    let sent = client.tool(1, "mesh_send", &json!({"to": "bob", "message": "over HTTP"}));
    assert_eq!(given(&sent)["mesh"], "lab");
    let mut to = server(&bob.0);
    assert_eq!(wait_received(&mut to, "over HTTP")["from"], "alice");
    let told = client.tool(2, "mesh_inbox", &json!({}));
    assert_eq!(given(&told)["messages"], json!([]));
    assert_eq!(text(&told), "nothing in the inbox of mesh lab");
}
