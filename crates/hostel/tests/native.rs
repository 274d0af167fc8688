//! Our own protocol, line by line over the real socket.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use common::House;
use common::limit;
use serde_json::Value;
use serde_json::json;

struct Peer {
    stream: BufReader<UnixStream>,
}

impl Peer {
    fn raw(house: &House) -> Self {
        let stream = UnixStream::connect(house.home().join("run/hostel.sock")).unwrap();
        stream.set_read_timeout(Some(limit())).unwrap();
        Peer { stream: BufReader::new(stream) }
    }

    fn new(house: &House) -> Self {
        let mut peer = Peer::raw(house);
        let answer = peer.call("initialize", &json!({"protocol_version": 1}));
        assert_eq!(answer["result"]["protocol_version"], 1);
        peer
    }

    fn say(&mut self, line: &str) {
        self.stream.get_mut().write_all(line.as_bytes()).unwrap();
        self.stream.get_mut().write_all(b"\n").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).to_string());
        self.hear()
    }
}

#[test]
fn requests_that_are_refused() {
    let house = House::up();
    let mut peer = Peer::raw(&house);
    let mut refused = |line: &str| {
        peer.say(line);
        let answer = peer.hear();
        (answer["error"]["code"].as_i64().unwrap_or(0), answer["error"]["message"].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/list"}"#), (-32010, "initialize first".to_owned()));
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#).0, -32601);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":2}}"#).0, -32011);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#).0, -32602);
    for line in [
        r#"{"id":1,"method":"initialize","params":{"protocol_version":1}}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"initialize","params":{"protocol_version":1}}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"process/list"}"#,
        r#"{"jsonrpc":null,"id":1,"method":"no/such"}"#,
    ] {
        assert_eq!(refused(line), (-32600, "not a request: `jsonrpc` is not \"2.0\"".to_owned()), "{line}");
    }
    assert_eq!(refused("nonsense").0, -32700);
    assert_eq!(refused("[]").0, -32600);
    assert_eq!(refused("{}").0, -32600);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1}}"#).0, 0);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/list","params":{}}"#).0, 0);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/tree","params":{}}"#).0, -32602);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/tree","params":{"id":"x"}}"#).0, -32012);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/attach","params":{"id":"x"}}"#).0, -32012);
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/spawn","params":{"argv":[]}}"#).0, -32602);
    assert_eq!(
        refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/spawn","params":{"argv":["/"],"cwd":"/"}}"#).0,
        -32014
    );
    assert_eq!(refused(r#"[1,"process/list",{}]"#).0, -32600);
    assert_eq!(
        refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/stdin","params":{"id":"x","data":"*"}}"#).0,
        -32602
    );
    assert_eq!(
        refused(r#"{"jsonrpc":"2.0","id":1,"method":"process/kill","params":{"id":"x","signal":"NOPE"}}"#).0,
        -32602
    );
}

#[test]
fn the_greeting_names_every_method() {
    let house = House::up();
    let mut peer = Peer::raw(&house);
    let greeting = peer.call("initialize", &json!({"protocol_version": 1}));
    assert_eq!(greeting["id"], "x");
    assert_eq!(greeting["result"]["server_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(greeting["result"]["server_pid"].to_string(), house.daemon());
    let methods: Vec<&str> =
        greeting["result"]["capabilities"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(methods.len(), 61);
    for method in methods {
        // Known methods complain about what is missing, never that they are unknown.
        if !matches!(method, "house/down" | "keeper/upgrade" | "initialize") {
            assert_ne!(peer.call(method, &json!({}))["error"]["code"], -32601, "{method}");
        }
    }
}

#[test]
fn a_line_that_is_too_long_ends_the_connection() {
    let house = House::up();
    let mut peer = Peer::new(&house);
    let long = vec![b'x'; (8 << 20) + 2];
    // The daemon may close before it has all of it.
    drop(peer.stream.get_mut().write_all(&long));
    let mut rest = Vec::new();
    drop(peer.stream.read_to_end(&mut rest));
    assert!(rest.is_empty());
    assert_eq!(Peer::new(&house).call("process/list", &json!({}))["result"]["processes"], json!([]));
}

#[test]
fn attach_answers_first_then_replays_then_follows() {
    let house = House::up();
    let mut peer = Peer::new(&house);
    let spawned = peer.call(
        "process/spawn",
        &json!({"argv": ["sh", "-c", "echo one; echo two >&2; read x; echo three; exit 9"], "name": "p"}),
    );
    let id = spawned["result"]["id"].clone();
    let attached = peer.call("process/attach", &json!({"id": "p"}));
    assert_eq!((&attached["result"]["name"], &attached["result"]["running"]), (&json!("p"), &json!(true)));
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let frame = peer.hear();
        assert_eq!((&frame["method"], &frame["params"]["id"]), (&json!("process/output"), &id));
        seen.push((frame["params"]["stream"].clone(), frame["params"]["data"].clone()));
    }
    seen.sort_by_key(|(stream, _)| stream.to_string());
    assert_eq!(seen, [(json!("stderr"), json!("dHdvCg==")), (json!("stdout"), json!("b25lCg=="))]);
    // Input goes over a connection of its own, where no frames come between question and answer.
    let mut watcher = Peer::new(&house);
    let mut stdin = |offset: u64| {
        let answer = watcher.call("process/stdin", &json!({"id": "p", "data": "Cg==", "offset": offset}));
        (answer["error"]["code"].clone(), answer["result"].clone())
    };
    assert_eq!(stdin(5).0, -32003);
    assert_eq!(stdin(0).1, json!({"applied": 1, "duplicate": false}));
    let (code, repeated) = stdin(0);
    assert!(repeated == json!({"applied": 1, "duplicate": true}) || code == -32016, "{code} {repeated}");
    let output = peer.hear()["params"].clone();
    let exit = peer.hear();
    assert_eq!(exit["method"], "process/exit");
    let exit = exit["params"].clone();
    assert_eq!(output["data"], "dGhyZWUK");
    assert_eq!((&exit["exit_code"], &exit["seq"]), (&json!(9), &json!(4)));
    let attached = watcher.call("process/attach", &json!({"id": id, "since_seq": 2, "follow": false}));
    assert_eq!(attached["result"]["last_seq"], 4);
    assert_eq!(watcher.hear()["params"]["data"], "dGhyZWUK");
    assert_eq!(watcher.hear()["method"], "process/exit");
    let replayed = watcher.hear();
    assert_eq!((&replayed["method"], &replayed["params"]["last_seq"]), (&json!("process/replayed"), &json!(4)));
    let after = watcher.call("process/stdin", &json!({"id": "p", "data": ""}));
    assert_eq!(after["error"]["code"], -32016);
}

#[test]
fn answers_still_come_after_a_half_close() {
    let house = House::up();
    let mut peer = Peer::new(&house);
    peer.call("process/spawn", &json!({"argv": ["sleep", "60"], "name": "p"}));
    peer.say(
        &json!({"jsonrpc": "2.0", "id": 7, "method": "process/kill", "params": {"id": "p", "signal": "KILL", "wait_ms": 5000}})
            .to_string(),
    );
    // A last line without its end is not served.
    peer.stream.get_mut().write_all(br#"{"jsonrpc":"2.0","id":8,"method":"process/list"}"#).unwrap();
    peer.stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    let answer = peer.hear();
    assert_eq!((&answer["id"], &answer["result"]["died"]), (&json!(7), &json!(true)));
    assert_eq!(peer.hear(), Value::Null);
}

#[test]
fn a_request_without_an_id_gets_no_answer() {
    let house = House::up();
    let mut peer = Peer::new(&house);
    peer.say(&json!({"jsonrpc": "2.0", "method": "process/list"}).to_string());
    peer.say("");
    assert_eq!(peer.call("house/status", &json!({}))["result"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn as_many_connections_as_set_and_not_one_more() {
    let house = House::new();
    let up = house.hostel(["up", "--set", "limits.connections=40"]);
    assert_eq!(up.code, 0, "{up:?}");
    let mut peers: Vec<Peer> = (0..40).map(|_| Peer::new(&house)).collect();
    let mut refused = Peer::raw(&house);
    let answer = refused.hear();
    assert_eq!(answer["error"]["code"], -32018);
    assert_eq!(answer["error"]["message"], "all 40 connections are in use");
    let full = house.hostel(["ps"]);
    assert_eq!((full.code, full.out.as_str()), (1, ""), "{full:?}");
    assert!(full.err.starts_with("hostel: all 40 connections are in use; try again later"), "{full:?}");
    peers.pop();
    let greeting = || {
        let mut peer = Peer::raw(&house);
        peer.say(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol_version": 1}}).to_string(),
        );
        peer.hear()
    };
    common::wait_until("there is room again", greeting, |greeting| greeting["result"]["protocol_version"] == 1);
}

#[test]
fn goodbye_is_said_before_the_house_closes() {
    let house = House::up();
    let mut peer = Peer::new(&house);
    assert_eq!(house.hostel(["down", "--keep"]).code, 0);
    assert_eq!(peer.hear(), json!({"jsonrpc": "2.0", "method": "house/closing", "params": {"keep": true}}));
}
