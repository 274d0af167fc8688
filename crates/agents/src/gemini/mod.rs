//! Gemini CLI: its command lines, and its lines where it runs for one prompt. Kept for many, it speaks ACP.

mod lines;

use crate::driver::Driver;
use crate::launch::{Hosting, Launch, Mode, Setup};
use crate::{acp, command, oneshot};

use lines::GeminiLines;

pub(crate) fn launch(setup: &Setup) -> Launch {
    let mut launch = command::base(setup, "gemini");
    // A directory it was not told to trust ends a run without a terminal, and makes it fall back from `yolo`.
    launch.env.push(("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned()));
    // Otherwise it starts itself a second time to get more memory, which takes more than a second.
    launch.env.push(("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned()));
    match setup.hosting {
        Hosting::Warm => command::add(&mut launch, ["--acp"]),
        Hosting::PerMessage => {
            // Without `-p` it reads the prompt from its standard input.
            if let Some(prompt) = command::prompt_argument(setup) {
                command::add(&mut launch, ["-p", prompt]);
                launch.prompt_in_args = true;
            }
            command::add(&mut launch, ["--output-format", "stream-json"]);
        }
    }
    let mode = match setup.mode {
        Mode::Auto => "yolo",
        Mode::Code => "auto_edit",
        Mode::Plan => "plan",
        // Without a person to ask it does not even offer the model what would have to be asked for.
        Mode::Ask => "default",
    };
    command::add(&mut launch, ["--approval-mode", mode]);
    if let Some(model) = &setup.model {
        command::add(&mut launch, ["--model", model]);
    }
    // A kept process loads the conversation by ACP.
    if let (Some(id), Hosting::PerMessage) = (&setup.resume, setup.hosting) {
        command::add(&mut launch, ["--resume", id]);
    }
    launch
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    match setup.hosting {
        Hosting::Warm => acp::driver(setup),
        Hosting::PerMessage => oneshot::driver::<GeminiLines>(setup, &launch(setup)),
    }
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    match setup.hosting {
        Hosting::Warm => acp::restore(setup, saved),
        Hosting::PerMessage => oneshot::restore::<GeminiLines>(setup, saved),
    }
}

/// What a tool of gemini's is called here.
pub(crate) fn tool_name(name: &str) -> String {
    match name {
        "run_shell_command" => "bash",
        "write_file" | "replace" => "edit",
        "read_file" => "read",
        other => other,
    }
    .to_owned()
}

/// The tool that is named in the id of a call: `NAME__ID`, or `NAME-TIME-NUMBER` where the model gave no id.
pub(crate) fn tool_of_call(call: &str) -> Option<&str> {
    let name = match call.split_once("__") {
        Some((name, _)) => name,
        None => {
            let (rest, number) = call.rsplit_once('-')?;
            let (name, time) = rest.rsplit_once('-')?;
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            (digits(number) && digits(time)).then_some(name)?
        }
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_call_names_its_tool() {
        for (call, tool) in [
            ("run_shell_command__call_6a1e", Some("run_shell_command")),
            ("read_many_files-1794723391448-3", Some("read_many_files")),
            ("mcp-server-tool-1-2", Some("mcp-server-tool")),
            ("call_6a1e", None),
            ("a-b-c", None),
            ("-1-2", None),
            ("", None),
        ] {
            assert_eq!(tool_of_call(call), tool, "{call}");
        }
    }
}
