//! Messages to fill an inbox with: for the bare limit of a backlog, and for a search among a million.

use std::path::Path;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use hostel_mesh::inbox::Arrival;
use hostel_mesh::inbox::Content;
use hostel_mesh::inbox::Inbox;
use hostel_mesh::inbox::InboxOptions;
use hostel_mesh::inbox::Plain;
use hostel_wire::Clock;
use hostel_wire::frames::Kind;
use hostel_wire::frames::Priority;
use hostel_wire::ids;

use super::TEXT;
use super::bare_outbox;

/// A member's id and a key, as long as they are.
pub(crate) const MEMBER: &str = "01hf3k2v5w8x9y0z1a2b3c4d5e";
pub(crate) const KEY: &str = "8f3c0a5de1b24976c2f0a1b3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f607";

/// A time in 2026.
pub(crate) const TIME_MS: u64 = 1_790_000_000_000;

/// The word in one of a hundred messages, and the one in three of ten.
pub(crate) const RARE: &str = "quorum";
pub(crate) const COMMON: &str = "deploy";

/// Messages given to the inbox at a time.
const AT_A_TIME: u64 = 1024;

/// A message.
pub(crate) struct Message {
    pub(crate) client_id: String,
    pub(crate) broker_id: String,
    pub(crate) body: String,
}

impl Message {
    /// The message of this number; ids rise with it, as those of one sender do.
    pub(crate) fn new(number: u64) -> Message {
        Message { client_id: ids::ulid(TIME_MS + number), broker_id: ids::message_id(), body: TEXT.to_owned() }
    }
}

/// Where in a hundred a message falls, as by chance.
pub(crate) fn chance(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed ^ (mixed >> 27)) >> 11) % 100
}

/// What a message of the large inbox says: words that differ, and the two that are looked for.
pub(crate) fn body(number: u64) -> String {
    let place = chance(number);
    let rare = if place == 0 { RARE } else { "" };
    let common = if (10..40).contains(&place) { COMMON } else { "" };
    let (host, job) = (chance(number * 3 + 1), number % 5000);
    format!("{TEXT} host{host:02} {common} job{job} {rare} number {number}")
}

/// Makes an inbox of so many messages in a directory, as a daemon would have made it.
pub(crate) fn fill(dir: &Path, count: u64) -> Result<()> {
    bare_outbox::runtime()?.block_on(async {
        let clock = Clock::system();
        let options = InboxOptions::new(dir.join("inbox.db"), "lab", clock);
        let (inbox, _) = Inbox::open(options).await.context("opening an inbox")?;
        let mut next = 0;
        while next < count {
            let end = (next + AT_A_TIME).min(count);
            let arrivals = (next..end).map(arrival).collect();
            inbox.store(arrivals, Vec::new(), None).await.context("filling an inbox")?;
            next = end;
        }
        ensure!(inbox.counts().rows == count, "{} messages of {count} are there", inbox.counts().rows);
        let writer = inbox.close();
        drop(inbox);
        while writer.strong_count() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    })
}

fn arrival(number: u64) -> Arrival {
    Arrival {
        sender_member_id: MEMBER.to_owned(),
        client_message_id: ids::ulid(TIME_MS + number),
        origin: None,
        broker_message_id: ids::message_id(),
        broker_seq: number + 1,
        kind: Kind::Dm,
        topic: None,
        sender_pubkey: KEY.to_owned(),
        sender_member_pubkey: None,
        sender_name: "alice".to_owned(),
        priority: Priority::Next,
        created_at: Some(TIME_MS),
        recipient_pubkey: Some(KEY.to_owned()),
        recipient_session: None,
        content: Content::Open(Plain { body: body(number), ..Plain::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_as_frequent_as_promised() {
        let bodies: Vec<String> = (0..20_000).map(body).collect();
        let share = |word: &str| bodies.iter().filter(|body| body.contains(word)).count() as f64 / 20_000.0;
        assert!((0.008..0.012).contains(&share(RARE)), "{}", share(RARE));
        assert!((0.28..0.32).contains(&share(COMMON)), "{}", share(COMMON));
    }
}
