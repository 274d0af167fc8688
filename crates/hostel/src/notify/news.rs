//! One piece of news: what may be told to a desktop and to another machine.
//!
//! Invariant: it is made of ids, our own words and the name of a program or tool, made visible. There is no field that
//! could hold an argument, a variable, a prompt or an answer.

use hostel_agents::Event;
use hostel_agents::Outcome;
use hostel_house::approvals::Alarm;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Subject;
use serde::Serialize;

use crate::inbox::visible;
use crate::text;

/// The most of a name that is told, in characters.
const NAME: usize = 80;

/// The most of an alarm that is told, in characters.
const ALARM: usize = 400;

/// Something that happened.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct News {
    /// `request`, `turn` or `alarm`.
    pub(super) event: &'static str,
    /// The house, as people call it.
    pub(super) house: String,
    /// The request's id; of a turn, the session's.
    pub(super) id: String,
    /// The kind of request; of a turn, what became of it.
    pub(super) kind: String,
    /// One line for people.
    pub(super) summary: String,
    /// The session, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) session: String,
    /// The turn, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<u64>,
    /// When, RFC 3339.
    pub(super) time: String,
}

impl News {
    /// A request waits.
    pub(super) fn request(house: &str, approval: &Approval) -> Self {
        let summary = match &approval.subject {
            Subject::Tool { tool, .. } => format!("an agent asks to use {}", name(tool)),
            Subject::Question { .. } => "a question waits for an answer".to_owned(),
            Subject::Letter { letter, .. } => format!("a message from the mesh {} waits", name(&letter.mesh)),
            Subject::Pipeline(pipeline) => {
                let programs = pipeline.stages.iter().filter_map(|stage| stage.argv.first());
                let programs: Vec<String> = programs.take(4).map(|program| name(program)).collect();
                let root = if pipeline.privilege.is_privileged() { " as root" } else { "" };
                format!("asks to run {}{root}", programs.join(" | "))
            }
        };
        News {
            event: "request",
            house: house.to_owned(),
            id: approval.id.clone(),
            kind: approval.kind.word().to_owned(),
            summary,
            session: approval.session.clone(),
            turn: Some(approval.turn).filter(|turn| *turn > 0),
            time: now(),
        }
    }

    /// Something that people have to hear of: our own words, with ids and names of rules.
    pub(super) fn alarm(house: &str, alarm: &Alarm) -> Self {
        News {
            event: "alarm",
            house: house.to_owned(),
            kind: "alarm".to_owned(),
            summary: text::cut(&visible::text(&visible::prose(&alarm.text)), ALARM).into_owned(),
            time: now(),
            ..News::default()
        }
    }

    /// A turn has ended, if that is what an event says.
    pub(super) fn turn(house: &str, session: &str, agent: &str, event: &Event) -> Option<Self> {
        let Event::TurnEnded { turn, outcome, .. } = event else { return None };
        let (kind, words) = match outcome {
            Outcome::Completed => ("completed", "is done"),
            Outcome::Failed => ("failed", "has failed"),
            Outcome::Cancelled => ("cancelled", "was stopped"),
        };
        Some(News {
            event: "turn",
            house: house.to_owned(),
            id: session.to_owned(),
            kind: kind.to_owned(),
            summary: format!("{} {words}", name(agent)),
            session: session.to_owned(),
            turn: Some(*turn),
            time: now(),
        })
    }
}

/// A name that somebody else chose: its last part, visible, and not too long.
fn name(foreign: &str) -> String {
    let last = foreign.rsplit('/').next().unwrap_or_default();
    text::cut(&visible::text(&visible::word(last)), NAME).into_owned()
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_visible() {
        assert_eq!(name("/usr/bin/env"), "env");
        assert_eq!(name("rm -rf secret"), "rm␣-rf␣secret");
        assert_eq!(name("a\u{202e}b"), "a⟨U+202E⟩b");
        assert_eq!(name(&"x".repeat(500)).chars().count(), NAME);
    }

    #[test]
    fn ends_of_turns_and_nothing_else_are_told() {
        let ended = Event::TurnEnded {
            turn: 3,
            outcome: Outcome::Failed,
            text: "the password is hunter2".to_owned(),
            usage: hostel_agents::Usage::default(),
        };
        let news = News::turn("home", "s-1", "claude", &ended).unwrap();
        assert_eq!((news.kind.as_str(), news.summary.as_str(), news.turn), ("failed", "claude has failed", Some(3)));
        assert!(!serde_json::to_string(&news).unwrap().contains("hunter2"));
    }
}
