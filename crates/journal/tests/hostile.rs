//! Files with any content: reading, seeking and recovering give an answer or an error, never a panic or an endless loop.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use common::{Folder, Recorder, meta};
use hostel_journal::format::{BlockHeader, FormatError, Kind, Mark, RecordHeader, decode_lost, stored_len};
use hostel_journal::{
    BLOCK_BYTES, Batch, Blocking, Cursor, Exit, Fill, MAX_PAYLOAD, Meta, Note, Position, ProcessId, Reader, Stream,
    inspect_fd, recover,
};
use proptest::prelude::*;

/// Reads whatever there is, in every way, with a bound on the number of steps.
fn exercise(folder: &Folder, committed: u64) {
    let Ok(reader) = Reader::open(folder.dir(), folder.id) else {
        return;
    };
    let size = std::fs::metadata(folder.file()).unwrap().len();
    drop(reader.meta());
    drop(reader.first_seq(committed));
    drop(inspect_fd(reader.as_fd()));
    let mut batch = Batch::with_capacity(0);
    for after in [0, 1, 77, u64::MAX - 1, u64::MAX] {
        let mut cursors = vec![Cursor::start(after)];
        cursors.extend(reader.seek(committed, after));
        for mut cursor in cursors {
            let mut rounds = 0;
            let mut last = after;
            while let Ok(Fill::Items) = reader.read(&mut cursor, committed, &mut batch, Blocking::Allowed) {
                rounds += 1;
                assert!(rounds <= size / 40 + 1, "more reads than records fit the file");
                for item in batch.items() {
                    assert!(item.seq() >= last);
                    assert!(item.seq() > after);
                    last = item.seq();
                }
            }
        }
    }
    if let Ok(found) = recover(folder.dir(), folder.id, &[9; 16], 1) {
        let again = recover(folder.dir(), folder.id, &[9; 16], 2).unwrap();
        assert_eq!(again.position, found.position);
        assert_eq!((again.truncated, again.lost_appended), (0, false));
        assert!(found.end.is_some());
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Out),
        Just(Kind::Err),
        Just(Kind::Exit),
        Just(Kind::Lost),
        Just(Kind::Meta),
        Just(Kind::Mark),
        Just(Kind::Note),
        (8..=u8::MAX).prop_map(Kind::Unknown),
    ]
}

