//! Journals whose checksums are right and whose content is not: wrong numbers, kinds, places, holes and cuts. Recovery
//! must end, and recovering twice must give the same as once.
#![no_main]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use arbitrary::Arbitrary;
use hostel_fuzz::journal::exercise;
use hostel_journal::format::{BlockHeader, Kind, Mark, Note, RecordHeader, stored_len};
use hostel_journal::{BLOCK_BYTES, Exit, MAX_PAYLOAD, Meta, ProcessId, recover};
use libfuzzer_sys::fuzz_target;

const ID: ProcessId = ProcessId([7; 16]);
const MOST_BLOCKS: u64 = 6;

#[derive(Arbitrary, Debug)]
enum Content {
    Out(u16),
    Err(u8),
    Long(u32),
    Exit(u64),
    Lost(u32),
    Mark([u64; 2], u32),
    Note(u32),
    Meta,
    Other(u8, Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Step {
    Record {
        content: Content,
        wrong_seq: Option<u64>,
        wrong_len: Option<u32>,
    },
    /// On to the next block, with its header right unless told otherwise.
    Block {
        wrong_seq: Option<u64>,
        wrong_number: Option<u64>,
        skipped: u8,
        without_header: bool,
    },
    /// Overwrites something before.
    Patch {
        back: u32,
        bytes: Vec<u8>,
    },
    /// Gives a block up, as retention does.
    Drop {
        block: u8,
    },
    /// Leaves zeros.
    Gap(u16),
}

#[derive(Arbitrary, Debug)]
struct Input {
    steps: Vec<Step>,
    cut: Option<u32>,
    after: u64,
    committed: u64,
}

struct Image {
    file: File,
    at: u64,
    seq: u64,
}

impl Image {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        if at + bytes.len() as u64 <= MOST_BLOCKS * BLOCK_BYTES {
            self.file.write_all_at(bytes, at).expect("there is room");
        }
    }

    fn block(&mut self, number: u64, seq: u64) {
        let header = BlockHeader {
            flags: 0,
            block_no: number,
            next_seq: seq,
            out_bytes: 3,
            err_bytes: 4,
            file_id_low: u64::from_le_bytes([7; 8]),
            time_ns: 5,
        };
        self.put(self.at, &header.encode());
        self.at += 64;
    }

    fn record(&mut self, kind: Kind, payload: &[u8], wrong_seq: Option<u64>, wrong_len: Option<u32>) {
        let len = wrong_len.unwrap_or(payload.len() as u32);
        let header = RecordHeader { len, kind, flags: 0, seq: wrong_seq.unwrap_or(self.seq), time_ns: 9 };
        self.put(self.at, &header.encode());
        self.put(self.at + 32, payload);
        self.at += stored_len(payload.len()) as u64;
        self.seq = self.seq.saturating_add(header.numbers());
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Record { content, wrong_seq, wrong_len } => {
                let (kind, payload) = payload(content);
                self.record(kind, &payload, *wrong_seq, *wrong_len);
            }
            Step::Block { wrong_seq, wrong_number, skipped, without_header } => {
                let number = self.at.div_ceil(BLOCK_BYTES) + u64::from(skipped % 3);
                self.at = number * BLOCK_BYTES;
                if !without_header {
                    self.block(wrong_number.unwrap_or(number), wrong_seq.unwrap_or(self.seq));
                }
            }
            Step::Patch { back, bytes } => self.put(self.at.saturating_sub(u64::from(*back)), bytes),
            Step::Drop { block } => self.put(u64::from(*block) % MOST_BLOCKS * BLOCK_BYTES, &[0; 64]),
            Step::Gap(bytes) => self.at += u64::from(*bytes).next_multiple_of(8),
        }
    }
}

fn payload(content: &Content) -> (Kind, Vec<u8>) {
    match content {
        Content::Out(len) => (Kind::Out, vec![b'o'; usize::from(*len)]),
        Content::Err(len) => (Kind::Err, vec![b'e'; usize::from(*len)]),
        Content::Long(len) => (Kind::Out, vec![b'l'; *len as usize % (MAX_PAYLOAD + 2)]),
        Content::Exit(wall_ns) => (Kind::Exit, Exit { wall_ns: *wall_ns, ..Exit::default() }.encode().to_vec()),
        Content::Lost(reason) => (Kind::Lost, reason.to_le_bytes().to_vec()),
        Content::Mark([mark, stdin_offset], len) => {
            (Kind::Mark, Mark { mark: *mark, stdin_offset: *stdin_offset, len: *len }.encode().to_vec())
        }
        Content::Note(reason) => (Kind::Note, Note::Held(*reason).encode().to_vec()),
        Content::Meta => (Kind::Meta, meta().encode()),
        Content::Other(kind, bytes) => (Kind::Unknown(*kind), bytes.clone()),
    }
}

fn meta() -> Meta {
    Meta { id: ID, boot_id: [1; 16], keeper_id: [2; 16], pid: 3, start_ticks: 4, start_ns: 5, label: b"name".to_vec() }
}

fuzz_target!(|input: Input| {
    let directory = std::env::temp_dir().join(format!("hostel-fuzz-journal-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the place can be made");
    let path = directory.join(ID.file_name());
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("a file can be made");
    let mut image = Image { file, at: 0, seq: 1 };
    image.block(0, 1);
    image.record(Kind::Meta, &meta().encode(), None, None);
    for step in input.steps.iter().take(200) {
        image.step(step);
    }
    if let Some(cut) = input.cut {
        let size = image.file.metadata().expect("a file has a size").len();
        image.file.set_len(size.min(u64::from(cut))).expect("a file can be cut");
    }
    exercise(&image.file, input.after, input.committed);
    exercise(&image.file, input.after % 16, input.committed % (MOST_BLOCKS * BLOCK_BYTES));

    let directory = File::open(&directory).expect("the place is there");
    if let Ok(once) = recover(directory.as_fd(), ID, &[9; 16], 11) {
        let twice = recover(directory.as_fd(), ID, &[8; 16], 12).expect("what was recovered can be recovered");
        assert_eq!((twice.position, twice.end, &twice.meta), (once.position, once.end, &once.meta));
        assert_eq!((twice.truncated, twice.lost_appended), (0, false));
        assert!(twice.end.is_some(), "another keeper's journal has an end");
        exercise(&image.file, 0, once.position.committed);
    }
});
