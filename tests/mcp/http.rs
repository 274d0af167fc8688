//! `/mcp` over HTTP: who is let in, what is bounded, and what becomes of a client that leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use hostel_tests::mcp::{Http, Place, read, text};
use hostel_tests::wait;
use serde_json::{Value, json};

fn client(place: &Place) -> Http {
    let (address, token) = place.door();
    Http::new(address, &token)
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "web", "version": "1"}}})
}

#[test]
fn only_this_machine_with_the_token_is_let_in() {
    let place = Place::with_house();
    let good = client(&place);
    let (address, token) = place.door();
    let status = |client: &Http| client.post(&initialize()).status;
    assert_eq!(status(&good), 200);
    for wrong in [None, Some("Bearer wrong"), Some("Bearer "), Some(token.as_str()), Some("Basic x")] {
        let answer = good.with("Authorization", wrong).post(&initialize());
        assert_eq!((answer.status, answer.header("www-authenticate").as_deref()), (401, Some("bearer")), "{wrong:?}");
        assert!(answer.header("mcp-session-id").is_none());
    }
    let port = address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(status(&good.with("Host", Some(&host))), 200, "{host}");
        assert_eq!(status(&good.with("Origin", Some(&format!("http://{host}")))), 200, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1"] {
        assert_eq!(status(&good.with("Host", Some(host))), 403, "{host}");
        assert_eq!(status(&good.with("Origin", Some(&format!("http://{host}")))), 403, "{host}");
    }
    assert_eq!(status(&good.with("Origin", Some("null"))), 403);
    assert_eq!(good.request("POST", "/", "{}").status, 404);
    assert_eq!(good.request("PUT", "/mcp", "{}").status, 405);
    assert_eq!(good.with("Content-Type", Some("text/plain")).post(&initialize()).status, 415);
    assert_eq!(good.with("Accept", Some("text/html")).post(&initialize()).status, 406);
    assert_eq!(
        good.with("Mcp-Session-Id", Some("made-up")).post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status,
        404
    );
    let large = format!("\"{}\"", "x".repeat(5 << 20));
    assert_eq!(good.request("POST", "/mcp", &large).status, 413);
    assert!((400..500).contains(&good.request("POST", "/mcp", "nonsense").status));
}

#[test]
fn the_same_tools_for_the_process_behind_the_connection() {
    let place = Place::with_house();
    let mut client = client(&place);
    let greeting = client.initialize();
    assert_eq!(greeting["result"]["serverInfo"]["name"], "hostel");
    let listed = client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).message();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 12);
    assert!(text(&client.tool(2, "status", &json!({}))).starts_with("localhost: running (sudo-proxy 1.2.0)"));
    let told = text(&client.tool(3, "execute", &json!({"argv": ["id"], "privileged": false})));
    assert!(told.starts_with("Refusing to run an unprivileged command"), "{told}");
    place.succeed(&["run", "--agent", "echo", "--name", "talk", "hello"]);
    let sent = client.tool(4, "session_send", &json!({"session": "talk", "prompt": "two", "wait": true}));
    assert_eq!(text(&sent), "echo: two");
    // Who asks is this process, not the daemon.
    let question = client.begin(5, "ask_approval", &json!({"question": "May I?"}));
    let command = client.begin(6, "execute", &json!({"argv": ["true"]}));
    let pending = place.wait_pending(2);
    for asked in &pending {
        assert_eq!(asked["requester"]["pid"], std::process::id(), "{asked}");
        place.answer(&["deny", asked["id"].as_str().unwrap(), "--reason", "no"]);
    }
    assert_eq!(read(question).message()["result"]["structuredContent"]["answer"], "denied");
    assert_eq!(text(&read(command).message()), "Request denied by user.");
}

