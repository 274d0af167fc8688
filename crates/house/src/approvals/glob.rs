//! Patterns of one word: what rules and grants are written in.
//!
//! `*` stands for any characters but `/`, `**` for any characters, `?` for one character but `/`, `[abc]`, `[a-z]` and
//! `[!a]` for one of a set, and `\` takes the meaning from the next character.
//!
//! Invariant: a pattern is always about the whole text, never about its beginning. Matching takes time in proportion to
//! the pattern times the text, whatever either looks like.

use std::fmt;

/// The longest pattern.
const LONGEST: usize = 4096;

/// A pattern.
#[derive(Clone, Eq, PartialEq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Exactly(char),
    /// One character, but no `/`.
    One,
    /// One of these ranges, or none of them; never a `/`.
    Set {
        ranges: Vec<(char, char)>,
        others: bool,
    },
    /// Any number of characters; whether `/` may be among them.
    Any {
        slashes: bool,
    },
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GlobError {
    /// A set that does not end.
    #[error("`[` without `]` in the pattern `{0}`")]
    OpenSet(String),
    /// Nothing after a backslash.
    #[error("the pattern `{0}` ends with `\\`")]
    Dangling(String),
    /// A set without anything in it, or a range that goes backwards.
    #[error("nothing can be in a set of the pattern `{0}`")]
    EmptySet(String),
    /// Longer than anything sensible.
    #[error("a pattern has at most {LONGEST} bytes")]
    TooLong,
}

impl Glob {
    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Glob, GlobError> {
        if text.len() > LONGEST {
            return Err(GlobError::TooLong);
        }
        let mut parts = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            parts.push(match character {
                '\\' => Part::Exactly(rest.next().ok_or_else(|| GlobError::Dangling(text.to_owned()))?),
                '?' => Part::One,
                '[' => set(text, &mut rest)?,
                '*' => {
                    let mut stars = 1;
                    while rest.next_if_eq(&'*').is_some() {
                        stars += 1;
                    }
                    Part::Any { slashes: stars > 1 }
                }
                other => Part::Exactly(other),
            });
        }
        Ok(Glob { text: text.to_owned(), parts })
    }

    /// A pattern that only this text fits.
    #[must_use]
    pub fn exactly(text: &str) -> Glob {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            if matches!(character, '\\' | '?' | '[' | '*') {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        Glob { text: escaped, parts: text.chars().map(Part::Exactly).collect() }
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole text fits.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        // Where to go on after a mismatch: behind the last `*`, with one character more taken by it.
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Two memories are needed: a `*` that cannot take a `/` may still be helped by an earlier `**`.
        let mut near: Option<(usize, usize)> = None;
        let mut far: Option<(usize, usize)> = None;
        loop {
            match (self.parts.get(part), text.get(at)) {
                (None, None) => return true,
                (Some(Part::Any { slashes: true }), _) => {
                    far = Some((part, at));
                    near = None;
                    part += 1;
                    continue;
                }
                (Some(Part::Any { slashes: false }), _) => {
                    near = Some((part, at));
                    part += 1;
                    continue;
                }
                (Some(one), Some(character)) if one.takes(*character) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            if let Some((star, taken)) = near
                && text.get(taken).is_some_and(|character| *character != '/')
            {
                near = Some((star, taken + 1));
                (part, at) = (star + 1, taken + 1);
            } else if let Some((star, taken)) = far
                && text.get(taken).is_some()
            {
                far = Some((star, taken + 1));
                near = None;
                (part, at) = (star + 1, taken + 1);
            } else {
                return false;
            }
        }
    }

    /// Whether a permission that is worded like this covers the text: it fits, and if that takes wildcards, nothing in
    /// it leads up and out of the place the pattern names.
    #[must_use]
    pub fn covers(&self, text: &str) -> bool {
        self.matches(text) && (self.is_literal() || !text.split('/').any(|step| step == ".."))
    }

    /// Whether only one text fits.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Exactly(_)))
    }
}

impl Part {
    fn takes(&self, character: char) -> bool {
        match self {
            Part::Exactly(wanted) => *wanted == character,
            Part::One => character != '/',
            Part::Set { ranges, others } => {
                character != '/' && ranges.iter().any(|(from, to)| (*from..=*to).contains(&character)) != *others
            }
            Part::Any { .. } => false,
        }
    }
}

