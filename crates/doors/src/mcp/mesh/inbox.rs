//! `mesh_inbox`: what was received, newest first, or what has some words in it.
//!
//! Invariant: a page is asked for without marking anything; only what then fits into the answer is marked as read. Where
//! a page is shortened, `next` begins right after what was given. An answer that is not all there is says so, in its words
//! too: not every client shows an agent the structure.

use rmcp::model::CallToolResult;
use serde_json::Value;
use serde_json::json;

use super::Line;
use super::fitting;
use super::list;
use super::text;
use super::told;
use crate::mcp::Caller;
use crate::mcp::Server;
use crate::mcp::arguments::MeshInbox;
use crate::mcp::execute::failed;
use crate::mcp::sessions::cut;

/// Messages of one answer, unless asked for fewer, and at most.
const LISTED: (u64, u64) = (50, 200);

/// The most of one message that is given.
const BODY: usize = 64 << 10;

/// `mesh_inbox`.
pub(in crate::mcp) async fn inbox(server: &Server, caller: &Caller, asked: MeshInbox) -> CallToolResult {
    let read = async { read(&Line::new(server, caller, asked.mesh.as_deref())?, &asked).await };
    read.await.unwrap_or_else(failed)
}

async fn read(line: &Line<'_>, asked: &MeshInbox) -> Result<CallToolResult, String> {
    let limit = asked.limit.unwrap_or(LISTED.0).clamp(1, LISTED.1);
    let Page { mesh, items, next, more } = match &asked.query {
        Some(words) => search(line, asked, words, limit).await?,
        None => page(line, asked, limit).await?,
    };
    if !asked.keep_unread && asked.query.is_none() {
        mark(line, &items).await?;
    }
    let shown: Vec<Value> = items.iter().map(shown).collect();
    let mut words = match shown.len() {
        0 => format!("nothing in the inbox of mesh {mesh}"),
        _ => shown.iter().map(line_of).collect::<Vec<_>>().join("\n\n"),
    };
    if more {
        words.push_str("\n\n");
        words.push_str(&rest(shown.len(), next.as_deref(), limit));
    }
    Ok(told(words, json!({"mesh": mesh, "messages": shown, "next": next, "more": more})))
}

/// That there is more, and how to get it.
fn rest(count: usize, next: Option<&str>, limit: u64) -> String {
    match next {
        Some(next) => format!(
            "[this is not all: older messages follow these {count}. For the next page call mesh_inbox again with the same \
             arguments and `cursor`: {}]",
            Value::from(next)
        ),
        None if limit < LISTED.1 && count as u64 == limit => format!(
            "[this is not all: more messages than these {count} have these words. Give a larger `limit` (at most {}), or \
             words that fewer messages have]",
            LISTED.1
        ),
        None => format!(
            "[this is not all: more messages than these {count} have these words. Look for words that fewer messages have]"
        ),
    }
}

/// Messages, where those after them begin, and whether there are any.
struct Page {
    mesh: String,
    items: Vec<Value>,
    next: Option<String>,
    more: bool,
}

async fn page(line: &Line<'_>, asked: &MeshInbox, limit: u64) -> Result<Page, String> {
    let mut limit = limit;
    // Each round asks for fewer; a single message always fits.
    loop {
        let count = limit.to_string();
        let query = [
            ("limit", Some(count.as_str())),
            ("mark_seen", Some("false")),
            ("unread_only", asked.unread.then_some("true")),
            ("since", asked.since.as_deref()),
            ("topic", asked.topic.as_deref()),
            ("from", asked.from.as_deref()),
            ("cursor", asked.cursor.as_deref()),
        ];
        let answer = line.get("/v1/inbox", &query).await?;
        let next = answer.body.get("next").and_then(Value::as_str).map(str::to_owned);
        let mut items: Vec<Value> = list(answer.body, "items").into_iter().map(bounded).collect();
        let fits = fitting(&items);
        if fits == items.len() || limit <= 1 {
            items.truncate(fits);
            return Ok(Page { mesh: answer.mesh, items, more: next.is_some(), next });
        }
        limit = (fits as u64).clamp(1, limit - 1);
    }
}

