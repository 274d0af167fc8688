//! Paths as text: lexical cleaning, joining, the home directory's short form, and the guard against wiping it.
//!
//! Cleaning works on the text alone and never asks the file system, so `a/../b` is `b` even if `a` is a symbolic
//! link. Only [`is_or_contains`] looks at the disk, because a guard that can be walked around with a link is none.
//!
//! Nothing here expands variables, other users' homes, or a `~` anywhere but at the very start.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The shortest path with the same meaning, by text alone.
///
/// Repeated separators, `.` and trailing separators vanish, `name/..` cancels out, `..` at the root is dropped,
/// and an empty result is `.`.
pub fn clean(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let rooted = bytes.first() == Some(&b'/');
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in bytes.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(last) if *last != b".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    let mut cleaned = Vec::with_capacity(joined.len() + 1);
    if rooted {
        cleaned.push(b'/');
    }
    cleaned.extend_from_slice(&joined);
    if cleaned.is_empty() {
        cleaned.push(b'.');
    }
    PathBuf::from(OsString::from_vec(cleaned))
}

/// `name` below `directory`, cleaned. An absolute `name` still lands below `directory`; empty parts are left out.
pub fn join(directory: &Path, name: &OsStr) -> PathBuf {
    let mut text = directory.as_os_str().as_bytes().to_vec();
    if !text.is_empty() && !name.is_empty() {
        text.push(b'/');
    }
    text.extend_from_slice(name.as_bytes());
    if text.is_empty() {
        return PathBuf::new();
    }
    clean(Path::new(OsStr::from_bytes(&text)))
}

/// Replaces a leading `~` by the home directory: exactly `~` (home as it is) or `~/…` (joined and cleaned).
///
/// Every other path comes back as it was, and so does every path when no home is known.
pub fn expand_home(path: &Path, home: Option<&Path>) -> PathBuf {
    let Some(home) = home else {
        return path.to_path_buf();
    };
    match path.as_os_str().as_bytes() {
        b"~" => home.to_path_buf(),
        [b'~', b'/', rest @ ..] => join(home, OsStr::from_bytes(rest)),
        _ => path.to_path_buf(),
    }
}

/// True when removing `candidate` recursively would remove `protected` or the name it is known by.
///
/// Checked three ways, so that neither `..`, symbolic links nor bind mounts hide the fact: by text, by resolved
/// text, and by identity of the directories above `protected`. Errs towards true. Both paths should be absolute.
pub fn is_or_contains(candidate: &Path, protected: &Path) -> bool {
    let candidate_text = clean(candidate);
    let protected_text = clean(protected);
    let candidate_resolved = resolve(&candidate_text);
    let protected_resolved = resolve(&protected_text);
    // The last component may be a link that is removed as a link: then the name counts, not where it leads.
    let candidate_as_name = match (candidate_text.parent(), candidate_text.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => candidate_text.clone(),
    };
    let candidates = [&candidate_text, &candidate_resolved, &candidate_as_name];
    let textual = [&protected_text, &protected_resolved]
        .iter()
        .any(|inner| candidates.iter().any(|outer| inner.starts_with(outer)));
    textual || same_as_an_ancestor(&candidate_resolved, &protected_resolved)
}

