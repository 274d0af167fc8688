//! The state of the full-screen inbox, and what changes it.
//!
//! Invariant: pure but for the clock that is handed in. Keys, news of houses and the passing of time come in, things to
//! be done come out; an answer comes out only where [`Guard`] lets it.

use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use super::dialog::Answer;
use super::dialog::Dialog;
use super::guard::Guard;
use super::page::Look;
use super::request::Request;

/// How long a remark stays.
const REMARK: Duration = Duration::from_secs(8);

/// One house, as far as the face knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HouseState {
    pub(crate) label: String,
    pub(crate) connected: bool,
    /// This connection has shown the passphrase.
    pub(crate) unlocked: bool,
    /// Whether a passphrase is set at all.
    pub(crate) has_passphrase: bool,
}

/// One request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) house: usize,
    pub(crate) request: Request,
    /// Not all of it is here yet.
    pub(crate) abridged: bool,
    /// What would be painted, in a number: another number is another page.
    pub(crate) form: u64,
    /// The house was told that it was shown.
    told: bool,
    /// Its files were looked at.
    looked: bool,
}

/// Something a house said.
#[derive(Debug)]
pub(crate) enum HouseNews {
    Connected {
        has_passphrase: bool,
    },
    Lost,
    /// It does not let this program decide, or does not know how.
    Refused(String),
    /// Everything that waits.
    Pending(Vec<Value>),
    /// One request, whole.
    Whole(Value),
    /// The passphrase was taken, or why not.
    Unlocked(Result<(), String>),
    /// An answer was taken, or why not.
    Decided {
        id: String,
        what: &'static str,
        outcome: Result<Option<u64>, Refused>,
    },
    /// The rules a request met.
    Why(Vec<super::page::Line>),
}

/// Why an answer was not taken.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) words: String,
    /// The connection is not unlocked any more.
    pub(crate) locked: bool,
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Deed {
    /// To every house that is connected and locked.
    Unlock {
        houses: Vec<usize>,
        passphrase: String,
    },
    /// To every house: forget the unlock.
    Lock,
    Decide {
        house: usize,
        answer: Answer,
    },
    Why {
        house: usize,
        id: String,
    },
    Shown {
        house: usize,
        id: String,
    },
    /// Ask for all of it.
    Fetch {
        house: usize,
        id: String,
    },
    /// Look at its files.
    Look {
        request: Box<Request>,
    },
    /// What was typed until now is not meant for what is shown from now on.
    Drain,
    Bell,
    Quit,
    /// There is no use in staying.
    Fail(String),
}

/// Everything there is on the screen.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) houses: Vec<HouseState>,
    /// Oldest first.
    pub(crate) items: Vec<Item>,
    pub(crate) selected: usize,
    /// The first row of the page that is shown.
    pub(crate) scroll: usize,
    /// Rows of the page, and how many of them fit; as last painted.
    pub(crate) rows: (usize, usize),
    pub(crate) guard: Guard,
    /// What was answered here last: its going is no surprise.
    pub(crate) answered: Option<String>,
    /// The request on the screen took the place of one that went by itself, and no key was pressed since. The next key may
    /// be meant for the one before, however long ago that was shown.
    pub(crate) is_replacement: bool,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) remark: Option<(String, Look, Instant)>,
    /// Whether a new request rings.
    pub(crate) bell: bool,
}

impl Model {
    pub(crate) fn current(&self) -> Option<&Item> {
        self.items.get(self.selected)
    }

    pub(crate) fn add_house(&mut self, label: String) -> usize {
        self.houses.push(HouseState { label, ..HouseState::default() });
        self.houses.len() - 1
    }

    /// Whether every house that could be is unlocked.
    pub(crate) fn unlocked(&self) -> bool {
        self.houses.iter().any(|house| house.unlocked)
            && self.houses.iter().all(|house| house.unlocked || !house.connected)
    }

