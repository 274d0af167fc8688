//! Whatever a broker sends to a daemon: a frame that is read, written and read again is the same frame and not much
//! longer.
#![no_main]

use hostel_wire::frames::server::ServerFrame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let frame = match ServerFrame::decode(text) {
        Ok(frame) => frame,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = frame.encode();
    assert!(!written.is_empty() && !written.contains('\n'));
    assert!(written.len() <= 64 * text.len() + 2048, "{} from {}", written.len(), text.len());
    assert_eq!(ServerFrame::decode(&written).as_ref(), Ok(&frame));
});
