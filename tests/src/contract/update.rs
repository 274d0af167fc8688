//! `HOSTEL_UPDATE=1`: puts what was received in the place of expectations that are no longer right.

use std::fs;

use super::pattern::Names;
use super::script::{Script, Step};

/// Values shorter than this are not taken for a known name's: they occur by accident.
const MIN_KNOWN_BYTES: usize = 4;

/// A line that should be another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replacement {
    /// The line's number.
    pub number: usize,
    /// The line as it is.
    pub old: String,
    /// The line as it should be.
    pub new: String,
}

/// What becomes of an expectation that was not met.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Proposal {
    /// The line says the same at every run: it can be replaced.
    Replace(Replacement),
    /// The line, or what was received, has parts that vary: a person has to decide.
    Show(String),
}

/// Proposes the line that expects what was received. `text` is what should stand behind the sign.
pub(super) fn propose(step: &Step, text: &str, names: &Names) -> Proposal {
    let mut known: Vec<(&String, &String)> = names.iter().filter(|(_, value)| value.len() >= MIN_KNOWN_BYTES).collect();
    known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    let named = known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(*value, &format!("${{{name}}}")));
    let new = step.with_text(&named);
    let varies = step.line.contains("${") || step.line.contains(r#""...""#) || named != text || new.contains('\n');
    if varies {
        return Proposal::Show(new);
    }
    Proposal::Replace(Replacement { number: step.number, old: step.line.clone(), new })
}

/// Writes the replacements into the file. A line that is not as it was read stays: another test has replaced it.
///
/// # Panics
/// If the file cannot be written.
pub(super) fn apply(script: &Script, replacements: &[Replacement]) {
    if replacements.is_empty() {
        return;
    }
    let path = script.path.display();
    let text = fs::read_to_string(&script.path).unwrap_or_else(|error| panic!("{path}: {error}"));
    fs::write(&script.path, replaced(&text, replacements)).unwrap_or_else(|error| panic!("{path}: {error}"));
    for replacement in replacements {
        eprintln!("{path}:{}: now {}", replacement.number, replacement.new);
    }
}

fn replaced(text: &str, replacements: &[Replacement]) -> String {
    let lines = text.lines().enumerate().map(|(index, line)| {
        let found = replacements.iter().find(|other| other.number == index + 1 && other.old == line);
        found.map_or(line, |replacement| replacement.new.as_str())
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fake::LANGUAGE;

    fn step(line: &str) -> Step {
        let script = Script::parse(&LANGUAGE, "x", &format!("@ a\n{line}\n")).expect("a script");
        script.cases[0].steps[0].clone()
    }

    #[test]
    fn a_line_without_placeholders_is_replaced_and_others_are_shown() {
        let names = Names::from([("DIR".to_owned(), "/tmp/dir".to_owned())]);
        let replacement = |old: &str, new: &str| {
            Proposal::Replace(Replacement { number: 2, old: old.to_owned(), new: new.to_owned() })
        };
        assert_eq!(propose(&step("< a"), "b", &names), replacement("< a", "< b"));
        assert_eq!(propose(&step("<=[b] {}"), "{\"x\":1}", &names), replacement("<=[b] {}", "<=[b] {\"x\":1}"));
        assert_eq!(propose(&step("< a${ANY}"), "b", &names), Proposal::Show("< b".to_owned()));
        assert_eq!(propose(&step("< {\"...\":1}"), "{}", &names), Proposal::Show("< {}".to_owned()));
        assert_eq!(propose(&step("< a"), "in /tmp/dir/x", &names), Proposal::Show("< in ${DIR}/x".to_owned()));
    }

    #[test]
    fn only_lines_that_are_as_they_were_read_are_replaced() {
        let replacement =
            |number: usize, old: &str| Replacement { number, old: old.to_owned(), new: "< new".to_owned() };
        let text = "@ a\n< old\n< old\n";
        assert_eq!(replaced(text, &[replacement(3, "< old")]), "@ a\n< old\n< new\n");
        assert_eq!(replaced(text, &[replacement(3, "< other")]), text);
    }
}
