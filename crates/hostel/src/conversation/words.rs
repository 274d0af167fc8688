//! What pages and documents say in the same words: verdicts, costs, times, and long texts made short.

use std::time::Duration;

use hostel_doors::native::protocol::GuardInfo;

use super::update::Usage;
use crate::text;
use crate::ui::Paint;

/// Lines of a prompt, or of what an agent asks for, that are shown before the rest is only counted.
pub(super) const LONG: usize = 40;

/// The same for the characters of one such line.
const LONG_LINE: usize = 2_000;

/// How a question was settled, in words.
pub(crate) fn verdict(decision: &str) -> (Paint, &'static str) {
    match decision {
        "allow_once" | "approved" => (Paint::Green, "allowed once"),
        "allow_changeable" => (Paint::Green, "allowed once, although others can change it"),
        "allow_always" => (Paint::Green, "always allowed in this session"),
        "reject" | "reject_once" | "denied" => (Paint::Red, "denied"),
        "reject_with_edit" => (Paint::Red, "denied, with an answer in its place"),
        "answers" => (Paint::Green, "answered"),
        "expired" => (Paint::Red, "nobody answered in time"),
        "withdrawn" => (Paint::Dim, "no longer wanted"),
        _ => (Paint::Dim, "settled"),
    }
}

/// The guard around an agent, and why it is not stronger.
pub(crate) fn guard(guard: &GuardInfo) -> String {
    let what = match guard.active.as_str() {
        "full" => {
            "full: the agent sees neither the house nor its keys, and can signal and trace only its own processes"
        }
        "view" => "view: the agent sees neither the house nor its keys",
        "scopes" => "scopes: the agent can signal and trace only its own processes",
        _ => "none: the agent can read and signal what you can",
    };
    match &guard.why_not_stronger {
        Some(reason) => format!("{what}; {reason}"),
        None => what.to_owned(),
    }
}

/// Tokens and money of a turn or a session; empty where nothing is known.
pub(crate) fn cost(usage: &Usage) -> String {
    let mut parts = Vec::new();
    if usage.input_tokens > 0 || usage.output_tokens > 0 {
        let cached = match usage.cached_tokens {
            0 => String::new(),
            cached => format!(" ({} cached)", text::count(cached)),
        };
        let (read, written) = (text::count(usage.input_tokens), text::count(usage.output_tokens));
        parts.push(format!("tokens {read} in{cached}, {written} out"));
    }
    if usage.cost_usd > 0.0 {
        parts.push(text::dollars(usage.cost_usd));
    }
    parts.join(" · ")
}

/// A time as short as it can be said.
pub(crate) fn brief(took: Duration) -> String {
    match took.as_millis() {
        0..=999 => text::duration(Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(0))),
        1_000..=9_999 => format!("{:.1}s", took.as_secs_f64()),
        _ => text::duration(took),
    }
}

/// Foreign text of several lines made harmless, with what is too much only counted. Not for what a person agrees to.
pub(super) fn shortened(foreign: &str) -> String {
    let safe = text::prose(foreign);
    let total = safe.lines().count();
    let mut shown = String::new();
    for line in safe.lines().take(LONG) {
        let length = line.chars().count();
        if length > LONG_LINE {
            shown.extend(line.chars().take(LONG_LINE));
            shown.push_str(&format!(" … {} more characters", length - LONG_LINE));
        } else {
            shown.push_str(line);
        }
        shown.push('\n');
    }
    if total > LONG {
        shown.push_str(&format!("… {} more lines\n", total - LONG));
    }
    shown
}
