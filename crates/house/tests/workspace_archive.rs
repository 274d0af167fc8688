//! Extracting real archives: what an honest one leaves behind, and in which order.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its files has failed")]

use crate::tarballs;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hostel_house::workspace::archive::{self, ExtractError, Limits};
use tarballs::{Place, Tar, gzip};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_honest_archive_replaces_the_destination() {
    let place = Place::new();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(130));
    let tar = Tar::default()
        .directory("bin/")
        .file("bin/tool", "#!/bin/sh\n")
        .file("no/parents/listed.txt", "text")
        .file("/absolute/name", "inside")
        .file("a/../back", "inside too")
        .file("empty", "")
        .directory("./")
        .member(b"oldstyle/", 0, b"")
        .member(b"oldfile", 0, b"old format")
        .member(b"././@LongLink", b'L', format!("{long}\0").as_bytes())
        .file("short", "long name")
        .pax("path", "päx/näme".as_bytes())
        .file("ignored", "pax name")
        .file("twice", "first, longer")
        .file("twice", "second")
        .end();
    assert_eq!(place.extract(&tar.gzip()), Ok(10));

    let destination = place.destination();
    for (name, content) in [
        ("bin/tool", "#!/bin/sh\n"),
        ("no/parents/listed.txt", "text"),
        ("absolute/name", "inside"),
        ("back", "inside too"),
        ("empty", ""),
        ("oldfile", "old format"),
        (&long, "long name"),
        ("päx/näme", "pax name"),
        ("twice", "second"),
        (".synced", ""),
    ] {
        assert_eq!(fs::read_to_string(destination.join(name)).unwrap(), content, "{name}");
        assert_eq!(mode(&destination.join(name)), 0o600, "{name}");
    }
    for name in ["", "bin", "no", "no/parents", "oldstyle"] {
        assert_eq!(mode(&destination.join(name)), 0o700, "{name}");
    }
    assert!(!destination.join("old").exists(), "the old content is gone");
    assert!(!place.archive().exists(), "the archive is consumed");
}

#[test]
fn large_and_many_members_arrive_whole() {
    let place = Place::new();
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut builder = tar::Builder::new(Vec::new());
    for index in 0..300 {
        let mut header = tar::Header::new_ustar();
        header.set_size(7);
        header.set_mode(0o644);
        let name = format!("some/directory/{}/file-{index}", index % 10);
        builder.append_data(&mut header, name, format!("{index:07}").as_bytes()).unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, "large", &content[..]).unwrap();
    let tar = builder.into_inner().unwrap();
    assert_eq!(place.extract(&gzip(&tar)), Ok(301));
    assert_eq!(fs::read(place.destination().join("large")).unwrap(), content);
    assert_eq!(fs::read(place.destination().join("some/directory/7/file-297")).unwrap(), b"0000297");
}

#[test]
fn several_gzip_members_are_one_stream_and_what_follows_is_ignored() {
    let place = Place::new();
    let first = Tar::default().file("a", "1");
    let second = Tar::default().file("b", "2").end();
    let mut bytes = gzip(&first.0);
    bytes.extend(gzip(&second.0));
    bytes.extend(b"anything at all");
    assert_eq!(place.extract(&bytes), Ok(2));
    assert!(place.destination().join(".synced").exists());
}

#[test]
fn an_archive_may_end_without_its_closing_blocks() {
    for closing in [0, 512, 1024, 10240] {
        let place = Place::new();
        let tar = Tar::default().file("a", "1").raw(&vec![0; closing]);
        assert_eq!(place.extract(&tar.gzip()), Ok(1), "{closing}");
    }
}

#[test]
fn odd_but_honest_archives_are_understood() {
    let place = Place::new();
    // Cut off within the zeros that fill the last block: nothing is missing.
    let tar = Tar::default().file("a", "1");
    assert_eq!(place.extract(&gzip(&tar.0[..512 + 1])), Ok(1));
    // A directory of the oldest format has no data, whatever its size field says.
    let tar = Tar::default().raw(&tarballs::header(b"d/", 0, 700)).file("d/f", "2").end();
    assert_eq!(place.extract(&tar.gzip()), Ok(1));
    // An empty long name leaves the short one.
    let tar = Tar::default().member(b"x", b'L', b"\0").file("short", "3").end();
    assert_eq!(place.extract(&tar.gzip()), Ok(1));
    assert!(place.destination().join("short").exists());
    // A name in two parts.
    let mut header = tar::Header::new_ustar();
    let long = format!("{}/{}", "p".repeat(120), "n".repeat(80));
    header.set_path(&long).unwrap();
    header.set_size(0);
    header.set_cksum();
    assert_eq!(place.extract(&Tar::default().raw(header.as_bytes()).end().gzip()), Ok(1));
    assert!(place.destination().join(&long).exists());
}

