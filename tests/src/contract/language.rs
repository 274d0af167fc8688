//! The signs and directives of the language, and what each door uses of them and adds to them.
//!
//! A data file that uses a sign, directive, setting or variant its door does not have is refused when it is read.

/// What a line does. The sign is the first word of the line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Sign {
    /// `$ command`
    Shell,
    /// `$= name command`
    Capture,
    /// `> text`
    Send,
    /// `>. text`
    SendPart,
    /// `>> text`
    Call,
    /// `>- text`
    Notify,
    /// `>+ Name: value`
    Header,
    /// `>: METHOD PATH body`
    Request,
    /// `< text`
    Message,
    /// `<= text`
    Result,
    /// `<! code message`
    Error,
    /// `<# status body`
    Status,
    /// `<#? status body`
    EventualStatus,
    /// `<+ name: value`
    HasHeader,
    /// `<- name`
    LacksHeader,
    /// `<* text`
    Contains,
    /// `<~ event`
    Event,
    /// `<~? event`
    EventualEvent,
    /// `<~! event`
    NoEvent,
    /// `<$`
    StreamEnd,
    /// `~ channel "text"`
    Output,
    /// `! directive`
    Directive,
}

impl Sign {
    /// All signs, as they are written.
    pub const ALL: [(&'static str, Self); 22] = [
        ("$", Self::Shell),
        ("$=", Self::Capture),
        (">", Self::Send),
        (">.", Self::SendPart),
        (">>", Self::Call),
        (">-", Self::Notify),
        (">+", Self::Header),
        (">:", Self::Request),
        ("<", Self::Message),
        ("<=", Self::Result),
        ("<!", Self::Error),
        ("<#", Self::Status),
        ("<#?", Self::EventualStatus),
        ("<+", Self::HasHeader),
        ("<-", Self::LacksHeader),
        ("<*", Self::Contains),
        ("<~", Self::Event),
        ("<~?", Self::EventualEvent),
        ("<~!", Self::NoEvent),
        ("<$", Self::StreamEnd),
        ("~", Self::Output),
        ("!", Self::Directive),
    ];

    /// The sign that is written so.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(written, _)| *written == text).map(|(_, sign)| *sign)
    }

    /// How the sign is written.
    pub fn written(self) -> &'static str {
        Self::ALL.iter().find(|(_, sign)| *sign == self).map_or("", |(written, _)| written)
    }

    /// Whether every door has this sign.
    fn is_common(self) -> bool {
        matches!(self, Self::Shell | Self::Capture | Self::Directive)
    }

    /// Whether a line with this sign can fail because of the daemon. Directives say so themselves.
    pub fn expects(self) -> bool {
        match self {
            Self::Shell => true,
            Self::Capture | Self::Directive => false,
            Self::Send | Self::SendPart | Self::Call | Self::Notify | Self::Header | Self::Request => false,
            _ => true,
        }
    }
}

/// Something that can be written behind `!`, or behind `=` before the first case.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word and what follows it, for the reader of the documentation.
    pub usage: &'static str,
    /// One line of description. `tests/CONTRACTS.md` repeats it.
    pub meaning: &'static str,
    /// Whether it is an expectation.
    pub expects: bool,
}

impl Word {
    /// A word that does something.
    pub const fn new(usage: &'static str, meaning: &'static str) -> Self {
        Self { usage, meaning, expects: false }
    }

    /// A word that checks something.
    pub const fn expecting(usage: &'static str, meaning: &'static str) -> Self {
        Self { usage, meaning, expects: true }
    }

    /// The word alone.
    pub fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }
}

/// The directives every door understands.
pub const COMMON_DIRECTIVES: [Word; 2] = [
    Word::new("only-if command", "leave the case out, with a line that says so, unless the shell command succeeds"),
    Word::expecting("log text", "the daemon's log contains the text, now or soon"),
];

