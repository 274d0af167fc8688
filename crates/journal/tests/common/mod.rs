//! A folder with one journal in it, a writer that remembers what it wrote, and ways to read it back.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use hostel_journal::{
    Batch, Blocking, Cursor, Exit, FRAME_BYTES, Fill, HEADROOM, Item, Meta, Note, Position, ProcessId, Reader, Stream,
    TAILROOM, Writer,
};

pub const KEEPER: [u8; 16] = [7; 16];
pub const OTHER_KEEPER: [u8; 16] = [8; 16];
pub const EXIT: Exit = Exit { code: 3, signal: 0, wall_ns: 1_000, user_us: 20, system_us: 30, max_rss_kib: 4_000 };

pub struct Folder {
    pub path: tempfile::TempDir,
    pub dir: File,
    pub id: ProcessId,
}

impl Folder {
    pub fn new() -> Self {
        let path = tempfile::tempdir().unwrap();
        let dir = File::open(path.path()).unwrap();
        let id = ProcessId::random().unwrap();
        Self { path, dir, id }
    }

    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub fn file(&self) -> PathBuf {
        self.path.path().join(self.id.file_name())
    }

    pub fn reader(&self) -> Reader {
        Reader::open(self.dir(), self.id).unwrap()
    }
}

pub fn meta(id: ProcessId, label: &[u8]) -> Meta {
    Meta {
        id,
        boot_id: [1; 16],
        keeper_id: KEEPER,
        pid: 4321,
        start_ticks: 987_654,
        start_ns: 1_700_000_000_000_000_000,
        label: label.to_vec(),
    }
}

/// An [`Item`] that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Output(Stream, u64, u64, Vec<u8>),
    Other(u64, u64, String),
}

impl Seen {
    pub fn seq(&self) -> u64 {
        match self {
            Self::Output(_, seq, ..) | Self::Other(seq, ..) => *seq,
        }
    }
}

impl From<Item<'_>> for Seen {
    fn from(item: Item<'_>) -> Self {
        match item {
            Item::Output { stream, seq, time_ns, data } => {
                assert!((1..=FRAME_BYTES).contains(&data.len()));
                Self::Output(stream, seq, time_ns, data.to_vec())
            }
            Item::Exit { seq, time_ns, exit } => Self::Other(seq, time_ns, format!("{exit:?}")),
            Item::Lost { seq, time_ns, reason } => Self::Other(seq, time_ns, format!("lost {reason}")),
            Item::Mark { seq, time_ns, mark, stdin_offset, len } => {
                Self::Other(seq, time_ns, format!("mark {mark} {stdin_offset} {len}"))
            }
            Item::Note { seq, time_ns, note } => Self::Other(seq, time_ns, format!("{note:?}")),
        }
    }
}

/// A writer beside a model of what a reader must see.
pub struct Recorder {
    pub writer: Writer,
    pub seen: Vec<Seen>,
    /// Position after each record, with the number of items up to there. The first is after META.
    pub steps: Vec<(Position, usize)>,
    clock: u64,
}

impl Recorder {
    pub fn create(folder: &Folder) -> Self {
        let writer = Writer::create(folder.dir(), &meta(folder.id, b"label"), 5).unwrap();
        let steps = vec![(writer.position(), 0)];
        Self { writer, seen: Vec::new(), steps, clock: 100 }
    }

    fn step(&mut self) {
        self.steps.push((self.writer.position(), self.seen.len()));
    }

    pub fn output(&mut self, stream: Stream, len: usize) {
        self.clock += 1;
        let first = self.writer.position().next_seq;
        let payload = pattern(first, len);
        let mut buffer = vec![0xee; HEADROOM];
        buffer.extend_from_slice(&payload);
        buffer.resize(HEADROOM + len + TAILROOM, 0xee);
        self.writer.append_output(stream, &mut buffer, len, self.clock).unwrap();
        assert_eq!(&buffer[HEADROOM..HEADROOM + len], payload);
        assert_eq!(&buffer[HEADROOM + len..], [0xee; TAILROOM]);
        for (seq, frame) in (first..).zip(payload.chunks(FRAME_BYTES)) {
            let item = Seen::Output(stream, seq, self.clock, frame.to_vec());
            self.seen.push(item);
        }
        self.step();
    }

    pub fn mark(&mut self, mark: u64) {
        self.clock += 1;
        let seq = self.writer.position().next_seq;
        self.writer.append_mark(mark, 11, 22, self.clock).unwrap();
        let text = format!("mark {mark} 11 22");
        self.seen.push(Seen::Other(seq, self.clock, text));
        self.step();
    }

    pub fn note(&mut self, note: Note) {
        self.clock += 1;
        let seq = self.writer.position().next_seq;
        self.writer.append_note(note, self.clock).unwrap();
        let text = format!("{note:?}");
        self.seen.push(Seen::Other(seq, self.clock, text));
        self.step();
    }

    pub fn exit(&mut self) {
        self.clock += 1;
        let seq = self.writer.append_exit(&EXIT, self.clock).unwrap();
        let text = format!("{EXIT:?}");
        self.seen.push(Seen::Other(seq, self.clock, text));
        self.step();
    }

    /// What a cursor behind `after` must see of the first `items` items.
    pub fn expected(&self, items: usize, after: u64) -> Vec<Seen> {
        let kept = self.seen[..items].iter().filter(|item| item.seq() > after);
        kept.cloned().collect()
    }

    pub fn committed(&self) -> u64 {
        self.writer.position().committed
    }
}

/// Bytes that differ between frames and within one, and never look like a header or a hole.
pub fn pattern(seq: u64, len: usize) -> Vec<u8> {
    const PERIOD: u64 = 251;
    let start = (seq * 31 % PERIOD) as u8;
    let period: Vec<u8> = (start..251).chain(0..start).map(|byte| byte + 1).collect();
    let mut bytes = period.repeat(len.div_ceil(period.len()));
    bytes.truncate(len);
    bytes
}

/// Reads on from `cursor` until nothing is left, first without waiting and then with.
pub fn read_on(reader: &Reader, cursor: &mut Cursor, committed: u64, batch: &mut Batch) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut blocking = Blocking::Never;
    loop {
        let before = *cursor;
        match reader.read(cursor, committed, batch, blocking).unwrap() {
            Fill::Items => {
                assert!(!batch.is_empty());
                let count = seen.len();
                seen.extend(batch.items().map(Seen::from));
                assert!(seen.len() > count, "a batch without items");
                assert!(cursor.offset() > before.offset());
                assert!(cursor.offset() <= committed.next_multiple_of(1 << 20));
                blocking = Blocking::Never;
            }
            Fill::Empty => return seen,
            Fill::WouldBlock => {
                assert_eq!(blocking, Blocking::Never);
                blocking = Blocking::Allowed;
            }
        }
    }
}

pub fn read_from(reader: &Reader, committed: u64, after: u64, window: usize) -> Vec<Seen> {
    let mut cursor = reader.seek(committed, after).unwrap();
    let mut batch = Batch::with_capacity(window);
    read_on(reader, &mut cursor, committed, &mut batch)
}
