//! The lines of `git status --porcelain`, written from git's own machine-readable form.
//!
//! Submodules are asked one by one (see `status`), so the lines of those with changes inside are added here. Everything
//! else is passed on as git said it, with names quoted as git quotes them. Pure functions: any bytes may come.

use std::collections::BTreeSet;

/// One entry of the output of `git status --porcelain -z`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<'a> {
    /// The state in the index and in the working tree, one letter each.
    states: [u8; 2],
    path: &'a [u8],
    renamed_from: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Whether git lists the entry among the changes, which come sorted and before all others.
    fn is_change(&self) -> bool {
        !matches!(self.states, [b'?' | b'!', _])
    }
}

/// The lines for `output`, in which the submodules `changed_inside` are listed as modified.
pub(super) fn lines(output: &[u8], changed_inside: &BTreeSet<Vec<u8>>, quoting: Quoting) -> Vec<u8> {
    let mut entries = parse(output);
    for path in changed_inside {
        let position = entries.iter().position(|entry| !entry.is_change() || entry.path >= &path[..]);
        match position.and_then(|position| entries.get_mut(position)) {
            Some(entry) if entry.is_change() && entry.path == path => {
                if entry.states[1] == b' ' {
                    entry.states[1] = b'M';
                }
            }
            _ => {
                let entry = Entry { states: *b" M", path, renamed_from: None };
                entries.insert(position.unwrap_or(entries.len()), entry);
            }
        }
    }
    let mut lines = Vec::new();
    for entry in entries {
        lines.extend_from_slice(&entry.states);
        lines.push(b' ');
        if let Some(old) = entry.renamed_from {
            quote(old, quoting, &mut lines);
            lines.extend_from_slice(b" -> ");
        }
        quote(entry.path, quoting, &mut lines);
        lines.push(b'\n');
    }
    lines
}

fn parse(output: &[u8]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut parts = output.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        let [index, tree, b' ', path @ ..] = part else { continue };
        let is_renamed = matches!(index, b'R' | b'C') || matches!(tree, b'R' | b'C');
        let renamed_from = if is_renamed { parts.next() } else { None };
        entries.push(Entry { states: [*index, *tree], path, renamed_from });
    }
    entries
}

/// Which bytes of a name git escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Those that are not printable ASCII (`core.quotePath`, git's default).
    NonAscii,
    /// Control characters alone.
    Controls,
}

/// Appends a name as git writes it: as it is, or in quotation marks if it has a blank or something to escape.
fn quote(name: &[u8], quoting: Quoting, into: &mut Vec<u8>) {
    let is_escaped = |byte: &u8| match byte {
        0..=0x1f | 0x7f | b'"' | b'\\' => true,
        0x80.. => quoting == Quoting::NonAscii,
        _ => false,
    };
    if !name.iter().any(|byte| *byte == b' ' || is_escaped(byte)) {
        into.extend_from_slice(name);
        return;
    }
    into.push(b'"');
    for byte in name {
        if !is_escaped(byte) {
            into.push(*byte);
            continue;
        }
        into.push(b'\\');
        match byte {
            0x07 => into.push(b'a'),
            0x08 => into.push(b'b'),
            b'\t' => into.push(b't'),
            b'\n' => into.push(b'n'),
            0x0b => into.push(b'v'),
            0x0c => into.push(b'f'),
            b'\r' => into.push(b'r'),
            b'"' | b'\\' => into.push(*byte),
            other => into.extend_from_slice(format!("{other:03o}").as_bytes()),
        }
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(output: &[u8], changed: &[&str]) -> String {
        let changed = changed.iter().map(|path| path.as_bytes().to_vec()).collect();
        String::from_utf8(lines(output, &changed, Quoting::NonAscii)).unwrap()
    }

    #[test]
    fn entries_become_lines() {
        let output = " M a\0R  new name\0old\0?? d/\0?? \u{e9}\0".as_bytes();
        assert_eq!(shown(output, &[]), " M a\nR  old -> \"new name\"\n?? d/\n?? \"\\303\\251\"\n");
        assert_eq!(shown(b"", &[]), "");
    }

    #[test]
    fn submodules_with_changes_inside_are_put_in_their_place() {
        assert_eq!(shown(b"", &["s"]), " M s\n");
        assert_eq!(shown(b" M a\0A  t\0?? b\0", &["s"]), " M a\n M s\nA  t\n?? b\n");
        assert_eq!(shown(b" M a\0?? b\0", &["z", "s"]), " M a\n M s\n M z\n?? b\n");
        assert_eq!(shown(b"A  s\0", &["s"]), "AM s\n", "it is new and has changes");
        assert_eq!(shown(b" M s\0", &["s"]), " M s\n", "it has new commits as well");
        assert_eq!(shown(b"?? s\0", &["s"]), " M s\n?? s\n");
    }

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        let quoted = |name: &[u8], quoting| {
            let mut text = Vec::new();
            quote(name, quoting, &mut text);
            text
        };
        assert_eq!(quoted(b"a/b-c", Quoting::NonAscii), b"a/b-c");
        assert_eq!(quoted(b"a b", Quoting::Controls), b"\"a b\"");
        assert_eq!(quoted(b"a\"\\\t\n\x07\x01\x7f", Quoting::Controls), b"\"a\\\"\\\\\\t\\n\\a\\001\\177\"");
        assert_eq!(quoted(b"\xc3\xa9", Quoting::NonAscii), b"\"\\303\\251\"");
        assert_eq!(quoted(b"\xc3\xa9", Quoting::Controls), b"\xc3\xa9");
    }

    proptest! {
        #[test]
        fn no_output_breaks_it(output in proptest::collection::vec(any::<u8>(), 0..60), path in "[a-c]{1,2}") {
            let text = lines(&output, &BTreeSet::from([path.clone().into_bytes()]), Quoting::NonAscii);
            prop_assert!(String::from_utf8_lossy(&text).contains(&path));
        }
    }
}