/// A search looks through everything; it has no next page and marks nothing.
async fn search(line: &Line<'_>, asked: &MeshInbox, words: &str, limit: u64) -> Result<Page, String> {
    let others = [&asked.since, &asked.topic, &asked.from, &asked.cursor];
    if asked.unread || others.iter().any(|given| given.is_some()) {
        return Err("query looks through the whole inbox: give it alone, or with mesh and limit".to_owned());
    }
    // One more than is given: so it is known whether that is all.
    let count = (limit + 1).to_string();
    let answer = line.get("/v1/inbox/search", &[("q", Some(words)), ("limit", Some(&count))]).await?;
    // The daemon gives no more than fits into an answer of its own.
    let cut = answer.body.get("truncated").and_then(Value::as_bool).unwrap_or_default();
    let mut items: Vec<Value> = list(answer.body, "items").into_iter().map(bounded).collect();
    let found = items.len();
    items.truncate(limit as usize);
    items.truncate(fitting(&items));
    Ok(Page { mesh: answer.mesh, more: cut || items.len() < found, items, next: None })
}

/// Marks as read what was not.
async fn mark(line: &Line<'_>, items: &[Value]) -> Result<(), String> {
    let unread: Vec<&str> = items.iter().filter(|item| is_unread(item)).map(|item| text(item, "id")).collect();
    if !unread.is_empty() {
        line.post("/v1/inbox/seen", &json!({"ids": unread})).await?;
    }
    Ok(())
}

fn is_unread(item: &Value) -> bool {
    item.get("seen_at").is_none_or(Value::is_null)
}

/// A message whose text is no longer than allowed.
fn bounded(mut item: Value) -> Value {
    if let Some(Value::String(body)) = item.get_mut("body") {
        *body = cut(std::mem::take(body), BODY);
    }
    // What a sender puts beside its text is for programs, and as large as it likes.
    if let Value::Object(members) = &mut item {
        members.remove("meta");
    }
    item
}

/// A message as it is given: the sender's id is the one that can be answered.
fn shown(item: &Value) -> Value {
    let name = text(item, "sender_name");
    let mut shown = json!({
        "message_id": text(item, "client_message_id"), "from": name, "from_key": text(item, "sender_pubkey"),
        "kind": text(item, "kind"), "received_at": text(item, "received_at"), "priority": text(item, "priority"),
        "unread": is_unread(item), "mention": item.get("mention").and_then(Value::as_bool).unwrap_or_default(),
        "verified": item.get("verified").and_then(Value::as_bool).unwrap_or_default(),
        "body": text(item, "body"),
    });
    let kept = [
        ("topic", "topic"),
        ("reply_to", "reply_to_id"),
        ("session", "recipient_session"),
        ("unreadable", "decrypt_error"),
        ("file", "file"),
        ("snippet", "snippet"),
    ];
    for (key, name) in kept {
        if let Some(value) = item.get(name).filter(|value| !value.is_null()) {
            shown[key] = value.clone();
        }
    }
    shown
}

