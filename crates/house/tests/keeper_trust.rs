//! Whom the keeper trusts: descriptors, owned inputs, the house key, upgrades, and programs that are not its daemon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hostel_house::processes::{Processes, SpawnSpec, StdinError};
use hostel_journal::ProcessId;
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{Builder, Execute, Hello, MAX_DESCRIPTORS, Outcome, Role, Spawn, Stage, kind, split, tag};
use rustix::process::{Pid, Signal};
use support::raw::{Owned, Raw, spawn_of};
use support::{RawKeeper, TestHouse, hear, install, keeper_program, opened, shell, until, within};

const TOKEN: [u8; 32] = [0x3C; 32];

fn controller(keeper: &RawKeeper) -> Raw {
    let mut raw = Raw::connect(keeper, Role::Controller);
    raw.until(kind::SYNCED);
    raw
}

fn owned(id: ProcessId, script: &str) -> Spawn {
    Spawn { owner: Some(OwnerToken::from_bytes(TOKEN)), ..spawn_of(id, script) }
}

fn input(out: &mut Vec<u8>, kind: u16, id: ProcessId, bytes: &[u8], token: Option<&[u8]>) {
    let mut builder = Builder::new(out, kind, 5).bytes(tag::ID, &id.0).bytes(tag::BYTES, bytes);
    if let Some(token) = token {
        builder = builder.bytes(tag::OWNER, token);
    }
    builder.finish();
}

/// Offers input, or the end of it, and says what became of it.
fn offer(raw: &mut Raw, kind_of_input: u16, id: ProcessId, bytes: &[u8], token: Option<&[u8]>) -> (Outcome, u64) {
    raw.send(|out| input(out, kind_of_input, id, bytes, token));
    let answer = raw.until(kind::INPUT);
    let frame = answer.frame();
    (Outcome::from_wire(frame.u32(tag::OUTCOME).unwrap()).unwrap(), frame.u64(tag::APPLIED).unwrap())
}

fn key_of(raw: &mut Raw) -> [u8; 32] {
    raw.send(|out| Builder::new(out, kind::HOUSE_KEY, 6).finish());
    raw.until(kind::KEY).frame().array(tag::KEY).unwrap()
}

fn text_of(error: &Owned) -> String {
    String::from_utf8(error.frame().bytes(tag::TEXT).unwrap().to_vec()).unwrap()
}

/// Waits until nobody holds the other end of a pipe any more.
fn assert_closed(mut reader: std::io::PipeReader, what: &str) {
    let mut polled = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec::try_from(support::limit()).unwrap();
    assert_eq!(rustix::event::poll(&mut polled, Some(&limit)), Ok(1), "{what}: the descriptor is still held");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{what}");
}

#[test]
fn a_process_is_executed_from_the_file_that_was_opened() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let tool = keeper.path().join("tool");
    std::fs::copy("/bin/cat", &tool).unwrap();
    let file = opened(&tool);
    std::fs::remove_file(&tool).unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho swapped > /dev/null\n").unwrap();
    let id = ProcessId::random().unwrap();
    let request = Spawn {
        program: tool.as_os_str().as_encoded_bytes().to_vec(),
        argv: vec![b"cat".to_vec()],
        execute: Some(Execute::Program),
        ..spawn_of(id, "")
    };
    raw.send_with(&[file.as_fd()], |out| request.encode(2, out));
    let pid = raw.until(kind::SPAWNED).frame().u32(tag::PID).unwrap();
    // What runs is the file that the name does not lead to any more.
    let name = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert_eq!(name, Path::new(&format!("{} (deleted)", tool.display())));
    // Asked again, it is answered again, and the descriptor that came along is closed.
    let (reader, writer) = std::io::pipe().unwrap();
    raw.send_with(&[writer.as_fd()], |out| request.encode(3, out));
    assert_eq!(raw.until(kind::SPAWNED).frame().u32(tag::PID).unwrap(), pid);
    drop(writer);
    assert_closed(reader, "a repeated spawn");
}

