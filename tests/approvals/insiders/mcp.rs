//! The tools of the MCP door, for an agent that runs inside the house: on its standard streams and over HTTP.

use std::fs;
use std::net::SocketAddr;

use hostel_tests::house::run;
use hostel_tests::mcp::{Http, Stdio};
use hostel_tests::{binary, wait};
use serde_json::{Value, json};

use super::home::Home;

/// Why a tool failed; none if it did not.
fn failure(answer: &Value) -> Option<String> {
    let result = &answer["result"];
    (result["isError"] == true).then(|| result["content"].to_string())
}

#[test]
fn an_agents_tools_say_what_is_not_for_it() {
    let home = Home::start("");
    let (session, _) = home.owners_session();
    let mut command = home.hostel(&["run", "--"]);
    command.arg(binary::hostel()).args(["--home", &home.hostel_home().display().to_string(), "mcp", "--no-start"]);
    let mut inside = Stdio::start(command);
    let tools = inside.call("tools/list", json!({}))["result"]["tools"].as_array().cloned().expect("tools");
    assert_eq!(tools.len(), 12, "the list stays");
    let listed = inside.tool("session_list", &json!({}));
    assert!(!listed.to_string().contains(&session), "{listed}");
    for (tool, arguments) in [
        ("session_read", json!({"session": session})),
        ("session_send", json!({"session": session, "prompt": "hello"})),
    ] {
        assert!(failure(&inside.tool(tool, &arguments)).is_some(), "{tool}");
    }
    for (tool, arguments) in [("stop_server", json!({})), ("update_host", json!({"host": "box", "os": "none"}))] {
        let why = failure(&inside.tool(tool, &arguments)).unwrap_or_default();
        assert!(why.contains("inside this house"), "{tool}: {why}");
    }
    assert_eq!(failure(&inside.tool("status", &json!({}))), None);
    assert_eq!(home.session(&session)["turns"], 1);
    assert!(home.socket("sudo.sock").exists(), "the door is open");
}

#[test]
fn over_http_a_process_inside_gets_no_more() {
    let home = Home::start("");
    let (session, _) = home.owners_session();
    let status = home.native().ask("house/status", json!({}));
    let doors = status["doors"].as_array().cloned().expect("doors");
    let mcp = doors.iter().find(|door| door["name"] == "mcp").expect("the MCP door");
    let url = mcp["address"].as_str().expect("an address");
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let file = home.path().join("mcp-port");
    let mut command = home.hostel(&["run", "-d", "--"]);
    command.arg(binary::relay()).arg(format!("tcp:{}", file.display())).arg(format!("tcp:{address}"));
    assert!(run(command).status.success());
    let port = wait::eventually("the relay to listen", || fs::read_to_string(&file).ok()?.parse::<u16>().ok());
    let owner = |at: SocketAddr| {
        let mut client = Http::new(at, &home.token()).with("Host", Some(&address));
        client.initialize();
        client
    };
    let (inside, outside) = (owner(([127, 0, 0, 1], port).into()), owner(address.parse().expect("an address")));
    let tool = |client: &Http, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).message()
    };
    assert!(!tool(&inside, "session_list", json!({})).to_string().contains(&session));
    assert!(tool(&outside, "session_list", json!({})).to_string().contains(&session));
    for (name, arguments) in [
        ("session_read", json!({"session": session})),
        ("session_send", json!({"session": session, "prompt": "hello"})),
        ("mesh_inbox", json!({})),
        ("stop_server", json!({})),
        ("update_host", json!({"host": "box", "os": "none"})),
    ] {
        let answer = tool(&inside, name, arguments);
        assert!(failure(&answer).is_some(), "{name}: {answer}");
    }
    for name in ["mesh_inbox", "stop_server", "update_host"] {
        let records = home.audit("refused");
        let found = records.iter().any(|record| record["body"]["door"] == "mcp" && record["body"]["method"] == name);
        assert!(found, "{name}: {records:?}");
    }
    assert!(failure(&tool(&outside, "session_read", json!({"session": session}))).is_none());
}
