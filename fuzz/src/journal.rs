//! Reading a journal of any content, with the promises a reader makes.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use hostel_journal::format::MIN_RECORD_BYTES;
use hostel_journal::{BLOCK_BYTES, Batch, Blocking, Cursor, FRAME_BYTES, Fill, Item, Reader, inspect_fd};
use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory.
pub fn file_of(bytes: &[u8]) -> File {
    let mut file = File::from(memfd_create("journal", MemfdFlags::CLOEXEC).expect("memory has room"));
    file.write_all(bytes).expect("memory has room");
    file
}

/// Looks at `file` in every way there is: errors are fine, panics and endless loops are not.
pub fn exercise(file: &File, after: u64, committed: u64) {
    let size = file.metadata().expect("memory has a size").len();
    let inspected = inspect_fd(file.as_fd());
    let mut ends = vec![size, committed];
    if let Ok(recovered) = &inspected {
        let end = recovered.position.committed;
        assert!(end <= size && size - end == recovered.truncated);
        assert!(!recovered.lost_appended);
        ends.push(end);
    }
    let Ok(reader) = Reader::from_fd(OwnedFd::from(file.try_clone().expect("descriptors are left"))) else {
        assert!(inspected.is_err(), "a journal that can be recovered can be opened");
        return;
    };
    let meta = reader.meta().expect("META was there a moment ago");
    assert_eq!(meta.id, reader.id());
    for committed in ends {
        drop(reader.first_seq(committed));
        read_all(&reader, Cursor::start(after), committed, size, after);
        if let Ok(cursor) = reader.seek(committed, after) {
            read_all(&reader, cursor, committed, size, after);
        }
    }
}

fn read_all(reader: &Reader, mut cursor: Cursor, committed: u64, size: u64, after: u64) {
    let mut batch = Batch::with_capacity(4096);
    let mut blocking = Blocking::Never;
    let mut last = 0;
    // Each read but one brings a record; waiting at most doubles their number.
    let bound = 2 * (size / MIN_RECORD_BYTES + size / BLOCK_BYTES + 8);
    for _ in 0..bound {
        let before = cursor.offset();
        match reader.read(&mut cursor, committed, &mut batch, blocking) {
            Err(_) | Ok(Fill::Empty) => return,
            Ok(Fill::WouldBlock) => {
                assert_eq!(blocking, Blocking::Never, "a read that may wait never refuses to");
                blocking = Blocking::Allowed;
            }
            Ok(Fill::Items) => {
                blocking = Blocking::Never;
                assert!(cursor.offset() > before, "items without progress");
                assert!(!batch.is_empty());
                for item in batch.items() {
                    let seq = item.seq();
                    assert!(seq > after, "an item that was not asked for");
                    match item {
                        Item::Output { data, .. } => {
                            assert!((1..=FRAME_BYTES).contains(&data.len()));
                            assert!(seq > last, "frame {seq} after {last}");
                            last = seq;
                        }
                        Item::Exit { .. } | Item::Lost { .. } => {
                            assert!(seq > last);
                            last = seq;
                        }
                        Item::Mark { .. } | Item::Note { .. } => assert!(seq > last),
                    }
                }
            }
        }
    }
    panic!("{bound} reads of {size} bytes and no end");
}
