//! Services: units that systemd accepts, a property list that is one, and daemons that are started, asked for and ended
//! through a supervisor; where there is none that is said and everything works by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use hostel_tests::claudemesh::Supervised;
use hostel_tests::{house, wait};
use serde_json::Value;

/// A home with a broker and these meshes, whose daemons are not up.
fn joined(meshes: &[&str]) -> Supervised {
    let home = Supervised::new();
    let output = home.hostel(&["broker", "up"]);
    assert!(output.status.success(), "{output:?}");
    for mesh in meshes {
        home.good(&["create", mesh, "--name", "box", "--no-start"]);
    }
    home
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn pid_of(home: &Supervised, mesh: &str) -> Option<u64> {
    home.json(&["daemon", "status", "--mesh", mesh])["pid"].as_u64()
}

/// What systemd itself says of a unit file; nothing where there is no systemd-analyze.
fn verify(path: &Path, user: bool) {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("skipped in part: there is no systemd-analyze");
        return;
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--generators=no", "--recursive-errors=no"]);
    if user {
        command.arg("--user");
    }
    let output = house::run({
        command.arg(path).env("XDG_RUNTIME_DIR", path.parent().unwrap());
        command
    });
    let name = path.file_name().unwrap().to_str().unwrap();
    let complaints: Vec<String> = said(&output).lines().filter(|line| line.contains(name)).map(str::to_owned).collect();
    assert!(complaints.is_empty(), "{complaints:#?}\n{}", fs::read_to_string(path).unwrap());
}

#[test]
fn systemd_accepts_the_units() {
    let home = joined(&["lab"]);
    let folder = home.path().join("verify");
    for scope in ["--user", "--system"] {
        let dir = folder.join(&scope[2..]);
        let text = dir.display().to_string();
        home.good(&["daemon", "install-service", scope, "--dir", &text]);
        let output = home.hostel(&["service", "install", scope, "--dir", &text]);
        assert!(output.status.success(), "{output:?}");
        let mut units = 0;
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            verify(&entry.path(), scope == "--user");
            units += 1;
        }
        assert_eq!(units, 2);
    }
    // Nothing was started, and nobody was asked to.
    assert!(home.asked().iter().all(|line| !line.contains("enable")), "{:?}", home.asked());
    let unit = fs::read_to_string(folder.join("user/claudemesh-daemon-lab.service")).unwrap();
    let writable = format!("ReadWritePaths={}", home.home().join(".claudemesh").display());
    for line in [
        "Restart=on-failure",
        "RestartSec=5s",
        "StartLimitBurst=5",
        "StartLimitIntervalSec=5min",
        "RestartPreventExitStatus=4 78",
        "MemoryMax=268435456",
        "TasksMax=128",
        "LimitNOFILE=4096",
        "StandardOutput=journal",
        "StandardError=journal",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        writable.as_str(),
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}\n{unit}");
    }
    let house = fs::read_to_string(folder.join("user/hostel.service")).unwrap();
    assert!(house.contains("\nKillMode=process\n") && house.contains("\nDelegate=yes\n"), "{house}");
}

/// An element of XML: its name, its text, its children.
#[derive(Debug)]
struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

/// Reads the XML of a property list; everything that is not well-formed ends the test.
fn parse(text: &str) -> Element {
    let mut rest = text.trim_start();
    for start in ["<?xml", "<!DOCTYPE"] {
        assert!(rest.starts_with(start), "{rest}");
        rest = rest[rest.find('>').unwrap() + 1..].trim_start();
    }
    let note = rest.strip_prefix("<!-- Written by `").and_then(|note| note.split_once("-->"));
    let (note, rest) = note.expect("who wrote it");
    // Within a comment two of these would be its end.
    assert!(!note.contains("--"), "{note}");
    let rest = rest.trim_start();
    let (root, rest) = element(rest);
    assert!(rest.trim().is_empty(), "{rest}");
    root
}

