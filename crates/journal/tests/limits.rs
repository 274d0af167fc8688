//! Refusals: a file system that takes no more, wrong arguments, names that are taken.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::common;

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{EXIT, Folder, Recorder, meta, pattern, read_from};
use hostel_journal::{HEADROOM, MAX_LABEL, MAX_PAYLOAD, Note, Reader, Stream, TAILROOM, Writer, inspect, remove, scan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const INSIDE: &str = "HOSTEL_JOURNAL_TEST_FILE_LIMIT";

/// The limit on file sizes belongs to a whole process, and without an ignored signal reaching it is fatal: the test
/// runs itself again in a process of its own.
#[test]
fn a_write_that_fails_halfway_is_undone_and_can_be_repeated() {
    if std::env::var_os(INSIDE).is_some() {
        return fill_up_to_the_limit();
    }
    let inside = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "limits::a_write_that_fails_halfway_is_undone_and_can_be_repeated"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success() && printed.contains("1 passed"), "{printed}");
}

fn limit_file_size(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

fn fill_up_to_the_limit() {
    let len = 5_000;
    // In the middle of a record, in a block header, between two blocks.
    for limit in [20_000, (1 << 20) + 30, (1 << 20) - 4, 1_300_001] {
        let folder = Folder::new();
        let mut recorder = Recorder::create(&folder);
        while recorder.committed() + 2 * (len as u64 + 96) < limit {
            recorder.output(Stream::Out, len);
        }
        limit_file_size(Some(limit));
        let (before, payload) = loop {
            let before = recorder.writer.position();
            let payload = pattern(before.next_seq, len);
            let mut buffer = vec![0; HEADROOM];
            buffer.extend_from_slice(&payload);
            buffer.extend_from_slice(&[0xaa; TAILROOM]);
            let result = recorder.writer.append_output(Stream::Out, &mut buffer, len, 9);
            assert_eq!(&buffer[HEADROOM..HEADROOM + len], payload);
            assert_eq!(&buffer[HEADROOM + len..], [0xaa; TAILROOM]);
            match result {
                Ok(()) => {
                    let seq = before.next_seq;
                    let item = common::Seen::Output(Stream::Out, seq, 9, payload);
                    recorder.seen.push(item);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
                    break (before, payload);
                }
            }
        };
        assert!(before.committed + 2 * (len as u64 + 96) > limit);
        assert_eq!(recorder.writer.position(), before);
        let size = || std::fs::metadata(folder.file()).unwrap().len();
        assert_eq!(size(), before.committed);
        let found = inspect(folder.dir(), folder.id).unwrap();
        assert_eq!((found.position, found.truncated), (before, 0));

        // A short note may still fit; the longer payload is then refused again and changes nothing.
        if recorder.committed() + 40 <= limit && limit < (1 << 20) {
            recorder.note(Note::Held(1));
        }
        let held = recorder.writer.position();
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&payload);
        buffer.extend_from_slice(&[0; TAILROOM]);
        let again = recorder.writer.append_output(Stream::Out, &mut buffer, len, 9);
        assert!(again.is_err());
        assert_eq!((recorder.writer.position(), size()), (held, held.committed));

        limit_file_size(None);
        recorder.output(Stream::Out, len);
        recorder.exit();
        let seen = read_from(&folder.reader(), recorder.committed(), 0, 0);
        assert!(seen == recorder.seen, "limit {limit}");
    }
}

