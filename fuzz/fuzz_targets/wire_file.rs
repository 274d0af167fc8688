//! A sealed file: it opens alike however its bytes arrive; only what the sealer wrote opens, and only as a whole.
#![no_main]

use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::sealed::{FileHead, FileKey, FileOpener, FileSealer, OpenError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, u16, u8, u8)| {
    let (bytes, at, flip, step) = input;
    let key = FileKey::from_bytes([3; 32]);
    let step = usize::from(step).max(1);
    // Strange bytes, all at once and in pieces.
    assert_eq!(
        open(&key, &bytes, bytes.len()).map(|(_, plain)| plain),
        open(&key, &bytes, step).map(|(_, plain)| plain)
    );
    // A good file, whole and with one byte changed.
    let head = FileHead { name: "a".into(), size: bytes.len() as u64, sha256: hex(&sha256(&bytes)) };
    let Ok((mut sealer, mut sealed)) = FileSealer::new(&key, &head) else { return };
    sealed.extend(sealer.chunk(&bytes, true));
    let (read, plain) = open(&key, &sealed, step).expect("our own writing");
    assert_eq!((read, plain), (head, bytes));
    let at = usize::from(at) % sealed.len();
    assert!(open(&key, &sealed[..at], step).is_err(), "a part of it");
    if flip != 0 {
        sealed[at] ^= flip;
        assert!(open(&key, &sealed, step).is_err(), "a byte changed");
    }
});

fn open(key: &FileKey, sealed: &[u8], step: usize) -> Result<(FileHead, Vec<u8>), OpenError> {
    let mut opener = FileOpener::new(key.clone());
    let mut plain = Vec::new();
    for piece in sealed.chunks(step.max(1)) {
        opener.push(piece, &mut plain)?;
    }
    let head = opener.finish(&mut plain)?;
    Ok((head, plain))
}
