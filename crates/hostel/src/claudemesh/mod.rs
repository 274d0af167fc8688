//! The personality `claudemesh`: the verbs of `hostel mesh` and `hostel broker` under the contract's name, with the
//! contract's exit codes.
//!
//! Invariant: nothing is defined twice. The words are the ones of `hostel mesh`, their examples with the name exchanged.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Args as _;
use clap::Command;
use clap::FromArgMatches as _;
use clap::Parser;
use clap::Subcommand;

use crate::broker;
use crate::cli::ColorChoice;
use crate::mesh;
use crate::mesh::Desk;
use crate::mesh::cli::MeshVerb;
use crate::mesh::failure::Failure;
use crate::mesh::host::Host;
use crate::mesh::speaker;
use crate::paths;
use crate::text;
use crate::ui::Ui;

/// The name it is called by.
pub(crate) const NAME: &str = "claudemesh";

/// Exit codes of the command line itself.
const ARGUMENTS: u8 = 3;

/// Hosts that talk: messages, topics and files between machines, encrypted from end to end.
#[derive(Debug, Parser)]
#[command(
    name = "claudemesh",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    after_help = "Examples:\n  claudemesh create lab\n  claudemesh join 'ic://join/…'\n  claudemesh send ada \"hello\"\n  claudemesh inbox\n  claudemesh launch\n  claudemesh daemon status\n\nExit codes: 0 done, 1 cancelled, 2 not let in, 3 wrong arguments, 4 nobody reached, 5 not found,\n6 exists already, 7 denied, 8 internal, 9 no such agent, 10 files. `daemon` verbs have their own, see their pages."
)]
struct Claudemesh {
    /// Print data as JSON instead of text for people
    #[arg(long, global = true, display_order = 900)]
    json: bool,

    /// Which mesh; needed only where several are joined
    #[arg(long, global = true, value_name = "MESH", display_order = 800)]
    mesh: Option<String>,

    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, display_order = 903)]
    color: ColorChoice,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Mesh(MeshVerb),

    /// Look after the embedded broker, which carries the messages of meshes
    #[command(
        after_help = "Examples:\n  hostel broker status\n  hostel broker up\n  hostel broker down\n\nCreating a mesh starts it if it has to."
    )]
    Broker(broker::cli::Broker),
}

/// The whole program.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    // `claudemesh mesh send` is `claudemesh send`.
    let words = match words {
        [first, rest @ ..] if first == "mesh" => rest,
        words => words,
    };
    let json = words.iter().any(|word| word == "--json");
    let line = std::iter::once(OsStr::new(NAME)).chain(words.iter().map(OsString::as_os_str));
    let parsed = command().try_get_matches_from(line).and_then(|matches| Claudemesh::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return answer(&error, json),
    };
    let ui = Ui::new(cli.json, cli.color);
    match serve(cli, &ui) {
        Ok(code) => code,
        Err(failure) => {
            complain(&ui, &failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn serve(cli: Claudemesh, ui: &Ui) -> Result<ExitCode, Failure> {
    let mesh = cli.mesh.or_else(speaker::mesh_of_environment);
    let desk = Desk { ui, home: paths::home(None)?, host: Host::of_environment(ui)?, mesh, called: NAME };
    match cli.verb {
        Verb::Mesh(verb) => mesh::serve(&desk, verb),
        Verb::Broker(arguments) => broker::serve(&desk, &arguments),
    }
}

/// The definition, with the examples' name exchanged.
fn command() -> Command {
    rename(Claudemesh::augment_args(Command::new(NAME)))
}

fn rename(command: Command) -> Command {
    let exchanged = command.get_after_help().map(|help| {
        help.to_string().replace("hostel mesh ", "claudemesh ").replace("hostel broker ", "claudemesh broker ")
    });
    let command = match exchanged {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(rename)
}

/// Help and version go to standard output; what is wrong with the words goes to standard error.
fn answer(error: &clap::Error, json: bool) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        std::io::stdout().lock().write_all(text.as_bytes()).ok();
        return ExitCode::SUCCESS;
    }
    let failure = Failure::arguments(text.trim_end().trim_start_matches("error: "));
    complain(&Ui::new(json, ColorChoice::Auto), &failure);
    ExitCode::from(ARGUMENTS)
}

/// With `--json` the failure is the answer; else it goes to standard error.
fn complain(ui: &Ui, failure: &Failure) {
    if failure.is_quiet() {
        return;
    }
    if ui.json() {
        ui.data(&failure.to_json()).ok();
    } else {
        let line = format!("{}\n", text::prose(&failure.text()));
        std::io::stderr().lock().write_all(line.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent_and_speaks_of_itself() {
        let mut command = command();
        command.clone().debug_assert();
        command.build();
        check(&command);
    }

    fn check(command: &Command) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:\n"), "{} has no examples", command.get_name());
        assert!(!help.contains("hostel mesh") && !help.contains("hostel broker"), "{help}");
        for verb in command.get_subcommands() {
            check(verb);
        }
    }
}
