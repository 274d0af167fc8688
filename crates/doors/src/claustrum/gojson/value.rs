//! Values of any shape, which only a request's `id` may have: read and written again as Go would.
//!
//! Go decodes an id to a generic value and encodes that value, so numbers come back as doubles and
//! keys sorted, with the last of several equal keys. The value lives in one flat list: neither
//! building nor writing nor dropping it recurses, however deep the client nested it.

use super::encode::{push_float, push_string};
use super::scan::{Advance, Container, Malformed, Scanner};
use std::borrow::Cow;

#[derive(Debug)]
enum Node {
    Leaf(Vec<u8>),
    Array(Vec<usize>),
    Object(Vec<(Vec<u8>, usize)>),
}

/// Takes one value and gives the text Go would send back for it.
pub fn canonical<'a>(scanner: &mut Scanner<'a>) -> Result<Cow<'a, [u8]>, Malformed> {
    let raw = scanner.skip()?;
    if is_canonical(raw) {
        return Ok(Cow::Borrowed(raw));
    }
    let nodes = parse(raw)?;
    Ok(Cow::Owned(write(&nodes)))
}

/// Recognises what clients really send: short integers, plain strings, `null`.
fn is_canonical(raw: &[u8]) -> bool {
    match raw {
        b"null" | b"true" | b"false" => true,
        [b'"', text @ .., b'"'] => text.iter().all(|&byte| matches!(byte, 0x20..0x7f) && !b"\"\\<>&".contains(&byte)),
        // Fifteen digits are exact in a double.
        [b'-', digits @ ..] | digits => (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
    }
}

/// The flat list, root first, in one pass over the document.
fn parse(raw: &[u8]) -> Result<Vec<Node>, Malformed> {
    let mut scanner = Scanner::new(raw);
    let mut nodes: Vec<Node> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut key: Vec<u8> = Vec::new();
    loop {
        let place = nodes.len();
        match open.last().map(|&parent| &mut nodes[parent]) {
            Some(Node::Array(elements)) => elements.push(place),
            Some(Node::Object(members)) => members.push((std::mem::take(&mut key), place)),
            Some(Node::Leaf(_)) | None => {}
        }
        match scanner.enter()? {
            Some(Container::Object) => nodes.push(Node::Object(Vec::new())),
            Some(Container::Array) => nodes.push(Node::Array(Vec::new())),
            None => nodes.push(Node::Leaf(leaf(scanner.skip()?)?)),
        }
        if matches!(nodes[place], Node::Object(_) | Node::Array(_)) {
            open.push(place);
        }
        // Leave what ends here; stop in front of the next value.
        loop {
            let Some(&parent) = open.last() else {
                sort_members(&mut nodes);
                return Ok(nodes);
            };
            let (kind, empty) = match &nodes[parent] {
                Node::Object(members) => (Container::Object, members.is_empty()),
                Node::Array(elements) => (Container::Array, elements.is_empty()),
                Node::Leaf(_) => return Err(Malformed),
            };
            match scanner.advance(kind, empty)? {
                Advance::Left => {
                    open.pop();
                }
                Advance::Element => break,
                Advance::Member(text) => {
                    key = text.decode().into_owned().into_bytes();
                    break;
                }
            }
        }
    }
}

fn leaf(raw: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut leaf = Vec::new();
    match raw.first() {
        Some(b'"') => {
            let text = Scanner::new(raw).text()?;
            push_string(&mut leaf, text.decode().as_bytes());
        }
        Some(b't' | b'f' | b'n') => leaf.extend_from_slice(raw),
        _ => {
            let literal = std::str::from_utf8(raw).map_err(|_| Malformed)?;
            let number: f64 = literal.parse().map_err(|_| Malformed)?;
            // Go refuses a literal beyond the range of a double.
            if !number.is_finite() {
                return Err(Malformed);
            }
            push_float(&mut leaf, number);
        }
    }
    Ok(leaf)
}

fn sort_members(nodes: &mut [Node]) {
    for node in nodes {
        if let Node::Object(members) = node {
            // Stable, so that reversed the last of equal keys comes first and is the one kept.
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            members.reverse();
            members.dedup_by(|(later, _), (earlier, _)| later == earlier);
            members.reverse();
        }
    }
}

enum Step {
    Node(usize),
    Text(&'static [u8]),
    Key(usize, usize),
}

fn write(nodes: &[Node]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut steps = vec![Step::Node(0)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Text(text) => out.extend_from_slice(text),
            Step::Key(object, member) => {
                if let Node::Object(members) = &nodes[object] {
                    push_string(&mut out, &members[member].0);
                    out.push(b':');
                }
            }
            Step::Node(place) => match &nodes[place] {
                Node::Leaf(text) => out.extend_from_slice(text),
                Node::Array(elements) => {
                    out.push(b'[');
                    steps.push(Step::Text(b"]"));
                    for (index, &element) in elements.iter().enumerate().rev() {
                        steps.push(Step::Node(element));
                        if index > 0 {
                            steps.push(Step::Text(b","));
                        }
                    }
                }
                Node::Object(members) => {
                    out.push(b'{');
                    steps.push(Step::Text(b"}"));
                    for (index, &(_, value)) in members.iter().enumerate().rev() {
                        steps.push(Step::Node(value));
                        steps.push(Step::Key(place, index));
                        if index > 0 {
                            steps.push(Step::Text(b","));
                        }
                    }
                }
            },
        }
    }
    out
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
