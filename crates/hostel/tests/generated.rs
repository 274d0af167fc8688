//! What is generated from the command line's definition and checked in must be what the program generates now.
//! `HOSTEL_UPDATE=1` writes the files anew.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use std::path::Path;
use std::path::PathBuf;

use common::House;

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a file with what it should hold, or writes it.
fn check(path: &Path, wanted: &str) {
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is out of date; run `HOSTEL_UPDATE=1 cargo test -p hostel --test hostel_tests generated::`",
        path.display()
    );
}

#[test]
fn completions_are_up_to_date() {
    let house = House::new();
    for (shell, file) in [("bash", "hostel.bash"), ("zsh", "_hostel"), ("fish", "hostel.fish")] {
        let outcome = house.hostel(["completions", shell]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.out.contains("hostel"));
        check(&docs().join("completions").join(file), &outcome.out);
    }
}

#[test]
fn bash_can_read_its_completion() {
    let house = House::new();
    let script = house.path().join("hostel.bash");
    std::fs::write(&script, house.hostel(["completions", "bash"]).out).unwrap();
    let checked = std::process::Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn manual_pages_are_up_to_date() {
    let house = House::new();
    let directory = house.path().join("man");
    let outcome = house.hostel(["man".as_ref(), "--out".as_ref(), directory.as_os_str()]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let names = |path: PathBuf| {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let made = names(directory.clone());
    assert!(made.contains(&"hostel.1".to_owned()) && made.contains(&"hostel-run.1".to_owned()), "{made:?}");
    for name in &made {
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        check(&docs().join("man").join(name), &text);
    }
    assert_eq!(names(docs().join("man")), made, "docs/man holds pages of verbs that are gone");
    assert_eq!(house.hostel(["man"]).out, std::fs::read_to_string(directory.join("hostel.1")).unwrap());
}

#[test]
fn the_reference_is_up_to_date() {
    let house = House::new();
    let mut text = String::from(
        "# The command line\n\nGenerated from the program's own help; `cargo test -p hostel --test hostel_tests generated::` \
         compares it.\n",
    );
    let verbs: [&[&str]; 114] = [
        &[],
        &["up"],
        &["down"],
        &["run"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "interrupt"],
        &["sessions", "close"],
        &["sessions", "delete"],
        &["sessions", "export"],
        &["send"],
        &["watch"],
        &["approvals"],
        &["approvals", "list"],
        &["approvals", "show"],
        &["approvals", "approve"],
        &["approvals", "deny"],
        &["approvals", "watch"],
        &["approvals", "why"],
        &["approvals", "grants"],
        &["approvals", "revoke"],
        &["approver"],
        &["approver", "set"],
        &["approver", "status"],
        &["approver", "clear"],
        &["audit"],
        &["audit", "show"],
        &["audit", "verify"],
        &["mesh"],
        &["mesh", "create"],
        &["mesh", "join"],
        &["mesh", "list"],
        &["mesh", "leave"],
        &["mesh", "invite"],
        &["mesh", "invite", "create"],
        &["mesh", "invite", "list"],
        &["mesh", "invite", "revoke"],
        &["mesh", "member"],
        &["mesh", "member", "list"],
        &["mesh", "member", "revoke"],
        &["mesh", "member", "kick"],
        &["mesh", "member", "ban"],
        &["mesh", "member", "unban"],
        &["mesh", "member", "disconnect"],
        &["mesh", "audit"],
        &["mesh", "peers"],
        &["mesh", "peer"],
        &["mesh", "peer", "list"],
        &["mesh", "peer", "block"],
        &["mesh", "peer", "unblock"],
        &["mesh", "peer", "grant"],
        &["mesh", "peer", "grants"],
        &["mesh", "send"],
        &["mesh", "post"],
        &["mesh", "subscribe"],
        &["mesh", "unsubscribe"],
        &["mesh", "topics"],
        &["mesh", "topic"],
        &["mesh", "topic", "list"],
        &["mesh", "topic", "post"],
        &["mesh", "topic", "subscribe"],
        &["mesh", "topic", "unsubscribe"],
        &["mesh", "inbox"],
        &["mesh", "search"],
        &["mesh", "file"],
        &["mesh", "file", "share"],
        &["mesh", "file", "get"],
        &["mesh", "file", "list"],
        &["mesh", "events"],
        &["mesh", "profile"],
        &["mesh", "rename"],
        &["mesh", "verify"],
        &["mesh", "daemon"],
        &["mesh", "daemon", "up"],
        &["mesh", "daemon", "down"],
        &["mesh", "daemon", "status"],
        &["mesh", "daemon", "version"],
        &["mesh", "daemon", "restart"],
        &["mesh", "daemon", "logs"],
        &["mesh", "daemon", "search"],
        &["mesh", "daemon", "rotate-token"],
        &["mesh", "daemon", "accept-host"],
        &["mesh", "daemon", "outbox"],
        &["mesh", "daemon", "outbox", "list"],
        &["mesh", "daemon", "outbox", "requeue"],
        &["mesh", "daemon", "outbox", "prune"],
        &["broker"],
        &["broker", "up"],
        &["broker", "down"],
        &["broker", "status"],
        &["ps"],
        &["logs"],
        &["attach"],
        &["kill"],
        &["doctor"],
        &["df"],
        &["gc"],
        &["journal"],
        &["journal", "verify"],
        &["link"],
        &["keeper"],
        &["keeper", "status"],
        &["keeper", "upgrade"],
        &["config"],
        &["config", "show"],
        &["config", "path"],
        &["config", "check"],
        &["mcp"],
        &["mcp", "install"],
        &["mcp", "uninstall"],
        &["completions"],
        &["man"],
        &["as"],
    ];
    for verb in verbs {
        let outcome = house.hostel(verb.iter().copied().chain(["--help"]));
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{verb:?}");
        let lines: Vec<&str> = outcome.out.lines().map(str::trim_end).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{verb:?} has lines longer than 100");
        let title = ["hostel"].iter().chain(verb).copied().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    }
    check(&docs().join("cli.md"), &text);
}
