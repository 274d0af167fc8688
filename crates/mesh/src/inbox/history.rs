//! What was in the broker's log before this inbox had a place in it: history, which is stored and shown like everything
//! else, and for which no hook runs.
//!
//! Invariant: where history ends is written down before the first entry of a log is stored, and does not move while that
//! log is read: a daemon that is killed meanwhile draws the same line again. What comes behind it is news.
//!
//! A new inbox, one that was made anew after damage or a reset, and one that reads the log from its beginning again all
//! have it; who goes on where they were has none.

use std::sync::atomic::Ordering;

use hostel_store::StoreError;
use hostel_syncpoint::points;
use hostel_wire::fingerprint;
use rusqlite::Connection;

use super::types::Cursor;
use super::{Inbox, Inner, rows};
use crate::schema::signed;

/// The facts: which log it is, and up to which of its entries.
const LOG: &str = "history_log";
const END: &str = "history_end";

/// Where history ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct History {
    /// A number that stands for the log's name.
    log: i64,
    /// Its last entry; 0: there is none.
    end: u64,
}

impl History {
    /// What is written down.
    fn kept(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let Some(log) = rows::fact(connection, LOG)? else { return Ok(None) };
        Ok(Some(Self { log, end: rows::fact(connection, END)?.unwrap_or_default().cast_unsigned() }))
    }

    fn keep(self, connection: &Connection) -> rusqlite::Result<()> {
        rows::set_fact(connection, LOG, self.log)?;
        rows::set_fact(connection, END, signed(self.end))
    }

    /// Where it ends in the log that a broker has now, `last` being its last entry.
    fn of(kept: Option<Self>, cursor: &Cursor, epoch: &str, last: u64) -> Self {
        let log = number(epoch);
        let end = match kept {
            // The line is drawn. A log that was set back and kept its name has less.
            Some(history) if history.log == log => history.end.min(last),
            // Another log, and all there was to have of the one before is here: what else comes is news.
            Some(history) if history.log == number(&cursor.epoch) && cursor.seq >= history.end => 0,
            // Of an earlier version, or it begins at a place it was given.
            None if !cursor.epoch.is_empty() => 0,
            _ => last,
        };
        Self { log, end }
    }
}

/// A number that stands for a log's name, which facts cannot hold.
fn number(epoch: &str) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = fingerprint::sha256(epoch.as_bytes());
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Everything that was stored is history when the log is read from its beginning again: what is not here was lost, and
/// what came since is still news. For an inbox nobody uses.
pub(crate) fn begins_again(connection: &Connection) -> rusqlite::Result<()> {
    let cursor = rows::cursor(connection)?;
    if cursor.epoch.is_empty() {
        return Ok(());
    }
    let log = number(&cursor.epoch);
    let before = History::kept(connection)?.filter(|before| before.log == log).map_or(0, |before| before.end);
    History { log, end: cursor.seq.max(before) }.keep(connection)
}

/// Up to which entry it is history, for a start.
pub(super) fn end(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(History::kept(connection)?.map_or(0, |history| history.end))
}

impl Inner {
    /// Whether an entry of the log is history. What did not come from one is not.
    pub(super) fn is_history(&self, seq: u64) -> bool {
        seq != 0 && seq <= self.history.load(Ordering::Relaxed)
    }
}

