//! Version 1 of the keeper's protocol, as recorded bytes.
//!
//! A daemon is newer than the keeper it finds, so what a version 1 keeper says must be understood
//! for ever, and what a version 1 daemon says must go on meaning the same. The recording is never
//! rewritten: a change of these bytes is a new version with a recording of its own. (It was made with
//! `HOSTEL_RECORD=1`, which refuses to overwrite.)
#![allow(clippy::unwrap_used)] // test code

use std::path::Path;

use hostel_journal::ProcessId;
use hostel_keeper::proto::{
    Builder, Frame, Held, Hello, Limits, Note, NoteExit, OnFull, Outcome, Phase, Role, Scope, Spawn, Stage, State,
    StdinKind, StopMode, Welcome, feature, kind, split, tag,
};

const ID: ProcessId = ProcessId([0xA5; 16]);

fn note(exit: Option<NoteExit>) -> Note {
    Note { id: ID, committed: 4096, next_seq: 17, held: Held::Disk, has_file: true, exit }
}

fn hello(role: Role) -> Hello {
    Hello {
        proto_min: 1,
        proto_max: 1,
        role,
        build: "0.1.0".into(),
        started: 5,
        notes_key: (role == Role::Notes).then_some([9; 16]),
    }
}

fn welcome() -> Welcome {
    Welcome {
        proto: 1,
        features: feature::MARKS | feature::UPGRADE | feature::SOCKET_STDIN | feature::DROP_OLDEST,
        keeper_id: [7; 16],
        pid: 4711,
        since_ns: 1_700_000_000_000_000_000,
        build: "0.1.0".into(),
        child_limit: 1000,
        cgroup: Some("/sys/fs/cgroup/hostel".into()),
        journal: (66, 1234),
        house_tag: "0123456789abcdef".into(),
        image_ns: 1_700_000_000_000_000_002,
        notes_key: Some([9; 16]),
        recognised: false,
    }
}

fn state() -> State {
    State {
        id: ID,
        label: br#"{"name":"a"}"#.to_vec(),
        command: b"sh -c true".to_vec(),
        pid: 4712,
        start_ns: 1_700_000_000_000_000_001,
        phase: Phase::Draining,
        note: note(None),
        applied: 10,
        written: 9,
    }
}

fn spawn() -> Spawn {
    Spawn {
        id: ID,
        label: br#"{"name":"a"}"#.to_vec(),
        program: b"/bin/sh".to_vec(),
        argv: vec![b"sh".to_vec(), b"-c".to_vec(), b"true".to_vec()],
        env: vec![b"A=1".to_vec(), b"B=".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o22,
        nofile: 1024,
        stdin: StdinKind::Socket,
        quota: 5,
        on_full: OnFull::DropOldest,
        terms: None,
        execute: None,
        owner: None,
    }
}

fn limits() -> Limits {
    Limits { total_quota: 1, process_quota: 2, floor: 3 }
}

const EXIT: NoteExit = NoteExit { code: -1, signal: 9, wall_ns: 42 };

/// Every message of version 1, by name.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let typed = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        out
    };
    let raw = |kind: u16, fields: &dyn Fn(Builder<'_>)| {
        let mut out = Vec::new();
        fields(Builder::new(&mut out, kind, 77));
        out
    };
    vec![
        ("hello controller", typed(&|out| hello(Role::Controller).encode(1, out))),
        ("hello notes", typed(&|out| hello(Role::Notes).encode(1, out))),
        ("hello observer", typed(&|out| hello(Role::Observer).encode(1, out))),
        ("welcome", typed(&|out| welcome().encode(1, out))),
        ("state", typed(&|out| state().encode(1, out))),
        ("synced", raw(kind::SYNCED, &|frame| frame.u32(tag::COUNT, 1).finish())),
        ("spawn", typed(&|out| spawn().encode(77, out))),
        ("spawned", raw(kind::SPAWNED, &|frame| frame.u32(tag::PID, 4712).u64(tag::START_NS, 99).finish())),
        (
            "failed",
            raw(kind::FAILED, &|frame| {
                frame.u32(tag::STAGE, Stage::Exec.to_wire()).i32(tag::ERRNO, 2).bytes(tag::TEXT, b"why").finish();
            }),
        ),
        (
            "stdin",
            raw(kind::STDIN, &|frame| {
                frame.bytes(tag::ID, &ID.0).bytes(tag::BYTES, b"hi").u64(tag::OFFSET, 8).u64(tag::MARK, 3).finish();
            }),
        ),
        (
            "input",
            raw(kind::INPUT, &|frame| {
                frame.u64(tag::APPLIED, 10).u32(tag::OUTCOME, Outcome::Duplicate.to_wire()).finish();
            }),
        ),
        ("close_stdin", raw(kind::CLOSE_STDIN, &|frame| frame.bytes(tag::ID, &ID.0).u64(tag::OFFSET, 10).finish())),
        (
            "signal",
            raw(kind::SIGNAL, &|frame| {
                frame.bytes(tag::ID, &ID.0).i32(tag::SIGNO, 15).u32(tag::SCOPE, Scope::Group.to_wire()).finish();
            }),
        ),
        ("done", raw(kind::DONE, &|frame| frame.u32(tag::REACHED, 1).finish())),
        ("forget", raw(kind::FORGET, &|frame| frame.bytes(tag::ID, &ID.0).finish())),
        ("limits", typed(&|out| limits().encode(77, out))),
        ("ping", raw(kind::PING, &|frame| frame.finish())),
        ("upgrade", raw(kind::UPGRADE, &|frame| frame.bytes(tag::PATH, b"/usr/bin/hostel").finish())),
        (
            "stop",
            raw(kind::STOP, &|frame| frame.u32(tag::MODE, StopMode::Kill.to_wire()).u64(tag::GRACE_MS, 2000).finish()),
        ),
        ("error", raw(kind::ERROR, &|frame| frame.bytes(tag::TEXT, b"unsupported").finish())),
        ("note running", typed(&|out| note(None).encode(out))),
        ("note exited", typed(&|out| note(Some(EXIT)).encode(out))),
        ("superseded", raw(kind::SUPERSEDED, &|frame| frame.finish())),
    ]
}

