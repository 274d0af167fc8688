//! Tool calls and their results in one line each.
//!
//! Invariant: what comes out is one line, harmless, and says when something was left out.
//!
//! For questions of consent this is not enough: there, `rows` shows everything.

use serde_json::Value;

use crate::inbox::visible;
use crate::text;

/// The fields that say most about a call, the most telling first.
const TELLING: [&str; 14] = [
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "url",
    "description",
    "prompt",
    "title",
    "name",
    "text",
];

/// Characters of an input that are looked at: more never fits a line.
const LINE: usize = 2_000;

/// The input of a tool in one line, not yet cut to a width.
pub(crate) fn input(input: &Value) -> String {
    let line = match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Object(fields) => match TELLING.iter().find_map(|key| Some((*key, said(fields.get(*key)?)?))) {
            // Where it is looked for says as much as what.
            Some(("pattern", said)) => match fields.get("path").and_then(Value::as_str) {
                Some(path) => format!("{said} in {path}"),
                None => said,
            },
            Some((_, said)) => said,
            None => input.to_string(),
        },
        other => other.to_string(),
    };
    let line = line.trim();
    text::printable(&text::cut(line, LINE)).into_owned()
}

/// A text, or a list of texts as a command line.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let words = words?;
            // A shell's own words say nothing; its script does.
            match words.as_slice() {
                [shell, "-c" | "-lc", script] if shell.ends_with("sh") => Some((*script).to_owned()),
                _ => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

/// The first line of a tool's output that says something, and how many more there are.
pub(crate) fn output(output: &str) -> (String, usize) {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().map(|line| text::printable(&text::cut(line.trim(), LINE)).into_owned());
    (first.unwrap_or_default(), lines.count())
}

/// The input of a tool as people read it in full before they agree: field by field, in rows of a width, with everything
/// that is invisible or looks like something else spelled out.
pub(crate) fn rows(input: &Value, width: usize) -> Vec<String> {
    match input {
        Value::Null => Vec::new(),
        Value::Object(fields) => fields.iter().flat_map(|(key, value)| field(key, value, width)).collect(),
        other => broken(&said_in_full(other), width),
    }
}

/// The same in lines of any length.
pub(crate) fn whole(input: &Value) -> String {
    rows(input, usize::MAX).join("\n")
}

fn field(key: &str, value: &Value, width: usize) -> Vec<String> {
    let key = visible::text(&visible::word(key));
    let said = said_in_full(value);
    let beside = broken(&said, width.saturating_sub(text::columns(&key) + 2));
    match beside.as_slice() {
        [one] => vec![format!("{key}: {one}")],
        _ => {
            let below = broken(&said, width.saturating_sub(2)).into_iter().map(|row| format!("  {row}"));
            std::iter::once(format!("{key}:")).chain(below).collect()
        }
    }
}

/// Lists stay lists: where one word ends and the next begins matters to who has to agree.
fn said_in_full(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) => value.to_string(),
        other => pretty(other),
    }
}

fn broken(text: &str, width: usize) -> Vec<String> {
    visible::rows(&visible::code(text), width).iter().map(|row| visible::text(row).trim_end().to_owned()).collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_telling_field_is_the_summary() {
        for (value, expected) in [
            (json!({"command": "ls -la", "description": "List"}), "ls -la"),
            (json!({"command": ["bash", "-lc", "make test"]}), "make test"),
            (json!({"command": ["git", "status"]}), "git status"),
            (json!({"file_path": "/a/b.rs", "old_string": "x"}), "/a/b.rs"),
            (json!({"pattern": "fn main", "path": "src"}), "fn main in src"),
            (json!({"pattern": "fn main"}), "fn main"),
            (json!({"todos": [1]}), r#"{"todos":[1]}"#),
            (json!({}), ""),
            (json!(null), ""),
            (json!("free text\nmore"), "free text⟨LF⟩more"),
            (json!({"command": "a\u{1b}[2J"}), "a⟨ESC⟩[2J"),
        ] {
            assert_eq!(input(&value), expected, "{value}");
        }
    }

    #[test]
    fn results_show_their_first_line() {
        assert_eq!(output("\n  ok\n\nmore\nand more\n"), ("ok".to_owned(), 2));
        assert_eq!(output(" \n"), (String::new(), 0));
        assert_eq!(output("\u{1b}[31mred"), ("⟨ESC⟩[31mred".to_owned(), 0));
    }

    #[test]
    fn a_question_shows_everything() {
        let value = json!({"command": "rm -rf build\u{1b}[8m", "files": ["a", "b"], "script": "one\ntwo\n", "n": 3});
        let shown = "command: rm -rf build⟨ESC⟩[8m\nfiles: [\"a\",\"b\"]\nn: 3\nscript:\n  one↵\n  two↵";
        assert_eq!(whole(&value), shown);
        // What is not seen, looks like something else or turns its surroundings round is spelled out.
        for hidden in
            "\u{61c}\u{2060}\u{ad}\u{34f}\u{115f}\u{180e}\u{3164}\u{e0041}\u{200d}\u{301}\u{5d0}\u{430}".chars()
        {
            let shown = format!("command: a⟨U+{:04X}⟩b", u32::from(hidden));
            assert_eq!(whole(&json!({"command": format!("a{hidden}b")})), shown);
        }
        assert_eq!(whole(&json!({"command": "ls \u{a0}"})), "command: ls ⟨U+00A0⟩");
        assert_eq!(whole(&json!({"command": "ls  "})), "command: ls␣␣");
        assert_eq!(whole(&json!({"c": ""})), "c: ⟨empty⟩");
        assert_eq!(rows(&json!({"command": "one two three"}), 12), ["command:", "  one two", "  three"]);
        assert_eq!(rows(&json!("one two"), 5), ["one", "two"]);
        assert!(rows(&json!(null), 5).is_empty());
    }
}
