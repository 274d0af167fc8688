//! The keeper over its raw socket, as a daemon of protocol version 1 speaks to it, and as one that
//! means no good does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use hostel_journal::ProcessId;
use hostel_keeper::proto::{Builder, Outcome, Role, Scope, Spawn, Welcome, kind, split, tag};
use support::raw::{Raw, spawn_of};
use support::{RawKeeper, limit};

#[test]
fn a_spawn_repeated_is_answered_again_and_starts_nothing() {
    let keeper = RawKeeper::start();
    let mut raw = Raw::connect(&keeper, Role::Controller);
    raw.until(kind::SYNCED);
    let id = ProcessId::random().unwrap();
    let request = spawn_of(id, "read x");
    raw.send(|out| request.encode(10, out));
    raw.send(|out| request.encode(11, out));
    let first = raw.until(kind::SPAWNED);
    let second = raw.until(kind::SPAWNED);
    assert_eq!((first.corr, second.corr), (10, 11));
    assert_eq!(first.bytes[16..], second.bytes[16..]);
    let mut again = Raw::connect(&keeper, Role::Observer);
    let state = again.until(kind::STATE);
    let (frame, _) = split(&state.bytes).unwrap().unwrap();
    assert_eq!(frame.array::<16>(tag::ID).unwrap(), id.0);
    again.until(kind::SYNCED);
}

#[test]
fn half_a_frame_of_a_daemon_that_died_is_dropped_and_whole_ones_are_applied() {
    let keeper = RawKeeper::start();
    let id = ProcessId::random().unwrap();
    {
        let mut raw = Raw::connect(&keeper, Role::Controller);
        raw.until(kind::SYNCED);
        raw.send(|out| spawn_of(id, "cat").encode(2, out));
        raw.until(kind::SPAWNED);
        let mut bytes = Vec::new();
        Builder::new(&mut bytes, kind::STDIN, 3).bytes(tag::ID, &id.0).bytes(tag::BYTES, b"whole").finish();
        let whole = bytes.len();
        Builder::new(&mut bytes, kind::STDIN, 4).bytes(tag::ID, &id.0).bytes(tag::BYTES, b"torn").finish();
        // Every cut through the second frame must leave exactly the first one applied; one is enough
        // here because the frame layer's own tests cut everywhere.
        raw.stream.write_all(&bytes[..whole + 9]).unwrap();
    }
    let mut next = Raw::connect(&keeper, Role::Controller);
    let state = next.until(kind::STATE);
    let (frame, _) = split(&state.bytes).unwrap().unwrap();
    assert_eq!(frame.u64(tag::APPLIED).unwrap(), 5);
}

#[test]
fn notes_go_to_the_present_controller_alone() {
    let keeper = RawKeeper::start();
    let mut older = Raw::connect(&keeper, Role::Controller);
    let welcome = older.until(kind::WELCOME);
    let stale = split(&welcome.bytes).unwrap().unwrap().0.array(tag::NOTES_KEY).unwrap();
    let mut newer = Raw::connect(&keeper, Role::Controller);
    newer.until(kind::SYNCED);
    for key in [Some(stale), None, Some([0; 16])] {
        Raw::connect_with(&keeper, Role::Notes, key).until(kind::ERROR);
    }
}

#[test]
fn an_observer_sees_and_changes_nothing() {
    let keeper = RawKeeper::start();
    let mut raw = Raw::connect(&keeper, Role::Observer);
    let welcome = raw.until(kind::WELCOME);
    assert_eq!(Welcome::decode(&split(&welcome.bytes).unwrap().unwrap().0).unwrap().pid, keeper.pid());
    raw.until(kind::SYNCED);
    raw.send(|out| spawn_of(ProcessId::random().unwrap(), "true").encode(5, out));
    assert_eq!(raw.until(kind::ERROR).corr, 5);
    raw.send(|out| Builder::new(out, kind::PING, 6).finish());
    assert_eq!(raw.until(kind::DONE).corr, 6);
}

