use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn nothing() -> impl FnMut(&[u8]) -> io::Result<()> {
    |_| Ok(())
}

fn signature(inode: u64, mtime_ns: i64, ctime_ns: i64) -> Signature {
    Signature { dev: 1, inode, size: 3, mtime_ns, ctime_ns }
}

#[test]
fn what_is_remembered_is_little_and_has_settled() {
    let mut remembered = HashMap::new();
    let program = || Remembered { found: Resolved::missing(2), files: Vec::new() };
    for number in 0..MAX_REMEMBERED {
        insert(&mut remembered, PathBuf::from(number.to_string()), program());
    }
    assert_eq!(remembered.len(), MAX_REMEMBERED);
    insert(&mut remembered, PathBuf::from("last"), program());
    assert_eq!(remembered.keys().collect::<Vec<_>>(), [Path::new("last")]);
    let (now, second) = (Duration::from_secs(1_000), 1_000_000_000);
    for (mtime, ctime, settled) in [
        (997 * second, 997 * second, true),
        (998 * second - 1, 998 * second - 1, true),
        (998 * second, 0, false),
        (0, 998 * second, false),
        (999 * second, 1, false),
        (0, 2_000 * second, false),
    ] {
        assert_eq!(signature(1, mtime, ctime).is_settled(now), settled, "{mtime} {ctime}");
    }
    for (mode, runs) in [(0o100_644, false), (0o104_000, false), (0o100_744, true), (0o100_010, true), (1, true)] {
        assert_eq!(can_be_run_by_somebody(mode), runs, "{mode:o}");
    }
}

#[test]
fn what_is_remembered_counts_only_while_its_files_are_the_same() {
    let shell = Path::new("/bin/sh");
    let now = (0..100).find_map(|_| Signature::at_once(shell).ok()).expect("the kernel knows the shell");
    assert_eq!(now, Signature::of(&shell.metadata().unwrap()));
    let current = |files: Vec<(PathBuf, Signature)>| Remembered { found: Resolved::missing(2), files }.is_current();
    assert!(current(vec![(shell.to_owned(), now)]));
    let other = Signature { ctime_ns: now.ctime_ns + 1, ..now };
    assert!(!current(vec![(shell.to_owned(), other)]));
    assert!(!current(vec![(shell.to_owned(), now), ("/no/such/file".into(), now)]), "an interpreter counts too");
    assert!(!is_known_to_be_missing(shell));
    assert!((0..100).any(|_| {
        drop(Path::new("/no-such-file").metadata());
        is_known_to_be_missing(Path::new("/no-such-file"))
    }));
}

#[test]
fn what_takes_too_long_to_read_has_no_digest() {
    let digest_of = |path: &str| digest_of(&File::open(path).unwrap(), Duration::ZERO, &mut nothing());
    let endless = digest_of("/dev/zero").unwrap_err();
    assert_eq!(endless.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
    let directory = digest_of("/").unwrap_err();
    assert_eq!(directory.raw_os_error(), Some(Errno::ISDIR.raw_os_error()), "it is not tried again");
    let (empty, head) = digest_of("/dev/null").unwrap();
    assert_eq!((empty, head), (<[u8; 32]>::from(Sha256::digest([])), Vec::new()));
}

#[test]
fn a_file_is_read_once_with_its_beginning() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let content: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let mut seen = Vec::new();
    let read = read(&path, |piece| {
        seen.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    assert_eq!((seen.as_slice(), read.head.as_slice()), (content.as_slice(), &content[..HEAD_BYTES]));
    assert_eq!(read.digest, <[u8; 32]>::from(Sha256::digest(&content)));
    assert_eq!(read.signature, Signature::of(&path.metadata().unwrap()));
    assert!(!read.may_be_remembered(), "it was written a moment ago");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o111)).unwrap();
    let hidden = super::read(&path, nothing()).unwrap();
    // Root reads everything.
    assert_eq!(hidden.is_readable(), rustix::process::geteuid().is_root());
    assert_eq!(hidden.digest == [0; 32], !hidden.is_readable());
}

#[test]
fn nobody_waits_for_the_other_end_of_what_is_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o755), 0).unwrap();
    open_at_once(&pipe).unwrap();
    assert_eq!(read(&pipe, nothing()).err().and_then(|error| error.raw_os_error()), Some(Errno::ACCESS.raw_os_error()));
}