#[test]
fn who_ends_its_session_or_leaves_withdraws() {
    let place = Place::with_house();
    let mut client = client(&place);
    client.initialize();
    let call = client.begin(1, "ask_approval", &json!({"question": "May I?"}));
    let command = client.begin(2, "execute", &json!({"argv": ["true"]}));
    place.wait_pending(2);
    assert!(client.request("DELETE", "/mcp", "").status < 300);
    place.wait_pending(0);
    drop((call, command));
    let mut client = self::client(&place);
    client.initialize();
    let call = client.begin(1, "ask_approval", &json!({"question": "May I?"}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    client.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    place.wait_pending(0);
    drop(call);
    assert_eq!(place.state(asked["id"].as_str().unwrap()), "withdrawn");
    // Gone without a word, for longer than it takes to come back.
    let call = client.begin(2, "ask_approval", &json!({"question": "May I?"}));
    place.wait_pending(1);
    drop(call);
    wait::until_true(wait::LIMIT, "the question of who left to be withdrawn", || place.pending().is_empty());
}

#[test]
fn who_comes_back_in_time_gets_its_answer() {
    let place = Place::with_house();
    let mut client = client(&place);
    client.initialize();
    let mut call = client.begin(1, "ask_approval", &json!({"question": "May I?"}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    // The stream begins with an event that says where it can be taken up again.
    let mut begun = Vec::new();
    let mut piece = [0; 1024];
    let event = loop {
        let count = wait::read(&mut call, &mut piece).unwrap();
        begun.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&begun).into_owned();
        if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id:")) {
            break id.trim().to_owned();
        }
        assert!(count > 0, "{text}");
    };
    drop(call);
    let back = client.with("Last-Event-ID", Some(&event)).with("Accept", Some("text/event-stream"));
    let stream = back.open("GET", "/mcp", "");
    place.answer(&["approve", asked["id"].as_str().unwrap()]);
    let answer = read(stream).message();
    assert_eq!(answer["result"]["structuredContent"]["answer"], "approved");
}

/// The newest revision has no sessions: every request says everything about itself, and who leaves has left.
#[test]
fn without_a_session() {
    let place = Place::with_house();
    let version = "2026-07-28";
    let client = client(&place).with("MCP-Protocol-Version", Some(version));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "web", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let client = client.with("Mcp-Method", Some("tools/call")).with("Mcp-Name", Some(name));
        client.open("POST", "/mcp", &message.to_string())
    };
    let answer = read(call("status", json!({})));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("mcp-session-id").is_none());
    assert!(text(&answer.message()).starts_with("localhost: running"), "{answer:?}");
    let asked = call("ask_approval", json!({"question": "May I?"}));
    let [pending] = place.wait_pending(1).try_into().unwrap();
    assert_eq!(pending["requester"]["client"], "web 2");
    drop(asked);
    place.wait_pending(0);
    let asked = call("ask_approval", json!({"question": "May I now?"}));
    let [pending] = place.wait_pending(1).try_into().unwrap();
    place.answer(&["approve", pending["id"].as_str().unwrap()]);
    assert_eq!(read(asked).message()["result"]["structuredContent"]["answer"], "approved");
}

#[test]
fn sessions_are_bounded_and_the_idlest_makes_room() {
    let place = Place::with_house();
    let mut first = client(&place);
    first.initialize();
    let mut others = Vec::new();
    for _ in 0..63 {
        let mut client = client(&place);
        client.initialize();
        others.push(client);
    }
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(first.post(&ping).status, 200);
    let mut new = client(&place);
    new.initialize();
    assert_eq!(first.post(&ping).status, 200);
    assert_eq!(new.post(&ping).status, 200);
    // The one that had done nothing for longest is over.
    assert_eq!(others[0].post(&ping).status, 404);
    assert_eq!(others[1].post(&ping).status, 200);
}

#[test]
fn another_user_does_not_shut_the_owner_out() {
    if !rustix::process::geteuid().is_root() {
        hostel_tests::skip("only root can be another user");
        return;
    }
    let place = Place::with_house();
    let (address, _) = place.door();
    let script = format!(
        "import os, socket, sys\n\
         os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
         held = [socket.socket() for _ in range(300)]\n\
         for s in held: s.connect(('127.0.0.1', {}))\n\
         print('held', flush=True); sys.stdin.read()\n",
        address.port()
    );
    let mut python = place.command("/usr/bin/env");
    python.args(["python3", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
    let mut python = python.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(python.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    for _ in 0..3 {
        assert_eq!(client(&place).post(&initialize()).status, 200);
    }
    drop(python.stdin.take());
    python.wait().unwrap();
}
