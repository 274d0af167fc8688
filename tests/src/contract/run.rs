//! Plays the cases of a data file against a door.
//!
//! A case ends at its first failure, and the case after it gets a new daemon where the door can have one. A panic of
//! the harness within a case is a failure of that case like any other, with the same report.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::door::{Door, Request};
use super::json;
use super::pattern::{self, Names, Pattern};
use super::report::{self, Exchange, shorten};
use super::script::{Action, Case, Script, Step};
use super::update::{self, Proposal, Replacement};
use crate::codecast::http::Answer;
use crate::{house, wait};

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
    let mut run = Run {
        json: script.json,
        door,
        directory,
        names,
        headers: BTreeMap::new(),
        requests: BTreeMap::new(),
        exchanges: BTreeMap::new(),
    };
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
        let proposal = problem.proposed.filter(|_| mode.update).map(|text| update::propose(step, &text, &run.names));
        match &proposal {
            Some(Proposal::Replace(replacement)) => {
                outcome.replacements.push(replacement.clone());
                continue;
            }
            Some(Proposal::Show(line)) => reason.push_str(&format!("\n  proposed: {line}")),
            None => {}
        }
        let exchange = run.exchanges.get(&step.connection);
        let (pending, log) = (run.door.pending(&step.connection), run.door.log(&step.connection));
        let report = report::failure(script, case, step, &reason, exchange, &pending, &log);
        outcome.failures.push(Failure { title: case.title.clone(), report });
        if proposal.is_none() {
            return;
        }
    }
}

/// Why a step failed, and the text that would have been right.
struct Problem {
    reason: String,
    proposed: Option<String>,
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self { reason, proposed: None }
    }
}

impl From<&str> for Problem {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Problem::from(message(panic.as_ref()))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the harness panicked").to_owned()
}

struct Run<'a, D> {
    json: bool,
    door: &'a mut D,
    directory: PathBuf,
    names: Names,
    /// Of the next request of a connection.
    headers: BTreeMap<String, Vec<(String, String)>>,
    /// The last request of a connection.
    requests: BTreeMap<String, Request>,
    exchanges: BTreeMap<String, Exchange>,
}

