//! Replaces what differs from run to run by named placeholders.
//!
//! Values that can be equal or different are numbered by their first appearance in a file (`<id-1>`, `<pid-2>`), so that
//! it is still visible which of them are the same. Values that only pass (`<time>`, `<ago>`) are not numbered.
//!
//! A value is replaced because of its form (a UUID), its place (the number after `pid`, the column `PID` of a table) or
//! its key in JSON, and never because a number happens to look like one that varies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The longest line of JSON that is not broken.
const MAX_JSON_WIDTH: usize = 100;

/// Words before a process id.
const BEFORE_PID: [&str; 8] = ["pid ", "pid=", "process ", "daemon ", "keeper ", "echo-", "daemon-", "pid\":"];

/// Words before a duration.
const BEFORE_DURATION: [&str; 3] = [" in ", " after ", " another "];

/// Normalises the outputs of one file.
pub(super) struct Normaliser<'a> {
    literals: &'a [(String, String)],
    ids: &'a BTreeSet<String>,
    hide_sizes: bool,
    seen: BTreeMap<&'static str, Vec<String>>,
}

/// All ids that are printed in full anywhere, so that the abbreviated ones can be recognised.
pub(super) fn find_ids<'a>(outputs: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for output in outputs {
        let mut end = 0;
        let mut in_word = false;
        for (at, character) in output.char_indices() {
            let begins = !std::mem::replace(&mut in_word, character.is_alphanumeric()) && in_word;
            if let Some(length) = id_length(&output[at..]).filter(|_| begins && at >= end) {
                found.insert(output[at..at + length].to_owned());
                end = at + length;
            }
        }
    }
    found
}

impl<'a> Normaliser<'a> {
    pub(super) fn new(literals: &'a [(String, String)], ids: &'a BTreeSet<String>, hide_sizes: bool) -> Self {
        Self { literals, ids, hide_sizes, seen: BTreeMap::new() }
    }

    /// What a command printed: lines of JSON, or text.
    pub(super) fn output(&mut self, output: &str) -> String {
        let mut shown = String::new();
        let mut paragraph: Vec<&str> = Vec::new();
        for line in output.split_inclusive('\n') {
            let json = if line.starts_with(['{', '[']) { serde_json::from_str::<Value>(line).ok() } else { None };
            if let Some(value) = json.filter(|value| value.is_object() || value.is_array()) {
                shown.push_str(&self.paragraph(&std::mem::take(&mut paragraph)));
                shown.push_str(&self.json(&value, "", 0));
                shown.push('\n');
            } else if line.trim().is_empty() {
                shown.push_str(&self.paragraph(&std::mem::take(&mut paragraph)));
                shown.push_str(line);
            } else {
                paragraph.push(line);
            }
        }
        shown.push_str(&self.paragraph(&paragraph));
        shown
    }

    /// Lines without an empty one between them. Where something was replaced, the columns of tables are no longer
    /// aligned as the program aligned them, and how wide they were varies: two spaces are left between them.
    fn paragraph(&mut self, lines: &[&str]) -> String {
        let original = lines.concat();
        let mut rows: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        if let Some((header, rest)) = rows.split_first_mut() {
            self.columns(header, rest);
        }
        let text: String = rows.iter().map(|row| self.text(row)).collect();
        if text == original { text } else { text.split_inclusive('\n').map(narrow).collect() }
    }

    /// Replaces the cells of the columns whose values vary.
    fn columns(&mut self, header: &str, rows: &mut [String]) {
        // From the right, because a replacement moves the cells after it.
        for (title, start, end) in cells(header).into_iter().rev() {
            if !["PID", "LAG", "UPTIME", "WAITS", "WHERE", "CGROUP", "PROCESSES"].contains(&title.as_str()) {
                continue;
            }
            for row in rows.iter_mut() {
                let Some((cell, at, _)) = cells(row).into_iter().find(|cell| cell.1 < end && start < cell.2) else {
                    continue;
                };
                let shown = match title.as_str() {
                    "PID" if cell.chars().all(|digit| digit.is_ascii_digit()) => self.number("pid", &cell),
                    "LAG" | "UPTIME" | "WAITS" => "<duration>".to_owned(),
                    "WHERE" => "<host>".to_owned(),
                    "CGROUP" => "<yes or no>".to_owned(),
                    "PROCESSES" => match cell.split_once(" of ") {
                        Some((count, _)) => format!("{count} of <limit>"),
                        None => continue,
                    },
                    _ => continue,
                };
                let before: String = row.chars().take(at).collect();
                let after: String = row.chars().skip(at + cell.chars().count()).collect();
                *row = format!("{before}{shown}{after}");
            }
        }
    }

