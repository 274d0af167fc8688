//! Starting the daemon: what it prints, when it returns, where it listens, what it becomes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use hostel_tests::client::Client;
use hostel_tests::house::{self, House, Options, path_text};
use hostel_tests::procfs;
use hostel_tests::wait;

use super::{Ran, claustrum};

const PONG: &str = r#"{"pong":true}"#;

#[test]
fn the_banner_names_the_socket() {
    let house = House::start();
    let printed = fs::read_to_string(house.path().join("printed.out")).expect("what was printed");
    assert_eq!(printed, format!("Claustrum remote server listening on {}\n", house.socket().display()));
}

#[test]
fn the_launcher_returns_only_when_the_socket_accepts() {
    for _ in 0..5 {
        // House::start connects once, at once, and fails if nobody accepts.
        let house = House::start();
        assert_eq!(house.connect().ask("server.ping", "{}"), PONG);
    }
}

#[test]
fn the_launcher_can_be_read_to_its_end() {
    // As a program does that runs `claustrum -serve` and reads what it prints. The daemon keeps the
    // descriptors it was given; the keeper must not.
    let mut house = House::prepare(Options::default());
    let token = house.write_token();
    let socket = house.socket();
    let out = house.path().join("caught");
    let file = OpenOptions::new().create(true).append(true).open(&out).expect("a file");
    let mut command = house.command(&["-serve", "-socket", path_text(&socket), "-token-file", path_text(&token)]);
    command.stdout(Stdio::from(file.try_clone().expect("a descriptor"))).stderr(Stdio::from(file));
    let status = command.status().expect("the launcher runs");
    assert!(status.success(), "{status}");
    house.remember_daemon(house.connect().server_pid());
    let keeper = house.keeper();
    let Some(open) = procfs::descriptors(keeper.pid) else {
        hostel_tests::skip("only root may look at the keeper's descriptors");
        return;
    };
    assert!(!open.contains(&out), "the keeper holds a descriptor of the launcher: {open:?}");
}

#[test]
fn the_daemon_is_detached() {
    let house = House::start();
    let daemon = procfs::stat(house.daemon().pid).expect("the daemon runs");
    assert_eq!(daemon.session, house.daemon().pid, "the daemon leads no session of its own");
    let me = i32::try_from(std::process::id()).expect("a pid");
    assert_ne!(daemon.parent, me, "the daemon is still a child of whoever started it");
    let mut client = house.connect();
    client.spawn("where", "/bin/pwd", &["-P"]);
    let place = house.path().canonicalize().expect("a path");
    assert_eq!(client.follow("where").stdout, format!("{}\n", place.display()).into_bytes(), "the directory is kept");
    let Some(input) = procfs::link(house.daemon().pid, "fd/0") else {
        hostel_tests::skip("only root may look at the daemon's descriptors");
        return;
    };
    assert_eq!(input, Path::new("/dev/null"));
}

#[test]
fn the_socket_is_the_owners_alone_whatever_the_umask() {
    for mask in ["0000", "0022", "0077"] {
        let house = House::start_with(Options { before: Some(format!("umask {mask}")), ..Options::default() });
        let found = fs::metadata(house.socket()).expect("the socket");
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "umask {mask}");
        let mut client = house.connect();
        client.spawn("mask", "sh", &["-c", "umask"]);
        let transcript = client.follow("mask");
        assert_eq!(String::from_utf8_lossy(&transcript.stdout).trim(), mask, "children keep the umask of the caller");
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let mut house = House::prepare(Options::default());
    drop(UnixListener::bind(house.socket()).expect("a socket nobody listens on"));
    house.serve();
    assert_eq!(house.connect().ask("server.ping", "{}"), PONG);
}

