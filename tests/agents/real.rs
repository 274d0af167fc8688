//! The real CLIs behind both doors, offline: each goes through every scenario against the project's own fake model.
//!
//! They are found by `HOSTEL_AGENTS`, which `scripts/test --agents` sets after installing them; without it there is
//! nothing to test, and that is said.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "test code: a broken assumption must end the test at once"
)]

mod guarded;

use crate::tier;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hostel_tests::agents::{self, Cli, FakeModel};
use hostel_tests::house::set_base_environment;
use serde_json::json;

use tier::stage::Stage;
use tier::world::{Traits, Witness, Words, World};
use tier::{Door, play};

/// opencode takes seconds to start on an idle machine, and machines that run tests are not idle.
const LIMIT: Duration = Duration::from_secs(180);

/// How the model refuses and fails, and what people are told of it. `agents::environment` allows few retries; opencode
/// knows no such limit and would try for more than a minute when the server fails.
fn failures(cli: Cli) -> &'static [(&'static str, &'static str)] {
    match cli {
        Cli::Claude | Cli::Gemini => &[("error: 401", "401"), ("error: 500", "500")],
        // Its own words for a server that fails.
        Cli::Codex => &[("error: 401", "401"), ("error: 500", "high demand")],
        Cli::Opencode => &[("error: 401", "fake model error 401")],
    }
}

fn through(cli: Cli, door: Door) {
    if env::var_os("HOSTEL_AGENTS").is_none() {
        return hostel_tests::skip(&format!("{} through {}: scripts/test --agents runs it", cli.name(), door.name()));
    }
    let bin = agents::installed().unwrap_or_else(|reason| panic!("{reason}"));
    let mut stage = Stage::prepare(&bin, LIMIT);
    let model = FakeModel::start(stage.root());
    let environment = agents::environment(cli, model.port(), stage.root());
    let environment: Vec<String> =
        environment.iter().map(|(name, value)| format!("{name} = {}", json!(value))).collect();
    let (name, settings) = (cli.name(), settings(cli));
    stage.open(&format!("[agents.{name}]\n{settings}\n[agents.{name}.env]\n{}\n", environment.join("\n")));
    let world = World {
        title: format!("{} {}", cli.name(), version(&bin.join(cli.name()), stage.root())),
        alias: cli.name(),
        traits: traits(cli),
        words: Words { ask: "tool:", failures: failures(cli) },
        stage,
        witness: Witness::Model(model),
    };
    play(&world, door);
}

/// What an agent needs in a guard: codex makes its sandbox of user namespaces, and runs nothing without them.
fn settings(cli: Cli) -> &'static str {
    match cli {
        Cli::Codex => "grant = [\"user-namespaces\"]",
        Cli::Claude | Cli::Gemini | Cli::Opencode => "",
    }
}

fn traits(cli: Cli) -> Traits {
    Traits {
        streams_alone: matches!(cli, Cli::Claude | Cli::Gemini),
        asks_alone: cli == Cli::Claude,
        takes_no: cli != Cli::Opencode,
    }
}

/// What the program says of itself. Some write into their home even for this question, so they are lent one.
fn version(program: &Path, scratch: &Path) -> String {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    set_base_environment(&mut command, &scratch.join("home"));
    let output = command.output().expect("the CLI starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    number.unwrap_or_else(|| panic!("no version in {said:?}")).to_owned()
}

#[test]
fn claude_through_codecast() {
    through(Cli::Claude, Door::Codecast);
}

#[test]
fn claude_through_zeroclaw() {
    through(Cli::Claude, Door::Zeroclaw);
}

#[test]
fn codex_through_codecast() {
    through(Cli::Codex, Door::Codecast);
}

#[test]
fn codex_through_zeroclaw() {
    through(Cli::Codex, Door::Zeroclaw);
}

#[test]
fn gemini_through_codecast() {
    through(Cli::Gemini, Door::Codecast);
}

#[test]
fn gemini_through_zeroclaw() {
    through(Cli::Gemini, Door::Zeroclaw);
}

#[test]
fn opencode_through_codecast() {
    through(Cli::Opencode, Door::Codecast);
}

#[test]
fn opencode_through_zeroclaw() {
    through(Cli::Opencode, Door::Zeroclaw);
}