    /// One value of JSON; a placeholder for a number has no quotation marks.
    fn json(&mut self, value: &Value, key: &str, indent: usize) -> String {
        match value {
            Value::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, member)| {
                        let shown = self.json(member, name, indent + 2);
                        format!("{}: {shown}", Value::String(self.text(name)))
                    })
                    .collect();
                brackets('{', &members, '}', indent)
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.json(item, key, indent + 2)).collect();
                brackets('[', &items, ']', indent)
            }
            Value::Number(number) => self.json_number(key, number),
            Value::String(text) => self.json_string(key, text),
            Value::Bool(_) if key == "cgroup" => "<yes or no>".to_owned(),
            Value::Bool(_) | Value::Null => value.to_string(),
        }
    }

    fn json_number(&mut self, key: &str, number: &serde_json::Number) -> String {
        let size = number.as_u64().unwrap_or(0);
        match key {
            "pid" | "ppid" | "daemonPid" => self.number("pid", &number.to_string()),
            "port" => self.number("port", &number.to_string()),
            "uptime_s" | "age_s" | "lag_ms" => "<duration>".to_owned(),
            "child_limit" => "<limit>".to_owned(),
            "bytes" | "free_bytes" | "freed_bytes" if self.hide_sizes => "<size>".to_owned(),
            _ if key.ends_with("_ns") && size > 1_000_000_000_000_000_000 => "<time>".to_owned(),
            "timeMs" | "expiresAt" if size > 1_000_000_000 => "<time>".to_owned(),
            _ => number.to_string(),
        }
    }

    fn json_string(&mut self, key: &str, text: &str) -> String {
        let shown = match key {
            "hostname" => "<host>".to_owned(),
            "id" if is_key_id(text) => self.number("key-id", text),
            _ => self.text(text),
        };
        Value::String(shown).to_string()
    }

    /// Text without tables.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let (before, rest) = text.split_at(at);
            let (length, replacement) = self.replacement(before, rest).unwrap_or_else(|| {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                (length, rest[..length].to_owned())
            });
            shown.push_str(&replacement);
            at += length;
        }
        shown
    }

    /// How many bytes at the beginning of `rest` are replaced, and by what.
    fn replacement(&mut self, before: &str, rest: &str) -> Option<(usize, String)> {
        let in_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        for (text, placeholder) in self.literals {
            let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
            if !in_word && rest.strip_prefix(text.as_str()).is_some_and(ends) {
                return Some((text.len(), placeholder.clone()));
            }
        }
        if in_word || !rest.starts_with(char::is_alphanumeric) {
            return None;
        }
        if rest.starts_with("ic://join/") {
            let link = |character: char| character.is_ascii_alphanumeric() || ":/_-#=&.%".contains(character);
            let length = rest.find(|character| !link(character)).unwrap_or(rest.len());
            return Some((length, self.number("invite", &rest[..length])));
        }
        if let Some(length) = time_length(rest) {
            return Some((length, "<time>".to_owned()));
        }
        if let Some(length) = ago_length(rest) {
            return Some((length, "<ago>".to_owned()));
        }
        if let Some(length) = id_length(rest) {
            return Some((length, self.id(&rest[..length])));
        }
        let length = word_length(rest);
        let word = &rest[..length];
        if let Some(full) = self.abbreviated(word) {
            let id = self.id(&full);
            return Some((length, format!("<short-{}", id.trim_start_matches('<'))));
        }
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        if digits && BEFORE_PID.iter().any(|words| before.ends_with(words)) {
            return Some((length, self.number("pid", word)));
        }
        if digits && word != "0" && before.ends_with("127.0.0.1:") {
            return Some((length, self.number("port", word)));
        }
        if before.ends_with(" id=") && is_key_id(word) {
            return Some((length, self.number("key-id", word)));
        }
        if digits && before.ends_with("uid=") {
            return Some((length, "<uid>".to_owned()));
        }
        if let Some(length) = duration_length(rest)
            && BEFORE_DURATION.iter().any(|words| before.ends_with(words))
        {
            return Some((length, "<duration>".to_owned()));
        }
        let size = size_length(rest).filter(|_| self.hide_sizes);
        size.map(|length| (length, "<size>".to_owned()))
    }

    fn id(&mut self, full: &str) -> String {
        match full.len() {
            64 if full.bytes().all(|byte| byte == b'0') => full.to_owned(),
            64 => self.number("key", full),
            _ => self.number("id", full),
        }
    }

    /// The id that begins with these eight or more characters.
    fn abbreviated(&self, word: &str) -> Option<String> {
        if word.len() < 8 {
            return None;
        }
        let first = self.ids.range(word.to_owned()..).next()?;
        first.starts_with(word).then(|| first.clone())
    }

    /// A placeholder with the number of the value among those of its kind.
    fn number(&mut self, kind: &'static str, value: &str) -> String {
        let seen = self.seen.entry(kind).or_default();
        let at = seen.iter().position(|known| known == value).unwrap_or_else(|| {
            seen.push(value.to_owned());
            seen.len() - 1
        });
        format!("<{kind}-{}>", at + 1)
    }
}

