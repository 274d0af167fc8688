//! ssh reads included configuration only from files of root or of the user, and in a user namespace root's files belong
//! to nobody. These files are replaced by copies.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::mounts::Tree;

/// The system's configuration of the ssh client, which ssh reads whoever owns it.
const CONFIGURATION: &str = "/etc/ssh/ssh_config";

/// Included files that are copied at most, and the size of one.
const MAX_FILES: usize = 64;
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Replaces every file that the system's configuration includes by a copy in `scratch`.
pub(super) fn copy_included(scratch: &Path) -> io::Result<()> {
    let Ok(text) = std::fs::read_to_string(CONFIGURATION) else { return Ok(()) };
    let mut waiting = included(&text);
    let mut copied = Vec::new();
    while let Some(file) = waiting.pop() {
        let (Ok(target), Ok(found)) = (std::fs::canonicalize(&file), std::fs::metadata(&file)) else { continue };
        if copied.contains(&target) || !found.is_file() || found.len() > MAX_FILE_BYTES || copied.len() >= MAX_FILES {
            continue;
        }
        // A file that we cannot read, ssh cannot read either.
        let Ok(bytes) = std::fs::read(&target) else { continue };
        std::fs::create_dir_all(scratch)?;
        let copy = scratch.join(copied.len().to_string());
        std::fs::write(&copy, &bytes)?;
        // ssh reads nothing that others can write, and the mask may allow that.
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644))?;
        Tree::copy(&copy)?.attach(&target)?;
        copied.push(target);
        waiting.extend(included(&String::from_utf8_lossy(&bytes)));
    }
    Ok(())
}

/// The files that a configuration includes. A pattern may have `*` in its last part; others are passed over.
fn included(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words =
            line.split(|letter: char| letter.is_whitespace() || letter == '=').filter(|word| !word.is_empty());
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("include")) {
            continue;
        }
        for word in words.take_while(|word| !word.starts_with('#')) {
            let pattern = Path::new("/etc/ssh").join(word.trim_matches('"'));
            let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else { continue };
            let name = name.to_string_lossy();
            match name.split_once('*') {
                None => found.push(pattern.clone()),
                Some((before, after)) => {
                    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
                    let fits = |entry: &std::fs::DirEntry| {
                        let name = entry.file_name();
                        let name = name.to_string_lossy();
                        name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
                    };
                    found.extend(entries.filter(fits).map(|entry| entry.path()));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_with_and_without_a_pattern() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a.conf", "b.conf", "c.txt"] {
            std::fs::write(scratch.path().join(name), "").unwrap();
        }
        let directory = scratch.path().display();
        let text =
            format!("# Include /no\nHost *\n  include {directory}/*.conf \"{directory}/c.txt\" # x\nInclude=rel\n");
        let mut found = included(&text);
        found.sort_unstable();
        let expected = [scratch.path().join("a.conf"), scratch.path().join("b.conf"), scratch.path().join("c.txt")];
        assert_eq!(found.len(), 4);
        assert!(found.contains(&"/etc/ssh/rel".into()) && expected.iter().all(|path| found.contains(path)));
    }
}
