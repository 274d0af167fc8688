//! What keys do to the inbox.
//!
//! Invariant: every answer goes through the guard, also the one behind a dialog, and is bound to the request that was on
//! the screen when its key was pressed.

use std::time::Instant;

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;

use super::dialog::Answer;
use super::dialog::CONFIRMATION;
use super::dialog::Dialog;
use super::dialog::GrantForm;
use super::dialog::Secret;
use super::dialog::What;
use super::dialog::edit;
use super::guard::Hold;
use super::guard::MOMENT;
use super::model::Deed;
use super::model::Model;
use super::page::Look;
use super::page::span;
use super::passphrase;

/// Every key, for `?`.
const HELP: [(&str, &str); 14] = [
    ("y", "approve this request, once"),
    ("n", "deny it"),
    ("r", "deny it and say why"),
    ("g", "approve it, and the same again for a while"),
    ("w", "why it waits: the rules it met"),
    ("↓ ↑  j k", "the next request, the one before"),
    ("PgDn PgUp", "scroll the request; Space is PgDn"),
    ("J K", "scroll it by a line"),
    ("End Home", "its end, its beginning"),
    ("u", "unlock: show the passphrase"),
    ("L", "lock again: forget the unlock"),
    ("?", "this"),
    ("q", "leave; requests go on waiting"),
    ("", "y counts once the end of the request was on the screen"),
];

