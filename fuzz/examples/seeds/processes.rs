//! What processes print, what they are made of and what is kept of them: agents, archives, keeper and journal.

use std::fs;
use std::os::fd::AsFd as _;

use hostel_fuzz::tarball::{gzip, header, pax_record, push_data};
use hostel_journal::{Exit, HEADROOM, Meta, Note as Event, ProcessId, Stream, TAILROOM, Writer};
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{
    Builder, Execute, Held, Hello, Limits, Note, NoteExit, OnFull, Phase, Pin, PipelineTerms, Role, Spawn, State,
    StdinKind, Welcome, kind, tag,
};
use serde_json::Value;

use super::{Failure, project, put};

/// Recorded conversations: the setup, what was printed, and where something was said, what that was.
pub fn agents() -> Result<(), Failure> {
    const ASK_WARM: u8 = 3;
    const ASK_ONCE: u8 = 7;
    const RESUMED: u8 = 16;
    for (program, name, kind, flags) in [
        ("claude", "permission-allow-always", 0, ASK_WARM),
        ("claude", "ask-user-question", 0, ASK_WARM),
        ("claude", "slow-interrupted", 0, ASK_WARM),
        ("claude", "tool-parallel", 0, ASK_ONCE),
        ("claude", "error-recovered", 0, 4),
        ("claude", "acp-permission-denied", 4, ASK_WARM),
        ("codex", "app-permission-allowed", 1, ASK_WARM),
        ("codex", "app-slow-interrupted", 1, ASK_WARM),
        ("codex", "app-think", 1, 0),
        ("codex", "tool-fails", 1, 4),
        ("codex", "acp-permission-allowed", 4, ASK_WARM),
        ("gemini", "acp-permission-denied", 2, ASK_WARM),
        ("gemini", "acp-resume", 2, RESUMED),
        ("gemini", "tool-fails", 2, 4),
        ("opencode", "acp-permission-allowed", 3, ASK_WARM),
        ("opencode", "acp-slow-interrupted", 3, 0),
        ("opencode", "tool-parallel", 3, 4),
    ] {
        let place = project().join("crates/agents/tests/fixtures").join(program);
        let told = fs::read_to_string(place.join(format!("{name}.stdin.jsonl"))).unwrap_or_default();
        let told: Vec<Value> = told.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let mut told = told.iter().peekable();
        let mut seed = vec![kind, flags, 0];
        seed.extend_from_slice(b"hi\n");
        for (number, line) in fs::read_to_string(place.join(format!("{name}.jsonl")))?.lines().enumerate() {
            while let Some(entry) = told.next_if(|entry| entry["after"].as_u64() <= Some(number as u64)) {
                seed.extend_from_slice(said(&entry["line"]).as_bytes());
            }
            // Small seeds are quick, but answers and questions have to be there for a conversation to go on.
            let matters = ["\"result\"", "can_use_tool", "equestApproval", "request_permission"];
            if (line.len() < 800 && seed.len() < 4000) || matters.iter().any(|word| line.contains(word)) {
                seed.extend_from_slice(line.as_bytes());
                seed.extend_from_slice(if number % 4 == 0 { b"\n>s\n" } else { b"\n" });
            }
        }
        put("agent_lines", &format!("{program}-{name}"), seed)?;
    }
    Ok(())
}

/// What the house would do to say this.
fn said(line: &Value) -> &'static str {
    let method = line["method"].as_str().or(line["request"]["subtype"].as_str()).or(line["type"].as_str());
    match method {
        Some("session/prompt" | "turn/start" | "user") => ">p0what is to be done\n",
        Some("session/cancel" | "turn/interrupt" | "interrupt") => ">i1\n",
        Some("control_response") | None => ">a0\n",
        Some(_) => ">o0\n",
    }
}

pub fn archives() -> Result<(), Failure> {
    let mut plain = Vec::new();
    let mut member = |name: &[u8], kind: u8, data: &[u8], posix: bool| {
        plain.extend_from_slice(&header(name, b"pre", kind, data.len() as u64, posix));
        push_data(&mut plain, data);
    };
    member(b"directory/", b'5', b"", false);
    member(b"directory/file", b'0', b"content", true);
    member(b"././@LongLink", b'L', &[b"n"[0]; 120], false);
    member(b"short", b'0', b"x", false);
    member(b"pax", b'x', &pax_record(b"path", b"long/er"), true);
    member(b"short", 0, b"yz", false);
    plain.extend_from_slice(&[0; 1024]);
    let mut link = header(b"link", b"", b'2', 0, true).to_vec();
    link.extend_from_slice(&[0; 1024]);
    put("archive_bytes", "several.tar.gz", gzip(&plain))?;
    put("archive_bytes", "two-members.tar.gz", [gzip(&plain[..700]), gzip(&plain[700..])].concat())?;
    put("archive_bytes", "several.plain", [b"\x01", &plain[..]].concat())?;
    put("archive_bytes", "several.sealed", [b"\x02", &plain[..]].concat())?;
    put("archive_bytes", "link.sealed", [b"\x03", &link[..]].concat())
}

