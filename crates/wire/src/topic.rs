//! Names: of topics, members, groups and meshes, and mentions in a text.
//!
//! Invariant: a name that passes can be typed in a shell, mentioned in a message and used in a file name.

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct NameError {
    what: &'static str,
    rule: &'static str,
}

/// A message mentions at most this many in its text.
pub const MENTIONS: usize = 16;

/// The topic every mesh has.
pub const GENERAL: &str = "general";

const TOPIC: NameError =
    NameError { what: "a topic name", rule: "1 to 64 of a-z, 0-9, `.`, `_`, `-`, not starting with a sign" };
const MEMBER: NameError = NameError { what: "a display name", rule: "1 to 64 of A-Z, a-z, 0-9, `_`, `-`" };
const GROUP: NameError = NameError { what: "a group name", rule: "1 to 64 of A-Z, a-z, 0-9, `_`, `-`" };

fn mentionable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(mentionable)
}

/// A topic's name as it is stored: without `#`, in lower case.
pub fn topic_name(text: &str) -> Result<String, NameError> {
    let name = text.strip_prefix('#').unwrap_or(text).to_ascii_lowercase();
    let fits = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 64
        && name.bytes().all(|byte| mentionable(byte) || byte == b'.');
    if fits { Ok(name) } else { Err(TOPIC) }
}

/// A member's name: only what can be mentioned.
pub fn display_name(text: &str) -> Result<String, NameError> {
    if is_word(text) { Ok(text.to_owned()) } else { Err(MEMBER) }
}

/// The nearest name that can be mentioned, or `peer` if nothing is left.
#[must_use]
pub fn display_slug(text: &str) -> String {
    let slug = slug(text, |char| char.is_ascii_alphanumeric() || char == '_', false);
    if slug.is_empty() { "peer".into() } else { slug }
}

/// A group's name, without `@`.
pub fn group_name(text: &str) -> Result<String, NameError> {
    let name = text.strip_prefix('@').unwrap_or(text);
    if is_word(name) { Ok(name.to_owned()) } else { Err(GROUP) }
}

/// The slug of a mesh's name: lower case, digits and hyphens. A broker adds `-2`, `-3` where it is taken.
#[must_use]
pub fn mesh_slug(name: &str) -> Option<String> {
    let slug = slug(name, |char| char.is_ascii_alphanumeric(), true);
    (!slug.is_empty()).then_some(slug)
}

/// Whether a text is a mesh's slug; a slug is a directory's name.
#[must_use]
pub fn is_mesh_slug(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn slug(text: &str, keep: impl Fn(char) -> bool, lower: bool) -> String {
    let mut out = String::new();
    for char in text.chars() {
        if out.len() >= 48 {
            break;
        }
        if keep(char) {
            out.push(if lower { char.to_ascii_lowercase() } else { char });
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    out
}

/// Who a text mentions, in lower case, each once, at most `MENTIONS`.
#[must_use]
pub fn mentions(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while found.len() < MENTIONS
        && let Some(sign) = bytes[at..].iter().position(|byte| *byte == b'@').map(|offset| at + offset)
    {
        let length = bytes[sign + 1..].iter().take_while(|byte| mentionable(**byte)).count();
        let preceded = sign > 0 && mentionable(bytes[sign - 1]);
        if !preceded && (1..=64).contains(&length) {
            let name = text[sign + 1..sign + 1 + length].to_ascii_lowercase();
            if !found.contains(&name) {
                found.push(name);
            }
        }
        at = sign + 1 + length;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn topics() {
        assert_eq!(topic_name("#Alerts"), Ok("alerts".into()));
        assert_eq!(topic_name("a.b_c-9"), Ok("a.b_c-9".into()));
        assert_eq!(topic_name(&"a".repeat(64)), Ok("a".repeat(64)));
        for bad in ["", "#", ".a", "-a", "a b", "ä", "##a", "a/b", &"a".repeat(65)] {
            assert_eq!(topic_name(bad), Err(TOPIC), "{bad}");
        }
    }

    #[test]
    fn members_and_groups() {
        assert_eq!(display_name("Worker_3-a"), Ok("Worker_3-a".into()));
        assert!(display_name("a b").is_err() && display_name("").is_err() && display_name("ä").is_err());
        assert_eq!(group_name("@ops"), Ok("ops".into()));
        assert!(group_name("@").is_err());
        assert_eq!(display_slug("Ada Lovelace (laptop)"), "Ada-Lovelace-laptop");
        assert_eq!(display_slug("***"), "peer");
        assert_eq!(mesh_slug("My Lab!"), Some("my-lab".into()));
        assert_eq!(mesh_slug("!!"), None);
        assert!(is_mesh_slug("my-lab-2") && !is_mesh_slug("..") && !is_mesh_slug("A") && !is_mesh_slug("-a"));
    }

    #[test]
    fn mentions_in_a_text() {
        assert_eq!(mentions("@Bob, ask @worker-3 or mail a@b.c; @bob"), ["bob", "worker-3"]);
        assert_eq!(mentions("@@x (@y) @"), ["x", "y"]);
        assert_eq!(mentions("a@x @x@y"), ["x"]);
        assert!(mentions(&format!("@{}", "a".repeat(65))).is_empty());
        let many: String = (0..40).map(|n| format!("@n{n} ")).collect();
        assert_eq!(mentions(&many).len(), MENTIONS);
    }

    proptest! {
        #[test]
        fn slugs_are_names(text in ".{0,80}") {
            prop_assert!(display_name(&display_slug(&text)).is_ok());
            if let Some(slug) = mesh_slug(&text) {
                prop_assert!(is_mesh_slug(&slug), "{}", slug);
            }
            for name in mentions(&text) {
                prop_assert!(display_name(&name).is_ok());
            }
        }
    }
}
