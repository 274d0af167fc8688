//! `hostel approvals why`: which rules a request met, and what decided.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use crate::commands::Context;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::inbox::visible;
use crate::ui::Paint;

/// The answer to `approval/why`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Why {
    /// What decided, in one line.
    pub(crate) verdict: String,
    /// Everything that was looked at, in order.
    pub(crate) steps: Vec<Step>,
}

/// One rule or grant that was looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// `allow`, `ask` or `deny`.
    pub(crate) action: String,
    pub(crate) matched: bool,
    /// What did not fit, or what did.
    pub(crate) words: String,
}

pub(super) async fn run(context: &Context<'_>, id: &str) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (house, mut client, row, _) = context.houses.find_approval(id).await?;
    let answer: Value = client.call("approval/why", &json!({"id": row.id})).await?;
    let mut answer = one_spelling(answer);
    if ui.json() {
        answer["house"] = house.label.into();
        ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let why = Why::deserialize(&answer["why"])
        .map_err(|error| CommandError::failure(format!("the daemon's answer makes no sense: {error}")))?;
    ui.line(&one_line(&why.verdict))?;
    for step in &why.steps {
        let (paint, sign) = if step.matched { (Paint::Bold, "✓") } else { (Paint::Dim, "·") };
        let name = one_line(&step.name);
        let action = one_line(&step.action);
        let words = one_line(&step.words);
        ui.line(ui.paint(paint, &format!("  {sign} {action:<5}  {name}: {words}")).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What holds names that somebody else chose stays on its line: it must not look like a step of its own.
fn one_line(text: &str) -> String {
    visible::text(&visible::prose(&text.replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stays_on_its_line() {
        let seen = one_line("the tool is `x\n  allow`\u{1b}[1A\u{202e}");
        assert_eq!(seen, "the tool is `x   allow`⟨ESC⟩[1A⟨U+202E⟩");
    }
}
