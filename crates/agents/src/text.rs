//! Text of agents: read leniently, kept within bounds, shown on one line.
//!
//! Invariant: nothing here fails on anything an agent may print. A field of the wrong type is a field that is not
//! there, a broken character becomes a replacement character, a cut never splits a character.
//!
//! It knows no CLI and no shape of any line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The most that is gathered of one message that comes in pieces.
pub(crate) const GATHERED_LIMIT: usize = 4 * 1024 * 1024;

/// The longest one-line summary, in characters.
const SUMMARY_LIMIT: usize = 500;

/// A field of a line, whatever is in it: its type is looked at when it is used.
pub(crate) type Field<'a> = Option<&'a RawValue>;

/// A line of output as text. Bytes that are not UTF-8 cost that character, not the line.
pub(crate) fn line(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.trim_ascii())
}

/// A struct of fields from JSON; `None` if it is no JSON object.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    // A list would also do for a struct, in the order of its fields.
    if json.trim_ascii_start().starts_with('{') { serde_json::from_str(json).ok() } else { None }
}

/// The struct of fields that is in this field.
pub(crate) fn object<'a, T: Deserialize<'a>>(field: Field<'a>) -> Option<T> {
    parse(field?.get())
}

/// The string that is in this field.
pub(crate) fn string(field: Field<'_>) -> Option<Cow<'_, str>> {
    let json = field?.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.as_bytes().contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return Some(Cow::Owned(text));
    }
    // Half of a surrogate pair: a CLI written in JavaScript has cut an emoji in two. As bytes it can be read.
    let bytes = serde_json::from_str::<Bytes>(json).ok()?.0;
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The string in this field, or nothing.
pub(crate) fn owned(field: Field<'_>) -> Option<String> {
    string(field).map(Cow::into_owned)
}

/// The words in this field; a blank text says nothing.
pub(crate) fn words(field: Field<'_>) -> Option<String> {
    owned(field).filter(|text| !text.trim().is_empty())
}

/// The whole number in this field.
pub(crate) fn number(field: Field<'_>) -> Option<u64> {
    let json = field?.get();
    json.parse().ok().or_else(|| json.parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| n as u64))
}

/// The number in this field.
pub(crate) fn decimal(field: Field<'_>) -> Option<f64> {
    field?.get().parse().ok().filter(|n: &f64| n.is_finite())
}

/// Money to the billionth: sums of fractions stay readable, and are the same after having been written down. What
/// can be no cost of a conversation, as less than nothing or more than a million, counts as nothing.
pub(crate) fn dollars(amount: f64) -> f64 {
    let rounded = (amount * 1e9).round() / 1e9;
    if (0.0..=1e6).contains(&rounded) { rounded } else { 0.0 }
}

/// Whether this field says `true`.
pub(crate) fn is_true(field: Field<'_>) -> bool {
    field.is_some_and(|raw| raw.get() == "true")
}

/// The values of the list in this field; a single value counts as a list of one.
pub(crate) fn list(field: Field<'_>) -> Vec<&RawValue> {
    let Some(raw) = field else { return Vec::new() };
    serde_json::from_str(raw.get()).unwrap_or_else(|_| vec![raw])
}

/// The text of some content: a string, or blocks that have a `text`, one below the other.
pub(crate) fn content(field: Field<'_>) -> String {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Field<'a>,
    }
    if let Some(text) = owned(field) {
        return text;
    }
    let texts: Vec<String> = list(field)
        .into_iter()
        .filter_map(|raw| owned(Some(raw)).or_else(|| owned(parse::<Block<'_>>(raw.get())?.text)))
        .collect();
    texts.join("\n")
}

/// As much of the text as fits into so many bytes.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The end of the text, at most so many bytes.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

/// The text without what would act on a terminal: colours, cursor movements, bells.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\x1b' && chars.next_if_eq(&'[').is_some() {
            // Parameters, then one letter that says what to do.
            while chars.next_if(|char| ('\x20'..='\x3f').contains(char)).is_some() {}
            chars.next_if(|char| ('@'..='~').contains(char));
        } else if !char.is_control() || char == '\n' || char == '\t' {
            plain.push(char);
        }
    }
    plain
}

