//! opencode: its command lines, and its lines where it runs for one prompt. Kept for many, it speaks ACP.

mod lines;

use crate::driver::Driver;
use crate::launch::{Hosting, Launch, Mode, Setup};
use crate::{acp, command, oneshot};

use lines::OpencodeLines;

pub(crate) fn launch(setup: &Setup) -> Launch {
    let mut launch = command::base(setup, "opencode");
    // It believes this variable over the directory it is started in.
    launch.env.push(("PWD".to_owned(), setup.cwd.clone()));
    match setup.hosting {
        Hosting::Warm => command::add(&mut launch, ["acp"]),
        Hosting::PerMessage => {
            // The prompt goes by standard input whatever its length: an argument with a blank in it reaches the model
            // in quotation marks.
            command::add(&mut launch, ["run", "--format", "json"]);
            match setup.mode {
                Mode::Auto => command::add(&mut launch, ["--auto"]),
                Mode::Plan => command::add(&mut launch, ["--agent", "plan"]),
                Mode::Code | Mode::Ask => {}
            }
            if let Some(model) = &setup.model {
                command::add(&mut launch, ["--model", model]);
            }
            if let Some(id) = &setup.resume {
                command::add(&mut launch, ["--session", id]);
            }
        }
    }
    if let Some(rules) = permission(setup.mode) {
        launch.env.push(("OPENCODE_PERMISSION".to_owned(), rules.to_owned()));
    }
    launch
}

/// Rules over those of the user's configuration. Whoever cannot be asked counts as having refused.
fn permission(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Auto => {
            Some(r#"{"*":"allow","bash":"allow","edit":"allow","external_directory":"allow","doom_loop":"allow"}"#)
        }
        // As the user has configured it; by default what stays inside the project runs.
        Mode::Code => None,
        // The agent `plan` alone would still run shell commands.
        Mode::Plan => Some(r#"{"bash":"deny","edit":"deny"}"#),
        Mode::Ask => Some(r#"{"bash":"ask","edit":"ask"}"#),
    }
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    match setup.hosting {
        Hosting::Warm => acp::driver(setup),
        Hosting::PerMessage => oneshot::driver::<OpencodeLines>(setup, &launch(setup)),
    }
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    match setup.hosting {
        Hosting::Warm => acp::restore(setup, saved),
        Hosting::PerMessage => oneshot::restore::<OpencodeLines>(setup, saved),
    }
}

/// What a tool of opencode's is called here.
pub(crate) fn tool_name(name: &str) -> String {
    let name = name.trim().to_lowercase();
    match &*name {
        "write" | "multiedit" => "edit".to_owned(),
        "task" => "subagent".to_owned(),
        _ => name,
    }
}