pub fn keeper() -> Result<(), Failure> {
    let id = ProcessId([5; 16]);
    let exit = Some(NoteExit { code: -1, signal: 9, wall_ns: 77 });
    let note = Note { id, committed: 4096, next_seq: 12, held: Held::Quota, has_file: true, exit };
    let mut hello = Vec::new();
    Hello { proto_min: 1, proto_max: 1, role: Role::Controller, build: "seed".to_owned(), started: 5, notes_key: None }
        .encode(1, &mut hello);
    Limits { total_quota: 1 << 30, process_quota: 1 << 20, floor: 0 }.encode(2, &mut hello);
    put("keeper_frames", "hello", &hello)?;
    let mut welcome = Vec::new();
    Welcome {
        proto: 1,
        features: 15,
        keeper_id: [3; 16],
        pid: 42,
        since_ns: 7,
        build: "seed".to_owned(),
        child_limit: 100,
        cgroup: Some("/c".to_owned()),
        journal: (1, 2),
        house_tag: "tag".to_owned(),
        image_ns: 8,
        notes_key: Some([6; 16]),
        recognised: true,
    }
    .encode(1, &mut welcome);
    let phase = Phase::Draining;
    let label = b"label".to_vec();
    State {
        id,
        label: label.clone(),
        command: b"sh".to_vec(),
        pid: 9,
        start_ns: 1,
        phase,
        note,
        applied: 3,
        written: 2,
    }
    .encode(0, &mut welcome);
    note.encode(&mut welcome);
    put("keeper_frames", "welcome", &welcome)?;
    let mut spawn = Vec::new();
    let process = Spawn {
        id,
        label,
        program: b"/bin/sh".to_vec(),
        argv: vec![b"sh".to_vec(), b"-c".to_vec()],
        env: vec![b"A=b".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o22,
        nofile: 1024,
        stdin: StdinKind::Socket,
        quota: 0,
        on_full: OnFull::DropOldest,
        terms: None,
        execute: Some(Execute::Program),
        owner: Some(OwnerToken::from_bytes([5; 32])),
    };
    process.encode(3, &mut spawn);
    Builder::new(&mut spawn, kind::STDIN, 4)
        .bytes(tag::ID, &id.0)
        .u64(tag::OFFSET, 0)
        .bytes(tag::BYTES, b"in")
        .finish();
    put("keeper_frames", "spawn", &spawn)?;
    let mut stage = Vec::new();
    let terms = PipelineTerms {
        stdin_from: Some(id),
        holds_stdout: true,
        keep_bytes: 16 << 20,
        drain_ms: 250,
        own_cgroup: true,
        limit_tag: 1 << 62,
        pin: Some(Pin { dev: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 }),
        only_if_known: false,
    };
    Spawn { stdin: StdinKind::From, terms: Some(terms), ..process }.encode(5, &mut stage);
    put("keeper_frames", "stage", &stage)?;
    put("keeper_frames", "state", state(id))
}

/// A keeper at rest with one child. The numbers from 1001 on are its own and stand nowhere on a socket.
fn state(id: ProcessId) -> Vec<u8> {
    let mut bytes = Vec::new();
    Builder::new(&mut bytes, 1001, 0)
        .u32(1100, 1)
        .bytes(tag::KEEPER_ID, &[3; 16])
        .u64(tag::SINCE_NS, 7)
        .bytes(tag::HOUSE_TAG, b"tag")
        .bytes(1103, b"/run")
        .bytes(1104, b"/journal")
        .u32(1101, 3)
        .u32(1102, 4)
        .u32(1106, 5)
        .u64(tag::STARTED, 6)
        .u64(tag::TOTAL_QUOTA, 0)
        .finish();
    Builder::new(&mut bytes, 1002, 0)
        .u32(1110, 0)
        .u32(1111, 1)
        .bytes(tag::ID, &id.0)
        .bytes(tag::LABEL, b"label")
        .bytes(tag::COMMAND, b"sh")
        .u32(tag::PID, 9)
        .u64(tag::START_NS, 1)
        .u64(tag::QUOTA, 0)
        .u32(tag::ON_FULL, 0)
        .u64(tag::APPLIED, 4)
        .u64(tag::WRITTEN, 2)
        .u32(1117, 0)
        .u64(1119, 1)
        .u32(1112, 5)
        .bytes(1115, b"in")
        .bytes(1116, b"gated")
        .bytes(1118, &[0; 40])
        .bytes(1120, b"pending")
        .bytes(1122, &[1; 24])
        .bytes(1123, &[0; 48])
        .u32(tag::CODE, 0)
        .u32(tag::EXIT_SIGNAL, 0)
        .u64(tag::EXIT_WALL_NS, 5)
        .finish();
    bytes
}

pub fn journal() -> Result<(), Failure> {
    let place = std::env::temp_dir().join(format!("hostel-seeds-{}", std::process::id()));
    fs::create_dir_all(&place)?;
    let directory = fs::File::open(&place)?;
    let id = ProcessId([7; 16]);
    let meta =
        Meta { id, boot_id: [1; 16], keeper_id: [2; 16], pid: 3, start_ticks: 4, start_ns: 5, label: b"n".to_vec() };
    let mut writer = Writer::create(directory.as_fd(), &meta, 5)?;
    for (stream, text) in [(Stream::Out, &b"out"[..]), (Stream::Err, b"error text"), (Stream::Out, b"o")] {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(text);
        buffer.resize(buffer.len() + TAILROOM, 0);
        writer.append_output(stream, &mut buffer, text.len(), 6)?;
    }
    writer.append_mark(1, 2, 3, 7)?;
    writer.append_note(Event::Held(1), 8)?;
    let open = fs::read(place.join(id.file_name()))?;
    writer.append_exit(&Exit::default(), 9)?;
    let ended = fs::read(place.join(id.file_name()))?;
    fs::remove_dir_all(&place)?;
    put("journal_bytes", "open.j", &open[..usize::try_from(writer.position().committed)?.min(open.len())])?;
    put("journal_bytes", "ended.j", &ended)
}
