//! What codex says about tokens: totals of a whole thread, from which a turn is a difference.

use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::text::{self, Field};

/// Tokens of a thread up to some moment.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl Tokens {
    /// From either spelling.
    pub(super) fn read(field: Field<'_>) -> Option<Tokens> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, alias = "inputTokens")]
            input_tokens: Field<'a>,
            #[serde(borrow, alias = "cachedInputTokens")]
            cached_input_tokens: Field<'a>,
            #[serde(borrow, alias = "outputTokens")]
            output_tokens: Field<'a>,
        }
        let fields: Fields<'_> = text::object(field)?;
        Some(Tokens {
            input: text::number(fields.input_tokens).unwrap_or_default(),
            cached: text::number(fields.cached_input_tokens).unwrap_or_default(),
            output: text::number(fields.output_tokens).unwrap_or_default(),
        })
    }

    /// What came on top of an earlier total.
    pub(super) fn since(self, earlier: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_sub(earlier.input),
            cached: self.cached.saturating_sub(earlier.cached),
            output: self.output.saturating_sub(earlier.output),
        }
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Tokens { input: usage.input_tokens, cached: usage.cached_tokens, output: usage.output_tokens }
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cached,
            // Codex tells no cost.
            cost_usd: 0.0,
        }
    }
}
