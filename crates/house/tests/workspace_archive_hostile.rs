//! Extracting archives that are damaged or mean harm.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its files has failed")]

use crate::tarballs;

use std::fs;
use std::os::unix::fs::symlink;

use hostel_house::workspace::archive::{self, ExtractError, Failure, Limits, StreamFault};
use tarballs::{Place, Tar, header};

#[test]
fn damaged_content_fails_with_the_count_so_far() {
    let good = Tar::default().file("a", "1").file("b", "2");
    let mut wrong_sum = good.clone().file("c", "3").end();
    wrong_sum.0[2 * 1024 + 1] ^= 1;
    let lone_zero_block = good.clone().raw(&[0; 512]).file("c", "3").end();
    let cut = Tar(good.clone().file("c", &"3".repeat(2000)).0[..2 * 1024 + 512 + 700].to_vec());
    let half_header = Tar([&good.0[..], &good.0[..100]].concat());
    let negative = good.clone().raw(&{
        let mut block = tar::Header::new_gnu();
        block.as_old_mut().size = [0xff; 12];
        block.set_cksum();
        *block.as_bytes()
    });
    let huge_extension = good.clone().raw(&header(b"x", b'x', 2 << 20)).raw(&vec![b'a'; 2 << 20]);
    let huge_name = good.clone().raw(&header(b"x", b'L', 1 << 40));
    let zero_in_name = good.clone().pax("path", b"c\0d").file("c", "3").end();
    for (what, tar, text) in [
        ("wrong header sum", &wrong_sum, "gzip: archive/tar: invalid tar header"),
        ("lone zero block", &lone_zero_block, "gzip: archive/tar: invalid tar header"),
        ("cut in data", &cut, "gzip: unexpected EOF"),
        ("cut in header", &half_header, "gzip: unexpected EOF"),
        ("negative size", &negative, "gzip: archive/tar: invalid tar header"),
        ("huge extension", &huge_extension, "gzip: archive/tar: header field too long"),
        ("huge long name", &huge_name, "gzip: archive/tar: header field too long"),
        ("zero in a name", &zero_in_name, "gzip: archive/tar: invalid tar header"),
    ] {
        let place = Place::new();
        let failure = place.extract(&tar.gzip()).unwrap_err();
        assert_eq!(failure.to_string(), text, "{what}");
        assert_eq!(failure.file_count, 2, "{what}");
        assert!(place.destination().join("a").exists(), "{what}: files already written stay");
        assert!(!place.destination().join(".synced").exists(), "{what}: not marked as complete");
        assert!(!place.kept_old_content(), "{what}: the wipe came before");
        assert!(!place.archive().exists(), "{what}: the archive is consumed");
    }
}

#[test]
fn a_wrong_checksum_or_a_cut_stream_is_noticed() {
    let whole = Tar::default().file("a", "1").end().gzip();
    let mut flipped = whole.clone();
    let at = flipped.len() - 8;
    flipped[at] ^= 0xff;
    let cut = &whole[..whole.len() - 4];
    for (bytes, text) in [(&flipped[..], "gzip: gzip: invalid checksum"), (cut, "gzip: unexpected EOF")] {
        let place = Place::new();
        let failure = place.extract(bytes).unwrap_err();
        assert_eq!((failure.to_string().as_str(), failure.file_count), (text, 1));
        assert!(!place.destination().join(".synced").exists());
    }
}

#[test]
fn hostile_names_never_leave_the_destination() {
    for name in
        ["../evil", "a/../../evil", "/../evil", "../dest-evil", "./../evil", "..", "a/b/../../..", "../dest/../evil"]
    {
        let place = Place::new();
        let tar = Tar::default().file("first", "1").file(name, "evil").end();
        let failure = place.extract(&tar.gzip()).unwrap_err();
        assert_eq!(failure.to_string(), format!("unsafe path in archive: {name}"));
        assert_eq!(failure.file_count, 0, "{name}");
        for victim in ["evil", "dest-evil"] {
            assert!(!place.root.path().join(victim).exists(), "{name}");
        }
        assert!(!place.destination().join(".synced").exists());
        assert!(!place.archive().exists());
    }
    // The same through the long-name headers.
    let place = Place::new();
    let tar = Tar::default().pax("path", b"../evil").file("harmless", "evil").end();
    assert_eq!(place.extract(&tar.gzip()).unwrap_err().to_string(), "unsafe path in archive: ../evil");
    let tar = Tar::default().member(b"x", b'L', b"../evil\0").file("harmless", "evil").end();
    assert_eq!(place.extract(&tar.gzip()).unwrap_err().to_string(), "unsafe path in archive: ../evil");
    // A way out and back in is no way out.
    let tar = Tar::default().file("../dest/fine", "1").end();
    assert_eq!(place.extract(&tar.gzip()), Ok(1));
    assert!(place.destination().join("fine").exists());
}

#[test]
fn only_files_and_directories_are_unpacked() {
    for kind in *b"12346 7gSVDMNX" {
        let place = Place::new();
        let tar = Tar::default().file("first", "1").member(b"odd", kind, b"").end();
        let failure = place.extract(&tar.gzip()).unwrap_err();
        let expected = format!("unsupported tar entry type {}: odd", char::from(kind));
        assert_eq!(failure.to_string(), expected);
        assert_eq!(failure.file_count, 0);
        assert!(fs::symlink_metadata(place.destination().join("odd")).is_err());
    }
    let place = Place::new();
    let tar = Tar::default().pax("GNU.sparse.major", b"1").file("sparse", "1").end();
    let failure = place.extract(&tar.gzip()).unwrap_err();
    assert_eq!(failure.cause, ExtractError::Unsupported { kind: b'S', member: b"sparse".to_vec() });
}

