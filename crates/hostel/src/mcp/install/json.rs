//! Setting and removing one member of a JSON text.
//!
//! Invariant: every byte that does not belong to that member stays, comments, order, indentation and all. Setting what
//! is set already, and removing what is not there, give the text back as it was.

use serde_json::Value;

use super::json_scan::Member;
use super::json_scan::Object;
use super::json_scan::Scan;

/// What one step in is written as where the text does not show it.
const INDENT: &str = "  ";

/// Sets the member at the end of `path`; makes the objects on the way.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    let Some(root) = root(text)? else {
        let mut made = text.to_owned();
        if !made.is_empty() && !made.ends_with('\n') {
            made.push('\n');
        }
        made.push_str(&pretty(&nested(path, value), INDENT, 0));
        made.push('\n');
        return Ok(made);
    };
    let unit = indent_unit(text, &root);
    let mut object = root;
    for (depth, key) in path.iter().enumerate() {
        let rest = path.get(depth + 1..).unwrap_or_default();
        let Some(member) = find(&object, key) else {
            return Ok(insert(text, &object, key, &nested(rest, value), &unit, depth + 1));
        };
        if rest.is_empty() {
            let old: Option<Value> = text.get(member.value.clone()).and_then(|old| serde_json::from_str(old).ok());
            if old.as_ref() == Some(value) {
                return Ok(text.to_owned());
            }
            return Ok(spliced(text, member.value.clone(), &pretty(value, &unit, depth + 1)));
        }
        object = inner(text, member)?;
    }
    Ok(text.to_owned())
}

/// Removes the member at the end of `path`.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, String> {
    let Some(mut object) = root(text)? else { return Ok(text.to_owned()) };
    for (depth, key) in path.iter().enumerate() {
        let Some(member) = find(&object, key).cloned() else { return Ok(text.to_owned()) };
        if depth + 1 == path.len() {
            return Ok(without(text, &object, &member));
        }
        object = inner(text, &member)?;
    }
    Ok(text.to_owned())
}

/// The one object a text consists of; none if there is nothing but blanks and comments.
fn root(text: &str) -> Result<Option<Object>, String> {
    let mut scan = Scan::new(text, 0);
    scan.blank()?;
    if scan.at_end() {
        return Ok(None);
    }
    let object = scan.object(0)?;
    scan.blank()?;
    if scan.at_end() { Ok(Some(object)) } else { Err("there is more after the end of the object".to_owned()) }
}

/// The member that counts: of several with one name the last.
fn find<'a>(object: &'a Object, key: &str) -> Option<&'a Member> {
    object.members.iter().rev().find(|member| member.key == key)
}

fn inner(text: &str, member: &Member) -> Result<Object, String> {
    Scan::new(text, member.value.start).object(0).map_err(|_| format!("`{}` is not an object", member.key))
}

/// A value inside as many objects as there are names left.
fn nested(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| {
        let mut object = serde_json::Map::new();
        object.insert((*key).to_owned(), inner);
        Value::Object(object)
    })
}

/// How one step in is written in a text: like its first member.
fn indent_unit(text: &str, root: &Object) -> String {
    let first = root.members.first().map(|member| indent_of(text, member.whole.start));
    first.flatten().filter(|indent| !indent.is_empty()).unwrap_or_else(|| INDENT.to_owned())
}

/// The blanks before a position, if there is nothing else before it on its line.
fn indent_of(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let line = before.get(before.rfind('\n')? + 1..)?;
    line.chars().all(|letter| matches!(letter, ' ' | '\t')).then(|| line.to_owned())
}

/// A value over several lines; its first line has no indentation.
fn pretty(value: &Value, unit: &str, depth: usize) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Values always can be written.
    serde::Serialize::serialize(value, &mut serializer).unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    text.replace('\n', &format!("\n{}", unit.repeat(depth)))
}

fn spliced(text: &str, span: std::ops::Range<usize>, new: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{new}{after}")
}

/// The text with a new last member in an object.
fn insert(text: &str, object: &Object, key: &str, value: &Value, unit: &str, depth: usize) -> String {
    let key = Value::String(key.to_owned()).to_string();
    let close = object.span.end - 1;
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let outer = indent_of(text, close).unwrap_or_else(|| unit.repeat(depth - 1));
    let own = object.members.last().and_then(|member| indent_of(text, member.whole.start));
    let own = own.unwrap_or_else(|| format!("{outer}{unit}"));
    let member = format!("{key}: {}", pretty(value, unit, 0).replace('\n', &format!("\n{own}")));
    let member = if ending == "\n" { member } else { member.replace('\n', ending) };
    let several = text.get(object.span.start..close).is_some_and(|inside| inside.contains('\n'));
    let Some(last) = object.members.last() else {
        let inside = text.get(object.span.start + 1..object.tail).unwrap_or_default().trim_end();
        return spliced(text, object.span.start + 1..close, &format!("{inside}{ending}{own}{member}{ending}{outer}"));
    };
    if !several {
        // All on one line: so is the new one.
        let member = format!("{key}: {value}");
        let comma = if last.comma.is_some() { " " } else { ", " };
        return spliced(text, object.tail..object.tail, &format!("{comma}{member}"));
    }
    let trailing = if last.comma.is_some() { "," } else { "" };
    let added = format!("{ending}{own}{member}{trailing}");
    let grown = spliced(text, object.tail..object.tail, &added);
    match last.comma {
        Some(_) => grown,
        // Behind the value, before what may be said about it.
        None => spliced(&grown, last.value.end..last.value.end, ","),
    }
}

/// The text without a member.
fn without(text: &str, object: &Object, member: &Member) -> String {
    let position = object.members.iter().position(|known| known == member).unwrap_or(0);
    let before = position.checked_sub(1).and_then(|position| object.members.get(position));
    let only = object.members.len() == 1;
    let end = member.comma.map_or(member.whole.end, |comma| comma + 1);
    if only {
        // What is left is empty, unless somebody wrote a note into it.
        let rest = |from: usize, to: usize| text.get(from..to).unwrap_or_default().trim();
        let inside = object.span.start + 1..object.span.end - 1;
        if rest(inside.start, member.whole.start).is_empty() && rest(end, inside.end).is_empty() {
            return spliced(text, inside, "");
        }
    }
    let indent = indent_of(text, member.whole.start);
    let start = match &indent {
        // The line it stands on goes with it.
        Some(indent) => {
            let line = member.whole.start - indent.len();
            line - text.get(..line).map_or(0, |text| if text.ends_with("\r\n") { 2 } else { 1 })
        }
        None => before.map_or(member.whole.start, |before| before.comma.map_or(before.whole.end, |comma| comma + 1)),
    };
    let mut shorter = spliced(text, start..end, "");
    let last = position + 1 == object.members.len();
    if last
        && member.comma.is_none()
        && let Some(comma) = before.and_then(|before| before.comma)
    {
        shorter = spliced(&shorter, comma..comma + 1, "");
    }
    shorter
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
