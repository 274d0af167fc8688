//! `sudo-proxy-mcp`, ours and the real one: the same questions, the same answers.
//!
//! Behind both is a daemon that says what the test tells it. Where the two may differ is said here, with the reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use hostel_tests::binary;
use hostel_tests::mcp::{Place, Stdio, is_error, text, texts};
use hostel_tests::sudo_proxy::oracle;
use hostel_tests::wait;
use serde_json::{Value, json};

/// Which program answers.
#[derive(Clone)]
enum Program {
    Ours,
    Real(PathBuf),
}

impl Program {
    fn command(&self, place: &Place) -> Command {
        match self {
            Program::Ours => {
                let mut command = place.command(binary::hostel());
                command.args(["as", "sudo-proxy-mcp"]);
                command
            }
            Program::Real(path) => place.command(path),
        }
    }
}

/// A daemon that says what it is told, once each, and closes without a word otherwise.
struct Daemon {
    said: Arc<Mutex<Vec<Value>>>,
    next: Arc<Mutex<Option<String>>>,
}

impl Daemon {
    fn new(place: &Place) -> Self {
        let listener = UnixListener::bind(place.path("run/sudo-proxy.sock")).unwrap();
        let (said, next) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None::<String>)));
        let (heard, answers) = (Arc::clone(&said), Arc::clone(&next));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (heard, answers) = (Arc::clone(&heard), Arc::clone(&answers));
                thread::spawn(move || {
                    let mut line = String::new();
                    if BufReader::new(&stream).read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    heard.lock().unwrap().push(serde_json::from_str(&line).unwrap());
                    let answer = answers.lock().unwrap().take();
                    if let Some(answer) = answer {
                        (&stream).write_all(format!("{answer}\n").as_bytes()).unwrap();
                    }
                });
            }
        });
        Daemon { said, next }
    }

    fn will_say(&self, answer: &str) {
        *self.next.lock().unwrap() = Some(answer.to_owned());
        self.said.lock().unwrap().clear();
    }

    /// What it was asked, without what is different each time.
    fn heard(&self) -> Vec<Value> {
        let mut heard = self.said.lock().unwrap().clone();
        for request in &mut heard {
            let fields = request.as_object_mut().unwrap();
            assert!(fields.remove("id").is_some() && fields.remove("time").is_some());
        }
        heard
    }
}

/// The answers to everything that can be asked without a daemon.
fn without_daemon(program: &Program) -> Vec<(String, Value)> {
    let place = Place::new();
    let mut told = Vec::new();
    let command = || {
        let mut command = program.command(&place);
        // Whatever this machine has: no terminal emulator is found.
        command.env("PATH", place.path("nothing"));
        command
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let client = Stdio::start_with(command(), version);
        told.push((format!("initialize {version}"), client.greeting["result"]["protocolVersion"].clone()));
    }
    let mut client = Stdio::start_with(command(), "2025-03-26");
    for field in ["capabilities", "serverInfo"] {
        told.push((field.to_owned(), client.greeting["result"][field].clone()));
    }
    told.push(("tools/list".to_owned(), arguments(&client.call("tools/list", Value::Null))));
    let calls = [
        ("execute", json!({})),
        ("execute", json!({"argv": ["id"], "privileged": false})),
        ("execute", json!({"argv": ["id"]})),
        ("execute", json!({"host": ""})),
        ("execute", json!({"host": "a b"})),
        ("execute", json!({"host": "-x"})),
        ("execute", json!({"host": "box", "argv": ["id"], "privileged": false})),
        ("execute", json!({"host": "LOCALHOST.", "privileged": false})),
        ("execute", json!({"host": "u@127.0.0.9", "privileged": false})),
        ("execute", json!({"argv": "x"})),
        ("execute", json!({"timeout": -1})),
        ("execute", json!({"privileged": "no"})),
        ("start_server", json!({})),
        ("start_server", json!({"host": "x y"})),
        ("stop_server", json!({})),
        ("stop_server", json!({"host": "box"})),
        ("stop_server", json!({"host": "a;b"})),
        ("status", json!({})),
        ("status", json!({"host": "box"})),
        ("update_host", json!({})),
        ("update_host", json!({"host": "box", "description": "a box"})),
        ("update_host", json!({"host": "box", "os": "Debian"})),
        ("update_host", json!({"host": "*"})),
        ("status", json!({})),
        ("nothing", json!({})),
    ];
    for (tool, arguments) in calls {
        told.push((format!("{tool} {arguments}"), client.tool(tool, &arguments)));
    }
    let others = [
        ("resources/read", json!({"uri": "sudo-proxy://hosts"})),
        ("resources/read", json!({"uri": "x"})),
        ("resources/templates/list", Value::Null),
        ("prompts/list", Value::Null),
        ("ping", Value::Null),
        ("nonsense", json!({})),
    ];
    for (method, params) in others {
        told.push((format!("{method} {params}"), client.call(method, params)));
    }
    assert!(client.close().success());
    let root = place.path("").display().to_string();
    let root = root.trim_end_matches('/');
    told.into_iter()
        .map(|(asked, answer)| (asked, serde_json::from_str(&answer.to_string().replace(root, "ROOT")).unwrap()))
        .collect()
}