/// Members in brackets, on one line if there is room.
fn brackets(open: char, members: &[String], close: char, indent: usize) -> String {
    let line = format!("{open}{}{close}", members.join(", "));
    if !line.contains('\n') && line.chars().count() + indent <= MAX_JSON_WIDTH {
        return line;
    }
    let inner = " ".repeat(indent + 2);
    format!("{open}\n{inner}{}\n{}{close}", members.join(&format!(",\n{inner}")), " ".repeat(indent))
}

/// The cells of a line of a table, which two spaces or more separate: text, first column, column after the last.
fn cells(line: &str) -> Vec<(String, usize, usize)> {
    let mut found: Vec<(String, usize, usize)> = Vec::new();
    let mut spaces = 2;
    for (at, character) in line.trim_end_matches('\n').chars().enumerate() {
        if character == ' ' {
            spaces += 1;
            continue;
        }
        match found.last_mut().filter(|_| spaces < 2) {
            Some((cell, _, end)) => {
                cell.push_str(&" ".repeat(spaces));
                cell.push(character);
                *end = at + 1;
            }
            None => found.push((character.to_string(), at, at + 1)),
        }
        spaces = 0;
    }
    found
}

/// A line with at most two spaces in a row, but for those it begins with.
fn narrow(line: &str) -> String {
    let start = line.len() - line.trim_start_matches(' ').len();
    let mut narrowed = line[..start].to_owned();
    let mut spaces = 0;
    for character in line[start..].chars() {
        spaces = if character == ' ' { spaces + 1 } else { 0 };
        if spaces <= 2 {
            narrowed.push(character);
        }
    }
    narrowed
}

fn word_length(text: &str) -> usize {
    text.find(|character: char| !character.is_alphanumeric()).unwrap_or(text.len())
}

/// A UUID, 32 or 64 hexadecimal digits, or a longer mixture of letters and digits: ULIDs and ids of messages.
fn id_length(text: &str) -> Option<usize> {
    if fits(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
        return Some(36);
    }
    let length = word_length(text);
    let word = &text[..length];
    let mixed = word.contains(|character: char| character.is_ascii_digit())
        && (word.contains(|character: char| character.is_ascii_alphabetic()) || length >= 32);
    (length >= 20 && word.is_ascii() && mixed).then_some(length)
}

