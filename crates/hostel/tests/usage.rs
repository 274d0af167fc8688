//! Command lines that are wrong, and what the program says about them: one line, what was wrong, what to do next.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use common::House;

#[test]
fn mistakes_in_the_command_line() {
    let house = House::new();
    let cases: [(&[&str], &str); 17] = [
        (
            &[],
            "'hostel' requires a subcommand but one was not provided [subcommands: up, down, run, sessions, send, watch, approvals, approver, audit, mcp, mesh, broker, backup, restore, ps, logs, attach, kill, doctor, df, gc, journal, link, service, keeper, config, completions, man, as]; see `hostel --help`",
        ),
        (&["frob"], "unrecognized subcommand 'frob'; see `hostel --help`"),
        (&["log", "x"], "unrecognized subcommand 'log'; a similar subcommand exists: 'logs'; see `hostel --help`"),
        (&["logs"], "the following required arguments were not provided: <ID>; see `hostel logs --help`"),
        (
            &["logs", "--folow", "x"],
            "unexpected argument '--folow' found; a similar argument exists: '--follow'; see `hostel logs --help`",
        ),
        (
            &["logs", "--since-seq", "x", "y"],
            "invalid value 'x' for '--since-seq <SEQ>': invalid digit found in string; see `hostel --help`",
        ),
        (
            &["run"],
            "there is nothing to run; host a command with `hostel run -- COMMAND`, or start an agent with `hostel run \"PROMPT\"`",
        ),
        (&["sessions", "frob"], "unrecognized subcommand 'frob'; see `hostel sessions --help`"),
        (
            &["run", "ls", "here"],
            "a command comes after `--`, and a prompt is exactly one word; host a command with `hostel run -- COMMAND`, or start an agent with `hostel run \"PROMPT\"`",
        ),
        (
            &["run", "ls", "--", "ls"],
            "a command comes after `--`, and a prompt is exactly one word; host a command with `hostel run -- COMMAND`, or start an agent with `hostel run \"PROMPT\"`",
        ),
        (&["run", "--env", "A", "--", "true"], "`--env A` is not KEY=VALUE; write for example `--env LANG=C`"),
        (&["run", "--name", "", "--", "true"], "a process cannot have an empty name"),
        (&["kill", "--wait", "soon", "x"], "`soon` is not a duration, write for example \"7d\" or \"1h 30m\""),
        (
            &["as", "nobody"],
            "`nobody` is not a program this one can act as; there is: claustrum, codecast-daemon, zeroclaw, sudo-proxy, sudo-request, sudo-proxy-mcp, claudemesh",
        ),
        (
            &["up", "--set", "journal.quotta=1"],
            "there is no setting `journal.quotta`; see every setting with `hostel config show`",
        ),
        (
            &["up", "--set", "agents.claude.mode=yolo"],
            "--set agents.claude.mode: `yolo` is not one of \"plan\", \"ask\", \"code\", \"auto\"",
        ),
        (&["ps", "--house", "nowhere"], "there is no house `nowhere`; there are: home"),
    ];
    for (words, expected) in cases {
        let outcome = house.hostel(words);
        assert_eq!(outcome.err, format!("hostel: {expected}\n"), "{words:?}");
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{words:?}");
    }
}

#[test]
fn failures_when_nothing_is_up() {
    let house = House::new();
    let socket = house.home().join("run/hostel.sock");
    let expected =
        format!("hostel: no house is up, nobody answers on `{}`; start it with `hostel up`\n", socket.display());
    for words in [
        &["ps"][..],
        &["logs", "x"],
        &["attach", "x"],
        &["kill", "x"],
        &["run", "--", "true"],
        &["run", "hello"],
        &["sessions"],
        &["send", "x", "hello"],
        &["watch", "x"],
        &["approvals"],
        &["approver", "status"],
        &["audit", "show"],
        &["audit", "verify"],
        &["df"],
        &["gc"],
    ] {
        let outcome = house.hostel(words);
        assert_eq!((outcome.code, outcome.err.as_str(), outcome.out.as_str()), (1, expected.as_str(), ""), "{words:?}");
    }
    let outcome = house.hostel(["--json", "ps"]);
    let error: serde_json::Value = serde_json::from_str(&outcome.err).unwrap();
    assert_eq!(error["error"]["kind"], "failure");
    assert_eq!(error["error"]["hints"][0], "start it with `hostel up`");
    assert!(!house.home().exists(), "asking must not make a house");
}

