//! Our own protocol: lines with a bound, and every message that comes over them.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hostel_doors::native::line::{Line, LineReader};
use hostel_doors::native::protocol as native;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

const LIMIT: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = LineReader::new(bytes, LIMIT);
    let mut lines = bytes.split(|byte| *byte == b'\n');
    loop {
        let next = pin!(reader.next()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(next) = next else {
            panic!("bytes in memory never keep anybody waiting");
        };
        match next.expect("memory has no errors") {
            Line::Ready(range) => {
                let line = reader.line(&range);
                assert!(line.len() <= LIMIT);
                assert_eq!(Some(line), lines.next());
                messages(line);
            }
            Line::TooLong => {
                assert!(lines.next().is_some_and(|line| line.len() > LIMIT));
                break;
            }
            Line::Closed => {
                lines.next();
                assert_eq!(lines.next(), None);
                break;
            }
        }
    }
});

fn messages(line: &[u8]) {
    same_again::<native::Text>(line);
    same_again::<native::Initialize>(line);
    same_again::<native::Initialized>(line);
    same_again::<native::Spawn>(line);
    same_again::<native::Spawned>(line);
    same_again::<native::Target>(line);
    same_again::<native::ProcessList>(line);
    same_again::<native::ProcessTree>(line);
    same_again::<native::Attach>(line);
    same_again::<native::Attached>(line);
    same_again::<native::Stdin>(line);
    same_again::<native::StdinApplied>(line);
    same_again::<native::Kill>(line);
    same_again::<native::Killed>(line);
    same_again::<native::Usage>(line);
    same_again::<native::Collect>(line);
    same_again::<native::Collected>(line);
    same_again::<native::HouseStatus>(line);
    same_again::<native::Down>(line);
    same_again::<native::Upgrade>(line);
    same_again::<native::Upgraded>(line);
    same_again::<native::Output>(line);
    same_again::<native::Exit>(line);
    same_again::<native::HouseClosing>(line);
}

/// What was read is written such that it reads the same.
fn same_again<T: Serialize + DeserializeOwned>(line: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(line) else {
        return;
    };
    let written = serde_json::to_string(&message).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).ok(), Some(written));
}
