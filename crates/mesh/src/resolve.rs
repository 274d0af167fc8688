//! What a target means: a key, the beginning of one, a name, `*`, `@group`, `#topic` or `host/session-name`.
//!
//! Invariant: it looks only at what is kept here, so it works without a broker, and the same target always gives the
//! same member id while the roster stands. Several that fit are refused, never guessed.

use hostel_wire::frames::server::Member;
use hostel_wire::topic as names;

use crate::mesh::Refusal;
use crate::roster::Roster;

/// The shortest beginning of a key.
const SHORTEST_PREFIX: usize = 16;

/// The longest target, and the longest session name in one.
const LONGEST: usize = 256;

/// What a target means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// A member, and one of its sessions if one was named.
    Member(Box<Member>, Option<String>),
    /// Everybody.
    All,
    /// A group, by name.
    Group(String),
    /// A topic, by name.
    Topic(String),
}

/// Reads a target.
pub(crate) fn target(roster: &Roster, text: &str) -> Result<Target, Refusal> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        return Err(Refusal::field("to", "a target has 1 to 256 bytes"));
    }
    if text == "*" {
        return Ok(Target::All);
    }
    if text.starts_with('@') {
        let name = names::group_name(text).map_err(|error| Refusal::field("to", error.to_string()))?;
        return Ok(Target::Group(name));
    }
    if text.starts_with('#') {
        let name = names::topic_name(text).map_err(|error| Refusal::field("to", error.to_string()))?;
        return Ok(Target::Topic(name));
    }
    if let Some((host, session)) = text.split_once('/') {
        if session.is_empty() || session.chars().any(char::is_control) {
            return Err(Refusal::field("to", "a session's address is `host/session-name`"));
        }
        let found = member(roster, host)?;
        return Ok(Target::Member(Box::new(found), Some(session.to_owned())));
    }
    if let Some(session) = roster.session(&text.to_ascii_lowercase())
        && let Some(found) = roster.member(&session.member_id)
    {
        return Ok(Target::Member(Box::new(found), Some(session.session_id)));
    }
    member(roster, text).map(|found| Target::Member(Box::new(found), None))
}

/// Whether nobody that was ever heard of here is meant: somebody may have come since the broker was last heard.
pub(crate) fn is_nobody(roster: &Roster, text: &str) -> bool {
    let text = text.trim();
    fitting(roster, text.split_once('/').map_or(text, |(host, _)| host)).is_empty()
}

/// Everybody that a key, the beginning of a key, an id or a name may mean, also who is gone.
fn fitting(roster: &Roster, text: &str) -> Vec<Member> {
    let hex = text.len() >= SHORTEST_PREFIX && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let prefix = hex.then(|| text.to_ascii_lowercase());
    let name = text.to_lowercase();
    roster.with(|members| {
        let fits = |member: &&Member| {
            // Also by a key it had until a moment ago: who has it written down has not heard of the new one.
            let key = prefix.as_ref().is_some_and(|prefix| keys(member).any(|key| key.starts_with(prefix)));
            key || member.id == text || member.name.to_lowercase() == name
        };
        members.filter(fits).cloned().collect()
    })
}

/// The one member that a key, the beginning of a key, an id or a name means.
pub(crate) fn member(roster: &Roster, text: &str) -> Result<Member, Refusal> {
    let (mut found, name) = (fitting(roster, text), text.to_lowercase());
    // Whoever has left or was revoked only counts if nobody else fits: its name may have been taken again.
    if found.iter().any(|member| !member.left && !member.revoked) {
        found.retain(|member| !member.left && !member.revoked);
    }
    // A whole key means one member, whatever others call themselves.
    if let Some(exact) = found.iter().find(|member| keys(member).any(|key| key == name) || member.id == text) {
        return usable(exact.clone());
    }
    match found.len() {
        0 => Err(Refusal::new("peer_not_found", format!("no member is called `{}`", shown(text))).about("to")),
        1 => usable(found.remove(0)),
        count => {
            let detail = format!("`{}` may mean {count} members; use the whole key", shown(text));
            let keys: Vec<String> = found.into_iter().take(10).map(|member| member.pubkey).collect();
            Err(Refusal::new("ambiguous_target", detail).about("to").with("candidates", keys))
        }
    }
}

/// The keys that lead to a member.
fn keys(member: &Member) -> impl Iterator<Item = &str> {
    std::iter::once(member.pubkey.as_str()).chain(member.retired.iter().map(|key| key.pubkey.as_str()))
}

fn usable(member: Member) -> Result<Member, Refusal> {
    match (member.revoked, member.left) {
        (false, false) => Ok(member),
        (true, _) => {
            Err(Refusal::new("peer_not_found", format!("`{}` has been revoked", shown(&member.name))).about("to"))
        }
        (false, true) => Err(Refusal::new("peer_not_found", format!("`{}` has left", shown(&member.name))).about("to")),
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use hostel_wire::frames::server::Roster as RosterFrame;

    use super::*;
    use crate::authors::Authors;
    use crate::keep::Kept;
    use crate::log::Log;
    use crate::roster::Admission;

    fn key(first: char) -> String {
        std::iter::repeat_n(first, 64).collect()
    }

    fn roster() -> Roster {
        let roster = Roster::load(Kept::new(None, "roster.json"), Log::silent()).unwrap();
        let member = |id: &str, name: &str, pubkey: String| Member {
            id: id.into(),
            name: name.into(),
            pubkey,
            ..Member::default()
        };
        let gone = Member { left: true, ..member("m4", "bob", key('d')) };
        let banned = Member { revoked: true, ..member("m5", "mallory", key('e')) };
        let mut twin = key('a');
        twin.replace_range(60.., "bbbb");
        let members = vec![
            member("m1", "alice", key('a')),
            member("m2", "Bob", key('c')),
            member("m3", "twin", twin),
            gone,
            banned,
        ];
        let admission = Admission { authors: &Authors::default(), mesh_id: "mesh", own_id: "", signs_from: None };
        roster.replace(RosterFrame { rev: 1, members, ..RosterFrame::default() }, &admission);
        roster
    }

    fn id(target: Result<Target, Refusal>) -> String {
        match target.unwrap() {
            Target::Member(member, None) => member.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_are_found_by_key_prefix_and_name() {
        let roster = roster();
        assert_eq!(id(target(&roster, &key('A'))), "m1");
        assert_eq!(id(target(&roster, "BOB")), "m2", "who has left does not count");
        assert_eq!(id(target(&roster, &key('c')[..16])), "m2");
        assert_eq!(target(&roster, &key('a')[..16]).unwrap_err().code(), "ambiguous_target");
        assert_eq!(target(&roster, &key('c')[..15]).unwrap_err().code(), "peer_not_found");
        assert_eq!(target(&roster, "mallory").unwrap_err().code(), "peer_not_found");
        assert_eq!(target(&roster, "nobody").unwrap_err().code(), "peer_not_found");
    }

    #[test]
    fn the_other_addresses() {
        let roster = roster();
        assert_eq!(target(&roster, "*").unwrap(), Target::All);
        assert_eq!(target(&roster, "@Ops").unwrap(), Target::Group("Ops".into()));
        assert_eq!(target(&roster, "#Alerts").unwrap(), Target::Topic("alerts".into()));
        assert!(
            matches!(target(&roster, "bob/fix-ci").unwrap(), Target::Member(m, Some(s)) if m.id == "m2" && s == "fix-ci")
        );
        assert_eq!(target(&roster, "bob/").unwrap_err().code(), "invalid");
        assert_eq!(target(&roster, "").unwrap_err().code(), "invalid");
    }
}