/// The short id of a house key: 16 hexadecimal digits.
fn is_key_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// `2026-01-02T03:04:05.678Z`, also with a space in the middle and without a fraction.
fn time_length(text: &str) -> Option<usize> {
    if !fits(text, "9999-99-99?99:99:99") {
        return None;
    }
    let mut length = 19;
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + fraction.bytes().take_while(u8::is_ascii_digit).count();
    }
    text[length..].starts_with('Z').then_some(length + 1)
}

fn ago_length(text: &str) -> Option<usize> {
    if text.starts_with("just now") {
        return Some(8);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = text[digits..].strip_prefix(['s', 'm', 'h', 'd'])?;
    (digits > 0 && unit.starts_with(" ago")).then_some(digits + 5)
}

/// `7ms`, `1h 59m`, `2.5s`.
fn duration_length(text: &str) -> Option<usize> {
    let mut length = 0;
    loop {
        let rest = text[length..].strip_prefix(' ').filter(|_| length > 0).unwrap_or(&text[length..]);
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let word = digits + word_length(&rest[digits..]);
        if digits == 0 || !["ms", "s", "m", "h", "d"].contains(&&rest[digits..word]) {
            return (length > 0).then_some(length);
        }
        length = text.len() - rest.len() + word;
    }
}

/// `256 B`, `1.5 GiB`.
fn size_length(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let unit = text[digits..].strip_prefix(' ')?;
    let length = word_length(unit);
    (digits > 0 && ["B", "KiB", "MiB", "GiB", "TiB"].contains(&&unit[..length])).then_some(digits + 1 + length)
}

/// Whether a text begins with this form: `9` is a digit, `x` a hexadecimal digit, `?` a `T` or a space.
fn fits(text: &str, form: &str) -> bool {
    text.len() >= form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, wanted)| match wanted {
            b'9' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            b'?' => byte == b'T' || byte == b' ',
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "e95655d3-e973-4477-b49b-b4741f4b1cfe";
    const KEY: &str = "39bd6de3f3911abf56dc7a5152c9bdf92ef72142cbb201f1a49fb382ec01721f";

    fn normalise(output: &str) -> String {
        normalise_with(output, false)
    }

    fn normalise_with(output: &str, hide_sizes: bool) -> String {
        let ids = find_ids([output, UUID, KEY].into_iter());
        let literals = [("/tmp/x/home".to_owned(), "<home>".to_owned()), ("/tmp/x".to_owned(), "<root>".to_owned())];
        Normaliser::new(&literals, &ids, hide_sizes).output(output)
    }

    #[test]
    fn equal_ids_have_equal_numbers_also_if_abbreviated() {
        let other = "12345678-0000-4477-b49b-b4741f4b1cfe";
        let text = format!("session e95655d3, {UUID}; then 12345678 and {other}, {UUID}; key {KEY}, 39bd6de3..\n");
        assert_eq!(
            normalise(&text),
            "session <short-id-1>, <id-1>; then <short-id-2> and <id-2>, <id-1>; key <key-1>, <short-key-1>..\n"
        );
    }

    #[test]
    fn ids_of_all_forms_are_found() {
        for id in [UUID, KEY, "01m7p30y62qbtcq17f6gf8295a", "A7Aw2IpKjAhf6htukEsV300000000001"] {
            assert!(normalise(&format!("x {id}.\n")).starts_with("x <"), "{id}");
        }
        // Words, numbers and digests of zeros stay.
        let zeros = "0".repeat(64);
        for text in ["abcdefgh", "authentication", "12345678", "20261118", "sh-3f3252", zeros.as_str()] {
            assert_eq!(normalise(&format!("{text}\n")), format!("{text}\n"));
        }
    }

    #[test]
    fn times_and_durations_are_replaced_where_they_pass() {
        assert_eq!(
            normalise("at 2026-11-18T01:05:36.131Z or 2026-11-18 01:05:36Z, done in 11ms, waits another 23h 59m\n"),
            "at <time> or <time>, done in <duration>, waits another <duration>\n"
        );
        assert_eq!(normalise("just now, 3s ago; 12m ago\n"), "<ago>, <ago>; <ago>\n");
        // Settings are no measurements.
        assert_eq!(normalise("idle 10m, limit 1h 30m, 2026-11-18\n"), "idle 10m, limit 1h 30m, 2026-11-18\n");
    }

    #[test]
    fn numbers_are_replaced_by_their_place_alone() {
        assert_eq!(
            normalise("daemon 812, keeper 900, pid 812, echo-77-1; 127.0.0.1:38781 and 127.0.0.1:0; uid=0, 812\n"),
            "daemon <pid-1>, keeper <pid-2>, pid <pid-1>, echo-<pid-3>-1; 127.0.0.1:<port-1> and 127.0.0.1:0; uid=<uid>, 812\n"
        );
    }

    #[test]
    fn paths_are_replaced_longest_first_and_whole() {
        assert_eq!(normalise("/tmp/x/home/a /tmp/x/b /tmp/xy `/tmp/x`\n"), "<home>/a <root>/b /tmp/xy `<root>`\n");
    }

    #[test]
    fn tables_lose_their_varying_width_and_keep_their_columns() {
        let narrow = "NAME   PID  STATE    STARTED\nweb     99  running  just now\napi  10000  held     5s ago\n";
        let wide =
            "NAME       PID  STATE    STARTED\nweb    1000000  running  1h ago\napi        812  held     just now\n";
        let wanted = "NAME  PID  STATE  STARTED\nweb  <pid-1>  running  <ago>\napi  <pid-2>  held  <ago>\n";
        assert_eq!(normalise(narrow), wanted);
        assert_eq!(normalise(wide), wanted);
        // A table in which nothing varies is shown as it is.
        let fixed = "KEY    VALUE\na      1\nlong   2\n";
        assert_eq!(normalise(fixed), fixed);
    }

    #[test]
    fn sizes_are_replaced_only_if_asked_for() {
        let text = "used 256 B of 10 GiB, 1.5 KiB\n{\"bytes\":256,\"quota_bytes\":5}\n";
        assert_eq!(normalise(text), "used 256 B of 10 GiB, 1.5 KiB\n{\"bytes\": 256, \"quota_bytes\": 5}\n");
        let hidden = "used <size> of <size>, <size>\n{\"bytes\": <size>, \"quota_bytes\": 5}\n";
        assert_eq!(normalise_with(text, true), hidden);
    }

    #[test]
    fn json_is_normalised_by_key_and_broken_where_it_is_long() {
        let text = format!(
            "{{\"pid\":7,\"code\":7,\"time_ns\":1794963888094935164,\"name\":\"a b\",\"id\":\"{UUID}\"}}\n[{{\"dir\":\"/tmp/x/home\",\
             \"why\":\"{}\"}}]\n",
            "long ".repeat(20)
        );
        let wanted = format!(
            "{{\"code\": 7, \"id\": \"<id-1>\", \"name\": \"a b\", \"pid\": <pid-1>, \"time_ns\": <time>}}\n[\n  {{\n    \
             \"dir\": \"<home>\",\n    \"why\": \"{}\"\n  }}\n]\n",
            "long ".repeat(20)
        );
        assert_eq!(normalise(&text), wanted);
    }

    #[test]
    fn ids_of_house_keys_are_replaced_by_their_place() {
        let id = "3f32520a9b8c7d6e";
        assert_eq!(normalise(&format!("segment  id={id}  key={KEY}\n")), "segment  id=<key-id-1>  key=<key-1>\n");
        assert_eq!(
            normalise(&format!("{{\"id\":\"{id}\",\"word\":\"{id}\"}}\n")),
            format!("{{\"id\": \"<key-id-1>\", \"word\": \"{id}\"}}\n")
        );
        assert_eq!(normalise(&format!("{id} id=12\n")), format!("{id} id=12\n"));
    }

    #[test]
    fn an_invite_is_one_value() {
        let link = "ic://join/eyJ2IjoxLC_-x#k=Q0J4PkILdw84R05IzfTrOlgHB0agHe2nNZGmBDIjSd0";
        assert_eq!(normalise(&format!("join '{link}'\n{link}\n")), "join '<invite-1>'\n<invite-1>\n");
    }
}
