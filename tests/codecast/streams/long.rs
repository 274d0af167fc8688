//! What is long: lines, prompts, answers, waits.

use hostel_tests::codecast::Daemon;
use serde_json::json;

/// What the HTTP library of this contract's clients takes, in its older releases.
const LONGEST_LINE: usize = 128 * 1024;

#[test]
fn a_long_answer_comes_in_several_lines_and_loses_nothing() {
    let daemon = Daemon::start();
    for agent in ["claude", "opencode"] {
        let session = daemon.create(agent);
        let mut stream = daemon.send(&session, "bigline 3000000");
        let mut texts = String::new();
        loop {
            let frame = stream.frame();
            assert!(frame.len() < LONGEST_LINE, "a line of {} bytes", frame.len());
            if frame == "[DONE]" {
                break;
            }
            let event: serde_json::Value = serde_json::from_str(&frame).unwrap();
            if event["type"] == "text" {
                texts.push_str(event["content"].as_str().unwrap());
            }
        }
        assert!(texts.len() >= 3_000_000, "{agent}: {} bytes", texts.len());
        assert!(texts.ends_with("big line done"), "{agent}");
    }
}

#[test]
fn the_longest_message_reaches_every_cli() {
    let daemon = Daemon::start();
    // More than one argument may hold, and nearly as much as a request may.
    let text = "x".repeat(1_900_000);
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let session = daemon.create(agent);
        let events = daemon.send(&session, &format!("count {text}")).events();
        let said = events.iter().find(|event| event["type"] == "text").unwrap_or_else(|| panic!("{agent}: {events:?}"));
        assert_eq!(said["content"], "counted 1900000", "{agent}");
    }
}

#[test]
fn a_message_that_looks_like_an_option_is_a_message() {
    let daemon = Daemon::start();
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let session = daemon.create(agent);
        let events = daemon.send(&session, "--help").events();
        let said = events.iter().find(|event| event["type"] == "text").unwrap_or_else(|| panic!("{agent}: {events:?}"));
        assert!(said["content"].as_str().unwrap().contains("--help"), "{agent}: {said}");
    }
}

#[test]
fn a_silent_stream_says_every_half_minute_that_it_is_alive() {
    let daemon = Daemon::start();
    let session = daemon.create("echo");
    let mut stream = daemon.send(&session, "sleep 600");
    let mut pings = Vec::new();
    while pings.len() < 2 {
        if stream.frame() == r#"{"type":"ping"}"# {
            pings.push(std::time::Instant::now());
        }
    }
    // Half a minute, and what a busy machine adds.
    let between = (pings[1] - pings[0]).as_secs_f64();
    assert!((25.0..90.0).contains(&between), "{between}");
    daemon.call("session.destroy", &json!({"sessionId": session}));
}
