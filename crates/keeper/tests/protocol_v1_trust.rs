//! What descriptors, owned inputs, upgrades by descriptor and the house key added to version 1 of the keeper's protocol, as
//! recorded bytes; like those of the rest they stay.
#![allow(clippy::unwrap_used)] // test code

use hostel_journal::ProcessId;
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{Builder, Execute, OnFull, Outcome, Spawn, StdinKind, Welcome, feature, kind, split, tag};

const ID: ProcessId = ProcessId([0xA5; 16]);

fn spawn() -> Spawn {
    Spawn {
        id: ID,
        label: b"l".to_vec(),
        program: b"/bin/wc".to_vec(),
        argv: vec![b"wc".to_vec()],
        env: vec![b"A=1".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o77,
        nofile: 1024,
        stdin: StdinKind::Socket,
        quota: 0,
        on_full: OnFull::Hold,
        terms: None,
        execute: Some(Execute::Script),
        owner: Some(OwnerToken::from_bytes([0x3C; 32])),
    }
}

fn welcome() -> Welcome {
    Welcome {
        proto: 1,
        // What was there when the bytes were recorded.
        features: feature::ALL & !feature::ANCHOR & !feature::LEASES,
        keeper_id: [7; 16],
        pid: 4711,
        since_ns: 1,
        build: "0.1.0".into(),
        child_limit: 1000,
        cgroup: None,
        journal: (66, 1234),
        house_tag: "0123456789abcdef".into(),
        image_ns: 2,
        notes_key: Some([9; 16]),
        recognised: true,
    }
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let raw = |kind: u16, fields: &dyn Fn(Builder<'_>)| {
        let mut out = Vec::new();
        fields(Builder::new(&mut out, kind, 77));
        out
    };
    let (mut spawned, mut welcomed) = (Vec::new(), Vec::new());
    spawn().encode(77, &mut spawned);
    welcome().encode(1, &mut welcomed);
    let owner = [0x3C; 32];
    vec![
        ("spawn", spawned),
        ("welcome", welcomed),
        (
            "stdin",
            raw(kind::STDIN, &|frame| {
                frame
                    .bytes(tag::ID, &ID.0)
                    .u64(tag::OFFSET, 8)
                    .u64(tag::MARK, 3)
                    .bytes(tag::OWNER, &owner)
                    .bytes(tag::BYTES, b"hi")
                    .finish();
            }),
        ),
        (
            "close_stdin",
            raw(kind::CLOSE_STDIN, &|frame| frame.bytes(tag::ID, &ID.0).bytes(tag::OWNER, &owner).finish()),
        ),
        ("upgrade", raw(kind::UPGRADE, &|frame| frame.u32(tag::DESCRIPTORS, 1).finish())),
        ("house_key", raw(kind::HOUSE_KEY, &|frame| frame.finish())),
        ("key", raw(kind::KEY, &|frame| frame.bytes(tag::KEY, &[0x5A; 32]).finish())),
    ]
}

const RECORDED: [(&str, &str); 7] = [
    (
        "spawn",
        "c2000000050000004d00000000000000010010000000a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a50200010000006c0300070000002f62696e2f77630600010000002f0700040000003f0000000800080000000004000000000000090004000000010000000a000800000000000000000000000b00040000000000000041000400000001000000420004000000020000004300200000003c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c0400020000007763050003000000413d31",
    ),
    (
        "welcome",
        "c700000002000000010000000000000023000400000001000000280008000000ff01000000000000290010000000070707070707070707070707070707070c0004000000671200002a00080000000100000000000000250005000000302e312e302b0004000000e80300002600080000004200000000000000270008000000d2040000000000003400100000003031323334353637383961626364656636000800000002000000000000003700100000000909090909090909090909090909090944000400000001000000",
    ),
    (
        "stdin",
        "6c000000080000004d00000000000000010010000000a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5110008000000080000000000000012000800000003000000000000004300200000003c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c1300020000006869",
    ),
    (
        "close_stdin",
        "480000000a0000004d00000000000000010010000000a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a54300200000003c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c",
    ),
    ("upgrade", "16000000120000004d0000000000000041000400000001000000"),
    ("house_key", "0c000000220000004d00000000000000"),
    (
        "key",
        "32000000230000004d000000000000004500200000005a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
    ),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn these_messages_are_said_as_they_were() {
    let said: Vec<(&str, String)> = messages().into_iter().map(|(name, bytes)| (name, hex(&bytes))).collect();
    let recorded: Vec<(&str, String)> = RECORDED.iter().map(|(name, hex)| (*name, (*hex).to_owned())).collect();
    assert_eq!(said, recorded);
}

#[test]
fn and_understood_as_they_were() {
    let messages = messages();
    let frame = |name: &str| {
        let (_, bytes) = messages.iter().find(|(found, _)| *found == name).unwrap();
        split(bytes).unwrap().unwrap().0
    };
    assert_eq!(Spawn::decode(&frame("spawn")).unwrap(), spawn());
    assert_eq!(Welcome::decode(&frame("welcome")).unwrap(), welcome());
}

#[test]
fn their_numbers_are_what_they_were() {
    let tags = [tag::DESCRIPTORS, tag::EXECUTE, tag::OWNER, tag::RECOGNISED, tag::KEY];
    assert_eq!(tags, [65, 66, 67, 68, 69]);
    assert_eq!((kind::HOUSE_KEY, kind::KEY), (34, 35));
    let bits = [feature::DESCRIPTORS, feature::OWNED_INPUT, feature::UPGRADE_BY_DESCRIPTOR, feature::HOUSE_KEY];
    assert_eq!(bits, [32, 64, 128, 256]);
    assert_eq!((Execute::Program.to_wire(), Execute::Script.to_wire(), Outcome::Owned.to_wire()), (1, 2, 7));
    assert_eq!((Execute::Leased.to_wire(), feature::LEASES), (3, 1 << 13));
}
