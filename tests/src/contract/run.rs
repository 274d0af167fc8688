//! Plays the cases of a data file against a door.
//!
//! A case ends at its first failure, and the case after it gets a new daemon where the door can have one. A panic of
//! the harness within a case is a failure of that case like any other, with the same report.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::door::Door;
use super::pattern::Names;
use super::report;
use super::script::{Action, Case, Script};
use super::steps::{CaseRun, Problem};
use super::update::{self, Proposal, Replacement};
use crate::house;

/// How files are played.
#[derive(Clone, Debug, Default)]
pub struct Mode {
    /// Only cases whose title contains this.
    pub filter: Option<String>,
    /// Go on after an expectation that was not met, and propose a better one.
    pub update: bool,
}

impl Mode {
    /// As `HOSTEL_CASE` and `HOSTEL_UPDATE` say.
    pub fn from_environment() -> Self {
        let update = std::env::var_os("HOSTEL_UPDATE").is_some_and(|value| value == "1");
        Self { filter: std::env::var("HOSTEL_CASE").ok().filter(|filter| !filter.is_empty()), update }
    }

    /// Whether a case is played.
    pub fn includes(&self, case: &Case) -> bool {
        self.filter.as_ref().is_none_or(|filter| case.title.contains(filter.as_str()))
    }
}

/// A case that was not as the file says.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The title of the case.
    pub title: String,
    /// What is printed about it.
    pub report: String,
}

/// What came of playing a file.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many cases were played.
    pub played: usize,
    /// The cases that failed.
    pub failures: Vec<Failure>,
    /// Cases that were left out by `! only-if`, with the reason.
    pub skipped: Vec<String>,
    /// Lines that can be replaced; only with [`Mode::update`].
    pub replacements: Vec<Replacement>,
}

/// Plays the cases of a file that are for this variant.
///
/// # Panics
/// If a directory cannot be made.
pub fn play(script: &Script, variant: &str, door: &mut impl Door, mode: &Mode) -> Outcome {
    let mut outcome = Outcome::default();
    // Whether the daemon is one that the next case must not meet.
    let mut used_up = false;
    for (index, case) in script.cases.iter().enumerate() {
        if case.variant.as_ref().is_some_and(|only| only != variant) || !mode.includes(case) {
            continue;
        }
        let number = index + 1;
        let before = outcome.failures.len();
        let options = case.fresh_daemon.as_deref().or_else(|| used_up.then_some(""));
        play_case(script, case, number, options, door, mode, &mut outcome);
        let failed = outcome.failures.len() > before;
        used_up = case.fresh_daemon.is_some() || (failed && script.supports_fresh_daemon);
    }
    outcome
}

