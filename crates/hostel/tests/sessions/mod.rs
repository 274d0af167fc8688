//! Sessions of agents over the command line, with the agent that is built in: started, followed, interrupted, sent to,
//! watched and told as a document; `questions` has what they ask.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use crate::common;
mod questions;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::process::Command;

use common::House;
use common::Outcome;
use common::finish;
use common::send;
use common::wait_until;
use serde_json::Value;
use serde_json::json;

/// The lines of an output, each a JSON object.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Starts a session under a name and leaves it to itself.
fn detached(house: &House, name: &str, prompt: &str) -> String {
    let outcome = house.hostel(["run", "-d", "--name", name, prompt]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.out.trim().to_owned()
}

fn session(house: &House, name: &str) -> Value {
    let list = house.json(["sessions", "--all", "--json"]);
    list["sessions"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

fn wait_idle(house: &House, name: &str) {
    wait_until("the session is done", || session(house, name), |session| session["status"] == "idle");
}

/// The id of the one question that waits.
fn pending(house: &House) -> String {
    let first = || house.json(["approvals", "list", "--json"])["approvals"][0].clone();
    let found = wait_until("somebody asks for permission", first, Value::is_object);
    found["id"].as_str().unwrap().to_owned()
}

/// Answers a question with the approver's passphrase, which is set if it is not.
fn answer(house: &House, words: &[&str]) -> Outcome {
    const PASSPHRASE: &[u8] = b"correct horse battery\n";
    if !house.home().join("approver").exists() {
        let outcome = house.hostel_with_input(["approver", "set", "--passphrase-fd", "0"], PASSPHRASE);
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
    let unread: &[&str] = if words.contains(&"approve") { &["--yes"] } else { &[] };
    let words = [&["approvals"], words, unread, &["--passphrase-fd", "0"]].concat();
    house.hostel_with_input(words, PASSPHRASE)
}

/// A program whose output is read as it comes.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    seen: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out, seen: String::new() }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Reads until the text was printed.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let piece = self.out.fill_buf().unwrap();
            assert!(!piece.is_empty(), "it ended without `{text}`: {}", self.seen);
            self.seen.push_str(std::str::from_utf8(piece).unwrap());
            let length = piece.len();
            self.out.consume(length);
        }
    }

    fn finish(mut self) -> Outcome {
        self.out.read_to_string(&mut self.seen).unwrap();
        let mut outcome = finish(self.child);
        outcome.out = self.seen;
        outcome
    }
}

#[test]
fn a_prompt_is_answered_and_the_exit_code_says_how_it_went() {
    let house = House::up();
    let outcome = house.hostel(["run", "hello there"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: hello there\n"), "{outcome:?}");
    assert!(outcome.err.contains("with echo (no agent was named)"), "{outcome:?}");
    assert!(outcome.err.contains("✓ done in "), "{outcome:?}");
    assert!(outcome.err.contains(" · tokens 2 in, 3 out\n"), "{outcome:?}");
    assert!(!outcome.err.contains('\u{1b}') && !outcome.out.contains('\u{1b}'), "{outcome:?}");

    let outcome = house.hostel(["run", "--agent", "echo", "tool"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "tool done\n"), "{outcome:?}");
    assert!(outcome.err.contains("▸ bash echo hello\n  └ hello\n"), "{outcome:?}");
    assert!(!outcome.err.contains("no agent was named"), "{outcome:?}");

    let outcome = house.hostel(["run", "think"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "thought done\n"), "{outcome:?}");
    assert!(outcome.err.contains("pondering\n"), "{outcome:?}");

    let outcome = house.hostel(["run", "fail"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    assert!(outcome.err.contains("✗ failed after "), "{outcome:?}");

    let outcome = house.hostel_with_input(["run", "-"], b"from standard input\n");
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: from standard input\n"), "{outcome:?}");

    let elsewhere = house.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let outcome = house.hostel(["run", "--cwd", "elsewhere", "cwd"]);
    assert!(outcome.out.contains(elsewhere.to_str().unwrap()), "{outcome:?}");
}

#[test]
fn what_an_agent_says_cannot_steer_the_terminal() {
    let house = House::up();
    let outcome = house.hostel(["run", "\u{1b}]0;owned\u{7}\u{1b}[2J"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: ⟨ESC⟩]0;owned⟨BEL⟩⟨ESC⟩[2J\n"), "{outcome:?}");
    let outcome = house.hostel(["sessions", "show", "--color", "never", &short(&house)]);
    assert!(outcome.code == 0 && !outcome.out.contains('\u{1b}'), "{outcome:?}");
}

/// The start of the only session's id.
fn short(house: &House) -> String {
    house.json(["sessions", "--json"])["sessions"][0]["session_id"].as_str().unwrap()[..8].to_owned()
}

#[test]
fn updates_as_data_are_one_object_a_line_in_order() {
    let house = House::up();
    let outcome = house.hostel(["run", "--json", "tool"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    let updates = lines(&outcome.out);
    let kinds: Vec<&str> = updates.iter().map(|update| update["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["turn_started", "tool_call", "tool_result", "agent_message_chunk", "turn_complete"]);
    let numbers: Vec<u64> = updates.iter().map(|update| update["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|left, right| left < right), "{numbers:?}");
    assert!(updates.iter().all(|update| update.get("sessionId").is_none()), "{updates:?}");
    assert_eq!(updates[4]["outcome"], "completed");
    assert_eq!(house.hostel(["run", "--json", "fail"]).code, 1);
}

#[test]
fn ctrl_c_stops_the_turn_and_the_session_goes_on() {
    let house = House::up();
    let mut run = Running::start(house.command().args(["run", "--name", "nap", "sleep 600"]));
    run.until("sleeping");
    send("INT", &run.pid());
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.out.as_str()), (130, "sleeping\n"), "{outcome:?}");
    assert!(outcome.err.contains("■ cancelled after "), "{outcome:?}");
    let outcome = house.hostel(["send", "--wait", "nap", "still there?"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: still there?\n"), "{outcome:?}");
}

#[test]
fn ctrl_c_twice_leaves_the_turn_to_itself() {
    let house = House::up();
    let mut run = Running::start(house.command().args(["run", "--name", "nap", "sleep 600"]));
    run.until("sleeping");
    // An agent that does not listen keeps its turn open for a while.
    let agent = session(&house, "nap")["pid"].to_string();
    send("STOP", &agent);
    send("INT", &run.pid());
    let mut err = BufReader::new(run.child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("stopping the turn") {
        assert_ne!(err.read_line(&mut said).unwrap(), 0, "{said}");
    }
    send("INT", &run.pid());
    err.read_to_string(&mut said).unwrap();
    let outcome = run.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(said.contains("come back with `hostel watch nap`"), "{said}");
    // The turn still ends as it was told to, with nobody watching.
    wait_idle(&house, "nap");
    let watched = house.hostel(["watch", "--no-follow", "nap"]);
    assert!(watched.out.contains("■ cancelled"), "{watched:?}");
}

#[test]
fn a_turn_stopped_by_somebody_else_is_no_interrupt_of_ours() {
    let house = House::up();
    let mut run = Running::start(house.command().args(["run", "--name", "nap", "sleep 600"]));
    run.until("sleeping");
    let outcome = house.hostel(["sessions", "interrupt", "nap"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "nap: interrupted\n"), "{outcome:?}");
    assert_eq!(run.finish().code, 1);
    let outcome = house.hostel(["sessions", "interrupt", "nap"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "nap: nothing runs in it\n"), "{outcome:?}");
}

#[test]
fn a_daemon_that_comes_back_repeats_nothing() {
    let house = House::up();
    let mut run = Running::start(house.command().args(["run", "--name", "nap", "sleep 3"]));
    run.until("sleeping");
    house.crash();
    let outcome = house.hostel(["up"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.err.contains("✓ done in ")), (0, true), "{outcome:?}");
    assert_eq!(outcome.out.replace('\n', ""), "sleeping done", "{outcome:?}");
}

#[test]
fn prompts_wait_their_turn_and_everything_can_be_read_later() {
    let house = House::up();
    let id = detached(&house, "talk", "approve");
    let question = pending(&house);
    let first = house.json(["send", "--json", "talk", "stream 3"]);
    let second = house.json(["send", "--json", &id[..8], "tool"]);
    assert_eq!((first["turn"].as_u64(), second["turn"].as_u64()), (Some(2), Some(3)));
    assert_eq!((first["position"].as_u64(), second["position"].as_u64()), (Some(1), Some(2)));
    let waiting = Running::start(house.command().args(["send", "--wait", &id, "last one"]));
    wait_until("three prompts wait", || session(&house, "talk"), |session| session["queued"] == 3);
    assert_eq!(answer(&house, &["approve", &question]).code, 0);
    let outcome = waiting.finish();
    // Only its own turn, though three others ended meanwhile.
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: last one\n"), "{outcome:?}");
    assert!(outcome.err.contains("turn 4 waits"), "{outcome:?}");

    let watched = house.hostel(["watch", "--no-follow", "talk"]);
    assert_eq!((watched.code, watched.err.as_str()), (0, ""), "{watched:?}");
    let mut rest = watched.out.as_str();
    for part in [
        "── turn 1 · native\n› approve\n\n▸ bash touch approved.txt\n",
        "\n\napproved\n\n✓ done",
        "── turn 2 · native\n› stream 3\n\n0 1 2",
        "── turn 3 · native\n› tool\n\n▸ bash echo hello\n  └ hello\n\ntool done\n",
        "── turn 4 · native\n› last one\n\necho: last one\n",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` is not in `{rest}`"));
        rest = &rest[at + part.len()..];
    }
    let updates = lines(&house.hostel(["watch", "--no-follow", "--json", "talk"]).out);
    let last = updates.iter().filter_map(|update| update["seq"].as_u64()).max().unwrap();
    let since = house.hostel(["watch", "--no-follow", "--json", "--since", &(last - 1).to_string(), "talk"]);
    let since: Vec<u64> = lines(&since.out).iter().filter_map(|update| update["seq"].as_u64()).collect();
    assert_eq!(since, [last]);
}

#[test]
fn somebody_who_watches_sees_what_others_send() {
    let house = House::up();
    detached(&house, "talk", "one");
    let mut watch = Running::start(house.command().args(["watch", "talk"]));
    watch.until("echo: one");
    assert_eq!(house.hostel(["send", "talk", "two"]).code, 0);
    watch.until("echo: two");
    send("INT", &watch.pid());
    let outcome = watch.finish();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.err.contains("left talk to itself"), "{outcome:?}");

    let mut watch = Running::start(house.command().args(["watch", "talk"]));
    watch.until("echo: two");
    let outcome = house.hostel(["sessions", "close", "talk"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "talk: closed\n"), "{outcome:?}");
    let outcome = watch.finish();
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn transcripts_are_complete() {
    let house = House::up();
    detached(&house, "talk", "tool");
    wait_idle(&house, "talk");
    assert_eq!(house.hostel(["send", "--wait", "talk", "``` and\nmore"]).code, 0);
    let document = house.hostel(["sessions", "export", "talk"]);
    assert_eq!((document.code, document.err.as_str()), (0, ""), "{document:?}");
    for part in [
        "# talk\n",
        "- Agent: echo\n",
        "> tool\n",
        "**bash**\n\n```sh\necho hello\n```\n",
        "```text\nhello\n```\n",
        "tool done\n",
        "*Completed after ",
        "> ``` and\n> more\n",
        "echo: ``` and\nmore\n",
    ] {
        assert!(document.out.contains(part), "`{part}` is not in `{}`", document.out);
    }
    let file = house.path().join("talk.jsonl");
    let words = ["sessions", "export", "--format", "jsonl", "talk", "--out", file.to_str().unwrap()];
    let outcome = house.hostel(words);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{outcome:?}");
    let events = lines(&std::fs::read_to_string(&file).unwrap());
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    let last = session(&house, "talk")["last_seq"].as_u64().unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!house.path().join("talk.jsonl.part").exists());
    let outcome = house.hostel(["sessions", "export", "talk", "--out", "/nowhere/talk.md"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.starts_with("hostel: cannot write `/nowhere/talk.md`: "), "{outcome:?}");
}

#[test]
fn a_session_of_another_door_is_like_any_other() {
    let house = House::up();
    let socket = UnixStream::connect(house.home().join("run/zeroclaw.sock")).unwrap();
    let mut answers = BufReader::new(socket.try_clone().unwrap());
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (&socket).write_all(format!("{line}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    };
    ask(1, "initialize", json!({"protocol_version": 1}));
    let made = ask(2, "session/new", json!({"agent_alias": "echo", "cwd": house.path()}));
    let id = made["session_id"].as_str().unwrap();
    let answered = ask(3, "session/prompt", json!({"session_id": id, "prompt": "by its own door"}));
    assert_eq!(answered["content"], "echo: by its own door");

    let row = house.json(["sessions", "--json"])["sessions"][0].clone();
    assert_eq!((row["session_id"].as_str(), row["door"].as_str()), (Some(id), Some("zeroclaw")));
    let outcome = house.hostel(["send", "--wait", &id[..8], "by ours"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "echo: by ours\n"), "{outcome:?}");
    let watched = house.hostel(["watch", "--no-follow", id]).out;
    assert!(watched.contains("── turn 1 · zeroclaw\n› by its own door\n"), "{watched}");
    assert!(watched.contains("── turn 2 · native\n› by ours\n"), "{watched}");

    assert_eq!(house.hostel(["sessions", "close", id]).code, 0);
    assert_eq!(house.json(["sessions", "--json"]), json!({"sessions": []}));
    // A prompt opens it again.
    assert_eq!(house.hostel(["send", "--wait", id, "back"]).out, "echo: back\n");
    assert_eq!(house.hostel(["sessions", "delete", id]).code, 0);
    assert_eq!(house.json(["sessions", "--all", "--json"]), json!({"sessions": []}));
}

#[test]
fn wrong_command_lines_are_told_before_anything_is_asked() {
    let house = House::new();
    let both = "host a command with `hostel run -- COMMAND`, or start an agent with `hostel run \"PROMPT\"`";
    let cases: [(&[&str], String); 8] = [
        (&["run"], format!("there is nothing to run; {both}")),
        (&["run", "two", "words"], format!("a command comes after `--`, and a prompt is exactly one word; {both}")),
        (
            &["run", "--agent", "echo", "--", "ls"],
            format!("`--agent` is an option of a prompt, not of a command; {both}"),
        ),
        (&["run", "--replace", "hello"], format!("`--replace` is an option of a command, not of a prompt; {both}")),
        (&["run", " "], "the prompt is empty; say what you want, in quotes".to_owned()),
        (&["run", "--name", "", "hello"], "a session cannot have an empty name".to_owned()),
        (
            &["run", "--mode", "wild", "hello"],
            "invalid value 'wild' for '--mode <MODE>' [possible values: auto, code, plan, ask]; see `hostel --help`"
                .to_owned(),
        ),
        (
            &["sessions", "--all", "show", "x"],
            "`--all` before the action is about the list; see `hostel sessions --help`".to_owned(),
        ),
    ];
    for (words, expected) in cases {
        let outcome = house.hostel(words);
        assert_eq!(outcome.err, format!("hostel: {expected}\n"), "{words:?}");
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{words:?}");
    }
}

#[test]
fn mistakes_say_what_to_do_next() {
    let house = House::up();
    let outcome = house.hostel(["run", "--agent", "nobody", "hi"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(outcome.err.starts_with("hostel: there is no agent `nobody`, only "), "{outcome:?}");
    assert!(outcome.err.contains("`[agents.nobody]`"), "{outcome:?}");
    let outcome = house.hostel(["run", "--cwd", "/nowhere", "hi"]);
    assert!(outcome.err.contains("`/nowhere` cannot be used"), "{outcome:?}");
    assert!(outcome.err.contains("`--cwd DIR`"), "{outcome:?}");
    for words in [&["send", "nobody", "hi"][..], &["watch", "nobody"], &["sessions", "show", "nobody"]] {
        let outcome = house.hostel(words);
        let expected = "hostel: no session matches `nobody`; list them with `hostel sessions --all`\n";
        assert_eq!((outcome.code, outcome.err.as_str()), (1, expected), "{words:?}");
    }
    let outcome = house.hostel(["approvals", "approve", "abc"]);
    assert_eq!(
        outcome.err,
        "hostel: no approval matches `abc`; the start of an id takes four characters or more; \
         list them with `hostel approvals list --all`\n"
    );
    assert_eq!(house.json(["sessions", "--all", "--json"]), json!({"sessions": []}));
    assert!(house.hostel(["sessions"]).err.contains("hostel run \"PROMPT\""));
}
