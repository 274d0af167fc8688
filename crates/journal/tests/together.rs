//! One writer and several readers at the same time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{EXIT, Folder, meta, pattern};
use hostel_journal::{
    BLOCK_BYTES, Batch, Blocking, Cursor, FRAME_BYTES, Fill, HEADROOM, Item, MAX_PAYLOAD, Reader, Stream, TAILROOM,
    Writer,
};

/// Writes records of all sizes, frame by frame recognizable by their number, and an exit record.
fn write(mut writer: Writer, committed: &AtomicU64, blocks: u64, keep: Option<u64>) -> u64 {
    let mut buffer = vec![0; HEADROOM + MAX_PAYLOAD + TAILROOM];
    let mut turn = 0_usize;
    while writer.position().committed < blocks * BLOCK_BYTES {
        turn += 1;
        let len = match turn % 7 {
            0 => MAX_PAYLOAD,
            1 | 2 => 90,
            3 => FRAME_BYTES + 1,
            _ => 20_000,
        }
        .min(writer.room());
        let first = writer.position().next_seq;
        let frames = buffer[HEADROOM..HEADROOM + len].chunks_mut(FRAME_BYTES);
        for (seq, frame) in (first..).zip(frames) {
            frame.copy_from_slice(&pattern(seq, frame.len()));
        }
        let stream = if turn.is_multiple_of(2) { Stream::Out } else { Stream::Err };
        writer.append_output(stream, &mut buffer, len, 1).unwrap();
        if turn.is_multiple_of(5) {
            writer.append_mark(first, 0, 0, 1).unwrap();
        }
        committed.store(writer.position().committed, Ordering::Release);
        if let Some(keep) = keep {
            let surplus = writer.position().kept_bytes().saturating_sub(keep);
            writer.drop_oldest(surplus).unwrap();
        }
    }
    let seq = writer.append_exit(&EXIT, 2).unwrap();
    committed.store(writer.position().committed, Ordering::Release);
    seq
}

/// Follows the journal to its exit record; every frame must be whole. Returns the last number and how many were missing.
fn follow(reader: &Reader, committed: &AtomicU64, window: usize, again: bool) -> (u64, u64) {
    let mut cursor = Cursor::start(0);
    let mut batch = Batch::with_capacity(window);
    let (mut last, mut missing) = (0, 0);
    loop {
        let limit = committed.load(Ordering::Acquire);
        let mut fill = reader.read(&mut cursor, limit, &mut batch, Blocking::Never).unwrap();
        if fill == Fill::WouldBlock {
            fill = reader.read(&mut cursor, limit, &mut batch, Blocking::Allowed).unwrap();
        }
        if fill != Fill::Items {
            std::thread::yield_now();
            continue;
        }
        for item in batch.items() {
            match item {
                Item::Output { seq, data, .. } => {
                    assert!(seq > last);
                    missing += seq - last - 1;
                    last = seq;
                    assert!(data == pattern(seq, data.len()), "frame {seq} is not whole");
                }
                Item::Exit { seq, exit, .. } => {
                    assert_eq!(exit, EXIT);
                    return (seq, missing + seq - last - 1);
                }
                Item::Mark { seq, .. } => assert!(seq > last),
                other => panic!("never written: {other:?}"),
            }
        }
        if again {
            // As a client that comes back: a new cursor behind what it has seen.
            cursor = reader.seek(limit, last).unwrap();
        }
    }
}

fn run(blocks: u64, keep: Option<u64>) -> Vec<(u64, u64)> {
    let folder = Folder::new();
    let writer = Writer::create(folder.dir(), &meta(folder.id, b""), 1).unwrap();
    let committed = AtomicU64::new(writer.position().committed);
    let (committed, folder) = (&committed, &folder);
    std::thread::scope(|scope| {
        let readers = [(4_000, false), (100_000, true), (1 << 20, false)];
        let readers =
            readers.map(|(window, again)| scope.spawn(move || follow(&folder.reader(), committed, window, again)));
        let exit = scope.spawn(move || write(writer, committed, blocks, keep));
        let exit = exit.join().unwrap();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        for (seq, _) in &results {
            assert_eq!(*seq, exit);
        }
        results
    })
}

#[test]
fn three_readers_follow_a_writer_without_a_gap() {
    for (_, missing) in run(12, None) {
        assert_eq!(missing, 0);
    }
}

#[test]
fn readers_that_are_overtaken_see_gaps_but_never_broken_frames() {
    for (seq, missing) in run(120, Some(2 * BLOCK_BYTES)) {
        assert!(missing < seq, "not even the kept end was seen");
    }
}
