//! Reading: the inbox, its search, the events, the outbox as operators see it.

use hostel_wire::iso;

use super::{Caller, InboxItem, InboxPage, InboxRequest, Mesh, OutboxItem, Refusal, Requeued};
use crate::events::{EventFilter, Subscription};
use crate::inbox::{From, InboxError, InboxQuery, InboxRow, Scope};
use crate::outbox::{OutboxRow, RequeueError, Status};
use crate::resolve;

/// An answer is cut at about this many bytes; the rest is the next page.
const LARGEST: usize = 9 * 1024 * 1024;

fn scope(caller: &Caller) -> Scope {
    caller.session().map_or(Scope::Member, |session| Scope::Session(session.id.clone()))
}

impl Mesh {
    /// A page of the inbox, newest first unless the oldest are wanted first.
    pub async fn inbox(&self, request: InboxRequest, caller: &Caller) -> Result<InboxPage, Refusal> {
        self.core.check()?;
        let topic = match &request.topic {
            Some(name) => {
                Some(hostel_wire::topic::topic_name(name).map_err(|error| Refusal::field("topic", error.to_string()))?)
            }
            None => None,
        };
        let page = self.core.inbox.list(InboxQuery {
            scope: scope(caller),
            since: request.since_ms,
            topic,
            from: request.from.as_deref().map(|from| self.sender(from)),
            limit: request.limit.clamp(1, 1000),
            session: request.session,
            oldest_first: request.oldest_first,
            unread_only: request.unread_only,
            mark_seen: request.mark_seen,
            cursor: request.cursor,
            max_bytes: LARGEST,
        });
        let page = page.await.map_err(refusal)?;
        let mut items: Vec<InboxItem> = page.items.into_iter().map(|row| item(row, None)).collect();
        for (item, place) in items.iter_mut().zip(page.places) {
            item.cursor = Some(place);
        }
        Ok(InboxPage { items, marked_seen: page.marked_seen, next: page.next })
    }

    /// Whose messages `from` means: a key, one member, or whoever was called so.
    fn sender(&self, from: &str) -> From {
        let whole = from.len() == 64 && from.bytes().all(|byte| byte.is_ascii_hexdigit());
        if whole {
            let key = from.to_ascii_lowercase();
            return self.core.roster.id_by_any_key(&key).map_or(From::Pubkey(key), From::Member);
        }
        match resolve::member(&self.core.roster, from) {
            Ok(member) => From::Member(member.id),
            Err(_) => From::Name(from.to_owned()),
        }
    }

    /// Finds words in the inbox, newest first, and says whether there are more that did not fit.
    pub async fn search(&self, query: &str, limit: usize, caller: &Caller) -> Result<(Vec<InboxItem>, bool), Refusal> {
        self.core.check()?;
        if query.trim().is_empty() {
            return Err(Refusal::new("bad_query", "there is nothing to search for").about("q"));
        }
        let searched = self.core.inbox.search(query, limit.clamp(1, 1000), scope(caller)).await.map_err(refusal)?;
        let items = searched.found.into_iter().map(|found| item(found.row, Some(found.snippet))).collect();
        Ok((items, searched.truncated))
    }

    /// Counts messages as seen; says how many were not.
    pub async fn seen(&self, ids: Vec<String>, caller: &Caller) -> Result<u64, Refusal> {
        self.core.check()?;
        Ok(self.core.inbox.seen(ids, scope(caller)).await?)
    }

    /// Deletes a message; `false` if there is none.
    pub async fn delete(&self, id: &str, caller: &Caller) -> Result<bool, Refusal> {
        self.core.check()?;
        Ok(self.core.inbox.delete(id, scope(caller)).await?)
    }

    /// Deletes what was received before; says how many.
    pub async fn delete_before(&self, before_ms: u64, caller: &Caller) -> Result<u64, Refusal> {
        self.core.check()?;
        Ok(self.core.inbox.delete_before(before_ms, scope(caller)).await?)
    }

    /// A stream of events; the filter's scope is the caller's.
    pub async fn events(
        &self,
        filter: EventFilter,
        caller: &Caller,
        last_event_id: Option<&str>,
    ) -> Result<Subscription, Refusal> {
        self.core.check()?;
        if self.core.is_full() {
            return Err(Refusal::new("degraded", "the disk is full"));
        }
        let filter = EventFilter { scope: scope(caller), ..filter };
        Ok(self.core.events.subscribe(filter, last_event_id).await?)
    }