#[test]
fn a_newer_controller_fences_the_older_after_applying_its_frames() {
    let keeper = RawKeeper::start();
    let mut older = Raw::connect(&keeper, Role::Controller);
    older.until(kind::SYNCED);
    let id = ProcessId::random().unwrap();
    older.send(|out| spawn_of(id, "cat").encode(2, out));
    older.until(kind::SPAWNED);
    older.send(|out| {
        for corr in 3..103 {
            Builder::new(out, kind::STDIN, corr).bytes(tag::ID, &id.0).bytes(tag::BYTES, b"0123456789").finish();
        }
    });
    let mut newer = Raw::connect(&keeper, Role::Controller);
    let state = newer.until(kind::STATE);
    assert_eq!(split(&state.bytes).unwrap().unwrap().0.u64(tag::APPLIED).unwrap(), 1000);
    older.until(kind::SUPERSEDED);
    assert!(older.next().is_none());
    newer.send(|out| {
        Builder::new(out, kind::SIGNAL, 9)
            .bytes(tag::ID, &id.0)
            .i32(tag::SIGNO, 9)
            .u32(tag::SCOPE, Scope::Group.to_wire())
            .finish();
    });
    let done = newer.until(kind::DONE);
    assert_eq!(split(&done.bytes).unwrap().unwrap().0.u32(tag::REACHED).unwrap(), 1);
}

#[test]
fn input_is_bounded_and_refused_not_lost() {
    let keeper = RawKeeper::start();
    let mut raw = Raw::connect(&keeper, Role::Controller);
    raw.until(kind::SYNCED);
    let id = ProcessId::random().unwrap();
    raw.send(|out| spawn_of(id, "exec sleep 1000").encode(2, out));
    raw.until(kind::SPAWNED);
    let chunk = vec![b'x'; 1 << 20];
    let mut full = false;
    for corr in 3..40 {
        raw.send(|out| Builder::new(out, kind::STDIN, corr).bytes(tag::ID, &id.0).bytes(tag::BYTES, &chunk).finish());
        let input = raw.until(kind::INPUT);
        let frame = split(&input.bytes).unwrap().unwrap().0;
        let outcome = Outcome::from_wire(frame.u32(tag::OUTCOME).unwrap()).unwrap();
        let applied = frame.u64(tag::APPLIED).unwrap();
        if outcome == Outcome::Full {
            assert!((16 << 20..=17 << 20).contains(&applied), "{applied}");
            full = true;
            break;
        }
        assert_eq!(outcome, Outcome::Accepted);
    }
    assert!(full);
}

#[test]
fn malformed_bytes_end_their_connection_and_nothing_else() {
    let keeper = RawKeeper::start();
    let good = Raw::connect(&keeper, Role::Observer);
    let mut garbage = vec![vec![0xff; 64], vec![1, 0, 0, 0, 9], vec![12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]];
    // A SPAWN whose field claims more bytes than there are.
    let mut lying = Vec::new();
    Builder::new(&mut lying, kind::HELLO, 1).bytes(tag::BUILD, b"x").finish();
    let at = lying.len() - 5;
    lying[at] = 200;
    garbage.push(lying);
    for bytes in garbage {
        let mut bad = UnixStream::connect(keeper.socket()).unwrap();
        bad.set_read_timeout(Some(limit())).unwrap();
        bad.write_all(&bytes).unwrap();
        bad.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        bad.read_to_end(&mut answer).unwrap_or_default();
        assert!(answer.is_empty(), "{answer:?}");
    }
    let mut good = good;
    good.until(kind::SYNCED);
    good.send(|out| Builder::new(out, kind::PING, 6).finish());
    assert_eq!(good.until(kind::DONE).corr, 6);
}

#[test]
fn a_hosted_process_may_not_talk_to_its_keeper() {
    let keeper = RawKeeper::start();
    let mut raw = Raw::connect(&keeper, Role::Controller);
    let welcome = raw.until(kind::WELCOME);
    let key = split(&welcome.bytes).unwrap().unwrap().0.array(tag::NOTES_KEY).unwrap();
    raw.until(kind::SYNCED);
    let mut notes = Raw::connect_with(&keeper, Role::Notes, Some(key));
    notes.until(kind::SYNCED);
    let id = ProcessId::random().unwrap();
    // The child connects and waits for the hang-up; one that is let in would be greeted or kept.
    let script = format!(
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(100)\ns.connect({:?})\nsys.exit(42 if s.recv(1)==b'' else 1)",
        keeper.socket().display().to_string()
    );
    let request = Spawn {
        program: b"/usr/bin/env".to_vec(),
        argv: [b"env".as_slice(), b"python3", b"-c", script.as_bytes()].map(<[u8]>::to_vec).to_vec(),
        env: vec![format!("PATH={}", std::env::var("PATH").unwrap()).into_bytes()],
        ..spawn_of(id, "")
    };
    raw.send(|out| request.encode(2, out));
    raw.until(kind::SPAWNED);
    loop {
        let note = notes.until(kind::NOTE);
        let frame = split(&note.bytes).unwrap().unwrap().0;
        if frame.find(tag::CODE).unwrap().is_some() {
            assert_eq!(frame.i32(tag::CODE).unwrap(), 42);
            return;
        }
    }
}
