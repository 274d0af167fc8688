//! The played CLIs behind both doors: the same scenarios as for the real ones, with nothing installed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "test code: a broken assumption must end the test at once"
)]

use crate::tier;

use std::time::Duration;

use hostel_tests::agents;
use serde_json::json;

use tier::stage::Stage;
use tier::world::{Traits, Witness, Words, World};
use tier::{Door, play};

const LIMIT: Duration = hostel_tests::wait::LIMIT;

const WORDS: Words = Words { ask: "ask:", failures: &[("fail: fake model error 401", "fake model error 401")] };

/// The played CLIs by name, and how they are unlike each other.
const CLIS: [(&str, Traits); 5] = [
    ("claude", Traits { streams_alone: true, asks_alone: true, takes_no: true }),
    ("codex", Traits { streams_alone: false, asks_alone: false, takes_no: true }),
    ("gemini", Traits { streams_alone: true, asks_alone: false, takes_no: true }),
    ("opencode", Traits { streams_alone: false, asks_alone: false, takes_no: false }),
    // Any other agent that speaks ACP; it does so in a process for one message too.
    ("acp-agent", Traits { streams_alone: true, asks_alone: true, takes_no: true }),
];

fn through(alias: &'static str, door: Door) {
    let (_, traits) = *CLIS.iter().find(|(name, _)| *name == alias).expect("a CLI of that name");
    let bin = tempfile::tempdir().expect("a temporary directory");
    agents::fake_clis(&bin.path().join("bin"));
    let mut stage = Stage::prepare(&bin.path().join("bin"), LIMIT);
    let (log, state) = (stage.root().join("cli.jsonl"), stage.root().join("cli"));
    let kind = if alias == "acp-agent" { "kind = \"acp\"\ncommand = [\"acp-agent\"]\n" } else { "" };
    let env = format!("env = {{ FAKECLI_LOG = {}, FAKECLI_STATE = {} }}\n", json!(log), json!(state));
    stage.open(&format!("[agents.{alias}]\n{kind}{env}"));
    let title = format!("played {alias}");
    play(&World { title, alias, traits, words: WORDS, stage, witness: Witness::Log(log) }, door);
}

#[test]
fn claude_through_codecast() {
    through("claude", Door::Codecast);
}

#[test]
fn claude_through_zeroclaw() {
    through("claude", Door::Zeroclaw);
}

#[test]
fn codex_through_codecast() {
    through("codex", Door::Codecast);
}

#[test]
fn codex_through_zeroclaw() {
    through("codex", Door::Zeroclaw);
}

#[test]
fn gemini_through_codecast() {
    through("gemini", Door::Codecast);
}

#[test]
fn gemini_through_zeroclaw() {
    through("gemini", Door::Zeroclaw);
}

#[test]
fn opencode_through_codecast() {
    through("opencode", Door::Codecast);
}

#[test]
fn opencode_through_zeroclaw() {
    through("opencode", Door::Zeroclaw);
}

#[test]
fn any_acp_agent_through_codecast() {
    through("acp-agent", Door::Codecast);
}

#[test]
fn any_acp_agent_through_zeroclaw() {
    through("acp-agent", Door::Zeroclaw);
}
