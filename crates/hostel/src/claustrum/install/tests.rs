//! Installing small shell scripts as the program, from files and over HTTP.

mod directory;
mod network;

use std::fs::{self, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

const GOOD: &str = "#!/bin/sh\n[ \"$*\" = --version ]\n";
const BAD: &str = "#!/bin/sh\nexit 3\n";

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn options(&self) -> InstallOptions {
        InstallOptions {
            server_version: "v<1>".into(),
            cli_dir: self.at("cli").into(),
            cli_version: "1.2.3".into(),
            cli_url: OsString::new(),
            cli_checksum: OsString::new(),
            cli_zst: OsString::new(),
            cli_keep: 3,
            limits: InstallLimits::default(),
        }
    }

    /// Puts a compressed script beside the program directory.
    fn blob(&self, script: &str) -> PathBuf {
        let path = self.at("blob.zst");
        fs::write(&path, compressed(script)).unwrap();
        path
    }

    /// Options to install a compressed script from a file.
    fn with_blob(&self, script: &str) -> InstallOptions {
        InstallOptions { cli_zst: self.blob(script).into(), ..self.options() }
    }

    fn cli(&self) -> PathBuf {
        self.at("cli/1.2.3")
    }

    /// The names in the program directory, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("cli")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Makes a file in the program directory that was last changed `age` seconds ago.
    fn version(&self, name: &str, age: u64) {
        fs::create_dir_all(self.at("cli")).unwrap();
        let file = fs::File::create(self.at("cli").join(name)).unwrap();
        let changed = SystemTime::now() - Duration::from_secs(age);
        file.set_times(FileTimes::new().set_modified(changed)).unwrap();
    }
}

fn compressed(script: &str) -> Vec<u8> {
    zstd::encode_all(script.as_bytes(), 3).unwrap()
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}

async fn facts(options: InstallOptions) -> serde_json::Value {
    let line = install(options).await;
    assert!(!line.contains('\n'), "one line");
    serde_json::from_str(line.strip_prefix("__INSTALL_RESULT__").unwrap()).unwrap()
}

