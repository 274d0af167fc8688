//! A house from up to down: what people type, against the real daemon, keeper and children.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Stdio;

use common::House;
use common::finish;
use common::send;
use common::wait_until;

fn next_line(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// A running `hostel …` and its standard output, line by line.
fn start(house: &House, words: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = house.command().args(words).stdin(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

fn state(house: &House, name: &str) -> String {
    let list = house.json(["--json", "ps", "-a"]);
    let found = list["processes"].as_array().unwrap().iter().find(|process| process["name"] == name).cloned();
    found.map(|process| process["state"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn exists(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn up_says_where_and_what_next_and_is_private() {
    let house = House::new();
    let first = house.hostel(["up"]);
    assert_eq!(first.code, 0, "{first:?}");
    let home = house.home();
    for part in [
        "is up in",
        "run/hostel.sock",
        "run/claustrum.sock",
        "run/local_token",
        "run/zeroclaw.sock",
        "codecast",
        "hostel run -- COMMAND",
    ] {
        assert!(first.out.contains(part), "{part} missing in {}", first.out);
    }
    for directory in ["", "run", "journal", "log"] {
        assert_eq!(home.join(directory).metadata().unwrap().mode() & 0o777, 0o700, "{directory}");
    }
    for file in [
        "run/hostel.sock",
        "run/claustrum.sock",
        "run/zeroclaw.sock",
        "run/local_token",
        "run/keeper.sock",
        "log/daemon.log",
        "state.db",
    ] {
        assert_eq!(home.join(file).metadata().unwrap().mode() & 0o777, 0o600, "{file}");
    }
    let port: u16 = std::fs::read_to_string(home.join("run/http.port")).unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "nobody listens on {port}");
    let daemon = house.daemon();
    let second = house.hostel(["up"]);
    assert_eq!(second.code, 0);
    assert!(second.out.contains("is up already in"), "{}", second.out);
    assert_eq!(house.daemon(), daemon);
    let status = house.json(["up", "--json"]);
    assert_eq!(status["already_running"], true);
    assert_eq!(status["status"]["doors"][0]["name"], "native");
    let down = house.hostel(["down"]);
    assert_eq!((down.code, down.out.as_str()), (0, "daemon, keeper and processes ended\n"));
    assert!(!exists(&daemon));
    for file in ["run/hostel.sock", "run/zeroclaw.sock", "run/http.port"] {
        assert!(!home.join(file).exists(), "{file}");
    }
    assert_eq!(house.hostel(["down"]).out, "nothing was up\n");
}

#[test]
fn several_who_start_it_at_once_all_find_it_up() {
    let house = House::new();
    let starters: Vec<Child> = (0..6).map(|_| house.command().arg("up").spawn().unwrap()).collect();
    let outcomes: Vec<_> = starters.into_iter().map(finish).collect();
    for outcome in &outcomes {
        assert_eq!(outcome.code, 0, "{outcomes:?}");
    }
    assert_eq!(outcomes.iter().filter(|outcome| outcome.out.contains("is up in")).count(), 1, "{outcomes:?}");
}

#[test]
fn run_is_like_running_it_here() {
    let house = House::up();
    let outcome = house.hostel(["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((outcome.code, outcome.out.as_str(), outcome.err.as_str()), (3, "out\n", "err\n"));
    let outcome = house.hostel_with_input(["run", "--", "tr", "a-z", "A-Z"], b"hello");
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "HELLO"));
    let outcome = house.hostel(["run", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(outcome.code, 137);
    let outcome =
        house.hostel(["run", "--cwd", "/", "--env", "GREETING=good day", "--", "sh", "-c", "pwd; echo $GREETING"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "/\ngood day\n"));
    let outcome = house.hostel(["run", "--", "sh", "-c", "umask; cat"]);
    assert_eq!(outcome.code, 0);
    assert_ne!(outcome.out, "0077\n", "the daemon's own mask must not reach children");
    let outcome = house.hostel(["run", "--", "no-such-program"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (1, "hostel: `no-such-program` was not found in PATH\n"));
    let outcome = house.hostel(["run", "--cwd", "/nowhere", "--", "true"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.starts_with("hostel: cannot start in `/nowhere`: "), "{outcome:?}");
}

#[test]
fn a_megabyte_passes_through_both_ways() {
    let house = House::up();
    let input: Vec<u8> = (0..1_500_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
    let mut child = house.command().args(["run", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == input, "{} bytes came back", output.stdout.len());
}

#[test]
fn run_logs_and_attach_survive_crashes_of_the_daemon() {
    let house = House::up();
    let script = "while read line; do echo \"got $line\"; done; echo end; exit 7";
    let (mut run, mut lines) = start(&house, &["run", "--name", "steady", "--", "sh", "-c", script]);
    let (follow, mut followed) = {
        wait_until("the process is there", || state(&house, "steady"), |state| state == "running");
        start(&house, &["logs", "-f", "steady"])
    };
    let mut stdin = run.stdin.take().unwrap();
    for round in 0..6 {
        writeln!(stdin, "before {round}").unwrap();
        assert_eq!(next_line(&mut lines), format!("got before {round}"));
        assert_eq!(next_line(&mut followed), format!("got before {round}"));
        house.crash();
        writeln!(stdin, "while down {round}").unwrap();
        let up = house.hostel(["up"]);
        assert_eq!(up.code, 0, "{up:?}");
        assert_eq!(next_line(&mut lines), format!("got while down {round}"));
        assert_eq!(next_line(&mut followed), format!("got while down {round}"));
    }
    drop(stdin);
    assert_eq!(next_line(&mut lines), "end");
    assert_eq!(finish(run).code, 7);
    assert_eq!(next_line(&mut followed), "end");
    assert_eq!(finish(follow).code, 0);
    let kept = house.hostel(["logs", "steady"]).out;
    assert_eq!(kept.lines().count(), 13);
    assert_eq!(house.hostel_with_input(["attach", "steady"], b"").code, 7);
}

#[test]
fn a_daemon_that_stays_away_is_given_up_in_time() {
    let house = House::up();
    let mut command = house.command();
    command.env("HOSTEL_LIMITS_RECONNECT", "300ms").args([
        "run",
        "--name",
        "left",
        "--",
        "sh",
        "-c",
        "echo on; sleep 60",
    ]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(next_line(&mut lines), "on");
    house.crash();
    let outcome = finish(child);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("the daemon did not come back within 300ms; start it with `hostel up`"),
        "{outcome:?}"
    );
    assert_eq!(house.hostel(["down"]).out, "there was no daemon; keeper and processes ended\n");
}

#[test]
fn the_keeper_is_replaced_under_a_running_process() {
    let house = House::up();
    let (mut run, mut lines) =
        start(&house, &["run", "--name", "steady", "--", "sh", "-c", "while read line; do echo \"got $line\"; done"]);
    let mut stdin = run.stdin.take().unwrap();
    writeln!(stdin, "one").unwrap();
    assert_eq!(next_line(&mut lines), "got one");
    let before = house.json(["--json", "keeper", "status"]);
    let upgraded = house.json(["--json", "keeper", "upgrade"]);
    assert_eq!(upgraded["pid"], before["keepers"][0]["keeper"]["pid"]);
    writeln!(stdin, "two").unwrap();
    assert_eq!(next_line(&mut lines), "got two");
    drop(stdin);
    assert_eq!(finish(run).code, 0);
}

#[test]
fn detached_processes_are_listed_attached_and_killed() {
    let house = House::up();
    let spawned = house.json(["--json", "run", "-d", "--name", "echoer", "--", "sh", "-c", "echo hello; exec cat"]);
    let id = spawned["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 32);
    let taken = house.hostel(["run", "-d", "--name", "echoer", "--", "true"]);
    assert_eq!(taken.code, 1);
    assert_eq!(
        taken.err,
        "hostel: a running process is called `echoer` already; choose another name, or end the old one with `--replace`\n"
    );
    wait_until("it has printed", || house.hostel(["logs", "echoer"]), |logs| logs.out == "hello\n");
    let (mut attached, mut lines) = start(&house, &["attach", id.get(..6).unwrap()]);
    assert_eq!(next_line(&mut lines), "hello");
    writeln!(attached.stdin.as_mut().unwrap(), "typed").unwrap();
    assert_eq!(next_line(&mut lines), "typed");
    send("INT", &attached.id().to_string());
    let left = finish(attached);
    assert_eq!(left.code, 0);
    assert!(left.err.contains("come back with `hostel attach echoer`"), "{left:?}");
    assert_eq!(state(&house, "echoer"), "running");
    let (mut watching, mut lines) = start(&house, &["attach", "--no-replay", "--close-stdin", "echoer"]);
    writeln!(watching.stdin.as_mut().unwrap(), "again").unwrap();
    assert_eq!(next_line(&mut lines), "again");
    drop(watching.stdin.take());
    assert_eq!(finish(watching).code, 0);
    assert_eq!(state(&house, "echoer"), "exited");
    assert_eq!(house.hostel(["attach", "--no-replay", "echoer"]).code, 0);
    assert_eq!(house.hostel(["logs", "-f", "--since-seq", "1000", "echoer"]).out, "");
    let killed = house.hostel(["kill", "echoer"]);
    assert_eq!((killed.code, killed.out.as_str()), (0, "echoer: had exited already\n"));
}

#[test]
fn who_follows_a_replaced_process_is_told() {
    let house = House::up();
    let (first, mut lines) = start(&house, &["run", "--name", "web", "--", "sh", "-c", "echo first; sleep 300"]);
    assert_eq!(next_line(&mut lines), "first");
    let second = house.hostel(["run", "-d", "--replace", "--name", "web", "--", "sh", "-c", "echo second; sleep 300"]);
    assert_eq!(second.code, 0, "{second:?}");
    let told = finish(first);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("another process took the name `web`"), "{told:?}");
    wait_until("the second has printed", || house.hostel(["logs", "web"]), |logs| logs.out == "second\n");
}

#[test]
fn a_claustrum_client_cannot_end_what_came_in_by_other_doors() {
    let house = House::up();
    house.hostel(["run", "-d", "--name", "ours", "--", "sleep", "300"]);
    let token = std::fs::read_to_string(house.home().join("run/local_token")).unwrap();
    let socket = house.home().join("run/claustrum.sock");
    let ask = |line: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(common::limit())).unwrap();
        writeln!(stream, "{}", line.replace("TOKEN", token.trim())).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    let spawn = r#"{"jsonrpc":"2.0","id":1,"method":"process.spawn","params":{"id":"theirs","command":"sleep","args":["300"]},"auth":"TOKEN"}"#;
    assert!(ask(spawn).contains("\"success\":true"));
    assert_eq!(ask(r#"{"jsonrpc":"2.0","id":1,"method":"server.shutdown","auth":"TOKEN"}"#), "");
    wait_until("theirs has ended", || state(&house, "theirs"), |state| state == "exited");
    assert_eq!(state(&house, "ours"), "running");
    assert!(ask(r#"{"jsonrpc":"2.0","id":1,"method":"server.ping","auth":"TOKEN"}"#).contains("pong"));
}

#[test]
fn interrupts_go_to_the_process_and_then_leave_it() {
    let house = House::up();
    let script = "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done";
    let (run, mut lines) = start(&house, &["run", "--name", "stubborn", "--", "sh", "-c", script]);
    assert_eq!(next_line(&mut lines), "ready");
    send("INT", &run.id().to_string());
    assert_eq!(next_line(&mut lines), "interrupted");
    send("INT", &run.id().to_string());
    let left = finish(run);
    assert_eq!(left.code, 130);
    assert!(left.err.contains("left `stubborn` running"), "{left:?}");
    assert_eq!(state(&house, "stubborn"), "running");
    let killed = house.hostel(["kill", "--signal", "INT", "--wait", "300ms", "stubborn"]);
    assert_eq!((killed.code, killed.out.as_str()), (0, "stubborn: ended, KILL was needed\n"), "{killed:?}");
}

#[test]
fn what_left_the_group_is_shown_and_killed_with_it() {
    let house = House::up();
    let file = house.path().join("pid");
    let script = format!("setsid sh -c 'echo $$ > {}; exec sleep 300' & echo started; wait", file.display());
    let (run, mut lines) = start(&house, &["run", "--name", "parent", "--", "sh", "-c", &script]);
    assert_eq!(next_line(&mut lines), "started");
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    let escaped = wait_until("the grandchild has written its id", written, |text| text.ends_with('\n'));
    let escaped = escaped.trim();
    let tree = house.json(["--json", "ps", "--tree"]);
    let members = tree["processes"][0]["tree"]["processes"].as_array().unwrap();
    let pid: u64 = escaped.parse().unwrap();
    assert!(members.iter().any(|member| member["pid"] == pid && member["relation"] == "escaped"), "{members:?}");
    assert!(house.hostel(["ps", "--tree"]).out.contains("└ escaped"));
    assert_eq!(house.hostel(["kill", "--wait", "5s", "parent"]).code, 0);
    assert_eq!(finish(run).code, 143);
    wait_until("the grandchild is gone", || exists(escaped), |there| !there);
}

#[test]
fn tables_stay_tables_whatever_a_command_is_called() {
    let house = House::up();
    house.hostel(["run", "--", "sh", "-c", "true \u{1b}[2J\n\u{202e}"]);
    let table = house.hostel(["ps", "-a"]).out;
    assert_eq!(table.lines().count(), 2, "{table:?}");
    assert!(table.contains("⟨ESC⟩[2J⟨LF⟩⟨U+202E⟩"), "{table:?}");
    assert!(!table.contains('\u{1b}'));
    let coloured = house.hostel(["--color", "always", "ps", "-a"]).out;
    assert!(coloured.contains("\u{1b}[1mNAME"), "{coloured:?}");
}

#[test]
fn logs_can_start_late_show_times_and_be_data() {
    let house = House::up();
    // The next piece is written once the one before it has come out, so that each is a frame of its own.
    let script = "echo one; read go; echo two; read go; printf '\\377'";
    let (mut run, mut lines) = start(&house, &["run", "--name", "talker", "--", "sh", "-c", script]);
    for word in ["one", "two"] {
        assert_eq!(next_line(&mut lines), word);
        writeln!(run.stdin.as_mut().unwrap()).unwrap();
    }
    assert_eq!(finish(run).code, 0);
    let all = house.hostel(["--json", "logs", "talker"]).out;
    let frames: Vec<serde_json::Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(frames.len(), 3, "{all}");
    assert_eq!((&frames[0]["seq"], &frames[0]["data"]), (&1.into(), &"one\n".into()));
    assert_eq!(frames[2]["data"]["base64"], "/w==");
    let late = house.hostel(["--json", "logs", "--since-seq", "2", "talker"]).out;
    assert_eq!(late.lines().count(), 1);
    let timed = house.hostel(["logs", "-t", "talker"]).out;
    let first = timed.lines().next().unwrap();
    assert!(first.ends_with("Z one") && first.len() == "2026-01-01T00:00:00.000Z one".len(), "{first}");
}

#[test]
fn down_keep_leaves_processes_to_the_next_daemon() {
    let house = House::up();
    let (run, mut lines) =
        start(&house, &["run", "--name", "steady", "--", "sh", "-c", "echo on; read line; echo \"$line\"; exit 5"]);
    assert_eq!(next_line(&mut lines), "on");
    let down = house.hostel(["down", "--keep"]);
    assert_eq!(down.out, "the daemon ended; processes run on, `hostel up` finds them again\n");
    house.hostel(["up"]);
    assert_eq!(state(&house, "steady"), "running");
    let mut run = run;
    writeln!(run.stdin.as_mut().unwrap(), "later").unwrap();
    assert_eq!(next_line(&mut lines), "later");
    assert_eq!(finish(run).code, 5);
    let (run, mut lines) = start(&house, &["run", "--", "sh", "-c", "echo on; sleep 60"]);
    assert_eq!(next_line(&mut lines), "on");
    house.hostel(["down"]);
    let ended = finish(run);
    assert!(ended.code == 143 || ended.code == 137, "{ended:?}");
}

#[test]
fn a_long_home_works() {
    let house = House::new();
    let long = house.path().join("l".repeat(90)).join("m".repeat(90));
    let run = |words: &[&str]| {
        let mut command = house.command();
        finish(command.env("HOSTEL_HOME", &long).args(words).spawn().unwrap())
    };
    let up = run(&["up"]);
    assert_eq!(up.code, 0, "{up:?}");
    let outcome = run(&["run", "--", "echo", "hello"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "hello\n"), "{outcome:?}");
    assert!(run(&["doctor"]).out.contains("too long for a socket address"));
    assert_eq!(run(&["down"]).code, 0);
}

#[test]
fn the_foreground_daemon_ends_on_a_signal_and_keeps_processes() {
    let house = House::new();
    let (daemon, mut lines) = start(&house, &["up", "--foreground"]);
    assert!(next_line(&mut lines).starts_with("DOOR"));
    house.hostel(["run", "-d", "--name", "steady", "--", "sleep", "60"]);
    send("TERM", &daemon.id().to_string());
    let ended = finish(daemon);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("1 processes run on with the keeper"), "{ended:?}");
    house.hostel(["up"]);
    assert_eq!(state(&house, "steady"), "running");
}

#[test]
fn doctor_finds_what_is_wrong() {
    let house = House::new();
    let outcome = house.hostel(["doctor"]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.out.contains("daemon: is not up; start it with `hostel up`"), "{outcome:?}");
    house.hostel(["up"]);
    let outcome = house.hostel(["doctor"]);
    assert!(outcome.code == 0 && outcome.out.contains("keeper: answers"), "{outcome:?}");
    std::fs::write(house.home().join("hostel.toml"), "x = 1\n").unwrap();
    let outcome = house.hostel(["doctor"]);
    assert!(outcome.code == 1 && outcome.out.contains("hostel.toml:1: unknown key `x`"), "{outcome:?}");
    std::fs::remove_file(house.home().join("hostel.toml")).unwrap();
}

#[test]
fn journals_kept_elsewhere_have_a_folder_for_each_house() {
    let house = House::new();
    let elsewhere = house.path().join("elsewhere");
    let setting = format!("journal.dir={}", elsewhere.display());
    let outcome = house.hostel(["up", "--set", &setting]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(house.hostel(["run", "--", "echo", "kept"]).out, "kept\n");
    let folders: Vec<_> = std::fs::read_dir(&elsewhere).unwrap().flatten().collect();
    assert_eq!(folders.len(), 1);
    assert!(folders[0].file_name().to_string_lossy().starts_with("house-"), "{folders:?}");
    let journals = std::fs::read_dir(folders[0].path()).unwrap().flatten();
    assert_eq!(journals.filter(|file| file.path().extension().is_some_and(|end| end == "j")).count(), 1);
}
