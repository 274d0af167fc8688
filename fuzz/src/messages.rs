//! The keeper's messages, taken from a frame and put into one again.

use hostel_keeper::proto::{DecodeError, Frame, Hello, Limits, Note, Spawn, State, Welcome, split};

/// Reads a frame as each message there is, whatever its type says.
pub fn decode_every(frame: &Frame<'_>) {
    let mut fields = 0;
    for field in frame.fields() {
        // An error is the last thing a broken frame has to say, so this ends.
        fields += 1;
        if let Ok((tag, bytes)) = field {
            assert!(frame.find(tag).is_ok_and(|found| found.is_some()));
            assert!(bytes.len() <= hostel_keeper::proto::MAX_FRAME_BYTES);
        }
    }
    assert!(fields <= hostel_keeper::proto::MAX_FRAME_BYTES / 6 + 1);
    again(frame, Hello::decode, |message, out| message.encode(7, out));
    again(frame, Welcome::decode, |message, out| message.encode(7, out));
    again(frame, State::decode, |message, out| message.encode(7, out));
    again(frame, Spawn::decode, |message, out| message.encode(7, out));
    again(frame, Limits::decode, |message, out| message.encode(7, out));
    again(frame, Note::decode, |message, out| message.encode(out));
}

fn again<T: PartialEq + std::fmt::Debug>(
    frame: &Frame<'_>,
    decode: impl Fn(&Frame<'_>) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    if let Ok(message) = decode(frame) {
        same_again(&message, decode, encode);
    }
}

/// Encodes a message and reads it back.
pub fn same_again<T: PartialEq + std::fmt::Debug>(
    message: &T,
    decode: impl Fn(&Frame<'_>) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes);
    let cut = split(&bytes);
    // Lossy text may grow; a message at the limit need not fit any more.
    if matches!(cut, Err(DecodeError::TooLong(_))) {
        return;
    }
    let (frame, length) = cut.expect("what was encoded is a frame").expect("what was encoded is whole");
    assert_eq!(length, bytes.len());
    assert_eq!(decode(&frame).as_ref(), Ok(message));
}
