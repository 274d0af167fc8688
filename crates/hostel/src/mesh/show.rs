//! How things of a mesh look to people: keys, times, messages.
//!
//! Everything that came from a peer goes through `text::printable` or `text::prose` on its way.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::text;
use crate::ui::Paint;
use crate::ui::Ui;

/// Digits of a key that are shown.
const KEY_DIGITS: usize = 8;

/// Digits by which a member can be addressed.
const ADDRESS_DIGITS: usize = 16;

/// The beginning of a key.
pub(super) fn short_key(key: &str) -> String {
    let start: String = key.chars().take(KEY_DIGITS).collect();
    format!("{}..", text::printable(&start))
}

/// As much of a key as is an address by itself.
pub(super) fn address_key(key: &str) -> String {
    let start: String = key.chars().take(ADDRESS_DIGITS).collect();
    text::printable(&start).into_owned()
}

/// A text field, empty where there is none.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A list field.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A contract's time as people read it: the second, in UTC, which the `Z` says.
pub(super) fn time(iso: &str) -> String {
    let second: String = iso.chars().take(19).collect();
    let zone = if second.is_empty() { "" } else { "Z" };
    format!("{}{zone}", text::printable(&second.replace('T', " ")))
}

/// The names of members, by their ids; an id that nobody has is its own name.
pub(super) fn names(members: &Value) -> impl Fn(&str) -> String + use<> {
    let known: BTreeMap<String, String> = list(members, "members")
        .iter()
        .map(|member| (field(member, "memberId").to_owned(), field(member, "displayName").to_owned()))
        .collect();
    move |id: &str| known.get(id).cloned().unwrap_or_else(|| id.to_owned())
}

/// The names of groups, wherever they are objects or words.
pub(super) fn groups(value: &Value) -> String {
    let names: Vec<&str> = list(value, "groups")
        .iter()
        .map(|group| group.as_str().unwrap_or_else(|| field(group, "name")))
        .filter(|name| !name.is_empty())
        .collect();
    names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(" ")
}

/// A received message as a section: who, where, when, and below it what.
pub(super) fn message(ui: &Ui, item: &Value) -> String {
    let name = match field(item, "sender_name") {
        "" => short_key(field(item, "sender_pubkey")),
        name => text::printable(name).into_owned(),
    };
    let mut head = format!("{} ({})", ui.paint(Paint::Bold, &name), short_key(field(item, "sender_pubkey")));
    // What has no body was not judged, or is not shown for that very reason.
    if item.get("verified").and_then(Value::as_bool) != Some(true) && item.get("body").is_some_and(Value::is_string) {
        head.push_str(&format!("  {}", ui.paint(Paint::Yellow, "unverified")));
    }
    match field(item, "topic") {
        "" => {}
        topic => head.push_str(&format!("  #{}", text::printable(topic))),
    }
    match field(item, "recipient_session") {
        "" => {}
        session => head.push_str(&format!("  for {}", text::printable(session))),
    }
    if item.get("mention").and_then(Value::as_bool).unwrap_or_default() {
        head.push_str(&format!("  {}", ui.paint(Paint::Yellow, "mentions you")));
    }
    if field(item, "priority") == "now" {
        head.push_str(&format!("  {}", ui.paint(Paint::Red, "now")));
    }
    if item.get("seen_at").is_none_or(Value::is_null) {
        head.push_str(&format!("  {}", ui.paint(Paint::Green, "new")));
    }
    head.push_str(&format!("  {}", ui.paint(Paint::Dim, &time(field(item, "received_at")))));
    let body = match item.get("body").and_then(Value::as_str) {
        Some(body) => text::prose(body).into_owned(),
        None => ui.paint(Paint::Yellow, unreadable(field(item, "decrypt_error"))),
    };
    let mut section = head;
    for line in body.lines().map(str::to_owned).chain(item.get("file").and_then(file)) {
        section.push_str("\n  ");
        section.push_str(&line);
    }
    section
}

/// Why a message has no body, for people.
fn unreadable(reason: &str) -> &'static str {
    match reason {
        "unsigned" => "(refused: this sender signs its messages, and this one is not signed)",
        "bad_signature" => "(refused: the signature is not the sender's)",
        "unproven_key" => "(refused: it is signed with a key that the sender has not named as its own)",
        _ => "(cannot be read)",
    }
}

/// The file a message announces, with what to say to get it.
fn file(about: &Value) -> Option<String> {
    let (name, id) = (text::printable(field(about, "name")), text::printable(field(about, "id")));
    let size = text::size(about.get("size").and_then(Value::as_u64)?);
    Some(format!("file {name} ({size}), id {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ColorChoice;
    use serde_json::json;

    #[test]
    fn a_message_cannot_steer_the_terminal() {
        let ui = Ui::new(false, ColorChoice::Never);
        let item = json!({
            "sender_name": "ada\u{1b}[2J", "sender_pubkey": "0123456789abcdef", "topic": "alerts", "priority": "now",
            "mention": true, "recipient_session": "build", "verified": true,
            "seen_at": null, "received_at": "2026-01-02T03:04:05.678Z", "body": "one\ntwo\u{1b}]0;x\u{7}"
        });
        assert_eq!(
            message(&ui, &item),
            "ada⟨ESC⟩[2J (01234567..)  #alerts  for build  mentions you  now  new  2026-01-02 03:04:05Z\n  one\n  two⟨ESC⟩]0;x⟨BEL⟩"
        );
        let unread = message(&ui, &json!({"sender_pubkey": "0123456789", "seen_at": "x", "body": null}));
        assert!(unread.ends_with("\n  (cannot be read)"), "{unread}");
        let doubtful =
            message(&ui, &json!({"sender_name": "eve", "sender_pubkey": "0123456789", "seen_at": "x", "body": "x"}));
        assert!(doubtful.starts_with("eve (01234567..)  unverified  "), "{doubtful}");
        let forged =
            json!({"sender_pubkey": "0123456789", "seen_at": "x", "body": null, "decrypt_error": "bad_signature"});
        assert!(message(&ui, &forged).ends_with("\n  (refused: the signature is not the sender's)"));
        let about = json!({"id": "01h", "name": "a\u{7}.log", "size": 6});
        let file = message(&ui, &json!({"sender_pubkey": "0123456789", "seen_at": "x", "body": "", "file": about}));
        assert!(file.ends_with("\n  file a⟨BEL⟩.log (6 B), id 01h"), "{file}");
    }

    #[test]
    fn groups_are_words_or_objects() {
        assert_eq!(groups(&json!({"groups": ["a", {"name": "b", "role": "x"}, {}]})), "@a @b");
        assert_eq!(groups(&json!({})), "");
    }
}