impl Model {
    /// A key was pressed at that moment.
    pub(crate) fn key(&mut self, key: KeyEvent, pressed: Instant) -> Vec<Deed> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return vec![Deed::Quit];
        }
        match self.dialog.is_some() {
            true => self.dialog_key(key, pressed),
            false => self.plain_key(key, pressed),
        }
    }

    /// Many characters at once: into a text that is being typed, and nowhere else.
    pub(crate) fn paste(&mut self, text: &str) {
        for letter in text.chars().filter(|letter| !letter.is_control()) {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            match &mut self.dialog {
                Some(Dialog::Passphrase { typed, waiting: false, .. }) => drop(typed.key(key)),
                Some(Dialog::Reason { typed, .. }) => drop(edit(typed, key)),
                _ => return,
            }
        }
    }

    fn plain_key(&mut self, key: KeyEvent, pressed: Instant) -> Vec<Deed> {
        let page = self.rows.1.saturating_sub(1).max(1);
        if !matches!(key.code, KeyCode::Char('y' | 'n' | 'r' | 'g')) {
            self.is_replacement = false;
        }
        let last = self.rows.0.saturating_sub(self.rows.1);
        match key.code {
            KeyCode::Char('q') => return vec![Deed::Quit],
            KeyCode::Char('y') if self.has_to_be_confirmed() => {
                if let Some(id) = self.allowed(true, pressed) {
                    self.dialog = Some(Dialog::Changeable { id, typed: String::new(), opened: pressed });
                }
            }
            KeyCode::Char('y') => return self.answer(What::Approve, pressed),
            KeyCode::Char('n') => return self.answer(What::Deny(String::new()), pressed),
            KeyCode::Char('r') => {
                if let Some(id) = self.allowed(false, pressed) {
                    self.dialog = Some(Dialog::Reason { id, typed: String::new() });
                }
            }
            KeyCode::Char('g') if self.has_to_be_confirmed() => {
                self.say("no grant covers code that others can change", Look::Caution, pressed);
            }
            KeyCode::Char('g') => {
                if let Some(id) = self.allowed(true, pressed) {
                    let privileged = self.current().is_some_and(|item| item.request.privileged());
                    self.dialog = Some(Dialog::Grant { id, form: GrantForm::new(privileged), opened: pressed });
                }
            }
            KeyCode::Char('w') => {
                if let Some(item) = self.current() {
                    return vec![Deed::Why { house: item.house, id: item.request.id.clone() }];
                }
            }
            KeyCode::Char('u') => self.ask_passphrase(None, pressed),
            KeyCode::Char('L') => {
                for house in &mut self.houses {
                    house.unlocked = false;
                }
                self.say("locked", Look::Dim, pressed);
                return vec![Deed::Lock];
            }
            KeyCode::Char('?') => self.help(),
            KeyCode::Char('J') => self.scroll = (self.scroll + 1).min(last),
            KeyCode::Char('K') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll = (self.scroll + page).min(last),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::End | KeyCode::Char('G') => self.scroll = last,
            KeyCode::Home => self.scroll = 0,
            KeyCode::Char('j') | KeyCode::Down | KeyCode::Tab | KeyCode::Right => {
                return self.select(self.selected + 1);
            }
            KeyCode::Char('k') | KeyCode::Up | KeyCode::BackTab | KeyCode::Left => {
                return self.select(self.selected.saturating_sub(1));
            }
            _ => {}
        }
        Vec::new()
    }

    fn select(&mut self, position: usize) -> Vec<Deed> {
        let position = position.min(self.items.len().saturating_sub(1));
        let mut deeds = Vec::new();
        if position != self.selected {
            self.selected = position;
            self.changed_subject(&mut deeds);
        }
        deeds
    }

    /// Whether approving the request on the screen takes more than a key.
    fn has_to_be_confirmed(&self) -> bool {
        self.current().is_some_and(|item| item.request.has_to_be_confirmed())
    }

    /// The request on the screen, if a key pressed at that moment may answer it.
    fn allowed(&mut self, approves: bool, pressed: Instant) -> Option<String> {
        let id = self.current()?.request.id.clone();
        if std::mem::take(&mut self.is_replacement) {
            let words = "the request that was here is gone, this is another one; press the key again if you mean it";
            self.say(words, Look::Caution, pressed);
            return None;
        }
        let held = match approves {
            true => self.guard.may_approve(&id, pressed),
            false => self.guard.may_deny(&id, pressed),
        };
        match held {
            Ok(()) => Some(id),
            Err(Hold::Unread) => {
                self.say("read it to its end first: Space, PgDn or End", Look::Caution, pressed);
                None
            }
            Err(Hold::TooSoon) => {
                self.say("it has only just appeared; look first", Look::Caution, pressed);
                None
            }
        }
    }

    fn answer(&mut self, what: What, pressed: Instant) -> Vec<Deed> {
        match self.allowed(!matches!(what, What::Deny(_)), pressed) {
            Some(id) => self.give(&id, what, pressed),
            None => Vec::new(),
        }
    }

    /// Gives an answer that the guard let through; asks for the passphrase first where that is needed.
    fn give(&mut self, id: &str, what: What, pressed: Instant) -> Vec<Deed> {
        let Some(item) = self.items.iter().find(|item| item.request.id == *id) else { return Vec::new() };
        let answer = Answer { id: id.to_owned(), digest: item.request.digest.clone(), what };
        let house = item.house;
        if self.houses.get(house).is_some_and(|house| house.unlocked) {
            self.answered = Some(answer.id.clone());
            return vec![Deed::Decide { house, answer }];
        }
        self.ask_passphrase(Some(answer), pressed);
        Vec::new()
    }

    fn ask_passphrase(&mut self, then: Option<Answer>, now: Instant) {
        if !self.houses.iter().any(|house| house.has_passphrase) {
            let words = "no passphrase is set; set one with `hostel approver set` in another terminal";
            return self.say(words, Look::Danger, now);
        }
        if then.is_none() && self.unlocked() {
            return self.say("it is unlocked", Look::Dim, now);
        }
        if let Err(error) = passphrase::keep_memory_private() {
            return self.say(error.to_string(), Look::Danger, now);
        }
        self.dialog = Some(Dialog::Passphrase { typed: Secret::default(), then, problem: None, waiting: false });
    }

    fn dialog_key(&mut self, key: KeyEvent, pressed: Instant) -> Vec<Deed> {
        let Some(mut dialog) = self.dialog.take() else { return Vec::new() };
        if key.code == KeyCode::Esc {
            return Vec::new();
        }
        let mut deeds = Vec::new();
        let keep = match &mut dialog {
            Dialog::Passphrase { typed, problem, waiting, .. } => {
                match key.code {
                    KeyCode::Enter if typed.length() > 0 && !*waiting => {
                        (*waiting, *problem) = (true, None);
                        let locked = self.houses.iter().enumerate();
                        let locked = locked.filter(|(_, house)| house.connected && !house.unlocked);
                        let houses = locked.map(|(position, _)| position).collect();
                        deeds.push(Deed::Unlock { houses, passphrase: typed.take() });
                    }
                    _ if !*waiting => drop(typed.key(key)),
                    _ => {}
                }
                true
            }
            Dialog::Reason { id, typed } => match key.code {
                KeyCode::Enter => {
                    let (id, reason) = (id.clone(), std::mem::take(typed));
                    return self.give(&id, What::Deny(reason), pressed);
                }
                _ => {
                    edit(typed, key);
                    true
                }
            },
            Dialog::Changeable { id, typed, opened } => match key.code {
                KeyCode::Enter if pressed.saturating_duration_since(*opened) < MOMENT => true,
                KeyCode::Enter if typed == CONFIRMATION => {
                    let id = id.clone();
                    return self.give(&id, What::ApproveChangeable, pressed);
                }
                KeyCode::Enter => {
                    self.say(format!("type {CONFIRMATION}, or leave with Esc"), Look::Caution, pressed);
                    true
                }
                _ => {
                    edit(typed, key);
                    true
                }
            },
            Dialog::Grant { id, form, opened } => match key.code {
                KeyCode::Enter if pressed.saturating_duration_since(*opened) < MOMENT => true,
                KeyCode::Enter => match form.terms() {
                    Ok(terms) => {
                        let id = id.clone();
                        return self.give(&id, What::Grant(terms), pressed);
                    }
                    Err(words) => {
                        self.say(words, Look::Caution, pressed);
                        true
                    }
                },
                KeyCode::Char('q') => false,
                _ => {
                    form.key(key);
                    true
                }
            },
            Dialog::Text { lines, scroll, .. } => match key.code {
                KeyCode::Char('j') | KeyCode::Down => {
                    *scroll = (*scroll + 1).min(lines.len().saturating_sub(1));
                    true
                }
                KeyCode::Char('k') | KeyCode::Up => {
                    *scroll = scroll.saturating_sub(1);
                    true
                }
                _ => false,
            },
        };
        if keep && self.dialog.is_none() {
            self.dialog = Some(dialog);
        }
        deeds
    }

    fn help(&mut self) {
        let line = |(keys, words): &(&str, &str)| {
            vec![span(format!("{keys:<10}"), Look::Accent), span((*words).to_owned(), Look::Plain)]
        };
        self.dialog = Some(Dialog::Text { title: "Keys", lines: HELP.iter().map(line).collect(), scroll: 0 });
    }
}