/// The path in double quotes with unprintable characters escaped, as the contracts quote names in error texts.
pub fn quoted(path: &OsStr) -> String {
    let mut text = String::with_capacity(path.len() + 2);
    text.push('"');
    for chunk in path.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\x07' => text.push_str("\\a"),
                '\x08' => text.push_str("\\b"),
                '\x0c' => text.push_str("\\f"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\x0b' => text.push_str("\\v"),
                control if control.is_ascii_control() => {
                    text.push_str(&format!("\\x{:02x}", u32::from(control)));
                }
                control if control.is_control() => {
                    text.push_str(&format!("\\u{:04x}", u32::from(control)));
                }
                plain => text.push(plain),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push('"');
    text
}

fn same_as_an_ancestor(candidate: &Path, protected: &Path) -> bool {
    let Ok(wanted) = fs::metadata(candidate) else {
        return false;
    };
    protected
        .ancestors()
        .filter_map(|ancestor| fs::metadata(ancestor).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
}

/// The path with links resolved as far as it exists; the missing rest is kept as text.
fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            return match path.strip_prefix(ancestor) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cleaned(path: &str) -> String {
        clean(Path::new(path)).into_os_string().into_string().unwrap()
    }

    #[test]
    fn cleaning_is_lexical() {
        for (given, expected) in [
            ("", "."),
            (".", "."),
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("a/b/../c", "a/c"),
            ("a/..", "."),
            ("../a", "../a"),
            ("a/../../b", "../b"),
            ("../../", "../.."),
            ("/a//b/./c/", "/a/b/c"),
            ("./a", "a"),
            ("~/x", "~/x"),
            ("/a/../..", "/"),
        ] {
            assert_eq!(cleaned(given), expected, "{given:?}");
        }
    }

    #[test]
    fn joining_keeps_names_inside() {
        for (directory, name, expected) in [
            ("/d", "a", "/d/a"),
            ("/d/", "/etc/passwd", "/d/etc/passwd"),
            ("/d", "../x", "/x"),
            ("/d", "", "/d"),
            ("", "a", "a"),
            ("", "", ""),
            (".", "a", "a"),
            ("/", "a", "/a"),
        ] {
            assert_eq!(join(Path::new(directory), OsStr::new(name)), PathBuf::from(expected), "{directory} + {name}");
        }
    }

    #[test]
    fn only_a_leading_tilde_alone_is_home() {
        let home = Path::new("/home//me/");
        for (given, expected) in [
            ("~", "/home//me/"),
            ("~/", "/home/me"),
            ("~/a/../b", "/home/me/b"),
            ("~//a", "/home/me/a"),
            ("~other/a", "~other/a"),
            ("a/~/b", "a/~/b"),
            ("/a/./b", "/a/./b"),
            ("", ""),
            ("$HOME/a", "$HOME/a"),
        ] {
            let expanded = expand_home(Path::new(given), Some(home));
            assert_eq!(expanded.as_os_str(), OsStr::new(expected), "{given:?}");
        }
        assert_eq!(expand_home(Path::new("~/a"), None), PathBuf::from("~/a"));
    }

    #[test]
    fn the_guard_sees_through_text_links_and_missing_parts() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path();
        let home = base.join("users/me");
        fs::create_dir_all(&home).unwrap();
        std::os::unix::fs::symlink(base.join("users"), base.join("alias")).unwrap();
        std::os::unix::fs::symlink(&home, base.join("short")).unwrap();

        for inside in ["users", "users/me", "users/me/", "users/x/../me", "alias", "alias/me", "short", "."] {
            assert!(is_or_contains(&base.join(inside), &home), "{inside}");
        }
        for outside in ["users/me/project", "users/m", "users/me2", "other", "alias/me/project", "short/project"] {
            assert!(!is_or_contains(&base.join(outside), &home), "{outside}");
        }
        // A home that is itself a link: removing the link takes the home away too.
        assert!(is_or_contains(&base.join("short"), &base.join("short")));
        assert!(is_or_contains(Path::new("/"), &home));
    }

    #[test]
    fn quoting_escapes_what_does_not_print() {
        for (given, expected) in [
            (&b"rel/a"[..], r#""rel/a""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x01\n\x7f", r#""\x01\n\x7f""#),
            (b"\xffx\xc3\xa4", "\"\\xffx\u{e4}\""),
            (b"\xc2\x85", r#""\u0085""#),
            (b"", r#""""#),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(given)), expected);
        }
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing(path in "[a./]{0,24}") {
            let once = clean(Path::new(&path));
            prop_assert_eq!(clean(&once), once.clone());
            prop_assert_eq!(once.is_absolute(), path.starts_with('/'));
        }

        #[test]
        fn a_cleaned_join_without_dots_stays_below(name in "[ab/]{1,16}") {
            prop_assert!(join(Path::new("/d/e"), OsStr::new(&name)).starts_with("/d/e"));
        }
    }
}
