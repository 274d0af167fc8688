//! The end of a turn of claude's, and what it cost.
//!
//! Invariant: only the result of a turn somebody asked for ends one; what the others have used is not lost but
//! counted with the next.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::line::Line;
use super::{Claude, Unasked};
use crate::driver::{Heard, TurnOver};
use crate::ending::Closing;
use crate::event::{Event, Outcome, Usage};
use crate::raw::Raw;
use crate::text::{self, Field};

#[derive(Deserialize)]
struct Ending<'a> {
    #[serde(borrow)]
    is_error: Field<'a>,
    #[serde(borrow)]
    result: Field<'a>,
    #[serde(borrow)]
    errors: Field<'a>,
    #[serde(borrow)]
    terminal_reason: Field<'a>,
    #[serde(borrow)]
    origin: Field<'a>,
    #[serde(borrow)]
    usage: Field<'a>,
    #[serde(borrow)]
    total_cost_usd: Field<'a>,
    #[serde(borrow)]
    model_usage_since_last_result: Field<'a>,
    #[serde(borrow, rename = "modelUsage")]
    model_usage: Field<'a>,
}

#[derive(Deserialize)]
struct Origin<'a> {
    #[serde(borrow)]
    kind: Field<'a>,
}

#[derive(Deserialize)]
struct Tokens<'a> {
    #[serde(borrow)]
    input_tokens: Field<'a>,
    #[serde(borrow)]
    output_tokens: Field<'a>,
    #[serde(borrow)]
    cache_creation_input_tokens: Field<'a>,
    #[serde(borrow)]
    cache_read_input_tokens: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelUsage<'a> {
    #[serde(borrow)]
    input_tokens: Field<'a>,
    #[serde(borrow)]
    output_tokens: Field<'a>,
    #[serde(borrow)]
    cache_creation_input_tokens: Field<'a>,
    #[serde(borrow)]
    cache_read_input_tokens: Field<'a>,
    #[serde(borrow, rename = "costUSD")]
    cost_usd: Field<'a>,
    #[serde(borrow)]
    context_window: Field<'a>,
}

impl Claude {
    /// A result line.
    pub(super) fn result(&mut self, line: &Line<'_>, json: &str, heard: &mut Heard) {
        let Some(ending) = text::parse::<Ending<'_>>(json) else { return };
        let session_id = text::owned(line.session_id);
        if self.state.session_id.is_none() {
            self.state.session_id.clone_from(&session_id);
        }
        let limit = ending.context_window();
        if let (Some(used), Some(limit)) = (self.state.context, limit) {
            heard.events.push(Event::ContextUsage { used: Some(used), limit: Some(limit) });
        }
        heard.events.push(Event::Result { session_id, raw: Raw::line(json) });
        let usage = self.usage(&ending);
        add(&mut self.state.carried, usage);
        if !ending.was_asked_for() || !self.state.running {
            self.state.unasked = Unasked::No;
            return;
        }
        let (outcome, reason) = ending.outcome(line, self.state.interrupted);
        if outcome == Outcome::Failed {
            heard.events.push(Event::Error { message: reason.clone() });
        }
        let usage = std::mem::take(&mut self.state.carried);
        if self.one_message() {
            // What comes after the result still belongs to the message: the turn is over when the process is.
            self.state.closing = Some(Closing { outcome, reason, usage });
        } else {
            self.state.running = false;
            self.state.interrupted = false;
            heard.over = Some(TurnOver { outcome, reason, usage });
        }
    }

