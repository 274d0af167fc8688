//! `hostel link DIR`: symlinks under the names this program can act as.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::cli::Link;
use crate::dispatch::Personality;
use crate::error::CommandError;
use crate::ui::Ui;

pub(super) fn run(ui: &Ui, arguments: &Link) -> Result<ExitCode, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failure(format!("cannot find our own program file: {error}")))?;
    if !arguments.directory.is_dir() {
        return Err(CommandError::failure(format!("`{}` is not a directory", arguments.directory.display()))
            .hint("make it first, and put it into PATH"));
    }
    let mut made: Vec<PathBuf> = Vec::new();
    for personality in Personality::ALL {
        let link = arguments.directory.join(personality.name());
        place(&program, &link, arguments.force)?;
        made.push(link);
    }
    if ui.json() {
        let links: Vec<String> = made.iter().map(|link| link.display().to_string()).collect();
        ui.data(&json!({"program": program.display().to_string(), "links": links}))?;
    } else {
        for link in made {
            ui.line(&format!("{} -> {}", link.display(), program.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes one link; one that is right already stays, anything else is only replaced by force.
fn place(program: &Path, link: &Path, force: bool) -> Result<(), CommandError> {
    let problem = |error: std::io::Error| CommandError::failure(format!("cannot make `{}`: {error}", link.display()));
    if std::fs::read_link(link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        if !force {
            return Err(CommandError::failure(format!("`{}` exists and is something else", link.display()))
                .hint("replace it with `--force`"));
        }
        std::fs::remove_file(link).map_err(problem)?;
    }
    std::os::unix::fs::symlink(program, link).map_err(problem)
}
