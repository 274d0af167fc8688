//! What a run that was killed has left: copies of databases and of keys under hidden names.
//!
//! Invariant: only what has the name of such a thing goes, and only if the process in that name is no more. A link is
//! removed, never what it leads to.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// Removes what begins so, goes on with the number of a process that has ended, and ends in one of these.
pub(crate) fn sweep(directory: &Path, beginning: &str, endings: &[&str]) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| owner(name, beginning, endings)) else { continue };
        if pid == std::process::id() || lives(pid) {
            continue;
        }
        let path = entry.path();
        // It is tried again by the next run.
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => fs::remove_dir_all(&path).ok(),
            false => fs::remove_file(&path).ok(),
        };
    }
}

/// The process that a name is of.
fn owner(name: &str, beginning: &str, endings: &[&str]) -> Option<u32> {
    let rest = name.strip_prefix(beginning)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, ending) = rest.split_at_checked(end)?;
    endings.contains(&ending).then(|| number.parse().ok()).flatten()
}

/// Whether there is such a process; one that cannot be asked lives.
fn lives(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_the_dead_goes() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let elsewhere = root.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("x"), "kept").unwrap();
        let stay = [
            format!(".backup-{own}.db"),
            format!(".backup-{parent}.db"),
            format!(".backup-{dead}.dbx"),
            format!(".backup-{dead}"),
            ".backup-.db".to_owned(),
            ".backup-99999999999999.db".to_owned(),
            format!("backup-{dead}.db"),
        ];
        let go = [format!(".backup-{dead}.db"), format!(".backup-{dead}.db-wal")];
        for name in stay.iter().chain(&go) {
            fs::write(root.join(name), "x").unwrap();
        }
        fs::create_dir_all(root.join(format!(".lab.restoring-{dead}/hooks"))).unwrap();
        sweep(root, ".backup-", &[".db", ".db-wal"]);
        sweep(root, ".lab.restoring-", &[""]);
        std::os::unix::fs::symlink(&elsewhere, root.join(format!(".lab.restoring-{dead}"))).unwrap();
        sweep(root, ".lab.restoring-", &[""]);
        for name in &stay {
            assert!(root.join(name).exists(), "{name}");
        }
        assert!(go.iter().all(|name| !root.join(name).exists()));
        assert!(fs::symlink_metadata(root.join(format!(".lab.restoring-{dead}"))).is_err());
        assert_eq!(fs::read_to_string(elsewhere.join("x")).unwrap(), "kept");
        sweep(&root.join("nowhere"), "x", &[""]);
    }
}
