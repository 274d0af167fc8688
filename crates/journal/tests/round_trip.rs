//! What is written is what every cursor reads, from every place and up to every committed offset.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use common::{Folder, Recorder, Seen, read_from, read_on};
use hostel_journal::{BLOCK_BYTES, Batch, Cursor, FRAME_BYTES, MAX_PAYLOAD, Note, Reader, Stream, Writer};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Output(Stream, usize),
    /// As many bytes as fit best, the way a pump reads.
    Fill(Stream),
    Mark(u64),
    Note(Note),
}

fn streams() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Out), Just(Stream::Err)]
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1..200usize,
        2 => FRAME_BYTES - 2..FRAME_BYTES + 3,
        1 => 2 * FRAME_BYTES - 2..2 * FRAME_BYTES + 3,
        2 => 1..=MAX_PAYLOAD,
        2 => Just(MAX_PAYLOAD),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (streams(), lengths()).prop_map(|(stream, len)| Step::Output(stream, len)),
        3 => streams().prop_map(Step::Fill),
        1 => any::<u64>().prop_map(Step::Mark),
        1 => prop_oneof![
            any::<u32>().prop_map(Note::Held),
            Just(Note::Resumed),
            any::<i32>().prop_map(Note::Signal),
        ].prop_map(Step::Note),
    ]
}

fn perform(recorder: &mut Recorder, step: &Step) {
    match *step {
        Step::Output(stream, len) => recorder.output(stream, len),
        Step::Fill(stream) => {
            let room = recorder.writer.room();
            assert!((1..=MAX_PAYLOAD).contains(&room));
            recorder.output(stream, room);
        }
        Step::Mark(mark) => recorder.mark(mark),
        Step::Note(note) => recorder.note(note),
    }
}

/// Bytes of one stream.
fn printed(seen: &[Seen], stream: Stream) -> u64 {
    let of_stream = |seen: &Seen| match seen {
        Seen::Output(of, _, _, data) if *of == stream => data.len() as u64,
        _ => 0,
    };
    seen.iter().map(of_stream).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn every_cursor_sees_the_same_items(
        script in prop::collection::vec(steps(), 1..60),
        ends in any::<bool>(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..300_000usize), 12),
    ) {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        for step in &script {
            perform(&mut recorder, step);
        }
        if ends {
            recorder.exit();
        }
        let reader = folder.reader();
        let committed = recorder.committed();
        prop_assert_eq!(std::fs::metadata(folder.file()).unwrap().len(), committed);
        let everything = read_from(&reader, committed, 0, 0);
        prop_assert_eq!(&everything, &recorder.seen);
        let totals = reader.totals(committed).unwrap();
        for stream in [Stream::Out, Stream::Err] {
            prop_assert_eq!(totals.of(stream), printed(&everything, stream));
        }

        let last = recorder.writer.position().next_seq;
        for (prefix, after, window) in picks {
            let (position, items) = *prefix.get(&recorder.steps);
            // Now and then behind everything there is.
            let after = after.index(last as usize + 2) as u64;
            let seen = read_from(&reader, position.committed, after, window);
            prop_assert_eq!(seen, recorder.expected(items, after));
        }
    }

    #[test]
    fn a_cursor_follows_a_growing_journal(
        script in prop::collection::vec(steps(), 1..40),
        window in 0..300_000usize,
        torn in any::<bool>(),
    ) {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        let reader = folder.reader();
        let mut cursor = Cursor::start(0);
        let mut batch = Batch::with_capacity(window);
        let mut seen = Vec::new();
        for step in &script {
            let before = recorder.committed();
            perform(&mut recorder, step);
            if torn {
                // An offset inside a record shows nothing of that record.
                let inside = (before + recorder.committed()) / 2;
                let count = seen.len();
                seen.extend(read_on(&reader, &mut cursor, inside, &mut batch));
                prop_assert_eq!(seen.len(), count);
            }
            seen.extend(read_on(&reader, &mut cursor, recorder.committed(), &mut batch));
            prop_assert_eq!(seen.len(), recorder.seen.len());
        }
        prop_assert_eq!(seen, recorder.seen);
    }
}

/// Some blocks with records of every kind of size.
fn long_journal(folder: &Folder) -> Recorder {
    let mut recorder = Recorder::create(folder);
    let mut turn = 0;
    while recorder.committed() < 5 * BLOCK_BYTES + 1000 {
        turn += 1;
        let stream = if turn % 3 == 0 { Stream::Err } else { Stream::Out };
        let len = match turn % 4 {
            0 => MAX_PAYLOAD,
            1 => 100,
            2 => 40_000,
            _ => recorder.writer.room(),
        };
        recorder.output(stream, len);
        if turn % 5 == 0 {
            recorder.mark(turn);
        }
    }
    recorder.exit();
    recorder
}

#[test]
fn every_number_can_be_sought() {
    let folder = Folder::new();
    let recorder = long_journal(&folder);
    let reader = folder.reader();
    let last = recorder.writer.position().next_seq - 1;
    assert_eq!(reader.first_seq(recorder.committed()).unwrap(), 1);
    for after in 0..=last + 1 {
        let seen = read_from(&reader, recorder.committed(), after, 0);
        assert_eq!(seen, recorder.expected(recorder.seen.len(), after));
    }
    let far = read_from(&reader, recorder.committed(), u64::MAX, 0);
    assert_eq!(far, []);
}

