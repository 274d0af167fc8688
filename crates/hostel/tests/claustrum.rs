//! The claustrum personality as a program: flags, tokens, messages, exit codes, and the life of its daemon.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use common::House;
use common::Outcome;
use common::finish;
use common::limit;
use common::own_port;
use common::send;
use common::wait_until;

fn claustrum(house: &House, words: &[&str]) -> Outcome {
    finish(house.claustrum().args(words).spawn().unwrap())
}

/// A connection that sends one request at a time.
struct Caller {
    stream: BufReader<UnixStream>,
}

impl Caller {
    fn new(socket: &PathBuf) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(limit())).unwrap();
        Caller { stream: BufReader::new(stream) }
    }

    fn send(&mut self, token: &str, method: &str, params: &str) {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params},\"auth\":\"{token}\"}}\n"
        );
        self.stream.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    fn call(&mut self, token: &str, method: &str, params: &str) -> String {
        self.send(token, method, params);
        self.line()
    }
}

struct Served {
    house: House,
    socket: PathBuf,
    outcome: Outcome,
}

/// Serves a socket with the token `tok`, as a client's installer does.
fn serve(flags: &[&str]) -> Served {
    let house = House::new();
    let socket = house.path().join("rpc.sock");
    let outcome = serve_again(&house, flags);
    Served { house, socket, outcome }
}

fn serve_again(house: &House, flags: &[&str]) -> Outcome {
    let token = house.path().join("token");
    std::fs::write(&token, "tok\n").unwrap();
    let err = std::fs::File::create(house.path().join("err")).unwrap();
    let out = std::fs::File::create(house.path().join("out")).unwrap();
    let mut command = house.claustrum();
    command.args(["-serve", "-socket", "rpc.sock", "-token-file", "token"]).args(flags);
    // The daemon keeps our standard streams, so a pipe would never end.
    let status = command.stdout(out).stderr(err).status().unwrap();
    assert!(!token.exists() || status.code() != Some(0), "the token file must be gone");
    Outcome {
        code: status.code().unwrap_or(-1),
        out: std::fs::read_to_string(house.path().join("out")).unwrap(),
        err: std::fs::read_to_string(house.path().join("err")).unwrap(),
    }
}

fn stop(served: &Served, token: &str) -> Outcome {
    let mut command = served.house.claustrum();
    command.env("CLAUDE_RPC_TOKEN", token).args(["-stop", "-socket", "rpc.sock"]);
    finish(command.spawn().unwrap())
}

