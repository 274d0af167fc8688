//! Which file a command means, what is in it, who runs it if it is a script, and who can change any of that.
//!
//! Guarantee: a file is named by device, inode, size and the digest of its content. What was named once is compared,
//! never looked for again. A file that cannot be examined in full is not named.
//!
//! Everything here may wait for a disk and is called where waiting does no harm, except [`resolve_at_once`].

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use super::digests::{self, ReadFile, Remembered};
use super::elf::{ElfNames, library_path};
use super::interpreters::{FirstLine, MAX_DEPTH, first_line, is_env, program_of_env};
use super::plan::{Interpreter, LibraryPath, Resolved};
use super::writers::{Writers, writers_of};

/// Where commands are looked for, whatever `PATH` the daemon has.
pub const EXECUTION_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Places of libraries of one binary that are listed.
const MAX_LIBRARIES: usize = 32;

/// Where programs come from that a house of root need not fear to have changed: in such a house the requester is root
/// too, and the owner of a file says nothing.
const SYSTEM_DIRECTORIES: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/gnu"];

/// The file that a first word means: looked for in [`EXECUTION_PATH`], or, with a slash in it, from `/`.
pub fn resolve(word: &str) -> Resolved {
    find(word).and_then(|path| examine(&path)).unwrap_or_else(|error| missing(&error))
}

/// As [`resolve`], without waiting for anything: for programs that only root can change and that were examined before.
/// None means that somebody has to look.
pub(super) fn resolve_at_once(word: &str) -> Option<Resolved> {
    if word.contains('/') {
        return Remembered::of(&Path::new("/").join(word)).map(|program| program.found);
    }
    for directory in EXECUTION_PATH.split(':').filter(|_| !word.is_empty()) {
        let path = Path::new(directory).join(word);
        if let Some(program) = Remembered::of(&path) {
            return Some(program.found);
        }
        if !digests::is_known_to_be_missing(&path) {
            return None;
        }
    }
    None
}

/// The path of a program, as `execvp` would find it.
pub(super) fn find(word: &str) -> io::Result<PathBuf> {
    if word.contains('/') {
        let path = Path::new("/").join(word);
        return can_run(&path).map(|()| path);
    }
    if word.is_empty() {
        return Err(Errno::NOENT.into());
    }
    find_in(EXECUTION_PATH.split(':').map(Path::new), word)
}

