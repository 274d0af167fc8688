//! What daemons and brokers say to each other and what they seal.

use hostel_wire::backup::records::{End, Item, Record, Sum};
use hostel_wire::backup::{BackupKey, Content, Cost, Header, StreamSealer};
use hostel_wire::body::Body;
use hostel_wire::frames::client::{Call, ClientAck, ClientFrame, Hello, Request, SessionHello};
use hostel_wire::frames::server::{Ack, HelloAck, HelloChallenge, Push, ServerFrame};
use hostel_wire::hello::succeed;
use hostel_wire::invite::{CertPin, InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::{FileHead, FileKey, FileSealer};

use super::{Failure, put};

/// Frames, bodies, an invite and a small file, all from fixed keys where the formats allow it.
pub fn all() -> Result<(), Failure> {
    let owner = SecretKey::from_seed(&[1; 32]);
    let hello = Hello { protocol_version: 2, mesh_id: "m".into(), nonce: Some("n".into()), ..Hello::default() };
    let lineage = vec![succeed("m", "a", &owner, &SecretKey::from_seed(&[2; 32]), 1)];
    let frames = [
        ClientFrame::Hello(Box::new(hello.clone())),
        ClientFrame::Hello(Box::new(Hello { lineage, ..hello.clone() })),
        ClientFrame::SessionHello(Box::new(SessionHello { hello, ..SessionHello::default() })),
        ClientFrame::ClientAck(ClientAck { seq: Some(7), above: vec![9], ..ClientAck::default() }),
        ClientFrame::Request(Request { req_id: Some("1".into()), call: Call::ListPeers { all: true, after: None } }),
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
    let rotate = r##"{"type":"rotate_key","_reqId":"3","oldPubkey":"00","newPubkey":"00","timestamp":1,"signature":"00","proof":"00"}"##;
    put("wire_client", "rotate", rotate)?;
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
    let cert = CertPin { cert: [5; 32], key: Some([6; 32]) };
    put("wire_invite", "link", &*InviteLink::make(&terms, &owner, Some(cert))?.text())?;
    let head = FileHead { name: "a".into(), size: 0, sha256: String::new() };
    let (mut sealer, mut sealed) = FileSealer::new(&FileKey::from_bytes([3; 32]), &head)?;
    sealed.extend(sealer.chunk(b"hello", true));
    put("wire_file", "small", sealed)?;
    backups()
}

/// Pieces of backups, each after three bytes that say where the target changes something and how.
fn backups() -> Result<(), Failure> {
    let put = |name: &str, bytes: &[u8]| put("wire_backup", name, [b"\x07\0\x01", bytes].concat());
    let cost = Cost { passes: 1, memory: 8192 };
    let item = |path: &str, mode: u32| Item { path: path.to_owned(), mode };
    let records = [
        Record::Directory(item("house/journal", 0o700)),
        Record::File(item("house/state.db", 0o600)),
        Record::Data(b"bytes of a file"),
        Record::End(End { size: 15, sha256: "00".repeat(32) }),
        Record::Sum(Sum { files: 1, bytes: 15 }),
    ];
    put("header", &Header::fresh(Content::Mesh, cost).to_bytes())?;
    let key = BackupKey::from_bytes([3; 32]);
    let (mut sealer, mut stream) = StreamSealer::begin_with(Header::fresh(Content::House, cost), &key, b"{}");
    for (number, record) in records.iter().enumerate() {
        let bytes = record.to_bytes().ok_or("a small record")?;
        put(&format!("record-{number}"), &bytes)?;
        stream.extend(sealer.next(&bytes));
    }
    stream.extend(sealer.finish(b"Z{\"files\":1,\"bytes\":15}"));
    put("stream", &stream)
}
