//! However an agent's output is cut into frames: the same lines come out, each with its place in the output, and reading
//! can be paused at any of them and begun again there.
#![no_main]

use arbitrary::Arbitrary;
use hostel_house::sessions::fuzzing::{At, Line, lines};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    output: Vec<u8>,
    limit: u8,
    /// How long each frame is, and how many frames of standard error come before it; repeated as needed.
    cuts: Vec<(u8, u8)>,
    pauses: Vec<bool>,
    /// The lines that reading begins after, later.
    checkpoints: [u16; 3],
}

fuzz_target!(|input: Input| {
    let limit = usize::from(input.limit);
    let frames = frames(&input.output, &input.cuts);
    let (expected, last) = model(&input.output, limit);
    let pauses = |line: usize| !input.pauses.is_empty() && input.pauses[line % input.pauses.len()];
    let found = lines(&frames, limit, (0, 0), pauses);
    compare(&frames, &found, &expected, &last, 0);
    for checkpoint in input.checkpoints {
        let Some(at) = usize::from(checkpoint).checked_rem(expected.len()) else { continue };
        let from = found.0[at].1;
        // A journal is read from the frame after the last one that is done with.
        let rest: Vec<_> = frames.iter().filter(|(seq, _)| *seq > from.0).copied().collect();
        let later = lines(&rest, limit, from, pauses);
        compare(&frames, &later, &expected[at + 1..], &last, expected[at].1);
    }
});

type Found = (Vec<(Line, At)>, At, Option<Vec<u8>>);

fn compare(frames: &[(u64, &[u8])], found: &Found, expected: &[(Line, usize)], last: &Option<Vec<u8>>, from: usize) {
    let offset = |place: At| {
        let before: usize = frames.iter().filter(|(seq, _)| *seq <= place.0).map(|(_, data)| data.len()).sum();
        before + usize::try_from(place.1).expect("a place in the output")
    };
    let (lines, end, rest) = found;
    assert_eq!(lines.len(), expected.len());
    for ((line, place), (wanted, after)) in lines.iter().zip(expected) {
        assert_eq!(line, wanted);
        assert_eq!(offset(*place), *after, "the place behind a line");
    }
    assert_eq!(offset(*end), expected.last().map_or(from, |(_, after)| *after), "the place to go on from");
    assert_eq!(rest, last);
}

fn frames<'a>(mut output: &'a [u8], cuts: &[(u8, u8)]) -> Vec<(u64, &'a [u8])> {
    let mut frames = Vec::new();
    let mut seq = 0;
    while !output.is_empty() {
        let (length, others) = cuts.get(frames.len() % cuts.len().max(1)).copied().unwrap_or((u8::MAX, 0));
        let (frame, rest) = output.split_at(usize::from(length).clamp(1, output.len()));
        seq += 1 + u64::from(others % 4);
        frames.push((seq, frame));
        output = rest;
    }
    frames
}

/// The rule, said the slow way: each line with the place behind it, and what has no newline.
fn model(output: &[u8], limit: usize) -> (Vec<(Line, usize)>, Option<Vec<u8>>) {
    let mut at = 0;
    let mut pieces: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    let last = pieces.pop().filter(|last| !last.is_empty() && last.len() <= limit).map(<[u8]>::to_vec);
    let lines = pieces.into_iter().map(|piece| {
        at += piece.len() + 1;
        let whole = piece.len() <= limit;
        (if whole { Line::Whole(piece.to_vec()) } else { Line::TooLong(piece.len() as u64) }, at)
    });
    (lines.collect(), last)
}