fn odd_numbers() -> impl Strategy<Value = u64> {
    prop_oneof![0..5u64, Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
}

/// A record with a right checksum and any content.
fn records() -> impl Strategy<Value = (RecordHeader, usize)> {
    let len = prop_oneof![0..100u32, Just(MAX_PAYLOAD as u32), any::<u32>()];
    (len, kinds(), odd_numbers(), any::<u64>(), 0..3000usize).prop_map(|(len, kind, seq, time_ns, stored)| {
        let header = RecordHeader { len, kind, flags: 0, seq, time_ns, payload_sum: 0 };
        let honest = stored_len(len as usize);
        (header, if honest < 5000 { honest } else { stored.next_multiple_of(8) + 32 })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn decoders_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Exit::decode(&bytes).is_ok(), bytes.len() >= 40);
        prop_assert_eq!(Mark::decode(&bytes).is_ok(), bytes.len() >= 20);
        prop_assert_eq!(decode_lost(&bytes).is_ok(), bytes.len() >= 4);
        prop_assert_eq!(Position::from_bytes(&bytes).is_ok(), bytes.len() >= Position::BYTES);
        prop_assert!(Note::decode(&bytes).is_err() || bytes.len() >= 8);
        prop_assert!(Meta::decode(&bytes).is_err() || bytes.len() >= 72);
        if let Ok(header) = BlockHeader::decode(&bytes) {
            prop_assert_eq!(&header.encode()[8..56], &bytes[8..56]);
        }
        if let Ok(header) = RecordHeader::decode(&bytes) {
            prop_assert_eq!(&header.encode()[..], &bytes[..32]);
        }
    }

    #[test]
    fn headers_round_trip((record, _) in records(), fields in prop::array::uniform6(any::<u64>())) {
        match RecordHeader::decode(&record.encode()) {
            Ok(decoded) => prop_assert_eq!(decoded, record),
            Err(FormatError::PayloadLength | FormatError::Value) => {}
            Err(other) => prop_assert!(false, "{:?}", other),
        }
        let [block_no, next_seq, out_bytes, err_bytes, file_id_low, time_ns] = fields;
        let block = BlockHeader { flags: 0, block_no, next_seq, out_bytes, err_bytes, file_id_low, time_ns };
        prop_assert_eq!(BlockHeader::decode(&block.encode()), Ok(block));
    }

    #[test]
    fn any_content(bytes in prop::collection::vec(any::<u8>(), 0..4000), committed in odd_numbers()) {
        let folder = Folder::new();
        std::fs::write(folder.file(), &bytes).unwrap();
        exercise(&folder, committed);
        exercise(&folder, bytes.len() as u64);
    }

    #[test]
    fn well_sealed_nonsense(
        blocks in prop::collection::vec((odd_numbers(), prop::collection::vec(records(), 0..8)), 1..4),
        committed in odd_numbers(),
        honest_meta in any::<bool>(),
    ) {
        let folder = Folder::new();
        let file = std::fs::File::create(folder.file()).unwrap();
        for (block_no, (next_seq, records)) in (0..).zip(&blocks) {
            let [a, b, c, d, e, f, g, h, ..] = folder.id.0;
            let mut bytes = BlockHeader {
                flags: 0,
                block_no,
                next_seq: *next_seq,
                out_bytes: u64::MAX,
                err_bytes: 0,
                file_id_low: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                time_ns: 0,
            }.encode().to_vec();
            if block_no == 0 && honest_meta {
                let payload = meta(folder.id, b"").encode();
                let len = payload.len() as u32;
                bytes.extend(RecordHeader { len, kind: Kind::Meta, flags: 0, seq: *next_seq, time_ns: 0, payload_sum: 0 }.encode());
                bytes.extend(payload);
            }
            for (header, stored) in records {
                let end = bytes.len() + stored;
                bytes.extend(header.encode());
                bytes.resize(end.max(bytes.len()), 0x41);
            }
            file.write_all_at(&bytes, block_no * BLOCK_BYTES).unwrap();
        }
        let size = file.metadata().unwrap().len();
        exercise(&folder, committed);
        exercise(&folder, size);
    }

    #[test]
    fn a_journal_with_changed_bytes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_the_front in any::<bool>(),
    ) {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        for turn in 0..14 {
            recorder.output(Stream::Out, if turn % 2 == 0 { MAX_PAYLOAD } else { 30_000 });
            recorder.mark(turn);
        }
        let committed = recorder.committed();
        let file = std::fs::OpenOptions::new().write(true).open(folder.file()).unwrap();
        for (at, byte) in changes {
            let at = if near_the_front { at.index(500) } else { at.index(committed as usize) };
            file.write_all_at(&[byte], at as u64).unwrap();
        }
        exercise(&folder, committed);
    }
}

#[test]
fn a_sparse_file_of_the_largest_size_is_refused_quickly() {
    let folder = Folder::new();
    let recorder = Recorder::create(&folder);
    let file = std::fs::OpenOptions::new().write(true).open(folder.file()).unwrap();
    // As large as the file system allows, up to 8 EiB.
    let size = (40..63).rev().map(|power| 1_u64 << power).find(|&size| file.set_len(size).is_ok());
    let size = size.unwrap();
    assert!(recover(folder.dir(), folder.id, &[9; 16], 1).is_err());
    let reader = folder.reader();
    assert_eq!(reader.meta().unwrap().id, folder.id);
    assert!(reader.seek(size, 5).is_ok());
    assert_eq!(reader.first_seq(recorder.committed()).unwrap(), 0);
}

#[test]
fn an_empty_folder_and_an_empty_file_are_errors() {
    let folder = Folder::new();
    assert!(Reader::open(folder.dir(), folder.id).is_err());
    std::fs::write(folder.file(), b"").unwrap();
    assert!(Reader::open_path(&folder.file()).is_err());
    let reader = folder.reader();
    let mut batch = Batch::default();
    let fill = reader.read(&mut Cursor::start(0), 0, &mut batch, Blocking::Allowed);
    assert_eq!(fill.unwrap(), Fill::Empty);
    let fill = reader.read(&mut Cursor::start(0), 100, &mut batch, Blocking::Allowed);
    assert!(fill.is_err());
    let other = ProcessId([0; 16]);
    assert!(recover(folder.dir(), other, &[0; 16], 1).is_err());
}