fn element(text: &str) -> (Element, &str) {
    assert!(text.starts_with('<') && !text.starts_with("</"), "{text}");
    let end = text.find('>').expect("a tag ends");
    let (tag, mut rest) = (&text[1..end], &text[end + 1..]);
    let name = tag.trim_end_matches('/').split(' ').next().unwrap().to_owned();
    let mut found = Element { name, text: String::new(), children: Vec::new() };
    if tag.ends_with('/') {
        return (found, rest);
    }
    loop {
        let next = rest.find('<').expect("an element ends");
        let words = &rest[..next];
        for part in words.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;", "apos;"].iter().any(|entity| part.starts_with(entity)), "{words}");
        }
        found.text.push_str(words);
        rest = &rest[next..];
        if let Some(after) = rest.strip_prefix(&format!("</{}>", found.name)) {
            return (found, after);
        }
        let (child, after) = element(rest);
        found.children.push(child);
        rest = after;
    }
}

/// The value of a key in a dictionary, whose keys and values alternate.
fn value<'a>(dict: &'a Element, key: &str) -> Option<&'a Element> {
    assert_eq!(dict.name, "dict");
    for pair in dict.children.chunks(2) {
        let [name, value] = pair else { panic!("a key without a value: {pair:?}") };
        assert_eq!(name.name, "key");
        assert!(["string", "true", "false", "integer", "array", "dict"].contains(&value.name.as_str()), "{value:?}");
        if name.text == key {
            return Some(value);
        }
    }
    None
}

#[test]
fn the_property_list_is_one() {
    let home = joined(&["lab"]);
    for (words, label) in [
        (
            &["as", "claudemesh", "daemon", "install-service", "--print", "--kind", "launchd"][..],
            "com.claudemesh.daemon.lab",
        ),
        (&["service", "install", "--print", "--kind", "launchd"], "hostel.house"),
    ] {
        let output = home.hostel(words);
        assert!(output.status.success(), "{output:?}");
        let root = parse(&String::from_utf8(output.stdout).unwrap());
        assert_eq!((root.name.as_str(), root.children.len()), ("plist", 1));
        let dict = &root.children[0];
        assert_eq!(value(dict, "Label").unwrap().text, label);
        let words = value(dict, "ProgramArguments").unwrap();
        assert_eq!(words.name, "array");
        assert!(words.children.len() > 3 && words.children.iter().all(|word| word.name == "string"));
        assert_eq!(value(dict, "RunAtLoad").unwrap().name, "true");
        assert_eq!(value(value(dict, "KeepAlive").unwrap(), "SuccessfulExit").unwrap().name, "false");
        assert!(value(dict, "NoSuchKey").is_none());
    }
    let windows = home.claudemesh(&["daemon", "install-service", "--print", "--kind", "windows"]);
    assert_eq!(windows.status.code(), Some(1));
    assert!(said(&windows).contains("not part of this release"), "{windows:?}");
}

