//! `/v1/inbox`: listing, searching, marking, deleting.
//!
//! Invariant: an answer has no more bytes than allowed. A page that would is made shorter, and says where the next one
//! begins; what was left out does not count as seen.

use hostel_mesh::{InboxItem, InboxPage, InboxRequest};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use serde_json::json;

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::query::{self, Query};
use super::super::respond::Asked;
use super::{Outcome, this_mesh};

const DEFAULT_LIMIT: usize = 100;
const MOST: usize = 1000;
/// What stands around the items.
const FRAME: usize = 4096;
/// About what an item has besides its long texts.
const EACH: usize = 1024;

pub(super) async fn list(asked: &Asked) -> Outcome {
    let query = asked.query();
    let mut request = request(&query)?;
    if request.session.is_some() && asked.caller.session().is_some() {
        return Err(Refused::field("session", "a session sees its own mailbox alone"));
    }
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let mark_seen = std::mem::replace(&mut request.mark_seen, false);
    let room = asked.live.settings.limits.answer.saturating_sub(FRAME);
    let turn = asked.live.page().await?;
    // Each round asks for fewer; a single item always fits.
    let (page, items) = loop {
        let page = asked.door.mesh.inbox(request.clone(), &asked.caller).await?;
        let items = written(&page.items, room)?;
        if items.count == page.items.len() || request.limit <= 1 {
            break (page, items);
        }
        request.limit = items.count.clamp(1, request.limit - 1);
    };
    // Before anything counts as seen: without room there is no answer.
    let space = asked.live.room(items.text.len()).await?;
    let unseen: Vec<String> =
        page.items.iter().filter(|item| mark_seen && item.seen_at.is_none()).map(|item| item.id.clone()).collect();
    let marked = if unseen.is_empty() { 0 } else { asked.door.mesh.seen(unseen, &asked.caller).await? };
    let mut text = items.text;
    let rest = json!({"marked_seen": marked, "next": page.next}).to_string();
    text.extend_from_slice(b",");
    text.extend_from_slice(rest.trim_start_matches('{').as_bytes());
    let link = next_page(&query, &page);
    drop((page, turn));
    let mut response = answer::written(text).map(|body| body.taking(space));
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    Ok(response)
}

/// Reads what is asked for.
pub(in super::super) fn request(query: &Query<'_>) -> Result<InboxRequest, Refused> {
    Ok(InboxRequest {
        since_ms: query.moment("since")?,
        topic: query.text("topic")?.map(std::borrow::Cow::into_owned),
        from: query.text("from")?.map(std::borrow::Cow::into_owned),
        limit: query.clamped("limit", DEFAULT_LIMIT, 1, MOST)?,
        session: query.text("session")?.map(std::borrow::Cow::into_owned),
        oldest_first: match query.text("order")?.as_deref() {
            None | Some("newest") => false,
            Some("oldest") => true,
            Some(_) => return Err(Refused::field("order", "`order` is `newest` or `oldest`")),
        },
        unread_only: query.flag("unread_only", false)?,
        mark_seen: query.flag("mark_seen", true)?,
        cursor: query.text("cursor")?.map(std::borrow::Cow::into_owned),
    })
}

/// Where the rest is.
fn next_page(query: &Query<'_>, page: &InboxPage) -> Option<HeaderValue> {
    let cursor = query::encode(page.next.as_ref()?);
    let same = query.without("cursor");
    let separator = if same.is_empty() { "" } else { "&" };
    HeaderValue::from_str(&format!("</v1/inbox?{same}{separator}cursor={cursor}>; rel=\"next\"")).ok()
}

struct Written {
    /// `{"items":[…]`
    text: Vec<u8>,
    count: usize,
}

/// Bytes that an item has at least: its long texts as they are, before characters in them are escaped.
fn least(item: &InboxItem) -> usize {
    [&item.body, &item.snippet].into_iter().flatten().map(String::len).sum()
}

/// As many items as there is room for; at least one.
fn written(items: &[InboxItem], room: usize) -> Result<Written, Refused> {
    // At once as large as it will be: a text that grows is there twice.
    let about: usize = items.iter().map(|item| least(item) + EACH).sum();
    let mut text = Vec::with_capacity(about.min(room) + FRAME);
    text.extend_from_slice(b"{\"items\":[");
    let mut count = 0;
    for item in items {
        let before = text.len();
        if count > 0 {
            if before + least(item) > room {
                break;
            }
            text.push(b',');
        }
        serde_json::to_writer(&mut text, item)
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
        if text.len() > room && count > 0 {
            text.truncate(before);
            break;
        }
        count += 1;
    }
    text.push(b']');
    Ok(Written { text, count })
}

pub(super) async fn search(asked: &Asked) -> Outcome {
    let query = asked.query();
    let words = query.text("q")?.filter(|words| !words.trim().is_empty());
    let Some(words) = words else {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "bad_query", "`q` is missing or empty").about("q"));
    };
    let limit = query.clamped("limit", DEFAULT_LIMIT, 1, MOST)?;
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let turn = asked.live.page().await?;
    let (found, cut) = asked.door.mesh.search(&words, limit, &asked.caller).await?;
    let items = written(&found, asked.live.settings.limits.answer.saturating_sub(FRAME))?;
    let mut text = items.text;
    // A search has no next page: the newest that fit are the answer.
    let cut = cut || items.count < found.len();
    text.extend_from_slice(if cut { br#","truncated":true}"#.as_slice() } else { b"}" });
    let space = asked.live.room(text.len()).await?;
    drop((found, turn));
    Ok(answer::written(text).map(|body| body.taking(space)))
}

pub(super) async fn seen(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let ids = fields.texts("ids")?.ok_or_else(|| Refused::field("ids", "`ids` is missing"))?;
    let marked = asked.door.mesh.seen(ids, &asked.caller).await?;
    Ok(answer::ok(&json!({"ok": true, "marked_seen": marked})))
}

pub(super) async fn delete(asked: &Asked) -> Outcome {
    let missing = || Refused::new(StatusCode::NOT_FOUND, "not_found", "no message has this id").about("id");
    let id = query::decode(&asked.part).ok_or_else(missing)?;
    if !asked.door.mesh.delete(&id, &asked.caller).await? {
        return Err(missing());
    }
    Ok(answer::ok(&json!({"ok": true, "deleted": 1})))
}

pub(super) async fn delete_before(asked: &Asked) -> Outcome {
    let query = asked.query();
    let before = query.moment("before")?.ok_or_else(|| Refused::field("before", "`before` is missing"))?;
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let deleted = asked.door.mesh.delete_before(before, &asked.caller).await?;
    Ok(answer::ok(&json!({"ok": true, "deleted": deleted})))
}
