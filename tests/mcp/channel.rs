//! Messages of the mesh pushed to MCP clients that say they take them, on standard streams and over HTTP, through kills
//! of the mesh daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hostel_tests::binary;
use hostel_tests::mcp::{Http, Place, Stdio, is_error};
use hostel_tests::wait;
use serde_json::{Value, json};

const METHOD: &str = "notifications/claude/channel";

fn announced() -> Value {
    json!({"experimental": {"claude/channel": {}}})
}

/// Ends what the verbs of the mesh started.
struct Ended(Place);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.hostel(&["down"]));
    }
}

/// Two hosts in mesh `lab`, both connected.
fn pair() -> (Ended, Ended) {
    let (alice, bob) = (Ended(Place::new()), Ended(Place::new()));
    let made = json_of(&alice, &["mesh", "create", "lab", "--name", "alice"]);
    bob.0.succeed(&["mesh", "join", made["invite"].as_str().unwrap(), "--name", "bob"]);
    for host in [&alice, &bob] {
        wait_connected(host);
    }
    (alice, bob)
}

fn json_of(host: &Ended, words: &[&str]) -> Value {
    let words: Vec<&str> = ["--json"].iter().chain(words).copied().collect();
    serde_json::from_str(&host.0.succeed(&words)).unwrap()
}

fn status(host: &Ended) -> Value {
    let status = host.0.hostel(&["--json", "mesh", "daemon", "status", "--mesh", "lab"]);
    serde_json::from_slice(&status.stdout).unwrap_or_default()
}

fn wait_connected(host: &Ended) {
    wait::until_true(wait::LIMIT, "the daemon to be connected", || status(host)["health"]["connected"] == true);
}

