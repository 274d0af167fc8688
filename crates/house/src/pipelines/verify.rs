//! The last look at a command before it is started: whether it still is what was shown, and how exactly that is executed.
//!
//! Guarantee: a file that anybody but root can change is read again, whatever was remembered of it. What is executed for
//! an unprivileged command is what was read:
//!
//! | the program | is executed |
//! |---|---|
//! | only root can change it and its interpreters | by its path, which the keeper compares once more |
//! | a binary that others can change | by the descriptor that was read |
//! | a shell script that others can change and that does not use its own path | as a sealed copy of what was read |
//! | any other script that others can change | by its path, which the keeper compares once more |
//!
//! The last row is an exception: the interpreter opens the path again, and the script can be replaced until then. Shells
//! read a script while it runs, so that they get a copy; other interpreters read it at once and need its directory.
//!
//! For a privileged command `sudo` opens the path itself. Code that others can change is therefore refused there, unless
//! the approver has confirmed exactly that.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostel_keeper::proto::{Execute, Pin};
use rustix::fs::{MemfdFlags, SealFlags};

use super::digests::{self, ReadFile, Remembered};
use super::interpreters::first_line;
use super::plan::{Interpreter, Resolved, Stage, look_anew};
use super::resolve::is_protected;

/// A larger script is not copied.
const MAX_SCRIPT_BYTES: usize = 4 << 20;

/// Interpreters that read a script while they run it.
const SHELLS: [&str; 9] = ["ash", "bash", "dash", "ksh", "ksh93", "mksh", "rbash", "sh", "zsh"];

/// What a shell script says that uses its own path.
const OWN_PATH: [&str; 8] =
    ["$0", "${0", "BASH_SOURCE", "BASH_ARGV", "ZSH_ARGZERO", "${(%", "funcfiletrace", ".sh.file"];

/// Why a command is not started.
#[derive(Debug)]
pub(super) enum Difference {
    /// Its file cannot be run at all.
    Missing(i32),
    /// It is not what was shown, in words.
    Changed(String),
    /// It would run code as root that others can change, and the approver has not confirmed that.
    Unconfirmed(String),
}

/// A command that may be started.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) path: PathBuf,
    /// For what is executed by its path: the keeper compares it in the last instant.
    pub(super) pin: Pin,
    /// What is executed instead of the path.
    pub(super) execute: Option<(Arc<OwnedFd>, Execute)>,
}

/// As [`verify`], if that takes no look at a disk: for an unprivileged command whose files only root can change and whose
/// words name no code. None means that somebody has to look.
pub(super) fn verify_at_once(stage: &Stage) -> Option<Ready> {
    let Resolved::Found { path, .. } = &stage.file else { return None };
    if stage.named.iter().any(|file| file.digest.is_some()) {
        return None;
    }
    let remembered = Remembered::of(path).filter(|remembered| remembered.found == stage.file)?;
    Some(Ready { path: path.clone(), pin: remembered.signature()?.pin(), execute: None })
}

/// Looks at an unprivileged command again. Blocks on a slow disk.
pub(super) fn verify(stage: &Stage) -> Result<Ready, Difference> {
    let Resolved::Found { path, .. } = &stage.file else { return Err(missing(&stage.file)) };
    let mut content = Content::default();
    let program = compare(&stage.file, &mut content)?;
    compare_interpreters(stage)?;
    compare_named(stage)?;
    let pin = program.signature.pin();
    let by_path = |pin| Ready { path: path.clone(), pin, execute: None };
    if is_protected(&stage.file) {
        return Ok(by_path(pin));
    }
    if first_line(&program.head).is_some() {
        let copy = content.bytes.filter(|bytes| is_read_while_it_runs(stage) && !uses_own_path(bytes));
        // Where there is no memory for it, or none that can be executed, the path has to do.
        let sealed = copy.and_then(|bytes| sealed_copy(&bytes).ok());
        let execute = sealed.map(|file| (Arc::new(file), Execute::Script));
        return Ok(Ready { execute, ..by_path(pin) });
    }
    match program.file {
        Some(file) => {
            let program = Arc::new(OwnedFd::from(file));
            Ok(Ready { execute: Some((program, Execute::Program)), ..by_path(pin) })
        }
        None => {
            Err(Difference::Changed(format!("`{}` cannot be read, and others than root can change it", path.display())))
        }
    }
}

