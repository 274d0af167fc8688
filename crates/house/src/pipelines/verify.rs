//! The last look at a command before it is started: whether it still is what was shown, and how exactly that is executed.
//!
//! Guarantee: a file that anybody but root can change is read again, whatever was remembered of it. What is executed for
//! an unprivileged command is what was read:
//!
//! | the program | is executed |
//! |---|---|
//! | only root can change it and its interpreters | by its path, which the keeper compares once more |
//! | a binary that others can change | by the descriptor that was read, under a lease that was taken before reading |
//! | the same where there are no leases | as a sealed copy if it is small, else by the descriptor alone |
//! | a shell script that others can change and that does not use its own path | as a sealed copy of what was read |
//! | any other script that others can change | by its path, which the keeper compares once more |
//!
//! A lease keeps others from writing to the file until it runs, and a file that runs cannot be written to
//! ([`hostel_keeper::lease`]). A file that somebody has open for writing gets none, and is not started. Interpreters that
//! others can change are leased until the command runs.
//!
//! The last row is an exception: the interpreter opens the path again, and the script can be replaced until then. Shells
//! read a script while it runs, so that they get a copy; other interpreters read it at once and need its directory.
//!
//! For a privileged command `sudo` opens the path itself. Code that others can change is therefore refused there, unless
//! the approver has confirmed exactly that.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostel_keeper::lease::LeaseError;
use hostel_keeper::proto::{Execute, Pin};
use rustix::fs::{MemfdFlags, SealFlags};
use sha2::{Digest as _, Sha256};

use super::digests::{self, ReadFile, Remembered};
use super::elf::{self, ElfNames};
use super::interpreters::first_line;
use super::plan::{Interpreter, Resolved, Stage, look_anew};
use super::resolve::{changeable_loader, is_protected};

/// A larger file is not copied.
const MAX_COPIED_BYTES: usize = 4 << 20;

/// What copies are called where the system shows them.
const COPY_NAME: &str = "hostel-copy";

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
    /// Files beside the program whose leases are to be held until it runs.
    pub(super) leased: Vec<OwnedFd>,
}

/// As [`verify`], if that takes no look at a disk: for an unprivileged command whose files only root can change and whose
/// words name no code. None means that somebody has to look.
pub(super) fn verify_at_once(stage: &Stage) -> Option<Ready> {
    let Resolved::Found { path, .. } = &stage.file else { return None };
    if stage.named.iter().any(|file| file.digest.is_some()) {
        return None;
    }
    let remembered = Remembered::of(path).filter(|remembered| remembered.found == stage.file)?;
    Some(Ready { path: path.clone(), pin: remembered.signature()?.pin(), execute: None, leased: Vec::new() })
}

/// Looks at an unprivileged command again. Blocks on a slow disk.
pub(super) fn verify(stage: &Stage) -> Result<Ready, Difference> {
    let Resolved::Found { path, .. } = &stage.file else { return Err(missing(&stage.file)) };
    let mut content = Content::default();
    let is_protected = is_protected(&stage.file);
    let program = compare(&stage.file, &mut content, !is_protected)?;
    let leased = compare_interpreters(stage, true)?;
    compare_named(stage)?;
    let by_path = Ready { path: path.clone(), pin: program.signature.pin(), execute: None, leased };
    if is_protected {
        return Ok(by_path);
    }
    if first_line(&program.head).is_some() {
        let copy = content.bytes.filter(|bytes| is_read_while_it_runs(stage) && !uses_own_path(bytes));
        // Where there is no memory for it, or none that can be executed, the path has to do.
        let sealed = copy.and_then(|bytes| sealed_copy(&bytes).ok());
        let execute = sealed.map(|file| (Arc::new(file), Execute::Script));
        return Ok(Ready { execute, ..by_path });
    }
    let (descriptor, how) = binary(path, program)?;
    // Read from what is executed: another loader may have been in the file when its digest was taken.
    let file = File::from(descriptor);
    check_loader(stage, path, elf::names_of(&file))?;
    Ok(Ready { execute: Some((Arc::new(file.into()), how)), ..by_path })
}

/// How a binary is executed that others can change, so that nobody writes to it between reading and executing.
fn binary(path: &Path, program: ReadFile) -> Result<(OwnedFd, Execute), Difference> {
    let changed = |what: &str| Difference::Changed(format!("`{}` {what}", path.display()));
    let copy = match &program.lease {
        Some(Err(LeaseError::Unavailable(_))) if !program.is_of_root_alone() && !program.gives_rights() => {
            copy_of(&program).map_err(|what| changed(&what))?
        }
        _ => None,
    };
    let Some(file) = program.file else { return Err(changed("cannot be read, and others than root can change it")) };
    match (program.lease, copy) {
        (Some(Ok(())), _) => Ok((OwnedFd::from(file), Execute::Leased)),
        (Some(Err(LeaseError::Busy)), _) => Err(changed(BUSY)),
        (_, Some(copy)) => Ok((copy, Execute::Program)),
        (_, None) => Ok((OwnedFd::from(file), Execute::Program)),
    }
}

