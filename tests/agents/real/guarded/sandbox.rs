//! codex's own sandbox inside the guard. It is made of user namespaces, which take a grant there.

use std::collections::BTreeMap;

use hostel_tests::agents::{self, Cli, FakeModel};
use hostel_tests::house::path_text;
use serde_json::json;

use super::machine::Machine;
use super::place::PATH;

const GRANT: &str = "grant = [\"user-namespaces\"]";

/// Writes beside the project, which is all that codex's sandbox lets a command write to: first without the sandbox, then
/// in it. The first argument is a file of the house.
const SCRIPT: &str = r#"
rm -rf project beside.txt; mkdir project; cd project
echo x >../beside.txt && rm ../beside.txt && echo "beside, without the sandbox: written"
codex sandbox -c 'sandbox_mode="workspace-write"' -- sh -c '
    echo x >inside.txt && echo "inside: written"
    (echo x >../beside.txt) 2>/dev/null || echo "beside: refused"
    python3 -c "import socket; socket.create_connection((\"127.0.0.1\", 1))" 2>&1 | tail -n 1' 2>&1
echo code $?; ls ../beside.txt 2>&1; cat inside.txt
"#;

const EXPECTED: &str = "beside, without the sandbox: written
inside: written
beside: refused
PermissionError: [Errno 1] Operation not permitted
code 0
ls: cannot access '../beside.txt': No such file or directory
x";

/// What codex says where it can make no namespace.
const REFUSED: &str = "bwrap: ";

/// A house that is up, for which codex is on the search path. `granted` is an agent that may make user namespaces; of
/// codex itself there are `codex`, `codex-granted` and `codex-bare`.
fn house() -> Option<(Machine, FakeModel)> {
    let mut machine = Machine::new("codex's own sandbox")?;
    let path = format!("{}:{PATH}", machine.agents().display());
    machine.place.variable("PATH", &path);
    let model = FakeModel::start(machine.place.path());
    let environment = agents::environment(Cli::Codex, model.port(), machine.place.path());
    let mut codex = String::new();
    for (agent, guard) in [("codex", ""), ("codex-granted", GRANT), ("codex-bare", "guard = \"off\"")] {
        codex += &format!("\n[agents.{agent}]\nkind = \"codex\"\n{guard}\n[agents.{agent}.env]\n");
        environment.iter().for_each(|(name, value)| codex += &format!("{name} = {}\n", json!(value)));
    }
    for (name, value) in environment {
        machine.place.variable(&name, &value);
    }
    machine.settings(GRANT, &codex);
    machine.place.own(machine.place.path());
    machine.up().then_some((machine, model))
}

#[test]
fn codex_sandboxes_a_command_as_without_a_guard() {
    let Some((machine, _model)) = house() else { return };
    let place = &machine.place;
    assert_eq!(place.script_of("bare", SCRIPT), EXPECTED, "without a guard");
    assert_eq!(place.script_of("granted", SCRIPT), EXPECTED, "with a guard");
    // The namespaces of the sandbox do not bring back what the guard has hidden.
    let look = "codex sandbox -- sh -c 'test -e $HOSTEL_HOME/state.db && echo there || echo hidden'";
    assert_eq!(
        (place.script_of("bare", look).as_str(), place.script_of("granted", look).as_str()),
        ("there", "hidden")
    );
    // Without the grant codex runs nothing at all.
    let refused = place.script_of("fake", SCRIPT);
    assert!(refused.contains(REFUSED) && !refused.contains("inside: written"), "{refused}");
    assert!(!place.work().join("project/inside.txt").exists());
}

/// In the mode `code` codex runs its tools in the sandbox.
#[test]
fn codex_sandboxes_its_tools_as_without_a_guard() {
    let Some((machine, _model)) = house() else { return };
    let place = &machine.place;
    for (agent, reason) in
        [("codex-bare", "../beside.txt: Read-only"), ("codex-granted", "../beside.txt: Read-only"), ("codex", REFUSED)]
    {
        let project = place.write(&format!("work/{agent}/readme"), "").with_file_name("");
        let prompt = "tool: echo x >inside.txt; echo x >../beside.txt";
        let said = place.good(&["run", "--agent", agent, "--mode", "code", "--cwd", path_text(&project), prompt]);
        assert!(said.contains(reason), "{agent}: {said}");
        assert_eq!(project.join("inside.txt").exists(), agent != "codex", "{agent}: {said}");
        assert!(!place.work().join("beside.txt").exists(), "{agent}: {said}");
    }
    let sessions = place.json(&["sessions"])["sessions"].clone();
    let guards: BTreeMap<&str, &str> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| (session["agent_alias"].as_str().unwrap(), session["guard"]["active"].as_str().unwrap()))
        .collect();
    assert_eq!(guards, BTreeMap::from([("codex", "full"), ("codex-bare", "none"), ("codex-granted", "full")]));
}
