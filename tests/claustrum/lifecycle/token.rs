//! Where the daemon's token comes from, and what counts as one.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use hostel_tests::client::Client;
use hostel_tests::house::{self, House, Options, path_text};
use hostel_tests::procfs;
use hostel_tests::wait;

use super::{Ran, claustrum};

const PONG: &str = r#"{"pong":true}"#;

/// Starts a daemon whose token file holds these bytes, and gives the house.
fn served_with(content: &[u8]) -> (House, Ran) {
    let mut house = House::prepare(Options::default());
    let file = house.path().join("token-file");
    fs::write(&file, content).expect("a token file");
    let socket = house.socket();
    let mut command = house.command(&["-serve", "-socket", path_text(&socket), "-token-file", path_text(&file)]);
    command.stdout(Stdio::null()).stderr(File::create(house.path().join("printed.err")).expect("a file"));
    let status = command.status().expect("the launcher runs");
    if let Ok(client) = house.try_connect() {
        house.remember_daemon(client.server_pid());
    }
    let ran = Ran { code: status.code(), stdout: String::new(), stderr: house.printed() };
    (house, ran)
}

fn accepts(house: &House, token: &str) -> bool {
    let mut client = Client::connect(&house.socket(), &serde_escape(token)).expect("the daemon accepts connections");
    client.call("server.ping", "{}").contains(PONG)
}

fn serde_escape(token: &str) -> String {
    let quoted = serde_json::Value::from(token).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[test]
fn a_daemon_without_a_token_source_does_not_start() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(ran.stderr, "claustrum: daemonized child requires --token-file or --token-fd\n");
    assert!(!socket.exists());
}

#[test]
fn the_token_is_checked_before_the_socket() {
    let house = House::prepare(Options::default());
    let ran = claustrum(&house, &["-serve", "-socket", "/nowhere/at/all/s"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stderr, "claustrum: daemonized child requires --token-file or --token-fd\n");
}

#[test]
fn the_environment_is_no_token_source() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let mut command = house.command(&["-serve", "-socket", path_text(&socket)]);
    command.env("CLAUDE_RPC_TOKEN", "secret");
    let ran = Ran::from(house::run(command));
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stderr, "claustrum: daemonized child requires --token-file or --token-fd\n");
    assert!(!socket.exists());
}

#[test]
fn a_bad_token_file_is_named() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let missing = house.path().join("missing");
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket), "-token-file", path_text(&missing)]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        format!("claustrum: read --token-file: open {}: no such file or directory\n", missing.display())
    );
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket), "-token-file", path_text(house.path())]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("claustrum: read --token-file: "), "{}", ran.stderr);
    assert!(ran.stderr.ends_with(": is a directory\n"), "{}", ran.stderr);
    assert!(!socket.exists());
}

#[test]
fn the_token_file_is_read_once_and_removed() {
    let (house, ran) = served_with(b"secret");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!house.path().join("token-file").exists(), "the token file is still there");
    fs::write(house.path().join("token-file"), "other").expect("a new file of that name");
    assert!(accepts(&house, "secret"));
    assert!(!accepts(&house, "other"));
}

#[test]
fn line_ends_are_stripped_and_nothing_else() {
    for (content, token) in [
        (&b"plain"[..], "plain"),
        (b"newline\n", "newline"),
        (b"crlf\r\n", "crlf"),
        (b" blanks around \n", " blanks around "),
        (b"\ttab\t\n", "\ttab\t"),
        (b" \n", " "),
        ("ümläut\n".as_bytes(), "ümläut"),
        (b"inner \"quote\" and \\\n", "inner \"quote\" and \\"),
    ] {
        let (house, ran) = served_with(content);
        assert_eq!(ran.code, Some(0), "{content:?}: {}", ran.stderr);
        assert!(accepts(&house, token), "{content:?} is not the token {token:?}");
        assert!(!accepts(&house, "another"), "{content:?}");
        assert!(!accepts(&house, &format!("{token}\n")), "{content:?}");
        if token != token.trim() {
            assert!(!accepts(&house, token.trim()), "{content:?}: surrounding blanks were lost");
        }
        // The house's own token is another one: end the daemon with its own.
        house.run_stop(token);
        wait::eventually("the daemon to stop", || !house.daemon().alive());
    }
}

#[test]
fn an_empty_token_is_fatal() {
    for content in [&b""[..], b"\n", b"\r\n"] {
        let (house, ran) = served_with(content);
        assert_eq!(ran.code, Some(1), "{content:?}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with("claustrum: ") && ran.stderr.contains("token is empty"),
            "{content:?}: {}",
            ran.stderr
        );
        assert!(!house.socket().exists());
    }
}

/// Starts a daemon that reads its token from its standard input.
fn served_by_descriptor(content: &[u8], extra: &[&str]) -> (House, Ran) {
    let mut house = House::prepare(Options::default());
    let socket = house.socket();
    let mut arguments = vec!["-serve", "-socket", path_text(&socket), "-token-fd", "0"];
    arguments.extend(extra);
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    let mut write = File::from(write);
    write.write_all(content).expect("a pipe takes a token");
    drop(write);
    let mut command = house.command(&arguments);
    command.stdin(Stdio::from(OwnedFd::from(File::from(read))));
    command.stdout(Stdio::null()).stderr(File::create(house.path().join("printed.err")).expect("a file"));
    let status = command.status().expect("the launcher runs");
    if let Ok(client) = house.try_connect() {
        house.remember_daemon(client.server_pid());
    }
    let ran = Ran { code: status.code(), stdout: String::new(), stderr: house.printed() };
    (house, ran)
}

#[test]
fn a_token_from_a_descriptor_works_and_touches_no_disk() {
    let (house, ran) = served_by_descriptor(b"from a descriptor\n", &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(accepts(&house, "from a descriptor"));
    assert!(!accepts(&house, "other"));
    // Neither the arguments nor the environment of daemon and keeper hold it.
    for process in house.keepers().into_iter().chain([house.daemon()]) {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&environment).contains("from a descriptor"));
        assert!(!procfs::command_line(process.pid).contains("from a descriptor"));
    }
    let grep = std::process::Command::new("grep")
        .args(["-rqs", "from a descriptor"])
        .arg(house.path())
        .status()
        .expect("grep runs");
    assert!(!grep.success(), "the token lies in a file of the house");
    house.run_stop("from a descriptor");
    wait::eventually("the daemon to stop", || !house.daemon().alive());
}

#[test]
fn a_descriptor_wins_over_a_file() {
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let file = elsewhere.path().join("token");
    fs::write(&file, "from the file").expect("a token file");
    let (house, ran) = served_by_descriptor(b"from the descriptor", &["-token-file", path_text(&file)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(accepts(&house, "from the descriptor"));
    assert!(!accepts(&house, "from the file"));
    house.run_stop("from the descriptor");
    wait::eventually("the daemon to stop", || !house.daemon().alive());
}

#[test]
fn an_empty_or_bad_descriptor_is_fatal() {
    let (house, ran) = served_by_descriptor(b"", &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("token is empty"), "{}", ran.stderr);
    assert!(!house.socket().exists());
    let socket = house.socket();
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket), "-token-fd", "77"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("claustrum: "), "{}", ran.stderr);
    assert!(!socket.exists());
}
