//! However the bytes of a connection arrive, the same lines come out, and never more than one unfinished line is held.
#![no_main]

use arbitrary::Arbitrary;
use hostel_doors::claustrum::lines::{LINE_LIMIT, LineBuffer, TooLong, each_line};
use libfuzzer_sys::fuzz_target;

/// Room for one line at the limit and others around it.
const MOST_BYTES: usize = LINE_LIMIT + LINE_LIMIT / 4;
/// Arrivals at most; what is longer comes in larger pieces.
const MOST_CHUNKS: usize = 2048;

#[derive(Arbitrary, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Newline,
    Return,
    /// As many of one byte; `near` counts from the limit.
    Fill {
        byte: u8,
        near: i8,
        which: u8,
    },
}

#[derive(Arbitrary, Debug)]
struct Input {
    pieces: Vec<Piece>,
    cuts: Vec<u16>,
}

fuzz_target!(|input: Input| {
    let mut sent = Vec::new();
    for piece in &input.pieces {
        match piece {
            Piece::Bytes(bytes) => sent.extend_from_slice(bytes),
            Piece::Newline => sent.push(b'\n'),
            Piece::Return => sent.push(b'\r'),
            Piece::Fill { byte, near, which } => {
                // Seldom a whole line: it costs as much as a thousand short ones.
                let count = if which % 16 == 0 { LINE_LIMIT } else { 512 };
                sent.resize(sent.len() + count.saturating_add_signed(isize::from(*near)), *byte);
            }
        }
        sent.truncate(MOST_BYTES);
    }
    let expected = model(&sent);
    let mut found = Vec::new();
    let outcome = each_line(&sent, |line| found.push(line.to_vec()));
    assert_eq!((found, outcome), expected);
    let cut = |turn: usize| input.cuts.get(turn % input.cuts.len().max(1)).map_or(65_536, |cut| usize::from(*cut) + 1);
    assert!(in_pieces(&sent, cut) == expected, "the way bytes arrive must not matter");
});

/// The rule, said the slow way.
fn model(sent: &[u8]) -> (Vec<Vec<u8>>, Result<(), TooLong>) {
    let mut lines = Vec::new();
    for line in sent.split(|byte| *byte == b'\n') {
        if line.len() >= LINE_LIMIT {
            return (lines, Err(TooLong));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            lines.push(line.to_vec());
        }
    }
    (lines, Ok(()))
}

fn in_pieces(mut sent: &[u8], cut: impl Fn(usize) -> usize) -> (Vec<Vec<u8>>, Result<(), TooLong>) {
    let mut buffer = LineBuffer::default();
    let mut lines = Vec::new();
    let least = sent.len() / MOST_CHUNKS;
    let mut turn = 0;
    while !sent.is_empty() {
        let (chunk, rest) = sent.split_at(cut(turn).max(least).min(sent.len()));
        (sent, turn) = (rest, turn + 1);
        let room = buffer.room();
        assert!(room.len() < LINE_LIMIT, "more than one unfinished line is held");
        room.extend_from_slice(chunk);
        loop {
            match buffer.next_line() {
                Ok(Some(line)) => lines.push(line.to_vec()),
                Ok(None) => break,
                Err(TooLong) => return (lines, Err(TooLong)),
            }
        }
    }
    lines.extend(buffer.last_line().map(<[u8]>::to_vec));
    (lines, Ok(()))
}
