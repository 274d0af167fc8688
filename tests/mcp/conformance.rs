//! The official conformance suite on both servers: the house's own, and one with everything the suite asks for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use hostel_tests::binary;
use hostel_tests::mcp::Place;

/// A front or a server of the fixture, while it is here.
struct Fixture {
    child: Child,
    url: String,
}

impl Fixture {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(binary::mcp_fixture());
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Fixture { child, url: url.trim().to_owned() }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs the suite; what it prints is shown where it fails.
fn conforms(url: &str, baseline: &str) {
    let folder = binary::repository().join("tests/mcp");
    let output = Command::new(folder.join("run")).arg(url).arg(folder.join(baseline)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("skipped: {}", errors.trim());
        return;
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let summary: Vec<&str> = printed.lines().skip_while(|line| !line.contains("SUMMARY")).collect();
    assert!(output.status.success(), "{}\n{errors}", summary.join("\n"));
    assert!(summary.len() > 30, "the suite said too little: {printed}");
}

#[test]
fn a_server_with_one_of_everything() {
    conforms(&Fixture::start(&["everything"]).url, "conformance-baseline.yml");
}

#[test]
fn the_server_of_a_house() {
    let place = Place::with_house();
    let (address, _) = place.door();
    let token = place.house().join("run/local_token");
    conforms(&Fixture::start(&["front", &address.to_string(), token.to_str().unwrap()]).url, "house-baseline.yml");
}