/// The names, types and defaults of all arguments; words are everybody's own. Where the real one says that an argument
/// may also be `null`, that is left out: ours takes it just so.
fn arguments(listed: &Value) -> Value {
    let tools = listed["result"]["tools"].as_array().unwrap();
    let mut told = serde_json::Map::new();
    for tool in tools {
        let schema = &tool["inputSchema"];
        let mut properties = schema["properties"].clone();
        for property in properties.as_object_mut().unwrap().values_mut() {
            let fields = property.as_object_mut().unwrap();
            fields.remove("description");
            fields.remove("nullable");
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
        }
        let mut fields: Vec<&String> = tool.as_object().unwrap().keys().collect();
        fields.sort();
        told.insert(
            tool["name"].as_str().unwrap().to_owned(),
            json!({"properties": properties, "required": schema["required"], "fields": fields}),
        );
    }
    Value::Object(told)
}

/// What a daemon may answer to a command.
const ANSWERS: [&str; 11] = [
    r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":"aGkK","version":"1.2.0"}"#,
    r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":"","version":"1.2.0"}"#,
    r#"{"id":"1","status":"ok","stages":[{"exit_code":2,"stderr":"ZQ=="}],"stdout":"/w==","version":"1.2.0"}"#,
    r#"{"id":"1","status":"ok","stages":[{"exit_code":1,"stderr":"ZQ=="},{"exit_code":0,"stderr":"Zg=="}],"stdout":""}"#,
    r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""},{"exit_code":-1,"stderr":""}],"stdout":"","more":1}"#,
    r#"{"id":"1","status":"denied","version":"1.2.0"}"#,
    r#"{"id":"1","status":"timeout","version":"1.2.0"}"#,
    r#"{"id":"1","status":"error","message":"no","version":"9.9.9"}"#,
    r#"{"id":"1","status":"error"}"#,
    "nonsense",
    r#"{"id":"1","status":"what","version":"7"}"#,
];

