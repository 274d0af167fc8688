//! What one read of a journal brought: a buffer that is used again and again, and the items in it as slices of it.
//!
//! Every record in the buffer was verified before it got here. Memory is bounded by the asked capacity plus one record,
//! whatever the size of the journal.
//!
//! A batch does not read; it cuts records into numbered frames and leaves out what lies before its cursor.

use std::ops::Range;

use crate::format::{self, Exit, FRAME_BYTES, Kind, Mark, Note, RECORD_HEADER_BYTES, RecordHeader, Stream};

const SMALLEST_WINDOW: usize = 4 * 1024;
const LARGEST_WINDOW: usize = 256 * 1024;

/// A reusable buffer full of items.
#[derive(Debug)]
pub struct Batch {
    /// At least `window` bytes; longer once a record had to be completed.
    pub(crate) buffer: Vec<u8>,
    pub(crate) window: usize,
    /// The verified records in the buffer.
    records: Range<usize>,
    /// Items up to this number are left out.
    after: u64,
}

/// One thing that happened, as a cursor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A frame of output.
    Output {
        /// Where it came from.
        stream: Stream,
        /// Its number.
        seq: u64,
        /// Wall clock when it was recorded.
        time_ns: u64,
        /// The bytes: at least one, at most [`FRAME_BYTES`].
        data: &'a [u8],
    },
    /// The process ended; the last item.
    Exit {
        /// Its number.
        seq: u64,
        /// Wall clock when it was recorded.
        time_ns: u64,
        /// How it ended.
        exit: Exit,
    },
    /// The end of the process was not seen; the last item.
    Lost {
        /// Its number.
        seq: u64,
        /// Wall clock when it was recorded.
        time_ns: u64,
        /// Why, see [`crate::LOST_KEEPER_ENDED`].
        reason: u32,
    },
    /// Marked input was handed to the process after this point.
    Mark {
        /// The number of the next frame: marks take none.
        seq: u64,
        /// Wall clock when it was recorded.
        time_ns: u64,
        /// The asker's own number.
        mark: u64,
        /// Where in standard input the marked bytes begin.
        stdin_offset: u64,
        /// How many bytes they are.
        len: u32,
    },
    /// Something happened to the recording.
    Note {
        /// The number of the next frame: notes take none.
        seq: u64,
        /// Wall clock when it was recorded.
        time_ns: u64,
        /// What happened.
        note: Note,
    },
}

impl Item<'_> {
    /// The item's number, or the next one for items that take none.
    pub fn seq(&self) -> u64 {
        match *self {
            Self::Output { seq, .. }
            | Self::Exit { seq, .. }
            | Self::Lost { seq, .. }
            | Self::Mark { seq, .. }
            | Self::Note { seq, .. } => seq,
        }
    }
}

impl Batch {
    /// A batch that reads about `bytes` at a time, within 4 KiB and 256 KiB.
    pub fn with_capacity(bytes: usize) -> Self {
        let window = bytes.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        Self { buffer: vec![0; window], window, records: 0..0, after: 0 }
    }

    /// The items of the last read, in the order of their numbers.
    pub fn items(&self) -> Items<'_> {
        Items { rest: self.buffer.get(self.records.clone()).unwrap_or_default(), after: self.after, frames: None }
    }

    /// Whether the last read brought nothing.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Forgets the items and keeps the memory.
    pub fn clear(&mut self) {
        self.records = 0..0;
    }

    pub(crate) fn set(&mut self, records: Range<usize>, after: u64) {
        self.records = records;
        self.after = after;
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::with_capacity(LARGEST_WINDOW)
    }
}

/// The items of a [`Batch`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    rest: &'a [u8],
    after: u64,
    frames: Option<Frames<'a>>,
}

/// What is left of an output record.
#[derive(Debug, Clone)]
struct Frames<'a> {
    stream: Stream,
    seq: u64,
    time_ns: u64,
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    fn next(&mut self) -> Option<Item<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (data, rest) = self.rest.split_at(self.rest.len().min(FRAME_BYTES));
        self.rest = rest;
        let seq = self.seq;
        self.seq = seq.saturating_add(1);
        Some(Item::Output { stream: self.stream, seq, time_ns: self.time_ns, data })
    }
}

impl<'a> Items<'a> {
    /// The next record, whose checksum the reader has verified.
    fn next_record(&mut self) -> Option<(RecordHeader, &'a [u8])> {
        let header = RecordHeader::decode_checked(self.rest).ok()?;
        let payload_end = RECORD_HEADER_BYTES + header.len as usize;
        let payload = self.rest.get(RECORD_HEADER_BYTES..payload_end)?;
        self.rest = self.rest.get(header.stored_len()..)?;
        Some((header, payload))
    }

    /// The item a record is, unless it is output (which becomes `frames`) or nothing to show.
    fn item(&mut self, header: &RecordHeader, payload: &'a [u8]) -> Option<Item<'a>> {
        let RecordHeader { seq, time_ns, .. } = *header;
        let mut begin = |stream| {
            self.frames = Some(Frames { stream, seq, time_ns, rest: payload });
            None
        };
        match header.kind {
            Kind::Out => begin(Stream::Out),
            Kind::Err => begin(Stream::Err),
            Kind::Exit => Exit::decode(payload).ok().map(|exit| Item::Exit { seq, time_ns, exit }),
            Kind::Lost => format::decode_lost(payload).ok().map(|reason| Item::Lost { seq, time_ns, reason }),
            Kind::Mark => Mark::decode(payload).ok().map(|mark| Item::Mark {
                seq,
                time_ns,
                mark: mark.mark,
                stdin_offset: mark.stdin_offset,
                len: mark.len,
            }),
            Kind::Note => Note::decode(payload).ok().map(|note| Item::Note { seq, time_ns, note }),
            Kind::Meta | Kind::Unknown(_) => None,
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            let item = match self.frames.as_mut().and_then(Frames::next) {
                Some(item) => item,
                None => {
                    self.frames = None;
                    let (header, payload) = self.next_record()?;
                    match self.item(&header, payload) {
                        Some(item) => item,
                        None => continue,
                    }
                }
            };
            if item.seq() > self.after {
                return Some(item);
            }
        }
    }
}

/// Whether a record gives at least one item to a cursor that has seen everything up to `after`.
pub(crate) fn is_visible(header: &RecordHeader, after: u64) -> bool {
    match header.kind {
        Kind::Meta | Kind::Unknown(_) => false,
        _ => header.seq.saturating_add(header.numbers().saturating_sub(1)) > after,
    }
}