/// Looks at a command that is to run as root again. `is_confirmed`: the approver knows that the requester can change what
/// runs. Blocks on a slow disk.
pub(super) fn verify_privileged(stage: &Stage, is_confirmed: bool) -> Result<Ready, Difference> {
    let Resolved::Found { path, .. } = &stage.file else { return Err(missing(&stage.file)) };
    let program = compare(&stage.file, &mut Content::none())?;
    compare_interpreters(stage)?;
    compare_named(stage)?;
    let (shown, now) = (stage.changeable_code(), look_anew(&stage.argv).changeable_code());
    if let Some(new) = now.iter().find(|found| !shown.contains(found)) {
        return Err(Difference::Changed(format!("somebody can change {new}; that was not so when it was shown")));
    }
    if !is_confirmed && !now.is_empty() {
        return Err(Difference::Unconfirmed(unconfirmed(&now)));
    }
    Ok(Ready { path: path.clone(), pin: program.signature.pin(), execute: None })
}

/// Why code that others can change does not run as root.
pub(super) fn unconfirmed(changeable: &[String]) -> String {
    format!(
        "root would run code that others can change ({}); whoever approves it has to confirm that",
        changeable.join("; ")
    )
}

fn missing(file: &Resolved) -> Difference {
    match file {
        Resolved::Missing { errno, .. } => Difference::Missing(*errno),
        Resolved::Found { path, .. } => Difference::Changed(format!("`{}` was found after all", path.display())),
    }
}

/// The bytes of a file while it is read, as long as it is a script of moderate size.
struct Content {
    bytes: Option<Vec<u8>>,
}

impl Default for Content {
    fn default() -> Self {
        Content { bytes: Some(Vec::new()) }
    }
}

impl Content {
    /// Keeps nothing.
    fn none() -> Self {
        Content { bytes: None }
    }

    fn add(&mut self, piece: &[u8]) {
        let Some(bytes) = &mut self.bytes else { return };
        bytes.extend_from_slice(piece);
        if bytes.len() > MAX_SCRIPT_BYTES || !bytes.starts_with(b"#!") {
            self.bytes = None;
        }
    }
}

/// Reads a file again and compares it with what was shown.
fn compare(file: &Resolved, content: &mut Content) -> Result<ReadFile, Difference> {
    let (path, dev, inode, size, digest) = match file {
        Resolved::Found { path, dev, inode, size, digest, .. } => (path, *dev, *inode, *size, digest),
        Resolved::Missing { .. } => return Err(missing(file)),
    };
    let changed = |what: String| Err(Difference::Changed(format!("`{}` {what}", path.display())));
    let keep = |piece: &[u8]| {
        content.add(piece);
        Ok(())
    };
    let read = match digests::read(path, keep) {
        Ok(read) => read,
        Err(error) => return changed(format!("cannot be looked at any more: {error}")),
    };
    if (read.signature.dev, read.signature.inode) != (dev, inode) {
        return changed("is another file now".to_owned());
    }
    if read.signature.size != size || read.digest != *digest {
        return changed("has another content now".to_owned());
    }
    Ok(read)
}

fn compare_interpreters(stage: &Stage) -> Result<(), Difference> {
    for Interpreter { name, file } in stage.file.interpreters() {
        match compare(file, &mut Content::none()) {
            Ok(_) => {}
            Err(Difference::Changed(what)) => {
                return Err(Difference::Changed(format!(
                    "the interpreter of the script is not what was shown: {what}"
                )));
            }
            // What was not there then must not be there now: nobody has seen it.
            Err(_) if look_anew(&stage.argv).file.interpreters() == stage.file.interpreters() => {}
            Err(_) => return Err(Difference::Changed(format!("the interpreter `{name}` was not there before"))),
        }
    }
    Ok(())
}

/// Compares the files among the arguments that the program runs as code.
fn compare_named(stage: &Stage) -> Result<(), Difference> {
    for file in &stage.named {
        let Some(digest) = &file.digest else { continue };
        let read = digests::read(&file.path, |_| Ok(()));
        if !read.is_ok_and(|read| read.digest == *digest) {
            return Err(Difference::Changed(format!("`{}` has another content now", file.path.display())));
        }
    }
    Ok(())
}

/// Whether the program that finally runs a script reads it while it runs.
fn is_read_while_it_runs(stage: &Stage) -> bool {
    let is_shell =
        |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| SHELLS.contains(&name));
    stage.file.interpreters().last().is_some_and(|interpreter| match &interpreter.file {
        Resolved::Found { path, target, .. } => is_shell(path) || is_shell(target),
        Resolved::Missing { .. } => false,
    })
}

fn uses_own_path(script: &[u8]) -> bool {
    OWN_PATH.iter().any(|word| script.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// A copy of a script that nobody can change any more, not even its owner.
fn sealed_copy(script: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and later ones may forbid such a file without it.
    let fd = rustix::fs::memfd_create("hostel-script", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create("hostel-script", flags))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(script)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
