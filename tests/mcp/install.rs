//! `hostel mcp install`: what is written, and that the agents themselves see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hostel_tests::binary;
use hostel_tests::mcp::Place;
use serde_json::{Value, json};

const CLIENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn install(place: &Place, words: &[&str]) -> Value {
    let words: Vec<&str> = ["mcp"].iter().chain(words).copied().chain(["--json"]).collect();
    serde_json::from_str(&place.succeed(&words)).unwrap()
}

fn file(told: &Value) -> PathBuf {
    PathBuf::from(told["file"].as_str().unwrap())
}

#[test]
fn in_and_out_again_for_every_client() {
    let place = Place::new();
    for client in CLIENTS {
        for scope in ["user", "project"] {
            let told = install(&place, &["install", client, "--scope", scope, "--dry-run"]);
            assert_eq!((&told["changed"], &told["dry_run"]), (&json!(true), &json!(true)));
            assert!(!file(&told).exists(), "{told}");
            let told = install(&place, &["install", client, "--scope", scope]);
            assert_eq!(told["changed"], true);
            let written = fs::read_to_string(file(&told)).unwrap();
            let program = binary::hostel();
            assert!(written.contains(program.canonicalize().unwrap().to_str().unwrap()), "{written}");
            // Its house is not the default one, and the agent is told so.
            assert!(written.contains("--home") && written.contains(place.house().to_str().unwrap()), "{written}");
            assert_eq!(install(&place, &["install", client, "--scope", scope])["changed"], false);
            assert_eq!(fs::read_to_string(file(&told)).unwrap(), written);
            assert_eq!(install(&place, &["install", client, "--scope", scope, "--channel"])["changed"], true);
            assert!(fs::read_to_string(file(&told)).unwrap().contains("\"--channel\""));
            assert_eq!(install(&place, &["uninstall", client, "--scope", scope])["changed"], true);
            assert!(!fs::read_to_string(file(&told)).unwrap().contains("\"hostel\""));
            assert_eq!(install(&place, &["uninstall", client, "--scope", scope])["changed"], false);
        }
    }
}

#[test]
fn what_others_wrote_stays_byte_for_byte() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/.codex")).unwrap();
    fs::create_dir_all(place.path("home/.config/opencode")).unwrap();
    fs::create_dir_all(place.path("home/.gemini")).unwrap();
    let texts = [
        (
            "claude",
            "home/.claude.json",
            "{\n\t\"numStartups\": 3,\n\t\"mcpServers\": {\n\t\t\"x\": {\"command\":\"y\"}\n\t},\n\t\"big\": [1,2,   3]\n}",
        ),
        (
            "codex",
            "home/.codex/config.toml",
            "# mine\nmodel = 'o3'   # yes\n\n[mcp_servers.x]\ncommand = \"y\"\n\n[tui]\nnotifications = true\n",
        ),
        (
            "gemini",
            "home/.gemini/settings.json",
            "{\"mcpServers\":{\"x\":{\"command\":\"y\"}},\"ui\":{\"theme\":\"é\"}}\n",
        ),
        (
            "opencode",
            "home/.config/opencode/opencode.jsonc",
            "{\n  // mine\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"x\": {}, // theirs\n  },\n}\n",
        ),
    ];
    for (client, path, text) in texts {
        let path = place.path(path);
        fs::write(&path, text).unwrap();
        let told = install(&place, &["install", client]);
        assert_eq!(file(&told), path);
        let written = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.contains("\"y\"") && !line.trim().is_empty()) {
            assert!(written.contains(line), "{client}: {line:?} is gone from {written}");
        }
        install(&place, &["uninstall", client]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{client}");
    }
}

#[test]
fn what_cannot_be_understood_is_left_alone() {
    let place = Place::new();
    fs::write(place.path("home/.claude.json"), "{\"mcpServers\": [").unwrap();
    let output = place.hostel(&["mcp", "install", "claude"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot change") && said.contains("line 1"), "{said}");
    assert_eq!(fs::read_to_string(place.path("home/.claude.json")).unwrap(), "{\"mcpServers\": [");
    for (words, code) in [
        (&["mcp", "install", "nobody"][..], 2),
        (&["mcp", "install", "codex", "--scope", "local"], 2),
        (&["mcp", "install", "codex", "--name", "a b"], 2),
    ] {
        assert_eq!(place.hostel(words).status.code(), Some(code), "{words:?}");
    }
}

/// With the real programs, where they are: `scripts/test --agents` says where.
#[test]
fn the_agents_see_it() {
    let Some(agents) = std::env::var_os("HOSTEL_AGENTS").map(PathBuf::from) else {
        eprintln!("skipped: HOSTEL_AGENTS does not say where the real agents are");
        return;
    };
    let place = Place::new();
    for client in CLIENTS {
        install(&place, &["install", client]);
        let mut command: Command = place.command(agents.join("bin").join(client));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", path).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        let output = command.args(["mcp", "list"]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("hostel"), "{client}: {said}");
        // Codex lists without asking; the others start the server and talk to it.
        assert!(client == "codex" || said.to_lowercase().contains("connected"), "{client}: {said}");
    }
}
