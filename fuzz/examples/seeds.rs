//! Writes the seeds that are checked in: `cargo run --no-default-features --example seeds` in this
//! directory.
//!
//! Request lines come from the black-box tests' data files, everything else is made by the project's own encoders, so
//! that a changed format needs no more than another run of this.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use hostel_fuzz::tarball::{gzip, header, pax_record, push_data};
use hostel_journal::{Exit, HEADROOM, Meta, Note as Event, ProcessId, Stream, TAILROOM, Writer};
use hostel_keeper::proto::{
    Builder, Held, Hello, Limits, Note, NoteExit, OnFull, Phase, Pin, PipelineTerms, Role, Spawn, State, StdinKind,
    Welcome, kind, tag,
};
use hostel_wire::backup::{Content, Cost, Header};
use hostel_wire::body::Body;
use hostel_wire::frames::client::{Call, ClientAck, ClientFrame, Hello as MeshHello, Request, SessionHello};
use hostel_wire::frames::server::{Ack, HelloAck, HelloChallenge, Push, ServerFrame};
use hostel_wire::invite::{InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::{FileHead, FileKey, FileSealer};
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    claustrum()?;
    sessions("zeroclaw", "zeroclaw_envelope")?;
    sessions("codecast", "codecast_request")?;
    claudemesh()?;
    sudo_proxy()?;
    agents()?;
    native()?;
    archives()?;
    keeper()?;
    journal()?;
    wire()?;
    mesh()?;
    broker()?;
    program()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn put(target: &str, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let directory = project().join("fuzz/seeds").join(target);
    fs::create_dir_all(&directory)?;
    Ok(fs::write(directory.join(name), bytes)?)
}

/// Each data file's requests as one seed, and each distinct params text as another.
fn claustrum() -> Result<(), Failure> {
    let mut params = BTreeSet::new();
    for entry in fs::read_dir(project().join("tests/claustrum/data"))? {
        let path = entry?.path();
        let mut lines = String::new();
        for line in fs::read_to_string(&path)?.lines() {
            if let Some(raw) = line.strip_prefix("> ") {
                lines.push_str(&raw.replace("${TOKEN}", "tok"));
            } else if let Some(call) = line.strip_prefix(">> ") {
                let (method, given) = call.split_once(' ').unwrap_or((call, "{}"));
                lines.push_str(&format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{given},"auth":"tok"}}"#
                ));
                params.insert(given.to_owned());
            } else {
                continue;
            }
            lines.push('\n');
        }
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or("unnamed");
        lines.truncate(lines.char_indices().map(|(at, _)| at).take_while(|at| *at <= 6000).last().unwrap_or(0));
        put("claustrum_request", name, &lines)?;
    }
    some("claustrum_params", &params)?;
    let spawn = r#"{"id":"p","command":"sh","args":["-c","x",null],"cwd":"/","env":{"A":"1","B":null},"wantPid":true}"#;
    put("claustrum_params", "spawn", spawn)?;
    put("claustrum_params", "stdin", r#"{"ID":"p","data":"aGkK","offset":18446744073709551615}"#)?;
    put("claustrum_json", "mixed", r#" {"b":[1.0,-1e-7,1E21,null,true],"a":"\u00e9<\/>","a":{}} "#)?;
    put("claustrum_json", "surrogates", r#"["\ud83d\ude00","\ud800"]"#)?;
    put("claustrum_json", "text", b"\xe2\x80\xa8 \xff\xe2\x82 a&b \xf0\x9f\x98\x80")?;
    Ok(())
}

/// Distinct requests of a door's data files as one seed each, and distinct params for the door that has a target for
/// them.
fn sessions(door: &str, target: &str) -> Result<(), Failure> {
    let (mut requests, mut params) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests").join(door).join("data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            if let Some(raw) = line.strip_prefix("> ") {
                requests.insert(raw.to_owned());
            } else if let Some(call) = line.strip_prefix(">> ") {
                let (method, given) = call.split_once(' ').unwrap_or((call, "{}"));
                requests.insert(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{given}}}"#));
                params.insert(given.to_owned());
            }
        }
    }
    some(target, &requests)?;
    if door == "zeroclaw" {
        some("zeroclaw_params", &params)?;
        put("zeroclaw_params", "list", r#"["s","hello",null,7]"#)?;
        put("zeroclaw_params", "both", r#"{"session_id":"s","sessionId":"s","since_seq":3,"raw_input":{"a_b":1}}"#)?;
    } else {
        put(target, "kept", "1 0 7 3-5 8-9 12-")?;
    }
    Ok(())
}

/// Every so many of them: neighbours in this order differ little.
fn some(target: &str, texts: &BTreeSet<String>) -> Result<(), Failure> {
    let step = texts.len().div_ceil(40).max(1);
    texts.iter().step_by(step).enumerate().try_for_each(|(number, text)| put(target, &format!("{number:02}"), text))
}

/// Distinct requests as one seed each, at the moment their target knows; and distinct times.
fn sudo_proxy() -> Result<(), Failure> {
    const NOW: &str = "2026-02-13T14:30:00";
    let (mut requests, mut times) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests/sudo_proxy/data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let line = line.replace("${T}", NOW).replace("${CASE}", "case").replace("${DIR}", "/tmp");
            if line.contains("${") {
                continue;
            }
            if let Some(raw) = line.strip_prefix("> ") {
                requests.insert(raw.to_owned());
            } else if let Some(rest) = line.strip_prefix(">> {") {
                let time = if rest.contains("\"time\":") { String::new() } else { format!("\"time\":\"{NOW}Z\",") };
                requests.insert(format!("{{{time}{rest}"));
            }
            if let Some((_, rest)) = line.split_once("\"time\":\"")
                && let Some((time, _)) = rest.split_once('"')
            {
                // A number of eight bytes comes first: the moment it is judged at.
                let now = 1_770_993_000_i64.to_le_bytes();
                times.insert([&now[..], time.as_bytes()].concat());
            }
        }
    }
    some("sudo_proxy_request", &requests)?;
    let numbered = times.iter().enumerate();
    numbered.map(|(number, time)| put("sudo_proxy_time", &format!("{number:02}"), time)).collect()
}

