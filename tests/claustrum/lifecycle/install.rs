//! `-install`: one line of facts, exit code 0, whatever happened.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_tests::house::{House, Options, path_text};
use hostel_tests::http;

use super::claustrum;

const PROGRAM: &[u8] = b"#!/bin/sh\ntest \"$1\" = --version || exit 1\necho 1.2.3\n";

/// A zstd frame that holds these bytes uncompressed.
fn zst(content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend_from_slice(&u32::try_from(content.len()).expect("a small file").to_le_bytes());
    let header = (u32::try_from(content.len()).expect("a small file") << 3) | 1;
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
    frame.extend_from_slice(content);
    frame
}

fn sha256(bytes: &[u8], folder: &Path) -> String {
    let path = folder.join("to-sum");
    fs::write(&path, bytes).expect("a file");
    let output = Command::new("sha256sum").arg(&path).output().expect("sha256sum runs");
    fs::remove_file(&path).expect("the file goes");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a sum").to_owned()
}

struct Installer {
    house: House,
    cli_dir: PathBuf,
}

impl Installer {
    fn new() -> Self {
        let house = House::prepare(Options::default());
        let cli_dir = house.path().join("cli");
        Self { house, cli_dir }
    }

    /// Runs `-install` for a version and gives the facts after the fixed part.
    fn run(&self, version: &str, arguments: &[&str]) -> String {
        let mut all = vec!["-install", "-cli-dir", path_text(&self.cli_dir), "-cli-version", version];
        all.extend(arguments);
        self.facts(&all)
    }

