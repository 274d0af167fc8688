//! Where the programs under test are.
//!
//! `HOSTEL_BIN` wins; otherwise the program sits beside the test executables, where cargo puts it.
//! A missing program is an error that names the command which builds it, never a skipped test.

use std::env;
use std::path::{Path, PathBuf};

/// The `hostel` program under test.
///
/// # Panics
/// If it has not been built.
pub fn hostel() -> PathBuf {
    if let Some(path) = env::var_os("HOSTEL_BIN") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "HOSTEL_BIN={} is not a file", path.display());
        return path;
    }
    beside_tests("hostel", "cargo build -p hostel")
}

/// The child program of this package, whose behaviour the tests choose by sub-command.
///
/// # Panics
/// If it has not been built.
pub fn testchild() -> PathBuf {
    beside_tests("testchild", "cargo build -p hostel-tests --bins")
}

/// A client of the sudo-proxy door that is a process of its own.
///
/// # Panics
/// If it has not been built.
pub fn asker() -> PathBuf {
    beside_tests("asker", "cargo build -p hostel-tests --bins")
}

/// The server and the front of the MCP conformance tests.
///
/// # Panics
/// If it has not been built.
pub fn mcp_fixture() -> PathBuf {
    beside_tests("mcp_fixture", "cargo build -p hostel-tests --bins")
}

/// A client that says lines to a socket, for any tree of processes.
///
/// # Panics
/// If it has not been built.
pub fn speaker() -> PathBuf {
    beside_tests("speaker", "cargo build -p hostel-tests --bins")
}

/// A program that connects to a door for a test, from wherever it was started.
///
/// # Panics
/// If it has not been built.
pub fn relay() -> PathBuf {
    beside_tests("relay", "cargo build -p hostel-tests --bins")
}

/// The root of the repository.
///
/// # Panics
/// Never: this package sits in a folder of the root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package has a parent folder").to_path_buf()
}

/// Where `scripts/setup` installs programs that hostel is compared with.
pub fn tools() -> PathBuf {
    let cache = || {
        let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
        env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("hostel-tests")
    };
    env::var_os("HOSTEL_TOOLS").map_or_else(cache, PathBuf::from)
}

fn beside_tests(name: &str, build: &str) -> PathBuf {
    let executable = env::current_exe().expect("a running program has a path");
    let mut folder = executable.parent().expect("a program sits in a folder").to_path_buf();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let path = folder.join(name);
    let profile = if folder.ends_with("release") { " --release" } else { "" };
    assert!(
        path.is_file(),
        "{} does not exist; build it first: {build}{profile} (or name it in HOSTEL_BIN)",
        path.display()
    );
    path
}
