//! `hostel completions SHELL`.

use std::process::ExitCode;

use crate::cli::Completions;
use crate::cli::generate;
use crate::error::CommandError;
use crate::ui::Ui;

pub(super) fn run(ui: &Ui, arguments: &Completions) -> Result<ExitCode, CommandError> {
    ui.raw(&generate::completions(arguments.shell))?;
    Ok(ExitCode::SUCCESS)
}
