//! Graceful ends: who dies, who stays, what is left on the disk.

use hostel_tests::client::Client;
use hostel_tests::frames::Transcript;
use hostel_tests::house::{House, Options, path_text};
use hostel_tests::procfs::{self, Identity};
use hostel_tests::wait;
use rustix::process::Signal;

/// A tree of three: the leader, a child in its group, and one that escaped into its own session.
fn plant_tree(house: &House, client: &mut Client, name: &str) -> Vec<Identity> {
    let pid_file = house.path().join(format!("{name}.pid"));
    let child = hostel_tests::binary::testchild();
    let text = format!("sleep 300 & {} daemonize {}", child.display(), path_text(&pid_file));
    let leader = client.spawn_shell(name, &text);
    let escaped = wait::eventually("the escaped process", || {
        Identity::of(std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok()?)
    });
    let mut tree = procfs::descendants(leader);
    tree.extend(Identity::of(leader));
    tree.push(escaped);
    assert!(tree.len() >= 4, "{tree:?}");
    tree
}

/// Ends the daemon in one of the three graceful ways.
fn end_gracefully(house: &House, way: &str) {
    match way {
        "rpc" => {
            let mut client = house.connect();
            client.begin("server.shutdown", "{}");
            client.try_closed(wait::limit()).expect("the connection closes without an answer");
        }
        "TERM" => house.daemon().signal(Signal::TERM),
        _ => house.daemon().signal(Signal::INT),
    }
    house.daemon().wait_gone(wait::LIMIT);
}

#[test]
fn every_graceful_end_takes_the_whole_tree() {
    for way in ["rpc", "TERM", "INT"] {
        let house = House::start();
        let mut client = house.connect();
        let tree = plant_tree(&house, &mut client, "tree");
        end_gracefully(&house, way);
        for process in tree {
            process.wait_gone(wait::LIMIT);
        }
        assert!(!house.socket().exists(), "{way}: the socket was left behind");
    }
}

#[test]
fn a_child_that_ignores_signals_dies_too() {
    let house = House::start();
    let mut client = house.connect();
    let pid = client.spawn_shell("stubborn", "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done");
    let mut transcript = Transcript::default();
    client.follow_until("stubborn", &mut transcript, |so_far| so_far.stdout == b"ready\n");
    let stubborn = Identity::of(pid).expect("it runs");
    end_gracefully(&house, "rpc");
    stubborn.wait_gone(wait::LIMIT);
}

#[test]
fn a_graceful_end_closes_every_connection() {
    let house = House::start();
    let mut idle = house.connect();
    idle.ask("server.ping", "{}");
    end_gracefully(&house, "TERM");
    idle.try_closed(wait::limit()).expect("an idle connection is closed");
}

#[test]
fn with_keep_children_the_tree_lives_on_and_the_line_says_so() {
    for way in ["rpc", "TERM"] {
        let mut house = House::start_with(Options { flags: vec!["-keep-children".to_owned()], ..Options::default() });
        let mut client = house.connect();
        let pid = client.spawn_shell("kept", "echo before; read x; echo after; exit 5");
        let mut transcript = Transcript::default();
        client.follow_until("kept", &mut transcript, |so_far| so_far.stdout == b"before\n");
        client.spawn("done", "true", &[]);
        client.follow("done");
        let kept = Identity::of(pid).expect("it runs");
        let first = house.daemon();
        end_gracefully(&house, way);
        house.wait_for_log("[Server] -keep-children: leaving 1 running child process(es) alive across shutdown");
        assert!(kept.alive(), "{way}: the child was killed");
        assert!(!house.socket().exists(), "{way}: the socket was left behind");

        // The next daemon on that socket takes it over: its pid, its output, its input.
        house.serve();
        assert_ne!(house.daemon(), first);
        let mut client = house.connect();
        let result = client.ask("process.reattach", r#"{"id":"kept","fromSeq":0,"wantPid":true}"#);
        assert!(
            result.starts_with(r#"{"found":true,"running":true,"firstSeq":1,"lastSeq":1,"stdinApplied":0,"#),
            "{result}"
        );
        assert!(result.contains(&format!(r#""pid":{pid},"#)), "{result}");
        let reply = client.stdin("kept", Some(0), b"\n");
        assert!(reply.ends_with(r#""result":{"success":true,"applied":1}}"#), "{reply}");
        let transcript = client.follow("kept");
        assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"before\nafter\n"[..], Some(5)), "{way}");
    }
}

#[test]
fn a_child_that_ends_while_no_daemon_runs_is_told_to_the_next() {
    let mut house = House::start_with(Options { flags: vec!["-keep-children".to_owned()], ..Options::default() });
    let mut client = house.connect();
    let go = house.path().join("go");
    let pid = client
        .spawn_shell("later", &format!("while [ ! -e {} ]; do sleep 0.02; done; echo late; exit 6", go.display()));
    let child = Identity::of(pid).expect("it runs");
    end_gracefully(&house, "TERM");
    std::fs::write(&go, "").expect("the mark");
    child.wait_gone(wait::LIMIT);
    house.serve();
    let mut client = house.connect();
    client.reattach("later", 0);
    let transcript = client.follow("later");
    assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"late\n"[..], Some(6)));
}

#[test]
fn after_a_graceful_end_the_next_daemon_starts_afresh() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn("gone", "cat", &[]);
    end_gracefully(&house, "rpc");
    house.serve();
    let mut client = house.connect();
    assert_eq!(client.ask("server.ping", "{}"), r#"{"pong":true}"#);
    let result = client.reattach("gone", 0);
    assert!(result.contains(r#""running":false"#), "{result}");
    let mut client = house.connect();
    client.spawn("gone", "echo", &["new"]);
    let transcript = client.follow("gone");
    assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"new\n"[..], Some(0)));
}

#[test]
fn the_end_of_one_daemon_does_not_take_its_successors_socket() {
    // A second daemon takes the path over; the end of the first must leave it alone.
    let mut house = House::start();
    let first = house.daemon();
    house.serve();
    let second = house.daemon();
    if first == second {
        // The second launcher found the house in use and left it: nothing to lose.
        assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
        return;
    }
    first.signal(Signal::TERM);
    first.wait_gone(wait::LIMIT);
    assert!(house.socket().exists(), "the successor's socket was removed");
    assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
}
