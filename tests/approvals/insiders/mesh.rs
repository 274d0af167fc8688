//! The door of a mesh daemon: a process inside a house sends, and reads its own session's mailbox only.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hostel_tests::house::run;
use hostel_tests::{binary, wait};
use serde_json::{Value, json};

use super::attempts;
use super::home::Home;

/// One request to a mesh daemon: the status and the body.
fn ask(socket: &Path, request: &str, token: Option<&str>, body: Option<&Value>) -> (u16, Value) {
    let text = body.map(Value::to_string).unwrap_or_default();
    let shown = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    let mut stream = UnixStream::connect(socket).expect("the mesh daemon accepts");
    stream.set_read_timeout(Some(wait::limit())).expect("a time limit");
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tests\r\nConnection: close\r\n{shown}\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(head.as_bytes()).expect("a request");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("an answer");
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let status = heard.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{heard:?}"));
    let body = heard.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

/// A house in a mesh of its own.
struct Lab {
    home: Home,
    socket: PathBuf,
}

impl Lab {
    fn start() -> Self {
        let home = Home::start("");
        let socket = home.user_home().join(".claudemesh/daemon/lab/sock");
        let lab = Self { home, socket };
        let output = run(lab.home.hostel(&["mesh", "create", "lab"]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Shared state and tasks are off by default, and what is off is refused to everybody.
        let config = lab.socket.with_file_name("config.toml");
        let text = fs::read_to_string(&config).expect("settings");
        let text = text.replace("# state = false", "state = true").replace("# tasks = false", "tasks = true");
        fs::write(&config, text).expect("settings");
        let output = run(lab.home.hostel(&["mesh", "daemon", "reload"]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lab
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for words in [["mesh", "daemon", "down", "--all"].as_slice(), &["broker", "down"]] {
            let output = run(self.home.hostel(words));
            // A second panic would only hide the first.
            assert!(output.status.success() || std::thread::panicking(), "{words:?}: {output:?}");
        }
    }
}

/// A relay to the mesh daemon that is hosted as a command.
fn relayed(home: &Home, socket: &Path) -> PathBuf {
    let listen = home.path().join("mesh-relay");
    let mut command = home.hostel(&["run", "-d", "--name", "relay", "--"]);
    command.arg(binary::relay()).arg(&listen).arg(socket);
    let output = run(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait::eventually("the relay to listen", || listen.exists().then_some(()));
    listen
}

#[test]
fn a_process_inside_speaks_for_the_member_only_where_everybody_may() {
    let lab = Lab::start();
    let (home, socket) = (&lab.home, &lab.socket);
    let inside = relayed(home, socket);
    let local = fs::read_to_string(socket.with_file_name("local_token")).expect("the member's token");
    let bearer = format!("Bearer {}", local.trim());
    for rule in ["denied", "own only"] {
        for name in attempts::in_document("claudemesh", rule) {
            let request = name.replace(":id", "x").replace(":token", &"0".repeat(64));
            let body =
                json!({"path": "/etc/hostname", "target": "x", "peer": "x", "topic": "x", "key": "k", "value": 1});
            // The token of the member's file changes nothing.
            for token in [None, Some(bearer.as_str())] {
                let (status, answer) = ask(&inside, &request, token, Some(&body));
                assert_eq!((status, &answer["error"]), (403, &json!("forbidden")), "{name}: {answer}");
                assert!(answer["detail"].to_string().contains("inside this house"), "{name}: {answer}");
            }
        }
    }
    // What everybody may.
    let (status, answer) = ask(socket, "POST /v1/topic/subscribe", None, Some(&json!({"topic": "news"})));
    assert_eq!(status, 200, "{answer}");
    for (request, body) in [
        ("GET /v1/health", None),
        ("GET /v1/peers", None),
        ("GET /v1/version", None),
        ("POST /v1/topic/post", Some(json!({"topic": "news", "message": "hello"}))),
    ] {
        let (status, answer) = ask(&inside, request, None, body.as_ref());
        assert!((200..300).contains(&status), "{request}: {status} {answer}");
    }
    // The owner has all of it.
    for request in ["GET /v1/inbox", "GET /v1/sessions", "GET /v1/outbox", "GET /v1/member/list", "POST /v1/reload"] {
        let (status, answer) = ask(socket, request, None, Some(&json!({})));
        assert_eq!(status, 200, "{request}: {answer}");
    }
}

#[test]
fn a_session_has_its_own_mailbox_with_its_token() {
    let lab = Lab::start();
    let (home, socket) = (&lab.home, &lab.socket);
    let inside = relayed(home, socket);
    let token = "ab".repeat(32);
    let register = json!({"token": token, "session_id": "review", "display_name": "review", "pid": std::process::id()});
    let (status, answer) = ask(&inside, "POST /v1/sessions/register", None, Some(&register));
    assert_eq!(status, 403, "{answer}");
    let (status, answer) = ask(socket, "POST /v1/sessions/register", None, Some(&register));
    assert_eq!(status, 200, "{answer}");
    let shown = format!("ClaudeMesh-Session {token}");
    for request in ["GET /v1/inbox", "GET /v1/sessions/me", "GET /v1/file/list"] {
        let (status, answer) = ask(&inside, request, Some(&shown), None);
        assert_eq!(status, 200, "{request}: {answer}");
    }
    // The daemon reads and writes no file for it that it may be kept from itself.
    let secret = socket.with_file_name("keypair.json");
    for body in [json!({"path": secret}), json!({"path": home.socket("local_token")})] {
        let (status, answer) = ask(&inside, "POST /v1/file/share", Some(&shown), Some(&body));
        assert_eq!((status, &answer["error"]), (403, &json!("forbidden")), "{answer}");
    }
    let file = home.work().join("note.txt");
    fs::write(&file, "hello").expect("a file");
    let (status, answer) = ask(&inside, "POST /v1/file/share", Some(&shown), Some(&json!({"path": file})));
    assert_eq!(status, 200, "{answer}");
    let id = answer["file_id"].as_str().or(answer["id"].as_str()).unwrap_or_default().to_owned();
    let hidden = home.socket("planted");
    let request = format!("GET /v1/file/get?id={id}&out={}", hidden.display());
    let (status, answer) = ask(&inside, &request, Some(&shown), None);
    assert_eq!((status, &answer["error"]), (403, &json!("forbidden")), "{answer}");
    assert!(!hidden.exists());
}
