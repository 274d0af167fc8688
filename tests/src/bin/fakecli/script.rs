//! The words a prompt is made of.
//!
//! | prompt | what happens |
//! |---|---|
//! | `say TEXT` | the answer TEXT |
//! | `stream N` | `0 1 2 …`, N small deltas as fast as possible |
//! | `slow N MS` | the same, MS milliseconds before each |
//! | `sleep SECONDS` | `sleeping`, the time passes, ` done` |
//! | `think TEXT` | a thought, then `thought about TEXT` |
//! | `tool COMMAND` | a shell tool really runs it, then `tool said: OUTPUT` |
//! | `ask COMMAND` | the same, after asking where the mode asks; `denied` or `denied: WHY` if it may not |
//! | `question TEXT` | asks the user to choose Red or Blue (claude); answers `chose …` |
//! | `crash CODE` | a few words, then the process exits with CODE; a negative one is a signal to itself |
//! | `stderr TEXT` | TEXT on standard error and exit 1, before any line of the turn |
//! | `fail TEXT` | the turn fails as it does when the model's API fails |
//! | `garbage` | lines that are no JSON, no UTF-8, of no known type; then an answer |
//! | `bigline BYTES` | one line with a text of that many bytes, then `big line done` |
//! | `hang` | a few words, then neither an end nor an ear for SIGTERM and SIGINT |
//! | `lingering` | an answer; then stdout is closed but the process lives on |
//! | `lingering mute` | the same, but stdout is closed in the middle of the turn |
//! | `grandchild` | leaves a child of a session of its own that holds stdout; says `grandchild PID` |
//! | `event N` | N events in turn: a thought, a text, a tool call, its result |
//! | `model`, `mode`, `cwd` | which one |
//! | `env NAME` | the variable's value, or `unset` |
//! | `resume-id` | the session id that was resumed, or `none` |
//! | `recall` | `earlier: ` and the session's prompts before this one, joined by ` \| ` |
//! | `count TEXT` | `counted N`: the length of TEXT in characters |
//! | anything else | `you said: PROMPT` |
//!
//! A colon may follow the word. Several lines that are all such words are done one after the other, in one turn.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Say(String),
    Stream(u64, Duration),
    Sleep(Duration),
    Think(String),
    Tool(String),
    Ask(String),
    Question(String),
    Crash(i32),
    Stderr(String),
    Fail(String),
    Garbage,
    BigLine(usize),
    Hang,
    Lingering { mute: bool },
    Grandchild,
    Events(u64),
    Model,
    Mode,
    Cwd,
    Env(String),
    ResumeId,
    Recall,
}

pub(crate) fn parse(prompt: &str) -> Vec<Step> {
    let prompt = unquoted(prompt.trim());
    let lines: Vec<&str> = prompt.lines().filter(|line| !line.trim().is_empty()).collect();
    let steps: Vec<Step> = lines.iter().filter_map(|line| step(line)).collect();
    if !steps.is_empty() && steps.len() == lines.len() {
        return steps;
    }
    vec![step(prompt).unwrap_or_else(|| Step::Say(format!("you said: {prompt}")))]
}

/// opencode puts quotes around a prompt of several words that was an argument; they are part of an ordinary answer
/// but not of the script.
fn unquoted(prompt: &str) -> &str {
    let inside = prompt.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.filter(|inside| step(inside).is_some()).unwrap_or(prompt)
}

fn step(text: &str) -> Option<Step> {
    let text = text.trim();
    let (word, rest) = text.split_once(|letter: char| letter.is_whitespace() || letter == ':').unwrap_or((text, ""));
    let rest = rest.trim();
    let alone = rest.is_empty();
    match word {
        "say" => Some(Step::Say(rest.to_owned())),
        "stream" => Some(Step::Stream(rest.parse().ok()?, Duration::ZERO)),
        "slow" => {
            let (count, pause) = rest.split_once(' ')?;
            Some(Step::Stream(count.parse().ok()?, Duration::from_millis(pause.trim().parse().ok()?)))
        }
        "sleep" => Some(Step::Sleep(Duration::try_from_secs_f64(rest.parse().ok()?).ok()?)),
        "think" if !alone => Some(Step::Think(rest.to_owned())),
        "tool" if !alone => Some(Step::Tool(rest.to_owned())),
        "ask" if !alone => Some(Step::Ask(rest.to_owned())),
        "question" if !alone => Some(Step::Question(rest.to_owned())),
        "crash" => Some(Step::Crash(rest.parse().ok()?)),
        "stderr" => Some(Step::Stderr(rest.to_owned())),
        "fail" => Some(Step::Fail(rest.to_owned())),
        "garbage" if alone => Some(Step::Garbage),
        "bigline" => Some(Step::BigLine(rest.parse().ok()?)),
        "hang" if alone => Some(Step::Hang),
        "lingering" if alone || rest == "mute" => Some(Step::Lingering { mute: !alone }),
        "grandchild" if alone => Some(Step::Grandchild),
        "event" | "events" => Some(Step::Events(rest.parse().ok()?)),
        "model" if alone => Some(Step::Model),
        "mode" if alone => Some(Step::Mode),
        "cwd" if alone => Some(Step::Cwd),
        "env" if !alone => Some(Step::Env(rest.to_owned())),
        "resume-id" if alone => Some(Step::ResumeId),
        "recall" if alone => Some(Step::Recall),
        "count" => Some(Step::Say(format!("counted {}", rest.chars().count()))),
        _ => None,
    }
}