fn play_case(
    script: &Script,
    case: &Case,
    number: usize,
    fresh_daemon: Option<&str>,
    door: &mut impl Door,
    mode: &Mode,
    outcome: &mut Outcome,
) {
    outcome.played += 1;
    let begun = guarded(|| {
        if let Some(options) = fresh_daemon {
            door.fresh(options)?;
        }
        door.begin(number)?;
        let directory = door.work().join(format!("case{number}"));
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let mut names = Names::from([
            ("DIR".to_owned(), house::path_text(&directory).to_owned()),
            ("CASE".to_owned(), format!("case-{number}")),
        ]);
        names.extend(door.names());
        Ok((directory, names))
    });
    let (directory, names) = match begun {
        Ok(begun) => begun,
        Err(problem) => {
            let report = report::failure(script, case, &case.steps[0], &problem.reason, None, &[], &door.log(""));
            outcome.failures.push(Failure { title: case.title.clone(), report });
            return;
        }
    };
    let mut run = CaseRun::new(script.json, door, directory, names);
    for step in &case.steps {
        if let Action::Directive(word, command) = &step.action
            && word == "only-if"
        {
            if let Err(problem) = guarded(|| run.shell(command)) {
                outcome.skipped.push(format!("{}/{}: {}", script.name, case.title, problem.reason));
                return;
            }
            continue;
        }
        let Err(problem) = guarded(|| run.step(step)) else { continue };
        let mut reason = problem.reason;
        let proposal = problem.proposed.filter(|_| mode.update).map(|text| update::propose(step, &text, run.names()));
        match &proposal {
            Some(Proposal::Replace(replacement)) => {
                outcome.replacements.push(replacement.clone());
                continue;
            }
            Some(Proposal::Show(line)) => reason.push_str(&format!("\n  proposed: {line}")),
            None => {}
        }
        let report = run.report(script, case, step, &reason);
        outcome.failures.push(Failure { title: case.title.clone(), report });
        if proposal.is_none() {
            return;
        }
    }
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Problem::from(message(panic.as_ref()))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the harness panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fake::{Fake, LANGUAGE};

    fn outcome(text: &str, mode: &Mode) -> Outcome {
        let script = Script::parse(&LANGUAGE, "x", text).unwrap_or_else(|reason| panic!("{reason} in {text}"));
        play(&script, "fast", &mut Fake::start(), mode)
    }

    fn failures(text: &str) -> Vec<String> {
        outcome(text, &Mode::default()).failures.into_iter().map(|failure| failure.report).collect()
    }

    /// Each line is an expectation that holds after the lines before it; each second text is one that does not.
    const EXPECTATIONS: [(&str, &str, &str); 34] = [
        ("$ true", "$ true", "$ echo complaint >&2; false"),
        ("$= word echo kept", "$ test ${word} = kept", "$ test ${word} = lost"),
        ("> hello", "< hello", "< hell"),
        ("> hello", "< h${ANY}o", "< h${ANY}x"),
        ("> hello", "< ${ANY=word}", "< ${NUM=word}"),
        (">. part", "< part(part)", "< part"),
        (">[b] other", "<[b] other", "<[b] hello"),
        (">> ok {\"a\":1}", "<= {\"a\":1}", "<= {\"a\":2}"),
        (">> ok {\"a\":1}", "<= {\"a\":${NUM}}", "<= {\"a\":${NUM}"),
        (">> ok 1", "<= 1", "<! 1 x"),
        (">> fail -5 no way", "<! -5 no way", "<! -5 no"),
        (">> fail -5 no way", "<! -5", "<! -6"),
        (">> fail -5 no way", "<! -5 ${ANY}way", "<= {}"),
        (">- note", "~ \"note\"", "~ \"not\""),
        (">: GET /200 body", "<# 200", "<# 201"),
        (">: GET /200 body", "<# 200 body", "<# 200 bod"),
        (">: GET /200 body", "< body", "< bodies"),
        (">: GET /200 body", "<* od", "<* odd"),
        (">: GET /count body", "<#? 203 body", "<#? 200 other"),
        (">+ X-Is: there\n>: GET /200", "<+ X-Is: there", "<+ x-is: here"),
        (">: GET /200", "<- x-is", "<- server"),
        (">: GET /200", "<+ server: fake", "<+ x-is: fake"),
        ("! events a 1, b 2", "<~ a 1", "<~ b 2"),
        ("! events a 1, b 2", "<~? b 2", "<~? c 3"),
        ("! events a 1, b 2\n<~ a 1", "<~! b 2", "<~! a ${NUM}"),
        ("! events a 1\n<~ a 1", "<$", "<~ a 1"),
        ("! events a 1", "<~ a 1", "<$"),
        ("! write p stdout 12", "~ p stdout \"12\"", "~ p stdout \"1\""),
        ("! write p stdout 12\n~ p stdout \"12\"\n! write p stdout 3", "~ p stdout \"3\"", "~ p stdout \"123\""),
        ("! write p exit 3", "~ p exit 3", "~ p exit 0"),
        ("> hello", "! log received hello", "! log received nothing"),
        ("> hello\n< hello", "! nothing-left", "! closed"),
        ("> hello", "< hello", "! nothing-left"),
        ("> bye\n< bye", "! closed", "< bye"),
    ];

    #[test]
    fn every_expectation_can_hold_and_can_fail() {
        for (before, right, wrong) in EXPECTATIONS {
            let holds = failures(&format!("@ holds\n{before}\n{right}\n"));
            assert!(holds.is_empty(), "{right} must hold after {before}:\n{}", holds.join("\n"));
            let number = 2 + before.lines().count();
            let fails = failures(&format!("@ fails\n{before}\n{wrong}\n"));
            assert_eq!(fails.len(), 1, "{wrong} must fail after {before}");
            assert!(fails[0].starts_with(&format!("x.txt:{number}: fails\n  line:     {wrong}\n")), "{}", fails[0]);
        }
    }

    #[test]
    fn every_sign_that_expects_something_is_among_those() {
        for (written, sign) in crate::contract::language::Sign::ALL {
            let used = EXPECTATIONS.iter().any(|(_, _, wrong)| {
                let word = wrong.split(' ').next().unwrap_or_default();
                word.split('[').next() == Some(written)
            });
            assert!(used || !sign.expects(), "no example of `{written}`");
        }
    }

    #[test]
    fn json_files_compare_values() {
        for (before, right, wrong) in [
            ("> {\"a\": 1, \"b\": 2}", "< {\"b\":2,\"a\":1}", "< {\"a\":1}"),
            ("> {\"a\": 1, \"b\": 2}", "< {\"a\":1,\"...\":1}", "< {\"a\":2,\"...\":1}"),
            (">> ok {\"a\": \"x\"}", "<= {\"a\":\"${STR}\"}", "<= {\"a\":\"${NUM}\"}"),
            (">: GET /200 {\"a\": 1}", "<# 200 {\"a\":1}", "<# 200 {\"a\":\"1\"}"),
            (">: GET /count {\"a\": 1}", "<#? 203 {\"a\":1}", "<#? 200 {\"a\":2}"),
            ("! events m {\"a\": 1}, n {}", "<~ m {\"a\":1}", "<~ m {\"a\":2}"),
            ("! events m {\"a\": 1}, n {}", "<~ m", "<~ n"),
            ("! events m {\"a\": 1}, n {}", "<~? n {}", "<~? m {}"),
            ("! events m {\"a\": 1}, n {}\n<~ m", "<~! m {\"a\":2}", "<~! m {\"...\":1}"),
        ] {
            let holds = failures(&format!("= json\n@ holds\n{before}\n{right}\n"));
            assert!(holds.is_empty(), "{right} must hold after {before}:\n{}", holds.join("\n"));
            assert_eq!(failures(&format!("= json\n@ fails\n{before}\n{wrong}\n")).len(), 1, "{wrong} must fail");
        }
        assert_eq!(failures("= json\n@ not JSON\n> no\n< {}\n").len(), 1);
        // What only looks like JSON on the page is text in a file without `= json`.
        assert_eq!(failures("@ a\n> {\"a\": 1}\n< {\"a\":1}\n").len(), 1);
    }

    #[test]
    fn a_report_has_everything_that_was_seen() {
        let fails = failures("@ title\n> one\n< one\n> two\n> three\n< other\n");
        for part in [
            "x.txt:6: title",
            "line:     < other",
            "expected: other\n  received: two",
            "so far:\n    > one\n    < one\n    > two\n    > three\n    < two",
            "not looked at yet (1):\n    three",
            "end of the daemon's log:\n    received one\n    received two\n    received three",
        ] {
            assert!(fails[0].contains(part), "no {part:?} in:\n{}", fails[0]);
        }
    }

    #[test]
    fn a_case_stops_at_its_failure_and_the_next_one_has_a_new_daemon() {
        let text = "@ a\n> x\n< y\n! crash\n@ b\n> only this\n! log 2 daemons\n@ c\n> x\n< x\n! log 2 daemons\n";
        assert_eq!(failures(text).len(), 1);
        let text = "@ a\n! fresh-daemon loud\n! log loud\n@ b\n> x\n< x\n! log 3 daemons\n@ c\n> x\n! log 3 daemons\n";
        assert!(failures(text).is_empty());
        let reports = failures("@ a\n! fresh-daemon broken\n< x\n@ b\n> x\n< x\n");
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("broken"), "{}", reports[0]);
    }

    #[test]
    fn a_panic_is_a_failure_of_its_case() {
        let fails = failures("@ a\n! crash\n< x\n@ b\n> x\n< x\n");
        assert_eq!(fails.len(), 1);
        assert!(fails[0].contains("the fake crashed"), "{}", fails[0]);
    }

    #[test]
    fn conditions_variants_and_filters_choose_cases() {
        let text = "@ here\n! only-if true\n> x\n< x\n@ not here\n! only-if false\n< never\n@[slow] slow\n< never\n\
                    @[fast] fast\n> x\n< x\n";
        let all = outcome(text, &Mode::default());
        assert_eq!((all.played, all.failures.len(), all.skipped.len()), (3, 0, 1));
        assert!(all.skipped[0].starts_with("x/not here: "), "{}", all.skipped[0]);
        let one = outcome(text, &Mode { filter: Some("fas".to_owned()), ..Mode::default() });
        assert_eq!((one.played, one.skipped.len()), (1, 0));
    }

    #[test]
    fn every_case_has_a_directory_and_names_of_its_own() {
        let text = "@ a\n$ pwd > where; test $(pwd) = ${DIR}\n$= was echo 1\n> ${CASE}\n< case-1\n\
                    @ b\n$ test ! -e where\n> ${CASE}\n< case-2\n> x\n< ${was}\n";
        let fails = failures(text);
        assert_eq!(fails.len(), 1);
        assert!(fails[0].contains("unknown placeholder ${was}"), "{}", fails[0]);
    }

    #[test]
    fn an_update_replaces_what_it_can_and_shows_the_rest() {
        let text =
            "@ a\n> one\n< two\n>[b] three\n<[b] ${NUM}\n! write p exit 4\n~ p exit 0\n>: GET /200 x\n<# 404 y\n";
        let updated = outcome(text, &Mode { update: true, ..Mode::default() });
        let lines: Vec<(usize, &str)> =
            updated.replacements.iter().map(|line| (line.number, line.new.as_str())).collect();
        assert_eq!(lines, [(3, "< one"), (7, "~ p exit 4"), (9, "<# 200 x")]);
        assert_eq!(updated.failures.len(), 1);
        assert!(updated.failures[0].report.contains("proposed: <[b] three"), "{}", updated.failures[0].report);
        let before = outcome(text, &Mode::default());
        assert_eq!((before.replacements.len(), before.failures.len()), (0, 1));
    }
}
