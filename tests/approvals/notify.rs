//! Who is told that a request waits or a turn has ended: a webhook, signed and sent again; a desktop; nobody else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hostel_tests::wait;
use serde_json::{Value, json};
use sha2::Sha256;
use support::house::House;

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// What a webhook was sent.
#[derive(Debug)]
struct Sent {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether the signature is that of time and body.
    fn is_signed(&self) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
        mac.update(format!("{}.{}", self.header("X-Hostel-Timestamp"), self.body).as_bytes());
        let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.header("X-Hostel-Signature") == format!("sha256={digest}")
    }
}

/// A server that answers with these numbers, one after the other, and then with 200.
fn receiver(answers: Vec<u16>) -> (String, mpsc::Receiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut headers = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                headers.push((name.to_owned(), value.to_owned()));
            }
            let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            let answer = answers.next().unwrap_or(200);
            write!(stream, "HTTP/1.1 {answer} It\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            sender.send(Sent { path, headers, body: String::from_utf8(body).unwrap() }).ok();
        }
    });
    (format!("http://{address}/hook?token=hidden"), received)
}

fn secret_file(folder: &Path) -> PathBuf {
    let file = folder.join("key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn settings(url: &str, folder: &Path, on: &str) -> String {
    let secret = secret_file(folder);
    format!(
        "[approvals.notify]\ndesktop = false\nwebhook = \"{url}\"\nsecret_file = \"{}\"\non = [{on}]\n",
        secret.display()
    )
}

fn next(received: &mpsc::Receiver<Sent>) -> Sent {
    received.recv_timeout(wait::limit()).expect("something is sent")
}

#[test]
fn a_webhook_hears_of_requests_signed_and_without_secrets() {
    let scratch = tempfile::tempdir().unwrap();
    let (url, received) = receiver(Vec::new());
    let house = House::up_with(&settings(&url, scratch.path(), "\"request\""), &[]);
    house.set_passphrase();
    house.ask(
        "one",
        &json!({"pipeline": [["/bin/echo", "--password=hunter2"], ["cat"]], "env": {"LANG": "hunter3"},
                "reason": "because hunter4", "privileged": true}),
    );
    let sent = next(&received);
    let id = house.waiting(1).remove(0);
    assert!(sent.is_signed(), "{sent:?}");
    assert_eq!((sent.path.as_str(), sent.header("X-Hostel-Delivery")), ("/hook?token=hidden", id.as_str()));
    assert_eq!(sent.header("Content-Type"), "application/json");
    let mut news = sent.json();
    assert!(news["time"].take().is_string());
    assert_eq!(
        news,
        json!({"event": "request", "house": "home", "id": id, "kind": "privileged_pipeline", "time": null,
               "summary": "asks to run echo | cat as root"})
    );
    assert!(!sent.body.contains("hunter"), "{}", sent.body);
    // A turn was not asked for, and a settled request is no news.
    assert_eq!(house.hostel(&["run", "hello"]).code, 0);
    assert_eq!(house.answer(&["deny", &id]).code, 0);
    house.ask_run("two", &["ls"]);
    assert_eq!(next(&received).json()["summary"], "asks to run ls");
}

#[test]
fn a_webhook_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![500, 503, 200, 403]);
    let house = House::up_with(&settings(&url, scratch.path(), "\"request\""), &[]);
    house.set_passphrase();
    house.ask_run("one", &["ls"]);
    let attempts: Vec<Sent> = (0..3).map(|_| next(&received)).collect();
    assert!(attempts.iter().all(|sent| sent.is_signed() && sent.body == attempts[0].body), "{attempts:?}");
    house.ask_run("two", &["pwd"]);
    assert_eq!(next(&received).json()["summary"], "asks to run pwd");
    house.ask_run("three", &["id"]);
    assert_eq!(next(&received).json()["summary"], "asks to run id", "403 is not sent again");
    let log = wait::eventually("a line in the log", || {
        let log = std::fs::read_to_string(house.home().join("log/daemon.log")).ok()?;
        log.contains("it answered 403").then_some(log)
    });
    assert!(!log.contains("token=hidden") && !log.contains(KEY), "{log}");
}

#[test]
fn a_webhook_hears_of_turns() {
    let scratch = tempfile::tempdir().unwrap();
    let (url, received) = receiver(Vec::new());
    let house = House::up_with(&settings(&url, scratch.path(), "\"turn\""), &[]);
    assert_eq!(house.hostel(&["run", "--name", "talk", "tell hunter2"]).code, 0);
    let sent = next(&received);
    let news = sent.json();
    assert!(sent.is_signed() && !sent.body.contains("hunter2"), "{sent:?}");
    assert_eq!((&news["event"], &news["kind"], &news["turn"]), (&json!("turn"), &json!("completed"), &json!(1)));
    assert_eq!((&news["summary"], &news["id"]), (&json!("echo is done"), &news["session"]), "{news}");
    // Also of later turns of the same session.
    assert_eq!(house.hostel(&["send", "--wait", "talk", "fail"]).code, 1);
    let news = next(&received).json();
    assert_eq!((&news["kind"], &news["turn"]), (&json!("failed"), &json!(2)), "{news}");
}

#[test]
fn a_desktop_is_told_in_words_it_cannot_mistake() {
    let scratch = tempfile::tempdir().unwrap();
    let told = scratch.path().join("told");
    let program = scratch.path().join("notify-send");
    std::fs::write(
        &program,
        format!("#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done >> {}\n", told.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", scratch.path().display());
    let house = House::up_with("[guard]\nprograms = \"path\"\n", &[("PATH", &path), ("DISPLAY", ":7")]);
    house.set_passphrase();
    house.ask_run("one", &["<b>--x</b>"]);
    let id = house.waiting(1).remove(0);
    let words = wait::eventually("a notification", || {
        std::fs::read_to_string(&told).ok().filter(|words| words.contains("approvals show"))
    });
    assert_eq!(
        words,
        format!(
            "<--app-name=hostel>\n<--urgency=critical>\n<-->\n<A request waits for you>\n\
             <asks to run b&gt;\nhostel approvals show {}>\n",
            &id[..8]
        )
    );
}

#[test]
fn a_webhook_needs_a_key_and_a_key_needs_to_be_private() {
    let house = House::up();
    let file = house.path().join("other.toml");
    std::fs::write(&file, "[approvals.notify]\nwebhook = \"https://example.org/x\"\n").unwrap();
    let outcome = house.hostel(&["config", "check", file.to_str().unwrap()]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("`approvals.notify.webhook` needs `approvals.notify.secret_file`"), "{outcome:?}");
}
