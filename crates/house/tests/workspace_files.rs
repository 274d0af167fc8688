//! Looking at real files: stat, list, read, validate.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its files has failed")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use hostel_house::workspace::files::{
    self, DEFAULT_LIST_CEILING, DEFAULT_READ_CEILING, ListError, ReadError, Stat, Validity,
};

fn read(path: &Path, max_bytes: Option<u64>) -> Result<Option<Vec<u8>>, ReadError> {
    files::read(path, max_bytes, DEFAULT_READ_CEILING)
}

fn make_pipe(path: &Path) {
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    );
    made.unwrap();
}

#[test]
fn stat_describes_what_a_link_leads_to() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "12345").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, root.path().join("link")).unwrap();
    let expected = Stat { is_dir: false, size: 5, mode: "-rw-r-----".into() };
    assert_eq!(files::stat(&file), Some(expected.clone()));
    assert_eq!(files::stat(&root.path().join("link")), Some(expected));

    let directory = root.path().join("directory");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
    let described = files::stat(&directory).unwrap();
    assert!(described.is_dir);
    assert_eq!(described.mode, "dtrwxrwxrwx");
    assert_eq!(described.size, fs::metadata(&directory).unwrap().len());

    assert_eq!(files::stat(Path::new("/dev/null")).unwrap().mode, "Dcrw-rw-rw-");
    make_pipe(&root.path().join("pipe"));
    assert!(files::stat(&root.path().join("pipe")).unwrap().mode.starts_with('p'));
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    assert!(files::stat(&root.path().join("socket")).unwrap().mode.starts_with('S'));
}

#[test]
fn whatever_can_not_be_looked_at_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    let too_long = PathBuf::from("a".repeat(5000));
    for missing in [
        root.path().join("missing"),
        file.join("below"),
        root.path().join("loop"),
        root.path().join("dangling"),
        too_long,
        PathBuf::new(),
        PathBuf::from("a\0b"),
    ] {
        assert_eq!(files::stat(&missing), None, "{missing:?}");
        assert_eq!(read(&missing, None), Ok(None), "{missing:?}");
        assert_eq!(files::validate(&missing), Validity { valid: false, is_dir: false });
    }
    assert_eq!(files::validate(&file), Validity { valid: true, is_dir: false });
    assert_eq!(files::validate(root.path()), Validity { valid: true, is_dir: true });
}

#[test]
fn list_shows_visible_names_in_byte_order() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("d");
    fs::create_dir(&directory).unwrap();
    for name in ["b", "a", "B", "_x", "10", "9", ".hidden", "ä", "a b"] {
        fs::write(directory.join(name), "").unwrap();
    }
    fs::write(directory.join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    fs::create_dir(directory.join("sub")).unwrap();
    fs::create_dir(directory.join(".git")).unwrap();
    symlink("sub", directory.join("to-sub")).unwrap();
    symlink("nowhere", directory.join("to-nowhere")).unwrap();
    symlink("a", directory.join("to-a")).unwrap();

    let given = root.path().join("./d/");
    let entries = files::list(&given, DEFAULT_LIST_CEILING).unwrap();
    let shown: Vec<(&[u8], bool)> = entries.iter().map(|entry| (entry.name.as_bytes(), entry.is_dir)).collect();
    let expected: Vec<(&[u8], bool)> = vec![
        (b"10", false),
        (b"9", false),
        (b"B", false),
        (b"_x", false),
        (b"a", false),
        (b"a b", false),
        (b"b", false),
        (b"sub", true),
        (b"to-a", false),
        (b"to-nowhere", false),
        (b"to-sub", true),
        ("ä".as_bytes(), false),
        (b"\xff\xfe", false),
    ];
    assert_eq!(shown, expected);
    for entry in &entries {
        assert_eq!(entry.path, directory.join(&entry.name));
    }

    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join(".only-hidden"), "").unwrap();
    assert_eq!(files::list(&empty, DEFAULT_LIST_CEILING), Ok(Vec::new()));
    assert_eq!(files::list(&directory, 3), Err(ListError::TooMany { ceiling: 3 }));
}

#[test]
fn list_names_the_failed_operation() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let pipe = root.path().join("pipe");
    make_pipe(&pipe);
    for (path, text) in [
        (PathBuf::new(), "open : no such file or directory".to_owned()),
        (PathBuf::from("/no/such"), "open /no/such: no such file or directory".to_owned()),
        (file.clone(), format!("readdirent {}: not a directory", file.display())),
        (file.join("x"), format!("open {}/x: not a directory", file.display())),
        (pipe.clone(), format!("readdirent {}: not a directory", pipe.display())),
    ] {
        assert_eq!(files::list(&path, DEFAULT_LIST_CEILING).unwrap_err().to_string(), text);
    }
}

#[test]
fn read_checks_in_order_and_honours_the_limit() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    let content = b"four\xff\0!!";
    fs::write(&file, content).unwrap();
    assert_eq!(read(&file, None), Ok(Some(content.to_vec())));
    assert_eq!(read(&file, Some(8)), Ok(Some(content.to_vec())));
    assert_eq!(read(&file, Some(7)), Err(ReadError::ExceedsMaxBytes));
    assert_eq!(files::read(&file, None, 7), Err(ReadError::ExceedsCeiling { ceiling: 7 }));
    assert_eq!(files::read(&file, Some(100), 7), Err(ReadError::ExceedsCeiling { ceiling: 7 }));

    // A directory is refused as such, whatever the limit.
    assert_eq!(read(root.path(), Some(1)), Err(ReadError::Directory));
    symlink(root.path(), root.path().join("to-directory")).unwrap();
    assert_eq!(read(&root.path().join("to-directory"), None), Err(ReadError::Directory));

    fs::write(&file, "").unwrap();
    assert_eq!(read(&file, Some(1)), Ok(Some(Vec::new())));
}

#[test]
fn read_never_waits_and_never_runs_away() {
    let root = tempfile::tempdir().unwrap();
    let pipe = root.path().join("pipe");
    make_pipe(&pipe);
    assert_eq!(read(&pipe, None), Err(ReadError::NotRegular));
    assert_eq!(read(Path::new("/dev/zero"), Some(10)), Err(ReadError::NotRegular));

    // The kernel states a size of zero for these; what really comes out is bounded all the same.
    let own = Path::new("/proc/self/status");
    let content = read(own, None).unwrap().unwrap();
    assert!(content.starts_with(b"Name:"));
    assert_eq!(read(own, Some(5)), Err(ReadError::ExceedsMaxBytes));
}

#[test]
fn an_unreadable_file_is_an_error_and_not_missing() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&file).is_ok() {
        eprintln!("skipped: this user may read everything, so permissions can not be tested");
        return;
    }
    let text = format!("open {}: permission denied", file.display());
    assert_eq!(read(&file, None).unwrap_err().to_string(), text);
}