    fn facts(&self, arguments: &[&str]) -> String {
        let ran = claustrum(&self.house, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        let line = ran.stdout.strip_suffix('\n').expect("one line");
        assert!(!line.contains('\n'), "more than one line: {line}");
        let facts = line.strip_prefix("__INSTALL_RESULT__").expect("the mark").to_owned();
        let (head, rest) = facts.split_once(r#","libc":"#).expect("libc");
        assert!(head.starts_with(r#"{"serverVersion":""#), "{facts}");
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        assert!(head.ends_with(&format!(r#"","os":"linux","arch":"{arch}""#)), "{facts}");
        let (libc, rest) = rest.split_once(',').expect("more keys");
        assert!(libc == r#""glibc""# || libc == r#""musl""#, "{facts}");
        rest.to_owned()
    }

    fn blob(&self, bytes: &[u8]) -> PathBuf {
        let path = self.house.path().join("cli.zst");
        fs::write(&path, bytes).expect("a blob");
        path
    }

    fn cli(&self, version: &str) -> PathBuf {
        self.cli_dir.join(version)
    }

    fn place(&self, version: &str, content: &[u8]) -> PathBuf {
        fs::create_dir_all(&self.cli_dir).expect("the folder");
        let path = self.cli(version);
        fs::write(&path, content).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
        path
    }

    fn left(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.cli_dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn without_a_folder_or_a_version_only_the_facts_are_told() {
    let installer = Installer::new();
    for arguments in [&["-install"][..], &["-install", "-cli-version", "1"], &["-install", "-cli-dir", "/nowhere"]] {
        assert_eq!(installer.facts(arguments), r#""cliPath":"","cliWasPresent":false}"#, "{arguments:?}");
    }
}

#[test]
fn a_blob_is_unpacked_verified_and_removed() {
    let installer = Installer::new();
    let blob = installer.blob(&zst(PROGRAM));
    let path = installer.cli("1.2.3");
    let expected = format!(r#""cliPath":"{}","cliWasPresent":false}}"#, path.display());
    assert_eq!(installer.run("1.2.3", &["-cli-zst", path_text(&blob)]), expected);
    assert_eq!(fs::read(&path).expect("the program"), PROGRAM);
    assert_eq!(fs::metadata(&path).expect("the program").permissions().mode() & 0o777, 0o755);
    assert!(!blob.exists(), "the blob was left");
    assert_eq!(installer.left(), ["1.2.3"]);
    // The second time it is there.
    let expected = format!(r#""cliPath":"{}","cliWasPresent":true}}"#, path.display());
    assert_eq!(installer.run("1.2.3", &[]), expected);
}

#[test]
fn a_program_that_does_not_run_is_installed_anew() {
    let installer = Installer::new();
    let path = installer.place("1.2.3", b"#!/bin/sh\nexit 1\n");
    let blob = installer.blob(&zst(PROGRAM));
    let expected = format!(r#""cliPath":"{}","cliWasPresent":false}}"#, path.display());
    assert_eq!(installer.run("1.2.3", &["-cli-zst", path_text(&blob)]), expected);
    assert_eq!(fs::read(&path).expect("the program"), PROGRAM);
}

#[test]
fn neither_a_program_nor_a_source() {
    let installer = Installer::new();
    let path = installer.cli("9.9");
    let expected = format!(
        r#""cliPath":"{}","cliWasPresent":false,"cliError":"cli 9.9 missing and no --cli-url or --cli-zst provided"}}"#,
        path.display()
    );
    assert_eq!(installer.run("9.9", &[]), expected);
}

fn error_of(facts: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(&format!("{{{facts}")).expect("facts are JSON");
    value["cliError"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn trouble_with_a_blob_is_told_in_the_facts() {
    let installer = Installer::new();
    let missing = installer.house.path().join("missing.zst");
    let facts = installer.run("1", &["-cli-zst", path_text(&missing)]);
    assert_eq!(error_of(&facts), format!("opening input: open {}: no such file or directory", missing.display()));

    let blob = installer.blob(b"this is no zstd frame");
    let facts = installer.run("1", &["-cli-zst", path_text(&blob)]);
    assert!(error_of(&facts).starts_with("decompressing: "), "{facts}");
    assert!(blob.exists(), "a blob that could not be used was removed");

    let blob = installer.blob(&zst(b"#!/bin/sh\nexit 1\n"));
    let facts = installer.run("1", &["-cli-zst", path_text(&blob)]);
    assert_eq!(error_of(&facts), format!("installed cli at {} is not runnable", installer.cli("1").display()));
    assert!(!installer.cli("1").exists(), "a program that does not run was put in place");
    assert_eq!(installer.left(), Vec::<String>::new(), "a temporary file was left");
}

#[test]
fn a_checksum_given_for_a_blob_is_verified_and_an_empty_one_is_not() {
    let installer = Installer::new();
    let content = zst(PROGRAM);
    let sum = sha256(&content, installer.house.path());
    let blob = installer.blob(&content);
    let facts = installer.run("1", &["-cli-zst", path_text(&blob), "-cli-checksum", "abc"]);
    assert_eq!(error_of(&facts), format!("checksum mismatch: expected=abc, actual={sum}"));
    assert_eq!(fs::read(&blob).expect("the blob is left intact"), content);
    assert!(!installer.cli("1").exists());

    // A corrupt blob with a wrong sum: the sum is what is complained about.
    let corrupt = installer.blob(b"corrupt");
    let corrupt_sum = sha256(b"corrupt", installer.house.path());
    let facts = installer.run("1", &["-cli-zst", path_text(&corrupt), "-cli-checksum", &sum]);
    assert_eq!(error_of(&facts), format!("checksum mismatch: expected={sum}, actual={corrupt_sum}"));

    let blob = installer.blob(&content);
    let facts = installer.run("1", &["-cli-zst", path_text(&blob), "-cli-checksum", &sum.to_uppercase()]);
    assert_eq!(error_of(&facts), "", "{facts}");
    assert!(installer.cli("1").exists());
    let blob = installer.blob(&content);
    let facts = installer.run("2", &["-cli-zst", path_text(&blob), "-cli-checksum", ""]);
    assert_eq!(error_of(&facts), "", "{facts}");
}

#[test]
fn a_download_is_verified_always() {
    let installer = Installer::new();
    let content = zst(PROGRAM);
    let sum = sha256(&content, installer.house.path());
    let address = http::serve(BTreeMap::from([
        ("/good".to_owned(), (200, content.clone())),
        ("/bad".to_owned(), (200, b"no zstd".to_vec())),
        ("/gone".to_owned(), (500, b"broken".to_vec())),
    ]));
    let good = format!("http://{address}/good");
    let facts = installer.run("1", &["-cli-url", &good]);
    assert_eq!(error_of(&facts), format!("checksum mismatch: expected=, actual={sum}"));
    let facts = installer.run("1", &["-cli-url", &good, "-cli-checksum", "00"]);
    assert_eq!(error_of(&facts), format!("checksum mismatch: expected=00, actual={sum}"));
    assert_eq!(installer.left(), Vec::<String>::new());
    let facts = installer.run("1", &["-cli-url", &good, "-cli-checksum", &sum]);
    assert_eq!(facts, format!(r#""cliPath":"{}","cliWasPresent":false}}"#, installer.cli("1").display()));
    assert_eq!(fs::read(installer.cli("1")).expect("the program"), PROGRAM);

    let bad_sum = sha256(b"no zstd", installer.house.path());
    let facts = installer.run("2", &["-cli-url", &format!("http://{address}/bad"), "-cli-checksum", &bad_sum]);
    assert!(error_of(&facts).starts_with("decompressing: "), "{facts}");
    let facts = installer.run("2", &["-cli-url", &format!("http://{address}/gone"), "-cli-checksum", &sum]);
    assert_eq!(error_of(&facts), "download failed with status 500");
    let nobody = http::free_address();
    let facts = installer.run("2", &["-cli-url", &format!("http://{nobody}/x"), "-cli-checksum", &sum]);
    assert!(error_of(&facts).starts_with("download failed: "), "{facts}");
}

#[test]
fn a_blob_wins_over_a_download() {
    let installer = Installer::new();
    let blob = installer.blob(&zst(PROGRAM));
    let nobody = http::free_address();
    let facts = installer.run("1", &["-cli-zst", path_text(&blob), "-cli-url", &format!("http://{nobody}/x")]);
    assert_eq!(error_of(&facts), "", "{facts}");
}

/// Gives a file a time this many hours ago.
fn age(path: &Path, hours: u64) {
    let status =
        Command::new("touch").arg("-d").arg(format!("{hours} hours ago")).arg(path).status().expect("touch runs");
    assert!(status.success());
}

#[test]
fn old_versions_are_pruned_to_the_number_kept() {
    let installer = Installer::new();
    for (hours, version) in [(50, "a"), (40, "b"), (30, "c"), (20, "d")] {
        age(&installer.place(version, PROGRAM), hours);
    }
    fs::create_dir(installer.cli("folder")).expect("a folder");
    let blob = installer.blob(&zst(PROGRAM));
    installer.run("e", &["-cli-zst", path_text(&blob)]);
    assert_eq!(installer.left(), ["c", "d", "e", "folder"], "three are kept by default");
    installer.run("e", &["-cli-keep", "2"]);
    assert_eq!(installer.left(), ["d", "e", "folder"]);
    installer.run("e", &["-cli-keep", "0"]);
    assert_eq!(installer.left(), ["d", "e", "folder"], "zero switches pruning off");
}

#[test]
fn leftovers_do_not_push_out_versions() {
    let installer = Installer::new();
    for (hours, version) in [(50, "a"), (40, "b"), (30, "c")] {
        age(&installer.place(version, PROGRAM), hours);
    }
    for name in ["x.zst", "y.zst", ".fetch-1", ".fetch-2", "z.tmp"] {
        installer.place(name, b"leftover");
    }
    installer.run("c", &["-cli-keep", "3"]);
    let left = installer.left();
    for version in ["a", "b", "c"] {
        assert!(left.iter().any(|name| name == version), "{version} was pruned: {left:?}");
    }
}

#[test]
fn a_version_cannot_point_outside_the_folder() {
    let installer = Installer::new();
    fs::create_dir_all(&installer.cli_dir).expect("the folder");
    let outside = installer.house.path().join("outside");
    fs::write(&outside, "precious").expect("a file");
    let blob = installer.blob(&zst(PROGRAM));
    for version in ["../outside", "..", ".", "a/../../outside", "/etc/passwd-of-the-tests"] {
        let facts = installer.run(version, &["-cli-zst", path_text(&blob)]);
        assert_ne!(error_of(&facts), "", "{version} was accepted: {facts}");
        assert_eq!(fs::read(&outside).expect("the file outside"), b"precious", "{version}");
    }
    assert!(installer.cli_dir.is_dir());
}
