//! Outbox and inbox where one member has taken another's place: whose ids rows have, and what is recognised.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use std::path::Path;

use hostel_mesh::inbox::{Inbox, Stored};
use hostel_mesh::outbox::{self, Outbox, OutboxOptions, RefusedRow, Row, Status};
use hostel_mesh::recover::{self, Way};
use rusqlite::Connection;
use store_support::{HOUR, Hands, acked, arrival, claim_all, dm, inbox, outbox_options};

async fn open(directory: &Path, hands: &Hands, member: &str) -> Outbox {
    let options = OutboxOptions { member: Some(member.to_owned()), ..outbox_options(directory, hands) };
    Outbox::open(options).await.unwrap()
}

/// As if it were killed.
fn leave(queue: Outbox) {
    drop(queue.close());
    drop(queue);
}

/// All that can be sent, with whose ids they are.
async fn origins(queue: &Outbox, hands: &Hands) -> Vec<(String, Option<String>)> {
    hands.forward(HOUR);
    let one = |row: Row| (row.client_message_id, row.origin);
    claim_all(queue).await.into_iter().map(one).collect()
}

fn of(id: &str, origin: Option<&str>) -> (String, Option<String>) {
    (id.to_owned(), origin.map(str::to_owned))
}

#[tokio::test]
async fn rows_keep_who_accepted_them() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let queue = open(scratch.path(), &hands, "first").await;
    for id in ["done", "flying", "waiting"] {
        queue.accept(dm(id, "bob", id)).await.unwrap();
    }
    let rows = queue.claim(2, usize::MAX, |_| true).await.unwrap().rows;
    queue.acked(vec![acked(&rows[0], 7)]).await.unwrap();
    leave(queue);
    // The same one finds them as its own.
    let queue = open(scratch.path(), &hands, "first").await;
    assert_eq!(origins(&queue, &hands).await, [of("flying", None), of("waiting", None)]);
    leave(queue);

    let queue = open(scratch.path(), &hands, "second").await;
    assert!(queue.accept(dm("waiting", "bob", "waiting")).await.unwrap().duplicate);
    queue.accept(dm("later", "bob", "later")).await.unwrap();
    let first = Some("first");
    assert_eq!(origins(&queue, &hands).await, [of("flying", first), of("waiting", first), of("later", None)]);
    leave(queue);

    // Each keeps its own, also what was settled and is owed again, and whoever comes after.
    let queue = open(scratch.path(), &hands, "third").await;
    assert_eq!(queue.requeue_unlogged("e1", 6).await.unwrap(), 1);
    let wanted = [of("done", first), of("flying", first), of("waiting", first), of("later", Some("second"))];
    assert_eq!(origins(&queue, &hands).await, wanted);
    // Sent again under another id it is a new message, and whoever sends is who accepted it.
    queue.release_all().await.unwrap();
    let row = claim_all(&queue).await.remove(0);
    let refused = RefusedRow { key: row.key, code: "origin_unknown".to_owned(), error: "no".to_owned() };
    queue.refused(vec![refused]).await.unwrap();
    assert_eq!(queue.lookup("done").await.unwrap().unwrap().status, Status::Dead);
    queue.requeue("done", Some("again".to_owned()), "op").await.unwrap();
    queue.release_all().await.unwrap();
    assert_eq!(origins(&queue, &hands).await.last(), Some(&of("again", None)));
    leave(queue);
}

#[tokio::test]
async fn what_stays_on_the_host_follows_the_host() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let queue = open(scratch.path(), &hands, "first").await;
    for (id, to) in [("self", "first"), ("session", "first/s1"), ("other", "first-cousin"), ("bob", "bob/s1")] {
        queue.accept(dm(id, to, id)).await.unwrap();
    }
    leave(queue);
    let queue = open(scratch.path(), &hands, "second").await;
    // The same request, as it is resolved now, is the same request.
    assert!(queue.accept(dm("session", "second/s1", "session")).await.unwrap().duplicate);
    assert!(queue.accept(dm("session", "first/s1", "session")).await.is_err());
    hands.forward(HOUR);
    let rows = claim_all(&queue).await;
    let to: Vec<_> = rows.iter().map(|row| (row.client_message_id.as_str(), row.lane.dest_ref.as_str())).collect();
    assert_eq!(to, [("self", "second"), ("session", "second/s1"), ("other", "first-cousin"), ("bob", "bob/s1")]);
    assert!(rows.iter().all(|row| row.origin.as_deref() == Some("first")), "{rows:?}");
    leave(queue);
}

/// Makes an outbox as it was before this was known.
fn make_old(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("ALTER TABLE outbox DROP COLUMN origin; DROP TABLE owner; ALTER TABLE confirmed DROP COLUMN entry_id; DROP TABLE facts; PRAGMA user_version = 1; VACUUM;")
        .unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.close().unwrap();
}

#[tokio::test]
async fn an_outbox_of_an_earlier_program_is_marked_before_somebody_takes_over() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("outbox.db");
    // Nothing is made where nothing is.
    assert_eq!(outbox::belongs_to(&path, "first").await.unwrap(), 0);
    assert!(!path.exists());
    let queue = open(scratch.path(), &hands, "first").await;
    queue.accept(dm("one", "bob", "one")).await.unwrap();
    leave(queue);
    make_old(&path);
    // As often as it is tried.
    for _ in 0..2 {
        assert_eq!(outbox::belongs_to(&path, "first").await.unwrap(), 1);
    }
    let queue = open(scratch.path(), &hands, "second").await;
    assert_eq!(origins(&queue, &hands).await, [of("one", Some("first"))]);
    leave(queue);
}