/// The error of an installation that must fail.
async fn error(options: InstallOptions) -> String {
    let facts = facts(options).await;
    assert_eq!(facts["cliWasPresent"], false);
    facts["cliError"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_facts_are_one_line_with_fixed_keys() {
    let place = Place::new();
    let line = install(InstallOptions { cli_dir: OsString::new(), ..place.options() }).await;
    let (os, libc) = (std::env::consts::OS, probe::libc().await);
    let arch = claustrum::architecture(std::env::consts::ARCH);
    assert_eq!(
        line,
        format!(
            "__INSTALL_RESULT__{{\"serverVersion\":\"v\\u003c1\\u003e\",\"os\":\"{os}\",\"arch\":\"{arch}\",\
             \"libc\":\"{libc}\",\"cliPath\":\"\",\"cliWasPresent\":false}}"
        )
    );
    assert!(["amd64", "arm64"].contains(&arch) || arch == std::env::consts::ARCH);

    place.version("old", 10);
    let line = install(InstallOptions { cli_version: OsString::new(), cli_keep: 1, ..place.options() }).await;
    assert!(line.ends_with("\"cliPath\":\"\",\"cliWasPresent\":false}"), "{line}");

    let line = install(place.options()).await;
    let path = place.cli();
    let tail = format!(
        "\"cliPath\":\"{}\",\"cliWasPresent\":false,\"cliError\":\"cli 1.2.3 missing and no --cli-url or --cli-zst provided\"}}",
        path.display()
    );
    assert!(line.ends_with(&tail), "{line}");
    assert_eq!(place.names(), ["old"], "nothing was pruned by any of these");
}

#[tokio::test]
async fn a_local_blob_is_installed_and_consumed() {
    let place = Place::new();
    let options = InstallOptions { cli_dir: place.at("cli/./x/..//").into(), ..place.with_blob(GOOD) };
    let found = facts(options.clone()).await;
    assert_eq!(found["cliPath"], place.cli().to_str().unwrap());
    assert_eq!(found["cliWasPresent"], false);
    assert_eq!(found.get("cliError"), None);
    assert_eq!(fs::read_to_string(place.cli()).unwrap(), GOOD);
    assert_eq!(fs::metadata(place.cli()).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(place.at("cli")).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(place.names(), ["1.2.3"], "no temporary file is left");
    assert!(!place.at("blob.zst").exists(), "the blob is consumed");

    // Now it is present, and a missing blob does not matter any more.
    let found = facts(options).await;
    assert_eq!(found["cliWasPresent"], true);
    assert_eq!(found.get("cliError"), None);
}

#[tokio::test]
async fn what_is_there_but_does_not_run_is_replaced() {
    let place = Place::new();
    fs::create_dir(place.at("cli")).unwrap();
    fs::write(place.cli(), BAD).unwrap();
    fs::set_permissions(place.cli(), fs::Permissions::from_mode(0o755)).unwrap();
    let found = facts(place.with_blob(GOOD)).await;
    assert_eq!((&found["cliWasPresent"], found.get("cliError")), (&false.into(), None));
    assert_eq!(fs::read_to_string(place.cli()).unwrap(), GOOD);

    // Also one that runs, but not in time.
    fs::write(place.cli(), "#!/bin/sh\nsleep 600\n").unwrap();
    let mut options = place.with_blob(GOOD);
    options.limits.trial = Duration::from_millis(500);
    assert_eq!(facts(options).await["cliWasPresent"], false);
    assert_eq!(fs::read_to_string(place.cli()).unwrap(), GOOD);

    // A link to a program that runs is as good as the program.
    fs::rename(place.cli(), place.at("real")).unwrap();
    symlink(place.at("real"), place.cli()).unwrap();
    assert_eq!(facts(place.options()).await["cliWasPresent"], true);
}

#[tokio::test]
async fn a_failed_local_installation_leaves_everything_as_it_was() {
    let place = Place::new();
    let missing = place.at("missing.zst");
    let text = format!("opening input: open {}: no such file or directory", missing.display());
    assert_eq!(error(InstallOptions { cli_zst: missing.into(), ..place.options() }).await, text);
    let text = format!("opening input: read {}: is a directory", place.root.path().display());
    assert_eq!(error(InstallOptions { cli_zst: place.root.path().into(), ..place.options() }).await, text);
    assert!(!place.at("cli").exists());

    let path = place.cli();
    let not_runnable = format!("installed cli at {} is not runnable", path.display());
    assert_eq!(error(place.with_blob(BAD)).await, not_runnable);
    assert_eq!(error(place.with_blob("no program at all")).await, not_runnable);
    assert!(place.at("blob.zst").exists(), "the blob is consumed by success only");

    let whole = compressed(&GOOD.repeat(1000));
    for bytes in [&b"this is not zstd"[..], b"", &whole[..whole.len() - 3]] {
        let blob = place.blob("");
        fs::write(&blob, bytes).unwrap();
        let text = error(InstallOptions { cli_zst: blob.clone().into(), ..place.options() }).await;
        assert!(text.starts_with("decompressing: "), "{text}");
        assert!(blob.exists());
    }
    assert_eq!(place.names(), Vec::<String>::new(), "no temporary file is left");

    fs::create_dir(place.cli()).unwrap();
    let text = error(place.with_blob(GOOD)).await;
    assert!(text.starts_with(&format!("rename {}.", path.display())), "{text}");
    assert!(text.ends_with(&format!(" {}: file exists", path.display())), "{text}");
    assert_eq!(place.names(), ["1.2.3"]);

    fs::write(place.at("file"), "").unwrap();
    let options = InstallOptions { cli_dir: place.at("file/cli").into(), ..place.with_blob(GOOD) };
    let text = format!("mkdir cli dir: mkdir {}: not a directory", place.at("file/cli").display());
    assert_eq!(error(options).await, text);
}

#[tokio::test]
async fn a_stated_checksum_of_a_local_blob_must_hold() {
    let place = Place::new();
    let mut options = place.with_blob(GOOD);
    let actual = checksum(&compressed(GOOD));
    options.cli_checksum = "ABCD".into();
    let text = format!("checksum mismatch: expected=ABCD, actual={}", actual.to_ascii_lowercase());
    assert_eq!(error(options.clone()).await, text);
    assert!(place.at("blob.zst").exists() && !place.at("cli").exists());

    // A damaged blob is a mismatch too, and not a question of decompressing.
    fs::write(place.at("blob.zst"), "damaged").unwrap();
    assert!(error(options.clone()).await.starts_with("checksum mismatch: "));

    place.blob(GOOD);
    options.cli_checksum = actual.into();
    assert_eq!(facts(options).await.get("cliError"), None);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let place = Place::new();
    let mut options = place.with_blob(&"#".repeat(1 << 20));
    options.limits.program = 1 << 16;
    assert_eq!(error(options.clone()).await, "decompressing: decompressed CLI exceeds 65536 bytes");
    assert_eq!(place.names(), Vec::<String>::new());
    options.limits.blob = 10;
    let text = format!("opening input: {} exceeds 10 bytes", place.at("blob.zst").display());
    assert_eq!(error(options).await, text);
}

#[tokio::test]
async fn a_blob_under_the_programs_own_name_is_replaced_and_not_removed() {
    let place = Place::new();
    fs::create_dir(place.at("cli")).unwrap();
    fs::write(place.cli(), compressed(GOOD)).unwrap();
    let options = InstallOptions { cli_zst: place.cli().into(), ..place.options() };
    assert_eq!(facts(options).await.get("cliError"), None);
    assert_eq!(fs::read_to_string(place.cli()).unwrap(), GOOD);
}

#[tokio::test]
async fn the_c_library_is_told_by_its_loader_and_then_by_ldd() {
    let root = tempfile::tempdir().unwrap();
    let ldd = |name: &str, script: &str| -> PathBuf {
        let path = root.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let empty = root.path().join("empty");
    let with_loader = root.path().join("with-loader");
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&with_loader).unwrap();
    let glibc = ldd("ldd-glibc", "echo 'ldd (GNU libc) 2.36'");
    let musl = ldd("ldd-musl", "echo 'MUSL libc (x86_64)' >&2; exit 1");
    let broken = ldd("ldd-broken", "exit 1");
    assert_eq!(probe::libc_by(&empty, &glibc).await, "glibc");
    assert_eq!(probe::libc_by(&empty, &musl).await, "musl", "its ldd fails, and still tells");
    assert_eq!(probe::libc_by(&empty, &broken).await, "glibc");
    assert_eq!(probe::libc_by(&empty, Path::new("/no/such/ldd")).await, "glibc");
    assert_eq!(probe::libc_by(Path::new("/no/such/lib"), &glibc).await, "glibc");
    fs::write(with_loader.join("ld-musl-aarch64.so.1"), "").unwrap();
    assert_eq!(probe::libc_by(&with_loader, &glibc).await, "musl");
}
