//! Our reading and writing of JSON against another reader, wherever both have an opinion.
#![no_main]

use hostel_doors::claustrum::frames::{FrameWriter, Stream};
use hostel_doors::claustrum::gojson::encode::{piece_end, push_escaped, push_string};
use hostel_doors::claustrum::gojson::{Malformed, Scanner, value};
use hostel_fuzz::json::{assert_line, comparable, go_text, same};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    write(bytes);
});

fn canonical(document: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut scanner = Scanner::new(document);
    let text = value::canonical(&mut scanner)?.into_owned();
    scanner.end()?;
    Ok(text)
}

fn read(document: &[u8]) {
    let mut scanner = Scanner::new(document);
    let scanned = scanner.skip().and_then(|raw| scanner.end().map(|()| raw));
    let ours = canonical(document);
    let theirs = serde_json::from_slice::<Value>(document);
    if theirs.is_ok() || ours.is_ok() {
        assert!(scanned.is_ok());
    }
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => {
            let again: Value = serde_json::from_slice(ours).expect("what we write is JSON");
            assert!(same(&again, theirs), "{theirs} became {again}");
        }
        (Ok(_), Err(error)) => assert!(!comparable(document), "taken by us and refused elsewhere: {error}"),
        (Err(Malformed), Ok(theirs)) => panic!("refused by us and taken elsewhere: {theirs}"),
        (Err(Malformed), Err(_)) => {}
    }
    if let Ok(once) = ours {
        assert!(!once.contains(&b'\n') && std::str::from_utf8(&once).is_ok());
        assert_eq!(canonical(&once).as_ref(), Ok(&once), "writing again changes nothing");
    }
    let text = Scanner::new(document).text().map(|text| text.decode());
    if let Ok(theirs) = serde_json::from_slice::<String>(document) {
        assert_eq!(text.as_deref(), Ok(theirs.as_str()));
    }
}

fn write(bytes: &[u8]) {
    let mut whole = Vec::new();
    push_string(&mut whole, bytes);
    let expected = go_text(bytes);
    assert_eq!(serde_json::from_slice::<String>(&whole).ok(), Some(expected.clone()));
    assert!(!whole.iter().any(|byte| *byte < 0x20 || b"<>&".contains(byte)));
    let ours = Scanner::new(&whole).text().map(|text| text.decode());
    assert_eq!(ours.as_deref(), Ok(expected.as_str()));

    for wanted in [1, 3, 4, 7, 64] {
        let mut pieces = vec![b'"'];
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = piece_end(rest, wanted);
            assert!(end > 0 && end <= rest.len() && end <= wanted.max(1), "a piece of {end} where {wanted} was asked");
            let (piece, after) = rest.split_at(end);
            // Only a limit shorter than a character may cut one.
            push_escaped(&mut pieces, piece);
            rest = after;
        }
        pieces.push(b'"');
        if wanted >= 4 {
            assert_eq!(pieces, whole, "pieces of {wanted}");
        }
    }

    let mut frame = Vec::new();
    let (name, data) = bytes.split_at(bytes.len() / 4);
    FrameWriter::new(&String::from_utf8_lossy(name)).output(&mut frame, Stream::Out, 1, data);
    assert_line(&frame);
}