/// Directives the interpreter knows; a door names those it supports.
pub const STANDARD_DIRECTIVES: [Word; 11] = [
    Word::new("fresh-daemon options", "first line of a case: a daemon for this case alone"),
    Word::new("half-close", "the client has finished sending and goes on reading"),
    Word::new("cut", "close the connection from this side; the next use of its name opens another"),
    Word::new("reconnect", "open a new connection in place of the present one"),
    Word::expecting("closed", "the daemon closes the connection and sends nothing more"),
    Word::expecting("silent", "nothing arrives and the connection stays open for a moment"),
    Word::expecting("nothing-left", "everything that arrived so far was looked at"),
    Word::expecting("daemon-gone", "the daemon ends by itself"),
    Word::new("kill", "end the daemon with SIGKILL"),
    Word::new("start", "start the daemon again"),
    Word::new("restart", "ask the daemon to end, and start it again"),
];

/// What a door has of the language.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// The folder below `tests/`.
    pub door: &'static str,
    /// The signs it has beside `$`, `$=` and `!`.
    pub signs: &'static [Sign],
    /// The names of the standard directives it supports.
    pub standard: &'static [&'static str],
    /// Directives of its own.
    pub directives: &'static [Word],
    /// Settings of a file, beside `json`.
    pub settings: &'static [Word],
    /// What a case can be limited to: `@[variant] title`.
    pub variants: &'static [&'static str],
    /// Names that have a value from the start, beside `DIR` and `CASE`, each with a description.
    pub placeholders: &'static [(&'static str, &'static str)],
}

impl Language {
    /// Whether the door has this sign.
    pub fn has(&self, sign: Sign) -> bool {
        sign.is_common() || self.signs.contains(&sign)
    }

    /// The directive of this name, if the door has it.
    pub fn directive(&self, name: &str) -> Option<Word> {
        let standard = STANDARD_DIRECTIVES.iter().filter(|word| self.standard.contains(&word.name()));
        COMMON_DIRECTIVES.iter().chain(standard).chain(self.directives).find(|word| word.name() == name).copied()
    }

    /// The setting of this name, if the door has it.
    pub fn setting(&self, name: &str) -> Option<Word> {
        self.settings.iter().find(|word| word.name() == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary;
    use crate::contract::{claudemesh, claustrum, codecast, sudo_proxy, zeroclaw};

    const LANGUAGES: [Language; 5] =
        [claustrum::LANGUAGE, zeroclaw::LANGUAGE, codecast::LANGUAGE, sudo_proxy::LANGUAGE, claudemesh::LANGUAGE];

    #[test]
    fn the_documentation_lists_every_word_with_its_description() {
        let page = std::fs::read_to_string(binary::repository().join("tests/CONTRACTS.md")).expect("the page");
        let row = |usage: &str, meaning: &str| format!("| `{usage}` | {meaning} |");
        let mut missing = Vec::new();
        for word in COMMON_DIRECTIVES.iter().chain(&STANDARD_DIRECTIVES) {
            missing.push(row(word.usage, word.meaning));
        }
        for language in LANGUAGES {
            assert!(page.contains(&format!("### {}\n", language.door)), "no section {}", language.door);
            for word in language.directives {
                missing.push(row(&format!("! {}", word.usage), word.meaning));
            }
            for word in language.settings {
                missing.push(row(&format!("= {}", word.usage), word.meaning));
            }
            for (name, meaning) in language.placeholders {
                missing.push(row(&format!("${{{name}}}"), meaning));
            }
        }
        for (written, _) in Sign::ALL {
            assert!(page.contains(&format!("| `{written}")), "the page does not describe `{written}`");
        }
        missing.retain(|row| !page.contains(row.as_str()));
        assert!(missing.is_empty(), "rows that tests/CONTRACTS.md lacks:\n{}", missing.join("\n"));
    }

    #[test]
    fn a_door_names_only_standard_directives_that_exist_and_adds_no_second_meaning() {
        for language in LANGUAGES {
            for name in language.standard {
                assert!(STANDARD_DIRECTIVES.iter().any(|word| word.name() == *name), "{}: {name}", language.door);
            }
            for word in language.directives {
                let known =
                    STANDARD_DIRECTIVES.iter().chain(&COMMON_DIRECTIVES).any(|other| other.name() == word.name());
                assert!(!known, "{}: {} is a standard directive", language.door, word.name());
            }
        }
    }
}