#[test]
fn a_daemon_lives_through_its_service() {
    let home = joined(&["lab", "office"]);
    // One that runs already is taken over from; what it was to send is sent by the service.
    home.good(&["daemon", "up", "--mesh", "lab"]);
    let before = pid_of(&home, "lab").unwrap();
    let printed = home.good(&["daemon", "install-service", "--all"]);
    assert!(printed.contains("loginctl enable-linger"), "{printed}");
    let asked = home.asked();
    for line in [
        "--user daemon-reload",
        "--user enable --now claudemesh-daemon-lab.service",
        "--user enable --now claudemesh-daemon-office.service",
    ] {
        assert!(asked.iter().any(|other| other == line), "{line}: {asked:?}");
    }
    let unit = "claudemesh-daemon-lab.service";
    let service = home.process(unit).unwrap();
    let now = pid_of(&home, "lab").unwrap();
    assert_ne!(now, before);
    assert_eq!(u64::try_from(service.pid).unwrap(), now, "the service is the daemon");

    // Installing it again changes nothing but what runs.
    home.good(&["daemon", "install-service", "--mesh", "lab", "--no-start"]);
    assert_eq!(pid_of(&home, "lab").unwrap(), now);

    // A stop by hand is a clean end; the next `up` asks the service.
    home.good(&["daemon", "down", "--mesh", "lab"]);
    home.forget_asked();
    home.good(&["daemon", "up", "--mesh", "lab"]);
    assert!(home.asked().contains(&format!("--user start --no-block {unit}")), "{:?}", home.asked());
    assert_eq!(u64::try_from(home.process(unit).unwrap().pid).unwrap(), pid_of(&home, "lab").unwrap());
    let again = home.claudemesh(&["daemon", "up", "--mesh", "lab"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    home.good(&["daemon", "restart", "--mesh", "lab"]);

    // The doctor knows the units, and finds one whose program is gone.
    let findings =
        |home: &Supervised| -> Value { serde_json::from_slice(&home.hostel(&["--json", "doctor"]).stdout).unwrap() };
    let active = |report: &Value| {
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["check"] == "service")
            .cloned()
            .collect::<Vec<_>>()
    };
    let services = active(&findings(&home));
    assert!(services.len() == 2 && services.iter().all(|finding| finding["verdict"] == "good"), "{services:?}");
    let file = home.units().join(unit);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("ExecStart=/", "ExecStart=/gone/")).unwrap();
    let services = active(&findings(&home));
    let bad = services.iter().find(|finding| finding["verdict"] == "bad").expect("a finding");
    assert!(bad["hint"].as_str().unwrap().contains("install-service --mesh lab"), "{bad}");
    fs::write(&file, text).unwrap();

    home.forget_asked();
    home.good(&["daemon", "uninstall-service", "--all"]);
    assert!(home.asked().contains(&format!("--user disable --now {unit}")), "{:?}", home.asked());
    assert_eq!(fs::read_dir(home.units()).unwrap().count(), 0);
    assert_eq!(pid_of(&home, "lab"), None);
    assert!(home.good(&["daemon", "uninstall-service", "--all"]).contains("no service is installed"));
    home.good(&["daemon", "up", "--mesh", "lab"]);
    assert!(home.process(unit).is_none());

    // A mesh that leaves takes its service along, and no unit of somebody else's.
    home.good(&["daemon", "install-service", "--all"]);
    let other = home.units().join("claudemesh-daemon-office.service");
    let text = fs::read_to_string(&other).unwrap();
    fs::write(&other, text.replace("ReadWritePaths=", "ReadWritePaths=/elsewhere ")).unwrap();
    home.forget_asked();
    let said = home.good(&["daemon", "uninstall", "--mesh", "lab", "--confirm"]);
    assert!(said.contains(unit), "{said}");
    assert!(home.asked().contains(&format!("--user disable --now {unit}")), "{:?}", home.asked());
    assert!(!file.exists() && home.process(unit).is_none());
    home.good(&["daemon", "uninstall", "--mesh", "office", "--confirm"]);
    assert!(other.exists());
}

