//! `sudo-request`: its words, its exit codes, and what it makes of answers; ours beside the real one where there is one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use hostel_tests::house::{path_text, set_base_environment};
use hostel_tests::sudo_proxy::{Daemon, Options, oracle};
use hostel_tests::{binary, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The programs that are to do the same.
fn programs() -> Vec<Vec<PathBuf>> {
    let ours = vec![binary::hostel(), "as".into(), "sudo-request".into()];
    let real = oracle::program("sudo-request").map(|program| vec![program]);
    [Some(ours), real].into_iter().flatten().collect()
}

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("hostel-sr-").tempdir().unwrap();
        fs::create_dir(root.path().join("run")).unwrap();
        Place { root }
    }

    fn socket(&self) -> PathBuf {
        self.root.path().join("run/sudo-proxy.sock")
    }

    fn command(&self, program: &[PathBuf], words: &[&str]) -> Command {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(words).stdin(Stdio::null());
        set_base_environment(&mut command, self.root.path());
        command.env("XDG_RUNTIME_DIR", self.root.path().join("run")).env("NO_COLOR", "1");
        command.env("HOSTEL_HOME", self.root.path().join("hostel"));
        command
    }

    fn run(&self, program: &[PathBuf], words: &[&str]) -> Output {
        self.command(program, words).output().expect("the program under test can be started")
    }

    /// A daemon that takes one request, answers it with these bytes and gives the request.
    fn answer(&self, answer: &[u8]) -> JoinHandle<Value> {
        fs::remove_file(self.socket()).ok();
        let listener = UnixListener::bind(self.socket()).unwrap();
        let answer = answer.to_vec();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(&answer).unwrap();
            serde_json::from_str(&line).unwrap()
        })
    }
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const USAGE: &str = "Usage: sudo-request [OPTIONS] COMMAND [ARGS...] ['|' COMMAND [ARGS...] ...]\n";

#[test]
fn words_that_are_wrong() {
    let place = Place::new();
    for program in programs() {
        for (words, message) in [
            (&[][..], "no command specified"),
            (&["--print"], "no command specified"),
            (&["|"], "no command specified"),
            (&["--"], "unknown option: --"),
            (&["--nonsense", "ls"], "unknown option: --nonsense"),
            (&["--socket"], "--socket requires a value"),
            (&["--reason"], "--reason requires a value"),
            (&["--session"], "--session requires a value"),
            (
                &["--forward-agent", "ls"],
                "--forward-agent is only allowed with --no-privilege (privileged commands cannot use the agent)",
            ),
        ] {
            let output = place.run(&program, words);
            assert_eq!(told(&output), (Some(1), String::new(), format!("error: {message}\n{USAGE}")), "{program:?}");
        }
        let output = place.run(&program, &["-V"]);
        assert_eq!(told(&output), (Some(0), "sudo-request 1.2.0\n".to_owned(), String::new()));
        let (code, out, help) = told(&place.run(&program, &["--help"]));
        assert!(code == Some(0) && out.is_empty() && help.starts_with(USAGE), "{help}");
        let output = place.run(&program, &["ls"]);
        let socket = place.socket();
        let message =
            format!("error: could not connect to {}: No such file or directory (os error 2)\n", socket.display());
        assert_eq!(told(&output), (Some(1), String::new(), message));
    }
}

#[test]
fn what_is_sent() {
    let place = Place::new();
    let words =
        ["--session", "me", "--reason", "why not", "--no-privilege", "--forward-agent", "ls", "-l", "|", "|", "wc"];
    for program in programs() {
        let server = place.answer(b"{\"id\":\"x\",\"status\":\"denied\"}\n");
        place.run(&program, &words);
        let mut request = server.join().unwrap();
        let request = request.as_object_mut().unwrap();
        let id = request.remove("id").unwrap();
        assert_eq!(id.as_str().unwrap().len(), 36);
        let time = request.remove("time").unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
        request.remove("host").unwrap();
        let expected = json!({
            "session": "me", "pipeline": [["ls", "-l"], ["wc"]], "env": {}, "reason": "why not", "privileged": false,
            "forward_agent": true, "version": "1.2.0",
        });
        assert_eq!(Value::Object(request.clone()), expected, "{program:?}");
        let server = place.answer(b"{\"id\":\"x\",\"status\":\"denied\"}\n");
        place.run(&program, &["-x", "--print"]);
        let request = server.join().unwrap();
        assert_eq!((&request["pipeline"], &request["privileged"]), (&json!([["-x", "--print"]]), &json!(true)));
        assert_eq!((&request["session"], &request["reason"]), (&json!("sudo-request-cli"), &json!("")));
    }
}

/// `hello\n`, `oops\n`, and five lines.
const HELLO: &str = "aGVsbG8K";
const OOPS: &str = "b29wcwo=";
const FIVE: &str = "MQoyCjMKNAo1Cg==";

