//! What must be in the inboxes when the storm is over: everything that was accepted, once, in the order of its lane, and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use hostel_tests::claudemesh::{Client, Lab, Transport};
use serde_json::Value;

use super::callers::{Fate, Sent};
use super::field::{Destination, NAMES, TOPICS};

/// The whole inbox of a host, oldest first.
pub(super) fn inbox(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client.get_json(&format!("/v1/inbox?mark_seen=false&limit=500{cursor}"));
        let items = page["items"].as_array().expect("items").clone();
        assert!(!items.is_empty() || page["next"].is_null(), "an empty page is the last one");
        all.extend(items);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    all.reverse();
    all
}

/// Compares a host's inbox with what was sent; gives the number of messages.
pub(super) fn check_inbox(host: usize, rows: &[Value], sent: &[Sent]) -> Result<usize, String> {
    let name = NAMES[host];
    let for_it: BTreeMap<&str, &Sent> = sent
        .iter()
        .filter(|message| message.destination.hearers(message.sender).contains(&host))
        .map(|message| (message.id.as_str(), message))
        .collect();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        let id = row["client_message_id"].as_str().ok_or_else(|| format!("{name}: a row without an id: {row}"))?;
        let message = for_it.get(id).ok_or_else(|| format!("{name} has what was not sent to it: {row}"))?;
        if places.insert(id, place).is_some() {
            return Err(format!("{name} has {id} twice"));
        }
        same(row, message).map_err(|what| format!("{name}: {what} of {id} is not what was sent: {row}"))?;
    }
    let missing: Vec<&str> = for_it
        .values()
        .filter(|m| m.fate == Fate::Heard && !places.contains_key(m.id.as_str()))
        .map(|m| &*m.id)
        .collect();
    if !missing.is_empty() {
        let (count, first) = (missing.len(), &missing[..missing.len().min(10)]);
        return Err(format!("{name} misses {count} messages that were accepted: {first:?}"));
    }
    check_order(name, sent, &places)?;
    Ok(rows.len())
}

fn same(row: &Value, message: &Sent) -> Result<(), &'static str> {
    let topic = match message.destination {
        Destination::Topic(topic) => Value::from(TOPICS[topic].0),
        Destination::Member(_) | Destination::All => Value::Null,
    };
    let equal = [
        ("the body", row["body"] == *message.body),
        ("the sender", row["sender_name"] == NAMES[message.sender]),
        ("the priority", row["priority"] == message.priority),
        ("the topic", row["topic"] == topic),
        ("the meta", row["meta"] == message.meta.clone().unwrap_or(Value::Null)),
    ];
    equal.into_iter().find(|(_, equal)| !equal).map_or(Ok(()), |(what, _)| Err(what))
}

/// Each lane in the order it was sent in. What a caller turned away from may have been accepted later.
fn check_order(name: &str, sent: &[Sent], places: &BTreeMap<&str, usize>) -> Result<(), String> {
    let mut last: BTreeMap<(usize, Destination, &str), (usize, &str)> = BTreeMap::new();
    for message in sent.iter().filter(|message| message.fate != Fate::Abandoned) {
        let Some(place) = places.get(message.id.as_str()) else { continue };
        let lane = (message.sender, message.destination, message.priority);
        if let Some((before, id)) = last.insert(lane, (*place, &message.id))
            && before > *place
        {
            return Err(format!("{name} has {} before {id}, lane {lane:?}", message.id));
        }
    }
    Ok(())
}

/// Every outbox is empty, and nothing was given up.
pub(super) fn outboxes_empty(lab: &Lab) -> bool {
    lab.hosts.iter().all(|host| {
        let client = host.client(Transport::Socket);
        ["pending", "inflight"].iter().all(|status| {
            client.get_json(&format!("/v1/outbox?status={status}&limit=1"))["items"]
                .as_array()
                .is_some_and(Vec::is_empty)
        })
    })
}

/// The broker's log has every id once.
pub(super) fn check_log(lab: &Lab, sent: &[Sent]) -> usize {
    let path = lab.path().join("broker/broker/broker.db");
    let log = rusqlite::Connection::open(path).expect("the broker's log");
    let mut read = log.prepare("SELECT sender, client_id FROM log").expect("a log");
    let rows = read.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let all: Vec<(String, String)> = rows.expect("rows").map(|row| row.expect("a row")).collect();
    let different: BTreeSet<&(String, String)> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "an id is in the log twice");
    let known: BTreeSet<&str> = sent.iter().map(|message| message.id.as_str()).collect();
    let ours = all.iter().filter(|(_, id)| known.contains(id.as_str())).count();
    let heard = sent.iter().filter(|message| message.fate == Fate::Heard).count();
    assert!(ours >= heard, "{ours} entries for {heard} messages that were accepted");
    ours
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str, destination: Destination, fate: Fate) -> Sent {
        Sent { id: id.to_owned(), sender: 0, destination, priority: "next", body: id.to_owned(), meta: None, fate }
    }

    fn row(id: &str) -> Value {
        json!({"client_message_id": id, "body": id, "sender_name": "alice", "priority": "next", "topic": null, "meta": null})
    }

    #[test]
    fn whatever_is_wrong_is_noticed() {
        let to = Destination::Member(1);
        let sent = [message("a", to, Fate::Heard), message("b", to, Fate::Unheard), message("c", to, Fate::Heard)];
        let check = |rows: &[Value]| check_inbox(1, rows, &sent);
        assert_eq!(check(&["a", "b", "c"].map(row)), Ok(3));
        assert_eq!(check(&["a", "c"].map(row)), Ok(2), "nobody heard that it was accepted");
        assert!(check(&["a", "b"].map(row)).is_err_and(|wrong| wrong.contains("misses")));
        assert!(check(&["a", "c", "b", "b"].map(row)).is_err_and(|wrong| wrong.contains("twice")));
        assert!(check(&["c", "a"].map(row)).is_err_and(|wrong| wrong.contains("before")));
        assert!(check(&["a", "c", "b"].map(row)).is_err_and(|wrong| wrong.contains("before")));
        assert!(check(&["a", "c", "d"].map(row)).is_err_and(|wrong| wrong.contains("not sent")));
        let mut other = row("c");
        other["body"] = json!(null);
        assert!(check(&[row("a"), other]).is_err_and(|wrong| wrong.contains("the body")));
        assert!(check_inbox(2, &[row("a")], &sent).is_err_and(|wrong| wrong.contains("not sent")));
        assert_eq!(check_inbox(2, &[], &sent), Ok(0));
    }
}