#[tokio::test]
async fn a_recovery_that_was_killed_is_finished_before_rows_are_marked() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("outbox.db");
    let queue = open(scratch.path(), &hands, "first").await;
    queue.accept(dm("one", "bob", "one")).await.unwrap();
    leave(queue);
    let connection = Connection::open(&path).unwrap();
    // As a recovery leaves it: nobody has opened it yet.
    connection.execute("DELETE FROM owner", []).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.close().unwrap();
    std::fs::rename(&path, scratch.path().join("outbox.db.recovered-7")).unwrap();
    std::fs::write(&path, "no database").unwrap();
    assert_eq!(outbox::belongs_to(&path, "first").await.unwrap(), 1);
    let queue = open(scratch.path(), &hands, "second").await;
    assert_eq!(origins(&queue, &hands).await, [of("one", Some("first"))]);
    leave(queue);
    // What is damaged and was not recovered stays as it is.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "no database").unwrap();
    assert!(outbox::belongs_to(&path, "second").await.is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"no database");
}

#[tokio::test]
async fn what_is_saved_from_a_damaged_outbox_keeps_who_accepted_it() {
    for old in [false, true] {
        let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
        let path = scratch.path().join("outbox.db");
        let queue = open(scratch.path(), &hands, "first").await;
        for number in 0..40 {
            queue.accept(dm(&format!("id-{number}"), "bob", &"x".repeat(2000))).await.unwrap();
        }
        leave(queue);
        if old {
            make_old(&path);
        } else {
            leave(open(scratch.path(), &hands, "second").await);
            let connection = Connection::open(&path).unwrap();
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            connection.close().unwrap();
        }
        // The last page holds rows, and nothing that describes them.
        let mut bytes = std::fs::read(&path).unwrap();
        let page = bytes.len() - 4096;
        bytes[page..].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        assert!(recover::look(scratch.path()).outbox.is_damaged());
        let saved = recover::recover(scratch.path(), Way::FromBroker, 7, None).unwrap().outbox.unwrap();
        assert!(saved.queued > 30, "{saved:?}");
        let queue = open(scratch.path(), &hands, if old { "first" } else { "second" }).await;
        let wanted = (!old).then(|| "first".to_owned());
        let found = origins(&queue, &hands).await;
        assert_eq!(found.len() as u64, saved.queued);
        assert!(found.iter().all(|(_, origin)| *origin == wanted), "{found:?}");
        queue.accept(dm("new", "bob", "new")).await.unwrap();
        assert_eq!(origins(&queue, &hands).await, [of("new", None)]);
        leave(queue);
    }
}

/// Stores a message of a sender with an id of an origin's; whether it was new.
async fn comes(inbox: &Inbox, sender: &str, id: &str, origin: Option<&str>, seq: u64) -> bool {
    let mut one = arrival(sender, id, seq, &format!("{id} from {sender}"));
    one.origin = origin.map(str::to_owned);
    let stored = inbox.store(vec![one], Vec::new(), None).await.unwrap();
    matches!(stored.as_slice(), [Stored::New(_)])
}

#[tokio::test]
async fn a_message_comes_once_from_whoever_of_a_line() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mail = inbox(scratch.path(), &hands).await;
    // A broker that was set back may take it from the other one.
    assert!(comes(&mail, "first", "a", None, 1).await);
    assert!(!comes(&mail, "second", "a", Some("first"), 2).await);
    assert!(comes(&mail, "second", "b", Some("first"), 3).await);
    assert!(!comes(&mail, "second", "b", Some("first"), 3).await);
    assert!(!comes(&mail, "first", "b", None, 4).await);
    assert!(!comes(&mail, "third", "b", Some("first"), 5).await);
    // A damaged inbox may have kept only the trace of it. From the log it comes again, and from nobody else.
    let connection = Connection::open(scratch.path().join("inbox.db")).unwrap();
    let lost = "DELETE FROM inbox WHERE sender_member_id = 'second' AND client_message_id = 'b'";
    assert_eq!(connection.execute(lost, []).unwrap(), 1);
    connection.close().unwrap();
    assert!(!comes(&mail, "first", "b", None, 4).await);
    assert!(comes(&mail, "second", "b", Some("first"), 3).await);
    assert!(!comes(&mail, "second", "b", Some("first"), 5).await);
    // What each accepts by itself is its own.
    assert!(comes(&mail, "second", "a", None, 6).await);
    assert!(comes(&mail, "second", "c", None, 7).await);
    assert!(comes(&mail, "first", "c", None, 8).await);
    let shown: Vec<(String, String)> = {
        let connection = Connection::open(scratch.path().join("inbox.db")).unwrap();
        let mut select = connection
            .prepare("SELECT sender_member_id, client_message_id FROM inbox WHERE decrypt_state IS NULL ORDER BY no")
            .unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let wanted = [("first", "a"), ("second", "b"), ("second", "a"), ("second", "c"), ("first", "c")];
    assert_eq!(shown, wanted.map(|(sender, id)| (sender.to_owned(), id.to_owned())));
    // After a restart too, and several at once.
    drop(mail.close());
    drop(mail);
    let mail = inbox(scratch.path(), &hands).await;
    assert!(!comes(&mail, "first", "b", None, 9).await);
    let mut many: Vec<_> = (0..20).map(|n| arrival("second", &format!("m{n}"), 10 + n, "x")).collect();
    many.iter_mut().step_by(2).for_each(|one| one.origin = Some("first".to_owned()));
    let stored = mail.store(many.clone(), Vec::new(), None).await.unwrap();
    assert!(stored.iter().all(|one| matches!(one, Stored::New(_))));
    let stored = mail.store(many, Vec::new(), None).await.unwrap();
    assert!(stored.iter().all(|one| matches!(one, Stored::Duplicate)));
}