#[test]
fn what_is_made_of_answers() {
    let place = Place::new();
    let stage = |code: i32, stderr: &str| json!({"exit_code": code, "stderr": stderr, "unheard_of": [1]});
    let cases = [
        (
            json!({"id": "x", "status": "ok", "stages": [stage(0, "")], "stdout": HELLO, "more": {"a": null}}),
            (0, "hello\n", ""),
            "exit 0\n== stdout == (1 lines)\nhello\n",
        ),
        (
            json!({"id": "x", "status": "ok", "stages": [stage(1, OOPS), stage(7, OOPS)], "stdout": ""}),
            (7, "", "oops\noops\n(exit code: 7)\n"),
            "exit [1, 7]\n== stderr[0] == (1 lines)\noops\n== stderr[1] == (1 lines)\noops\n",
        ),
        (
            json!({"id": "x", "status": "ok", "stages": [stage(-1, "")], "stdout": FIVE}),
            (255, "1\n2\n3\n4\n5\n", "(exit code: -1)\n"),
            "exit -1\n== stdout == (5 lines, truncated)\n1\n2\n3\n",
        ),
        (json!({"id": "x", "status": "denied"}), (1, "", "Request denied.\n"), "denied\n"),
        (json!({"id": "x", "status": "timeout"}), (1, "", "Request timed out.\n"), "timeout\n"),
        (json!({"id": "x", "status": "error", "message": "no way"}), (1, "", "Error: no way\n"), "error: no way\n"),
        (json!({"id": "x", "status": "error"}), (1, "", "Error: unknown error\n"), "error: unknown error\n"),
    ];
    for program in programs() {
        for (answer, (code, out, err), digest) in &cases {
            let line = format!("{answer}\n");
            let server = place.answer(line.as_bytes());
            let output = place.run(&program, &["ls"]);
            assert_eq!(told(&output), (Some(*code), (*out).to_owned(), (*err).to_owned()), "{program:?} {answer}");
            server.join().unwrap();
            let server = place.answer(line.as_bytes());
            let output = place.run(&program, &["--print", "ls"]);
            assert_eq!(told(&output), (Some(0), (*digest).to_owned(), String::new()), "{program:?} {answer}");
            server.join().unwrap();
        }
        let server = place.answer(b"");
        let output = place.run(&program, &["ls"]);
        assert_eq!(told(&output).2, "error: server closed connection without response\n");
        server.join().unwrap();
        let server = place.answer(b"nonsense\n");
        let (code, _, message) = told(&place.run(&program, &["ls"]));
        assert!(code == Some(1) && message.starts_with("error: invalid response JSON: "), "{message}");
        assert!(message.ends_with("\nraw: nonsense\n"), "{message}");
        server.join().unwrap();
    }
}

#[test]
fn a_daemon_that_says_nothing() {
    let place = Place::new();
    let _silent = UnixListener::bind(place.socket()).unwrap();
    for program in programs() {
        let output = place.command(&program, &["ls"]).env("SUDO_REQUEST_TIMEOUT_SECS", "1").output().unwrap();
        let message = "error: no response from daemon after 1s — it may be wedged or waiting on a prompt\n";
        assert_eq!(told(&output), (Some(1), String::new(), message.to_owned()));
    }
}

/// Runs it against our daemon and presses a key once the question stands there.
fn through(daemon: &mut Daemon, program: &[PathBuf], words: &[&str], key: &str) -> Output {
    let start = daemon.terminal().length();
    let socket = daemon.socket();
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).args(["--socket", path_text(&socket), "--no-privilege"]).args(words);
    daemon.set_environment(&mut command);
    let client = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    daemon.terminal().wait(start, wait::limit(), |text| text.ends_with("default=N) ")).expect("a question");
    daemon.terminal().press(key);
    client.wait_with_output().unwrap()
}

#[test]
fn through_our_door() {
    let mut daemon = Daemon::start(Options::default());
    for program in programs() {
        let output = through(&mut daemon, &program, &["sh", "-c", "echo out; echo err >&2; exit 3"], "y");
        assert_eq!(told(&output), (Some(3), "out\n".to_owned(), "err\n(exit code: 3)\n".to_owned()), "{program:?}");
        let output = through(&mut daemon, &program, &["printf", "b\\na\\n", "|", "sort", "|", "head", "-n1"], "y");
        assert_eq!(told(&output), (Some(0), "a\n".to_owned(), String::new()));
        let output = through(&mut daemon, &program, &["true"], "n");
        assert_eq!(told(&output), (Some(1), String::new(), "Request denied.\n".to_owned()));
        let output = through(&mut daemon, &program, &["sh", "-c", "kill -9 $$"], "y");
        assert_eq!(told(&output), (Some(255), String::new(), "(exit code: -1)\n".to_owned()));
        let output = through(&mut daemon, &program, &["/no/such/file"], "y");
        let message = "Error: failed to execute command: No such file or directory (os error 2)\n";
        assert_eq!(told(&output), (Some(1), String::new(), message.to_owned()));
    }
}

#[test]
fn more_output_than_the_real_client_reads() {
    let mut daemon = Daemon::start(Options::default());
    let ours = &programs()[0];
    let output = through(&mut daemon, ours, &["head", "-c", "15000000", "/dev/zero"], "y");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 15_000_000));
    let output = through(&mut daemon, ours, &["head", "-c", "17000000", "/dev/zero"], "y");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 16 << 20));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "(stdout truncated)\n");
}

#[test]
fn links_carry_the_names() {
    let place = Place::new();
    let folder = place.root.path().join("links");
    fs::create_dir(&folder).unwrap();
    let output = place.run(&[binary::hostel()], &["link", path_text(&folder)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["claustrum", "codecast-daemon", "zeroclaw", "sudo-proxy", "sudo-request", "sudo-proxy-mcp"] {
        assert_eq!(fs::read_link(folder.join(name)).unwrap(), binary::hostel().canonicalize().unwrap(), "{name}");
    }
    let version = |name: &str| {
        let output = place.run(&[folder.join(name)], &["-V"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(version("sudo-proxy"), "sudo-proxy 1.2.0\n");
    assert_eq!(version("sudo-request"), "sudo-request 1.2.0\n");
    assert_eq!(version("sudo-proxy-mcp"), "sudo-proxy-mcp 1.2.0\n");
    assert!(Path::new(&folder).is_dir());
}
