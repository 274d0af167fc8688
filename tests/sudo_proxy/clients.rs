//! The real `sudo-request` and `sudo-proxy-mcp` against our door: they cannot tell.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use hostel_tests::sudo_proxy::{Daemon, Options, oracle};
use hostel_tests::wait;
use serde_json::{Value, json};

/// Runs the real `sudo-request` and answers its question.
fn request(daemon: &mut Daemon, program: &PathBuf, arguments: &[&str], key: &str) -> Output {
    let mut command = Command::new(program);
    daemon.set_environment(&mut command);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the real client");
    daemon.question();
    daemon.answer(key);
    let waiting = thread::spawn(move || child.wait_with_output().expect("a client that ends"));
    wait::eventually("the client to end", || waiting.is_finished());
    waiting.join().expect("nobody panics")
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_real_sudo_request() {
    let Some(program) = oracle::program("sudo-request") else { return };
    let mut daemon = Daemon::start(Options::default());
    let text = |text: &str| text.to_owned();
    let output = request(&mut daemon, &program, &["--no-privilege", "echo", "hi"], "y");
    assert_eq!(printed(&output), (Some(0), text("hi\n"), String::new()));
    let output = request(&mut daemon, &program, &["--no-privilege", "sh", "-c", "echo e >&2; exit 3"], "y");
    assert_eq!(printed(&output), (Some(3), String::new(), text("e\n(exit code: 3)\n")));
    let output = request(&mut daemon, &program, &["--no-privilege", "printf", "b\\na\\n", "|", "sort"], "y");
    assert_eq!(printed(&output), (Some(0), text("a\nb\n"), String::new()));
    let output = request(&mut daemon, &program, &["--no-privilege", "sh", "-c", "kill -9 $$"], "y");
    assert_eq!(output.status.code(), Some(255));
    let output = request(&mut daemon, &program, &["--no-privilege", "no-such-program"], "y");
    let message = "Error: failed to execute command: No such file or directory (os error 2)\n";
    assert_eq!(printed(&output), (Some(1), String::new(), text(message)));
    let output = request(&mut daemon, &program, &["--no-privilege", "true"], "n");
    assert_eq!(printed(&output), (Some(1), String::new(), text("Request denied.\n")));
    let output = request(&mut daemon, &program, &["true"], "n");
    assert_eq!(printed(&output), (Some(1), String::new(), text("Request denied.\n")));
    let output = request(&mut daemon, &program, &["--no-privilege", "head", "-c", "5000000", "/dev/zero"], "y");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 5_000_000));
    let output =
        request(&mut daemon, &program, &["--no-privilege", "--reason", "why not", "--session", "mine", "true"], "y");
    assert_eq!(output.status.code(), Some(0));
    let seen = daemon.terminal().painted(0);
    assert!(seen.contains("why not") && seen.contains("mine"), "{seen}");
}

/// The real MCP server and its two pipes.
struct Mcp {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Mcp {
    fn start(daemon: &Daemon, program: &PathBuf) -> Self {
        let mut command = Command::new(program);
        daemon.set_environment(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the real MCP server");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Self { child, input, output, next: 0 };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client});
        server.ask("initialize", &hello);
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn say(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("an open pipe");
        writeln!(input, "{message}").expect("a server that reads");
    }

    fn begin(&mut self, method: &str, params: &Value) {
        self.next += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
    }

    fn end(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a server that answers");
        serde_json::from_str(&line).expect("an answer is JSON")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.begin(method, params);
        self.end()
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        told(&self.ask("tools/call", &json!({"name": name, "arguments": arguments})))
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        drop(self.input.take());
        wait::attempt(Duration::from_secs(5), || self.child.try_wait().ok().flatten());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn told(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let items = result["content"].as_array().into_iter().flatten();
    let text: Vec<&str> = items.filter_map(|item| item["text"].as_str()).collect();
    (text.join("|"), result["isError"].as_bool().unwrap_or_default())
}

#[test]
fn the_real_mcp_server() {
    let Some(program) = oracle::program("sudo-proxy-mcp") else { return };
    let mut daemon = Daemon::start(Options::default());
    let mut server = Mcp::start(&daemon, &program);
    assert_eq!(server.tool("status", &json!({})), ("localhost: running (sudo-proxy 1.2.0)".to_owned(), false));
    server.begin("tools/call", &json!({"name": "execute", "arguments": {"argv": ["true"], "description": "because"}}));
    let seen = daemon.question();
    assert!(seen.contains("because") && seen.contains("sudo-proxy-mcp"), "{seen}");
    daemon.answer("n");
    assert_eq!(told(&server.end()), ("Request denied by user.".to_owned(), true));
    // A call that gives up withdraws its request.
    let impatient = json!({"name": "execute", "arguments": {"argv": ["true"], "timeout": 1000}});
    let (_, is_error) = told(&server.ask("tools/call", &impatient));
    assert!(is_error);
    daemon.question();
    let (text, is_error) = server.tool("stop_server", &json!({}));
    assert!(text.starts_with("Stopped sudo-proxy") && !is_error, "{text}");
    assert!(daemon.ended(wait::LIMIT).success());
    assert!(server.tool("status", &json!({})).0.starts_with("localhost: not running"));
}
