//! An MCP client of a program on its standard streams.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio as Streams};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wait;

/// The client and the program it talks to.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Value>,
    kept: VecDeque<Value>,
    next: u64,
    /// The answer to `initialize`.
    pub greeting: Value,
}

impl Stdio {
    /// Starts a program and introduces itself.
    ///
    /// # Panics
    /// If the program does not answer.
    pub fn start(command: Command) -> Self {
        Self::start_with(command, "2025-06-18")
    }

    /// The same with a protocol version.
    ///
    /// # Panics
    /// If the program does not answer.
    pub fn start_with(command: Command, version: &str) -> Self {
        Self::start_announcing(command, version, &json!({}))
    }

    /// The same with capabilities of the client.
    ///
    /// # Panics
    /// If the program does not answer.
    pub fn start_announcing(mut command: Command, version: &str, capabilities: &Value) -> Self {
        let mut child = command.stdin(Streams::piped()).stdout(Streams::piped()).spawn().expect("the program starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let (say, heard) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if say.send(message).is_err() {
                    return;
                }
            }
        });
        let mut client = Self { child, stdin, heard, kept: VecDeque::new(), next: 0, greeting: Value::Null };
        client.greeting = client.call(
            "initialize",
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "tests", "version": "1"}}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Sends a message.
    ///
    /// # Panics
    /// If the program is gone.
    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open streams");
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).expect("the program reads");
    }

    /// Asks something and gives the question's number.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        self.send(&message);
        id
    }

    /// Asks and waits for the answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool and does not wait.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool.
    pub fn tool(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer(id)
    }

    /// Takes a call back.
    pub fn cancel(&mut self, id: u64) {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }

    /// The answer to a question, without its number.
    ///
    /// # Panics
    /// If none comes.
    pub fn answer(&mut self, id: u64) -> Value {
        let mut answer =
            self.wait(wait::limit(), |message| message["id"] == id).unwrap_or_else(|| panic!("no answer to {id}"));
        answer.as_object_mut().expect("an object").remove("id");
        answer
    }

    /// A message that fits, if one comes in time; the others are kept.
    pub fn wait(&mut self, limit: Duration, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        if let Some(position) = self.kept.iter().position(&fits) {
            return self.kept.remove(position);
        }
        let end = Instant::now() + limit;
        while let Ok(message) = self.heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if fits(&message) {
                return Some(message);
            }
            self.kept.push_back(message);
        }
        None
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the program's input and waits for its end.
    ///
    /// # Panics
    /// If it does not end.
    pub fn close(mut self) -> ExitStatus {
        self.stdin = None;
        wait::end_of(&mut self.child, "the program")
    }

    /// Kills the program.
    ///
    /// # Panics
    /// If that is impossible.
    pub fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        drop(self.child.wait());
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.stdin = None;
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
