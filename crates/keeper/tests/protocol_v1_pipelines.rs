//! What pipelines added to version 1 of the keeper's protocol, as recorded bytes; like those of the rest they stay.
#![allow(clippy::unwrap_used)] // test code

use hostel_journal::ProcessId;
use hostel_keeper::proto::{OnFull, Pin, PipelineTerms, Spawn, Stage, StdinKind, feature, kind, split, tag};

fn spawn() -> Spawn {
    Spawn {
        id: ProcessId([0xA5; 16]),
        label: b"l".to_vec(),
        program: b"/bin/wc".to_vec(),
        argv: vec![b"wc".to_vec()],
        env: vec![b"A=1".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o77,
        nofile: 1024,
        stdin: StdinKind::From,
        quota: 0,
        on_full: OnFull::Hold,
        terms: Some(PipelineTerms {
            stdin_from: Some(ProcessId([0x5A; 16])),
            holds_stdout: true,
            keep_bytes: 16_777_217,
            drain_ms: 250,
            own_cgroup: true,
            limit_tag: 0x4123_4567_89ab_cdef,
            pin: Some(Pin { dev: 1, inode: 2, size: 3, mtime_ns: -4, ctime_ns: 5 }),
            only_if_known: true,
        }),
        execute: None,
        owner: None,
    }
}

const RECORDED: &str = "14010000050000004d00000000000000010010000000a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a50200010000006c0300070000002f62696e2f77630600010000002f0700040000003f0000000800080000000004000000000000090004000000030000000a000800000000000000000000000b0004000000000000003a0004000000010000003b000800000001000001000000003c0008000000fa00000000000000400004000000010000003d0008000000efcdab89674523413e0004000000010000003900100000005a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a3f0028000000010000000000000002000000000000000300000000000000fcffffffffffffff05000000000000000400020000007763050003000000413d31";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_stage_is_said_and_understood_as_it_was() {
    let mut bytes = Vec::new();
    spawn().encode(77, &mut bytes);
    assert_eq!(hex(&bytes), RECORDED);
    let (frame, length) = split(&bytes).unwrap().unwrap();
    assert_eq!((frame.kind, length), (kind::SPAWN, bytes.len()));
    assert_eq!(Spawn::decode(&frame).unwrap(), spawn());
}

#[test]
fn its_numbers_are_what_they_were() {
    let tags = [tag::STDIN_FROM, tag::HOLDS_STDOUT, tag::KEEP_BYTES, tag::DRAIN_MS, tag::LIMIT_TAG, tag::ONLY_IF_KNOWN];
    assert_eq!(tags, [57, 58, 59, 60, 61, 62]);
    assert_eq!((tag::PIN, tag::OWN_CGROUP, feature::PIPELINES), (63, 64, 16));
    assert_eq!((StdinKind::Null.to_wire(), StdinKind::From.to_wire()), (2, 3));
    assert_eq!((Stage::Changed.to_wire(), Stage::Unknown.to_wire()), (5, 6));
}
