//! The stand-ins themselves: what other tests rely on when they use `fakecli` and the fake model.
//!
//! With `HOSTEL_AGENTS` set the real CLIs, too, are pointed at the fake model, each in its one-turn mode.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "test code: a broken assumption must end the test at once"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use hostel_tests::agents::{self, Cli, FakeModel};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Links to the played CLIs, a state directory and a log.
struct Stage {
    root: TempDir,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        agents::fake_clis(&root.path().join("bin"));
        fs::create_dir_all(root.path().join("work/.git")).unwrap();
        Self { root }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.root.path().join("bin").join(arguments[0]));
        command.args(&arguments[1..]).current_dir(self.root.path().join("work"));
        command.env("FAKECLI_STATE", self.root.path().join("state")).env("FAKECLI_LOG", self.root.path().join("log"));
        command.env("IS_SANDBOX", "1").env_remove("OPENCODE_PERMISSION").env_remove("OPENCODE_CONFIG_CONTENT");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs one turn with the prompt on standard input.
    fn turn(&self, arguments: &[&str], prompt: &str) -> (Output, Vec<Value>) {
        let output = one_turn(self.command(arguments), prompt);
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice(line).expect("a line is JSON")).collect();
        (output, lines)
    }

    fn notes(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.root.path().join("log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn one_turn(mut command: Command, prompt: &str) -> Output {
    let mut child = command.spawn().expect("the CLI starts");
    // One that refuses its arguments does not wait for a prompt.
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

/// A CLI in its long-lived mode.
struct Talk {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Talk {
    fn new(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the CLI starts");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, lines: BufReader::new(output) }
    }

    fn send(&mut self, line: &Value) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads up to the line that is meant.
    fn until(&mut self, meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the CLI ended too early");
            let value: Value = serde_json::from_str(&line).expect("a line is JSON");
            if meant(&value) {
                return value;
            }
        }
    }

    fn close(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

const CLAUDE: [&str; 5] = ["claude", "-p", "--output-format", "stream-json", "--verbose"];
const CODEX: [&str; 4] = ["codex", "exec", "--json", "-"];
const GEMINI: [&str; 4] = ["gemini", "--output-format", "stream-json", "--skip-trust"];
const OPENCODE: [&str; 4] = ["opencode", "run", "--format", "json"];

fn answer(cli: &str, lines: &[Value]) -> String {
    let texts: Vec<&str> = match cli {
        "claude" => lines.iter().filter_map(|line| line["result"].as_str()).collect(),
        "codex" => lines.iter().filter_map(|line| line["item"]["text"].as_str()).collect(),
        "gemini" => {
            lines.iter().filter(|line| line["delta"] == true).filter_map(|line| line["content"].as_str()).collect()
        }
        _ => lines
            .iter()
            .filter(|line| line["type"] == "text")
            .filter_map(|line| line["part"]["text"].as_str())
            .collect(),
    };
    texts.concat()
}

#[test]
fn every_played_cli_answers_remembers_and_logs() {
    let stage = Stage::new();
    for command in [&CLAUDE[..], &CODEX, &GEMINI, &OPENCODE] {
        let (output, lines) = stage.turn(command, "hello there");
        assert!(output.status.success(), "{command:?}: {output:?}");
        assert_eq!(answer(command[0], &lines), "you said: hello there", "{command:?}");
        let notes = stage.notes();
        let prompt = notes.iter().rfind(|note| note["event"] == "prompt").unwrap();
        assert_eq!(prompt["prompt"], "hello there");
        let start = notes.iter().rfind(|note| note["event"] == "start").unwrap();
        assert_eq!(start["argv"], json!(command[1..]));
        let id = prompt["session"].as_str().unwrap();
        let resume = match command[0] {
            "codex" => vec!["codex", "exec", "--json", "resume", id, "-"],
            "opencode" => [command, &["--session", id]].concat(),
            _ => [command, &["--resume", id]].concat(),
        };
        let (_, lines) = stage.turn(&resume, "recall\nresume-id");
        assert!(answer(command[0], &lines).ends_with(id), "{lines:?}");
        if command[0] != "claude" {
            assert!(answer(command[0], &lines).starts_with("earlier: hello there"), "{lines:?}");
        }
    }
}

#[test]
fn what_todays_clis_refuse_is_refused() {
    let stage = Stage::new();
    let unknown = "00000000-0000-4000-8000-000000000000";
    let refused: [(&[&str], i32); 9] = [
        (&["claude", "-p", "--nonsense"], 1),
        (&["claude", "-p", "--output-format", "stream-json"], 1),
        (&["codex", "exec", "--json", "--full-auto", "-"], 2),
        (&["codex", "exec", "resume", unknown, "--sandbox", "read-only", "-"], 2),
        (&["codex", "exec", "--json", "resume", unknown, "-"], 1),
        (&["gemini", "-o", "stream-json", "--nonsense"], 1),
        (&["gemini", "-o", "stream-json", "--skip-trust", "--resume", unknown], 42),
        (&["opencode", "run", "--format", "json", "--quiet"], 1),
        (&["opencode", "run", "--format", "json", "--session", unknown], 1),
    ];
    for (command, code) in refused {
        let (output, lines) = stage.turn(command, "hi");
        assert_eq!(output.status.code(), Some(code), "{command:?}");
        assert_eq!(lines, Vec::<Value>::new(), "{command:?}");
        assert!(!output.stderr.is_empty(), "{command:?} says why");
    }
}

#[test]
fn claude_asks_is_interrupted_and_goes_on() {
    let stage = Stage::new();
    let kept = ["--input-format", "stream-json", "--permission-prompt-tool", "stdio", "--include-partial-messages"];
    let mut claude = Talk::new(stage.command(&[&CLAUDE[..], &kept].concat()));
    let user = |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let is_result = |line: &Value| line["type"] == "result";
    for (decision, said) in [
        (json!({"behavior": "allow", "updatedInput": {"command": "echo changed"}}), "tool said: changed"),
        (json!({"behavior": "deny", "message": "not today"}), "denied: not today"),
    ] {
        claude.send(&user("ask echo original"));
        let question = claude.until(|line| line["type"] == "control_request");
        assert_eq!(question["request"]["input"]["command"], "echo original");
        let id = question["request_id"].clone();
        let response = json!({"subtype": "success", "request_id": id, "response": decision});
        claude.send(&json!({"type": "control_response", "response": response}));
        assert_eq!(claude.until(is_result)["result"], said);
    }
    claude.send(&user("slow 1000 20"));
    claude.until(|line| line["event"]["delta"]["text"] == "2 ");
    claude.send(&json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}));
    assert_eq!(claude.until(is_result)["terminal_reason"], "aborted_streaming");
    claude.send(&user("say still here"));
    assert_eq!(claude.until(is_result)["result"], "still here");
    assert_eq!(claude.close(), Some(0));
}

#[test]
fn codex_and_acp_ask_and_are_interrupted() {
    let stage = Stage::new();
    let mut codex = Talk::new(stage.command(&["codex", "app-server"]));
    codex.send(&json!({"id": 1, "method": "initialize", "params": {}}));
    codex.send(&json!({"id": 2, "method": "thread/start", "params": {"approvalPolicy": "untrusted"}}));
    let thread = codex.until(|line| line["id"] == 2)["result"]["thread"]["id"].clone();
    let turn = |id: u64, text: &str| {
        let input = json!([{"type": "text", "text": text}]);
        json!({"id": id, "method": "turn/start", "params": {"threadId": thread, "input": input}})
    };
    codex.send(&turn(3, "ask echo hi"));
    let question = codex.until(|line| line["method"] == "item/commandExecution/requestApproval");
    codex.send(&json!({"id": question["id"], "result": {"decision": "accept"}}));
    let done = codex.until(|line| line["method"] == "turn/completed");
    assert_eq!(done["params"]["turn"]["items"][0]["text"], "tool said: hi");
    codex.send(&turn(4, "sleep 600"));
    let running = codex.until(|line| line["id"] == 4)["result"]["turn"]["id"].clone();
    codex.until(|line| line["params"]["delta"] == "sleeping");
    codex.send(&json!({"id": 5, "method": "turn/interrupt", "params": {"threadId": thread, "turnId": running}}));
    let done = codex.until(|line| line["method"] == "turn/completed");
    assert_eq!(done["params"]["turn"]["status"], "interrupted");
    assert_eq!(codex.close(), Some(0));

    for command in [&["gemini", "--acp"][..], &["opencode", "acp"], &["acp-agent"]] {
        let mut started = stage.command(command);
        started.env("OPENCODE_PERMISSION", r#"{"bash":"ask"}"#);
        let mut agent = Talk::new(started);
        let cwd = stage.root.path().join("work");
        agent.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}));
        agent.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": cwd, "mcpServers": []}}),
        );
        let session = agent.until(|line| line["id"] == 1)["result"]["sessionId"].clone();
        let prompt = |id: u64, text: &str| {
            let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
            json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})
        };
        agent.send(&prompt(2, "ask touch made"));
        let question = agent.until(|line| line["method"] == "session/request_permission");
        let options = question["params"]["options"].as_array().unwrap();
        let once = options.iter().find(|option| option["kind"] == "allow_once").unwrap()["optionId"].clone();
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": once}});
        agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
        assert_eq!(
            agent.until(|line| line["id"] == 2 && line["result"].is_object())["result"]["stopReason"],
            "end_turn"
        );
        fs::remove_file(cwd.join("made")).expect("the tool really ran");
        agent.send(&prompt(3, "sleep 600"));
        agent.until(|line| line["params"]["update"]["content"]["text"] == "sleeping");
        agent.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
        assert_eq!(agent.until(|line| line["id"] == 3)["result"]["stopReason"], "cancelled", "{command:?}");
        assert_eq!(agent.close(), Some(0));
    }
}