/// Likewise, in these directories. A file that may not be run is reported if there is none that may be.
fn find_in<'a>(directories: impl Iterator<Item = &'a Path>, word: &str) -> io::Result<PathBuf> {
    let mut refused = io::Error::from(Errno::NOENT);
    for directory in directories {
        let path = directory.join(word);
        match can_run(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Whether the kernel would execute it, as far as that can be told before.
fn can_run(path: &Path) -> io::Result<()> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// A program that can be run, examined in full.
fn examine(path: &Path) -> io::Result<Resolved> {
    let mut files = Vec::new();
    let (mut found, program) = examine_file(path)?;
    let interpreters = interpreters_of(&program, &mut files);
    if let Resolved::Found { interpreters: place, .. } = &mut found {
        *place = interpreters;
    }
    if is_protected(&found) {
        files.insert(0, (path.to_owned(), program));
        Remembered::keep(path, &found, &files);
    }
    Ok(found)
}

fn examine_file(path: &Path) -> io::Result<(Resolved, ReadFile)> {
    let target = path.canonicalize()?;
    // What is stored and shown is text.
    if path.to_str().is_none() || target.to_str().is_none() {
        return Err(Errno::ILSEQ.into());
    }
    let read = digests::read(path, |_| Ok(()))?;
    let there = target.metadata()?;
    if (there.dev(), there.ino()) != (read.signature.dev, read.signature.inode) {
        // A link was changed between the two looks.
        return Err(Errno::STALE.into());
    }
    let libraries = libraries_of(&read, &target);
    let found = Resolved::Found {
        path: path.to_owned(),
        target,
        dev: read.signature.dev,
        inode: read.signature.inode,
        size: read.signature.size,
        digest: read.digest,
        writers: writers_of(path),
        interpreters: Vec::new(),
        libraries,
    };
    Ok((found, read))
}

/// The programs that run a script, one after the other, each with its loader if others can change that; for a binary only
/// its loader, likewise.
fn interpreters_of(program: &ReadFile, files: &mut Vec<(PathBuf, ReadFile)>) -> Vec<Interpreter> {
    let mut found = Vec::new();
    add_loader(program, &mut found, files);
    let mut head = program.head.clone();
    for depth in 0.. {
        let FirstLine { interpreter, argument } = match first_line(&head) {
            None => break,
            Some(Ok(line)) if depth < MAX_DEPTH => line,
            Some(Ok(line)) => {
                found.push(Interpreter::missing(line.interpreter, Errno::LOOP));
                break;
            }
            Some(Err(text)) => {
                found.push(Interpreter::missing(text, Errno::NOEXEC));
                break;
            }
        };
        let path = Path::new("/").join(&interpreter);
        let is_env = is_env(&path);
        let Some(next) = add_interpreter(interpreter, can_run(&path).map(|()| path), &mut found, files) else { break };
        head = next;
        if is_env {
            let name = match program_of_env(argument.as_deref()) {
                Ok(Some(name)) => name,
                Ok(None) => break,
                Err(text) => {
                    found.push(Interpreter::missing(text, Errno::NOEXEC));
                    break;
                }
            };
            let path = find(&name);
            let Some(next) = add_interpreter(name, path, &mut found, files) else { break };
            head = next;
        }
    }
    found
}

/// Examines one interpreter; returns its first bytes, if it is there.
fn add_interpreter(
    name: String,
    path: io::Result<PathBuf>,
    found: &mut Vec<Interpreter>,
    files: &mut Vec<(PathBuf, ReadFile)>,
) -> Option<Vec<u8>> {
    match path.and_then(|path| examine_file(&path).map(|(file, read)| (path, file, read))) {
        Ok((path, file, read)) => {
            let head = read.head.clone();
            found.push(Interpreter { name, file, is_loader: false });
            add_loader(&read, found, files);
            files.push((path, read));
            Some(head)
        }
        Err(error) => {
            found.push(Interpreter { name, file: missing(&error), is_loader: false });
            None
        }
    }
}

/// Examines the program that the kernel starts in place of a binary, if others than root can change that program.
fn add_loader(binary: &ReadFile, found: &mut Vec<Interpreter>, files: &mut Vec<(PathBuf, ReadFile)>) {
    let Some((name, path)) = binary.elf_names().and_then(|names| changeable_loader(&names)) else { return };
    let examined = can_run(&path).and_then(|()| examine_file(&path));
    let file = match examined {
        Ok((file, read)) => {
            files.push((path, read));
            file
        }
        Err(error) => missing(&error),
    };
    found.push(Interpreter { name, file, is_loader: true });
}

/// The loader of a binary, as it is written and where it is, if others than root can change it. The kernel opens it from
/// the directory that a command runs in, which is `/`.
pub(super) fn changeable_loader(names: &ElfNames) -> Option<(String, PathBuf)> {
    let name = names.loader.as_deref()?;
    let path = Path::new("/").join(OsStr::from_bytes(name));
    let is_trusted = path.canonicalize().is_ok_and(|target| is_of_root_alone(&target, &writers_of(&path)));
    (!is_trusted).then(|| (String::from_utf8_lossy(name).into_owned(), path))
}

/// The places of libraries that a binary names and that others than root can change, or create.
fn libraries_of(binary: &ReadFile, target: &Path) -> Vec<LibraryPath> {
    let Some(names) = binary.elf_names() else { return Vec::new() };
    let origin = target.parent().unwrap_or(target);
    let mut found: Vec<LibraryPath> = Vec::new();
    for text in &names.libraries {
        let path = library_path(text, origin);
        let mut there = path.as_path();
        // Whoever can change the last directory that exists can create the rest.
        while there.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let Some(parent) = there.parent() else { break };
            there = parent;
        }
        let writers = writers_of(there);
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        if !writers.is_only_root() && found.len() < MAX_LIBRARIES && found.iter().all(|known| known.path != path) {
            found.push(LibraryPath { path, writers });
        }
    }
    found
}

/// Whether neither the requester nor anybody else but root can change a program, a script or what interprets it.
pub(super) fn is_protected(file: &Resolved) -> bool {
    let is_trusted = |file: &Resolved| match file {
        Resolved::Found { target, writers, .. } => is_of_root_alone(target, writers),
        Resolved::Missing { .. } => false,
    };
    is_trusted(file) && file.interpreters().iter().all(|interpreter| is_trusted(&interpreter.file))
}

/// Whether neither the requester nor anybody else but root can change a file.
fn is_of_root_alone(target: &Path, writers: &Writers) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    writers.is_only_root() && (!is_root || SYSTEM_DIRECTORIES.iter().any(|system| target.starts_with(system)))
}

fn missing(error: &io::Error) -> Resolved {
    Resolved::missing(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