#[test]
fn members_in_each_others_way_are_errors() {
    let place = Place::new();
    let dest = place.destination();
    let dest = dest.display();
    for (tar, text) in [
        (Tar::default().directory("d/").file("d", "x"), format!("create d: open {dest}/d: is a directory")),
        (Tar::default().file("f", "x").file("f/below", "y"), format!("mkdir {dest}/f: not a directory")),
        (Tar::default().file("f", "x").directory("f/"), format!("mkdir {dest}/f: not a directory")),
        (Tar::default().file(".", "x"), format!("create .: open {dest}: is a directory")),
        (Tar::default().file("", "x"), format!("create : open {dest}: is a directory")),
        (
            Tar::default().pax("path", &b"x/".repeat(4000)).file("p", "x"),
            format!("mkdir {dest}{}: file name too long", "/x".repeat(3999)),
        ),
        (
            Tar::default().pax("path", &b"n".repeat(300)).file("p", "x"),
            format!("create {0}: open {dest}/{0}: file name too long", "n".repeat(300)),
        ),
    ] {
        let failure = place.extract(&tar.end().gzip()).unwrap_err();
        assert_eq!(failure.to_string(), text);
    }
}

#[test]
fn unfolding_is_bounded() {
    let place = Place::new();
    let bomb = Tar::default().file("first", "1").member(b"zeros", b'0', &vec![0; 8 << 20]).end().gzip();
    assert!(bomb.len() < 100_000, "small when compressed");
    let limits = Limits { total_bytes: 1 << 20, ..Limits::default() };
    let failure = place.extract_within(&bomb, &limits).unwrap_err();
    assert_eq!(failure, Failure { file_count: 1, cause: ExtractError::TooLarge { limit: 1 << 20 } });
    assert!(failure.to_string().starts_with("extraction size limit exceeded"));
    assert!(fs::metadata(place.destination().join("zeros")).unwrap().len() <= 1 << 20);

    let many = (0..20).fold(Tar::default(), |tar, index| tar.file(&format!("f{index}"), "")).end();
    let limits = Limits { members: 10, ..Limits::default() };
    let failure = place.extract_within(&many.gzip(), &limits).unwrap_err();
    assert_eq!(failure, Failure { file_count: 10, cause: ExtractError::TooMany { limit: 10 } });

    // Endless padding after the end of the archive is part of the sum.
    let padded = Tar::default().file("a", "1").raw(&vec![0; 4 << 20]);
    let limits = Limits { total_bytes: 1 << 20, ..Limits::default() };
    assert!(place.extract_within(&padded.gzip(), &limits).is_err());
}

#[test]
fn links_slipped_into_the_destination_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    let destination = root.path().join("dest");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&destination).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    symlink(&outside, destination.join("link")).unwrap();
    symlink(outside.join("victim"), destination.join("file")).unwrap();
    symlink(outside.join("new"), destination.join(".synced")).unwrap();

    for (tar, at) in [
        (Tar::default().file("link/victim", "evil"), "link"),
        (Tar::default().file("link/deep/er", "evil"), "link"),
        (Tar::default().directory("link/made/"), "link"),
        (Tar::default().file("file", "evil"), "file"),
        (Tar::default(), ".synced"),
    ] {
        let failure = archive::unpack_plain(&tar.end().0, &destination, &Limits::default()).unwrap_err();
        assert!(failure.to_string().contains(at), "{failure}");
    }
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"untouched");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_pipe_slipped_into_the_destination_does_not_hold_us() {
    let root = tempfile::tempdir().unwrap();
    let permissions = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = root.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, permissions, 0).unwrap();
    let tar = Tar::default().file("pipe", "x").end();
    let failure = archive::unpack(&tar.gzip()[..], root.path(), &Limits::default()).unwrap_err();
    assert!(matches!(failure.cause, ExtractError::Create { .. }), "{failure}");
}

#[test]
fn arbitrary_bytes_never_break_the_reader() {
    // A cheap stand-in for the fuzzer: many prefixes and single damaged bytes of a small archive.
    let root = tempfile::tempdir().unwrap();
    let destination = root.path().join("dest");
    fs::create_dir(&destination).unwrap();
    let limits = Limits { total_bytes: 1 << 16, members: 100 };
    let whole = Tar::default().pax("path", b"some/name").file("a", "12345").directory("d/").end();
    for length in (0..whole.0.len()).step_by(7) {
        drop(archive::unpack_plain(&whole.0[..length], &destination, &limits));
    }
    let mut damaged = whole.0.clone();
    for index in (0..damaged.len()).step_by(3) {
        damaged[index] ^= 0x81;
        drop(archive::unpack_plain(&damaged, &destination, &limits));
        damaged[index] ^= 0x81;
    }
    let compressed = whole.gzip();
    for index in 0..compressed.len() {
        let mut damaged = compressed.clone();
        damaged[index] ^= 0x41;
        drop(archive::unpack(&damaged[..], &destination, &limits));
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing beside the destination");
    assert_eq!(
        archive::unpack(&b""[..], &destination, &limits).unwrap_err().cause,
        ExtractError::Stream(StreamFault::Empty)
    );
}
