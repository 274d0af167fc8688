//! A file of arbitrary bytes where a journal should be.
#![no_main]

use hostel_fuzz::journal::{exercise, file_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let after = bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let committed = bytes.last_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let file = file_of(bytes);
    exercise(&file, 0, committed);
    exercise(&file, after % 64, bytes.len() as u64 / 2);
});
