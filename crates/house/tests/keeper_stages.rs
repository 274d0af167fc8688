//! Stages of pipelines over the keeper's raw socket: held output, pins, bounds, and what a keeper of before makes of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use hostel_house::pipelines::RunError;
use hostel_journal::ProcessId;
use hostel_keeper::proto::{
    Builder, DecodeError, Hello, Pin, PipelineTerms, Role, Spawn, Stage, StdinKind, Welcome, feature, kind, split, tag,
};
use support::pipelines::{Place, ask};
use support::raw::{Owned, Raw, spawn_of};
use support::{RawKeeper, until, within};

const TERMS: PipelineTerms = PipelineTerms {
    stdin_from: None,
    holds_stdout: false,
    keep_bytes: 0,
    drain_ms: 250,
    own_cgroup: false,
    limit_tag: 0,
    pin: None,
    only_if_known: false,
};

fn stage(script: &str, terms: PipelineTerms) -> Spawn {
    let id = ProcessId::random().unwrap();
    let stdin = if terms.stdin_from.is_some() { StdinKind::From } else { StdinKind::Null };
    Spawn { stdin, terms: Some(terms), ..spawn_of(id, script) }
}

fn controller(keeper: &RawKeeper) -> (Raw, Raw) {
    let mut raw = Raw::connect(keeper, Role::Controller);
    let key = raw.until(kind::WELCOME).frame().array(tag::NOTES_KEY).unwrap();
    raw.until(kind::SYNCED);
    let mut notes = Raw::connect_with(keeper, Role::Notes, Some(key));
    notes.until(kind::SYNCED);
    (raw, notes)
}

fn spawn(raw: &mut Raw, request: &Spawn) -> Result<(), (Stage, i32)> {
    raw.send(|out| request.encode(9, out));
    loop {
        let answer = raw.next().expect("hung up");
        let frame = answer.frame();
        match frame.kind {
            kind::SPAWNED => return Ok(()),
            kind::FAILED => {
                let stage = Stage::from_wire(frame.u32(tag::STAGE).unwrap()).unwrap();
                return Err((stage, frame.i32(tag::ERRNO).unwrap()));
            }
            _ => {}
        }
    }
}

fn exit_of(notes: &mut Raw, id: ProcessId) -> (i32, i32) {
    loop {
        let note: Owned = notes.until(kind::NOTE);
        let frame = note.frame();
        if frame.array::<16>(tag::ID).unwrap() == id.0 && frame.find(tag::CODE).unwrap().is_some() {
            return (frame.i32(tag::CODE).unwrap(), frame.i32(tag::EXIT_SIGNAL).unwrap());
        }
    }
}

#[test]
fn held_output_is_read_by_one_process_and_survives_an_upgrade() {
    let keeper = RawKeeper::start();
    let (mut raw, _) = controller(&keeper);
    let heard = keeper.path().join("heard");
    let producer = stage("seq 50000", PipelineTerms { holds_stdout: true, ..TERMS });
    spawn(&mut raw, &producer).unwrap();
    raw.upgrade(&support::opened(&support::keeper_program()));
    raw.until(kind::DONE);
    assert!(raw.next().is_none(), "the older image lets go");
    let (mut raw, mut notes) = controller(&keeper);
    let terms = PipelineTerms { stdin_from: Some(producer.id), ..TERMS };
    let taker = stage(&format!("exec cat > {}", heard.display()), terms);
    spawn(&mut raw, &taker).unwrap();
    assert_eq!(exit_of(&mut notes, taker.id), (0, 0));
    let expected: String = (1..=50000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&heard).unwrap(), expected);
    let late = stage("cat", terms);
    let (stage_of_failure, _) = spawn(&mut raw, &late).unwrap_err();
    assert_eq!(stage_of_failure, Stage::Setup, "it was taken");
    // Known ones are answered again, without a second look at what they read from.
    spawn(&mut raw, &taker).unwrap();
}

#[test]
fn a_reader_that_cannot_start_frees_the_writer() {
    let keeper = RawKeeper::start();
    let (mut raw, mut notes) = controller(&keeper);
    let producer = stage("exec yes", PipelineTerms { holds_stdout: true, ..TERMS });
    spawn(&mut raw, &producer).unwrap();
    let terms = PipelineTerms { stdin_from: Some(producer.id), ..TERMS };
    let taker = Spawn { program: b"/no/such/program".to_vec(), ..stage("", terms) };
    assert_eq!(spawn(&mut raw, &taker), Err((Stage::Exec, 2)));
    assert_eq!(exit_of(&mut notes, producer.id), (-1, 13));
}