    /// What was used since the last result.
    fn usage(&mut self, ending: &Ending<'_>) -> Usage {
        let total = text::decimal(ending.total_cost_usd).map(text::dollars);
        let since = total.zip(self.state.cost_seen).map_or(0.0, |(total, seen)| text::dollars(total - seen));
        self.state.cost_seen = total.or(self.state.cost_seen);
        if let Some(usage) = ending.since_last_result() {
            return usage;
        }
        // Older ones tell the tokens of the turn, and the cost of the whole conversation.
        let Some(tokens) = text::object::<Tokens<'_>>(ending.usage) else {
            return Usage { cost_usd: since, ..Usage::default() };
        };
        Usage {
            input_tokens: tokens.read(),
            output_tokens: text::number(tokens.output_tokens).unwrap_or_default(),
            cached_tokens: text::number(tokens.cache_read_input_tokens).unwrap_or_default(),
            cost_usd: since,
        }
    }
}

impl Ending<'_> {
    /// Whether somebody sent the message this is the answer to. A subagent that comes back makes a turn of its own.
    fn was_asked_for(&self) -> bool {
        let Some(origin) = text::object::<Origin<'_>>(self.origin) else { return true };
        matches!(text::string(origin.kind).as_deref(), None | Some("human" | "person" | "composer" | "unclassified"))
    }

    fn outcome(&self, line: &Line<'_>, interrupted: bool) -> (Outcome, String) {
        let aborted = text::string(self.terminal_reason).is_some_and(|reason| reason.starts_with("aborted"));
        let subtype = text::string(line.subtype).unwrap_or_default();
        // An API error has the subtype `success` and `is_error` all the same.
        let failed = text::is_true(self.is_error) || subtype.starts_with("error");
        if aborted || (failed && interrupted) {
            (Outcome::Cancelled, String::new())
        } else if failed {
            let errors = || Some(text::content(self.errors)).filter(|errors| !errors.trim().is_empty());
            let kind = || text::words(line.subtype).unwrap_or_else(|| "The turn failed.".to_owned());
            (Outcome::Failed, text::words(self.result).or_else(errors).unwrap_or_else(kind))
        } else {
            (Outcome::Completed, String::new())
        }
    }

    /// All models, subagents' included. `None` from a version that does not tell.
    fn since_last_result(&self) -> Option<Usage> {
        let models: BTreeMap<String, ModelUsage<'_>> = text::object(self.model_usage_since_last_result)?;
        let mut sum = Usage::default();
        for model in models.values() {
            let cached = text::number(model.cache_read_input_tokens).unwrap_or_default();
            let created = text::number(model.cache_creation_input_tokens).unwrap_or_default();
            let fresh = text::number(model.input_tokens).unwrap_or_default();
            let usage = Usage {
                input_tokens: fresh.saturating_add(cached).saturating_add(created),
                output_tokens: text::number(model.output_tokens).unwrap_or_default(),
                cached_tokens: cached,
                cost_usd: text::decimal(model.cost_usd).map_or(0.0, text::dollars),
            };
            add(&mut sum, usage);
        }
        (!models.is_empty()).then_some(sum)
    }

    /// The room of the largest model: small ones do chores beside it.
    fn context_window(&self) -> Option<u64> {
        let models: BTreeMap<String, ModelUsage<'_>> = text::object(self.model_usage)?;
        models.values().filter_map(|model| text::number(model.context_window)).max()
    }
}

impl Tokens<'_> {
    fn read(&self) -> u64 {
        [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens]
            .into_iter()
            .fold(0, |sum, field| sum.saturating_add(text::number(field).unwrap_or_default()))
    }
}

/// How many tokens a reply and what it was a reply to make together.
pub(super) fn context(usage: Field<'_>) -> Option<u64> {
    let tokens = text::object::<Tokens<'_>>(usage)?;
    let sum = tokens.read().saturating_add(text::number(tokens.output_tokens).unwrap_or_default());
    (sum > 0).then_some(sum)
}

/// Adds what was used to what was used before.
pub(super) fn add(sum: &mut Usage, more: Usage) {
    sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
    sum.cached_tokens = sum.cached_tokens.saturating_add(more.cached_tokens);
    sum.cost_usd = text::dollars(sum.cost_usd + more.cost_usd);
}