fn set(text: &str, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Part, GlobError> {
    let open = || GlobError::OpenSet(text.to_owned());
    let others = rest.next_if(|character| matches!(character, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next().ok_or_else(open)? {
            // A bracket that comes first is one of the set.
            ']' if !ranges.is_empty() => return Ok(Part::Set { ranges, others }),
            '\\' => rest.next().ok_or_else(open)?,
            other => other,
        };
        let mut ahead = rest.clone();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                rest.next();
                rest.next();
                if to == '\\' { rest.next().ok_or_else(open)? } else { to }
            }
            _ => from,
        };
        if to < from {
            return Err(GlobError::EmptySet(text.to_owned()));
        }
        ranges.push((from, to));
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Glob({:?})", self.text)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl serde::Serialize for Glob {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> serde::Deserialize<'de> for Glob {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Glob::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        Glob::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn the_whole_word_counts() {
        let glob = Glob::new("a\"*").unwrap();
        assert_eq!(format!("{glob} {glob:?}"), "a\"* Glob(\"a\\\"*\")");
        assert!(fits("apt", "apt"));
        for other in ["apt-get", "ap", "/usr/bin/apt", "APT", "apt ", ""] {
            assert!(!fits("apt", other), "{other}");
        }
        assert!(fits("", "") && !fits("", "x"));
    }

    #[test]
    fn stars_and_slashes() {
        assert!(fits("/srv/*.conf", "/srv/a.conf"));
        assert!(!fits("/srv/*.conf", "/srv/a/b.conf"));
        assert!(fits("/srv/**.conf", "/srv/a/b.conf"));
        assert!(fits("*", "") && fits("*", "abc") && !fits("*", "a/b"));
        assert!(fits("**", "") && fits("**", "a/b"));
        assert!(fits("a*b*c", "a--b--b--c") && !fits("a*b*c", "a--b--d"));
        assert!(fits("/a/**/z/*", "/a/b/z/c/z/d") && !fits("/a/**/z/*", "/a/b/z/c/d"));
        assert!(fits("**/x*", "a/b/xyz") && !fits("**/x*", "a/b/xy/z"));
        assert!(fits("?", "ä") && !fits("?", "/") && !fits("?", "") && !fits("?", "ab"));
    }

    #[test]
    fn sets() {
        assert!(fits("[abc]", "b") && !fits("[abc]", "d") && !fits("[abc]", "ab"));
        assert!(fits("[a-c]x", "cx") && !fits("[a-c]", "d") && fits("[a-]", "-"));
        assert!(fits("[!a-c]", "d") && !fits("[!a-c]", "b") && !fits("[!a]", "/") && fits("[^a]", "b"));
        assert!(fits("[]]", "]") && fits("[\\]a]", "]") && fits("[\\]a]", "a"));
        assert_eq!(Glob::new("[a"), Err(GlobError::OpenSet("[a".to_owned())));
        assert_eq!(Glob::new("[]"), Err(GlobError::OpenSet("[]".to_owned())));
        assert_eq!(Glob::new("[z-a]"), Err(GlobError::EmptySet("[z-a]".to_owned())));
    }

    #[test]
    fn backslashes_take_the_meaning_away() {
        assert!(fits("\\*", "*") && !fits("\\*", "x"));
        assert!(fits("a\\\\b", "a\\b"));
        assert_eq!(Glob::new("a\\"), Err(GlobError::Dangling("a\\".to_owned())));
        assert_eq!(Glob::new(&"x".repeat(LONGEST + 1)), Err(GlobError::TooLong));
    }

    #[test]
    fn a_permission_with_wildcards_does_not_lead_out() {
        let glob = Glob::new("/tmp/**").unwrap();
        assert!(glob.covers("/tmp/a/b") && glob.covers("/tmp/a..b"));
        for out in ["/tmp/../etc/passwd", "/tmp/..", "/tmp/a/../../etc"] {
            assert!(glob.matches(out) && !glob.covers(out), "{out}");
        }
        assert!(Glob::new("/tmp/../etc").unwrap().covers("/tmp/../etc"));
    }

    #[test]
    fn hostile_patterns_take_no_time() {
        let pattern = Glob::new(&"*a".repeat(2000)).unwrap();
        assert!(!pattern.matches(&"a".repeat(1999)));
        let pattern = Glob::new(&"**a".repeat(1000)).unwrap();
        assert!(!pattern.matches(&"/a".repeat(999)));
    }

    /// The meaning, written down without any thought of time.
    fn reference(parts: &[Part], text: &[char]) -> bool {
        match parts.split_first() {
            None => text.is_empty(),
            Some((Part::Any { slashes }, rest)) => (0..=text.len())
                .take_while(|taken| *slashes || !text[..*taken].contains(&'/'))
                .any(|taken| reference(rest, &text[taken..])),
            Some((part, rest)) => {
                text.split_first().is_some_and(|(first, others)| part.takes(*first) && reference(rest, others))
            }
        }
    }

    proptest! {
        #[test]
        fn it_means_what_it_says(pattern in "[ab/*?]{0,10}", text in "[ab/]{0,10}") {
            let glob = Glob::new(&pattern).unwrap();
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(glob.matches(&text), reference(&glob.parts, &characters), "{} {}", pattern, text);
        }

        #[test]
        fn exactly_is_exact(text in "\\PC{0,20}", other in "\\PC{0,20}") {
            let glob = Glob::exactly(&text);
            prop_assert!(glob.matches(&text) && glob.is_literal());
            prop_assert_eq!(glob.matches(&other), text == other);
            prop_assert_eq!(Glob::new(glob.as_str()).unwrap(), glob);
        }

        #[test]
        fn any_pattern_is_read_or_refused(pattern in "\\PC{0,40}", text in "\\PC{0,40}") {
            if let Ok(glob) = Glob::new(&pattern) {
                prop_assert!(!glob.matches(&text) || glob.parts.len() <= pattern.len());
            }
        }
    }
}
