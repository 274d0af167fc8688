//! What is followed put on the page, or written as data.
//!
//! Invariant: while a question stands open on the screen nothing is written below it; what comes waits, within bounds.

use serde_json::Value;
use serde_json::value::RawValue;

use super::Follow;
use super::Format;
use super::Job;
use super::Until;
use crate::conversation::page::Piece;
use crate::conversation::update::Update;
use crate::conversation::update::What;
use crate::conversation::wire::one_spelling;
use crate::ui::Ui;

/// Updates that may wait below an open question.
const HELD: usize = 256;

impl Follow {
    /// Puts an update on the page. While a question is open there, others wait below it.
    pub(super) fn turn_page(&mut self, update: Update) {
        if let What::Answered { request_id, .. } = &update.what
            && self.asking.settled(request_id)
        {
            return;
        }
        match &update.what {
            What::Asked(question) => {
                // One that was asked before may be told of again to who comes back.
                if !self.asked.insert(question.request_id.clone()) {
                    return;
                }
                if self.asking.takes(question) {
                    self.release();
                    return;
                }
                let past = update.seq > 0 && update.seq <= self.history;
                let open = self.open.as_ref().is_none_or(|open| open.contains(&question.request_id));
                if past && !open {
                    if let Format::Page(page) = &mut self.format {
                        let pieces = page.past_question(question);
                        self.show(pieces);
                    }
                    return;
                }
            }
            What::TurnEnded { .. } | What::Closed => {
                self.asking.over();
                self.asked.clear();
            }
            What::Answered { .. } => {}
            _ if self.asking.open() && self.held.len() < HELD => {
                self.held.push_back(update);
                return;
            }
            _ if self.asking.open() => {
                self.show_held();
                self.show_update(&update);
                if let Format::Page(page) = &mut self.format {
                    let pieces = page.ask_again();
                    self.show(pieces);
                }
                return;
            }
            _ => {}
        }
        // An answer belongs right below its question, an end below everything.
        if matches!(update.what, What::Answered { .. }) {
            self.show_update(&update);
            self.release();
        } else {
            self.release();
            self.show_update(&update);
        }
    }

    fn show_update(&mut self, update: &Update) {
        let elapsed = matches!(self.until, Until::Turn { .. }).then(|| self.since.elapsed());
        if let Format::Page(page) = &mut self.format {
            if let Some(size) = crate::ui::screen_size(std::io::stderr()) {
                page.resize(size);
            }
            let pieces = page.update(update, elapsed);
            self.show(pieces);
        }
    }

    fn show_held(&mut self) {
        while let Some(update) = self.held.pop_front() {
            self.show_update(&update);
        }
    }

    /// Shows what had to wait, once no question is open any more, and then the next question.
    pub(super) fn release(&mut self) {
        if self.asking.open() {
            return;
        }
        self.show_held();
        if let Format::Page(page) = &mut self.format {
            let jobs = self.asking.put_next(page);
            self.waiting.extend(jobs);
        }
    }

    pub(super) fn show(&mut self, pieces: Vec<Piece>) {
        self.waiting.extend(pieces.into_iter().map(Job::Write));
    }

    /// A remark between the updates; data has no place for it.
    pub(super) fn note(&mut self, note: &str) {
        if let Format::Page(page) = &mut self.format {
            let pieces = page.note(&format!("hostel: {note}"));
            self.show(pieces);
        }
    }

    pub(super) fn remark(&mut self, ui: &Ui, remark: &str) {
        match &mut self.format {
            Format::Page(page) => {
                let pieces = page.note(remark);
                self.show(pieces);
            }
            Format::Json => ui.note(remark),
        }
    }
}

/// An update as one line of data.
pub(super) fn data_line(params: &RawValue) -> Option<String> {
    let fields: Value = serde_json::from_str(params.get()).ok()?;
    let mut line = serde_json::to_string(&one_spelling(fields)).ok()?;
    line.push('\n');
    Some(line)
}
