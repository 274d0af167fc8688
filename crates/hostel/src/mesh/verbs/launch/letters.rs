//! The turns that messages from the mesh begin by themselves, noticed while a prompt is waited for.
//!
//! Invariant: each such turn is told of once, in the order in which they run, also those that ran while nobody listened
//! and while the house was away. Giving up waiting loses nothing.
//!
//! It puts nothing to the agent: whether a message becomes a prompt is decided and kept by the house.

use std::time::Duration;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Message;
use hostel_doors::native::client::Messages;
use hostel_doors::native::client::Questions;
use hostel_doors::native::client::decode;
use hostel_house::sessions::LETTERS;
use serde::Deserialize;
use serde_json::json;

use crate::conversation::update::Update;
use crate::conversation::update::What;
use crate::conversation::wire::Attached;
use crate::houses::House;

/// The pause before a house that is away is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What became known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
    /// A message is put to the agent.
    Turn {
        turn: u64,
        /// The number of the last update before it.
        after: u64,
    },
    /// The turn that was waited for begins, or is over.
    Due,
    /// Somebody closed the session.
    Closed,
}

pub(super) struct Letters {
    house: House,
    session: String,
    /// A connection; the half that asks has nothing more to ask, but its end would be the end of both.
    stream: Option<(Questions, Messages)>,
    heard: Heard,
}

/// How far it was listened.
#[derive(Debug, Default)]
struct Heard {
    /// The number of the last update that was looked at.
    seq: u64,
    /// The last turn that was told of.
    turn: u64,
}

impl Letters {
    /// Those of a session that was just made.
    pub(super) fn new(house: House, session: String) -> Self {
        Letters { house, session, stream: None, heard: Heard::default() }
    }

    /// Waits for the next.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            match self.listen(None).await {
                Ok(told) => return told,
                // Whatever it is: there is nothing to show until the house can be asked again.
                Err(_) => {
                    self.stream = None;
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Waits for the next that comes before a turn, or for that turn.
    pub(super) async fn until(&mut self, turn: u64) -> Result<Told, ClientError> {
        self.listen(Some(turn)).await
    }

    /// Nobody is told of anything for a while: what comes meanwhile stays with the house.
    pub(super) fn rest(&mut self) {
        self.stream = None;
    }

    async fn listen(&mut self, due: Option<u64>) -> Result<Told, ClientError> {
        let stream = match &mut self.stream {
            Some((_, stream)) => stream,
            None => {
                let (mut questions, mut messages) = self.house.connect().await?.split();
                // Several updates may bear one number.
                let since = self.heard.seq.saturating_sub(1);
                let params = json!({"session_id": self.session, "since_seq": since, "follow": true});
                let asked = questions.send("session/attach", &params).await?;
                loop {
                    if let Message::Answer { id, result } = messages.next().await?
                        && id == asked
                    {
                        decode::<Attached>(result)?;
                        break;
                    }
                }
                &mut self.stream.insert((questions, messages)).1
            }
        };
        loop {
            if let Message::Notification { method, params } = stream.next().await?
                && method == "session/update"
                && let Some(told) = self.heard.look(&self.session, params.get(), due)?
            {
                return Ok(told);
            }
        }
    }
}

impl Heard {
    /// Looks at an update of a session; `due` is a turn that is waited for.
    fn look(&mut self, session: &str, params: &str, due: Option<u64>) -> Result<Option<Told>, ClientError> {
        let protocol = |error: serde_json::Error| ClientError::Protocol(error.to_string());
        let of: Of<'_> = serde_json::from_str(params).map_err(protocol)?;
        if of.session_id != session {
            return Ok(None);
        }
        let update = Update::parse(params).map_err(protocol)?;
        self.seq = self.seq.max(update.seq);
        Ok(match update.what {
            What::TurnStarted { .. } | What::TurnEnded { .. } if due.is_some_and(|due| update.turn >= due) => {
                Some(Told::Due)
            }
            What::TurnStarted { door, .. } if door == LETTERS && update.turn > self.turn => {
                self.turn = update.turn;
                Some(Told::Turn { turn: update.turn, after: update.seq.saturating_sub(1) })
            }
            What::Closed => Some(Told::Closed),
            _ => None,
        })
    }
}

#[derive(Deserialize)]
struct Of<'a> {
    #[serde(default, borrow)]
    session_id: std::borrow::Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_is_told_of_once_and_nothing_else_is() {
        let mut heard = Heard::default();
        let mut look = |update: serde_json::Value| heard.look("s", &update.to_string(), None).unwrap();
        let started = |session: &str, seq: u64, turn: u64, door: &str| json!({"type": "turn_started", "session_id": session, "seq": seq, "turn": turn, "door": door});
        assert_eq!(look(started("s", 1, 1, "native")), None, "a person's own");
        assert_eq!(look(started("other", 3, 7, LETTERS)), None, "another session's");
        let second = Some(Told::Turn { turn: 2, after: 4 });
        assert_eq!(look(started("s", 5, 2, LETTERS)), second);
        // After a break the last are told again.
        assert_eq!(look(started("s", 1, 1, "native")), None);
        assert_eq!(look(started("s", 5, 2, LETTERS)), None);
        assert_eq!(look(started("s", 9, 3, LETTERS)), Some(Told::Turn { turn: 3, after: 8 }));
        assert_eq!(look(json!({"type": "session_closed", "session_id": "s"})), Some(Told::Closed));
        assert!(heard.look("s", "{", None).is_err());
        assert_eq!(heard.seq, 9);
    }

    #[test]
    fn those_before_a_turn_are_told_of_before_it() {
        let mut heard = Heard::default();
        let mut look = |kind: &str, seq: u64, turn: u64, door: &str, due: u64| {
            let update = json!({"type": kind, "session_id": "s", "seq": seq, "turn": turn, "door": door});
            heard.look("s", &update.to_string(), Some(due)).unwrap()
        };
        assert_eq!(look("turn_started", 2, 1, LETTERS, 3), Some(Told::Turn { turn: 1, after: 1 }));
        assert_eq!(look("turn_complete", 3, 1, "", 3), None);
        assert_eq!(look("turn_started", 4, 2, "native", 3), None, "somebody else's");
        assert_eq!(look("turn_started", 6, 3, "native", 3), Some(Told::Due));
        // One that was taken back never begins.
        assert_eq!(look("turn_complete", 7, 4, "", 4), Some(Told::Due));
        // What comes after it is told of when it is its turn.
        assert_eq!(look("turn_started", 9, 5, LETTERS, 4), Some(Told::Due));
        assert_eq!(look("turn_started", 9, 5, LETTERS, 6), Some(Told::Turn { turn: 5, after: 8 }));
    }
}