#[test]
fn a_script_is_executed_from_a_sealed_copy() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let heard = keeper.path().join("heard");
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let mut copy = std::fs::File::from(rustix::fs::memfd_create("script", flags).unwrap());
    write!(copy, "#!/bin/sh\necho \"$0 $1\" > {}\nexec cat\n", heard.display()).unwrap();
    let seals = rustix::fs::SealFlags::WRITE | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::SHRINK;
    rustix::fs::fcntl_add_seals(&copy, seals).unwrap();
    let request = |execute| Spawn {
        program: b"/shown/only".to_vec(),
        argv: vec![b"script".to_vec(), b"word".to_vec()],
        execute: Some(execute),
        ..spawn_of(ProcessId::random().unwrap(), "")
    };
    raw.send_with(&[copy.as_fd()], |out| request(Execute::Script).encode(2, out));
    raw.until(kind::SPAWNED);
    support::block_on(until(
        "it printed",
        async || std::fs::read_to_string(&heard).unwrap_or_default(),
        |text| text == "/dev/fd/4 word\n",
    ));
    raw.send_with(&[copy.as_fd()], |out| request(Execute::Program).encode(3, out));
    let failed = raw.until(kind::FAILED);
    assert_eq!(Stage::from_wire(failed.frame().u32(tag::STAGE).unwrap()).unwrap(), Stage::Exec);
}

#[test]
fn descriptors_that_no_frame_names_are_closed() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let ping = |raw: &mut Raw, descriptors: &[BorrowedFd<'_>], named: u32| {
        raw.send_with(descriptors, |out| {
            let builder = Builder::new(out, kind::PING, 7);
            if named > 0 { builder.u32(tag::DESCRIPTORS, named).finish() } else { builder.finish() }
        });
    };
    for named in [0, 1] {
        let (reader, writer) = std::io::pipe().unwrap();
        ping(&mut raw, &[writer.as_fd()], named);
        raw.until(kind::DONE);
        drop(writer);
        assert_closed(reader, "a frame that has no use for it");
    }
    // Many in a row fill nothing up.
    for _ in 0..200 {
        let (_reader, writer) = std::io::pipe().unwrap();
        ping(&mut raw, &[writer.as_fd(); MAX_DESCRIPTORS], 0);
        raw.until(kind::DONE);
    }
    // With half a frame they wait for the rest of it; they go with the connection.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut half = controller(&keeper);
    half.send_with(&[writer.as_fd()], |out| {
        Builder::new(out, kind::PING, 7).finish();
        out.truncate(9);
    });
    drop(writer);
    drop(half);
    assert_closed(reader, "half a frame");
}

#[test]
fn frames_that_lie_about_their_descriptors_end_their_connection() {
    let keeper = RawKeeper::start();
    let file = opened(Path::new("/bin/true"));
    let request = Spawn { execute: Some(Execute::Program), ..spawn_of(ProcessId::random().unwrap(), "") };
    let mut none = controller(&keeper);
    none.send(|out| request.encode(2, out));
    assert!(none.next().is_none(), "it was named and did not come");
    let mut many = controller(&keeper);
    many.send_with(&[file.as_fd(); MAX_DESCRIPTORS + 1], |out| Builder::new(out, kind::PING, 7).finish());
    assert!(many.next().is_none(), "more than a frame may carry");
    let mut observer = Raw::connect(&keeper, Role::Observer);
    observer.until(kind::SYNCED);
    observer.send_with(&[file.as_fd()], |out| Builder::new(out, kind::PING, 7).finish());
    assert!(observer.next().is_none(), "only the daemon has a reason");
    controller(&keeper);
}

