//! Checking a whole journal, and records that only a newer program knows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use common::{Folder, OTHER_KEEPER, Recorder, read_from};
use hostel_journal::format::{Kind, RecordHeader};
use hostel_journal::{BLOCK_BYTES, EndKind, Stream, Verified, inspect, recover, verify};

fn verified(folder: &Folder) -> Verified {
    verify(File::open(folder.file()).unwrap().as_fd()).unwrap()
}

fn flip(folder: &Folder, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(folder.file()).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

#[test]
fn a_flipped_bit_in_a_payload_is_found_where_it_is() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, 1000);
    let at = recorder.writer.position().committed;
    recorder.output(Stream::Out, 200_000);
    for _ in 0..12 {
        recorder.output(Stream::Err, 200_000);
    }
    recorder.exit();
    let whole = verified(&folder);
    assert_eq!((whole.faults.as_slice(), whole.unfinished_bytes, whole.has_end), ([].as_slice(), 0, true));
    assert_eq!((whole.records, whole.without_sum), (16, 0));
    flip(&folder, at + 32 + 150_000);
    flip(&folder, BLOCK_BYTES + 64 + 32 + 5);
    let damaged = verified(&folder);
    assert_eq!(damaged.faults.iter().map(|fault| fault.offset).collect::<Vec<_>>(), [at, BLOCK_BYTES + 64]);
    assert!(damaged.faults.iter().all(|fault| fault.what.contains("checksum")));
    assert_eq!(damaged.records, 16);
    // It can be read all the same.
    assert_eq!(inspect(folder.dir(), folder.id).unwrap().position, recorder.writer.position());
}

#[test]
fn a_journal_of_an_earlier_version_has_no_sums_and_no_faults() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, 6);
    recorder.exit();
    // As it was written before: no flag, and zeros where the checksum is.
    let mut bytes = std::fs::read(folder.file()).unwrap();
    let mut at = 64;
    while at < bytes.len() {
        let header = RecordHeader::decode(&bytes[at..]).unwrap();
        let old = RecordHeader { flags: 0, payload_sum: 0, ..header };
        bytes[at..at + 32].copy_from_slice(&old.encode());
        at += header.stored_len();
    }
    std::fs::write(folder.file(), &bytes).unwrap();
    let found = verified(&folder);
    assert_eq!((found.faults.as_slice(), found.records, found.without_sum), ([].as_slice(), 3, 3));
    assert_eq!(read_from(&folder.reader(), recorder.writer.position().committed, 0, 4096).len(), 2);
}

#[test]
fn recovery_passes_over_records_of_a_newer_program_and_cuts_nothing() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, 6);
    let position = recorder.writer.position();
    let header =
        RecordHeader { len: 5, kind: Kind::Unknown(77), flags: 0, seq: position.next_seq, time_ns: 1, payload_sum: 0 };
    let mut tail = header.encode().to_vec();
    tail.extend([1, 2, 3, 4, 5, 0, 0, 0]);
    let known = RecordHeader { kind: Kind::Out, ..header }.summed(b"after");
    tail.extend(known.encode());
    tail.extend(b"after\0\0\0");
    OpenOptions::new().write(true).open(folder.file()).unwrap().write_all_at(&tail, position.committed).unwrap();
    let size = std::fs::metadata(folder.file()).unwrap().len();
    let found = recover(folder.dir(), folder.id, &OTHER_KEEPER, 9).unwrap();
    assert_eq!((found.truncated, found.lost_appended), (0, true));
    assert!(matches!(found.end.unwrap().kind, EndKind::Lost(_)));
    assert!(std::fs::metadata(folder.file()).unwrap().len() > size);
    let bytes = std::fs::read(folder.file()).unwrap();
    assert_eq!(bytes[position.committed as usize..size as usize], tail);
}
