//! Which doors a house opens, where, and for which agents.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use common::House;
use common::finish;
use common::wait_until;
use serde_json::Value;
use serde_json::json;

/// A client of the house's zeroclaw door.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(house: &House) -> Self {
        let stream = UnixStream::connect(house.home().join("run/zeroclaw.sock")).unwrap();
        stream.set_read_timeout(Some(common::limit())).unwrap();
        let mut client = Client(BufReader::new(stream));
        client.ask("initialize", &json!({"protocol_version": 1}));
        client
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "closed before the answer to {method}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == method {
                return answer;
            }
        }
    }

    /// A session's status, running turn and number of waiting prompts.
    fn state(&mut self, id: &str) -> (String, Value, Value) {
        let list = self.ask("session/list", &json!({}));
        let found = list["result"]["sessions"].as_array().unwrap().iter().find(|row| row["session_id"] == id).cloned();
        let row = found.unwrap_or_else(|| panic!("{id} is not in {list}"));
        (row["status"].as_str().unwrap().to_owned(), row["running_turn"].clone(), row["queued"].clone())
    }
}

#[test]
fn the_default_endpoint_is_opened_where_it_is_free() {
    let house = House::new();
    let remote = house.user().join(".claude/remote");
    std::fs::create_dir_all(&remote).unwrap();
    let endpoint = remote.join("rpc.sock");
    let up = house.hostel(["up"]);
    assert!(up.out.contains(&format!("{}", endpoint.display())), "{}", up.out);
    assert!(std::os::unix::net::UnixStream::connect(&endpoint).is_ok());
    house.hostel(["down"]);
    assert!(!endpoint.exists());
    let _somebody = std::os::unix::net::UnixListener::bind(&endpoint).unwrap();
    let up = house.hostel(["up"]);
    assert!(up.out.contains("not open  taken: somebody listens there"), "{}", up.out);
    house.hostel(["down"]);
    assert!(endpoint.exists(), "somebody else's socket was removed");
}

#[test]
fn directories_of_default_endpoints_are_made_at_home_and_nowhere_else() {
    let house = House::new();
    let elsewhere = house.path().join("elsewhere/deep/s.sock");
    let listen =
        format!("doors.claustrum.listen={},{}", elsewhere.display(), house.user().join("own/c.sock").display());
    let status = house.json(["--json", "up", "--set", &listen]);
    let doors = status["status"]["doors"].as_array().unwrap();
    let door = |path: &std::path::Path| doors.iter().find(|door| door["address"] == *path.to_str().unwrap()).unwrap();
    for socket in ["home/.zeroclaw/data/daemon.sock", "home/own/c.sock"] {
        let socket = house.path().join(socket);
        assert_eq!(door(&socket)["open"], true, "{doors:?}");
        assert!(UnixStream::connect(&socket).is_ok());
        let mode = std::os::unix::fs::MetadataExt::mode(&socket.parent().unwrap().metadata().unwrap());
        assert_eq!(mode & 0o777, 0o700);
    }
    assert_eq!(door(&elsewhere)["open"], false);
    let note = door(&elsewhere)["note"].as_str().unwrap();
    let directory = house.path().join("elsewhere/deep");
    assert!(note.starts_with(&format!("its directory {} does not exist", directory.display())), "{note}");
    assert!(!house.path().join("elsewhere").exists());
}

#[test]
fn agents_doors_are_opened_where_they_are_free() {
    let house = House::new();
    let data = house.user().join(".zeroclaw/data");
    std::fs::create_dir_all(&data).unwrap();
    let endpoint = data.join("daemon.sock");
    let somebody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = somebody.local_addr().unwrap().to_string();
    let listen = format!("doors.codecast.listen={taken}");
    let status = house.json(["--json", "up", "--set", &listen]);
    let doors = status["status"]["doors"].as_array().unwrap().clone();
    let door = |address: &str| doors.iter().find(|door| door["address"] == address).unwrap().clone();
    assert_eq!(door(&endpoint.display().to_string())["open"], true);
    assert!(std::os::unix::net::UnixStream::connect(&endpoint).is_ok());
    assert_eq!(door(&taken)["note"], "taken: somebody listens there");
    // The door has a port all the same, and the file tells which.
    let port = std::fs::read_to_string(house.home().join("run/http.port")).unwrap();
    assert_eq!(door(&format!("127.0.0.1:{port}"))["open"], true);
    house.hostel(["down"]);
    assert!(!endpoint.exists() && data.join("daemon.sock.lock").exists());

    // Another daemon holds the lock, and another house must respect it.
    let lock = std::fs::File::open(data.join("daemon.sock.lock")).unwrap();
    lock.lock().unwrap();
    let none = ["doors.codecast.enabled=false", "doors.claustrum.enabled=false"];
    let up = house.hostel(["up", "--set", none[0], "--set", none[1]]);
    assert!(up.out.contains("not open  taken: somebody listens there"), "{}", up.out);
    assert!(!up.out.contains("codecast") && !up.out.contains("claustrum"), "{}", up.out);
    assert!(!house.home().join("run/http.port").exists());
}