/// One line for people: control characters made visible, cut at a limit.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (taken, char) in text.trim().chars().enumerate() {
        if taken == SUMMARY_LIMIT {
            line.push('…');
            break;
        }
        match char {
            '\n' => line.push('⏎'),
            '\t' => line.push(' '),
            // The control pictures of Unicode stand in for the characters that could act on a terminal.
            '\0'..='\x1f' => line.extend(char::from_u32(0x2400 + u32::from(char))),
            '\x7f' => line.push('␡'),
            // So could these, or they could make the line read differently from what it is.
            '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(char.escape_unicode());
            }
            other => line.push(other),
        }
    }
    line
}

/// What matters most in a tool's input: its command, its file; all of it where nothing stands out.
pub(crate) fn gist(input: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        command: Field<'a>,
        #[serde(borrow)]
        cmd: Field<'a>,
        #[serde(borrow)]
        file_path: Field<'a>,
        #[serde(borrow, rename = "filePath")]
        file_path_camel: Field<'a>,
        #[serde(borrow)]
        notebook_path: Field<'a>,
        #[serde(borrow)]
        path: Field<'a>,
        #[serde(borrow)]
        url: Field<'a>,
        #[serde(borrow)]
        query: Field<'a>,
        #[serde(borrow)]
        pattern: Field<'a>,
        #[serde(borrow)]
        plan: Field<'a>,
        #[serde(borrow)]
        description: Field<'a>,
        #[serde(borrow)]
        questions: Field<'a>,
    }
    #[derive(Deserialize)]
    struct Question<'a> {
        #[serde(borrow)]
        question: Field<'a>,
    }
    if let Some(text) = owned(Some(input)) {
        return text;
    }
    let Some(fields) = parse::<Input<'_>>(input.get()) else { return input.get().to_owned() };
    if let Some(command) = fields.command.or(fields.cmd) {
        let words: Vec<String> = list(Some(command)).into_iter().filter_map(|word| owned(Some(word))).collect();
        return words.join(" ");
    }
    let asked = || {
        let question: Question<'_> = object(list(fields.questions).first().copied())?;
        owned(question.question)
    };
    let known = fields.file_path.or(fields.file_path_camel).or(fields.notebook_path).or(fields.path).or(fields.url);
    let known = known.or(fields.query).or(fields.pattern).or(fields.plan);
    owned(known).or_else(asked).or_else(|| owned(fields.description)).unwrap_or_else(|| match input.get() {
        "{}" => String::new(),
        other => other.to_owned(),
    })
}

/// What a tool would do, on one line: `Bash: touch made.txt`.
pub(crate) fn summary(tool: &str, detail: &str) -> String {
    if detail.trim().is_empty() { one_line(tool) } else { one_line(&format!("{tool}: {}", detail.trim())) }
}

/// A message that comes in pieces, up to a limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Gathered {
    text: String,
}

impl Gathered {
    /// One more piece. What is over the limit is not kept.
    pub(crate) fn push(&mut self, piece: &str) {
        let room = GATHERED_LIMIT.saturating_sub(self.text.len());
        self.text.push_str(head(piece, room));
    }

    /// What there is so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What there is, and begin anew; nothing if nothing came.
    pub(crate) fn take(&mut self) -> Option<String> {
        (!self.text.is_empty()).then(|| std::mem::take(&mut self.text))
    }
}

/// Which tool a call is of: results often carry the call's id alone.
///
/// Bounded, as an agent may begin calls without end; the oldest are forgotten.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct ToolNames {
    calls: std::collections::VecDeque<(String, String)>,
}

impl ToolNames {
    const LIMIT: usize = 256;

    /// The call is of this tool. `false` if it was known already.
    pub(crate) fn learn(&mut self, call: &str, tool: &str) -> bool {
        if let Some(known) = self.calls.iter_mut().find(|(id, _)| id == call) {
            tool.clone_into(&mut known.1);
            return false;
        }
        if self.calls.len() == Self::LIMIT {
            self.calls.pop_front();
        }
        self.calls.push_back((call.to_owned(), tool.to_owned()));
        true
    }