impl Inbox {
    /// Draws the line in the log that a broker has now, before anything of it is stored.
    pub(crate) async fn draw_line(&self, epoch: &str, last: u64) -> Result<(), StoreError> {
        let epoch = epoch.to_owned();
        let look = move |connection: &Connection| {
            let (kept, cursor) = (History::kept(connection)?, rows::cursor(connection)?);
            let now = History::of(kept, &cursor, &epoch, last);
            Ok((now, kept != Some(now)))
        };
        let (now, changed) = self.store.read(look).await?;
        if changed {
            self.store.write(points::HISTORY_LINE, move |transaction| now.keep(transaction)).await?;
        }
        self.inner.history.store(now.end, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hostel_wire::Clock;
    use hostel_wire::frames::{Kind, Priority};

    use super::super::{Arrival, Content, InboxOptions, Plain};
    use super::*;

    async fn open(directory: &Path) -> Inbox {
        let options = InboxOptions::new(directory.join("inbox.db"), "lab", Clock::system());
        Inbox::open(InboxOptions { inline: true, ..options }).await.unwrap().0
    }

    fn arrival(seq: u64) -> Arrival {
        Arrival {
            sender_member_id: "bob".into(),
            client_message_id: format!("c{seq}"),
            origin: None,
            broker_message_id: format!("b{seq}"),
            broker_seq: seq,
            kind: Kind::Dm,
            topic: None,
            sender_pubkey: "key".into(),
            sender_member_pubkey: None,
            sender_name: "bob".into(),
            priority: Priority::Next,
            created_at: None,
            recipient_pubkey: None,
            recipient_session: None,
            content: Content::Open(Plain { body: "hello".into(), ..Plain::default() }),
        }
    }

    /// Stores entries of a log; which of all that was ever told is history.
    async fn store(inbox: &Inbox, epoch: &str, seqs: &[u64]) -> Vec<bool> {
        let place = seqs.last().map(|seq| at(epoch, *seq));
        inbox.store(seqs.iter().copied().map(arrival).collect(), Vec::new(), place).await.unwrap();
        inbox.events().happened(0, 100).await.unwrap().iter().map(|happened| happened.history).collect()
    }

    #[tokio::test]
    async fn what_was_there_before_us_is_marked_for_good() {
        let scratch = tempfile::tempdir().unwrap();
        let inbox = open(scratch.path()).await;
        inbox.draw_line("a", 3).await.unwrap();
        assert_eq!(store(&inbox, "a", &[1, 2]).await, [true, true]);
        drop(inbox);
        // Killed; the log has grown meanwhile.
        let inbox = open(scratch.path()).await;
        inbox.draw_line("a", 9).await.unwrap();
        assert_eq!(store(&inbox, "a", &[3, 4]).await, [true, true, true, false]);
        // What a session of this host has sent came from no log.
        assert!(!store(&inbox, "a", &[0]).await.last().unwrap());
        // Another log: all there was had come.
        store(&inbox, "a", &[9]).await;
        inbox.draw_line("b", 20).await.unwrap();
        let marks = store(&inbox, "b", &[10]).await;
        assert_eq!(marks, [true, true, true, false, false, false, false], "and what was marked stays so");
    }

    #[tokio::test]
    async fn who_reads_from_the_beginning_again_knows_what_it_had() {
        let scratch = tempfile::tempdir().unwrap();
        let inbox = open(scratch.path()).await;
        inbox.draw_line("a", 0).await.unwrap();
        store(&inbox, "a", &[5]).await;
        drop(inbox);
        let connection = Connection::open(scratch.path().join("inbox.db")).unwrap();
        begins_again(&connection).unwrap();
        connection.execute("DELETE FROM cursor", []).unwrap();
        // Begun again twice, it is the same.
        begins_again(&connection).unwrap();
        drop(connection);
        let inbox = open(scratch.path()).await;
        inbox.draw_line("a", 8).await.unwrap();
        // One that was lost, the one that is there, and one that came while nobody was.
        assert_eq!(store(&inbox, "a", &[4, 5, 8]).await, [false, true, false]);
    }

    fn at(epoch: &str, seq: u64) -> Cursor {
        Cursor { epoch: epoch.into(), seq, ..Cursor::default() }
    }

    #[test]
    fn the_line_is_drawn_once_in_a_log() {
        let nowhere = Cursor::default();
        let drawn = History::of(None, &nowhere, "a", 100);
        assert_eq!(drawn.end, 100, "all of it was there before us");
        // Killed before the first entry was stored, in the middle, and long after.
        for cursor in [nowhere.clone(), at("a", 50), at("a", 300)] {
            assert_eq!(History::of(Some(drawn), &cursor, "a", 400), drawn);
        }
        assert_eq!(History::of(Some(drawn), &at("a", 90), "a", 80).end, 80, "it was set back");
        // Who has a place goes on there.
        assert_eq!(History::of(None, &at("a", 50), "a", 100).end, 0);
    }

    #[test]
    fn another_log_is_news_to_who_had_all_of_the_one_before() {
        let drawn = History::of(None, &Cursor::default(), "a", 100);
        assert_eq!(History::of(Some(drawn), &at("a", 100), "b", 70).end, 0);
        assert_eq!(History::of(Some(drawn), &at("a", 99), "b", 70).end, 70, "some of it is still to come");
        assert_eq!(History::of(Some(drawn), &Cursor::default(), "b", 70).end, 70);
        // Killed after that was written down and before the place was.
        let other = History { log: number("b"), end: 0 };
        assert_eq!(History::of(Some(other), &at("a", 100), "b", 75), other);
    }
}