impl<D: Door> Run<'_, D> {
    fn step(&mut self, step: &Step) -> Result<(), Problem> {
        let connection = step.connection.as_str();
        match &step.action {
            Action::Shell(command) => self.shell(command).map(drop),
            Action::Capture(name, command) => {
                let printed = self.shell(command)?;
                self.names.insert(name.clone(), printed.trim_end().to_owned());
                Ok(())
            }
            Action::Send(text, whole) => {
                let bytes = pattern::render(text, &self.names)?;
                self.exchange(connection).sent(&String::from_utf8_lossy(&bytes));
                Ok(self.door.send(connection, &bytes, *whole)?)
            }
            Action::Call(text) => {
                let text = pattern::render_text(text, &self.names)?;
                self.exchange(connection).sent(&text);
                Ok(self.door.call(connection, &text)?)
            }
            Action::Notify(text) => {
                let text = pattern::render_text(text, &self.names)?;
                self.exchange(connection).sent(&text);
                Ok(self.door.notify(connection, &text)?)
            }
            Action::Header(name, value) => {
                let value = pattern::render_text(value, &self.names)?;
                self.headers.entry(connection.to_owned()).or_default().push((name.clone(), value));
                Ok(())
            }
            Action::Request(method, path, body) => {
                let path = pattern::render_text(path, &self.names)?;
                let body = pattern::render(body, &self.names)?;
                let headers = self.headers.remove(connection).unwrap_or_default();
                let request = Request { method: method.clone(), path, headers, body };
                self.requests.insert(connection.to_owned(), request);
                self.request(connection)
            }
            Action::Directive(word, text) => self.directive(connection, word, text),
            _ => self.expect(step),
        }
    }

    fn expect(&mut self, step: &Step) -> Result<(), Problem> {
        let connection = step.connection.as_str();
        match &step.action {
            Action::Message(expected) => {
                let got = self.door.message(connection)?;
                self.exchange(connection).received(&got);
                self.fits(expected, &got)
            }
            Action::Result(expected) => {
                let got = self.door.result(connection)?;
                self.exchange(connection).received(&got);
                self.fits(expected, &got)
            }
            Action::Error(code, message) => {
                let error = self.door.error(connection)?;
                let whole = format!("{} {}", error.code, error.message);
                self.exchange(connection).received(&whole);
                match message {
                    Some(message) => self.fits_text(&format!("{code} {message}"), &whole),
                    None => self.fits_text(code, &error.code),
                }
            }
            Action::Status { status, body, until: false } => self.answered(connection, *status, body.as_deref()),
            Action::Status { status, body, until: true } => {
                let mut outcome = self.answered(connection, *status, body.as_deref());
                wait::attempt(self.door.limit(), || {
                    if outcome.is_err() {
                        outcome = self.request(connection);
                    }
                    if outcome.is_ok() {
                        outcome = self.answered(connection, *status, body.as_deref());
                    }
                    outcome.is_ok().then_some(())
                });
                outcome
            }
            Action::HasHeader(name, expected) => {
                let response = self.response(connection)?;
                let got = response.header(&name.to_ascii_lowercase()).unwrap_or("(none)").to_owned();
                self.fits_text(expected, &got).map_err(|problem| {
                    let headers = format!("\n  headers:  {:?}", response.headers);
                    Problem { reason: problem.reason + &headers, proposed: Some(format!("{name}: {got}")) }
                })
            }
            Action::LacksHeader(name) => match self.response(connection)?.header(&name.to_ascii_lowercase()) {
                None => Ok(()),
                Some(value) => Err(Problem::from(format!("the response has the header {name}: {value}"))),
            },
            Action::Contains(part) => {
                let part = pattern::render_text(part, &self.names)?;
                let got = self.response(connection)?.text();
                if got.contains(&part) { Ok(()) } else { Err(difference(&part, &got, None)) }
            }
            Action::Event { text, until: false } => {
                let got = self.event(connection)?.ok_or("the stream is over")?;
                self.fits_event(text, &got)
            }
            Action::Event { text, until: true } => self.eventual_event(connection, text),
            Action::NoEvent(text) => {
                let past = self.door.past_events(connection)?;
                let names = self.names.clone();
                let like = past.iter().find(|event| self.fits_event(text, event).is_ok());
                let outcome =
                    like.map_or(Ok(()), |event| Err(Problem::from(format!("there was such an event: {event}"))));
                self.names = names;
                outcome
            }
            Action::StreamEnd => match self.event(connection)? {
                None => Ok(()),
                Some(event) => Err(Problem::from(format!("the stream goes on with: {event}"))),
            },
            Action::Output(channel, text) => self.output(step, channel, text),
            other => Err(Problem::from(format!("this is no expectation: {other:?}"))),
        }
    }

    fn directive(&mut self, connection: &str, word: &str, text: &str) -> Result<(), Problem> {
        let text = pattern::render_text(text, &self.names)?;
        if word == "log" {
            let found = wait::attempt(self.door.limit(), || self.door.log(connection).contains(&text).then_some(()));
            return Ok(found.ok_or_else(|| format!("nothing in the log contains: {text}"))?);
        }
        self.exchange(connection).sent(&format!("! {word} {text}"));
        self.door.directive(connection, word, &text, &mut self.names)?;
        self.names.extend(self.door.changed_names());
        Ok(())
    }

    fn request(&mut self, connection: &str) -> Result<(), Problem> {
        let request = self.requests.get(connection).ok_or("there was no request yet")?.clone();
        let body = String::from_utf8_lossy(&request.body);
        self.exchange(connection).sent(&format!("{} {} {body}", request.method, request.path));
        Ok(self.door.request(connection, &request)?)
    }

    fn response(&mut self, connection: &str) -> Result<Answer, Problem> {
        let response = self.door.response(connection)?;
        self.exchange(connection).received(&format!("{} {}", response.status, response.text()));
        Ok(response)
    }

    fn answered(&mut self, connection: &str, status: u16, body: Option<&str>) -> Result<(), Problem> {
        let response = self.response(connection)?;
        let proposed = match body {
            Some(_) => format!("{} {}", response.status, response.text()),
            None => response.status.to_string(),
        };
        let wrong = |reason: String| Problem { reason, proposed: Some(proposed.clone()) };
        if response.status != status {
            return Err(wrong(format!(
                "expected: {status}\n  received: {} {}",
                response.status,
                shorten(&response.text())
            )));
        }
        let Some(body) = body else { return Ok(()) };
        if self.json && response.header("content-type") != Some("application/json") {
            return Err(Problem::from(format!("the body is not sent as JSON: {:?}", response.headers)));
        }
        self.fits(body, &response.text()).map_err(|problem| wrong(problem.reason))
    }

    fn event(&mut self, connection: &str) -> Result<Option<String>, Problem> {
        let event = self.door.event(connection)?;
        self.exchange(connection).received(event.as_deref().unwrap_or("(end of the stream)"));
        Ok(event)
    }

    fn eventual_event(&mut self, connection: &str, expected: &str) -> Result<(), Problem> {
        let end = Instant::now() + self.door.read_limit();
        let mut others = String::new();
        loop {
            let event = match self.event(connection) {
                Ok(Some(event)) => event,
                Ok(None) => return Err(Problem::from(format!("the stream is over; no event fits:{others}"))),
                Err(problem) => return Err(Problem::from(format!("{}; no event fits:{others}", problem.reason))),
            };
            match self.fits_event(expected, &event) {
                Ok(()) => return Ok(()),
                Err(problem) => others.push_str(&format!("\n  {}", problem.reason)),
            }
            if Instant::now() >= end {
                return Err(Problem::from(format!("no event fits:{others}")));
            }
        }
    }

    fn output(&mut self, step: &Step, channel: &str, text: &str) -> Result<(), Problem> {
        let channel = pattern::render_text(channel, &self.names)?;
        let expected = pattern::render(text, &self.names)?;
        let got = self.door.output(&step.connection, &channel, expected.len())?;
        let shown = String::from_utf8_lossy(&got).into_owned();
        self.exchange(&step.connection).received(&format!("{channel} {shown:?}"));
        if got == expected {
            return Ok(());
        }
        let value = if step.line.ends_with('"') { Value::from(shown.as_str()).to_string() } else { shown.clone() };
        let proposed = format!("{channel} {value}").trim_start().to_owned();
        Err(difference(&format!("{:?}", String::from_utf8_lossy(&expected)), &format!("{shown:?}"), Some(proposed)))
    }

    /// Compares as the file says: as JSON, or byte for byte.
    fn fits(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        if !self.json {
            return self.fits_text(expected, got);
        }
        let wrong = |reason: String| Problem {
            reason: format!("{reason}\n  received: {}", shorten(got)),
            proposed: Some(got.to_owned()),
        };
        let value: Value = serde_json::from_str(expected).map_err(|error| error.to_string())?;
        let got: Value = serde_json::from_str(got).map_err(|error| wrong(format!("not JSON ({error})")))?;
        let mut names = self.names.clone();
        json::compare(&value, &got, &mut names).map_err(wrong)?;
        self.names = names;
        Ok(())
    }

    fn fits_text(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        match Pattern::compile(expected, &self.names)?.matches(got.as_bytes()) {
            Some(found) => {
                self.names.extend(found);
                Ok(())
            }
            None => {
                let shown = pattern::render_text(expected, &self.names).unwrap_or_else(|_| expected.to_owned());
                Err(difference(&shown, got, Some(got.to_owned())))
            }
        }
    }

    fn fits_event(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        if !self.json {
            return self.fits_text(expected, got);
        }
        let wrong = |reason: String| Problem { reason, proposed: Some(got.to_owned()) };
        let (name, data) = expected.split_once(' ').map_or((expected, None), |(name, data)| (name, Some(data)));
        let (got_name, got_data) = got.split_once(' ').unwrap_or((got, ""));
        if name != got_name {
            return Err(wrong(format!("another event: {}", shorten(got))));
        }
        let Some(data) = data else { return Ok(()) };
        self.fits(data, got_data).map_err(|problem| wrong(problem.reason))
    }

    fn exchange(&mut self, connection: &str) -> &mut Exchange {
        self.exchanges.entry(connection.to_owned()).or_default()
    }

    fn shell(&self, command: &str) -> Result<String, Problem> {
        let text = pattern::render_text(command, &self.names)?;
        Ok(shell(&text, &self.directory, |shell| self.door.set_environment(shell, &self.directory))?)
    }
}

fn difference(expected: &str, got: &str, proposed: Option<String>) -> Problem {
    Problem { reason: format!("expected: {}\n  received: {}", shorten(expected), shorten(got)), proposed }
}

fn shell(text: &str, directory: &Path, prepare: impl FnOnce(&mut Command)) -> Result<String, String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-ec").arg(format!("umask 022\n{text}"));
    prepare(&mut shell);
    shell.current_dir(directory);
    let output = house::run(shell);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{text}` ended with {}: {}{}", output.status, printed.trim_end(), complaint.trim_end()))
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