#[test]
fn owned_input_takes_the_owners_token_and_nothing_else() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let id = ProcessId::random().unwrap();
    raw.send(|out| owned(id, "exec cat").encode(2, out));
    raw.until(kind::SPAWNED);
    let wrong = [Some([0x3D; 32].as_slice()), Some(&TOKEN[..31]), Some(&[]), None];
    let refuse_all = |raw: &mut Raw, applied: u64| {
        for token in wrong {
            assert_eq!(offer(raw, kind::STDIN, id, b"yes\n", token), (Outcome::Owned, applied));
            assert_eq!(offer(raw, kind::CLOSE_STDIN, id, b"", token), (Outcome::Owned, applied));
        }
    };
    refuse_all(&mut raw, 0);
    assert_eq!(offer(&mut raw, kind::STDIN, id, b"one\n", Some(&TOKEN)), (Outcome::Accepted, 4));
    // Another daemon in charge, and another image of the keeper, ask for the same token.
    let mut raw = controller(&keeper);
    refuse_all(&mut raw, 4);
    raw.upgrade(&opened(&keeper_program()));
    raw.until(kind::DONE);
    assert!(raw.next().is_none());
    let mut raw = controller(&keeper);
    refuse_all(&mut raw, 4);
    assert_eq!(offer(&mut raw, kind::STDIN, id, b"two\n", Some(&TOKEN)), (Outcome::Accepted, 8));
    assert_eq!(offer(&mut raw, kind::CLOSE_STDIN, id, b"", Some(&TOKEN)), (Outcome::Accepted, 8));
    // Signals stay free: whoever controls the keeper may end a process.
    let ordinary = ProcessId::random().unwrap();
    raw.send(|out| spawn_of(ordinary, "exec cat").encode(3, out));
    raw.until(kind::SPAWNED);
    assert_eq!(offer(&mut raw, kind::STDIN, ordinary, b"x", Some(&TOKEN)), (Outcome::Accepted, 1));
}

#[test]
fn the_house_key_stays_over_upgrades_and_belongs_to_one_keeper() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let key = key_of(&mut raw);
    assert_ne!(key, [0; 32]);
    for _ in 0..3 {
        raw.upgrade(&opened(&keeper_program()));
        raw.until(kind::DONE);
        assert!(raw.next().is_none());
        raw = controller(&keeper);
        assert_eq!(key_of(&mut raw), key);
    }
    assert_ne!(key_of(&mut controller(&RawKeeper::start())), key);
    let mut observer = Raw::connect(&keeper, Role::Observer);
    observer.until(kind::SYNCED);
    observer.send(|out| Builder::new(out, kind::HOUSE_KEY, 6).finish());
    assert_eq!(text_of(&observer.until(kind::ERROR)), "unsupported");
}

#[test]
fn an_upgrade_takes_no_path_and_no_other_program() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let program = keeper_program();
    raw.send(|out| {
        Builder::new(out, kind::UPGRADE, 3).bytes(tag::PATH, program.as_os_str().as_encoded_bytes()).finish();
    });
    let refused = text_of(&raw.until(kind::ERROR));
    assert!(refused.contains("as a descriptor, not as a path"), "{refused}");
    let copy = keeper.path().join("copy");
    std::fs::copy(&program, &copy).unwrap();
    raw.upgrade(&opened(&copy));
    let refused = text_of(&raw.until(kind::ERROR));
    assert!(refused.contains("neither the keeper's own file nor the one installed in its place"), "{refused}");
    raw.upgrade(&opened(&program));
    raw.until(kind::DONE);
}

/// Sends bytes from a process whose program is not the keeper's daemon, and returns all that it is told.
fn ask_as_stranger(keeper: &RawKeeper, bytes: &[u8]) -> Vec<Owned> {
    const SCRIPT: &str = "import socket,sys\n\
        s=socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(sys.stdin.buffer.read())\n\
        s.shutdown(socket.SHUT_WR)\n\
        while (b:=s.recv(65536)): sys.stdout.buffer.write(b)\n";
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(keeper.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(bytes).unwrap();
    let said = python.wait_with_output().unwrap().stdout;
    let (mut frames, mut rest) = (Vec::new(), said.as_slice());
    while let Some((frame, length)) = split(rest).unwrap() {
        frames.push(Owned { kind: frame.kind, corr: frame.corr, bytes: rest[..length].to_vec() });
        rest = &rest[length..];
    }
    frames
}

fn hello_as_controller(started: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Hello { proto_min: 1, proto_max: 1, role: Role::Controller, build: "x".into(), started, notes_key: None }
        .encode(1, &mut out);
    out
}

#[test]
fn a_program_that_is_not_the_daemon_does_not_take_its_place() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let told = ask_as_stranger(&keeper, &hello_as_controller(u64::MAX));
    assert_eq!(told.iter().map(|frame| frame.kind).collect::<Vec<_>>(), [kind::ERROR]);
    assert!(text_of(&told[0]).contains("this program is not it"), "{}", text_of(&told[0]));
    raw.send(|out| Builder::new(out, kind::PING, 8).finish());
    assert_eq!(raw.until(kind::DONE).corr, 8, "the daemon is still in charge");
}