/// Compares the loader that a binary names with those that were shown, if others than root can change that loader.
fn check_loader(stage: &Stage, path: &Path, names: Option<ElfNames>) -> Result<(), Difference> {
    let Some((name, _)) = names.and_then(|names| changeable_loader(&names)) else { return Ok(()) };
    match stage.file.interpreters().iter().any(|shown| shown.is_loader && shown.name == name) {
        true => Ok(()),
        false => Err(Difference::Changed(format!("`{}` is loaded by `{name}`, which was not shown", path.display()))),
    }
}

/// Why a file is not started that could change while it is compared.
const BUSY: &str =
    "is open for writing in another process; end that process, or ask again when it has written the file";

/// A sealed copy of a small file with the bytes that were read before. None if it cannot be had.
fn copy_of(program: &ReadFile) -> Result<Option<OwnedFd>, String> {
    let Some(mut file) = program.file.as_ref() else { return Ok(None) };
    if program.signature.size > MAX_COPIED_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(MAX_COPIED_BYTES as u64 + 1).read_to_end(&mut bytes));
    if read.is_err() || Sha256::digest(&bytes).as_slice() != program.digest {
        return Err("changed while it was read".to_owned());
    }
    Ok(sealed_copy(&bytes).ok())
}

/// Looks at a command that is to run as root again. `is_confirmed`: the approver knows that the requester can change what
/// runs. Blocks on a slow disk.
pub(super) fn verify_privileged(stage: &Stage, is_confirmed: bool) -> Result<Ready, Difference> {
    let Resolved::Found { path, .. } = &stage.file else { return Err(missing(&stage.file)) };
    let program = compare(&stage.file, &mut Content::none(), false)?;
    compare_interpreters(stage, false)?;
    compare_named(stage)?;
    let (shown, now) = (stage.changeable_code(), look_anew(&stage.argv).changeable_code());
    if let Some(new) = now.iter().find(|found| !shown.contains(found)) {
        return Err(Difference::Changed(format!("somebody can change {new}; that was not so when it was shown")));
    }
    if !is_confirmed && !now.is_empty() {
        return Err(Difference::Unconfirmed(unconfirmed(&now)));
    }
    Ok(Ready { path: path.clone(), pin: program.signature.pin(), execute: None, leased: Vec::new() })
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
        if bytes.len() > MAX_COPIED_BYTES || !bytes.starts_with(b"#!") {
            self.bytes = None;
        }
    }
}

/// Reads a file again, under a lease if one is wanted, and compares it with what was shown.
fn compare(file: &Resolved, content: &mut Content, is_leased: bool) -> Result<ReadFile, Difference> {
    let (path, dev, inode, size, digest) = match file {
        Resolved::Found { path, dev, inode, size, digest, .. } => (path, *dev, *inode, *size, digest),
        Resolved::Missing { .. } => return Err(missing(file)),
    };
    let changed = |what: String| Err(Difference::Changed(format!("`{}` {what}", path.display())));
    let keep = |piece: &[u8]| {
        content.add(piece);
        Ok(())
    };
    let read = if is_leased { digests::read_leased(path, keep) } else { digests::read(path, keep) };
    let read = match read {
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

/// Compares the interpreters of a script. Returns those that are leased now, if that is wanted: those that others can
/// change.
fn compare_interpreters(stage: &Stage, is_leased: bool) -> Result<Vec<OwnedFd>, Difference> {
    let mut leased = Vec::new();
    for Interpreter { name, file, is_loader } in stage.file.interpreters() {
        let what = if *is_loader { "loader" } else { "interpreter" };
        match compare(file, &mut Content::none(), is_leased && !is_protected(file)) {
            Ok(ReadFile { lease: Some(Err(LeaseError::Busy)), .. }) => {
                return Err(Difference::Changed(format!("the {what} `{name}` {BUSY}")));
            }
            Ok(read) => {
                if let Resolved::Found { path, .. } = file
                    && !is_loader
                    && !is_protected(file)
                {
                    check_loader(stage, path, read.elf_names())?;
                }
                if let ReadFile { file: Some(open), lease: Some(Ok(())), .. } = read {
                    leased.push(open.into());
                }
            }
            Err(Difference::Changed(why)) => {
                let of = if *is_loader { "program" } else { "script" };
                return Err(Difference::Changed(format!("the {what} of the {of} is not what was shown: {why}")));
            }
            // What was not there then must not be there now: nobody has seen it.
            Err(_) if look_anew(&stage.argv).file.interpreters() == stage.file.interpreters() => {}
            Err(_) => return Err(Difference::Changed(format!("the {what} `{name}` was not there before"))),
        }
    }
    Ok(leased)
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
    let programs = stage.file.interpreters().iter().rfind(|interpreter| !interpreter.is_loader);
    programs.is_some_and(|interpreter| match &interpreter.file {
        Resolved::Found { path, target, .. } => is_shell(path) || is_shell(target),
        Resolved::Missing { .. } => false,
    })
}

fn uses_own_path(script: &[u8]) -> bool {
    OWN_PATH.iter().any(|word| script.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// A copy of a file that nobody can change any more, not even its owner.
fn sealed_copy(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and later ones may forbid such a file without it.
    let fd = rustix::fs::memfd_create(COPY_NAME, flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(COPY_NAME, flags))?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
