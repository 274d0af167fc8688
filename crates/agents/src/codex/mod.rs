//! Codex: its command lines, and which of its two conversations is meant.
//!
//! A process made for one message is `codex exec`, which prints lines and never asks. A warm process is
//! `codex app-server`, where a person can be asked and everything streams.

mod ask;
mod exec;
mod item;
mod notice;
mod server;
mod tokens;

use crate::command;
use crate::driver::Driver;
use crate::launch::{Hosting, Launch, Mode, Setup};

/// Single words that `codex exec` takes for its own commands.
const COMMANDS: [&str; 4] = ["resume", "fork", "review", "help"];

pub(crate) fn launch(setup: &Setup) -> Launch {
    let mut launch = command::base(setup, "codex");
    if setup.hosting == Hosting::Warm {
        // Directory, model and mode are said when the thread begins.
        command::add(&mut launch, ["app-server"]);
        return launch;
    }
    // `resume` itself takes neither a sandbox nor a directory: all options stand before it.
    command::add(&mut launch, ["exec", "--json", "--skip-git-repo-check"]);
    command::add(&mut launch, ["--sandbox", sandbox(setup), "--cd", &setup.cwd, "-c", "approval_policy=\"never\""]);
    if let Some(model) = &setup.model {
        command::add(&mut launch, ["--model", model]);
    }
    if let Some(id) = &setup.resume {
        command::add(&mut launch, ["resume", id]);
    }
    let prompt = prompt_argument(setup);
    launch.prompt_in_args = prompt.is_some();
    command::add(&mut launch, [prompt.unwrap_or("-")]);
    launch
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    match setup.hosting {
        Hosting::PerMessage => Box::new(exec::Exec::new(setup)),
        Hosting::Warm => Box::new(server::Server::new(setup)),
    }
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    let driver: Result<Box<dyn Driver>, serde_json::Error> = match setup.hosting {
        Hosting::PerMessage => exec::Exec::restore(setup, saved).map(|driver| Box::new(driver) as Box<dyn Driver>),
        Hosting::Warm => server::Server::restore(setup, saved).map(|driver| Box::new(driver) as Box<dyn Driver>),
    };
    driver.map_err(|error| format!("codex: {error}"))
}

/// What commands may touch.
///
/// `auto` is everything, as with the other CLIs: a sandbox without network would make it fail at half of what people
/// leave an agent alone with. Nobody can be asked by `exec`, so there `ask` may write nothing.
fn sandbox(setup: &Setup) -> &'static str {
    match setup.mode {
        Mode::Auto => "danger-full-access",
        Mode::Code => "workspace-write",
        Mode::Plan => "read-only",
        Mode::Ask if setup.hosting == Hosting::Warm => "workspace-write",
        Mode::Ask => "read-only",
    }
}

/// When the app server asks: `untrusted` for everything it does not know to be harmless, `on-request` when the model
/// wants out of the sandbox.
fn approval_policy(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "never",
        Mode::Code | Mode::Plan => "on-request",
        Mode::Ask => "untrusted",
    }
}

fn prompt_argument(setup: &Setup) -> Option<&str> {
    let is_command = |prompt: &str| setup.resume.is_none() && COMMANDS.contains(&prompt);
    command::prompt_argument(setup).filter(|prompt| !is_command(prompt))
}
