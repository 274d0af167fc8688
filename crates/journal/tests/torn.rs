//! A writer killed in the middle of a write, and bytes that changed on disk: what is left is a correct prefix.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use common::{EXIT, Folder, KEEPER, OTHER_KEEPER, Recorder, Seen, read_from};
use hostel_journal::{
    BLOCK_BYTES, EndKind, LOST_KEEPER_ENDED, MAX_PAYLOAD, Note, Position, Stream, Writer, inspect, recover,
};

/// A journal, its last whole position and the bytes of its last write.
struct Torn {
    folder: Folder,
    recorder: Recorder,
    before: Position,
    items_before: usize,
    tail: Vec<u8>,
}

impl Torn {
    fn new(write: impl FnOnce(&mut Recorder)) -> Self {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        write(&mut recorder);
        let [.., (before, items_before), _] = recorder.steps[..] else {
            panic!("the test wrote nothing");
        };
        let bytes = std::fs::read(folder.file()).unwrap();
        let tail = bytes[before.committed as usize..].to_vec();
        Self { folder, recorder, before, items_before, tail }
    }

    /// Puts the file into the state before the last write, followed by `tail`.
    fn lay_out(&self, tail: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.folder.file());
        let file = file.unwrap();
        file.set_len(self.before.committed).unwrap();
        file.write_all_at(tail, self.before.committed).unwrap();
    }

    /// Recovery must find the state before the last write, and say that the process is lost.
    fn assert_last_write_is_undone(&self, tail: &[u8], case: &str) {
        let Folder { id, .. } = self.folder;
        let dir = self.folder.dir();
        self.lay_out(tail);
        let found = inspect(dir, id).unwrap();
        assert_eq!(found.position, self.before, "{case}");
        assert_eq!(found.end, None, "{case}");
        assert_eq!(found.truncated, tail.len() as u64, "{case}");

        // The same keeper, as after an upgrade: cut, but not lost.
        let kept = recover(dir, id, &KEEPER, 77).unwrap();
        assert_eq!((kept.position, kept.end, kept.lost_appended), (self.before, None, false));
        let len = std::fs::metadata(self.folder.file()).unwrap().len();
        assert_eq!(len, self.before.committed, "{case}");

        self.lay_out(tail);
        let lost = recover(dir, id, &OTHER_KEEPER, 78).unwrap();
        let end = lost.end.unwrap();
        assert!(lost.lost_appended, "{case}");
        assert_eq!((end.seq, end.time_ns), (self.before.next_seq, 78), "{case}");
        assert_eq!(end.kind, EndKind::Lost(LOST_KEEPER_ENDED), "{case}");
        assert_eq!(lost.position.next_seq, self.before.next_seq + 1, "{case}");

        let mut expected = self.recorder.seen[..self.items_before].to_vec();
        let text = format!("lost {LOST_KEEPER_ENDED}");
        expected.push(Seen::Other(self.before.next_seq, 78, text));
        let seen = read_from(&self.folder.reader(), lost.position.committed, 0, 1 << 20);
        assert!(seen == expected, "{case}: other items");

        let again = recover(dir, id, &OTHER_KEEPER, 79).unwrap();
        assert_eq!(again.position, lost.position, "{case}");
        assert_eq!(again.end, lost.end, "{case}");
        assert_eq!((again.truncated, again.lost_appended), (0, false), "{case}");
    }

    fn assert_every_cut_undoes_the_last_write(&self) {
        for cut in 0..self.tail.len() {
            self.assert_last_write_is_undone(&self.tail[..cut], &format!("cut at {cut}"));
        }
        self.lay_out(&self.tail);
        let whole = inspect(self.folder.dir(), self.folder.id).unwrap();
        assert_eq!(whole.position, self.recorder.writer.position());
        assert_eq!(whole.truncated, 0);
    }
}

/// Fills the first block until exactly `rest` bytes of it are left.
fn fill_block(recorder: &mut Recorder, rest: u64) {
    while BLOCK_BYTES - recorder.committed() > MAX_PAYLOAD as u64 + 400 {
        recorder.output(Stream::Out, MAX_PAYLOAD);
    }
    let left = BLOCK_BYTES - recorder.committed() - rest;
    recorder.output(Stream::Err, left as usize - 32);
    assert_eq!(recorder.committed(), BLOCK_BYTES - rest);
}

#[test]
fn output_cut_at_every_byte() {
    Torn::new(|recorder| {
        recorder.output(Stream::Out, 50);
        recorder.note(Note::Held(1));
        recorder.output(Stream::Err, 101);
    })
    .assert_every_cut_undoes_the_last_write();
}

#[test]
fn output_of_several_frames_cut_at_every_page() {
    let torn = Torn::new(|recorder| {
        recorder.output(Stream::Out, 5);
        recorder.output(Stream::Out, MAX_PAYLOAD);
    });
    for cut in (0..torn.tail.len()).step_by(4096) {
        torn.assert_last_write_is_undone(&torn.tail[..cut], &format!("cut at {cut}"));
    }
}

