//! The small part of YAML that the files of codecast need: one document of mappings, sequences and scalars.
//!
//! A parser of events reads the text; this module builds a tree of it, with anchors and merge keys resolved, and reads
//! typed values out of the tree. A scalar is read as what its reader expects, so an unquoted token that looks like a
//! number is still a text.
//!
//! Errors name a line and a column and quote keys at most: the values may be secrets.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

/// Documents that are nested deeper are refused, so that dropping a tree cannot exhaust the stack.
const MAX_DEPTH: usize = 128;
/// Nodes of one document, with those that merge keys add.
const MAX_NODES: usize = 250_000;

/// Why a text cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("line {line} column {column}: {message}")]
pub struct YamlError {
    line: usize,
    column: usize,
    message: String,
}

/// A value, and where it begins.
#[derive(Debug)]
pub struct Node {
    place: (usize, usize),
    value: Value,
}

/// A key and its value.
type Entry = (Rc<Node>, Rc<Node>);

#[derive(Debug)]
enum Value {
    Scalar { text: String, kind: Kind },
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Without quotes: it may stand for nothing, a number or a merge key.
    Plain,
    Quoted,
    /// Tagged `!!str`.
    Text,
    /// Tagged `!!binary`: Base64 of the text.
    Binary,
}

impl Node {
    fn error(&self, message: impl Into<String>) -> YamlError {
        YamlError { line: self.place.0, column: self.place.1, message: message.into() }
    }

    fn is_null(&self) -> bool {
        let Value::Scalar { text, kind: Kind::Plain } = &self.value else { return false };
        matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    fn is_merge_key(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, kind: Kind::Plain } if text == "<<")
    }

    fn scalar(&self) -> Result<&str, YamlError> {
        match &self.value {
            Value::Scalar { text, .. } => Ok(text),
            _ => Err(self.error("expected a scalar")),
        }
    }

    /// The value of a key; none for one that is absent or null. Null has no keys.
    ///
    /// # Errors
    ///
    /// Where this is no mapping, or one with a key that is no text.
    pub fn get(&self, key: &str) -> Result<Option<&Node>, YamlError> {
        if self.is_null() {
            return Ok(None);
        }
        let Value::Mapping(entries) = &self.value else { return Err(self.error("expected a mapping")) };
        let mut found = None;
        for (name, value) in entries {
            if name.is_null() {
                return Err(name.error("a key is null"));
            }
            if name.scalar()? == key {
                found = Some(&**value).filter(|value| !value.is_null());
            }
        }
        Ok(found)
    }

    /// The items of a sequence.
    ///
    /// # Errors
    ///
    /// Where this is no sequence.
    pub fn items(&self) -> Result<impl Iterator<Item = &Node>, YamlError> {
        match &self.value {
            Value::Sequence(items) => Ok(items.iter().map(|item| &**item)),
            _ => Err(self.error("expected a sequence")),
        }
    }

    /// The text of a scalar.
    ///
    /// # Errors
    ///
    /// Where this is no scalar, or binary data that is no text.
    pub fn text(&self) -> Result<String, YamlError> {
        let text = self.scalar()?;
        if !matches!(self.value, Value::Scalar { kind: Kind::Binary, .. }) {
            return Ok(text.to_owned());
        }
        let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let bytes = base64_simd::STANDARD.decode_to_vec(packed).map_err(|_| self.error("expected Base64"))?;
        String::from_utf8(bytes).map_err(|_| self.error("expected text in UTF-8"))
    }

    /// The number that a scalar stands for: decimal, or with `0x`, `0o` or `0b`.
    ///
    /// # Errors
    ///
    /// Where this is no such number, or a larger one.
    pub fn port(&self) -> Result<u16, YamlError> {
        let number = || {
            let Value::Scalar { text, kind: Kind::Plain | Kind::Quoted } = &self.value else { return None };
            let text = text.trim();
            let text = text.strip_prefix('+').unwrap_or(text);
            let (digits, radix) = match text.get(..2) {
                Some("0x" | "0X") => (&text[2..], 16),
                Some("0o" | "0O") => (&text[2..], 8),
                Some("0b" | "0B") => (&text[2..], 2),
                _ => (text, 10),
            };
            // Without a prefix a leading zero once meant octal: nobody should have to guess.
            let is_ambiguous = radix == 10 && digits.len() > 1 && digits.starts_with('0');
            if is_ambiguous || digits.split('_').any(str::is_empty) || digits.starts_with(['+', '-']) {
                return None;
            }
            u16::from_str_radix(&digits.replace('_', ""), radix).ok()
        };
        number().ok_or_else(|| self.error("expected a number from 0 to 65535"))
    }
}