#[test]
fn a_file_that_is_no_gzip_costs_only_itself() {
    for (bytes, text) in [
        (&b""[..], "gzip: EOF"),
        (b"this is not gzip at all", "gzip: gzip: invalid header"),
        (b"\x1f\x8b\x08", "gzip: unexpected EOF"),
        (b"\x1f\x8b\x09\0\0\0\0\0\0\0\0\0", "gzip: gzip: invalid header"),
        (b"\x1f\x8b\x08\x08\0\0\0\0\0\0name", "gzip: unexpected EOF"),
    ] {
        let place = Place::new();
        let failure = place.extract(bytes).unwrap_err();
        assert_eq!(failure.to_string(), text);
        assert_eq!(failure.file_count, 0);
        assert!(place.kept_old_content(), "{text}: the destination is not touched");
        assert!(!place.archive().exists(), "{text}: the archive is consumed");
    }
}

#[test]
fn a_refused_destination_costs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let archive_path = root.path().join("archive.tgz");
    fs::write(&archive_path, Tar::default().file("a", "1").end().gzip()).unwrap();
    let home = root.path().join("users/me");
    fs::create_dir_all(&home).unwrap();
    symlink(root.path().join("users"), root.path().join("alias")).unwrap();
    let protected = [home.clone()];
    let extract = |destination: &Path| {
        archive::extract_tar(&archive_path, destination, &protected, &Limits::default()).unwrap_err()
    };

    for destination in ["relative/path", "", "/", "//", "/..", "/tmp/..", "."] {
        let failure = extract(Path::new(destination));
        let text = format!("destDir must be an absolute, non-root path: \"{destination}\"");
        assert_eq!((failure.to_string(), failure.file_count), (text, 0));
    }
    for destination in ["users/me", "users", "users/me/.", "users/you/../me", "alias", "alias/me", "."] {
        let failure = extract(&root.path().join(destination));
        assert!(matches!(failure.cause, ExtractError::Protected { .. }), "{destination}: {failure}");
    }
    assert!(archive_path.exists() && home.exists());
    let below = home.join("project");
    assert_eq!(archive::extract_tar(&archive_path, &below, &protected, &Limits::default()), Ok(1));
}

#[test]
fn an_archive_that_can_not_be_opened_costs_nothing() {
    let place = Place::new();
    let missing = place.archive();
    let extract = |path: &Path| archive::extract_tar(path, &place.destination(), &[], &Limits::default());
    let text = format!("open archive: open {}: no such file or directory", missing.display());
    assert_eq!(extract(&missing).unwrap_err().to_string(), text);

    let directory = place.root.path().join("directory");
    fs::create_dir(&directory).unwrap();
    let text = format!("open archive: open {}: is a directory", directory.display());
    assert_eq!(extract(&directory).unwrap_err().to_string(), text);
    assert!(directory.exists() && place.kept_old_content());

    // A named pipe without a writer would hold the caller for ever.
    let pipe = place.root.path().join("pipe");
    let permissions = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, permissions, 0).unwrap();
    let text = format!("open archive: open {}: invalid argument", pipe.display());
    assert_eq!(extract(&pipe).unwrap_err().to_string(), text);
    assert!(pipe.exists());
}

#[test]
fn whatever_stood_at_the_destination_gives_way() {
    let bytes = Tar::default().file("a", "1").end().gzip();
    let root = tempfile::tempdir().unwrap();
    let archive_path = root.path().join("archive.tgz");
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("kept"), "").unwrap();

    let destination = root.path().join("dest");
    let extract = |destination: &Path| {
        fs::write(&archive_path, &bytes).unwrap();
        archive::extract_tar(&archive_path, destination, &[], &Limits::default())
    };
    fs::write(&destination, "a file").unwrap();
    assert_eq!(extract(&destination), Ok(1));
    fs::remove_dir_all(&destination).unwrap();

    symlink(&elsewhere, &destination).unwrap();
    assert_eq!(extract(&destination), Ok(1));
    assert!(fs::symlink_metadata(&destination).unwrap().is_dir(), "the link was replaced");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1, "and not followed");

    assert_eq!(extract(&root.path().join("new/and/deep/")), Ok(1));
    assert_eq!(mode(&root.path().join("new")), 0o700);

    let below_a_file = elsewhere.join("kept/dest");
    let failure = extract(&below_a_file).unwrap_err();
    let text = format!("clean destDir: unlinkat {}: not a directory", below_a_file.display());
    assert_eq!(failure.to_string(), text);

    // An archive inside the destination is wiped with it, yet still unpacked: it was open.
    let inside = destination.join("archive.tgz");
    fs::write(&inside, &bytes).unwrap();
    assert_eq!(archive::extract_tar(&inside, &destination, &[], &Limits::default()), Ok(1));
    assert!(destination.join("a").exists() && !inside.exists());
}
