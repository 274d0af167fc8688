//! What is removed, when, and what never is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hostel_house::processes::{ProcessId, Processes, Retention};
use support::{TestHouse, hear, limit, shell};

const EVERYTHING: Retention = Retention { max_count: 0, max_age: Duration::ZERO, max_bytes: 0 };

/// Hosts a process that prints and ends, and ends the keeper: only the journal remembers it.
async fn leave_a_journal(house: &TestHouse, name: &str) -> ProcessId {
    let processes = house.open().await;
    let process = processes.spawn(shell(name, "echo out; exit 3")).await.unwrap();
    hear(&process, 0).await;
    processes.stop_keeper(Duration::ZERO).await.unwrap();
    process.id()
}

fn change_two_days_ago(path: &Path) {
    let time = SystemTime::now() - Duration::from_secs(2 * 86_400);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

async fn collect_everything(processes: &Processes) -> usize {
    processes.collect_garbage(EVERYTHING, false).await.unwrap().removed.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_read_is_renamed_and_never_removed() {
    let house = TestHouse::new();
    let id = leave_a_journal(&house, "damaged").await;
    let own = house.journal().join(id.file_name());
    let mut bytes = std::fs::read(&own).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&own, &bytes).unwrap();
    change_two_days_ago(&own);

    let processes = house.open().await;
    assert_eq!(collect_everything(&processes).await, 0);
    assert_eq!(std::fs::read(&own).unwrap(), bytes, "it is not removed");

    // A session may still need it.
    processes.spare([id]);
    assert!(processes.examine_unknown_journals().await.unwrap().is_empty(), "it was told at the start");
    let told = processes.unreadable_journals().0;
    assert_eq!(told.iter().map(|journal| (journal.id, journal.is_set_aside)).collect::<Vec<_>>(), [(id, false)]);
    assert!(own.exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();

    let processes = house.open().await;
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.iter().map(|journal| (journal.id, journal.is_set_aside)).collect::<Vec<_>>(), [(id, true)]);
    let renamed = house.journal().join(&told[0].file);
    assert_eq!(told[0].file, format!("{id}.j.unreadable"));
    assert!(!own.exists() && std::fs::read(&renamed).unwrap() == bytes);
    assert_eq!(processes.unreadable_journals().0, told);
    assert_eq!(collect_everything(&processes).await, 0);
    assert!(renamed.exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();

    // A program that can read it takes it back.
    bytes[70] ^= 1;
    std::fs::write(&renamed, &bytes).unwrap();
    let processes = house.open().await;
    assert_eq!(processes.unreadable_journals().0, []);
    let process = processes.get("damaged").expect("it is known again");
    assert_eq!(hear(&process, 0).await.stdout, b"out\n");
    assert_eq!(process.wait_exit(limit()).await.map(|exit| exit.code), Some(3));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_a_newer_program_is_called_newer_and_kept() {
    let house = TestHouse::new();
    let id = leave_a_journal(&house, "newer").await;
    let own = house.journal().join(id.file_name());
    let mut bytes = std::fs::read(&own).unwrap();
    bytes[..4].copy_from_slice(b"HJB2");
    bytes[64..96].fill(0x55);
    std::fs::write(&own, &bytes).unwrap();
    change_two_days_ago(&own);
    let processes = house.open().await;
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].reason.contains("newer version"), "{}", told[0].reason);
    assert_eq!(std::fs::read(house.journal().join(&told[0].file)).unwrap(), bytes);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_file_that_was_never_begun_is_removed_and_only_after_a_day() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let file = |byte: u8| house.journal().join(ProcessId([byte; 16]).file_name());
    for (byte, size) in [(1, 0), (2, 63), (3, 0), (4, 64)] {
        std::fs::write(file(byte), vec![0; size]).unwrap();
    }
    for byte in [1, 2, 4] {
        change_two_days_ago(&file(byte));
    }
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.iter().map(|journal| journal.id).collect::<Vec<_>>(), [ProcessId([4; 16])]);
    assert!(!file(1).exists() && !file(2).exists() && !file(4).exists());
    assert!(file(3).exists(), "somebody may be making it");
    assert!(house.journal().join(&told[0].file).exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}
