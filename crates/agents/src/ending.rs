//! What the end of a process means for the turn that ran in it.
//!
//! Invariant: a turn that has closed with a word of the agent's own keeps the outcome of that word; how the process
//! ended after it adds at most an error event. Without such a word the exit decides.
//!
//! It never looks at output: a driver says what it has understood.

use crate::driver::{Exit, Heard, TurnOver};
use crate::event::{Event, Outcome, Usage};
use crate::launch::{Hosting, Setup};
use crate::text;

/// How much of what a program said on standard error goes into a message.
const STDERR_LIMIT: usize = 4096;

/// The closing word of an agent.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub(crate) struct Closing {
    /// What became of the turn.
    pub(crate) outcome: Outcome,
    /// Why it failed.
    pub(crate) reason: String,
    /// What it cost.
    pub(crate) usage: Usage,
}

/// Closes the running turn because its process is gone.
///
/// `closing` is the agent's own word for it, if it came; `complaint` the last error it told, for a turn without one.
pub(crate) fn of_process(
    setup: &Setup,
    exit: Exit,
    stderr: &str,
    closing: Option<Closing>,
    complaint: Option<String>,
    heard: &mut Heard,
) {
    let abnormal = abnormal_exit(exit, stderr);
    let cancelled = closing.as_ref().is_some_and(|closing| closing.outcome == Outcome::Cancelled);
    if let Some(message) = &abnormal
        && !exit.stopped
        && !cancelled
    {
        heard.events.push(Event::Error { message: message.clone() });
    }
    let closing = closing.unwrap_or_else(|| {
        let (outcome, reason) = without_word(setup, exit, complaint.or(abnormal), stderr);
        Closing { outcome, reason, usage: Usage::default() }
    });
    heard.over = Some(TurnOver { outcome: closing.outcome, reason: closing.reason, usage: closing.usage });
}

/// The message for an exit status other than 0. It says `Claude` for every program: clients look for that text.
fn abnormal_exit(exit: Exit, stderr: &str) -> Option<String> {
    if exit.lost || exit.signal != 0 || exit.code <= 0 {
        return None;
    }
    Some(format!("Claude process exited abnormally (code={}, signal=null){}", exit.code, last_words(stderr)))
}

/// The end of what it said on standard error, after a colon; nothing for nothing.
fn last_words(stderr: &str) -> String {
    let stderr = text::plain(text::tail(stderr.trim(), STDERR_LIMIT));
    let stderr = stderr.trim();
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

fn without_word(setup: &Setup, exit: Exit, message: Option<String>, stderr: &str) -> (Outcome, String) {
    let program = program(setup);
    if exit.stopped {
        (Outcome::Cancelled, String::new())
    } else if exit.lost {
        (Outcome::Failed, format!("{program}: its keeper died"))
    } else if exit.signal != 0 {
        (Outcome::Failed, format!("{program} was killed by {}", signal_name(exit.signal)))
    } else if exit.code == 0 && setup.hosting == Hosting::PerMessage && message.is_none() {
        (Outcome::Completed, String::new())
    } else {
        let unexplained = || format!("{program} ended without an answer{}", last_words(stderr));
        (Outcome::Failed, message.unwrap_or_else(unexplained))
    }
}

fn program(setup: &Setup) -> &str {
    let first = setup.command.first().map_or(setup.kind.name(), String::as_str);
    first.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(first)
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Kind, Mode};

    fn setup(hosting: Hosting) -> Setup {
        Setup {
            kind: Kind::Gemini,
            hosting,
            mode: Mode::Auto,
            model: None,
            resume: None,
            cwd: "/p".into(),
            command: vec!["/opt/bin/gemini".into()],
            prompt: None,
            root: false,
            used: None,
        }
    }

    const EXIT: Exit = Exit { code: 0, signal: 0, lost: false, stopped: false };

    fn over(hosting: Hosting, exit: Exit, stderr: &str, closing: Option<Outcome>) -> (Vec<Event>, Outcome, String) {
        let mut heard = Heard::default();
        let closing = closing.map(|outcome| Closing { outcome, reason: "as told".to_owned(), usage: Usage::default() });
        of_process(&setup(hosting), exit, stderr, closing, None, &mut heard);
        let over = heard.over.unwrap();
        (heard.events, over.outcome, over.reason)
    }

    #[test]
    fn an_exit_with_0_completes_only_the_turn_of_a_process_made_for_it() {
        assert_eq!(over(Hosting::PerMessage, EXIT, "noise", None), (vec![], Outcome::Completed, String::new()));
        let (events, outcome, reason) = over(Hosting::Warm, EXIT, "\x1b[31mbye\x1b[0m\n", None);
        assert_eq!((events, outcome), (vec![], Outcome::Failed));
        assert_eq!(reason, "gemini ended without an answer: bye");
    }

    #[test]
    fn an_exit_status_is_told_with_the_last_words() {
        let exit = Exit { code: 3, ..EXIT };
        let message = "Claude process exited abnormally (code=3, signal=null): no key";
        let expected = vec![Event::Error { message: message.to_owned() }];
        assert_eq!(
            over(Hosting::PerMessage, exit, "\nno key\n", None),
            (expected.clone(), Outcome::Failed, message.to_owned())
        );
        assert_eq!(
            over(Hosting::PerMessage, exit, "no key", Some(Outcome::Completed)),
            (expected, Outcome::Completed, "as told".to_owned())
        );
        let (events, ..) = over(Hosting::PerMessage, exit, "", None);
        let message = "Claude process exited abnormally (code=3, signal=null)".to_owned();
        assert_eq!(events, vec![Event::Error { message }]);
    }

    #[test]
    fn what_was_stopped_is_no_failure() {
        let exit = Exit { code: 143, stopped: true, ..EXIT };
        assert_eq!(over(Hosting::PerMessage, exit, "x", None), (vec![], Outcome::Cancelled, String::new()));
        let aborted = Exit { code: 1, ..EXIT };
        let (events, outcome, _) = over(Hosting::PerMessage, aborted, "x", Some(Outcome::Cancelled));
        assert_eq!((events, outcome), (vec![], Outcome::Cancelled));
    }

    #[test]
    fn a_foreign_signal_and_a_lost_keeper_fail_without_an_error_event() {
        let killed = Exit { code: -1, signal: 9, ..EXIT };
        let expected = (vec![], Outcome::Failed, "gemini was killed by signal 9 (SIGKILL)".to_owned());
        assert_eq!(over(Hosting::Warm, killed, "x", None), expected);
        let odd = Exit { code: -1, signal: 40, ..EXIT };
        assert_eq!(over(Hosting::Warm, odd, "", None).2, "gemini was killed by signal 40");
        let lost = Exit { code: -1, lost: true, ..EXIT };
        assert_eq!(
            over(Hosting::Warm, lost, "x", None),
            (vec![], Outcome::Failed, "gemini: its keeper died".to_owned())
        );
    }
}
