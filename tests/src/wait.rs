//! Waiting for what no event announces: a pid that vanishes, a file that appears.
//!
//! The pause between two looks grows from one to fifty milliseconds; a deadline ends the wait with
//! a panic that says what never came. What arrives on a socket is waited for on the socket.

use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

/// The deadline of everything that has no reason to take longer, on a machine that has much else to do.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Looks until `probe` gives something.
///
/// # Panics
/// If it gave nothing within `limit`.
pub fn until<T>(limit: Duration, what: &str, probe: impl FnMut() -> Option<T>) -> T {
    attempt(limit, probe).unwrap_or_else(|| panic!("waited {limit:?} in vain for: {what}"))
}

/// Looks until `probe` holds.
///
/// # Panics
/// If it did not hold within `limit`.
pub fn until_true(limit: Duration, what: &str, mut probe: impl FnMut() -> bool) {
    until(limit, what, || probe().then_some(()));
}

/// Looks until `probe` gives something or `limit` has passed.
pub fn attempt<T>(limit: Duration, probe: impl FnMut() -> Option<T>) -> Option<T> {
    attempt_often(limit, Duration::from_millis(50), probe)
}

/// The same with a chosen longest pause between two looks.
pub fn attempt_often<T>(limit: Duration, longest: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// Reads. A read with a limit of time ends with an error when the whole machine was held up meanwhile, as by a snapshot;
/// then it reads again.
///
/// # Errors
/// As `Read::read`, but for that one.
pub fn read(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