/// Reads a text that holds one document. A text without one is null.
///
/// # Errors
///
/// Where it is no YAML, has several documents, a key twice, an alias of nothing or of what it stands in, or is too large.
pub fn parse(text: &str) -> Result<Rc<Node>, YamlError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            YamlError { line, column, message: error.info().lines().next().unwrap_or_default().to_owned() }
        })?;
        builder.take(event, place(&span))?;
    }
    let null = Node { place: (1, 1), value: Value::Scalar { text: String::new(), kind: Kind::Plain } };
    Ok(builder.root.unwrap_or_else(|| Rc::new(null)))
}

fn place(span: &Span) -> (usize, usize) {
    (span.start.line(), span.start.col() + 1)
}

/// A collection that has not ended.
struct Open {
    place: (usize, usize),
    anchor: usize,
    is_mapping: bool,
    /// Of a mapping, keys and values in turn.
    children: Vec<Rc<Node>>,
}

#[derive(Default)]
struct Builder {
    root: Option<Rc<Node>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: (usize, usize)) -> Result<(), YamlError> {
        let fail = |message: &str| Err(YamlError { line: place.0, column: place.1, message: message.to_owned() });
        match event {
            Event::DocumentStart(..) if self.root.is_some() => fail("there is more than one document"),
            Event::Scalar(text, style, anchor, tag) => {
                let kind = kind_of(style, tag.as_deref());
                self.put(Rc::new(Node { place, value: Value::Scalar { text: text.into_owned(), kind } }), anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(Open { place, anchor, is_mapping: false, children: vec![] })
            }
            Event::MappingStart(_, anchor, _) => self.begin(Open { place, anchor, is_mapping: true, children: vec![] }),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return fail("something ends that did not begin") };
                let value = match open.is_mapping {
                    true => Value::Mapping(self.entries(open.children)?),
                    false => Value::Sequence(open.children),
                };
                self.put(Rc::new(Node { place: open.place, value }), open.anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => self.put(Rc::clone(node), 0),
                None => fail("an alias stands for what it is part of"),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            let (line, column) = open.place;
            return Err(YamlError { line, column, message: format!("nested deeper than {MAX_DEPTH}") });
        }
        self.open.push(open);
        Ok(())
    }

    fn put(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), YamlError> {
        self.count(&node)?;
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut() {
            Some(open) => open.children.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }

    fn count(&mut self, node: &Node) -> Result<(), YamlError> {
        self.nodes += 1;
        match self.nodes > MAX_NODES {
            true => Err(node.error(format!("there are more than {MAX_NODES} nodes"))),
            false => Ok(()),
        }
    }

    /// The entries of a mapping: its own, then those that its merge keys bring and that it does not have.
    fn entries(&mut self, children: Vec<Rc<Node>>) -> Result<Vec<Entry>, YamlError> {
        let (mut own, mut merged) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        let mut children = children.into_iter();
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            if key.is_merge_key() {
                merged.push(value);
                continue;
            }
            if let Value::Scalar { text, .. } = &key.value
                && !names.insert(text.clone())
            {
                return Err(key.error(format!("the key `{}` is there twice", text.escape_debug())));
            }
            own.push((key, value));
        }
        for value in merged {
            let single = [Rc::clone(&value)];
            let sources = match &value.value {
                Value::Sequence(items) => items.as_slice(),
                _ => &single,
            };
            for source in sources.iter().filter(|source| !source.is_null()) {
                let Value::Mapping(entries) = &source.value else {
                    return Err(source.error("only mappings can be merged"));
                };
                for (key, value) in entries {
                    let is_new = matches!(&key.value, Value::Scalar { text, .. } if names.insert(text.clone()));
                    if is_new {
                        self.count(key)?;
                        own.push((Rc::clone(key), Rc::clone(value)));
                    }
                }
            }
        }
        Ok(own)
    }
}

