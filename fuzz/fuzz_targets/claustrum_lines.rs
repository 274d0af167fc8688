//! However the bytes of a connection arrive, the same lines come out, and never more than one unfinished line is held.
#![no_main]

use arbitrary::Arbitrary;
use hostel_doors::claustrum::lines::{LINE_LIMIT, LineBuffer, TooLong, each_line};
use libfuzzer_sys::fuzz_target;

const MOST_BYTES: usize = 3 * LINE_LIMIT;

#[derive(Arbitrary, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Newline,
    Return,
    /// As many of one byte; `near` counts from the limit.
    Fill {
        byte: u8,
        near: i8,
        whole: bool,
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
            Piece::Fill { byte, near, whole } => {
                let count = if *whole { LINE_LIMIT } else { 4096 };
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
    let mut turn = 0;
    while !sent.is_empty() {
        let (chunk, rest) = sent.split_at(cut(turn).min(sent.len()));
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