fn recording() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol_v1.hex");
    if std::env::var_os("HOSTEL_RECORD").is_some() && !path.exists() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let text: String = messages().iter().map(|(name, bytes)| format!("{name}: {}\n", hex(bytes))).collect();
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let (name, hex) = line.split_once(": ").unwrap();
            let digits: Vec<u8> = hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
            (name.to_owned(), digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        })
        .collect()
}

fn recorded<'a>(recording: &'a [(String, Vec<u8>)], name: &str) -> Frame<'a> {
    let bytes = &recording.iter().find(|(found, _)| found == name).unwrap().1;
    let (frame, length) = split(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    frame
}

#[test]
fn what_this_build_says_is_what_version_1_said() {
    let recording = recording();
    let said: Vec<(String, Vec<u8>)> = messages().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    assert_eq!(said, recording);
}

#[test]
fn what_version_1_said_is_understood() {
    let recording = recording();
    let frame = |name| recorded(&recording, name);
    assert_eq!(Hello::decode(&frame("hello controller")).unwrap(), hello(Role::Controller));
    assert_eq!(Hello::decode(&frame("hello notes")).unwrap(), hello(Role::Notes));
    assert_eq!(Welcome::decode(&frame("welcome")).unwrap(), welcome());
    assert_eq!(State::decode(&frame("state")).unwrap(), state());
    assert_eq!(Spawn::decode(&frame("spawn")).unwrap(), spawn());
    assert_eq!(Limits::decode(&frame("limits")).unwrap(), limits());
    assert_eq!(Note::decode(&frame("note running")).unwrap(), note(None));
    assert_eq!(Note::decode(&frame("note exited")).unwrap(), note(Some(EXIT)));
    let failed = frame("failed");
    assert_eq!((failed.kind, failed.corr), (kind::FAILED, 77));
    assert_eq!(Stage::from_wire(failed.u32(tag::STAGE).unwrap()).unwrap(), Stage::Exec);
    assert_eq!(failed.i32(tag::ERRNO).unwrap(), 2);
    let stdin = frame("stdin");
    assert_eq!(
        (stdin.maybe_u64(tag::OFFSET).unwrap(), stdin.maybe_u64(tag::MARK).unwrap(), stdin.bytes(tag::BYTES).unwrap()),
        (Some(8), Some(3), b"hi".as_slice())
    );
    assert_eq!(Outcome::from_wire(frame("input").u32(tag::OUTCOME).unwrap()).unwrap(), Outcome::Duplicate);
}

#[test]
fn a_field_from_the_future_is_skipped() {
    let mut bytes = Vec::new();
    Hello { proto_min: 1, proto_max: 9, role: Role::Observer, build: "9.9".into(), started: 0, notes_key: None }
        .encode(1, &mut bytes);
    let extra: [u8; 9] = [0xff, 0x7f, 3, 0, 0, 0, b'n', b'e', b'w'];
    bytes.extend_from_slice(&extra);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let (frame, _) = split(&bytes).unwrap().unwrap();
    assert_eq!(Hello::decode(&frame).unwrap().proto_max, 9);
}