#[test]
fn totals_count_each_stream() {
    let folder = Folder::new();
    let recorder = long_journal(&folder);
    let mut totals = (0, 0);
    for item in &recorder.seen {
        match item {
            common::Seen::Output(Stream::Out, .., data) => totals.0 += data.len() as u64,
            common::Seen::Output(Stream::Err, .., data) => totals.1 += data.len() as u64,
            common::Seen::Other(..) => {}
        }
    }
    let position = recorder.writer.position();
    assert_eq!((position.out_bytes, position.err_bytes), totals);
    assert_eq!(hostel_journal::Position::from_bytes(&position.to_bytes()), Ok(position));
}

#[test]
fn a_mark_at_the_end_of_a_block_belongs_to_the_next_number() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    // Leave room for exactly one mark (56 bytes) before the block ends.
    while BLOCK_BYTES - recorder.committed() > MAX_PAYLOAD as u64 + 200 {
        recorder.output(Stream::Out, MAX_PAYLOAD);
    }
    let rest = (BLOCK_BYTES - recorder.committed()) as usize;
    recorder.output(Stream::Out, rest - 56 - 32);
    recorder.mark(9);
    assert_eq!(recorder.committed(), BLOCK_BYTES);
    recorder.output(Stream::Out, 10);

    let next = recorder.writer.position().next_seq;
    let reader = folder.reader();
    let seen = read_from(&reader, recorder.committed(), next - 2, 0);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen, recorder.expected(recorder.seen.len(), next - 2));
}

#[test]
fn room_fills_a_block_to_its_last_byte() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    while recorder.committed() < BLOCK_BYTES {
        let room = recorder.writer.room();
        recorder.output(Stream::Out, room);
    }
    assert_eq!(recorder.committed(), BLOCK_BYTES);
    assert_eq!(recorder.writer.room(), MAX_PAYLOAD);
    recorder.output(Stream::Out, 1);
    assert_eq!(recorder.committed(), BLOCK_BYTES + 64 + 40);
    let seen = read_from(&folder.reader(), recorder.committed(), 0, 0);
    assert_eq!(seen, recorder.seen);
}

#[test]
fn a_record_that_does_not_fit_begins_the_next_block() {
    // Every rest of a block from 0 to 160 bytes, then an exit record, which cannot be cut.
    for rest in (0..=160).step_by(8) {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        while BLOCK_BYTES - recorder.committed() > MAX_PAYLOAD as u64 + 400 {
            recorder.output(Stream::Out, MAX_PAYLOAD);
        }
        let left = (BLOCK_BYTES - recorder.committed()) as usize;
        recorder.output(Stream::Out, left - rest - 32);
        assert_eq!(recorder.committed(), BLOCK_BYTES - rest as u64);
        recorder.exit();
        assert_eq!(recorder.committed() > BLOCK_BYTES, rest < 72);
        let seen = read_from(&folder.reader(), recorder.committed(), 0, 0);
        assert_eq!(seen, recorder.seen);
        let found = hostel_journal::inspect(folder.dir(), folder.id).unwrap();
        assert_eq!(found.position, recorder.writer.position());
        assert_eq!(found.truncated, 0);
    }
}

#[test]
fn numbers_begin_with_the_first_output() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    let reader = Reader::open_path(&folder.file()).unwrap();
    assert_eq!(reader.id(), folder.id);
    assert_eq!(reader.meta().unwrap(), common::meta(folder.id, b"label"));
    assert_eq!(reader.first_seq(0).unwrap(), 0);
    assert_eq!(reader.first_seq(recorder.committed()).unwrap(), 0);
    recorder.mark(1);
    assert_eq!(reader.first_seq(recorder.committed()).unwrap(), 0);
    recorder.output(Stream::Err, 1);
    assert_eq!(reader.first_seq(recorder.committed()).unwrap(), 1);
}

#[test]
fn a_cold_file_asks_for_a_waiting_read_and_then_gives_everything() {
    let folder = Folder::new();
    let recorder = long_journal(&folder);
    let reader = folder.reader();
    rustix::fs::fdatasync(&recorder.writer).unwrap();
    rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // `read_on` asks without waiting first and accepts only items or "would block".
    let seen = read_from(&reader, recorder.committed(), 0, 1 << 20);
    assert_eq!(seen, recorder.seen);
}

#[test]
fn writing_goes_on_after_the_descriptor_was_closed() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, 100);
    let position = recorder.writer.position();
    // Bytes of an interrupted write are cut off.
    let file = std::fs::OpenOptions::new().append(true).open(folder.file());
    std::io::Write::write_all(&mut file.unwrap(), b"torn").unwrap();
    recorder.writer = Writer::resume(folder.dir(), folder.id, position).unwrap();
    recorder.output(Stream::Err, MAX_PAYLOAD);
    let fd = std::mem::replace(&mut recorder.writer, Writer::resume(folder.dir(), folder.id, position).unwrap());
    // Resuming at the older position took the last record back.
    assert_eq!(std::fs::metadata(folder.file()).unwrap().len(), position.committed);
    drop(fd);
    recorder.seen.truncate(1);
    recorder.output(Stream::Err, 77);
    assert_eq!(recorder.writer.position().err_bytes, 77);
    let seen = read_from(&folder.reader(), recorder.committed(), 0, 0);
    assert_eq!(seen, recorder.seen);
}