/// The same for who reads no structure.
fn line_of(message: &Value) -> String {
    let topic = text(message, "topic");
    let to = if topic.is_empty() { String::new() } else { format!(" in #{topic}") };
    let body = match text(message, "unreadable") {
        "" => text(message, "body").to_owned(),
        reason => format!("(cannot be read: {reason})"),
    };
    let unread = if message.get("unread") == Some(&Value::Bool(true)) { ", unread" } else { "" };
    let doubt = if message.get("verified") == Some(&Value::Bool(true)) { "" } else { " (unverified)" };
    let [from, when, id] = ["from", "received_at", "message_id"].map(|key| text(message, key));
    format!("{from}{doubt}{to} at {when}{unread}, message {id}:\n{body}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::Told;
    use super::*;

    fn item(id: &str, body: &str, seen: bool) -> Value {
        json!({"id": id, "client_message_id": format!("c-{id}"), "sender_name": "bob", "sender_pubkey": "k",
            "kind": "dm", "topic": null, "body": body, "priority": "next", "received_at": "2026-01-01T00:00:00.000Z",
            "reply_to_id": null, "seen_at": seen.then_some("2026-01-01T00:00:01.000Z"), "mention": false,
            "meta": {"large": "x"}})
    }

    fn asked(value: Value) -> MeshInbox {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn only_what_was_given_is_marked() {
        let page = json!({"items": [item("1", "new", false), item("2", "old", true)], "next": "n"});
        let daemon = Told::new([Ok(page.clone()), Ok(json!({})), Ok(page)]);
        let read_it = read(&daemon.line(), &asked(json!({"from": "bob"}))).await.unwrap();
        let given = read_it.structured_content.unwrap();
        assert_eq!((&given["mesh"], &given["next"]), (&json!("lab"), &json!("n")));
        assert_eq!(
            given["messages"][0],
            json!({"message_id": "c-1", "from": "bob", "from_key": "k", "kind": "dm", "body": "new", "unread": true,
                "received_at": "2026-01-01T00:00:00.000Z", "priority": "next", "mention": false, "verified": false})
        );
        read(&daemon.line(), &asked(json!({"keep_unread": true}))).await.unwrap();
        let heard = daemon.heard.lock();
        assert_eq!(heard.len(), 3);
        assert!(heard[0].2.contains(&("mark_seen".to_owned(), "false".to_owned())), "{heard:?}");
        assert_eq!((heard[1].1.as_str(), &heard[1].3), ("/v1/inbox/seen", &Some(json!({"ids": ["1"]}))));
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_asked_for_again() {
        let many: Vec<Value> = (0..10).map(|id| item(&id.to_string(), &"x".repeat(BODY + 9), false)).collect();
        let first = json!({"items": many, "next": null});
        let second = json!({"items": &many[..3], "next": "after 3"});
        let daemon = Told::new([Ok(first), Ok(second), Ok(json!({}))]);
        let given = read(&daemon.line(), &asked(json!({}))).await.unwrap().structured_content.unwrap();
        assert_eq!((given["messages"].as_array().unwrap().len(), &given["next"]), (3, &json!("after 3")));
        assert!(given["messages"][0]["body"].as_str().unwrap().ends_with("[9 more bytes]"));
        let heard = daemon.heard.lock();
        assert!(heard[1].2.contains(&("limit".to_owned(), "3".to_owned())), "{:?}", heard[1].2);
        assert_eq!(heard[2].3, Some(json!({"ids": ["0", "1", "2"]})));
    }

    #[tokio::test]
    async fn a_search_stands_alone_and_marks_nothing() {
        let daemon = Told::new([Ok(json!({"items": [item("1", "new", false)]}))]);
        assert!(read(&daemon.line(), &asked(json!({"query": "new", "unread": true}))).await.is_err());
        assert!(daemon.heard.lock().is_empty());
        let all = read(&daemon.line(), &asked(json!({"query": "new"}))).await.unwrap();
        assert_eq!(daemon.heard.lock().len(), 1);
        assert!(!words(&all).contains("not all"), "{all:?}");
    }

    fn words(result: &CallToolResult) -> String {
        result.content[0].as_text().unwrap().text.clone()
    }

    /// Who reads no structure learns it too.
    #[tokio::test]
    async fn an_answer_that_is_not_all_says_so_and_how_to_go_on() {
        let page = |next: Value| Ok(json!({"items": [item("1", "new", true)], "next": next}));
        let daemon = Told::new([page(json!("n \"1\"")), page(Value::Null)]);
        let first = read(&daemon.line(), &asked(json!({"limit": 1}))).await.unwrap();
        assert!(words(&first).ends_with("`cursor`: \"n \\\"1\\\"\"]"), "{}", words(&first));
        assert_eq!(first.structured_content.unwrap()["more"], true);
        let last = read(&daemon.line(), &asked(json!({"limit": 1, "cursor": "n \"1\""}))).await.unwrap();
        assert!(!words(&last).contains("not all"), "{}", words(&last));
        assert_eq!(last.structured_content.unwrap()["more"], false);
    }

    #[tokio::test]
    async fn a_search_that_found_more_than_it_gives_says_so() {
        let found = |count: usize, size: usize| {
            let items = (0..count).map(|id| item(&id.to_string(), &"x".repeat(size), true)).collect::<Vec<_>>();
            Ok(json!({"items": items}))
        };
        let daemon = Told::new([found(3, 1), found(2, 1), found(9, BODY), found(201, 1)]);
        let cases = [(2, 2, Some("larger `limit`")), (2, 2, None), (9, 3, Some("fewer")), (200, 200, Some("fewer"))];
        for (limit, given, said) in cases {
            let result = read(&daemon.line(), &asked(json!({"query": "x", "limit": limit}))).await.unwrap();
            let (told, structured) = (words(&result), result.structured_content.clone().unwrap());
            assert_eq!(structured["messages"].as_array().unwrap().len(), given);
            assert_eq!((&structured["more"], &structured["next"]), (&json!(said.is_some()), &Value::Null));
            match said {
                Some(said) => assert!(told.contains("this is not all") && told.contains(said), "{said}"),
                None => assert!(!told.contains("not all")),
            }
        }
        let cut = Told::new([Ok(json!({"items": [item("1", "x", true)], "truncated": true}))]);
        let result = read(&cut.line(), &asked(json!({"query": "x"}))).await.unwrap();
        assert!(words(&result).contains("this is not all"), "{result:?}");
        let heard = daemon.heard.lock();
        assert!(heard[0].2.contains(&("limit".to_owned(), "3".to_owned())), "{:?}", heard[0].2);
    }
}
