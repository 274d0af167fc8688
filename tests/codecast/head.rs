//! codecast's own Python client against our door.
//!
//! `HOSTEL_CODECAST_HEAD` names the virtual environment that `tests/codecast/install` made. Without it one is made in
//! `.oracles/` at the root of the repository; where that is impossible the test says loudly that it tests nothing.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use hostel_tests::codecast::Daemon;
use hostel_tests::{binary, wait};

/// The Python that has the client.
fn python() -> Result<PathBuf, String> {
    let named = std::env::var_os("HOSTEL_CODECAST_HEAD").map(PathBuf::from);
    let asked_for = named.is_some();
    let prefix = named.unwrap_or_else(|| binary::repository().join(".oracles/codecast-head"));
    let output = Command::new(binary::repository().join("tests/codecast/install"))
        .arg(&prefix)
        .stdin(Stdio::null())
        .output()
        .expect("a script of our own can be run");
    if output.status.success() {
        return Ok(prefix.join("bin/python"));
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!asked_for, "HOSTEL_CODECAST_HEAD={} cannot be used:\n{complaint}", prefix.display());
    Err(complaint)
}

#[test]
fn the_client_of_the_package_works_unchanged() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("SKIPPED: codecast's client cannot be installed here:\n{reason}");
            return;
        }
    };
    let daemon = Daemon::start();
    let mut command = Command::new(python);
    command.arg(binary::repository().join("tests/codecast/python_client.py")).arg(daemon.address().port().to_string());
    daemon.set_environment(&mut command);
    let printed = daemon.path().join("python.out");
    let file = std::fs::File::create(&printed).expect("a file for output");
    command.stdout(file.try_clone().expect("a second handle")).stderr(file);
    let mut child = command.spawn().expect("python can be started");
    let ended = wait::attempt(Duration::from_secs(300), || child.try_wait().expect("a child can be waited for"));
    let said = std::fs::read_to_string(&printed).unwrap_or_default();
    let Some(status) = ended else {
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
        panic!("the client did not come to its end:\n{said}");
    };
    assert!(status.success() && said.contains("scenarios passed"), "{status}\n{said}");
    eprintln!("{said}");
}