#[test]
fn without_a_daemon_another_program_manages_processes_and_learns_no_secret() {
    let keeper = RawKeeper::start();
    let id = ProcessId::random().unwrap();
    let mut raw = controller(&keeper);
    raw.send(|out| owned(id, "exec cat").encode(2, out));
    raw.until(kind::SPAWNED);
    let key = key_of(&mut raw);
    drop(raw);
    let mut asked = hello_as_controller(u64::MAX);
    Builder::new(&mut asked, kind::HOUSE_KEY, 6).finish();
    input(&mut asked, kind::STDIN, id, b"yes\n", None);
    Builder::new(&mut asked, kind::UPGRADE, 7).bytes(tag::PATH, b"/bin/true").finish();
    spawn_of(ProcessId::random().unwrap(), "true").encode(9, &mut asked);
    // The keeper may not have heard yet that the other connection ended.
    let told = std::iter::repeat_with(|| ask_as_stranger(&keeper, &asked)).find(|told| told.len() > 1).unwrap();
    let one = |kind: u16, corr: u64| told.iter().find(|frame| (frame.kind, frame.corr) == (kind, corr)).unwrap();
    assert!(one(kind::WELCOME, 1).frame().find(tag::RECOGNISED).unwrap().is_none());
    assert!(text_of(one(kind::ERROR, 6)).contains("recognises"));
    assert_eq!(one(kind::INPUT, 5).frame().u32(tag::OUTCOME).unwrap(), Outcome::Owned.to_wire());
    assert!(text_of(one(kind::ERROR, 7)).contains("descriptor"));
    let everything: Vec<u8> = told.iter().flat_map(|frame| frame.bytes.clone()).collect();
    assert!(!everything.windows(key.len()).any(|window| window == key));
    // The time it claimed does not keep the daemon out.
    let mut raw = controller(&keeper);
    assert_eq!(key_of(&mut raw), key);
    assert_eq!(offer(&mut raw, kind::STDIN, id, b"no\n", Some(&TOKEN)), (Outcome::Accepted, 3));
}

/// A daemon that a tracer watches could be made to tell what it knows.
#[test]
fn a_daemon_that_is_being_traced_is_not_recognised() {
    let keeper = RawKeeper::start();
    let has_strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !has_strace {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let traced = Command::new("strace")
        .args(["-f", "-o", "/dev/null"])
        .arg(own)
        .args(["--exact", "keeper_trust::greets_the_keeper_it_is_told_of", "--nocapture"])
        .env("KEEPER_TO_GREET", keeper.socket())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&traced.stdout).into_owned() + &String::from_utf8_lossy(&traced.stderr);
    assert!(said.contains("recognised: false"), "{said}");
    let direct = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "keeper_trust::greets_the_keeper_it_is_told_of", "--nocapture"])
        .env("KEEPER_TO_GREET", keeper.socket())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&direct.stdout).into_owned() + &String::from_utf8_lossy(&direct.stderr);
    assert!(said.contains("recognised: true"), "{said}");
}

/// Run by other tests as a program of its own; by itself it does nothing.
#[test]
fn greets_the_keeper_it_is_told_of() {
    let Some(socket) = std::env::var_os("KEEPER_TO_GREET") else { return };
    let mut raw = Raw::connect_to(Path::new(&socket), Role::Controller, None);
    let answer = raw.next().expect("an answer");
    let recognised = answer.kind == kind::WELCOME && answer.frame().find(tag::RECOGNISED).unwrap().is_some();
    println!("recognised: {recognised}");
}

