//! `hostel mcp` on standard streams, against a real house.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostel_tests::binary;
use hostel_tests::mcp::{Place, Stdio, is_error, text, texts};
use hostel_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn server(place: &Place, words: &[&str]) -> Stdio {
    let mut command = place.command(binary::hostel());
    command.arg("mcp").args(words);
    Stdio::start(command)
}

#[test]
fn what_it_says_of_itself() {
    let place = Place::new();
    let mut client = server(&place, &["--no-start"]);
    let greeting = client.greeting["result"].clone();
    assert_eq!(greeting["serverInfo"]["name"], "hostel");
    let experimental = json!({"claude/channel": {}});
    assert_eq!(greeting["capabilities"], json!({"tools": {}, "resources": {}, "experimental": experimental}));
    let instructions = greeting["instructions"].as_str().unwrap();
    let version = greeting["serverInfo"]["version"].as_str().unwrap();
    assert!(instructions.contains(&format!("is version {version}.")), "{instructions}");
    let tools = client.call("tools/list", Value::Null);
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "execute",
            "start_server",
            "stop_server",
            "status",
            "update_host",
            "ask_approval",
            "session_list",
            "session_send",
            "session_read",
            "mesh_send",
            "mesh_inbox",
            "mesh_peers"
        ]
    );
    assert!(tools.iter().skip(5).all(|tool| tool["outputSchema"]["type"] == "object"));
    assert_eq!(client.call("prompts/list", Value::Null)["result"]["prompts"], json!([]));
    let unknown = client.call("resources/read", json!({"uri": "sudo-proxy://nothing"}));
    assert_eq!(unknown["error"], json!({"code": -32002, "message": "Unknown resource: sudo-proxy://nothing"}));
    assert_eq!(client.tool("nothing", &json!({}))["error"]["code"], -32602);
    assert_eq!(client.tool("execute", &json!({"argv": "id"}))["error"]["code"], -32602);
    // Without a house, and without leave to start one.
    let told = text(&client.tool("session_list", &json!({})));
    assert!(told.contains("the house is not running"), "{told}");
    assert_eq!(text(&client.tool("status", &json!({}))), "localhost: not running (no socket)");
    let socket = place.house().join("run/sudo.sock");
    let told = text(&client.tool("execute", &json!({"argv": ["id"]})));
    assert_eq!(
        told,
        format!("sudo-proxy is not running (socket not found at {}). Call start_server first.", socket.display())
    );
    assert!(!place.house().exists());
    assert!(client.close().success());
}

