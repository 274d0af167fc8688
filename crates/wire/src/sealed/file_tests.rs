//! Files: whole or not at all.

use proptest::prelude::*;

use super::*;

fn head_of(plain: &[u8]) -> FileHead {
    FileHead { name: "notes.txt".into(), size: plain.len() as u64, sha256: encoding::hex(&Sha256::digest(plain)) }
}

fn seal(key: &FileKey, head: &FileHead, plain: &[u8]) -> Vec<u8> {
    let (mut sealer, mut out) = FileSealer::new(key, head).unwrap();
    let pieces: Vec<_> = plain.chunks(FILE_CHUNK).collect();
    let (last, before) = pieces.split_last().map_or((&[][..], &[][..]), |(last, before)| (*last, before));
    for piece in before {
        out.extend(sealer.chunk(piece, false));
    }
    out.extend(sealer.chunk(last, true));
    out
}

fn open(key: &FileKey, sealed: &[u8], step: usize) -> Result<(FileHead, Vec<u8>), OpenError> {
    let mut opener = FileOpener::new(key.clone());
    let mut plain = Vec::new();
    for piece in sealed.chunks(step.max(1)) {
        opener.push(piece, &mut plain)?;
    }
    let head = opener.finish(&mut plain)?;
    Ok((head, plain))
}

#[test]
fn every_size_comes_back() {
    let key = FileKey::generate();
    for size in [0, 1, FILE_CHUNK - 1, FILE_CHUNK, FILE_CHUNK + 1, 2 * FILE_CHUNK, 3 * FILE_CHUNK + 7] {
        let plain: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let head = head_of(&plain);
        let sealed = seal(&key, &head, &plain);
        assert_eq!(sealed.len() as u64, sealed_size(&head), "{size}");
        for step in [sealed.len(), 4096, FILE_CHUNK + 17] {
            let (read, opened) = open(&key, &sealed, step).unwrap();
            assert_eq!(read, head);
            assert!(opened == plain, "{size} {step}");
        }
    }
}

#[test]
fn nothing_is_opened_beyond_the_size_that_the_head_names() {
    let key = FileKey::generate();
    let plain = vec![1; 3 * FILE_CHUNK];
    for size in [0, 1, FILE_CHUNK as u64, 2 * FILE_CHUNK as u64, 3 * FILE_CHUNK as u64 - 1] {
        let sealed = seal(&key, &FileHead { size, ..head_of(&plain) }, &plain);
        let (mut opener, mut opened) = (FileOpener::new(key.clone()), Vec::new());
        let pushed = sealed.chunks(4096).try_for_each(|piece| opener.push(piece, &mut opened));
        assert_eq!(pushed, Err(OpenError::Refused), "{size}");
        assert!(opened.len() as u64 <= size, "{size}: {}", opened.len());
    }
}

#[test]
fn a_part_of_a_file_is_no_file() {
    let key = FileKey::generate();
    let plain = vec![1; 2 * FILE_CHUNK + 5];
    let sealed = seal(&key, &head_of(&plain), &plain);
    let first = sealed.len() - 5 - 17;
    for length in [0, 3, 29, 30, 60, first - FILE_CHUNK - 17, first, sealed.len() - 1] {
        assert!(open(&key, &sealed[..length], 65_536).is_err(), "{length}");
    }
    assert_eq!(open(&key, &sealed[..first], 65_536).err(), Some(OpenError::Truncated), "at the edge of a chunk");
    let longer = [&sealed[..], b"x"].concat();
    assert!(open(&key, &longer, 65_536).is_err());
}

#[test]
fn chunks_cannot_change_places() {
    let key = FileKey::generate();
    let plain: Vec<u8> = (0..3 * FILE_CHUNK).map(|n| (n / FILE_CHUNK) as u8).collect();
    let sealed = seal(&key, &head_of(&plain), &plain);
    let at = sealed.len() - 3 * (FILE_CHUNK + 17);
    let (first, second) = (at..at + FILE_CHUNK + 17, at + FILE_CHUNK + 17..at + 2 * (FILE_CHUNK + 17));
    let swapped = [&sealed[..at], &sealed[second.clone()], &sealed[first.clone()], &sealed[second.end..]].concat();
    assert_eq!(open(&key, &swapped, 65_536).err(), Some(OpenError::Refused));
    assert_eq!(open(&FileKey::generate(), &sealed, 65_536).err(), Some(OpenError::Refused));
}

#[test]
fn what_it_claims_is_checked() {
    let key = FileKey::generate();
    let mut lie = head_of(b"hello");
    lie.size = 6;
    assert_eq!(open(&key, &seal(&key, &lie, b"hello"), 99).err(), Some(OpenError::Refused));
    let lie = head_of(b"other");
    assert_eq!(open(&key, &seal(&key, &lie, b"hello"), 99).err(), Some(OpenError::Refused));
    let long = FileHead { name: "x".repeat(70_000), ..head_of(b"") };
    assert!(FileSealer::new(&key, &long).is_err());
}

#[test]
fn keys_reach_their_readers_alone() {
    let key = FileKey::generate();
    let (bob, eve) = (SecretKey::generate(), SecretKey::generate());
    let copy = key.seal_for(&bob.public()).unwrap();
    assert_eq!(FileKey::open_seal(&copy, &bob), Ok(key.clone()));
    assert_eq!(FileKey::open_seal(&copy, &eve).err(), Some(OpenError::Refused));
    let root = RootKey::generate();
    let copy = key.wrap(&root);
    assert_eq!(FileKey::unwrap(&copy, &root), Ok(key));
    assert_eq!(FileKey::unwrap(&copy, &RootKey::generate()).err(), Some(OpenError::Refused));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_changed_byte_is_noticed(plain in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let key = FileKey::from_bytes([3; 32]);
        let mut sealed = seal(&key, &head_of(&plain), &plain);
        let at = at.index(sealed.len());
        sealed[at] ^= flip;
        prop_assert!(open(&key, &sealed, 100).is_err());
    }

    #[test]
    fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
        let key = FileKey::from_bytes([3; 32]);
        open(&key, &bytes, step).ok();
        open(&key, &[&MAGIC[..], &bytes].concat(), step).ok();
    }
}

#[test]
fn the_size_of_a_file_is_found_by_that_of_its_seal() {
    for size in [0, 1, 9, 10, 15, 262_143, 262_144, 262_145, 700_000, 50 << 20] {
        let sealed = sealed_size(&FileHead { name: "ä.txt".to_owned(), size, sha256: "f".repeat(64) });
        assert_eq!(plain_size("ä.txt", sealed), Some(size));
    }
    assert_eq!(plain_size("a", 3), None);
}