    pub(crate) fn say(&mut self, words: impl Into<String>, look: Look, now: Instant) {
        self.remark = Some((words.into(), look, now));
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.remark.as_ref().is_some_and(|(_, _, since)| now.saturating_duration_since(*since) > REMARK) {
            self.remark = None;
        }
    }

    /// The page of the current request was painted.
    pub(crate) fn painted(&mut self, rows: usize, height: usize, now: Instant) -> Vec<Deed> {
        self.rows = (rows, height);
        self.scroll = self.scroll.min(rows.saturating_sub(height));
        let end = self.scroll + height >= rows;
        let Some(item) = self.items.get_mut(self.selected) else {
            self.guard.reset();
            return Vec::new();
        };
        if item.abridged {
            self.guard.reset();
            return Vec::new();
        }
        self.guard.painted(&item.request.id, item.form, end, now);
        let mut deeds = Vec::new();
        if !std::mem::replace(&mut item.told, true) {
            deeds.push(Deed::Shown { house: item.house, id: item.request.id.clone() });
        }
        if !std::mem::replace(&mut item.looked, true) && item.request.pipeline().is_some() {
            deeds.push(Deed::Look { request: Box::new(item.request.clone()) });
        }
        deeds
    }

    /// The files of a request were looked at.
    pub(crate) fn looked(&mut self, request: Request) {
        if let Some(item) = self.items.iter_mut().find(|item| item.request.id == request.id) {
            item.form = form(&request);
            item.request = request;
        }
    }

    /// A house said something.
    pub(crate) fn news(&mut self, house: usize, news: HouseNews, now: Instant) -> Vec<Deed> {
        match news {
            HouseNews::Connected { has_passphrase } => {
                if let Some(state) = self.houses.get_mut(house) {
                    (state.connected, state.unlocked, state.has_passphrase) = (true, false, has_passphrase);
                }
                Vec::new()
            }
            HouseNews::Lost => {
                if let Some(state) = self.houses.get_mut(house) {
                    (state.connected, state.unlocked) = (false, false);
                }
                self.pending(house, &[])
            }
            HouseNews::Refused(words) => vec![Deed::Fail(words)],
            HouseNews::Pending(values) => self.pending(house, &values),
            HouseNews::Whole(value) => {
                if let Ok(request) = Request::read(&value)
                    && let Some(item) = self.items.iter_mut().find(|item| item.request.id == request.id)
                {
                    item.form = form(&request);
                    (item.request, item.abridged) = (request, false);
                }
                Vec::new()
            }
            HouseNews::Unlocked(outcome) => self.unlock_answered(house, outcome, now),
            HouseNews::Decided { id, what, outcome } => self.decide_answered(house, &id, what, outcome, now),
            HouseNews::Why(lines) => {
                self.dialog = Some(Dialog::Text { title: "Why it waits", lines, scroll: 0 });
                Vec::new()
            }
        }
    }

    fn pending(&mut self, house: usize, values: &[Value]) -> Vec<Deed> {
        let before = self.current().map(|item| (item.house, item.request.id.clone()));
        let mut deeds = Vec::new();
        let old = std::mem::take(&mut self.items);
        let (others, mine): (Vec<Item>, Vec<Item>) = old.into_iter().partition(|item| item.house != house);
        self.items = others;
        for value in values {
            let Ok(request) = Request::read(value) else { continue };
            let abridged = value["abridged"] == true;
            let known = mine.iter().find(|item| item.request.id == request.id);
            let item = match known {
                // The clock may have changed; what is asked never does.
                Some(known) => {
                    let mut item = known.clone();
                    item.request.expires_at = request.expires_at;
                    item.request.shown_at = request.shown_at;
                    item
                }
                None => {
                    if self.bell {
                        deeds.push(Deed::Bell);
                    }
                    if abridged {
                        deeds.push(Deed::Fetch { house, id: request.id.clone() });
                    }
                    Item { house, form: form(&request), request, abridged, told: false, looked: false }
                }
            };
            self.items.push(item);
        }
        deeds.dedup_by(|one, other| matches!((one, other), (Deed::Bell, Deed::Bell)));
        self.items.sort_by_key(|item| item.request.created_ns());
        let same = before
            .as_ref()
            .and_then(|(house, id)| self.items.iter().position(|item| item.house == *house && item.request.id == *id));
        match same {
            Some(position) => self.selected = position,
            None => {
                self.selected = self.selected.min(self.items.len().saturating_sub(1));
                // Nothing before and nothing now: what is typed is meant for what is shown.
                if before.is_some() || !self.items.is_empty() {
                    self.changed_subject(&mut deeds);
                }
                if let Some((_, gone)) = before {
                    self.is_replacement = !self.items.is_empty() && self.answered.as_ref() != Some(&gone);
                }
            }
        }
        deeds
    }

