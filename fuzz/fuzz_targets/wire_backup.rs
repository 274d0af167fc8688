//! Backups: a header that is read is written the same again and asks for no more work than is reasonable; a box and a
//! stream open only as they were sealed, and no record leads elsewhere.
#![no_main]

use hostel_wire::backup::records::{Record, is_safe};
use hostel_wire::backup::{
    self, BackupKey, Content, Cost, FRAME_PREFIX, HEADER, Header, StreamOpener, StreamSealer, frame_length,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Where something is changed and how, then the bytes themselves.
    let [low, high, flip, bytes @ ..] = input else { return };
    let (at, flip) = (u16::from_le_bytes([*low, *high]), *flip);
    header(bytes);
    record(bytes);
    let key = BackupKey::from_bytes([3; 32]);
    // Strange bytes never open.
    assert!(backup::open_with(Content::Mesh, &key, bytes).is_err());
    read(&key, bytes).ok();
    // A good one opens whole, and with nothing changed.
    let cost = Cost { passes: 1, memory: 8192 };
    let mut sealed = backup::seal_with(&Header::fresh(Content::Mesh, cost), &key, bytes);
    assert_eq!(backup::open_with(Content::Mesh, &key, &sealed).expect("our own writing").as_slice(), bytes);
    let place = usize::from(at) % sealed.len();
    assert!(backup::open_with(Content::Mesh, &key, &sealed[..place]).is_err(), "a part of it");
    if flip != 0 {
        sealed[place] ^= flip;
        assert!(backup::open_with(Content::Mesh, &key, &sealed).is_err(), "a byte changed");
    }
    let pieces: Vec<&[u8]> = bytes.chunks(1000).collect();
    let (mut sealer, mut stream) = StreamSealer::begin_with(Header::fresh(Content::House, cost), &key, b"first");
    for piece in &pieces {
        stream.extend(sealer.next(piece));
    }
    stream.extend(sealer.finish(b"last"));
    let messages = read(&key, &stream).expect("our own writing");
    assert_eq!(messages.len(), pieces.len() + 2);
    assert_eq!(messages[1..messages.len() - 1].concat(), bytes);
    let place = usize::from(at) % stream.len();
    assert!(read(&key, &stream[..place]).is_err(), "a part of it");
    if flip != 0 {
        stream[place] ^= flip;
        assert!(read(&key, &stream).is_err(), "a byte changed");
    }
});

fn header(bytes: &[u8]) {
    if let Ok(header) = Header::parse(bytes) {
        assert_eq!(header.to_bytes(), bytes[..HEADER]);
        assert!((1..=16).contains(&header.cost.passes) && header.cost.memory <= 1 << 30);
    }
}

fn record(bytes: &[u8]) {
    let Ok(record) = Record::parse(bytes) else { return };
    if let Record::File(item) | Record::Directory(item) = &record {
        assert!(is_safe(&item.path) && item.mode <= 0o777);
        let path = std::path::Path::new(&item.path);
        assert!(path.is_relative() && path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
    }
    if let Some(again) = record.to_bytes() {
        assert_eq!(Record::parse(&again), Ok(record));
    }
}

/// The messages of a stream.
fn read(key: &BackupKey, bytes: &[u8]) -> Result<Vec<Vec<u8>>, ()> {
    let frame = |bytes: &[u8]| -> Result<usize, ()> {
        let prefix = bytes.first_chunk::<FRAME_PREFIX>().ok_or(())?;
        frame_length(*prefix).map(|length| length + FRAME_PREFIX).map_err(drop)
    };
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(())?;
    let (first, rest) = rest.split_at_checked(frame(rest)?).ok_or(())?;
    let (sum, mut rest) = rest.split_first_chunk::<32>().ok_or(())?;
    let (mut opener, plain) = StreamOpener::begin_with(Content::House, key, header, first, sum).map_err(drop)?;
    let mut messages = vec![plain.to_vec()];
    while !rest.is_empty() {
        let (next, later) = rest.split_at_checked(frame(rest)?).ok_or(())?;
        messages.push(opener.next(&next[FRAME_PREFIX..]).map_err(drop)?.to_vec());
        rest = later;
    }
    if opener.is_over() { Ok(messages) } else { Err(()) }
}