#[test]
fn a_missing_socket_directory_is_an_error() {
    let house = House::prepare(Options::default());
    let token = house.write_token();
    let socket = house.path().join("missing/s");
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket), "-token-file", path_text(&token)]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let expected =
        format!("claustrum: listen unix: listen unix {}: bind: no such file or directory\n", socket.display());
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    assert!(!house.path().join("missing").exists(), "the directory was made");
}

#[test]
fn a_path_too_long_for_a_socket_is_an_error() {
    let house = House::prepare(Options::default());
    let token = house.write_token();
    let socket = house.path().join("x".repeat(200));
    let ran = claustrum(&house, &["-serve", "-socket", path_text(&socket), "-token-file", path_text(&token)]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("claustrum: listen unix: listen unix "), "{}", ran.stderr);
    assert!(ran.stderr.contains("invalid argument"), "{}", ran.stderr);
}

#[test]
fn without_a_socket_the_default_in_the_home_is_used() {
    let mut house = House::prepare(Options::default());
    let token = house.write_token();
    let ran = claustrum(&house, &["-serve", "-token-file", path_text(&token)]);
    let default = house.home().join(".claude/remote/rpc.sock");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let expected =
        format!("claustrum: listen unix: listen unix {}: bind: no such file or directory\n", default.display());
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    assert!(!house.home().join(".claude").exists(), "the directory was made");

    let ran = claustrum(&house, &["-bridge"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        format!("claustrum: dial server: dial unix {}: connect: no such file or directory\n", default.display())
    );
    let ran = claustrum(&house, &["-stop"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));

    fs::create_dir_all(default.parent().expect("a folder")).expect("the folder");
    let token = house.write_token();
    let mut command = house.command(&["-serve", "-token-file", path_text(&token)]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("the launcher runs").success());
    let mut client = Client::connect(&default, house.token()).expect("the default socket accepts");
    house.remember_daemon(client.server_pid());
    assert_eq!(client.ask("server.ping", "{}"), PONG);
    let mut command = house.command(&["-stop"]);
    command.env("CLAUDE_RPC_TOKEN", house.token());
    assert!(house::run(command).status.success());
    house.daemon().wait_gone(wait::LIMIT);
    assert!(!default.exists());
}

#[test]
fn an_outer_sessions_marker_does_not_confuse_the_launcher() {
    let house = House::start_with(Options {
        environment: vec![("CLAUDE_SSH_DAEMON_CHILD".to_owned(), "1".to_owned())],
        ..Options::default()
    });
    let daemon = procfs::stat(house.daemon().pid).expect("the daemon runs");
    assert_eq!(daemon.session, house.daemon().pid);
    let mut client = house.connect();
    client.spawn("env", "sh", &["-c", "echo $CLAUDE_SSH_DAEMON_CHILD; env | grep -c ^CLAUSTRUM_"]);
    assert_eq!(client.follow("env").stdout, b"1\n0\n");
}

#[test]
fn a_token_in_the_callers_environment_does_not_reach_children() {
    let house = House::start_with(Options {
        environment: vec![
            ("CLAUDE_RPC_TOKEN".to_owned(), "do-not-leak".to_owned()),
            ("KEPT".to_owned(), "yes".to_owned()),
        ],
        ..Options::default()
    });
    let mut client = house.connect();
    client.spawn("env", "sh", &["-c", "echo \"[$CLAUDE_RPC_TOKEN] $KEPT\""]);
    assert_eq!(client.follow("env").stdout, b"[] yes\n");
    let keeper = procfs::environment(house.keeper().pid);
    assert!(!keeper.keys().any(|name| name == "CLAUDE_RPC_TOKEN"), "the keeper carries the caller's token");
}

#[test]
fn two_daemons_on_two_sockets_do_not_meet() {
    let one = House::start();
    let two = House::start_with(Options { token: "another-token".to_owned(), ..Options::default() });
    let mut first = one.connect();
    first.spawn("mine", "cat", &[]);
    assert!(two.connect().reattach("mine", 0).contains(r#""found":false"#));
    assert_ne!(one.keeper().pid, two.keeper().pid);
}

#[test]
fn every_connection_is_logged() {
    let house = House::start();
    let mut client = house.connect();
    client.ask("server.ping", "{}");
    let line = house.wait_for_log("[Server] New connection from: @");
    assert!(has_log_prefix(&line, "INFO "), "{line}");
    drop(client);
    let line = house.wait_for_log("[Server] Connection closed: @");
    assert!(has_log_prefix(&line, "INFO "), "{line}");
    let mut client = house.connect();
    client.send_line(r#"{"jsonrpc":"2.0","id":7,"method":"server.ping"}"#);
    client.reply();
    let line = house.wait_for_log("[Server] Unauthorized request: method=server.ping, id=7");
    assert!(has_log_prefix(&line, "WARN "), "{line}");
    client.send_line(r#"{"jsonrpc":"2.0","method":"files.list"}"#);
    client.reply();
    let line = house.wait_for_log("[Server] Unauthorized request: method=files.list, id=");
    assert!(line.ends_with("id="), "{line}");
}

#[test]
fn starting_and_ending_a_process_is_logged() {
    let house = House::start();
    let mut client = house.connect();
    let pid = client.spawn_child("logged", &["exit", "3"]);
    client.follow("logged");
    let child = hostel_tests::binary::testchild();
    let line = house
        .wait_for_log(&format!("[process.Manager] Process logged started, PID={pid}, command={}", child.display()));
    assert!(has_log_prefix(&line, "INFO "), "{line}");
    let line = house.wait_for_log("[process.Manager] Process logged exited with code 3");
    assert!(has_log_prefix(&line, "INFO "), "{line}");
    client.call("process.spawn", r#"{"id":"failed","command":"/nowhere/at/all"}"#);
    let line = house.wait_for_log(
        "[process.Manager] Failed to start process failed: fork/exec /nowhere/at/all: no such file or directory",
    );
    assert!(has_log_prefix(&line, "ERROR"), "{line}");
}

/// `YYYY/MM/DD HH:MM:SS LEVEL message`.
fn has_log_prefix(line: &str, level: &str) -> bool {
    let shape: String =
        line.chars().take(20).map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    shape == "0000/00/00 00:00:00 " && line[20..].starts_with(&format!("{level} ["))
}

#[test]
fn the_log_level_can_be_raised() {
    let house = House::start_with(Options {
        environment: vec![("CLAUSTRUM_LOG_LEVEL".to_owned(), "error".to_owned())],
        ..Options::default()
    });
    let mut client = house.connect();
    client.spawn("quiet", "true", &[]);
    client.follow("quiet");
    client.call("process.spawn", r#"{"id":"loud","command":"/nowhere/at/all"}"#);
    house.wait_for_log("Failed to start process loud");
    assert!(!house.log().contains("New connection from"), "{}", house.log());
    assert!(!house.log().contains("Process quiet started"), "{}", house.log());
}

#[test]
fn the_house_is_the_owners_alone() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn("private", "echo", &["secret output"]);
    client.follow("private");
    let directory = house.house_directory();
    assert_eq!(fs::metadata(&directory).expect("the house").mode() & 0o777, 0o700);
    for entry in fs::read_dir(directory.join("journal")).expect("the journal").flatten() {
        let found = entry.metadata().expect("a file");
        if found.is_file() && entry.path().extension().is_some_and(|ending| ending == "j") {
            assert_eq!(found.mode() & 0o777, 0o600, "{}", entry.path().display());
        }
    }
    let name = directory.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.starts_with("claustrum-"), "{name}");
    // An error of the launcher on a house that is in use leaves the running daemon alone.
    let ran = Ran::from(house::run(house.command(&["-serve", "-socket", path_text(&house.socket())])));
    assert_eq!(ran.code, Some(1));
    assert_eq!(client.ask("server.ping", "{}"), PONG);
}
