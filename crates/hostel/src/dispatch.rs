//! Which program this is: the keeper, the built-in agent, a personality, or `hostel` itself.
//!
//! Invariant: what we start ourselves (keeper, helper, agent) is recognised before anything else is set up, under
//! whatever name the program was called.
//!
//! A name nobody knows is `hostel`.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::cli::ColorChoice;
use crate::commands;
use crate::config::agents;
use crate::daemon;
use crate::error::CommandError;
use crate::sudo_proxy;
use crate::ui::Ui;

/// The personalities this release has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Personality {
    Claustrum,
    Codecast,
    Zeroclaw,
    SudoProxy,
    SudoRequest,
    SudoProxyMcp,
    Claudemesh,
}

impl Personality {
    pub(crate) const ALL: [Personality; 7] = [
        Personality::Claustrum,
        Personality::Codecast,
        Personality::Zeroclaw,
        Personality::SudoProxy,
        Personality::SudoRequest,
        Personality::SudoProxyMcp,
        Personality::Claudemesh,
    ];

    /// The name it is called by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Personality::Claustrum => "claustrum",
            Personality::Codecast => crate::codecast::NAME,
            Personality::Zeroclaw => crate::zeroclaw::NAME,
            Personality::SudoProxy => crate::sudo_proxy::NAME,
            Personality::SudoRequest => crate::sudo_proxy::request::NAME,
            Personality::SudoProxyMcp => "sudo-proxy-mcp",
            Personality::Claudemesh => crate::claudemesh::NAME,
        }
    }

    fn named(name: &OsStr) -> Option<Self> {
        Personality::ALL.into_iter().find(|personality| name == personality.name())
    }

    fn run(self, called: &OsStr, words: &[OsString]) -> ExitCode {
        match self {
            Personality::Claustrum => crate::claustrum::main(called, words),
            Personality::Codecast => crate::codecast::main(words),
            Personality::Zeroclaw => crate::zeroclaw::main(words),
            Personality::SudoProxy => crate::sudo_proxy::main(words),
            Personality::SudoRequest => crate::sudo_proxy::request::main(words),
            Personality::SudoProxyMcp => crate::mcp::sudo_proxy_mcp_main(words),
            Personality::Claudemesh => crate::claudemesh::main(words),
        }
    }
}

/// Runs whatever program the arguments name.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    hostel_peer::marks::take_own();
    let called = arguments.first().cloned().unwrap_or_else(|| "hostel".into());
    let words = arguments.get(1..).unwrap_or_default();
    if words.first().is_some_and(|word| word == hostel_keeper::SUBCOMMAND) {
        daemon::mark_inside();
        return hostel_keeper::process_main(words.iter().skip(1).cloned());
    }
    if words.first().is_some_and(|word| word == hostel_guard::launcher::VERB) {
        return hostel_guard::launcher::main(words.get(1..).unwrap_or_default());
    }
    if words.first().is_some_and(|word| word == hostel_mesh::hooks::sandbox::VERB) {
        daemon::mark_inside();
        return crate::mesh::hooks::launch::main(words.get(1..).unwrap_or_default());
    }
    if words.first().is_some_and(|word| word == daemon::HELPER) {
        return helper(words.get(1..).unwrap_or_default());
    }
    if words.first().is_some_and(|word| word == agents::ECHO) {
        return echo_agent();
    }
    if words.first().is_some_and(|word| word == sudo_proxy::DIE) {
        return sudo_proxy::die(words.get(1));
    }
    let name = Path::new(&called).file_name().unwrap_or_default();
    if name == daemon::guard::SUDO {
        return sudo_proxy::sudo::main(words);
    }
    if let Some(personality) = Personality::named(name) {
        return personality.run(&called, words);
    }
    if let [verb, rest @ ..] = words
        && verb == "as"
        && rest.first().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"-"))
    {
        return match act_as(rest) {
            Ok(code) => code,
            Err(error) => fail(&Ui::new(false, ColorChoice::Auto), &error),
        };
    }
    hostel(arguments)
}

/// Becomes another command that ends when its parent does.
fn helper(words: &[OsString]) -> ExitCode {
    // What it runs reads files that hosted processes may have written.
    daemon::mark_inside();
    let error = hostel_doors::claustrum::shellenv::become_command(words);
    let error = CommandError::failure(format!("cannot become the command: {error}"));
    fail(&Ui::new(false, ColorChoice::Never), &error)
}

/// The built-in agent, on our standard streams.
fn echo_agent() -> ExitCode {
    match hostel_agents::echo::program::run(std::io::stdin().lock(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever spoke with us is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Acts as the program that the first word names, with the rest as its arguments.
pub(crate) fn act_as(words: &[OsString]) -> Result<ExitCode, CommandError> {
    let (name, rest) = words.split_first().ok_or_else(|| CommandError::usage("there is no name to act under"))?;
    if let Some(personality) = Personality::named(name) {
        return Ok(personality.run(name, rest));
    }
    let known: Vec<&str> = Personality::ALL.iter().map(|personality| personality.name()).collect();
    Err(CommandError::usage(format!("`{}` is not a program this one can act as", name.to_string_lossy()))
        .hint(format!("there is: {}", known.join(", "))))
}

fn hostel(arguments: Vec<OsString>) -> ExitCode {
    let json = arguments.iter().any(|argument| argument == "--json");
    match Cli::try_parse_from(arguments) {
        Ok(cli) => {
            let ui = Ui::new(cli.json, cli.color);
            match commands::run(cli, &ui) {
                Ok(code) => code,
                Err(error) => fail(&ui, &error),
            }
        }
        Err(error) if !error.use_stderr() => {
            let ui = Ui::new(false, ColorChoice::Auto);
            match ui.raw(error.render().to_string().as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&ui, &error),
            }
        }
        Err(error) => fail(&Ui::new(json, ColorChoice::Auto), &usage_error(&error)),
    }
}

fn fail(ui: &Ui, error: &CommandError) -> ExitCode {
    ui.error(error);
    ExitCode::from(error.exit_code())
}

/// clap's report in one line: what was wrong, its tips, and where to read on.
fn usage_error(error: &clap::Error) -> CommandError {
    let text = error.render().to_string();
    let mut message = String::new();
    let mut hints = Vec::new();
    let mut help = "hostel --help".to_owned();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("error: ") {
            message = rest.to_owned();
        } else if let Some(rest) = line.strip_prefix("tip: ") {
            hints.push(rest.to_owned());
        } else if let Some(rest) = line.strip_prefix("Usage: ") {
            let verbs: Vec<&str> = rest
                .split_whitespace()
                .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase()))
                .collect();
            help = format!("{} --help", verbs.join(" "));
        } else if line.starts_with("hostel ") {
            // Another line of the usage.
        } else if !line.starts_with("For more information") {
            message.push(' ');
            message.push_str(line);
        }
    }
    let mut error = CommandError::usage(message);
    for hint in hints {
        error = error.hint(hint);
    }
    error.hint(format!("see `{help}`"))
}