#[test]
fn agents_are_those_of_the_settings_the_path_and_echo() {
    let house = House::new();
    let programs = house.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let fake = programs.join("claude");
    std::fs::write(&fake, "#!/bin/sh\necho 9.8.7 fake\n").unwrap();
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(house.home()).unwrap();
    let file = "[agents.helper]\nkind = \"acp\"\ncommand = [\"no-such-helper\"]\n";
    std::fs::write(house.home().join("hostel.toml"), file).unwrap();
    let with_path = |words: &[&str]| {
        let mut command = house.command();
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        finish(command.args(words).spawn().unwrap())
    };
    let up = with_path(&["up"]);
    assert_eq!(up.code, 0, "{up:?}");
    let doctor = with_path(&["doctor"]).out;
    for line in [
        format!("agent: claude is {}, 9.8.7 fake", fake.display()),
        "agent: echo is built in".to_owned(),
        "agent: helper: `no-such-helper` was not found; install it, or correct `agents.helper.command`".to_owned(),
        format!("sessions: {} is a database", house.home().join("state.db").display()),
        "door: zeroclaw on".to_owned(),
        "door: codecast on".to_owned(),
    ] {
        assert!(doctor.contains(&line), "{line} missing in {doctor}");
    }
    let answer = Client::connect(&house).ask("agents/list", &json!({}));
    let agents: Vec<&str> =
        answer["result"]["agents"].as_array().unwrap().iter().map(|agent| agent["alias"].as_str().unwrap()).collect();
    assert_eq!(agents, ["claude", "echo", "helper"], "{answer}");
    // One that would be there with its CLI: every face says what is missing and how to get it.
    let run = with_path(&["run", "--agent", "codex", "hi"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let refused = Client::connect(&house).ask("session/new", &json!({"agent_alias": "codex"}));
    assert_eq!(refused["error"]["code"], -32603);
    for reason in [run.err.as_str(), refused["error"]["message"].as_str().unwrap()] {
        assert!(reason.contains("no `codex` on its PATH"), "{reason}");
        assert!(reason.contains("`npm install -g @openai/codex`"), "{reason}");
    }
}

/// A client of the claustrum door that reads lines.
fn claustrum_client(house: &House) -> std::io::BufReader<std::os::unix::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::connect(house.home().join("run/claustrum.sock")).unwrap();
    stream.set_read_timeout(Some(common::limit())).unwrap();
    std::io::BufReader::new(stream)
}

#[test]
fn a_reattach_takes_the_stream_over_where_the_settings_say_so() {
    let house = House::new();
    let outcome = house.hostel(["up", "--set", "doors.claustrum.reattach=transfer"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let token = std::fs::read_to_string(house.home().join("run/local_token")).unwrap();
    let ask =
        |client: &mut std::io::BufReader<std::os::unix::net::UnixStream>, method: &str, params: serde_json::Value| {
            let request = json!({"jsonrpc":"2.0","id":7,"method":method,"params":params,"auth":token.trim()});
            client.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        };
    let until = |client: &mut std::io::BufReader<std::os::unix::net::UnixStream>, part: &str| loop {
        let mut line = String::new();
        assert_ne!(client.read_line(&mut line).unwrap(), 0, "closed before {part}");
        if line.contains(part) {
            return line;
        }
        assert!(!line.contains("\"stream\":\"stdout\""), "output where {part} was due: {line}");
    };
    let (mut first, mut second) = (claustrum_client(&house), claustrum_client(&house));
    ask(&mut first, "process.spawn", json!({"id":"p","command":"cat"}));
    until(&mut first, "success");
    ask(&mut second, "process.reattach", json!({"id":"p","fromSeq":0}));
    until(&mut second, "\"found\":true");
    ask(&mut second, "process.stdin", json!({"id":"p","data":"aGkK"}));
    until(&mut second, "\"data\":\"aGkK\"");
    // The first connection is open and answers, and has heard nothing of it.
    ask(&mut first, "server.ping", json!({}));
    until(&mut first, "pong");
}

#[test]
fn what_sessions_do_outlives_the_daemon_but_not_the_house() {
    let house = House::up();
    let mut client = Client::connect(&house);
    client.ask("session/new", &json!({"agent_alias": "echo", "session_id": "s", "cwd": house.path()}));
    for prompt in ["sleep 1000", "later"] {
        let sent = client.ask("session/send", &json!({"session_id": "s", "prompt": prompt}));
        assert!(sent["result"]["turn"].is_number(), "{sent}");
    }
    let busy = ("busy".to_owned(), json!(1), json!(1));
    wait_until("the first prompt runs", || client.state("s"), |state| *state == busy);
    house.hostel(["down", "--keep"]);
    house.hostel(["up"]);
    let mut client = Client::connect(&house);
    assert_eq!(client.state("s"), busy);
    house.hostel(["down"]);
    house.hostel(["up"]);
    let mut client = Client::connect(&house);
    assert_eq!(client.state("s"), ("idle".to_owned(), Value::Null, json!(0)));
    let messages = client.ask("session/messages", &json!({"session_id": "s"}));
    let asked: Vec<&str> = messages["result"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(asked, ["sleep 1000", "later"], "{messages}");
}