#[test]
fn exit_cut_at_every_byte() {
    let torn = Torn::new(|recorder| {
        recorder.output(Stream::Out, 50);
        recorder.mark(4);
        recorder.exit();
    });
    torn.assert_every_cut_undoes_the_last_write();
    // Whole, it is the end, and nothing is lost.
    let found = recover(torn.folder.dir(), torn.folder.id, &OTHER_KEEPER, 1).unwrap();
    assert_eq!(found.end.unwrap().kind, EndKind::Exit(EXIT));
    assert!(!found.lost_appended);
    assert_eq!(found.meta, common::meta(torn.folder.id, b"label"));
}

#[test]
fn first_record_of_a_block_cut_at_every_byte() {
    for rest in [0, 8, 32, 40, 64] {
        Torn::new(|recorder| {
            fill_block(recorder, rest);
            // Longer than the rest of the block, so that it begins the next one.
            recorder.output(Stream::Out, 33);
            assert!(recorder.committed() > BLOCK_BYTES);
        })
        .assert_every_cut_undoes_the_last_write();
    }
}

#[test]
fn every_changed_byte_of_a_header_ends_the_journal_there() {
    let torn = Torn::new(|recorder| {
        recorder.output(Stream::Out, 50);
        recorder.output(Stream::Err, 101);
    });
    for at in 0..32 {
        for flip in [1, 0x80, 0xff] {
            let mut tail = torn.tail.clone();
            tail[at] ^= flip;
            torn.assert_last_write_is_undone(&tail, &format!("byte {at} changed by {flip}"));
        }
    }
}

#[test]
fn every_changed_byte_of_a_block_header_ends_the_journal_before_it() {
    let torn = Torn::new(|recorder| {
        fill_block(recorder, 40);
        recorder.output(Stream::Out, 33);
    });
    let gap = 40;
    for at in gap..gap + 64 + 32 {
        let mut tail = torn.tail.clone();
        tail[at] ^= 0x10;
        torn.assert_last_write_is_undone(&tail, &format!("byte {at} changed"));
    }
}

#[test]
fn a_header_forged_by_the_process_itself_is_never_believed() {
    // Output that looks exactly like the record that would come next, cut off in the middle.
    let forged = Torn::new(Recorder::exit).tail;
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    let before = recorder.writer.position();
    let mut buffer = vec![0; hostel_journal::HEADROOM];
    for _ in 0..20 {
        buffer.extend_from_slice(&forged);
    }
    let len = buffer.len() - hostel_journal::HEADROOM;
    buffer.extend_from_slice(&[0; hostel_journal::TAILROOM]);
    recorder.writer.append_output(Stream::Out, &mut buffer, len, 1).unwrap();
    let file = OpenOptions::new().write(true).open(folder.file()).unwrap();
    for cut in 1..len as u64 {
        file.set_len(recorder.committed() - cut).unwrap();
        let found = inspect(folder.dir(), folder.id).unwrap();
        assert_eq!((found.position, found.end), (before, None), "{cut} bytes cut");
    }
}

#[test]
fn a_journal_whose_creation_was_interrupted_is_refused() {
    let folder = Folder::new();
    let committed = Recorder::create(&folder).committed();
    let file = OpenOptions::new().write(true).open(folder.file()).unwrap();
    for len in (0..committed).rev() {
        file.set_len(len).unwrap();
        let error = recover(folder.dir(), folder.id, &OTHER_KEEPER, 1);
        // Where only padding is missing META can be read, but the record is still not whole.
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::InvalidData, "{len}");
        assert_eq!(file.metadata().unwrap().len(), len, "a refused file is left alone");
    }
}

#[test]
fn a_journal_of_another_process_is_refused() {
    let folder = Folder::new();
    let recorder = Recorder::create(&folder);
    let other = hostel_journal::ProcessId::random().unwrap();
    let renamed = folder.path.path().join(other.file_name());
    std::fs::rename(folder.file(), renamed).unwrap();
    assert!(recover(folder.dir(), other, &KEEPER, 1).is_err());
    assert!(Writer::resume(folder.dir(), other, recorder.writer.position()).is_err());
    let reader = hostel_journal::Reader::open(folder.dir(), other).unwrap();
    assert!(reader.meta().is_err());
    assert!(reader.seek(recorder.committed(), 0).is_err());
}

#[test]
fn writing_goes_on_where_recovery_ended() {
    let mut torn = Torn::new(|recorder| {
        fill_block(recorder, 40);
        recorder.output(Stream::Out, 33);
    });
    torn.lay_out(&torn.tail[..40 + 64 + 20]);
    let (dir, id) = (torn.folder.dir(), torn.folder.id);
    let found = recover(dir, id, &KEEPER, 1).unwrap();
    torn.recorder.writer = Writer::resume(dir, id, found.position).unwrap();
    torn.recorder.seen.truncate(torn.items_before);
    torn.recorder.output(Stream::Err, 8);
    torn.recorder.output(Stream::Err, 9);
    torn.recorder.exit();
    let seen = read_from(&torn.folder.reader(), torn.recorder.committed(), 0, 0);
    assert!(seen == torn.recorder.seen);
}