fn kind_of(style: ScalarStyle, tag: Option<&Tag>) -> Kind {
    match tag.map(Tag::parts) {
        Some(("tag:yaml.org,2002:", "str")) => Kind::Text,
        Some(("tag:yaml.org,2002:", "binary")) => Kind::Binary,
        _ if style == ScalarStyle::Plain => Kind::Plain,
        _ => Kind::Quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> Result<Option<u16>, YamlError> {
        parse(text)?.get("port")?.map(Node::port).transpose()
    }

    fn bind(text: &str) -> Result<Option<String>, YamlError> {
        parse(text)?.get("bind")?.map(Node::text).transpose()
    }

    #[test]
    fn a_number_is_written_in_several_ways() {
        for (text, number) in [
            ("9200", 9200),
            ("\"9200\"", 9200),
            ("' 5 '", 5),
            ("+5", 5),
            ("0", 0),
            ("1_000", 1000),
            ("0x10", 16),
            ("0X1_F", 31),
            ("0o17", 15),
            ("0b11", 3),
            ("!!int 5", 5),
            ("!other 5", 5),
        ] {
            assert_eq!(port(&format!("port: {text}")).unwrap(), Some(number), "{text}");
        }
        for wrong in ["''", "-1", "70000", "5.0", "1e3", "017", "00", "1__0", "_1", "1_", "9 9", "[1]", "!!str 5"] {
            assert!(port(&format!("port: {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_text_is_what_was_written() {
        for (text, value) in [
            ("1.50", "1.50"),
            ("true", "true"),
            ("::1", "::1"),
            ("'null'", "null"),
            ("\"~\"", "~"),
            ("''", ""),
            ("!!str null", "null"),
            ("!!binary aGk=", "hi"),
            ("\"a\\u0041\"", "aA"),
            ("|\n  one\n  two\n", "one\ntwo\n"),
            (">\n  one\n  two\n", "one two\n"),
        ] {
            assert_eq!(bind(&format!("bind: {text}")).unwrap().as_deref(), Some(value), "{text}");
        }
        for nothing in ["", "~", "null", "Null"] {
            assert_eq!(bind(&format!("bind: {nothing}")).unwrap(), None, "{nothing}");
        }
        for wrong in ["[1]", "{a: b}", "!!binary '?'"] {
            assert!(bind(&format!("bind: {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn documents_that_count() {
        for empty in ["", "# nothing\n", "---\n", "--- ~\n", "null", "{}", "<<:\n", "<<: [~]\n", "true: 3"] {
            assert_eq!(port(empty).unwrap(), None, "{empty}");
        }
        for three in [
            "'port': 3",
            "{port: 3, bind: x}",
            "\u{feff}port: 3 # with a comment",
            "%YAML 1.2\n---\nport: 3",
            "port: 3\n...\n",
            "!!map {port: 3}",
            "1: 2\nport: 3",
            "a: &x 3\nport: *x",
            "base: &b {port: 3}\n<<: *b",
            "port: 3\n<<: {port: 4}",
            "<<: {port: 4}\nport: 3",
            "<<: [{port: 3}, {port: 4, bind: x}]",
        ] {
            assert_eq!(port(three).unwrap(), Some(3), "{three}");
        }
        for wrong in [
            "[]",
            "just words",
            "- port",
            "port: 1\nport: 2",
            "x: {a: 1, a: 2}",
            "port: 1\n---\nport: 2",
            "port: *x",
            "x: &a [*a]",
            "? [a]\n: b",
            "~: 3",
            "<<: 5",
            "port: 3\n  bad: 4",
            "port: [",
            "a: b: c",
        ] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_document_is_bounded_and_its_errors_quote_no_values() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(parse(&deep).unwrap_err().to_string(), format!("line 1 column 129: nested deeper than {MAX_DEPTH}"));
        assert!(parse(&format!("[{}]", "1,".repeat(MAX_NODES + 1))).is_err());
        let error = port("bind: secret\nport: secret").unwrap_err().to_string();
        assert_eq!(error, "line 2 column 7: expected a number from 0 to 65535");
    }
}
