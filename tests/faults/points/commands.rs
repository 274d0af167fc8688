//! Commands killed between a file that they write and their end: the file is whole, and the command can be run again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use hostel_tests::binary;
use hostel_tests::house::{run, set_base_environment};
use hostel_tests::syncpoints::SyncPoints;
use serde_json::Value;

use super::has_points;

pub(super) const POINTS: &[&str] = &["sudo-proxy.registry.written"];

/// An ssh that knows who its user is, and ends with 7 whatever else it is asked.
const SSH: &str = "#!/bin/sh\ncase \"$*\" in *\"id -u\") echo 1234; exit 0 ;; esac\nexit 7\n";

#[test]
fn the_registry_of_hosts_is_whole() {
    if !has_points() {
        return;
    }
    let root = tempfile::Builder::new().prefix("hostel-cmd-").tempdir().expect("a temporary directory");
    let points = SyncPoints::listen(root.path());
    for name in ["home", "run", "bin", "config"] {
        fs::create_dir(root.path().join(name)).expect("a fresh directory");
    }
    let ssh = root.path().join("bin/ssh");
    fs::write(&ssh, SSH).expect("a script");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("a mode");
    let command = || {
        let mut command = Command::new(binary::hostel());
        command.args(["as", "sudo-proxy", "--host", "box"]);
        set_base_environment(&mut command, &root.path().join("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", root.path().join("bin").display()));
        command.env("HOSTEL_HOME", root.path().join("hostel")).env("XDG_RUNTIME_DIR", root.path().join("run"));
        command.env("XDG_CONFIG_HOME", root.path().join("config")).envs([points.variable()]);
        command.stdin(Stdio::null());
        command
    };
    for point in POINTS {
        points.kill_next(point);
        let output = run(command());
        points.met();
        points.disarm();
        assert_eq!(output.status.code(), None, "{point}: the command was not killed: {output:?}");
        let text = fs::read_to_string(root.path().join("config/sudo-proxy/hosts.json")).expect("a registry");
        let known: Value = serde_json::from_str(&text).expect("a whole registry");
        assert_eq!(known["hosts"]["box"]["uid"], "1234", "{known}");
        // The command becomes ssh, whose exit code is its own.
        assert_eq!(run(command()).status.code(), Some(7));
    }
}
