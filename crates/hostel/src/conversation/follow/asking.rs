//! The questions of an agent put to who sits at our terminal, one at a time.
//!
//! Invariant: what was typed before a question could be read on the screen is thrown away. A question that is longer than
//! the screen is shown in parts, and agreeing counts only after the last one. A decision goes out until the house has
//! taken it; one that came from elsewhere meanwhile takes the question back.
//!
//! Without a keyboard it takes no question: the page then says how to answer from elsewhere.

use std::collections::VecDeque;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Questions;
use serde_json::json;
use tokio::sync::oneshot;

use super::Job;
use super::Page;
use super::Piece;
use crate::conversation::keyboard::Keyboard;
use crate::conversation::update::Question;

/// Where the question stands that is being put.
enum Stage {
    /// On its way to the screen.
    Showing(oneshot::Receiver<()>),
    /// On the screen.
    Shown,
    /// Decided; the house has to be told. With the number of that question on this connection.
    Decided(&'static str, Option<u64>),
    /// It can only be answered from elsewhere.
    Elsewhere,
}

struct Put {
    question: Question,
    stage: Stage,
}

/// What woke us.
enum News {
    OnScreen,
    Line(Option<String>),
}

pub(super) struct Asking {
    keyboard: Option<Keyboard>,
    put: Option<Put>,
    waiting: VecDeque<Question>,
    news: Option<News>,
}

impl Asking {
    pub(super) fn new(keyboard: Option<Keyboard>) -> Self {
        Asking { keyboard, put: None, waiting: VecDeque::new(), news: None }
    }

    /// Takes a question to put it when its time comes; not without a keyboard.
    pub(super) fn takes(&mut self, question: &Question) -> bool {
        if !self.keyboard.as_ref().is_some_and(Keyboard::ours) {
            return false;
        }
        self.waiting.push_back(question.clone());
        true
    }

    /// Puts the next question, if none stands in the way.
    pub(super) fn put_next(&mut self, page: &mut Page) -> Vec<Job> {
        if self.put.is_some() {
            return Vec::new();
        }
        let Some(question) = self.waiting.pop_front() else { return Vec::new() };
        let (told, shown) = oneshot::channel();
        let mut jobs = writes(page.ask(&question));
        jobs.push(Job::Tell(told));
        self.put = Some(Put { question, stage: Stage::Showing(shown) });
        jobs
    }

    /// Shows the next part of the question. What is typed before it is on the screen answers nothing.
    fn show(&mut self, page: &mut Page) -> Vec<Job> {
        let (told, shown) = oneshot::channel();
        let mut jobs = writes(page.read_on());
        jobs.push(Job::Tell(told));
        if let Some(put) = &mut self.put {
            put.stage = Stage::Showing(shown);
        }
        jobs
    }

    /// A question is settled, by whomever; tells whether it never was on the screen, so that this is no news there.
    pub(super) fn settled(&mut self, request_id: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|question| question.request_id != *request_id);
        if self.put.take_if(|put| put.question.request_id == *request_id).is_some() {
            self.news = None;
        }
        self.waiting.len() < before
    }

    /// No question matters any more.
    pub(super) fn over(&mut self) {
        self.put = None;
        self.news = None;
        self.waiting.clear();
    }

    /// Whether a question stands on the screen without its answer.
    pub(super) fn open(&self) -> bool {
        self.put.as_ref().is_some_and(|put| !matches!(put.stage, Stage::Elsewhere))
    }

    /// A connection is up: what was asked on the last one is asked again.
    pub(super) fn reconnected(&mut self) {
        if let Some(Put { stage: Stage::Decided(_, asked), .. }) = &mut self.put {
            *asked = None;
        }
    }

    /// Sends what is due.
    pub(super) async fn speak(&mut self, questions: &mut Questions, session: &str) -> Result<(), ClientError> {
        if let Some(Put { question, stage: Stage::Decided(decision, asked @ None) }) = &mut self.put {
            let params = json!({"session_id": session, "request_id": question.request_id, "decision": decision});
            *asked = Some(questions.send("session/approve", &params).await?);
        }
        Ok(())
    }

    /// Takes an answer of the house; how a question was settled comes as an update, so only a refusal is news.
    pub(super) fn answered(&mut self, id: u64, refusal: Option<&str>, page: &mut Page) -> Vec<Job> {
        let (Some(put), Some(refusal)) = (&mut self.put, refusal) else { return Vec::new() };
        if !matches!(put.stage, Stage::Decided(_, Some(asked)) if asked == id) {
            return Vec::new();
        }
        put.stage = Stage::Elsewhere;
        let mut pieces = page.note(&format!("hostel: the answer was not taken: {refusal}"));
        pieces.extend(page.elsewhere(&put.question));
        writes(pieces)
    }

    /// Waits until there is something for `proceed`; for ever if there is nothing to wait for.
    pub(super) async fn progress(&mut self) {
        if self.news.is_some() {
            return;
        }
        match (self.put.as_mut().map(|put| &mut put.stage), &mut self.keyboard) {
            (Some(Stage::Showing(shown)), _) => {
                // A writer that is gone shows nothing; the end of following is near.
                if shown.await.is_err() {
                    return std::future::pending().await;
                }
                self.news = Some(News::OnScreen);
            }
            (Some(Stage::Shown), Some(keyboard)) => {
                let line = keyboard.line().await;
                self.news = Some(News::Line(line));
            }
            _ => std::future::pending().await,
        }
    }

    /// Goes on with what `progress` waited for.
    pub(super) fn proceed(&mut self, page: &mut Page) -> Vec<Job> {
        let (Some(news), Some(put)) = (self.news.take(), &mut self.put) else { return Vec::new() };
        let line = match news {
            News::OnScreen => {
                // Only what is typed from now on can be meant for this question.
                if let Some(keyboard) = &mut self.keyboard {
                    keyboard.drain();
                }
                put.stage = Stage::Shown;
                return Vec::new();
            }
            News::Line(None) => {
                // The terminal is gone, or somebody typed Ctrl-D: no answers from here.
                put.stage = Stage::Elsewhere;
                return writes(page.elsewhere(&put.question));
            }
            News::Line(Some(line)) => line,
        };
        page.typed_line();
        let decision = match (line.trim().to_ascii_lowercase().as_str(), page.is_read()) {
            ("n" | "no", _) => "reject",
            ("y" | "yes" | "a" | "always", false) => return writes(page.not_yet()),
            (_, false) => return self.show(page),
            ("y" | "yes", true) => "allow_once",
            ("a" | "always", true) => "allow_always",
            _ => return writes(page.ask_again()),
        };
        put.stage = Stage::Decided(decision, None);
        Vec::new()
    }
}

fn writes(pieces: Vec<Piece>) -> Vec<Job> {
    pieces.into_iter().map(Job::Write).collect()
}