/// Recorded conversations: the setup, what was printed, and where something was said, what that was.
fn agents() -> Result<(), Failure> {
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

fn native() -> Result<(), Failure> {
    let lines = [
        r#"{"protocol_version":1}"#,
        r#"{"argv":["sh",{"base64":"/w=="}],"name":"x","cwd":"/","env":{"A":"b"},"replace":true}"#,
        r#"{"id":"x","since_seq":3,"follow":false}"#,
        r#"{"id":"x","data":"aGk=","offset":2}"#,
        r#"{"id":"x","signal":"TERM","wait_ms":5,"escalate":true}"#,
        r#"{"processes":[{"id":"a","name":"n","door":"d","pid":1,"command":"c","state":"held","started_ns":1,"last_seq":2,"stdin_applied":0}]}"#,
        r#"{"id":"a","stream":"stderr","seq":1,"data":""}"#,
        r#"{"seq":4,"exit_code":-1,"signal":9,"lost":true}"#,
        "",
    ];
    put("native_line", "messages", lines.join("\n"))
}

fn archives() -> Result<(), Failure> {
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

fn keeper() -> Result<(), Failure> {
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

fn journal() -> Result<(), Failure> {
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

fn program() -> Result<(), Failure> {
    put("hostel_flags", "serve", "-serve\0-socket\0/tmp/s\0--token-fd=0x3\0-keep-children=true\0word")?;
    put("hostel_flags", "zeroclaw", "daemon\0--ephemeral\0--config-dir=/c\0--host\0127.0.0.1\0-p\00")?;
    put("hostel_flags", "install", "-install\0-cli-dir=/d\0-cli-keep\0-1\0-cli-url=u\0--\0-h")?;
    let settings = "[doors.claustrum]\nlisten = [\"/tmp/a.sock\"]\nshutdown_needs_auth = false\n\n[journal]\nquota = \"5 GiB\"\n\
                    on_full = \"drop-oldest\"\nkeep_age = \"1d 12h\"\nfloor = 4096\n\n[limits]\nconnections = 5\n";
    put("hostel_settings", "hostel.toml", settings)?;
    let agents = "[agents.mine]\nkind = \"acp\"\ncommand = [\"my-agent\", \"--acp\"]\nenv = { A = \"1\" }\nmode = \"ask\"\n\
                  memory = \"2 GiB\"\ncpu = \"50%\"\n\n[doors.codecast]\nlisten = \"127.0.0.1:9100\"\n";
    put("hostel_settings", "agents.toml", agents)?;
    let daemon = "port: 9200\nbind: 0.0.0.0\ntokens_file: ~/t\ntls_cert: /c\ntls_key: \"/k\"\nother: [1]\n";
    put("hostel_yaml", "daemon.yaml", daemon)?;
    let tokens = "tokens:\n- token: ccast_1\n  label: phone\n  created: '2026-01-01'\n- {token: ccast_2}\n";
    put("hostel_yaml", "tokens.yaml", tokens)?;
    put("hostel_yaml", "anchors.yaml", "a: &a [x, &b y]\ntokens: [{token: *b}]\nbind: |\n  ::1\n")?;
    put("hostel_settings", "inline.toml", "journal = { quota = 2097152, keep_count = 1 }\nlimits.start = \"1m\"\n")
}

/// Bodies and queries of the `/v1` surface.
fn claudemesh() -> Result<(), Failure> {
    let (mut bodies, mut queries) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests/claudemesh/data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let Some((_, request)) = line.split_once("> ").filter(|_| line.starts_with('>')) else { continue };
            let mut words = request.splitn(3, ' ');
            let (path, body) = (words.nth(1).unwrap_or_default(), words.next().unwrap_or_default());
            bodies.extend(Some(body.to_owned()).filter(|body| !body.is_empty()));
            queries.extend(path.split_once('?').map(|(_, query)| query.to_owned()));
        }
    }
    some("claudemesh_body", &bodies)?;
    put("claudemesh_body", "key", "c\0{\"to\":\"bob\",\"message\":\"m\",\"client_message_id\":\"c\"}")?;
    some("claudemesh_query", &queries)
}

/// Frames, bodies, an invite and a small file, all from fixed keys where the formats allow it.
fn wire() -> Result<(), Failure> {
    let owner = SecretKey::from_seed(&[1; 32]);
    let hello = MeshHello { protocol_version: 2, mesh_id: "m".into(), nonce: Some("n".into()), ..MeshHello::default() };
    let frames = [
        ClientFrame::Hello(Box::new(hello.clone())),
        ClientFrame::SessionHello(Box::new(SessionHello { hello, ..SessionHello::default() })),
        ClientFrame::ClientAck(ClientAck { seq: Some(7), above: vec![9], ..ClientAck::default() }),
        ClientFrame::Request(Request { req_id: Some("1".into()), call: Call::ListPeers { all: true } }),
        ClientFrame::Request(Request { req_id: None, call: Call::TopicList { after: None } }),
    ];
    for (number, frame) in frames.iter().enumerate() {
        put("wire_client", &format!("{number:02}"), frame.encode())?;
    }
    let send = r##"{"type":"send","id":"1","client_message_id":"c","request_fingerprint":"00","kind":"dm","to":{"member":"m"},"nonce":"","ciphertext":"","lane":"dm|m|next","laneSeq":1}"##;
    put("wire_client", "send", send)?;
    let state = r##"{"type":"state_set","_reqId":"1","key":"00","ifVersion":3,"name":{"epoch":0,"nonce":"","ciphertext":""},"value":{"epoch":0,"nonce":"","ciphertext":""},"clientId":"c","fingerprint":"00"}"##;
    put("wire_client", "state", state)?;
    let task = r##"{"type":"task_step","_reqId":"2","id":"t","step":"complete","leaseS":60,"result":{"epoch":0,"nonce":"","ciphertext":""},"clientId":"c","fingerprint":"00"}"##;
    put("wire_client", "task", task)?;
    let frames = [
        ServerFrame::HelloChallenge(HelloChallenge::default()),
        ServerFrame::HelloAck(Box::default()),
        ServerFrame::Ack(Box::new(Ack { id: "1".into(), seq: Some(1), ..Ack::default() })),
        ServerFrame::Push(Box::new(Push { seq: 1, ..Push::default() })),
        ServerFrame::HelloAck(Box::new(HelloAck { restored: true, ..HelloAck::default() })),
    ];
    for (number, frame) in frames.iter().enumerate() {
        put("wire_server", &format!("{number:02}"), frame.encode())?;
    }
    put("wire_server", "answer", r#"{"type":"peers_list","_reqId":"1","peers":[{"pubkey":"00"}]}"#)?;
    put("wire_server", "key", r#"{"type":"topic_key","topicId":"t","epoch":0,"memberId":"m","blob":"","nonce":""}"#)?;
    let body = Body { body: "hi".into(), fingerprint: Some([0; 32]), ..Body::default() };
    put("wire_body", "three", [&[3], &body.to_bytes()[..]].concat())?;
    put("wire_body", "one", b"\x01hello")?;
    put(
        "wire_canonical",
        "mixed",
        r#"{"b":[1.0,-1e-7,1E21,null,true,9007199254740993],"a":"\u00e9<\/>","\ud83d\ude00":{}}"#,
    )?;
    let terms = Terms {
        mesh_id: "m".into(),
        mesh_slug: "lab".into(),
        broker_url: "wss://host/ws".into(),
        expires_at: 1_790_000_000,
        role: "member".into(),
    };
    put("wire_invite", "link", &*InviteLink::make(&terms, &owner, Some([5; 32]))?.text())?;
    let head = FileHead { name: "a".into(), size: 0, sha256: String::new() };
    let (mut sealer, mut sealed) = FileSealer::new(&FileKey::from_bytes([3; 32]), &head)?;
    sealed.extend(sealer.chunk(b"hello", true));
    put("wire_file", "small", sealed)?;
    let cost = Cost { passes: 1, memory: 8192 };
    put("wire_backup", "header", Header::fresh(Content::Mesh, cost).to_bytes())?;
    put("wire_backup", "record", br#"F{"path":"house/state.db","mode":384}"#)
}

/// What a daemon reads: a broker's frames, its own files, the answer to who joins.
fn mesh() -> Result<(), Failure> {
    let push = r#"{"type":"push","messageId":"m-1","meshId":"mesh","senderMemberId":"bob-id","senderName":"bob","priority":"next","nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","ciphertext":"AAAAAAAAAAAAAAAAAAAAAAAAAAAA","createdAt":"2026-01-01T00:00:00.000Z","client_message_id":"c-1","seq":1,"kind":"dm","bodyVersion":3,"mentions":[]}"#;
    let topic = push.replace("\"kind\":\"dm\"", "\"kind\":\"topic\",\"topicId\":\"t\",\"keyEpoch\":1");
    let system = |event: &str, data: &str| {
        format!(r#"{{"type":"push","subtype":"system","event":"{event}","eventData":{data},"seq":0}}"#)
    };
    put(
        "mesh_frames",
        "pushes",
        format!("{push}\n{topic}\n{}\n", push.replace("\"seq\":1", "\"seq\":9,\"ahead\":true")),
    )?;
    let news = [
        system("peer_joined", r#"{"memberId":"bob-id","name":"bob","pubkey":"00"}"#),
        system("peer_left", r#"{"memberId":"bob-id"}"#),
        system("member_renamed", r#"{"memberId":"alice-id","name":"ada"}"#),
        system("member_clone_suspected", r#"{"memberId":"bob-id","hostname":"x"}"#),
        system("member_keypair_rotated", r#"{"memberId":"bob-id","name":"bob","oldPubkey":"00","newPubkey":"01"}"#),
        system("caught_up", r#"{"seq":7}"#).replace("\"seq\":0", "\"seq\":7"),
    ];
    put("mesh_frames", "news", news.join("\n"))?;
    let shared = [
        r#"{"type":"push","meshId":"mesh","seq":3,"kind":"state","eventData":{"entry":{"key":"00","version":1,"name":{"epoch":0,"nonce":"","ciphertext":""},"by":"b","atMs":1},"removed":false}}"#,
        r#"{"type":"push","meshId":"mesh","seq":4,"kind":"task","eventData":{"step":"claimed","task":{"id":"01jh3q5w6e7r8t9y0a1s2d3f4g","title":{"epoch":7,"nonce":"","ciphertext":""}}}}"#,
    ];
    put("mesh_frames", "shared", shared.join("\n"))?;
    put("mesh_frames", "revoked", system("member_revoked", r#"{"memberId":"alice-id"}"#))?;
    let answers = [
        r#"{"type":"topic_list_response","_reqId":"","topics":[{"id":"t","name":"alerts","visibility":"public","epoch":1,"subscribed":true}]}"#,
        r#"{"type":"topic_key","_reqId":"","topicId":"t","epoch":1,"memberId":"alice-id","blob":"AAAA","nonce":"AAAA"}"#,
        r#"{"type":"peers_list","_reqId":"","peers":[{"pubkey":"00","memberId":"bob-id","sessionId":"s","status":"idle"}]}"#,
        r#"{"type":"error","_reqId":"","code":"forbidden","message":"no"}"#,
    ];
    put("mesh_frames", "answers", answers.join("\n"))?;
    put(
        "mesh_frames",
        "roster",
        r#"{"type":"roster","rev":2,"members":[{"id":"carol-id","name":"carol","pubkey":"00","role":"admin"}]}
{"type":"roster_delta","rev":3,"members":[{"id":"bob-id","name":"robert","pubkey":"","revoked":true}]}
{"type":"topic_key_needed","topicId":"t","epoch":1,"members":["bob-id"]}"#,
    )?;
    for (name, text) in
        [("place", "01jh3q5w6e7r8t9y0a1s2d3f4g"), ("number", "17"), ("event", "0a1b2c3d-5"), ("empty", "")]
    {
        put("mesh_cursors", name, text)?;
    }
    let key = SecretKey::from_seed(&[7; 32]);
    let entry = format!(
        r#"{{"meshId":"m","memberId":"a","slug":"lab","name":"lab","pubkey":"{}","secretKey":"{}","brokerUrl":"ws://127.0.0.1:1/ws","brokerUrls":["ws://127.0.0.1:1/ws","wss://b/ws"],"joinedAt":"2026-01-01T00:00:00Z","rootKey":"{}","brokerCert":"{}","inviteVersion":1,"more":true}}"#,
        key.public().hex(),
        &*key.to_hex(),
        "A".repeat(43),
        "0".repeat(64)
    );
    let config = format!(
        r#"{{"version":1,"meshes":[{entry},{{}}],"displayName":"ada","groups":[{{"name":"ops"}}],"accountId":"x"}}"#
    );
    put("mesh_home", "config", [&[0], config.as_bytes()].concat())?;
    let kept = format!(
        r#"{{"format":1,"made_at":"2026-01-01T00:00:00Z","program":"1","slug":"lab","membership":{entry},"files":{{"config.toml":"","topics.json":"e30=","schema_version":"MQ=="}}}}"#
    );
    put("mesh_backup", "lab", kept)?;
    put("mesh_home", "empty", [0])?;
    let pair = format!(
        r#"{{"schema_version":1,"ed25519_public":"{}","ed25519_secret":"{}","x25519_public":"","x25519_secret":"","created_at":""}}"#,
        key.public().hex(),
        &*key.to_hex()
    );
    put("mesh_home", "keypair", [&[1], pair.as_bytes()].concat())?;
    let record = r#"{"schema_version":2,"fingerprint":"00","host_id":"linux:00","stable_mac":"00:16:3e:00:00:02","written_at":""}"#;
    put("mesh_home", "host", [&[2], record.as_bytes()].concat())?;
    let hex = hostel_wire::encoding::hex;
    let archived = format!(
        r#"{{"schema_version":1,"keys":[{{"ed25519_public":"{}","x25519_public":"{}","x25519_secret":"{}","archived_at":"2027-01-01T00:00:00.000Z","expires_at":"2027-01-08T00:00:00.000Z"}}]}}"#,
        key.public().hex(),
        hex(&key.x25519_public()),
        hex(&*key.x25519_secret())
    );
    put("mesh_home", "archive", [&[3], archived.as_bytes()].concat())?;
    let next = format!(
        r#"{{"schema_version":1,"mesh_id":"m","member_id":"a","old_public":"{}","ed25519_public":"{}","ed25519_secret":"{}","created_at":""}}"#,
        SecretKey::from_seed(&[8; 32]).public().hex(),
        key.public().hex(),
        &*key.to_hex()
    );
    put("mesh_home", "next", [&[4], next.as_bytes()].concat())?;
    let settings = "[daemon]\nmesh = \"lab\"\n[ipc]\nuds_mode = \"0660\"\nhttp_bind = \"::1\"\nmax_body_bytes = \"2MiB\"\n\
        [broker]\nurls = [\"wss://a/ws\"]\nping_s = 5\nsilence_s = 0x10\nca_file = \"/a\"\n[outbox]\nmax_bytes = \"1.5GB\"\n\
        fsync_mode = \"batched\"\n[inbox]\nfts_enabled = false\n[reconnect]\nbackoff_multiplier = 1e1\n[unknown]\nx = 1\n";
    put("mesh_settings", "some", settings)?;
    put(
        "mesh_hooks",
        "contract",
        "[on-mention]\nenabled = true\ntimeout_s = 30\noutput_size_limit = 65536\n\
         redact_payload = [\"body.password\", \"meta.api_key\"]\nallow_reply = true\n\
         capability_token_scope = [\"topic:alerts:post\"]\nnetwork_policy = \"deny\"\nnetwork_allowlist = []\n\
         fs_policy = \"readonly\"\nkillpg_on_timeout = true\naudit = true\n",
    )?;
    put("mesh_hooks", "topic", "[\"on-topic-a.b\"]\nsandbox = \"bubblewrap\"\n[pre-send]\nenabled = false\n")?;
    for (name, text) in [
        ("reply", "\0{\"reply\":\"text\",\"priority\":\"now\",\"meta\":{}}"),
        ("replace", "\x01{\"action\":\"replace\",\"body\":\"x\",\"meta\":{\"a\":1}}"),
        ("drop", "\x01{\"action\":\"drop\",\"reason\":\"no\"}"),
        ("path", "\x02$.meta['api key'][0].x[*]"),
    ] {
        put("hook_output", name, text)?;
    }
    for (name, body) in [
        (
            "joined",
            r#"{"ok":true,"memberId":"a","displayName":"bob","sealed_root_key":"$SEALED","brokers":["ws://broker/ws"]}"#,
        ),
        ("known", r#"{"ok":true,"memberId":"a","alreadyMember":true,"sealed_root_key":"AAAA"}"#),
        ("refused", r#"{"ok":false,"error":"invite_expired","detail":"x"}"#),
    ] {
        let status = if name == "refused" { "400 Bad Request" } else { "200 OK" };
        // Longer than it says: what `$SEALED` stands for is longer.
        let answer = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{body}");
        put("mesh_enrol", name, answer)?;
    }
    Ok(())
}

/// What a broker reads by HTTP.
fn broker() -> Result<(), Failure> {
    let (owner, member) =
        (SecretKey::from_seed(&[1; 32]).public().hex(), SecretKey::from_seed(&[2; 32]).public().hex());
    let mesh =
        format!(r#"{{"name":"Lab 2","owner_pubkey":"{owner}","member":{{"pubkey":"{member}","display_name":"bob"}}}}"#);
    put("broker_http", "mesh", [&[0], mesh.as_bytes()].concat())?;
    let terms = Terms {
        mesh_id: "m".into(),
        mesh_slug: "lab".into(),
        broker_url: "ws://host/ws".into(),
        expires_at: 4_000_000_000,
        role: "member".into(),
    };
    let link = InviteLink::make(&terms, &SecretKey::from_seed(&[1; 32]), None)?;
    let payload = serde_json::to_string(&link.payload)?;
    let join = format!(
        r#"{{"invite_token":"{}","invite_payload":{payload},"peer_pubkey":"{member}","display_name":"bob","timestamp":1,"signature":"{}"}}"#,
        link.token,
        "0".repeat(128)
    );
    put("broker_http", "join", [&[1], join.as_bytes()].concat())?;
    let upload =
        b"\x0201jh3q5w6e7r8t9y0a1s2d3f4g\0r%C3%A9sum%C3%A9.txt\0[\"a\"]\0true\0*\0{\"*\":\"k\"}\0bytes of a file";
    put("broker_http", "upload", upload)?;
    let leave = format!(r#"{{"meshId":"m","timestamp":1,"signature":"{}"}}"#, "0".repeat(128));
    put("broker_http", "leave", [&[3], leave.as_bytes()].concat())?;
    let remint = format!(
        r#"{{"meshId":"m","newPubkey":"{member}","displayName":"x","ephemeral":true,"timestamp":1,"signature":"{0}","proof":"{0}"}}"#,
        "0".repeat(128)
    );
    put("broker_http", "remint", [&[4], remint.as_bytes()].concat())?;
    put(
        "broker_http",
        "raw",
        b"\x05GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
}