#[test]
fn what_is_asked_for_only_if_known_is_never_started() {
    let keeper = RawKeeper::start();
    let (mut raw, mut notes) = controller(&keeper);
    let witness = keeper.path().join("witness");
    let script = format!("touch {}", witness.display());
    let asked = stage(&script, PipelineTerms { only_if_known: true, ..TERMS });
    assert_eq!(spawn(&mut raw, &asked), Err((Stage::Unknown, 0)));
    assert!(!witness.exists());
    let started = Spawn { terms: Some(TERMS), ..asked.clone() };
    spawn(&mut raw, &started).unwrap();
    spawn(&mut raw, &asked).expect("now it is known");
    assert_eq!(exit_of(&mut notes, started.id), (0, 0));
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_not_executed() {
    let keeper = RawKeeper::start();
    let (mut raw, mut notes) = controller(&keeper);
    let metadata = std::fs::metadata("/bin/sh").unwrap();
    let good = Pin {
        dev: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
        ctime_ns: metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(),
    };
    let pinned = stage("exit 7", PipelineTerms { pin: Some(good), ..TERMS });
    spawn(&mut raw, &pinned).unwrap();
    assert_eq!(exit_of(&mut notes, pinned.id), (7, 0));
    let wrong = [
        Pin { dev: good.dev + 1, ..good },
        Pin { inode: good.inode + 1, ..good },
        Pin { size: good.size + 1, ..good },
        Pin { mtime_ns: good.mtime_ns + 1, ..good },
        Pin { ctime_ns: good.ctime_ns - 1, ..good },
    ];
    for pin in wrong {
        let (stage, _) = spawn(&mut raw, &stage("exit 7", PipelineTerms { pin: Some(pin), ..TERMS })).unwrap_err();
        assert_eq!(stage, Stage::Changed, "{pin:?}");
    }
    let missing = stage("", PipelineTerms { pin: Some(good), ..TERMS });
    let missing = Spawn { program: b"/no/such/program".to_vec(), ..missing };
    assert_eq!(spawn(&mut raw, &missing), Err((Stage::Exec, 2)), "the kernel says it in its own words");
}

#[test]
fn input_that_comes_from_nowhere_and_odd_terms_are_refused() {
    let keeper = RawKeeper::start();
    let (mut raw, _) = controller(&keeper);
    for from in [None, Some(ProcessId([7; 16]))] {
        let request = Spawn { stdin: StdinKind::From, ..stage("cat", PipelineTerms { stdin_from: from, ..TERMS }) };
        assert_eq!(spawn(&mut raw, &request).unwrap_err().0, Stage::Setup);
    }
    // Terms with a part missing, or with a flag that is neither, are no terms.
    let mut bytes = Vec::new();
    Builder::new(&mut bytes, kind::SPAWN, 1)
        .bytes(tag::ID, &[1; 16])
        .bytes(tag::LABEL, b"")
        .bytes(tag::PROGRAM, b"/bin/true")
        .bytes(tag::CWD, b"/")
        .u32(tag::HOLDS_STDOUT, 2)
        .finish();
    let (frame, _) = split(&bytes).unwrap().unwrap();
    assert_eq!(Spawn::decode(&frame), Err(DecodeError::BadValue(tag::HOLDS_STDOUT)));
    raw.stream.write_all(&bytes).unwrap();
    assert!(raw.next().is_none(), "and whoever sends them is let go");
    assert!(keeper.pid() > 0, "nothing else happens");
}

/// A keeper of before: greets without knowing pipelines and forgets whom it greets.
fn old_keeper(place: &Place) -> std::thread::JoinHandle<Vec<u16>> {
    let listener = UnixListener::bind(place.options().run_dir.join(hostel_keeper::SOCKET_NAME)).unwrap();
    let journal = std::fs::metadata(place.options().journal_dir).unwrap();
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        let greet = |stream: &mut std::os::unix::net::UnixStream| {
            let mut input = Vec::new();
            let role = loop {
                if let Some((frame, _)) = split(&input).unwrap() {
                    break Hello::decode(&frame).unwrap().role;
                }
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).unwrap();
                input.extend_from_slice(&chunk[..count]);
            };
            let welcome = Welcome {
                proto: 1,
                features: feature::MARKS | feature::UPGRADE | feature::SOCKET_STDIN | feature::DROP_OLDEST,
                keeper_id: [7; 16],
                pid: std::process::id(),
                since_ns: 1,
                build: "0.0.9".into(),
                child_limit: 10,
                cgroup: None,
                journal: (journal.dev(), journal.ino()),
                house_tag: "0123456789abcdef".into(),
                image_ns: 1,
                notes_key: (role == Role::Controller).then_some([9; 16]),
                recognised: false,
            };
            let mut out = Vec::new();
            welcome.encode(1, &mut out);
            Builder::new(&mut out, kind::SYNCED, 1).u32(tag::COUNT, 0).finish();
            stream.write_all(&out).unwrap();
        };
        let (mut control, _) = listener.accept().unwrap();
        greet(&mut control);
        let (mut notes, _) = listener.accept().unwrap();
        greet(&mut notes);
        let mut input = Vec::new();
        loop {
            while let Some((frame, length)) = split(&input).unwrap() {
                asked.push(frame.kind);
                let mut out = Vec::new();
                Builder::new(&mut out, kind::DONE, frame.corr).finish();
                let is_last = frame.kind == kind::PING || frame.kind == kind::STOP;
                control.write_all(&out).unwrap();
                input.drain(..length);
                if is_last {
                    return asked;
                }
            }
            let mut chunk = [0; 4096];
            match control.read(&mut chunk) {
                Ok(0) | Err(_) => return asked,
                Ok(count) => input.extend_from_slice(&chunk[..count]),
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_of_before_is_recognised_and_nothing_is_asked_of_it() {
    let place = Place::new();
    let keeper = old_keeper(&place);
    let house = place.open().await;
    let run = house.start(ask(&[&["true"]])).await;
    let error = within("the end of the pipeline", run.clone().finished()).await.unwrap_err();
    let RunError::NotRun(why) = error else { panic!("{error:?}") };
    assert!(why.contains("hostel keeper upgrade"), "{why}");
    house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    until("it has left", async || keeper.is_finished(), |finished| *finished).await;
    let asked = keeper.join().unwrap();
    assert!(!asked.contains(&kind::SPAWN), "{asked:?}");
}
