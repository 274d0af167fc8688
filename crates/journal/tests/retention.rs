//! Giving up the oldest output of a running process, and listing what lies in a folder.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::os::unix::fs::MetadataExt;

use common::{EXIT, Folder, Recorder, Seen, read_from, read_on};
use hostel_journal::{BLOCK_BYTES, Batch, Cursor, MAX_PAYLOAD, Reader, Stream, Writer, inspect, recover, remove, scan};

fn blocks(folder: &Folder, count: u64) -> Recorder {
    let mut recorder = Recorder::create(folder);
    while recorder.committed() < (count - 1) * BLOCK_BYTES + 1000 {
        recorder.output(Stream::Out, MAX_PAYLOAD);
        recorder.output(Stream::Err, 700);
    }
    recorder
}

/// The items behind what was dropped.
fn kept(recorder: &Recorder, reader: &Reader) -> Vec<Seen> {
    let first = reader.first_seq(recorder.committed()).unwrap();
    recorder.expected(recorder.seen.len(), first - 1)
}

#[test]
fn the_oldest_blocks_go_and_the_rest_stays_readable() {
    let folder = Folder::new();
    let mut recorder = blocks(&folder, 8);
    let reader = folder.reader();
    let on_disk = || std::fs::metadata(folder.file()).unwrap().blocks() * 512;
    let before = on_disk();
    let mut lagging = reader.seek(recorder.committed(), 0).unwrap();
    let mut batch = Batch::with_capacity(0);
    reader.read(&mut lagging, recorder.committed(), &mut batch, hostel_journal::Blocking::Allowed).unwrap();

    let freed = recorder.writer.drop_oldest(3 * BLOCK_BYTES - 5).unwrap();
    assert!(freed > 2 * BLOCK_BYTES && freed <= 3 * BLOCK_BYTES, "{freed}");
    assert!(before - on_disk() > 2 * BLOCK_BYTES);
    let position = recorder.writer.position();
    assert_eq!(position.first_block, 3);
    assert_eq!(position.kept_bytes(), position.committed - 3 * BLOCK_BYTES);

    let first = reader.first_seq(position.committed).unwrap();
    assert!(first > 1);
    let expected = kept(&recorder, &reader);
    assert_eq!(expected[0].seq(), first);
    for after in [0, 1, first - 2, first - 1] {
        assert!(read_from(&reader, position.committed, after, 0) == expected);
    }
    let from_start = read_on(&reader, &mut Cursor::start(0), position.committed, &mut batch);
    assert!(from_start == expected);
    let jumped = read_on(&reader, &mut lagging, position.committed, &mut batch);
    assert!(jumped == expected, "a cursor in a dropped block goes on behind it");
    for after in first..position.next_seq {
        let seen = read_from(&reader, position.committed, after, 0);
        assert!(seen == recorder.expected(recorder.seen.len(), after));
    }

    assert_eq!(reader.meta().unwrap(), common::meta(folder.id, b"label"));
    let path = Reader::open_path(&folder.file()).unwrap();
    assert_eq!(path.id(), folder.id);
    let found = inspect(folder.dir(), folder.id).unwrap();
    assert_eq!((found.position, found.truncated), (position, 0));
}

#[test]
fn the_last_two_blocks_are_never_dropped() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    for count in 1..=5 {
        while recorder.committed() <= (count - 1) * BLOCK_BYTES {
            recorder.output(Stream::Out, MAX_PAYLOAD);
        }
        recorder.writer.drop_oldest(u64::MAX).unwrap();
        let kept = count.saturating_sub(2);
        assert_eq!(recorder.writer.position().first_block, kept);
        assert_eq!(recorder.writer.drop_oldest(u64::MAX).unwrap(), 0);
        assert_eq!(recorder.writer.drop_oldest(0).unwrap(), 0);
    }
    let reader = folder.reader();
    let seen = read_from(&reader, recorder.committed(), 0, 0);
    assert!(seen == kept(&recorder, &reader));
}

#[test]
fn recovery_and_resuming_respect_what_was_dropped() {
    let folder = Folder::new();
    let mut recorder = blocks(&folder, 6);
    recorder.writer.drop_oldest(2 * BLOCK_BYTES).unwrap();
    let position = recorder.writer.position();
    let file = std::fs::OpenOptions::new().write(true).open(folder.file());
    file.unwrap().set_len(position.committed + 3).unwrap();
    let found = recover(folder.dir(), folder.id, &common::KEEPER, 1).unwrap();
    assert_eq!((found.position, found.truncated), (position, 3));
    recorder.writer = Writer::resume(folder.dir(), folder.id, found.position).unwrap();
    recorder.writer.drop_oldest(BLOCK_BYTES).unwrap();
    recorder.output(Stream::Out, 12);
    recorder.exit();
    assert_eq!(recorder.writer.position().first_block, 3);
    let reader = folder.reader();
    assert!(read_from(&reader, recorder.committed(), 0, 0) == kept(&recorder, &reader));
}

#[test]
fn a_reader_that_knows_only_dropped_blocks_finds_nothing_and_then_goes_on() {
    let folder = Folder::new();
    let mut recorder = blocks(&folder, 3);
    let reader = folder.reader();
    let old = recorder.committed();
    while recorder.committed() < 7 * BLOCK_BYTES {
        recorder.output(Stream::Out, MAX_PAYLOAD);
    }
    recorder.writer.drop_oldest(u64::MAX).unwrap();
    let mut cursor = reader.seek(old, 0).unwrap();
    let mut batch = Batch::default();
    assert_eq!(read_on(&reader, &mut cursor, old, &mut batch), []);
    let seen = read_on(&reader, &mut cursor, recorder.committed(), &mut batch);
    assert!(seen == kept(&recorder, &reader));
}

#[test]
fn a_folder_lists_its_journals_and_nothing_else() {
    let folder = Folder::new();
    assert_eq!(scan(folder.dir()).unwrap(), []);
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, MAX_PAYLOAD);
    let other = hostel_journal::ProcessId::random().unwrap();
    let mut second = Writer::create(folder.dir(), &common::meta(other, b""), 1).unwrap();
    second.append_exit(&EXIT, 2).unwrap();
    let path = folder.path.path();
    std::fs::write(path.join("CACHEDIR.TAG"), "x").unwrap();
    std::fs::write(path.join("short.j"), "x").unwrap();
    let odd = |byte: u8| hostel_journal::ProcessId([byte; 16]).file_name();
    std::fs::create_dir(path.join(odd(1))).unwrap();
    std::os::unix::fs::symlink("CACHEDIR.TAG", path.join(odd(2))).unwrap();

    let found = scan(folder.dir()).unwrap();
    let mut ids: Vec<_> = found.iter().map(|info| info.id).collect();
    let mut expected = vec![folder.id, other];
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
    for info in found {
        let stat = std::fs::metadata(path.join(info.id.file_name())).unwrap();
        assert_eq!(info.bytes_on_disk, stat.blocks() * 512);
        let changed = stat.mtime() as u64 * 1_000_000_000 + stat.mtime_nsec() as u64;
        assert_eq!(info.modified_ns, changed);
    }
    remove(folder.dir(), other).unwrap();
    assert_eq!(scan(folder.dir()).unwrap().len(), 1);
    assert!(remove(folder.dir(), other).is_err());
}
