//! `hostel config show|path|check`.

use std::process::ExitCode;

use serde_json::json;

use super::Context;
use crate::cli::Config;
use crate::cli::ConfigAction;
use crate::config::Settings;
use crate::error::CommandError;
use crate::paths::HouseDir;
use crate::ui::Paint;
use crate::ui::Table;

pub(super) fn run(context: &Context<'_>, arguments: &Config) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let file = HouseDir::at(&context.home).config_file();
    match &arguments.action {
        ConfigAction::Path => {
            if ui.json() {
                ui.data(&json!({"path": file.display().to_string(), "exists": file.exists()}))?;
            } else {
                ui.line(&file.display().to_string())?;
            }
        }
        ConfigAction::Check { file: given } => {
            let file = given.as_ref().unwrap_or(&file);
            Settings::check_file(file)?;
            if ui.json() {
                ui.data(&json!({"path": file.display().to_string(), "ok": true}))?;
            } else {
                ui.line(&format!("{} is in order", file.display()))?;
            }
        }
        ConfigAction::Show { settings } => {
            let settings = Settings::load(&file, settings)?;
            if ui.json() {
                ui.data(&settings.to_json())?;
            } else {
                let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
                for (key, value, origin) in settings.rows() {
                    table.row(vec![
                        (Paint::Plain, key.to_owned()),
                        (Paint::Plain, if value.is_empty() { "-".to_owned() } else { value }),
                        (Paint::Dim, origin),
                    ]);
                }
                ui.line(&table.render(ui))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
