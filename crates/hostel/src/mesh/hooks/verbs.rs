//! `daemon hooks`: list, check, init.

use std::process::ExitCode;

use hostel_mesh::home::Settings;
use hostel_mesh::hooks;
use hostel_mesh::hooks::HookName;
use hostel_mesh::hooks::Inspection;
use hostel_mesh::hooks::Policy;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Hooks;
use crate::mesh::cli::HooksAction;
use crate::mesh::failure::Failure;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) fn run(desk: &Desk<'_>, arguments: &Hooks) -> Result<ExitCode, Failure> {
    let mesh = desk.host.slug(desk.mesh.as_deref())?;
    let directory = desk.host.dir(&mesh).hooks();
    match arguments.action.as_ref().unwrap_or(&HooksAction::List) {
        HooksAction::List => list(desk, &look(desk, &mesh)?),
        HooksAction::Check => check(desk, &look(desk, &mesh)?),
        HooksAction::Init => {
            let made = hooks::init(&directory)
                .map_err(|error| Failure::io(format!("cannot write below `{}`: {error}", directory.display())))?;
            let file = directory.join("hooks.toml");
            if desk.ui.json() {
                desk.ui.data(&json!({"ok": true, "created": made, "file": file}))?;
            } else if made {
                desk.ui.line(&format!("wrote {}", file.display()))?;
                desk.ui.line("  put a hook beside it, `on-dm` for one, and take its section out of the comments")?;
                desk.ui.line(&format!("  then `{} daemon reload --mesh {mesh}`", desk.called))?;
            } else {
                desk.ui.line(&format!("{} is there already", file.display()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn look(desk: &Desk<'_>, mesh: &str) -> Result<Inspection, Failure> {
    let dir = desk.host.dir(mesh);
    let (settings, _) = Settings::load(&dir.config())
        .map_err(|error| Failure::daemon(1, "config", error.to_string()).hint("correct the line, or remove it"))?;
    Ok(hooks::inspect(&dir.hooks(), settings.hooks.enabled))
}

fn list(desk: &Desk<'_>, found: &Inspection) -> Result<ExitCode, Failure> {
    if desk.ui.json() {
        desk.ui.data(found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.hooks.is_empty() {
        desk.ui.line("no hooks")?;
        desk.ui.note(&format!(
            "they belong into {}; `{} daemon hooks init` makes a file to begin with",
            found.directory.display(),
            desk.called
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["HOOK", "RUNS", "NETWORK", "FILES", "?WHY NOT"]);
    for hook in &found.hooks {
        table.row(vec![
            (Paint::Bold, hook.hook.clone()),
            (Paint::Plain, if hook.runs { "yes" } else { "no" }.to_owned()),
            (Paint::Plain, hook.network.unwrap_or("-").to_owned()),
            (Paint::Plain, hook.fs.unwrap_or("-").to_owned()),
            (Paint::Dim, text::printable(hook.reason.as_deref().unwrap_or_default()).into_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// The same, and an exit code that says whether everything that is there would run.
fn check(desk: &Desk<'_>, found: &Inspection) -> Result<ExitCode, Failure> {
    let idle = found.hooks.iter().filter(|hook| !hook.runs).count();
    let fine = found.problem.is_none() && idle == 0;
    if desk.ui.json() {
        desk.ui.data(found)?;
        return Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(1) });
    }
    if let Some(problem) = &found.problem {
        desk.ui.line(&text::printable(problem))?;
    }
    for hook in &found.hooks {
        match &hook.reason {
            None => desk.ui.line(&format!("{}: would run", hook.hook))?,
            Some(_) if found.problem.is_some() => {}
            Some(reason) => desk.ui.line(&format!("{}: would not run: {}", hook.hook, text::printable(reason)))?,
        }
    }
    for stranger in &found.strangers {
        desk.ui.note(&format!("`{}` is no hook", text::printable(stranger)));
    }
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether a mesh has a gate that only its daemon can ask: then nothing may be sent past the daemon.
pub(crate) fn gate_on(desk: &Desk<'_>, mesh: &str) -> bool {
    let dir = desk.host.dir(mesh);
    let on = Settings::load(&dir.config()).map_or(true, |(settings, _)| settings.hooks.enabled);
    match Policy::load(&dir.hooks()) {
        Ok(policy) => on && policy.is_some_and(|policy| policy.runs(&HookName::PreSend)),
        // Nobody knows what it would say.
        Err(_) => on,
    }
}
