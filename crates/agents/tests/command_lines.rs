//! The command lines of claude and codex, in every hosting and mode.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_agents::{Hosting, Kind, Launch, Mode, Setup, driver, launch};
use support::setup;

const MODES: [Mode; 4] = [Mode::Auto, Mode::Code, Mode::Plan, Mode::Ask];

fn with_prompt(kind: Kind, mode: Mode, prompt: &str) -> Setup {
    let mut setup = setup(kind, Hosting::PerMessage, mode);
    setup.prompt = Some(prompt.to_owned());
    setup
}

/// The arguments in one line, and whether the driver agrees on where the prompt is.
fn line(setup: &Setup) -> String {
    let Launch { program, args, prompt_in_args, env } = launch(setup);
    assert!(env.contains(&("TERM".to_owned(), "dumb".to_owned())));
    if setup.hosting == Hosting::PerMessage {
        assert_eq!(driver(setup).ready(), !prompt_in_args, "the driver waits for a prompt that is not an argument");
    } else {
        assert!(!prompt_in_args);
    }
    format!("{program} {}", args.join(" "))
}

#[test]
fn claude_for_one_message() {
    let flags = "--output-format stream-json --include-partial-messages --verbose";
    for (mode, expected) in [
        (Mode::Auto, format!("claude --print do it {flags} --dangerously-skip-permissions")),
        (Mode::Code, format!("claude --print do it {flags} --permission-mode acceptEdits")),
        (Mode::Plan, format!("claude --print do it {flags} --permission-mode plan")),
        (
            Mode::Ask,
            format!(
                "claude --print --input-format stream-json --permission-prompt-tool stdio {flags} --permission-mode default"
            ),
        ),
    ] {
        let mut setup = with_prompt(Kind::Claude, mode, "do it");
        assert_eq!(line(&setup), expected);
        setup.model = Some("opus".into());
        setup.resume = Some("id".into());
        assert_eq!(line(&setup), format!("{expected} --model opus --resume id"));
        setup.prompt = Some("-x".into());
        let by_stdin = expected.replace(" do it", "");
        assert_eq!(line(&setup), format!("{by_stdin} --model opus --resume id"));
    }
}

#[test]
fn claude_kept_warm() {
    let flags = "--print --input-format stream-json --permission-prompt-tool stdio --output-format stream-json \
                 --include-partial-messages --verbose";
    for (mode, words) in [
        (Mode::Auto, "--dangerously-skip-permissions"),
        (Mode::Code, "--permission-mode acceptEdits"),
        (Mode::Plan, "--permission-mode plan"),
        (Mode::Ask, "--permission-mode default"),
    ] {
        let mut setup = setup(Kind::Claude, Hosting::Warm, mode);
        assert_eq!(line(&setup), format!("claude {flags} {words}"));
        setup.model = Some("opus".into());
        setup.resume = Some("id".into());
        assert_eq!(line(&setup), format!("claude {flags} {words} --model opus --resume id"));
    }
}

#[test]
fn claude_as_root_is_told_of_a_sandbox_only_where_it_would_refuse() {
    for mode in MODES {
        for hosting in [Hosting::Warm, Hosting::PerMessage] {
            for root in [true, false] {
                let mut setup = setup(Kind::Claude, hosting, mode);
                setup.root = root;
                let told = launch(&setup).env.contains(&("IS_SANDBOX".to_owned(), "1".to_owned()));
                assert_eq!(told, root && mode == Mode::Auto);
            }
        }
    }
}

#[test]
fn codex_for_one_message() {
    for (mode, sandbox) in [
        (Mode::Auto, "danger-full-access"),
        (Mode::Code, "workspace-write"),
        (Mode::Plan, "read-only"),
        (Mode::Ask, "read-only"),
    ] {
        let options = format!(
            "codex exec --json --skip-git-repo-check --sandbox {sandbox} --cd /home/dev/project -c approval_policy=\"never\""
        );
        let mut setup = with_prompt(Kind::Codex, mode, "do it");
        assert_eq!(line(&setup), format!("{options} do it"));
        setup.model = Some("gpt".into());
        setup.resume = Some("id".into());
        assert_eq!(line(&setup), format!("{options} --model gpt resume id do it"));
        setup.prompt = Some("- it".into());
        assert_eq!(line(&setup), format!("{options} --model gpt resume id -"));
    }
    assert!(line(&with_prompt(Kind::Codex, Mode::Code, "review")).ends_with(" -"));
    let mut resumed = with_prompt(Kind::Codex, Mode::Code, "review");
    resumed.resume = Some("id".into());
    assert!(line(&resumed).ends_with(" resume id review"), "after a session id it can only be a prompt");
}

#[test]
fn codex_kept_warm() {
    for mode in MODES {
        let mut setup = setup(Kind::Codex, Hosting::Warm, mode);
        setup.model = Some("gpt".into());
        setup.resume = Some("id".into());
        assert_eq!(line(&setup), "codex app-server", "the rest is said when the thread begins");
    }
}

#[test]
fn prompts_are_arguments_only_up_to_a_length() {
    for kind in [Kind::Claude, Kind::Codex] {
        for (prompt, in_args) in [
            ("x".repeat(100_000), true),
            ("x".repeat(100_001), false),
            ("ü".repeat(50_001), false),
            ("a\0b".to_owned(), false),
            ("-p".to_owned(), false),
            (String::new(), false),
            (" -p".to_owned(), true),
            ("zwei\nZeilen".to_owned(), true),
        ] {
            let setup = with_prompt(kind, Mode::Auto, &prompt);
            let launch = launch(&setup);
            assert_eq!(launch.prompt_in_args, in_args, "{kind:?} {} bytes", prompt.len());
            assert_eq!(launch.args.contains(&prompt), in_args);
        }
    }
}

#[test]
fn a_command_takes_the_place_of_the_name() {
    for kind in [Kind::Claude, Kind::Codex] {
        for hosting in [Hosting::Warm, Hosting::PerMessage] {
            let mut setup = setup(kind, hosting, Mode::Auto);
            setup.prompt = Some("hi".into());
            let plain = launch(&setup);
            assert_eq!(plain.program, kind.name());
            setup.command = vec!["/opt/node".into(), "cli.js".into()];
            let replaced = launch(&setup);
            assert_eq!(replaced.program, "/opt/node");
            assert_eq!(replaced.args[0], "cli.js");
            assert_eq!(replaced.args[1..], plain.args[..]);
        }
    }
}
