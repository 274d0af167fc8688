//! codecast's own Python client against our door.
//!
//! `HOSTEL_CODECAST_HEAD` names the virtual environment that `tests/codecast/install` made. Without it the environment is
//! where `scripts/setup` installs tools.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;

use hostel_tests::codecast::Daemon;
use hostel_tests::{binary, skip, wait};

#[test]
fn the_client_of_the_package_works_unchanged() {
    let named = std::env::var_os("HOSTEL_CODECAST_HEAD").map(PathBuf::from);
    let prefix = named.unwrap_or_else(|| binary::tools().join("codecast-head"));
    let python = prefix.join("bin/python");
    if !python.is_file() {
        return skip("codecast's client is not installed: scripts/setup installs it");
    }
    let daemon = Daemon::start();
    let mut command = Command::new(python);
    command.arg(binary::repository().join("tests/codecast/python_client.py")).arg(daemon.address().port().to_string());
    daemon.set_environment(&mut command);
    let printed = daemon.path().join("python.out");
    let file = std::fs::File::create(&printed).expect("a file for output");
    command.stdout(file.try_clone().expect("a second handle")).stderr(file);
    let mut child = command.spawn().expect("python can be started");
    // The client runs through all its scenarios, some of which wait.
    let status = wait::try_end_of(&mut child, wait::LIMIT * 3);
    let said = std::fs::read_to_string(&printed).unwrap_or_default();
    let Some(status) = status else {
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
        panic!("the client did not come to its end:\n{said}");
    };
    assert!(status.success() && said.contains("scenarios passed"), "{status}\n{said}");
    eprintln!("{said}");
}
