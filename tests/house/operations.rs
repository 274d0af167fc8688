//! Every command of docs/operations.md, run in the order of the page against real daemons in a home of its own. What
//! belongs to the system (`systemctl` and its like) is answered by a stand-in that starts what a unit says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Output;
use std::time::Instant;

use hostel_tests::claudemesh::Supervised;
use hostel_tests::{binary, house, wait};
use rustix::process::{Pid, Signal, kill_process_group};

/// A command of the page.
#[derive(Debug)]
struct Line {
    number: usize,
    text: String,
}

/// The lines of the page's `sh` blocks; one that ends with a backslash goes on in the next.
fn commands(page: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut inside: Option<bool> = None;
    let mut goes_on = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            inside = match inside {
                None => Some(language == "sh"),
                Some(_) => None,
            };
            continue;
        }
        if inside != Some(true) || line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let text = line.trim_end_matches('\\').to_owned();
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => last.text.push_str(&text),
            None => found.push(Line { number: number + 1, text }),
        }
        goes_on = line.ends_with('\\');
    }
    assert!(inside.is_none(), "a block does not end");
    found
}

/// Whether a command goes on until somebody ends it.
fn follows(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.contains(&"-f") || (words.first() == Some(&"claudemesh") && words.contains(&"events"))
}

fn run(home: &Supervised, line: &Line) -> Output {
    if !follows(&line.text) {
        let mut command = home.command("sh");
        command.args(["-euc", &line.text]);
        return house::run(command);
    }
    // Until it has said something, and then Ctrl-C.
    let said = home.path().join("followed");
    let file = fs::File::create(&said).unwrap();
    let mut command = home.command("sh");
    command.args(["-euc", &line.text]).process_group(0).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = command.spawn().unwrap();
    wait::content(&said, &format!("a word of `{}`", line.text), |text| !text.is_empty());
    let group = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    let status = wait::end_of(&mut child, &line.text);
    Output { status, stdout: fs::read(&said).unwrap(), stderr: Vec::new() }
}

#[test]
fn every_command_of_the_page_works() {
    let page = binary::repository().join("docs/operations.md");
    let lines = commands(&fs::read_to_string(&page).unwrap());
    assert!(lines.len() > 40, "only {} commands were found", lines.len());
    let home = Supervised::new();
    for line in &lines {
        let began = Instant::now();
        let output = run(&home, line);
        println!("{:>5} ms  {}", began.elapsed().as_millis(), line.text);
        let interrupted = output.status.code() == Some(130) || output.status.signal() == Some(Signal::INT.as_raw());
        let fine = output.status.success() || (interrupted && follows(&line.text));
        assert!(
            fine,
            "docs/operations.md:{}: `{}` ended with {}\n{}{}\nasked of systemd: {:#?}",
            line.number,
            line.text,
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            home.asked()
        );
    }
    // Every verb that looks after a mesh daemon has its place on the page.
    let said = |verb: &str| lines.iter().any(|line| line.text.contains(&format!("claudemesh daemon {verb}")));
    let help = String::from_utf8(home.claudemesh(&["daemon", "--help"]).stdout).unwrap();
    let verbs =
        help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1).take_while(|line| !line.is_empty());
    let passed_over = ["version", "search", "accept-host", "help"];
    let missing: Vec<&str> = verbs
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| !passed_over.contains(verb) && !said(verb))
        .collect();
    assert!(missing.is_empty(), "docs/operations.md has no command with {missing:?}");
}

#[test]
fn the_commands_of_a_page_are_found() {
    let page = "a\n```sh\nfirst # why\n\n# remark\nsecond \\\n  --more\n```\n```text\nno\n```\n```sh\nthird\n```\n";
    let found: Vec<(usize, String)> = commands(page).into_iter().map(|line| (line.number, line.text)).collect();
    let wanted = [(3, "first # why"), (6, "second   --more"), (13, "third")];
    assert_eq!(found, wanted.map(|(number, text)| (number, text.to_owned())));
}
