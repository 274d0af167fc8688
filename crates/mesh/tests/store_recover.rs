//! Recovery of files that were damaged at random: it always ends, saves only what was accepted, and what it saves is sent
//! as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use std::collections::BTreeMap;
use std::path::Path;

use hostel_mesh::recover::{self, Database, Way};
use store_support::{Hands, acked, arrival, claim_all, dm, inbox, outbox};

/// Enough of a random source for places in a file.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

const ROWS: usize = 80;

fn body(number: usize) -> String {
    // Some are longer than a page.
    format!("message {number} {}", "y".repeat(if number.is_multiple_of(9) { 9000 } else { 700 }))
}

async fn fill(directory: &Path, hands: &Hands) {
    let queue = outbox(directory, hands).await;
    for number in 0..ROWS {
        queue.accept(dm(&format!("id-{number:03}"), "bob", &body(number))).await.unwrap();
    }
    let rows = queue.claim(10, usize::MAX, |_| true).await.unwrap().rows;
    let done: Vec<_> = rows.iter().enumerate().map(|(seq, row)| acked(row, seq as u64 + 1)).collect();
    queue.acked(done).await.unwrap();
    drop(queue.close());
    drop(queue);
    let arrivals = inbox(directory, hands).await;
    for number in 0..ROWS {
        let one = arrival("bob", &format!("in-{number:03}"), number as u64 + 1, &body(number));
        arrivals.store(vec![one], Vec::new(), None).await.unwrap();
    }
    drop(arrivals.close());
    drop(arrivals);
    // What lies in the log beside a database would make up for what is damaged.
    for name in ["outbox.db", "inbox.db"] {
        let connection = rusqlite::Connection::open(directory.join(name)).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        connection.close().unwrap();
    }
}

fn damage(path: &Path, chance: &mut Chance, kind: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let length = bytes.len();
    match kind {
        0 => (0..1 + chance.below(40)).for_each(|_| bytes[chance.below(length)] ^= 1 << chance.below(8)),
        1 => {
            let page = chance.below(length / 4096) * 4096;
            bytes[page..page + 4096].fill(chance.below(256) as u8);
        }
        2 => bytes.truncate(chance.below(length)),
        _ => {
            let (from, to) = (chance.below(length / 4096) * 4096, chance.below(length / 4096) * 4096);
            bytes.copy_within(from..from + 4096, to);
        }
    }
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn random_damage_never_makes_up_a_message() {
    let template = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    fill(template.path(), &hands).await;
    let mut totals = BTreeMap::new();
    for round in 0..24_u64 {
        let mut chance = Chance(round * 7919 + 1);
        let directory = tempfile::tempdir().unwrap();
        for name in ["outbox.db", "inbox.db"] {
            std::fs::copy(template.path().join(name), directory.path().join(name)).unwrap();
            damage(&directory.path().join(name), &mut chance, (round % 4) as usize);
        }
        let found = recover::look(directory.path());
        if matches!(found.outbox, Database::TooNew(_)) || matches!(found.inbox, Database::TooNew(_)) {
            continue;
        }
        let damaged = found.outbox.is_damaged();
        let done = recover::recover(directory.path(), Way::FromBroker, round + 1, None).unwrap();
        assert_eq!(done.outbox.is_some(), damaged);
        let after = recover::look(directory.path());
        assert!(!after.is_damaged(), "round {round}: {after:?}");
        let queue = outbox(directory.path(), &hands).await;
        let rows = claim_all(&queue).await;
        if damaged {
            for row in &rows {
                let number: usize =
                    row.client_message_id.strip_prefix("id-").and_then(|n| n.parse().ok()).unwrap_or(ROWS);
                // An id that was hit by a flipped bit is still one message; its text is what was accepted.
                assert!((0..ROWS).any(|one| row.payload.body == body(one)), "round {round}: {}", row.client_message_id);
                if number < ROWS && round % 4 != 0 {
                    assert_eq!(row.payload.body, body(number), "round {round}");
                }
            }
            let saved = done.outbox.unwrap();
            assert!(saved.queued as usize >= rows.len() && rows.len() <= ROWS, "round {round}: {saved:?}");
            *totals.entry(round % 4).or_insert(0) += saved.queued;
        }
        drop(queue.close());
        let arrivals = inbox(directory.path(), &hands).await;
        assert!(arrivals.counts().rows as usize <= ROWS);
        drop(arrivals.close());
    }
    // Most is saved, whatever the damage.
    assert!(totals.values().all(|saved| *saved > 0), "{totals:?}");
}

#[tokio::test]
async fn a_sound_directory_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    fill(directory.path(), &hands).await;
    let before = std::fs::read(directory.path().join("outbox.db")).unwrap();
    assert!(!recover::look(directory.path()).is_damaged());
    let done = recover::recover(directory.path(), Way::FromBroker, 7, None).unwrap();
    assert_eq!((done.outbox, done.inbox, done.set_aside), (None, None, Vec::new()));
    assert_eq!(std::fs::read(directory.path().join("outbox.db")).unwrap(), before);
    assert_eq!(inbox(directory.path(), &hands).await.cursor().await.unwrap().epoch, "");
    // A mark holds until the next decision.
    assert!(recover::recover(directory.path(), Way::ReadOnly, 8, None).unwrap().read_only);
    assert!(recover::read_only(directory.path()).unwrap().is_some());
    recover::recover(directory.path(), Way::FromBroker, 9, None).unwrap();
    assert_eq!(recover::read_only(directory.path()).unwrap(), None);
}