/// What the daemon itself starts, a git with a repository's own programs for example, is not the daemon.
#[test]
fn a_child_of_the_daemon_is_not_the_daemon() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "keeper_trust::greets_the_keeper_it_is_told_of", "--nocapture"])
        .env("KEEPER_TO_GREET", keeper.socket())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("recognised: false"), "{said}");
    raw.send(|out| Builder::new(out, kind::PING, 8).finish());
    assert_eq!(raw.until(kind::DONE).corr, 8, "the daemon is still in charge");
}

fn owned_shell(name: &str, script: &str) -> SpawnSpec {
    SpawnSpec { owned_input: true, ..shell(name, script) }
}

fn key_id(processes: &Processes) -> [u8; 8] {
    processes.house_key().expect("the keeper recognises this process").id()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_writes_to_an_owned_process_through_the_house_before_and_after_a_restart() {
    let house = TestHouse::new();
    let first = house.open().await;
    let id = first.spawn(owned_shell("agent", "exec cat")).await.unwrap().id();
    let second = house.open().await;
    second.upgrade_keeper(opened(&house.options().program)).await.unwrap();
    for processes in [&second, &house.open().await] {
        let process = processes.by_id(id).unwrap();
        assert!(process.has_owned_input());
        assert_eq!(process.stdin(None, b"yes\n").await.err(), Some(StdinError::Owned));
        assert_eq!(process.stdin(Some(0), &vec![b'x'; 3 << 20]).await.err(), Some(StdinError::Owned));
        assert_eq!(process.close_stdin().await, Err(StdinError::Owned));
    }
    let last = house.open().await;
    let process = last.by_id(id).unwrap();
    process.kill(Signal::TERM).await;
    let heard = hear(&process, 0).await;
    assert_eq!((heard.stdout.as_slice(), heard.exit.unwrap().signal), (b"".as_slice(), 15));
    last.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_the_same_after_a_restart_and_an_upgrade_and_another_after_the_keepers_death() {
    let house = TestHouse::new();
    let first = house.open().await;
    let key = key_id(&first);
    assert_eq!(first.house_key().unwrap().derive("a").as_bytes(), first.house_key().unwrap().derive("a").as_bytes());
    let processes = house.open().await;
    assert_eq!(key_id(&processes), key);
    let mut keys = processes.house_keys();
    keys.mark_unchanged();
    processes.upgrade_keeper(opened(&house.options().program)).await.unwrap();
    assert_eq!(key_id(&processes), key);
    assert!(!keys.has_changed().unwrap(), "nobody is told of the same key");
    let keeper = Pid::from_raw(processes.keeper_status().pid as i32).unwrap();
    rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    within("another key", keys.changed()).await.unwrap();
    let another = keys.borrow().as_ref().map(|key| key.id());
    assert!(another.is_some_and(|another| another != key), "{another:?}");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_program_in_the_old_place_is_the_same_daemon_and_the_next_keeper() {
    let house = TestHouse::new();
    let (processes, place) = house.open_with_own_program().await;
    let (key, before) = (key_id(&processes), processes.keeper_status());
    let process = processes.spawn(shell("cat", "exec cat")).await.unwrap();
    for _ in 0..3 {
        install(&keeper_program(), &place);
        processes.upgrade_keeper(opened(&place)).await.unwrap();
    }
    assert_eq!((key_id(&processes), processes.keeper_status().pid), (key, before.pid));
    process.stdin(None, b"still here\n").await.unwrap().done().await.unwrap();
    process.close_stdin().await.unwrap();
    assert_eq!(hear(&process, 0).await.stdout, b"still here\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

/// The key is in nothing that others of the same user can read: not in the house's files, and not in the state that an
/// upgrade hands over, which the trial of the new program reads.
#[test]
fn the_key_is_in_no_file_of_the_house() {
    let keeper = RawKeeper::start();
    let mut raw = controller(&keeper);
    let key = key_of(&mut raw);
    raw.upgrade(&opened(&keeper_program()));
    raw.until(kind::DONE);
    drop(raw);
    assert_eq!(key_of(&mut controller(&keeper)), key);
    let mut directories = vec![keeper.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else if entry.file_type().unwrap().is_file() {
                let bytes = std::fs::read(entry.path()).unwrap();
                assert!(!bytes.windows(key.len()).any(|window| window == key), "{}", entry.path().display());
            }
        }
    }
}