#[test]
fn a_service_that_does_not_come_up_is_not_replaced_by_a_daemon_of_ones_own() {
    let home = joined(&["lab"]);
    home.good(&["daemon", "install-service", "--no-start"]);
    home.set_broken(true);
    let began = Instant::now();
    let output = home.claudemesh(&["daemon", "up"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("systemctl --user status claudemesh-daemon-lab"), "{output:?}");
    assert!(began.elapsed() >= Duration::from_secs(7), "given up after {:?}", began.elapsed());
    assert_eq!(pid_of(&home, "lab"), None);
    home.set_broken(false);
    home.good(&["daemon", "up"]);
}

#[test]
fn without_a_systemd_everything_is_said_and_works_by_hand() {
    let home = joined(&["lab"]);
    home.set_state("offline");
    let printed = home.good(&["daemon", "install-service"]);
    for words in
        ["cannot be started here: systemd does not run here", "systemctl --user daemon-reload", "daemon up --mesh lab"]
    {
        assert!(printed.contains(words), "{printed}");
    }
    assert!(home.units().join("claudemesh-daemon-lab.service").is_file());
    let output = home.claudemesh(&["daemon", "up"]);
    assert!(output.status.success(), "{output:?}");
    assert!(said(&output).contains("going on without"), "{output:?}");
    let house = home.hostel(&["service", "install"]);
    assert!(house.status.success() && said(&house).contains("hostel up --foreground"), "{house:?}");
    let status = home.hostel(&["--json", "service", "status"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["installed"], &status["active"]), (&Value::Bool(true), &Value::Null));

    // Nobody can be asked here, and there is nothing to install for.
    let output = home.claudemesh(&["install", "--no-mcp"]);
    assert!(output.status.success() && said(&output).contains("no systemd runs here"), "{output:?}");
}

#[test]
fn a_build_server_gets_nothing_that_stays_unless_it_is_meant() {
    let home = joined(&["lab"]);
    let run = |words: &[&str]| {
        let mut command = home.command(hostel_tests::binary::hostel());
        command.args(words).env("GITLAB_CI", "true");
        house::run(command)
    };
    for words in [&["as", "claudemesh", "daemon", "install-service"][..], &["service", "install"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains("GITLAB_CI") && said(&output).contains("--allow-ci-persistent"), "{output:?}");
    }
    assert!(!home.units().exists());
    let output = run(&["as", "claudemesh", "daemon", "install-service", "--allow-ci-persistent", "--no-start"]);
    assert!(output.status.success(), "{output:?}");
    let unit = fs::read_to_string(home.units().join("claudemesh-daemon-lab.service")).unwrap();
    assert!(unit.lines().any(|line| line.starts_with("ExecStart=") && line.ends_with("--persistent")), "{unit}");
}

#[test]
fn a_restart_of_the_house_leaves_what_it_keeps_alone() {
    let home = Supervised::new();
    let good = |words: &[&str]| {
        let output = home.hostel(words);
        assert!(output.status.success(), "hostel {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Up already: the service takes over, and processes notice nothing.
    good(&["up", "--set", "mesh.broker=false"]);
    good(&["run", "-d", "--name", "long", "--", "sleep", "600"]);
    let running = || {
        let list: Value = serde_json::from_str(&good(&["--json", "ps"])).unwrap();
        list["processes"].as_array().or(list.as_array()).unwrap().iter().find(|row| row["name"] == "long").cloned()
    };
    let keeper = || {
        let status: Value = serde_json::from_str(&good(&["--json", "keeper", "status"])).unwrap();
        status["keepers"][0]["keeper"]["pid"].as_i64().expect("a keeper")
    };
    let (process, first) = (running().unwrap()["pid"].clone(), keeper());
    let installed = good(&["service", "install"]);
    assert!(installed.contains("started"), "{installed}");
    let unit = home.process("hostel.service").unwrap();
    assert_eq!((running().unwrap()["pid"].clone(), keeper()), (process.clone(), first));

    let restart = house::run({
        let mut command = home.command("systemctl");
        command.args(["--user", "restart", "hostel"]);
        command
    });
    assert!(restart.status.success(), "{restart:?}");
    good(&["up"]);
    assert_ne!(home.process("hostel.service").unwrap().pid, unit.pid);
    assert_eq!((running().unwrap()["pid"].clone(), keeper()), (process, first));
    let status: Value = serde_json::from_str(&good(&["--json", "service", "status"])).unwrap();
    assert_eq!((&status["active"], &status["lingers"]), (&Value::from("active"), &Value::Bool(false)));

    // Killed: systemd would start it again; here `hostel up` asks it to.
    home.process("hostel.service").unwrap().signal(rustix::process::Signal::KILL);
    wait::until_true(wait::LIMIT, "the daemon to be gone", || {
        home.process("hostel.service").is_none_or(|daemon| !daemon.alive())
    });
    good(&["up"]);
    assert!(running().is_some());
    let removed = good(&["service", "uninstall"]);
    assert!(removed.contains("removed"), "{removed}");
    assert!(!home.units().join("hostel.service").exists());
    good(&["up", "--set", "mesh.broker=false"]);
    assert!(running().is_some());
    good(&["down"]);
}
