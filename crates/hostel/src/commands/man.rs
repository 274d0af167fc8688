//! `hostel man [--out DIR]`.

use std::process::ExitCode;

use crate::cli::Man;
use crate::cli::generate;
use crate::error::CommandError;
use crate::ui::Ui;

pub(super) fn run(ui: &Ui, arguments: &Man) -> Result<ExitCode, CommandError> {
    let pages =
        generate::pages().map_err(|error| CommandError::failure(format!("cannot render the manual: {error}")))?;
    let Some(directory) = &arguments.out else {
        if let Some((_, text)) = pages.first() {
            ui.raw(text)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| CommandError::failure(format!("cannot make `{}`: {error}", directory.display())))?;
    for (name, text) in &pages {
        let path = directory.join(name);
        std::fs::write(&path, text)
            .map_err(|error| CommandError::failure(format!("cannot write `{}`: {error}", path.display())))?;
    }
    if ui.json() {
        let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
        ui.data(&names)?;
    } else {
        ui.line(&format!("{} pages written to {}", pages.len(), directory.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
