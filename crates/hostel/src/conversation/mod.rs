//! Sessions of agents as people see them: followed in the terminal, answered, told as a document.
//!
//! Invariant: updates are taken in the order of their numbers, each once, also when the daemon goes away in between;
//! a question is answered only by what was typed after it could be read.
//!
//! It knows the house through its own socket alone, and holds nothing of a session that the house does not hold.

mod follow;
mod keyboard;
mod out;
pub(crate) mod page;
pub(crate) mod recorded;
pub(crate) mod start;
pub(crate) mod summary;
pub(crate) mod transcript;
pub(crate) mod update;
pub(crate) mod wire;
pub(crate) mod words;

use std::io::IsTerminal as _;

use hostel_doors::native::protocol::StreamName;

use crate::ui::Ui;
use crate::ui::columns;

pub(crate) use follow::End;
pub(crate) use follow::Follow;
pub(crate) use follow::Format;
pub(crate) use follow::Until;
pub(crate) use keyboard::Keyboard;

/// Columns of a line of ours where there is no terminal to say.
const WIDE: usize = 160;

/// Rows of a screen that does not say.
const HIGH: usize = 24;

/// The start of an id, as much as people need: the first part of a UUID, or twelve characters of anything else.
pub(crate) fn short(id: &str) -> &str {
    let uuid = id.len() == 36 && id.as_bytes().get(8) == Some(&b'-');
    id.get(..if uuid { 8 } else { 12 }).unwrap_or(id)
}

/// Where the parts of a session go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spread {
    /// The answer to standard output, everything else to standard error: an answer can be piped on.
    AnswerAlone,
    /// Everything to standard output, what was asked too.
    Together,
}

/// What our streams are like.
pub(crate) fn look(ui: &Ui, spread: Spread) -> page::Look {
    let (paint_text, colour_err) = ui.colours();
    let width = columns(std::io::stderr()).or(columns(std::io::stdout())).unwrap_or(WIDE);
    let height = crate::ui::screen_size(std::io::stderr()).map_or(HIGH, |(_, rows)| rows);
    match spread {
        Spread::AnswerAlone => page::Look {
            width,
            height,
            paint_text,
            paint_aside: colour_err,
            aside: StreamName::Stderr,
            joined: std::io::stdout().is_terminal() && std::io::stderr().is_terminal(),
            prompts: false,
        },
        Spread::Together => page::Look {
            width: ui.columns().unwrap_or(WIDE),
            height,
            paint_text,
            paint_aside: paint_text,
            aside: StreamName::Stdout,
            joined: true,
            prompts: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shortened_to_what_can_be_typed() {
        assert_eq!(short("0f8fad5b-d9cb-469f-a165-70867728950e"), "0f8fad5b");
        assert_eq!(short("main"), "main");
        assert_eq!(short("a-long-name-of-somebody"), "a-long-name-");
        assert_eq!(short("ééééééééé"), "éééééé");
    }
}
