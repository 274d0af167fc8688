//! What lies over the inbox for a moment: the passphrase, the terms of a grant, a reason, the rules, the help.
//!
//! Invariant: a passphrase is painted as dots and wiped with its dialog.

use std::time::Instant;

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;
use zeroize::Zeroize as _;
use zeroize::Zeroizing;

use super::page::Line;

/// The longest text that can be typed, in characters.
const LONGEST: usize = 1000;

/// A dialog.
#[derive(Debug)]
pub(crate) enum Dialog {
    /// The passphrase, and what is to be done once it was taken.
    Passphrase { typed: Secret, then: Option<Answer>, problem: Option<String>, waiting: bool },
    /// The terms of a grant for a request.
    Grant { id: String, form: GrantForm, opened: Instant },
    /// Why a request is denied.
    Reason { id: String, typed: String },
    /// The word that confirms that others can change what would run as root.
    Changeable { id: String, typed: String, opened: Instant },
    /// Lines to be read.
    Text { title: &'static str, lines: Vec<Line>, scroll: usize },
}

/// The word that confirms that others can change what would run as root.
pub(crate) const CONFIRMATION: &str = "changeable";

/// An answer that waits for the passphrase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) digest: String,
    pub(crate) what: What,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Approve,
    /// Knowing that others can change what would run as root.
    ApproveChangeable,
    Grant(GrantTerms),
    Deny(String),
}

/// The terms of a grant as they were chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GrantTerms {
    pub(crate) scope: &'static str,
    pub(crate) seconds: u64,
    pub(crate) count: Option<u32>,
    pub(crate) privileged: bool,
}

/// A text that is not shown.
#[derive(Default)]
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn length(&self) -> usize {
        self.0.chars().count()
    }

    /// Hands it over and forgets it.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut *self.0)
    }

    /// Takes a key; whether it was one for a text.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('u') && key.modifiers.contains(KeyModifiers::CONTROL) {
            self.0.zeroize();
            return true;
        }
        edit(&mut self.0, key)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(hidden)")
    }
}

/// Changes a typed text by a key; whether it was one for a text.
pub(crate) fn edit(text: &mut String, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(letter) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
            // Room for the whole is taken at once: a text that moves leaves its old place behind.
            if text.capacity() < LONGEST {
                text.reserve_exact(LONGEST * 4);
            }
            if text.chars().count() < LONGEST {
                text.push(letter);
            }
        }
        KeyCode::Backspace => drop(text.pop()),
        _ => return false,
    }
    true
}

/// The form of a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct GrantForm {
    /// Which field is being changed.
    pub(crate) field: Field,
    pub(crate) requester: bool,
    pub(crate) minutes: String,
    pub(crate) count: String,
    /// Whether the request is for root, and whether that is meant.
    pub(crate) root: Option<bool>,
}

/// A field of the form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    Scope,
    Minutes,
    Count,
    Root,
}

impl GrantForm {
    pub(crate) fn new(privileged: bool) -> Self {
        GrantForm {
            field: Field::Minutes,
            requester: false,
            minutes: "10".to_owned(),
            count: String::new(),
            root: privileged.then_some(false),
        }
    }

    fn fields(&self) -> &'static [Field] {
        match self.root {
            Some(_) => &[Field::Scope, Field::Minutes, Field::Count, Field::Root],
            None => &[Field::Scope, Field::Minutes, Field::Count],
        }
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        let fields = self.fields();
        let at = fields.iter().position(|field| *field == self.field).unwrap_or(0);
        let step = |by: usize| fields.get((at + by) % fields.len()).copied().unwrap_or(Field::Minutes);
        match (key.code, self.field) {
            (KeyCode::Tab | KeyCode::Down, _) => self.field = step(1),
            (KeyCode::BackTab | KeyCode::Up, _) => self.field = step(fields.len() - 1),
            (KeyCode::Left | KeyCode::Right | KeyCode::Char(' '), Field::Scope) => self.requester = !self.requester,
            (KeyCode::Left | KeyCode::Right | KeyCode::Char(' '), Field::Root) => {
                self.root = self.root.map(|meant| !meant);
            }
            (KeyCode::Char(digit), Field::Minutes) if digit.is_ascii_digit() && self.minutes.len() < 4 => {
                self.minutes.push(digit);
            }
            (KeyCode::Char(digit), Field::Count) if digit.is_ascii_digit() && self.count.len() < 6 => {
                self.count.push(digit);
            }
            (KeyCode::Backspace, Field::Minutes) => drop(self.minutes.pop()),
            (KeyCode::Backspace, Field::Count) => drop(self.count.pop()),
            _ => {}
        }
    }

    /// The terms, or what is missing.
    pub(crate) fn terms(&self) -> Result<GrantTerms, &'static str> {
        let minutes: u64 = self.minutes.parse().unwrap_or(0);
        if minutes == 0 || minutes > 24 * 60 {
            return Err("a grant lasts from 1 to 1440 minutes");
        }
        let count = match self.count.as_str() {
            "" => None,
            digits => Some(digits.parse().ok().filter(|count| *count > 0).ok_or("a count is at least 1")?),
        };
        if self.root == Some(false) {
            return Err("this runs as root: say yes to that, or leave");
        }
        Ok(GrantTerms {
            scope: if self.requester { "requester" } else { "session" },
            seconds: minutes * 60,
            count,
            privileged: self.root == Some(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(form: &mut GrantForm, codes: &[KeyCode]) {
        for code in codes {
            form.key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
    }

    #[test]
    fn a_grant_is_put_together_by_keys() {
        let mut form = GrantForm::new(false);
        assert_eq!(form.terms(), Ok(GrantTerms { scope: "session", seconds: 600, count: None, privileged: false }));
        press(
            &mut form,
            &[KeyCode::Backspace, KeyCode::Char('5'), KeyCode::Tab, KeyCode::Char('x'), KeyCode::Char('3')],
        );
        press(&mut form, &[KeyCode::Tab, KeyCode::Right]);
        let terms = GrantTerms { scope: "requester", seconds: 900, count: Some(3), privileged: false };
        assert_eq!(form.terms(), Ok(terms));
        press(&mut form, &[KeyCode::Down, KeyCode::Backspace, KeyCode::Backspace]);
        assert!(form.terms().is_err());
    }

    #[test]
    fn root_has_to_be_meant() {
        let mut form = GrantForm::new(true);
        assert!(form.terms().is_err());
        press(&mut form, &[KeyCode::Tab, KeyCode::Tab, KeyCode::Char(' ')]);
        assert!(form.terms().unwrap().privileged);
    }

    #[test]
    fn a_secret_is_typed_and_not_printed() {
        let mut secret = Secret::default();
        for letter in "päss".chars() {
            assert!(secret.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)));
        }
        secret.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
        assert_eq!((secret.length(), format!("{secret:?}").as_str()), (3, "Secret(hidden)"));
        assert!(!secret.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)));
        assert_eq!(secret.take(), "päs");
        assert_eq!(secret.length(), 0);
    }
}
