//! Whatever a daemon sends to a broker: a frame that is read, written and read again is the same frame and not much
//! longer, what is refused says why in one line, and a hello is believed only with a signature.
#![no_main]

use hostel_wire::frames::client::ClientFrame;
use hostel_wire::hello::{verify_hello, verify_hello_text, verify_session_hello, verify_session_hello_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let frame = match ClientFrame::decode(text) {
        Ok(frame) => frame,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = frame.encode();
    assert!(!written.is_empty() && !written.contains('\n'));
    // Names of fields that are always written, and escapes.
    assert!(written.len() <= 6 * text.len() + 2048, "{} from {}", written.len(), text.len());
    assert_eq!(ClientFrame::decode(&written).as_ref(), Ok(&frame));
    match &frame {
        ClientFrame::Hello(hello) => {
            assert!(verify_hello(hello, Some("never sent by anybody")).is_err() || hello.protocol_version < 2);
            verify_hello_text(text, hello, hello.nonce.as_deref()).ok();
        }
        ClientFrame::SessionHello(hello) => {
            assert!(verify_session_hello(hello, None, 0).is_err());
            verify_session_hello_text(text, hello, None, 0).ok();
        }
        _ => {}
    }
});