#[test]
fn hosts_are_noted_and_told_to_the_next_client() {
    let place = Place::new();
    let mut client = server(&place, &["--no-start"]);
    let noted = client.tool("update_host", &json!({"host": "box", "description": "build machine", "os": "Debian"}));
    assert_eq!(text(&noted), "Updated host box");
    assert_eq!(
        text(&client.tool("update_host", &json!({"host": "a b"}))),
        "invalid host: host contains forbidden character: ' '"
    );
    let known = client.call("resources/read", json!({"uri": "sudo-proxy://hosts"}));
    let registry: Value = serde_json::from_str(known["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(registry["hosts"]["box"]["os"], "Debian");
    drop(client);
    let mut client = server(&place, &["--no-start"]);
    let instructions = client.greeting["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("Known hosts:\n- box: build machine (Debian)"), "{instructions}");
    let told = text(&client.tool("status", &json!({})));
    assert_eq!(told.lines().nth(1).unwrap(), "box: not running (no socket) — build machine (Debian)");
}

#[test]
fn the_house_is_started_where_it_is_not_up() {
    let place = Place::new();
    let mut client = server(&place, &[]);
    let sessions = client.tool("session_list", &json!({}));
    assert_eq!(sessions["result"]["structuredContent"], json!({"sessions": []}));
    let told = text(&client.tool("start_server", &json!({})));
    assert!(told.starts_with("sudo-proxy is already running at "), "{told}");
    let told = text(&client.tool("status", &json!({})));
    assert!(told.starts_with("localhost: running (sudo-proxy 1.2.0)"), "{told}");
    assert!(place.succeed(&["up"]).contains("is up already"));
}

#[test]
fn questions_are_answered_by_a_person() {
    let place = Place::with_house();
    let mut client = server(&place, &[]);
    let yes = client.begin("ask_approval", &json!({"question": "May I tag it?", "details": "v1\nfrom main"}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    assert_eq!((&asked["kind"], &asked["summary"]), (&json!("question"), &json!("May I tag it?")));
    assert_eq!(asked["subject"]["details"], "v1\nfrom main");
    let requester = &asked["requester"];
    assert_eq!((&requester["door"], &requester["session"]), (&json!("mcp"), &json!("mcp tests")));
    assert_eq!(requester["pid"], client.pid());
    place.answer(&["approve", asked["id"].as_str().unwrap()]);
    let answer = client.answer(yes);
    assert_eq!(answer["result"]["structuredContent"]["answer"], "approved");
    assert!(!is_error(&answer));

    let no = client.begin("ask_approval", &json!({"question": "May I push it?"}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    place.answer(&["deny", asked["id"].as_str().unwrap(), "--reason", "not on a Friday"]);
    let answer = client.answer(no);
    let settled = &answer["result"]["structuredContent"];
    assert_eq!((&settled["answer"], &settled["text"]), (&json!("denied"), &json!("not on a Friday")));
    assert!(text(&answer).ends_with(": not on a Friday"), "{answer}");

    for wrong in [json!({"question": " "}), json!({"question": "a\u{1b}[2Jb"}), json!({"question": "x".repeat(5000)})] {
        assert!(is_error(&client.tool("ask_approval", &wrong)));
    }
    assert!(place.pending().is_empty());
}

#[test]
fn who_cancels_or_leaves_withdraws() {
    let place = Place::with_house();
    let mut client = server(&place, &[]);
    let question = client.begin("ask_approval", &json!({"question": "May I?"}));
    let command = client.begin("execute", &json!({"argv": ["true"]}));
    let pending = place.wait_pending(2);
    client.cancel(question);
    client.cancel(command);
    place.wait_pending(0);
    for asked in &pending {
        assert_eq!(place.state(asked["id"].as_str().unwrap()), "withdrawn");
    }
    // Nobody hears of a call that was taken back.
    assert!(client.wait(Duration::ZERO, |message| message["id"] == question || message["id"] == command).is_none());
    client.begin("ask_approval", &json!({"question": "May I now?"}));
    client.begin("execute", &json!({"argv": ["true"]}));
    place.wait_pending(2);
    client.kill();
    place.wait_pending(0);
}

/// The server outlives its agent by a moment only: nobody would hear what became of the command.
#[test]
fn an_agent_that_dies_takes_its_requests_with_it() {
    let place = Place::with_house();
    let (mut agent, theirs) = UnixStream::pair().unwrap();
    let mut command = place.command(binary::hostel());
    command.arg("mcp").stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    // The command keeps a copy of the other end.
    drop(command);
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute", "arguments": {"argv": ["true"]}}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ask_approval", "arguments": {"question": "?"}}}),
    ] {
        writeln!(agent, "{message}").unwrap();
    }
    place.wait_pending(2);
    drop(agent);
    // By itself it would wait for as long as a request may wait for its answer.
    wait::until(wait::LIMIT, "the end of the server", || child.try_wait().unwrap());
    place.wait_pending(0);
}

#[test]
fn a_waiting_client_hears_that_it_still_waits() {
    let place = Place::with_house();
    let mut client = server(&place, &[]);
    let call = json!({"name": "ask_approval", "arguments": {"question": "May I?"}, "_meta": {"progressToken": "t"}});
    let id = client.ask("tools/call", call);
    let told = client.wait(wait::LIMIT, |message| message["method"] == "notifications/progress").unwrap();
    assert_eq!(told["params"]["progressToken"], "t");
    let [asked] = place.wait_pending(1).try_into().unwrap();
    place.answer(&["approve", asked["id"].as_str().unwrap()]);
    client.answer(id);
}

#[test]
fn commands_run_once_a_person_agreed() {
    let place = Place::with_house();
    let mut client = server(&place, &[]);
    for (wrong, words) in [
        (json!({"argv": ["id"], "privileged": false}), "Refusing to run an unprivileged command on the local machine."),
        (json!({"argv": ["id"], "host": "127.0.0.1", "privileged": false}), "Refusing to run"),
        (json!({"host": ""}), "invalid host: host must not be empty"),
        (json!({}), "Either `argv` or `pipeline` must be provided."),
        (json!({"argv": ["id"], "forward_agent": true}), "forward_agent is only allowed with privileged: false"),
        (json!({"argv": ["id\u{202e}"]}), "Error from sudo-proxy 1.2.0 (client hostel-mcp "),
    ] {
        let answer = client.tool("execute", &wrong.clone());
        assert!(is_error(&answer) && text(&answer).starts_with(words), "{wrong}: {answer}");
    }
    let id = client
        .begin("execute", &json!({"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"], "description": "to see"}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    assert_eq!((&asked["kind"], &asked["reason"]), (&json!("privileged_pipeline"), &json!("to see")));
    place.answer(&["approve", asked["id"].as_str().unwrap()]);
    let answer = client.answer(id);
    if texts(&answer)[0].contains("sudo") {
        // Where sudo wants a password or is missing there is a clear error, and nothing ran.
        eprintln!("skipped: commands cannot be run as root here: {answer}");
        return;
    }
    assert_eq!(texts(&answer), ["out\n", "[stderr]\nerr\n", "[exit code: 3]"]);
    assert!(is_error(&answer));
    let id = client.begin("execute", &json!({"pipeline": [["echo", "abc"], ["tr", "a-z", "A-Z"]]}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    place.answer(&["approve", asked["id"].as_str().unwrap()]);
    let answer = client.answer(id);
    assert_eq!((texts(&answer), is_error(&answer)), (vec!["ABC\n".to_owned()], false));
    let id = client.begin("execute", &json!({"argv": ["true"]}));
    let [asked] = place.wait_pending(1).try_into().unwrap();
    place.answer(&["deny", asked["id"].as_str().unwrap()]);
    assert_eq!(text(&client.answer(id)), "Request denied by user.");
}

#[test]
fn a_restart_in_the_middle_loses_nothing() {
    let place = Place::with_house();
    let mut client = server(&place, &[]);
    let question = client.begin("ask_approval", &json!({"question": "Still there?"}));
    let command = client.begin("execute", &json!({"argv": ["echo", "once"]}));
    let before = place.wait_pending(2);
    kill_process(Pid::from_raw(place.daemon()).unwrap(), Signal::KILL).unwrap();
    // The server starts the house again by itself, and both calls go on where they were.
    let after = wait::until(wait::LIMIT, "the house to be back", || {
        let list = place.hostel(&["approvals", "list", "--json"]);
        let list: Value = serde_json::from_slice(&list.stdout).ok()?;
        Some(list["approvals"].as_array()?.clone()).filter(|pending| pending.len() == 2)
    });
    let ids = |list: &[Value]| {
        let mut ids: Vec<String> = list.iter().map(|asked| asked["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&before), ids(&after));
    for asked in &after {
        place.answer(&["approve", asked["id"].as_str().unwrap()]);
    }
    assert_eq!(client.answer(question)["result"]["structuredContent"]["answer"], "approved");
    let answer = client.answer(command);
    assert!(texts(&answer)[0].contains("sudo") || texts(&answer) == ["once\n"], "{answer}");
    assert!(place.pending().is_empty());
}

#[test]
fn prompts_are_sent_exactly_once_while_the_house_is_killed_again_and_again() {
    let place = Place::with_house();
    place.succeed(&["run", "--agent", "echo", "--name", "talk", "start"]);
    let mut client = server(&place, &[]);
    let mut wanted = vec!["start".to_owned()];
    for number in 0..12 {
        let prompt = format!("prompt {number}");
        let id = client.begin("session_send", &json!({"session": "talk", "prompt": prompt}));
        if number % 3 == 0 {
            kill_process(Pid::from_raw(place.daemon()).unwrap(), Signal::KILL).unwrap();
        }
        let answer = client.answer(id);
        assert!(!is_error(&answer), "{answer}");
        wanted.push(prompt);
    }
    let last = client.tool("session_send", &json!({"session": "talk", "prompt": "last", "wait": true}));
    assert_eq!(text(&last), "echo: last");
    wanted.push("last".to_owned());
    let read = client.tool("session_read", &json!({"session": "talk", "limit": 1000}));
    let events = read["result"]["structuredContent"]["events"].as_array().unwrap();
    let prompts: Vec<&str> = events.iter().filter_map(|event| event["prompt"].as_str()).collect();
    assert_eq!(prompts, wanted);
}

#[test]
fn sessions_are_listed_prompted_and_read() {
    let place = Place::with_house();
    place.succeed(&["run", "--agent", "echo", "--name", "talk", "hello"]);
    let mut client = server(&place, &[]);
    let listed = client.tool("session_list", &json!({}));
    let listed = &listed["result"]["structuredContent"]["sessions"];
    assert_eq!(
        (&listed[0]["name"], &listed[0]["agent"], &listed[0]["turns"]),
        (&json!("talk"), &json!("echo"), &json!(1))
    );
    let session = listed[0]["session"].as_str().unwrap().to_owned();

    let answer = client.tool("session_send", &json!({"session": "talk", "prompt": "two", "wait": true}));
    assert_eq!((text(&answer), is_error(&answer)), ("echo: two".to_owned(), false));
    let sent = |client: &mut Stdio, session: &str, prompt: &str| {
        client.tool("session_send", &json!({"session": session, "prompt": prompt, "request_id": "mine", "wait": true}))
    };
    let first = sent(&mut client, "talk", "three");
    assert_eq!(first["result"]["structuredContent"]["repeated"], false);
    // By another of its names it is still the same session, and the same prompt.
    let again = sent(&mut client, &session[..8], "three");
    assert_eq!(again["result"]["structuredContent"]["repeated"], true);
    assert_eq!(again["result"]["structuredContent"]["turn"], first["result"]["structuredContent"]["turn"]);
    assert!(text(&sent(&mut client, "talk", "another")).contains("was used for another prompt"));

    let read = |client: &mut Stdio, after: u64, limit: u64| {
        let answer = client.tool("session_read", &json!({"session": "talk", "after": after, "limit": limit}));
        answer["result"]["structuredContent"].clone()
    };
    let whole = read(&mut client, 0, 1000);
    let events = whole["events"].as_array().unwrap();
    let prompts: Vec<&str> = events.iter().filter_map(|event| event["prompt"].as_str()).collect();
    assert_eq!(prompts, ["hello", "two", "three"]);
    assert_eq!(whole["more"], false);
    // Page by page it is the same.
    let (mut paged, mut after) = (Vec::new(), 0);
    loop {
        let page = read(&mut client, after, 2);
        paged.extend(page["events"].as_array().unwrap().clone());
        after = page["last_seq"].as_u64().unwrap();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(paged, *events);
    for wrong in [json!({"session": "nobody", "prompt": "x"}), json!({"session": "talk", "prompt": " "})] {
        assert!(is_error(&client.tool("session_send", &wrong)));
    }
    place.succeed(&["sessions", "close", "talk"]);
    let answer = client.tool("session_send", &json!({"session": "talk", "prompt": "four", "wait": true}));
    assert_eq!(text(&answer), "echo: four");
}