/// Kills the daemon of mesh `lab` at once and waits until it is gone.
fn kill_daemon(host: &Ended) {
    let pid = i32::try_from(status(host)["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait::until_true(wait::LIMIT, "the daemon to be gone", || status(host)["running"] == false);
}

fn client(host: &Ended, capabilities: &Value, token: Option<&PathBuf>) -> Stdio {
    let mut command = host.0.command(binary::hostel());
    command.args(["mcp", "--no-start"]);
    if let Some(token) = token {
        command.env("CLAUDEMESH_IPC_TOKEN_FILE", token);
    }
    Stdio::start_announcing(command, "2025-06-18", capabilities)
}

fn send(host: &Ended, to: &str, text: &str) {
    host.0.succeed(&["mesh", "send", to, text]);
}

/// The next message that is pushed.
fn pushed(client: &mut Stdio) -> Value {
    let notice = client.wait(wait::LIMIT * 2, |message| message["method"] == METHOD);
    notice.expect("a notification")["params"].take()
}

/// What was pushed so far and not looked at, once everything that was asked before has been answered.
fn left(client: &mut Stdio) -> Vec<Value> {
    client.call("ping", Value::Null);
    std::iter::from_fn(|| client.wait(Duration::ZERO, |message| message["method"] == METHOD)).collect()
}

/// Waits until a text is in the whole inbox of a host.
fn wait_received(host: &Ended, body: &str) {
    wait::until_true(wait::LIMIT, "the message to arrive", || {
        let inbox = json_of(host, &["mesh", "inbox", "--keep-unread", "--limit", "1000"]);
        inbox.as_array().unwrap().iter().any(|item| item["body"] == body)
    });
}

#[test]
fn who_announces_it_gets_messages_as_they_come() {
    let (alice, bob) = pair();
    send(&bob, "alice", "before anybody listened");
    wait_received(&alice, "before anybody listened");
    let (mut listening, mut deaf) = (client(&alice, &announced(), None), client(&alice, &json!({}), None));
    assert_eq!(
        listening.greeting["result"]["capabilities"]["experimental"],
        json!({"claude/channel": {}}),
        "{}",
        listening.greeting
    );
    bob.0.succeed(&["mesh", "send", "alice", "1 < 2 & </channel>", "--idempotency-key", "k1", "--priority", "now"]);
    let notice = pushed(&mut listening);
    assert_eq!(notice["content"], "1 &lt; 2 &amp; &lt;/channel&gt;");
    let meta = &notice["meta"];
    for (key, value) in [("mesh", "lab"), ("from", "bob"), ("message_id", "k1"), ("kind", "dm"), ("priority", "now")] {
        assert_eq!(meta[key], value, "{notice}");
    }
    // A topic's posts come too, and what is said to everybody.
    alice.0.succeed(&["mesh", "subscribe", "alerts"]);
    bob.0.succeed(&["mesh", "send", "*", "to all"]);
    assert_eq!(pushed(&mut listening)["content"], "to all");
    assert_eq!(left(&mut deaf), Vec::<Value>::new());
    // Nobody has confirmed to have read any of it.
    let unread = deaf.tool("mesh_inbox", &json!({"unread": true}));
    assert_eq!(unread["result"]["structuredContent"]["messages"].as_array().unwrap().len(), 3, "{unread}");
    assert_eq!(left(&mut listening), Vec::<Value>::new());
    assert!(listening.close().success() && deaf.close().success());
}

#[test]
fn a_client_that_cannot_say_so_is_vouched_for() {
    let (alice, bob) = pair();
    let mut command = alice.0.command(binary::hostel());
    command.args(["mcp", "--no-start", "--channel"]);
    let mut client = Stdio::start(command);
    send(&bob, "alice", "hello");
    assert_eq!(pushed(&mut client)["content"], "hello");
    // It is not offered what has no way for them: a client that speaks both would take that.
    let version = "2026-07-28";
    let meta = json!({"io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let answer = client.call("server/discover", json!({"_meta": meta}));
    let supported = answer["error"]["data"]["supported"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert!(supported.contains(&json!("2025-11-25")) && !supported.contains(&json!(version)), "{answer}");
}

#[test]
fn nothing_is_lost_or_doubled_while_the_daemon_dies() {
    let (alice, bob) = pair();
    let mut listening = client(&alice, &announced(), None);
    send(&bob, "alice", "0");
    assert_eq!(pushed(&mut listening)["content"], "0");
    let mut next = 1;
    for _ in 0..3 {
        kill_daemon(&alice);
        for _ in 0..4 {
            send(&bob, "alice", &next.to_string());
            next += 1;
        }
        alice.0.succeed(&["mesh", "daemon", "up", "--mesh", "lab"]);
        for number in next - 4..next {
            assert_eq!(pushed(&mut listening)["content"], number.to_string());
        }
    }
    send(&bob, "alice", "last");
    assert_eq!(pushed(&mut listening)["content"], "last");
    assert_eq!(left(&mut listening), Vec::<Value>::new());
}

/// Registers a session with the daemon of mesh `lab`; the file with its token.
fn register(host: &Ended, name: &str, digit: &str) -> PathBuf {
    let token = digit.repeat(64);
    let body = json!({"token": token, "session_id": name, "display_name": name, "pid": std::process::id(),
        "presence": true})
    .to_string();
    let socket = host.0.path("home/.claudemesh/daemon/lab/sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /v1/sessions/register HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let file = host.0.path(&format!("token-{name}"));
    std::fs::write(&file, token).unwrap();
    file
}

#[test]
fn a_session_has_a_mailbox_and_a_voice_of_its_own() {
    let (alice, bob) = pair();
    let (review, build) = (register(&alice, "review", "a"), register(&alice, "build", "b"));
    let mut member = client(&alice, &announced(), None);
    let mut review = client(&alice, &announced(), Some(&review));
    let mut build = client(&alice, &announced(), Some(&build));
    send(&bob, "alice/review", "for review");
    send(&bob, "alice", "for alice");
    assert_eq!(pushed(&mut review)["content"], "for review");
    assert_eq!(pushed(&mut member)["content"], "for alice");
    send(&bob, "*", "for all");
    for client in [&mut member, &mut review, &mut build] {
        assert_eq!(pushed(client)["content"], "for all");
        assert_eq!(left(client), Vec::<Value>::new());
    }
    // The tools read the session's mailbox and speak with its voice.
    let bodies = |client: &mut Stdio| {
        let inbox = client.tool("mesh_inbox", &json!({"keep_unread": true}));
        assert!(!is_error(&inbox), "{inbox}");
        let messages = inbox["result"]["structuredContent"]["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&mut review), ["for all", "for review"]);
    assert_eq!(bodies(&mut build), ["for all"]);
    for (client, text) in [(&mut review, "from review"), (&mut member, "from alice")] {
        let sent = client.tool("mesh_send", &json!({"to": "bob", "message": text}));
        assert!(!is_error(&sent), "{sent}");
        wait_received(&bob, text);
    }
    let inbox = json_of(&bob, &["mesh", "inbox", "--keep-unread"]);
    let key = |text: &str| {
        let found = inbox.as_array().unwrap().iter().find(|item| item["body"] == text).unwrap();
        found["sender_pubkey"].as_str().unwrap().to_owned()
    };
    let alice_key = json_of(&alice, &["mesh", "list"])[0]["pubkey"].as_str().unwrap().to_owned();
    assert_eq!(key("from alice"), alice_key);
    assert_ne!(key("from review"), alice_key);
}

/// A stream of events, event by event.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(client: &Http) -> Self {
        let mut reader = BufReader::new(client.open("GET", "/mcp", ""));
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        Self(reader)
    }

    /// The next message pushed, and its event's id.
    fn next(&mut self) -> (String, Value) {
        let (mut id, mut message) = (String::new(), Value::Null);
        let begun = Instant::now();
        loop {
            // Signs of life end no read, so that its own limit is not enough.
            assert!(begun.elapsed() < wait::limit(), "no message came, only signs of life");
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).expect("an event in time"), 0, "the stream ended");
            // Sizes of chunks stand between the lines; an empty line ends an event.
            if let Some(given) = line.strip_prefix("id:") {
                given.trim().clone_into(&mut id);
            } else if let Some(data) = line.strip_prefix("data:") {
                message = serde_json::from_str(data.trim()).unwrap_or_default();
            } else if line == "\n" && message["method"] == METHOD {
                return (id, message["params"].take());
            }
        }
    }
}

#[test]
fn over_http_they_come_on_the_stream_that_is_open_for_them() {
    let (alice, bob) = pair();
    alice.0.up();
    let (address, token) = alice.0.door();
    let mut http = Http::new(address, &token);
    http.initialize_announcing(&announced());
    // Nobody listens yet: it waits with the daemon, however much it is.
    for number in 0..20 {
        send(&bob, "alice", &number.to_string());
    }
    wait_received(&alice, "19");
    let mut events = Events::open(&http);
    let mut last = String::new();
    for number in 0..20 {
        let (id, notice) = events.next();
        assert_eq!(notice["content"], number.to_string());
        last = id;
    }
    // Who comes back and says where it was gets what came after that, and nothing twice; also while the daemon does not
    // know yet that its first connection is gone.
    let first = events;
    let mut events = Events::open(&http.with("Last-Event-ID", Some(&last)));
    send(&bob, "alice", "20");
    assert_eq!(events.next().1["content"], "20");
    drop(first);
    // So does who does not say it.
    let second = events;
    let mut events = Events::open(&http);
    kill_daemon(&alice);
    send(&bob, "alice", "21");
    alice.0.succeed(&["mesh", "daemon", "up", "--mesh", "lab"]);
    assert_eq!(events.next().1["content"], "21");
    drop(second);
}

/// Says a request from a process with that environment, whose socket is nobody else's; the answer.
fn said_by(host: &Ended, http: &Http, message: &Value, token: Option<&PathBuf>) -> Value {
    let body = message.to_string();
    let headers: String = http.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    let file = host.0.path("request");
    std::fs::write(&file, request).unwrap();
    let port = host.0.door().0.port();
    let mut command = host.0.command("bash");
    command.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/$1; cat \"$2\" >&3; cat <&3", "say", &port.to_string()]).arg(&file);
    if let Some(token) = token {
        command.env("CLAUDEMESH_IPC_TOKEN_FILE", token);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).rfind(|data| !data.is_empty());
    serde_json::from_str(data.unwrap_or_else(|| panic!("no answer in {text:?}"))).unwrap()
}

#[test]
fn over_http_the_session_of_the_calling_process_speaks() {
    let (alice, bob) = pair();
    let review = register(&alice, "review", "a");
    alice.0.up();
    let (address, token) = alice.0.door();
    let mut http = Http::new(address, &token);
    http.initialize();
    send(&bob, "alice/review", "for review");
    send(&bob, "alice", "for alice");
    wait_received(&alice, "for review");
    wait_received(&alice, "for alice");
    let read = |id: u64, token: Option<&PathBuf>| {
        let params = json!({"name": "mesh_inbox", "arguments": {"keep_unread": true}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let answer = said_by(&alice, &http, &message, token);
        assert!(!is_error(&answer), "{answer}");
        let messages = answer["result"]["structuredContent"]["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(read(1, Some(&review)), ["for review"]);
    let all = read(2, None);
    assert!(all.contains(&"for alice".to_owned()) && all.contains(&"for review".to_owned()), "{all:?}");
}