    /// The tool of the call.
    pub(crate) fn of(&self, call: &str) -> Option<&str> {
        self.calls.iter().find(|(id, _)| id == call).map(|(_, tool)| tool.as_str())
    }

    /// The tool of the call, which is over.
    pub(crate) fn take(&mut self, call: &str) -> Option<String> {
        let at = self.calls.iter().position(|(id, _)| id == call)?;
        self.calls.remove(at).map(|(_, tool)| tool)
    }
}

struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn strings_are_read_whatever_is_in_them() {
        for (json, text) in [
            (r#""plain""#, Some("plain")),
            (r#""a\nb""#, Some("a\nb")),
            (r#""\ud83d\ude00""#, Some("😀")),
            (r#""cut \ud83d""#, Some("cut \u{fffd}\u{fffd}\u{fffd}")),
            (r#""\\""#, Some("\\")),
            ("7", None),
            ("null", None),
            ("{}", None),
        ] {
            assert_eq!(string(Some(&raw(json))).as_deref(), text, "{json}");
        }
        assert_eq!(string(None), None);
    }

    #[test]
    fn numbers_are_read_from_any_form() {
        for (json, value) in [("7", Some(7)), ("7.9", Some(7)), ("1e3", Some(1000)), ("-1", None), ("\"7\"", None)] {
            assert_eq!(number(Some(&raw(json))), value, "{json}");
        }
    }

    #[test]
    fn money_is_an_amount_or_nothing() {
        assert_eq!(dollars(0.1 + 0.2), 0.3);
        assert_eq!(dollars(1e6), 1e6);
        for nonsense in [-1.0, 2e6, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(dollars(nonsense), 0.0, "{nonsense}");
        }
    }

    #[test]
    fn content_is_a_string_or_blocks() {
        for (json, text) in [
            (r#""hi""#, "hi"),
            (r#"[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]"#, "a\nb"),
            (r#"{"text":"one"}"#, "one"),
            ("null", ""),
            ("[]", ""),
            ("[7]", ""),
        ] {
            assert_eq!(content(Some(&raw(json))), text, "{json}");
        }
    }

    #[test]
    fn plain_text_has_no_colours() {
        assert_eq!(plain("\x1b[2m12:00\x1b[0m \x1b[31;1mERROR\x1b[0m a\tb\r\nc\x07\x1b"), "12:00 ERROR a\tb\nc");
        assert_eq!(plain("\x1b["), "");
    }

    #[test]
    fn a_summary_stays_on_one_line_and_shows_what_could_act() {
        assert_eq!(summary("Bash", "touch a\necho \x1b[2J\tb"), "Bash: touch a⏎echo ␛[2J b");
        assert_eq!(summary("Bash", " "), "Bash");
        assert_eq!(summary("T", "a\u{202e}b\u{9b}"), "T: a\\u{202e}b\\u{9b}");
        let long = summary("T", &"ü".repeat(600));
        assert_eq!(long.chars().count(), 501);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn gathering_stops_at_the_limit_between_characters() {
        let mut gathered = Gathered::default();
        gathered.push(&"x".repeat(GATHERED_LIMIT - 1));
        gathered.push("€");
        gathered.push("y");
        let text = gathered.take().unwrap();
        assert_eq!(text.len(), GATHERED_LIMIT);
        assert!(text.ends_with("xy"));
        assert_eq!(gathered.take(), None);
    }

    #[test]
    fn cuts_never_split_a_character() {
        assert_eq!(head("a€", 2), "a");
        assert_eq!(head("a€", 9), "a€");
        assert_eq!(tail("€a", 2), "a");
        assert_eq!(tail("€a", 9), "€a");
    }

    #[test]
    fn the_oldest_calls_are_forgotten() {
        let mut names = ToolNames::default();
        for call in 0..300 {
            assert!(names.learn(&call.to_string(), "Bash"));
        }
        assert!(!names.learn("299", "Read"));
        assert_eq!(names.take("0"), None);
        assert_eq!(names.of("299"), Some("Read"));
        assert_eq!(names.take("299").as_deref(), Some("Read"));
        assert_eq!(names.take("299"), None);
    }
}