fn with_daemon(program: &Program) -> Vec<(String, Value)> {
    let place = Place::new();
    let daemon = Daemon::new(&place);
    let mut client = Stdio::start_with(program.command(&place), "2025-03-26");
    let mut told = Vec::new();
    for answer in ANSWERS {
        daemon.will_say(answer);
        let arguments = json!({"argv": ["id", "-u"], "description": "why", "env": {"LANG": "C"}, "host": "localhost"});
        let mut result = client.tool("execute", &arguments);
        // The decoder's own words are nobody's contract.
        let said = texts(&result).concat();
        if let Some((lead, _)) = said.split_once("): ").filter(|_| said.starts_with("parse response")) {
            result = json!({"unreadable": lead});
        }
        told.push((answer.to_owned(), json!({"result": result, "heard": daemon.heard()})));
    }
    daemon.will_say(r#"{"id":"1","status":"ok","stdout":"","message":"pong","version":"1.2.0"}"#);
    let status = text(&client.tool("status", &json!({})));
    told.push(("ping".to_owned(), json!({"status": without_time(&status), "heard": daemon.heard()})));
    let old = r#"{"id":"1","status":"error","message":"pipeline must not be empty","version":"1.0.0"}"#;
    daemon.will_say(old);
    told.push(("ping of an old daemon".to_owned(), json!(without_time(&text(&client.tool("status", &json!({})))))));
    daemon.will_say(old);
    told.push(("stop of an old daemon".to_owned(), client.tool("stop_server", &json!({}))));
    daemon.will_say(r#"{"id":"1","status":"error","message":"no","version":"1.2.0"}"#);
    told.push(("stop refused".to_owned(), client.tool("stop_server", &json!({}))));
    told
}

fn without_time(status: &str) -> String {
    status.split(" [last:").next().unwrap().to_owned()
}

#[test]
fn ours_answers_like_the_real_one() {
    let Some(real) = oracle::program("sudo-proxy-mcp") else { return };
    for play in [without_daemon, with_daemon] {
        let (theirs, ours) = (play(&Program::Real(real.clone())), play(&Program::Ours));
        assert_eq!(theirs.len(), ours.len());
        for (theirs, ours) in theirs.into_iter().zip(ours) {
            assert_eq!(theirs, ours);
        }
    }
}

#[test]
fn the_words_of_the_contract() {
    let told = without_daemon(&Program::Ours);
    let answer = |asked: &str| &told.iter().find(|(known, _)| known == asked).unwrap_or_else(|| panic!("{asked}")).1;
    assert_eq!(answer("initialize 2024-11-05"), "2024-11-05");
    assert_eq!(answer("initialize 2025-11-25"), "2025-03-26");
    assert_eq!(*answer("serverInfo"), json!({"name": "sudo-proxy", "version": "1.2.0"}));
    assert_eq!(*answer("capabilities"), json!({"tools": {}, "resources": {}}));
    assert_eq!(
        text(answer(r#"execute {"argv":["id"]}"#)),
        "sudo-proxy is not running (socket not found at ROOT/run/sudo-proxy.sock). Call start_server first."
    );
    assert_eq!(
        answer("start_server {}")["error"],
        json!({"code": -32603, "message":
            "no terminal emulator found (tried x-terminal-emulator, gnome-terminal, konsole, xfce4-terminal, xterm)"})
    );
    assert_eq!(
        text(answer("stop_server {}")),
        "sudo-proxy is not running on localhost (no socket at ROOT/run/sudo-proxy.sock)"
    );
    assert_eq!(
        answer(r#"resources/read {"uri":"x"}"#)["error"],
        json!({"code": -32002, "message": "Unknown resource: x"})
    );
}

#[test]
fn truncation_is_shown() {
    let place = Place::new();
    let daemon = Daemon::new(&place);
    let mut client = Stdio::start(Program::Ours.command(&place));
    daemon.will_say(
        r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":"ZQ==","stderr_truncated":true}],"stdout":"aGk=","stdout_truncated":true}"#,
    );
    let answer = client.tool("execute", &json!({"argv": ["yes"]}));
    let said = texts(&answer);
    assert_eq!(said[..2], ["hi", "[stderr]\ne"]);
    assert!(said[2].starts_with("[stdout truncated") && said[3].starts_with("[stderr truncated"), "{said:?}");
    assert!(!is_error(&answer));
}

#[test]
fn the_longest_output_comes_whole() {
    let place = Place::new();
    let daemon = Daemon::new(&place);
    let mut client = Stdio::start(Program::Ours.command(&place));
    // 16 MiB of `A` in base64.
    let stdout = "QUFB".repeat((16 << 20) / 3);
    daemon.will_say(&format!(
        r#"{{"id":"1","status":"ok","stages":[{{"exit_code":0,"stderr":""}}],"stdout":"{stdout}"}}"#
    ));
    let answer = client.tool("execute", &json!({"argv": ["yes"]}));
    let said = text(&answer);
    assert_eq!((said.len(), is_error(&answer)), ((16 << 20) / 3 * 3, false));
    assert!(said.bytes().all(|byte| byte == b'A'));
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_bytes() {
    let place = Place::new();
    let daemon = Daemon::new(&place);
    let mut client = Stdio::start(Program::Ours.command(&place));
    let answer = client.tool("execute", &json!({"argv": ["id"]}));
    let said = text(&answer);
    assert!(said.starts_with("server closed connection without response (after ") && is_error(&answer), "{said}");
    let heard = daemon.said.lock().unwrap().clone();
    assert!(heard.len() > 1 && heard.iter().all(|request| *request == heard[0]), "{heard:?}");
}

/// A terminal emulator is handed the command word by word.
#[test]
fn servers_are_started_in_a_terminal() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let emulator = place.path("bin/xterm");
    std::fs::create_dir(place.path("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done >{0}.part; mv {0}.part {0}\n",
        place.path("words").display()
    );
    std::fs::write(&emulator, script).unwrap();
    std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Program::Ours.command(&place);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path("bin").display()));
    let mut client = Stdio::start(command);
    let answer = client.tool("start_server", &json!({}));
    let socket = place.path("run/sudo-proxy.sock");
    assert_eq!(text(&answer), format!("Terminal opened but socket not ready after 5s at {}", socket.display()));
    let words = wait::until(wait::LIMIT, "the terminal to start", || std::fs::read_to_string(place.path("words")).ok());
    let words: Vec<&str> = words.lines().collect();
    assert_eq!((words[0], words.last().copied()), ("-e", Some("sudo-proxy")));
    // One that is there is not started again.
    let _daemon = Daemon::new(&place);
    let answer = client.tool("start_server", &json!({}));
    assert_eq!(text(&answer), format!("sudo-proxy is already running at {}", socket.display()));
}