#[test]
fn files_are_private_and_never_overwritten() {
    let folder = Folder::new();
    let recorder = Recorder::create(&folder);
    let mode = std::fs::metadata(folder.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let taken = Writer::create(folder.dir(), &meta(folder.id, b""), 1);
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(inspect(folder.dir(), folder.id).unwrap().position, recorder.writer.position());

    remove(folder.dir(), folder.id).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.file()).unwrap();
    let linked = Writer::create(folder.dir(), &meta(folder.id, b""), 1);
    assert_eq!(linked.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(Reader::open(folder.dir(), folder.id).is_err());
    assert!(Writer::resume(folder.dir(), folder.id, recorder.writer.position()).is_err());
}

#[test]
fn labels_have_a_limit() {
    let folder = Folder::new();
    let long = meta(folder.id, &vec![b'x'; MAX_LABEL + 1]);
    let refused = Writer::create(folder.dir(), &long, 1);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!folder.file().exists());
    let fits = meta(folder.id, &vec![b'x'; MAX_LABEL]);
    let writer = Writer::create(folder.dir(), &fits, 1).unwrap();
    assert_eq!(folder.reader().meta().unwrap(), fits);
    let found = inspect(folder.dir(), folder.id).unwrap();
    assert_eq!((found.meta, found.position), (fits, writer.position()));
}

#[test]
fn impossible_records_are_refused_and_change_nothing() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    let before = recorder.writer.position();
    let mut large = vec![0; HEADROOM + MAX_PAYLOAD + 1 + TAILROOM];
    for len in [0, MAX_PAYLOAD + 1] {
        let result = recorder.writer.append_output(Stream::Out, &mut large, len, 1);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for short in 0..HEADROOM + 16 {
        let mut small = vec![0; short];
        let result = recorder.writer.append_output(Stream::Out, &mut small, 9, 1);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput, "{short}");
    }
    assert_eq!(recorder.writer.position(), before);

    recorder.exit();
    let end = recorder.writer.position();
    assert!(recorder.writer.append_exit(&EXIT, 1).is_err());
    assert!(recorder.writer.append_note(Note::Resumed, 1).is_err());
    assert!(recorder.writer.append_lost(1, 1).is_err());
    assert_eq!(recorder.writer.position(), end);
}

#[test]
fn a_shorter_file_than_committed_is_neither_continued_nor_read() {
    let folder = Folder::new();
    let mut recorder = Recorder::create(&folder);
    recorder.output(Stream::Out, 500);
    let file = std::fs::OpenOptions::new().write(true).open(folder.file());
    file.unwrap().set_len(recorder.committed() - 8).unwrap();
    let resumed = Writer::resume(folder.dir(), folder.id, recorder.writer.position());
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::InvalidData);
    let reader = folder.reader();
    let mut cursor = reader.seek(recorder.committed(), 0).unwrap();
    let mut batch = hostel_journal::Batch::default();
    let mut read = |blocking| reader.read(&mut cursor, recorder.committed(), &mut batch, blocking);
    // Without waiting there is no telling a cold page from the end of the file.
    use hostel_journal::{Blocking, Fill, ReadError};
    match read(Blocking::Never) {
        Ok(Fill::WouldBlock) | Err(ReadError::Damaged { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(read(Blocking::Allowed), Err(ReadError::Damaged { .. })));
}

#[test]
fn an_unnamed_journal_lives_in_its_descriptors() {
    let folder = Folder::new();
    let mut writer = Writer::create_unnamed(folder.dir(), &meta(folder.id, b"e"), 1).unwrap();
    assert_eq!(scan(folder.dir()).unwrap(), []);
    let mut buffer = vec![b'x'; HEADROOM + 10 + TAILROOM];
    writer.append_output(Stream::Err, &mut buffer, 10, 2).unwrap();
    let position = writer.position();
    let copy = rustix::io::fcntl_dupfd_cloexec(&writer, 0).unwrap();
    let mut writer = Writer::resume_fd(writer.into_fd(), folder.id, position).unwrap();
    let seq = writer.append_exit(&EXIT, 3).unwrap();
    assert_eq!(seq, 2);
    let reader = Reader::from_fd(copy).unwrap();
    assert_eq!(reader.id(), folder.id);
    let seen = read_from(&reader, writer.position().committed, 0, 0);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], common::Seen::Output(Stream::Err, 1, 2, vec![b'x'; 10]));
}