#[test]
fn signals_end_each_cli_in_its_own_way() {
    let stage = Stage::new();
    let expected = [
        (&CLAUDE[..], Signal::TERM, Some(143), None),
        (&CLAUDE, Signal::INT, Some(0), None),
        (&CODEX, Signal::TERM, None, Some(15)),
        (&CODEX, Signal::INT, Some(1), None),
        (&GEMINI, Signal::TERM, Some(0), None),
        (&OPENCODE, Signal::TERM, None, Some(15)),
    ];
    for (command, signal, code, killed) in expected {
        let mut child = stage.command(command).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"sleep 600").unwrap();
        // The first line of opencode, the last before the pause of the others: whoever speaks can be signalled.
        let mut byte = [0_u8; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait_with_output().unwrap().status;
        assert_eq!((status.code(), status.signal()), (code, killed), "{command:?} {signal:?}");
    }
    let mut child = stage.command(&[&CLAUDE[..], &["--include-partial-messages"]].concat()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hang").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("hanging")));
    // It becomes another program for that: only then is it deaf.
    let hangs = || fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name == "sleep\n");
    hostel_tests::wait::eventually("the hanging program", hangs);
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.try_wait().unwrap().is_none(), "it ended politely");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn post(model: &FakeModel, path: &str, body: &Value) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", model.port())).unwrap();
    let body = body.to_string();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: model\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(body.as_bytes()).unwrap();
    connection
}

