//! Opening a terminal emulator with a command in it.
//!
//! Invariant: the command is handed over word by word; no shell reads it.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use hostel_guard::OwnPrograms;
use hostel_house::processes::program::own;

/// The emulators that are known, in the order they are looked for.
const KNOWN: [&str; 5] = ["x-terminal-emulator", "gnome-terminal", "konsole", "xfce4-terminal", "xterm"];

/// A program of the search path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, std::env::var_os("PATH").as_deref())
}

fn find_in(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path?).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(is_program)
}

/// A terminal emulator.
pub(super) struct Emulator {
    name: &'static str,
    file: PathBuf,
}

/// The emulator there is; which were looked for, if there is none. `the_house` itself takes one of the system first.
pub(super) fn emulator(the_house: bool) -> Result<Emulator, String> {
    let path = std::env::var_os("PATH");
    let file = |name: &str| match the_house {
        true => own(name, OwnPrograms::System, path.as_deref()).map(|found| found.file),
        false => find_in(name, path.as_deref()),
    };
    KNOWN
        .into_iter()
        .find_map(|name| Some(Emulator { name, file: file(name)? }))
        .ok_or_else(|| format!("no terminal emulator found (tried {})", KNOWN.join(", ")))
}

/// Runs a command in a terminal of its own and does not wait for it. What `the_house` itself opens counts as inside of
/// it: ssh runs programs that its settings name.
pub(super) fn open(emulator: &Emulator, words: &[OsString], the_house: bool) -> io::Result<()> {
    let mut command = Command::new(&emulator.file);
    command.arg(separator(emulator.name)).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if the_house {
        hostel_peer::marks::mark_children_of(&mut command);
    }
    let mut child = command.spawn()?;
    // Some emulators hand the window to a server and end at once; one that stays is somebody's window.
    std::thread::spawn(move || drop(child.wait()));
    Ok(())
}

/// What comes between an emulator's own words and the command's.
fn separator(emulator: &str) -> &'static str {
    if emulator == "gnome-terminal" { "--" } else { "-e" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_files_that_can_be_run() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("tool");
        std::fs::write(&path, "").unwrap();
        let search = Some(scratch.path().as_os_str());
        assert_eq!(find_in("tool", search), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in("tool", search), Some(path));
        assert_eq!(find_in("tool", None), None);
        assert_eq!(find_in("other", search), None);
    }

    #[test]
    fn the_words_follow_the_right_separator() {
        assert_eq!((separator("gnome-terminal"), separator("konsole"), separator("xterm")), ("--", "-e", "-e"));
    }
}