    /// Rows of the outbox, newest first.
    pub async fn outbox_list(&self, status: Option<&str>, limit: usize) -> Result<Vec<OutboxItem>, Refusal> {
        self.core.check()?;
        let rows = self.core.outbox.list(read_status(status)?, limit.clamp(1, 1000)).await?;
        Ok(rows.into_iter().map(outbox_item).collect())
    }

    /// Gives a row up for a new one with a new id.
    pub async fn outbox_requeue(&self, id: &str, new_client_message_id: Option<String>) -> Result<Requeued, Refusal> {
        self.core.check()?;
        let requeued = self.core.outbox.requeue(id, new_client_message_id, "operator").await;
        self.core.siblings.notify_one();
        let requeued = requeued.map_err(|error| match &error {
            RequeueError::NotFound => Refusal::new("not_found", error.to_string()).about("id"),
            RequeueError::WrongState(_) => Refusal::new("not_requeueable", error.to_string()).about("id"),
            RequeueError::IdTaken => {
                Refusal::new("idempotency_key_reused", error.to_string()).about("new_client_message_id")
            }
            RequeueError::BadId => Refusal::field("new_client_message_id", error.to_string()),
            RequeueError::Store(_) => Refusal::internal(error),
        })?;
        Ok(Requeued {
            aborted_row_id: requeued.aborted_row_id,
            new_row_id: requeued.new_row_id,
            new_client_message_id: requeued.new_client_message_id,
        })
    }

    /// Deletes rows that are done, dead or aborted; says how many.
    pub async fn outbox_prune(&self, status: Option<&str>) -> Result<u64, Refusal> {
        self.core.check()?;
        let status = read_status(status)?;
        if matches!(status, Some(Status::Pending | Status::Inflight)) {
            return Err(Refusal::field("status", "what is still owed cannot be pruned"));
        }
        // However lately they were settled.
        Ok(self.core.outbox.prune(status, 0).await?)
    }
}

fn read_status(status: Option<&str>) -> Result<Option<Status>, Refusal> {
    match status {
        None => Ok(None),
        Some("failed") => Ok(Some(Status::Dead)),
        Some(word) => match Status::parse(word) {
            Some(status) => Ok(Some(status)),
            None => Err(Refusal::field("status", "one of pending, inflight, done, dead, aborted")),
        },
    }
}

fn refusal(error: InboxError) -> Refusal {
    match error {
        InboxError::BadQuery(text) => Refusal::new("bad_query", text).about("q"),
        InboxError::BadCursor => Refusal::field("cursor", error.to_string()),
        InboxError::Store(error) => error.into(),
    }
}

fn item(row: InboxRow, snippet: Option<String>) -> InboxItem {
    let recipient_kind = row.recipient_kind().to_owned();
    InboxItem {
        recipient_kind,
        id: row.id,
        idempotency_key: row.client_message_id.clone(),
        client_message_id: row.client_message_id,
        broker_message_id: row.broker_message_id,
        mesh: row.mesh,
        kind: row.kind.as_str().to_owned(),
        topic: row.topic,
        sender_pubkey: row.sender_pubkey,
        sender_member_id: row.sender_member_id,
        sender_name: row.sender_name,
        body: row.body,
        meta: row.meta,
        priority: row.priority,
        mentions: row.mentions,
        mention: row.mention,
        received_at: iso(row.received_at),
        created_at: row.created_at.map(iso),
        reply_to_id: row.reply_to_id,
        seen_at: row.seen_at.map(iso),
        recipient_pubkey: row.recipient_pubkey,
        recipient_session: row.recipient_session,
        decrypt_error: row.decrypt_error,
        verified: row.verified,
        file: row.file,
        snippet,
        cursor: None,
    }
}

fn outbox_item(row: OutboxRow) -> OutboxItem {
    OutboxItem {
        id: row.id,
        client_message_id: row.client_message_id,
        status: row.status.as_str().to_owned(),
        attempts: row.attempts,
        enqueued_at: iso(row.enqueued_at),
        next_attempt_at: row.next_attempt_at.map(iso),
        delivered_at: row.delivered_at.map(iso),
        broker_message_id: row.broker_message_id,
        last_error: row.last_error,
        aborted_at: row.aborted_at.map(iso),
        aborted_by: row.aborted_by,
        superseded_by: row.superseded_by,
        payload_bytes: row.payload_bytes,
        dest_kind: row.lane.dest_kind.as_str().to_owned(),
        dest_ref: row.lane.dest_ref,
    }
}