fn exists(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn pid_in(reply: &str) -> String {
    let reply: serde_json::Value = serde_json::from_str(reply).unwrap();
    reply["result"]["pid"].to_string()
}

#[test]
fn messages_and_exit_codes() {
    let house = House::new();
    let missing = house.path().join("missing");
    let missing = missing.to_str().unwrap();
    let cases: [(&[&str], i32, String); 8] = [
        (&[], 2, "claustrum: one of --version/--install/--serve/--bridge/--stop is required\n".to_owned()),
        (
            &["-socket", "/s"],
            2,
            "claustrum: one of --version/--install/--serve/--bridge/--stop is required\n".to_owned(),
        ),
        (&["-serve"], 1, "claustrum: daemonized child requires --token-file or --token-fd\n".to_owned()),
        (
            &["-serve", "-socket", "s", "-token-file", missing],
            1,
            format!("claustrum: read --token-file: open {missing}: no such file or directory\n"),
        ),
        (
            &["-serve", "-socket", "s", "-token-fd", "77"],
            1,
            "claustrum: read --token-fd: bad file descriptor\n".to_owned(),
        ),
        (&["-serve", "-socket", "s", "-token-fd", "0"], 1, "claustrum: token is empty\n".to_owned()),
        (
            &["-bridge", "-socket", missing],
            1,
            format!("claustrum: dial server: dial unix {missing}: connect: no such file or directory\n"),
        ),
        (&["-stop", "-socket", missing], 0, String::new()),
    ];
    for (words, code, err) in cases {
        assert_eq!(claustrum(&house, words), Outcome { code, out: String::new(), err }, "{words:?}");
    }
    let unknown = claustrum(&house, &["-nope"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.starts_with("flag provided but not defined: -nope\nUsage of claustrum:\n  -bridge\n"),
        "{unknown:?}"
    );
    let help = claustrum(&house, &["-h"]);
    assert_eq!((help.code, help.out.as_str()), (0, ""));
    assert!(help.err.starts_with("Usage of claustrum:\n"));
    let version = claustrum(&house, &["-version", "-serve"]);
    assert_eq!(version.code, 0);
    assert!(version.out.starts_with("claustrum hostel-") && version.out.ends_with("(built unknown)\n"), "{version:?}");
    assert_eq!(house.hostel(["as", "claustrum", "-version"]).out, version.out);
    let homeless = finish(house.claustrum().env_remove("HOME").arg("-version").spawn().unwrap());
    assert_eq!(
        (homeless.code, homeless.err.as_str()),
        (1, "claustrum: cannot resolve home directory: $HOME is not defined\n")
    );
    assert!(!house.home().exists(), "nothing was served, so there is no house");
}

#[test]
fn the_environment_is_no_token_source() {
    let house = House::new();
    let mut command = house.claustrum();
    let outcome = finish(command.env("CLAUDE_RPC_TOKEN", "tok").args(["-serve", "-socket", "s"]).spawn().unwrap());
    assert_eq!(
        (outcome.code, outcome.err.as_str()),
        (1, "claustrum: daemonized child requires --token-file or --token-fd\n")
    );
}

#[test]
fn sockets_that_cannot_be_bound() {
    let house = House::new();
    let cases = [
        (house.path().join("missing/rpc.sock"), "no such file or directory"),
        (house.path().join("l".repeat(120)), "invalid argument"),
    ];
    for (socket, reason) in cases {
        let socket = socket.to_str().unwrap();
        std::fs::write(house.path().join("token"), "tok").unwrap();
        let outcome = claustrum(&house, &["-serve", "-socket", socket, "-token-file", "token"]);
        assert_eq!(
            (outcome.code, outcome.err),
            (1, format!("claustrum: listen unix: listen unix {socket}: bind: {reason}\n"))
        );
    }
    std::fs::write(house.path().join("token"), "tok").unwrap();
    let outcome = claustrum(&house, &["-serve", "-token-file", "token"]);
    let default = house.user().join(".claude/remote/rpc.sock");
    assert_eq!(
        (outcome.code, outcome.err),
        (1, format!("claustrum: listen unix: listen unix {}: bind: no such file or directory\n", default.display()))
    );
}

#[test]
fn serving_begins_before_the_launcher_returns() {
    let served = serve(&[]);
    assert_eq!(served.outcome.code, 0, "{:?}", served.outcome);
    assert_eq!(served.outcome.out, "Claustrum remote server listening on rpc.sock\n");
    assert_eq!(served.socket.metadata().unwrap().mode() & 0o777, 0o600);
    let mut caller = Caller::new(&served.socket);
    assert_eq!(caller.call("tok", "server.ping", "{}"), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"pong\":true}}\n");
    let seen = caller.call("tok", "process.spawn", r#"{"id":"env","command":"env"}"#);
    assert_eq!(seen, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"success\":true}}\n");
    let frame: serde_json::Value = serde_json::from_str(&caller.line()).unwrap();
    let data = base64_simd::STANDARD.decode_to_vec(frame["data"].as_str().unwrap()).unwrap();
    let environment = String::from_utf8(data).unwrap();
    assert!(environment.contains("CLAUDE_SSH_DAEMON_CHILD=1\n"), "{environment}");
    for private in ["CLAUSTRUM_DAEMON_CHILD", "CLAUSTRUM_TOKEN_PIPE", "CLAUDE_RPC_TOKEN"] {
        assert!(!environment.contains(private), "{private} in {environment}");
    }
    let list = served.house.json(["--json", "ps", "-a"]);
    assert_eq!(list["processes"][0]["name"], "env");
    assert_eq!(list["processes"][0]["door"], "claustrum");
}

#[test]
fn an_outer_session_does_not_confuse_the_launcher() {
    let house = House::new();
    std::fs::write(house.path().join("token"), "tok").unwrap();
    let mut command = house.claustrum();
    command.env("CLAUDE_SSH_DAEMON_CHILD", "1").args(["-serve", "-socket", "rpc.sock", "-token-file", "token"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(UnixStream::connect(house.path().join("rpc.sock")).is_ok());
}

#[test]
fn a_token_can_come_by_descriptor() {
    let house = House::new();
    let mut command = house.claustrum();
    command.args(["-serve", "-socket", "rpc.sock", "-token-fd", "0"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b" to ken \r\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut caller = Caller::new(&house.path().join("rpc.sock"));
    assert!(caller.call(" to ken ", "server.ping", "{}").contains("pong"));
    assert!(caller.call("to ken", "server.ping", "{}").contains("-32001"));
}

#[test]
fn stop_needs_the_token_and_ends_the_children() {
    let served = serve(&[]);
    let mut caller = Caller::new(&served.socket);
    let pid =
        pid_in(&caller.call("tok", "process.spawn", r#"{"id":"p","command":"sleep","args":["300"],"wantPid":true}"#));
    assert!(exists(&pid));
    let wrong = stop(&served, "nope");
    assert_eq!(wrong.code, 0);
    assert_eq!(
        wrong.out,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"Unauthorized: invalid or missing auth token\"}}\n"
    );
    assert!(exists(&pid));
    assert_eq!(stop(&served, "tok"), Outcome { code: 0, out: String::new(), err: String::new() });
    let mut rest = String::new();
    caller.stream.read_to_string(&mut rest).unwrap();
    assert!(!exists(&pid), "a closed connection means that the children are gone");
    wait_until("the socket is gone", || served.socket.exists(), |there| !there);
    assert_eq!(stop(&served, "tok").code, 0);
}

#[test]
fn a_silent_daemon_does_not_hold_stop_for_long() {
    let house = House::new();
    let _silent = std::os::unix::net::UnixListener::bind(house.path().join("rpc.sock")).unwrap();
    // Who hangs is ended by `finish` and has no exit code.
    let outcome = claustrum(&house, &["-stop", "-socket", "rpc.sock"]);
    assert_eq!(outcome.code, 0);
}

#[test]
fn a_crash_leaves_children_to_the_next_daemon() {
    let served = serve(&[]);
    let mut caller = Caller::new(&served.socket);
    let script = r#"{"id":"p","command":"sh","args":["-c","echo first; read line; echo $line; exit 4"]}"#;
    caller.call("tok", "process.spawn", script);
    assert!(caller.line().contains("\"seq\":1"));
    let folder = std::fs::read_dir(served.house.home().join("as")).unwrap().next().unwrap().unwrap();
    let daemon = std::fs::read_to_string(folder.path().join("run/daemon.lock")).unwrap();
    send("KILL", daemon.trim());
    let again = serve_again(&served.house, &[]);
    assert_eq!(again.code, 0, "{again:?}");
    let mut caller = Caller::new(&served.socket);
    caller.send("tok", "process.reattach", r#"{"id":"p","fromSeq":0}"#);
    assert!(caller.line().contains("\"data\":\"Zmlyc3QK\""));
    assert!(caller.line().contains("\"found\":true,\"running\":true"));
    caller.send("tok", "process.stdin", r#"{"id":"p","data":"c2Vjb25kCg==","offset":0}"#);
    // The answer may come before or after the frames it causes.
    let lines = [caller.line(), caller.line(), caller.line()].concat();
    for part in ["\"applied\":7", "\"seq\":2,\"data\":\"c2Vjb25kCg==\"", "\"exitCode\":4"] {
        assert!(lines.contains(part), "{part} missing in {lines}");
    }
}

#[test]
fn a_second_daemon_takes_the_place_of_the_first() {
    let served = serve(&[]);
    let mut first = Caller::new(&served.socket);
    let pid =
        pid_in(&first.call("tok", "process.spawn", r#"{"id":"p","command":"sleep","args":["300"],"wantPid":true}"#));
    let again = serve_again(&served.house, &[]);
    assert_eq!(again.code, 0, "{again:?}");
    let mut rest = String::new();
    first.stream.read_to_string(&mut rest).unwrap();
    assert!(served.socket.exists(), "the older daemon must not remove its successor's socket");
    let mut caller = Caller::new(&served.socket);
    let reply = caller.call("tok", "process.reattach", r#"{"id":"p","fromSeq":0,"wantPid":true}"#);
    assert_eq!(pid_in(&reply), pid);
    assert!(exists(&pid));
}

#[test]
fn keep_children_leaves_them_alive_and_says_so() {
    let served = serve(&["-keep-children"]);
    let mut caller = Caller::new(&served.socket);
    let pid =
        pid_in(&caller.call("tok", "process.spawn", r#"{"id":"p","command":"sleep","args":["300"],"wantPid":true}"#));
    stop(&served, "tok");
    wait_until("the socket is gone", || served.socket.exists(), |there| !there);
    let log = || std::fs::read_to_string(served.house.path().join("err")).unwrap();
    wait_until("the log tells", log, |log| {
        log.contains("[Server] -keep-children: leaving 1 running child process(es) alive across shutdown\n")
    });
    assert!(exists(&pid));
    serve_again(&served.house, &[]);
    let mut caller = Caller::new(&served.socket);
    let reply = caller.call("tok", "process.reattach", r#"{"id":"p","fromSeq":0,"wantPid":true}"#);
    assert_eq!(pid_in(&reply), pid);
}

#[test]
fn a_terminate_signal_ends_daemon_and_children() {
    let served = serve(&[]);
    let mut caller = Caller::new(&served.socket);
    let pid =
        pid_in(&caller.call("tok", "process.spawn", r#"{"id":"p","command":"sleep","args":["300"],"wantPid":true}"#));
    let folder = std::fs::read_dir(served.house.home().join("as")).unwrap().next().unwrap().unwrap();
    let daemon = std::fs::read_to_string(folder.path().join("run/daemon.lock")).unwrap();
    send("TERM", daemon.trim());
    wait_until("the daemon is gone", || exists(daemon.trim()), |there| !there);
    assert!(!exists(&pid) && !served.socket.exists());
}

#[test]
fn counters_are_served_on_demand() {
    let address = format!("127.0.0.1:{}", own_port());
    let served = serve(&["-metrics-addr", &address]);
    Caller::new(&served.socket).call("tok", "process.spawn", r#"{"id":"p","command":"true"}"#);
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(limit())).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("claustrum_process_spawns_total 1\n"), "{page}");
    let logged = |house: &House, line: String| {
        // Lines are written by a thread of their own.
        let log = || std::fs::read_to_string(house.path().join("err")).unwrap();
        wait_until("the log has the line", log, |log| log.contains(&line));
    };
    logged(&served.house, format!("[Server] metrics: serving Prometheus counters on {address}/metrics\n"));
    let other = House::new();
    let refused = serve_again(&other, &["-metrics-addr", &address]);
    assert_eq!(refused.code, 0, "a taken address is no reason not to serve");
    logged(&other, format!("[Server] metrics: listen {address}: address already in use\n"));
}

#[test]
fn the_bridge_goes_on_after_the_end_of_its_input() {
    let served = serve(&[]);
    let mut command = served.house.claustrum();
    command.args(["-bridge", "-socket", "rpc.sock"]).stdin(Stdio::piped());
    let mut bridge = command.spawn().unwrap();
    let mut lines = BufReader::new(bridge.stdout.take().unwrap());
    let mut stdin = bridge.stdin.take().unwrap();
    let request = r#"{"jsonrpc":"2.0","id":9,"method":"process.spawn","params":{"id":"p","command":"sh","args":["-c","read x; echo late"]},"auth":"tok"}"#;
    writeln!(stdin, "{request}").unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"success\":true}}\n");
    drop(stdin);
    let mut caller = Caller::new(&served.socket);
    caller.call("tok", "process.stdin", r#"{"id":"p","data":"Cg=="}"#);
    line.clear();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("\"data\":\"bGF0ZQo=\""), "{line}");
    assert!(bridge.try_wait().unwrap().is_none());
    stop(&served, "tok");
    assert_eq!(finish(bridge).code, 0);
}

#[test]
fn the_bridge_ends_when_nobody_reads_it() {
    let served = serve(&[]);
    let mut command = served.house.claustrum();
    command.args(["-bridge", "-socket", "rpc.sock"]).stdin(Stdio::piped());
    let mut bridge = command.spawn().unwrap();
    drop(bridge.stdout.take());
    drop(bridge.stdin.take());
    assert_eq!(finish(bridge).code, 0);
}

#[test]
fn houses_are_asked_together_and_apart() {
    let served = serve(&[]);
    Caller::new(&served.socket).call("tok", "process.spawn", r#"{"id":"one","command":"sleep","args":["300"]}"#);
    assert_eq!(served.house.hostel(["up"]).code, 0);
    assert_eq!(served.house.hostel(["run", "-d", "--name", "two", "--", "sleep", "300"]).code, 0);
    assert_eq!(served.house.hostel(["run", "-d", "--name", "one", "--", "sleep", "300"]).code, 0);
    let list = served.house.json(["--json", "ps"]);
    let mut seen: Vec<(String, String)> = list["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| (process["house"].as_str().unwrap().to_owned(), process["name"].as_str().unwrap().to_owned()))
        .collect();
    seen.sort();
    let folder = seen[0].0.clone();
    assert!(folder.starts_with("claustrum-"), "{seen:?}");
    assert_eq!(seen.len(), 3, "{seen:?}");
    let both = served.house.hostel(["kill", "one"]);
    assert_eq!(both.code, 1);
    assert_eq!(both.err, format!("hostel: `one` is in several houses: home, {folder}; choose with `--house NAME`\n"));
    assert_eq!(served.house.hostel(["--house", &folder, "kill", "--wait", "5s", "one"]).out, "one: ended\n");
}
