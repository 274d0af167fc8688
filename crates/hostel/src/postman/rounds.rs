//! Reading mailboxes, oldest letter first, and bringing each letter to its session.
//!
//! Invariant: a mailbox is read from the place that is on disk, page by page, and that place moves only with the write
//! that takes a letter or passes it over. A letter that finds no room ends the round: those after it keep their order.

use std::collections::BTreeSet;
use std::sync::Arc;

use hostel_house::sessions::Letter;
use hostel_house::sessions::Session;
use hostel_house::sessions::Taken;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::Bag;
use super::Joined;
use super::mailboxes::Mailboxes;
use crate::mesh::client::Client;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;

/// Letters of one page.
const PAGE: usize = 32;

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Round {
    /// Nothing is left that could be brought.
    Done,
    /// The session has no room for more.
    Full,
}

/// A letter as it lies in a mailbox, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    id: String,
    client_message_id: String,
    kind: String,
    sender_pubkey: String,
    sender_member_id: String,
    sender_name: String,
    body: Option<String>,
    reply_to_id: Option<String>,
    cursor: String,
    verified: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    items: Vec<Item>,
}

/// The sessions of a house that take letters of one mesh.
pub(super) struct Rounds<'a> {
    client: &'a Client,
    joined: &'a Joined,
    bag: &'a Bag,
    mailboxes: Mailboxes<'a>,
    /// Those whose letters were found to be more than could be brought, as they are told of once.
    full: BTreeSet<String>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(client: &'a Client, joined: &'a Joined, bag: &'a Bag) -> Self {
        Rounds { client, joined, bag, mailboxes: Mailboxes::new(client, &joined.slug), full: BTreeSet::new() }
    }

    /// Looks at the sessions again; gives the addresses whose mailboxes were not followed until now.
    pub(super) fn changed(&mut self) -> Vec<String> {
        let new = self.mailboxes.changed(self.bag.sessions.list());
        self.full.retain(|address| self.mailboxes.has(address));
        new
    }

    pub(super) fn knows(&self, address: &str) -> bool {
        self.mailboxes.has(address)
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.mailboxes.all()
    }

    /// Reads the mailbox of a session and brings what is there.
    pub(super) async fn read(&mut self, address: &str) -> Result<Round, Failure> {
        let Some(session) = self.mailboxes.taker(address).await? else { return Ok(Round::Done) };
        loop {
            let page = self.page(&session, address).await?;
            let whole = page.items.len() < PAGE;
            let mut read = Vec::new();
            let round = self.bring(&session, address, page, &mut read).await?;
            self.mark(&read).await;
            match round {
                Some(Round::Full) if self.full.insert(address.to_owned()) => {
                    let mesh = &self.joined.slug;
                    self.bag.log.info(format_args!("[postman] session {address} has no room for what waits in {mesh}"));
                    return Ok(Round::Full);
                }
                Some(round) => return Ok(round),
                None if whole => {
                    self.full.remove(address);
                    return Ok(Round::Done);
                }
                None => {}
            }
        }
    }

    async fn page(&self, session: &Session, address: &str) -> Result<Page, Failure> {
        let place = session.mail_place(&self.joined.id).await.map_err(|error| Failure::internal(error.to_string()))?;
        let (since, limit) = (hostel_wire::iso(place.since_ms), PAGE.to_string());
        let query = [
            ("session", Some(address)),
            ("order", Some("oldest")),
            ("mark_seen", Some("false")),
            ("limit", Some(limit.as_str())),
            ("since", Some(since.as_str())),
            ("cursor", place.after.as_deref()),
        ];
        let answer = self.client.get(&with_query("/v1/inbox", &query)).await?;
        serde_json::from_value(answer).map_err(|error| Failure::internal(format!("its inbox cannot be read: {error}")))
    }

    /// Brings the letters of a page; how the round ended, if it did. `read` gets the ids of those that became prompts.
    async fn bring(
        &self,
        session: &Arc<Session>,
        address: &str,
        page: Page,
        read: &mut Vec<String>,
    ) -> Result<Option<Round>, Failure> {
        let failed = |error: hostel_house::store::StoreError| Failure::internal(error.to_string());
        for item in page.items {
            if item.cursor.is_empty() {
                return Err(Failure::internal(
                    "the mesh daemon is older than this program: it does not say where letters lie",
                ));
            }
            let Item { id, cursor, .. } = &item;
            let (id, cursor) = (id.clone(), cursor.clone());
            let Some(letter) = self.letter(item) else {
                session.pass_letter(&self.joined.id, &cursor).await.map_err(failed)?;
                continue;
            };
            let (from, message) = (letter.sender.clone(), letter.message.clone());
            match session.take_letter(letter, cursor).await.map_err(failed)? {
                Taken::Queued(_) => read.push(id),
                Taken::Asked(_) | Taken::Known => {}
                Taken::TooLong => self.bag.log.warn(format_args!(
                    "[postman] a message is too long for a prompt and stays in the mailbox of {address}: {message} of {from}"
                )),
                Taken::Full => return Ok(Some(Round::Full)),
                Taken::Off | Taken::Closed => return Ok(Some(Round::Done)),
            }
        }
        Ok(None)
    }

    /// A letter, if an agent can do something with it.
    fn letter(&self, item: Item) -> Option<Letter> {
        let readable = item.kind == "dm" && !item.client_message_id.is_empty() && !item.sender_member_id.is_empty();
        let text = item.body.filter(|_| readable)?;
        Some(Letter {
            mesh_id: self.joined.id.clone(),
            mesh: self.joined.slug.clone(),
            sender: item.sender_member_id,
            from: item.sender_name,
            from_key: item.sender_pubkey,
            message: item.client_message_id,
            reply_to: item.reply_to_id,
            text,
            verified: item.verified,
        })
    }

    /// What an agent was given counts as read. It is of no consequence if that is not noted.
    async fn mark(&self, ids: &[String]) {
        if !ids.is_empty() {
            let _: Option<Value> = self.client.post("/v1/inbox/seen", &json!({"ids": ids})).await.ok();
        }
    }
}
