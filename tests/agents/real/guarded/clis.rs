//! The real CLIs in a house of an ordinary user.

use std::fs;

use hostel_tests::agents::{self, Cli, FakeModel};
use hostel_tests::process::run;
use hostel_tests::{procfs, skip};
use serde_json::json;

use super::machine::Machine;
use super::place::PATH;

/// A CLI answers and runs a tool, and neither it nor its tool sees the house.
fn works_in_a_guard(cli: Cli) {
    let name = cli.name();
    let Some(mut machine) = Machine::new(&format!("{name} of an ordinary user")) else { return };
    let bin = machine.agents();
    let node = machine.command("node", &["--version"]);
    if cli == Cli::Gemini && !run(node).status.success() {
        return skip("node is not where an ordinary user can execute it");
    }
    let model = FakeModel::start(machine.place.path());
    let environment: Vec<String> = agents::environment(cli, model.port(), machine.place.path())
        .iter()
        .map(|(name, value)| format!("{name} = {}", json!(value)))
        .collect();
    machine.place.own(machine.place.path());
    let agent = format!("\n[agents.{name}]\nmode = \"auto\"\n[agents.{name}.env]\n{}\n", environment.join("\n"));
    machine.place.settings("", &agent);
    machine.place.variable("PATH", &format!("{}:{PATH}", bin.display()));
    if !machine.up() {
        return;
    }
    let (place, secret) = (&machine.place, machine.place.home().join("state.db"));
    assert!(secret.exists());
    let prompt = format!("tool: test -e {}; echo $? >seen.txt; id -u >user.txt", secret.display());
    let said = place.good(&["run", "--agent", name, &prompt]);
    let read = |file: &str| {
        fs::read_to_string(place.work().join(file)).unwrap_or_else(|error| panic!("{file}: {error}: {said}"))
    };
    assert_eq!((read("seen.txt").trim(), read("user.txt").trim()), ("1", place.user.to_string().as_str()), "{said}");
    let sessions = place.json(&["sessions"])["sessions"].clone();
    let [session] = &sessions.as_array().unwrap()[..] else { panic!("one session: {sessions}") };
    assert_eq!((&session["agent_alias"], &session["guard"]["active"]), (&json!(name), &json!("full")), "{session}");
    // What the house says is true of the process that is kept for the next prompt.
    let process = session["pid"].as_i64().unwrap_or_else(|| panic!("no process: {session}"));
    let command = procfs::command_line(i32::try_from(process).unwrap());
    assert!(command.contains(name) && !command.contains("guard-launch"), "{command}");
    let view = |process: String| fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
    assert_ne!(view(process.to_string()), view(place.sandbox.daemons()[0].pid.to_string()), "the view of the daemon");
}

#[test]
fn claude_works_for_an_ordinary_user() {
    works_in_a_guard(Cli::Claude);
}

#[test]
fn codex_works_for_an_ordinary_user() {
    works_in_a_guard(Cli::Codex);
}

#[test]
fn gemini_works_for_an_ordinary_user() {
    works_in_a_guard(Cli::Gemini);
}

#[test]
fn opencode_works_for_an_ordinary_user() {
    works_in_a_guard(Cli::Opencode);
}