#[test]
fn the_fake_model_follows_the_script_on_every_wire() {
    let folder = tempfile::tempdir().unwrap();
    let model = FakeModel::start(folder.path());
    let ask = |wire: &str, prompt: &str, stream: bool| match wire {
        "anthropic" => {
            let messages = json!([{"role": "user", "content": prompt}]);
            let body = json!({"model": "m", "stream": stream, "messages": messages, "tools": [{"name": "Bash"}]});
            post(&model, "/v1/messages", &body)
        }
        "responses" => {
            let input =
                json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}]);
            let body = json!({"model": "m", "stream": stream, "input": input, "tools": [{"name": "exec_command"}]});
            post(&model, "/v1/responses", &body)
        }
        "chat" => {
            let messages = json!([{"role": "user", "content": prompt}]);
            let tools = json!([{"type": "function", "function": {"name": "bash"}}]);
            let body = json!({"model": "m", "stream": stream, "messages": messages, "tools": tools});
            post(&model, "/v1/chat/completions", &body)
        }
        _ => {
            let contents = json!([{"role": "user", "parts": [{"text": prompt}]}]);
            let tools = json!([{"functionDeclarations": [{"name": "run_shell_command"}]}]);
            let action = if stream { "streamGenerateContent" } else { "generateContent" };
            post(&model, &format!("/v1beta/models/m:{action}"), &json!({"contents": contents, "tools": tools}))
        }
    };
    for wire in ["anthropic", "responses", "chat", "gemini"] {
        let read = |prompt: &str, stream: bool| {
            let mut text = String::new();
            ask(wire, prompt, stream).read_to_string(&mut text).unwrap();
            text
        };
        for stream in [true, false] {
            assert!(read("say: pineapple", stream).contains("pineapple"), "{wire}");
            assert!(read("tool: ls /somewhere", stream).contains("ls /somewhere"), "{wire}");
        }
        assert!(read("error: 503 1", true).starts_with("HTTP/1.1 503 "), "{wire}");
        assert!(read("error: 503 1", true).contains("recovered"), "{wire}");
        let mut begun = ask(wire, &format!("slow: 1000 20 {wire}"), true);
        begun.read_exact(&mut [0_u8; 400]).unwrap();
        drop(begun);
        model.wait_for(&format!("slow: 1000 20 {wire}"), "client went away");
    }
}

#[test]
fn real_clis_find_the_fake_model() {
    let bin = match agents::installed() {
        Ok(bin) => bin,
        Err(reason) => return eprintln!("the real CLIs are left out: {reason}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let model = FakeModel::start(folder.path());
    for cli in Cli::ALL {
        let arguments: &[&str] = match cli {
            Cli::Claude => &CLAUDE,
            Cli::Codex => &["codex", "exec", "--json", "--skip-git-repo-check", "-"],
            Cli::Gemini => &GEMINI,
            Cli::Opencode => &OPENCODE,
        };
        let mut command = Command::new(bin.join(arguments[0]));
        command.args(&arguments[1..]).current_dir(folder.path()).env_clear();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", path).env("HOME", folder.path().join("home")).envs(agents::environment(
            cli,
            model.port(),
            folder.path(),
        ));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let prompt = format!("say: hello {}", cli.name());
        let output = one_turn(command, &prompt);
        let lines = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let lines: Vec<Value> = lines.collect();
        assert_eq!(answer(cli.name(), &lines), format!("hello {}", cli.name()), "{output:?}");
        model.wait_for(&prompt, "complete");
    }
    assert!(!folder.path().join("home").exists(), "something was written into the home directory");
}