    /// Another request is shown from now on.
    pub(crate) fn changed_subject(&mut self, deeds: &mut Vec<Deed>) {
        self.scroll = 0;
        self.guard.reset();
        // A dialog about a request that is gone goes with it.
        let gone = match &self.dialog {
            Some(Dialog::Grant { id, .. } | Dialog::Reason { id, .. } | Dialog::Changeable { id, .. }) => {
                !self.waits(id)
            }
            Some(Dialog::Passphrase { then: Some(answer), .. }) => !self.waits(&answer.id),
            _ => false,
        };
        if gone {
            self.dialog = None;
        }
        deeds.push(Deed::Drain);
    }

    fn waits(&self, id: &str) -> bool {
        self.items.iter().any(|item| item.request.id == *id)
    }

    fn unlock_answered(&mut self, house: usize, outcome: Result<(), String>, now: Instant) -> Vec<Deed> {
        let Some(state) = self.houses.get_mut(house) else { return Vec::new() };
        state.unlocked = outcome.is_ok();
        let Some(Dialog::Passphrase { then, problem, waiting, .. }) = &mut self.dialog else { return Vec::new() };
        // Only the house that is asked counts; others may be locked out or gone.
        let asked = match then {
            Some(answer) => {
                let id = answer.id.clone();
                self.items.iter().find(|item| item.request.id == id).is_none_or(|item| item.house == house)
            }
            None => true,
        };
        if !asked {
            return Vec::new();
        }
        *waiting = false;
        match outcome {
            Err(words) => {
                *problem = Some(words);
                Vec::new()
            }
            Ok(()) => {
                let then = then.take();
                self.dialog = None;
                match then {
                    Some(answer) if self.waits(&answer.id) => {
                        self.answered = Some(answer.id.clone());
                        vec![Deed::Decide { house, answer }]
                    }
                    _ => {
                        self.say("unlocked", Look::Dim, now);
                        Vec::new()
                    }
                }
            }
        }
    }

    fn decide_answered(
        &mut self,
        house: usize,
        id: &str,
        what: &'static str,
        outcome: Result<Option<u64>, Refused>,
        now: Instant,
    ) -> Vec<Deed> {
        let short = crate::conversation::short(id).to_owned();
        match outcome {
            Ok(grant) => {
                let grant = grant.map(|grant| format!(", grant {grant}")).unwrap_or_default();
                self.say(format!("{short} {what}{grant}"), Look::Accent, now);
            }
            Err(Refused { words, locked }) => {
                if locked && let Some(state) = self.houses.get_mut(house) {
                    state.unlocked = false;
                }
                self.say(words, Look::Danger, now);
            }
        }
        Vec::new()
    }
}

/// What a page would be made of, in a number.
fn form(request: &Request) -> u64 {
    let mut hash = DefaultHasher::new();
    request.id.hash(&mut hash);
    request.digest.hash(&mut hash);
    request.subject.to_string().hash(&mut hash);
    request.input.to_string().hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