#[test]
fn a_broken_configuration_is_named_by_its_line() {
    let house = House::new();
    let file = house.path().join("hostel.toml");
    std::fs::write(&file, "[journal]\nquota = \"1 GiB\"\n\n[limits]\nreconect = \"1s\"\n").unwrap();
    let outcome = house.hostel(["config".as_ref(), "check".as_ref(), file.as_os_str()]);
    assert_eq!(outcome.code, 2);
    assert_eq!(
        outcome.err,
        format!(
            "hostel: {}:5: unknown key `reconect`, the keys here are `connections`, `reconnect`, `start`, `shutdown`, \
             `log`; see every setting with `hostel config show`\n",
            file.display()
        )
    );
    let agents = house.path().join("agents.toml");
    std::fs::write(&agents, "[sessions]\nqueue = 4\n\n[agents.helper]\ncommand = [\"helper\"]\n").unwrap();
    let outcome = house.hostel(["config".as_ref(), "check".as_ref(), agents.as_os_str()]);
    assert_eq!(outcome.code, 2);
    assert_eq!(
        outcome.err,
        format!(
            "hostel: {}:4: `agents.helper` has no `kind`; it is one of \"claude\", \"codex\", \"gemini\", \"opencode\", \
             \"acp\", \"echo\"\n",
            agents.display()
        )
    );
    std::fs::create_dir(house.home()).unwrap();
    std::fs::copy(&file, house.home().join("hostel.toml")).unwrap();
    for daemon in ["codecast-daemon", "zeroclaw"] {
        let outcome = house.hostel(["as", daemon, "daemon"]);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.err.contains("hostel.toml:5: unknown key"), "{outcome:?}");
    }
    let outcome = house.hostel(["up"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("hostel.toml:5: unknown key"), "{outcome:?}");
    assert!(!house.home().join("run").exists());
}

#[test]
fn settings_come_from_flag_environment_and_file() {
    let house = House::new();
    std::fs::create_dir(house.home()).unwrap();
    std::fs::write(house.home().join("hostel.toml"), "[journal]\nquota = \"1 GiB\"\nkeep_count = 5\n").unwrap();
    let mut command = house.command();
    command.env("HOSTEL_JOURNAL_KEEP_COUNT", "6").env("HOSTEL_JOURNAL_QUOTA", "2 GiB");
    command.args(["config", "show", "--json", "--set", "journal.quota=3GiB"]);
    let outcome = common::finish(command.spawn().unwrap());
    let rows: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    let row = |key: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
        (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(row("journal.quota"), ("3 GiB".to_owned(), "--set".to_owned()));
    assert_eq!(row("journal.keep_count"), ("6".to_owned(), "HOSTEL_JOURNAL_KEEP_COUNT".to_owned()));
    assert_eq!(row("journal.on_full"), ("hold".to_owned(), "built in".to_owned()));
}

#[test]
fn links_are_made_once_and_only_replaced_by_force() {
    let house = House::new();
    let link = house.path().join("claustrum");
    let target = std::fs::canonicalize(env!("CARGO_BIN_EXE_hostel")).unwrap();
    for _ in 0..2 {
        let outcome = house.hostel(["link".as_ref(), house.path().as_os_str()]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        for name in ["claustrum", "codecast-daemon", "zeroclaw", "claudemesh"] {
            assert_eq!(std::fs::read_link(house.path().join(name)).unwrap(), target);
        }
    }
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "somebody's").unwrap();
    let outcome = house.hostel(["link".as_ref(), house.path().as_os_str()]);
    assert_eq!(outcome.code, 1);
    assert_eq!(
        outcome.err,
        format!("hostel: `{}` exists and is something else; replace it with `--force`\n", link.display())
    );
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "somebody's");
    let outcome = house.hostel(["link".as_ref(), house.path().as_os_str(), "--force".as_ref()]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let version = std::process::Command::new(&link).arg("-version").env("HOME", house.path()).output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("claustrum hostel-"));
}
