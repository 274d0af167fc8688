//! Arbitrary bytes on the keeper's socket and in its state: frames or an error, and what decodes encodes to the same.
#![no_main]

use hostel_fuzz::messages;
use hostel_keeper::proto::{HEADER_BYTES, MAX_FRAME_BYTES, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hostel_keeper::fuzz_state(bytes);
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = split(rest) {
        assert!((HEADER_BYTES..=MAX_FRAME_BYTES + 4).contains(&length));
        messages::decode_every(&frame);
        // Fewer bytes are an unfinished frame, never another one.
        assert_eq!(split(&rest[..length - 1]), Ok(None));
        rest = &rest[length..];
    }
});
