use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use hostel_keeper::lease;
use rustix::fs::OFlags;

use super::*;
use crate::pipelines::resolve::resolve;
use crate::pipelines::writers::Writers;

fn program(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn stage(words: &[&str]) -> Stage {
    look_anew(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

fn changed(verified: Result<Ready, Difference>) -> String {
    match verified {
        Err(Difference::Changed(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_file_and_another_content_are_noticed() {
    let scratch = tempfile::tempdir().unwrap();
    let word = program(scratch.path(), "tool", "#!/bin/sh\nexit 1\n");
    let shown = stage(&[&word]);
    let ready = verify(&shown).unwrap();
    assert_eq!((ready.path.to_str().unwrap(), ready.pin.size), (word.as_str(), 17));
    // The same inode with other bytes.
    std::fs::write(&word, "#!/bin/sh\nexit 2\n").unwrap();
    assert!(changed(verify(&shown)).ends_with("has another content now"));
    std::fs::write(&word, "#!/bin/sh\nexit 1\n").unwrap();
    verify(&shown).expect("the same bytes again");
    // Another inode with the same bytes.
    let other = program(scratch.path(), "other", "#!/bin/sh\nexit 1\n");
    std::fs::rename(other, &word).unwrap();
    assert!(changed(verify(&shown)).ends_with("is another file now"));
    std::fs::remove_file(&word).unwrap();
    assert!(changed(verify(&shown)).contains("cannot be looked at any more"));
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &word, fifo, rustix::fs::Mode::from_raw_mode(0o755), 0).unwrap();
    changed(verify(&shown));
}

#[test]
fn a_link_that_leads_elsewhere_is_another_file() {
    let scratch = tempfile::tempdir().unwrap();
    let one = program(scratch.path(), "one", "#!/bin/sh\n");
    let two = program(scratch.path(), "two", "#!/bin/sh\n");
    let link = scratch.path().join("link");
    symlink(&one, &link).unwrap();
    let shown = stage(&[link.to_str().unwrap()]);
    std::fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert!(changed(verify(&shown)).ends_with("is another file now"));
}

/// The attack itself, through a mapping, is in `tests/sudo_proxy`; here the times are put back by hand.
#[test]
fn other_bytes_under_the_same_times_are_noticed() {
    for directory in [std::env::temp_dir(), std::path::PathBuf::from("/dev/shm")] {
        let scratch = tempfile::tempdir_in(directory).unwrap();
        let word = program(scratch.path(), "tool", "#!/bin/sh\necho good\n");
        let file = std::fs::File::options().read(true).write(true).open(&word).unwrap();
        let write = |bytes: &[u8]| rustix::io::pwrite(&file, bytes, 15).unwrap();
        write(b"good");
        let shown = stage(&[&word]);
        let before = std::fs::metadata(&word).unwrap();
        write(b"evil");
        file.set_modified(before.modified().unwrap()).unwrap();
        assert!(changed(verify(&shown)).ends_with("has another content now"));
        assert!(verify_at_once(&shown).is_none(), "nothing is told from memory");
    }
}

#[test]
fn a_protected_program_is_executed_by_its_path() {
    let shown = stage(&["true"]);
    let ready = verify(&shown).unwrap();
    assert!(ready.execute.is_none());
    let at_once = (0..100).find_map(|_| verify_at_once(&shown)).expect("it was looked at a moment ago");
    assert_eq!((at_once.path, at_once.pin), (ready.path, ready.pin));
    let mut other = shown.clone();
    if let Resolved::Found { digest, .. } = &mut other.file {
        digest[0] ^= 1;
    }
    assert!(verify_at_once(&other).is_none());
}

#[test]
fn a_shell_script_is_copied_unless_it_uses_its_own_path() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, content, is_copied) in [
        ("plain", "#!/bin/sh\necho hello\n", true),
        ("env", "#!/usr/bin/env bash\necho $1\n", true),
        ("own", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n", false),
        ("brace", "#!/bin/sh\necho ${0##*/}\n", false),
        ("source", "#!/bin/bash\necho ${BASH_SOURCE[0]}\n", false),
        ("python", "#!/usr/bin/env python3\nprint(1)\n", false),
    ] {
        let word = program(scratch.path(), name, content);
        let ready = verify(&stage(&[&word])).unwrap();
        assert_eq!(ready.execute.as_ref().map(|(_, how)| *how), is_copied.then_some(Execute::Script), "{name}");
        let Some((copy, _)) = ready.execute else { continue };
        std::fs::write(&word, "#!/bin/sh\necho evil\n").unwrap();
        let mut file = std::fs::File::from(copy.as_fd().try_clone_to_owned().unwrap());
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, content);
        assert!(std::io::Write::write_all(&mut file, b"x").is_err(), "nobody writes to it");
    }
}

/// A copy of `true`, and its path.
fn binary_in(directory: &Path) -> String {
    let word = directory.join("copy").to_str().unwrap().to_owned();
    std::fs::copy("/bin/true", &word).unwrap();
    word
}

fn id_of(file: &OwnedFd) -> (u64, u64) {
    let stat = rustix::fs::fstat(file).unwrap();
    (stat.st_dev, stat.st_ino)
}

#[test]
fn a_binary_that_others_can_change_is_executed_by_descriptor_under_a_lease() {
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    let ready = verify(&stage(&[&word])).unwrap();
    let (file, how) = ready.execute.unwrap();
    assert_eq!(how, Execute::Leased);
    assert_eq!(id_of(&file), (ready.pin.dev, ready.pin.inode));
    assert!(lease::is_intact(&*file));
    // Whoever wants to write to the file waits, and the lease is not intact any more.
    let write_at_once = || {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(&word, flags, rustix::fs::Mode::empty())
    };
    assert_eq!(write_at_once().unwrap_err(), rustix::io::Errno::AGAIN);
    assert!(!lease::is_intact(&*file));
    drop(file);
    write_at_once().unwrap();
}

#[test]
fn a_file_that_somebody_has_open_for_writing_is_not_executed() {
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    let shown = stage(&[&word]);
    let writer = std::fs::File::options().write(true).open(&word).unwrap();
    let what = changed(verify(&shown));
    assert!(what.contains("is open for writing in another process"), "{what}");
    drop(writer);
    verify(&shown).unwrap();
}

#[test]
fn interpreters_that_others_can_change_are_leased_until_the_command_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let interpreter = binary_in(scratch.path());
    let shown = stage(&[&program(scratch.path(), "script", &format!("#!{interpreter}\n"))]);
    let ready = verify(&shown).unwrap();
    assert!(ready.execute.is_none() && ready.leased.len() == 1);
    assert!(lease::is_intact(&ready.leased[0]));
    drop(ready);
    let _writer = std::fs::File::options().write(true).open(&interpreter).unwrap();
    let what = changed(verify(&shown));
    assert!(what.starts_with(&format!("the interpreter `{interpreter}` is open for writing")), "{what}");
    // One that only root can change is not leased.
    let plain = program(scratch.path(), "plain", "#!/bin/sh\n");
    assert!(verify(&stage(&[&plain])).unwrap().leased.is_empty());
}

/// A file that was read where the system gives no leases.
fn read_without_lease(path: &Path) -> ReadFile {
    let mut read = digests::read(path, |_| Ok(())).unwrap();
    read.lease = Some(Err(LeaseError::Unavailable(rustix::io::Errno::INVAL.into())));
    read
}

#[test]
fn without_leases_a_small_binary_is_executed_as_a_sealed_copy() {
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    let path = Path::new(&word);
    let mode = |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let content = std::fs::read(path).unwrap();
    let read = read_without_lease(path);
    let original = (read.signature.dev, read.signature.inode);
    let (copy, how) = binary(path, read).unwrap();
    assert_eq!(how, Execute::Program);
    assert_ne!(id_of(&copy), original);
    let mut copy = std::fs::File::from(copy);
    let mut bytes = Vec::new();
    copy.rewind().unwrap();
    copy.read_to_end(&mut bytes).unwrap();
    assert!(bytes == content, "another content");
    assert!(std::io::Write::write_all(&mut copy, b"x").is_err(), "nobody writes to it");
    // The copy holds the bytes that were compared, or there is none.
    let read = read_without_lease(path);
    std::fs::write(path, b"\x7fELF of somebody else").unwrap();
    let Err(Difference::Changed(what)) = binary(path, read) else { panic!("it was let through") };
    assert!(what.ends_with("changed while it was read"), "{what}");
    // A copy would not have the rights that the file gives.
    std::fs::write(path, &content).unwrap();
    mode(0o4777);
    let (file, how) = binary(path, read_without_lease(path)).unwrap();
    assert_eq!((id_of(&file), how), (original, Execute::Program));
}

#[test]
fn without_leases_a_large_binary_is_executed_by_descriptor() {
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    let path = Path::new(&word);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_len(MAX_COPIED_BYTES as u64 + 1).unwrap();
    let read = read_without_lease(path);
    let original = (read.signature.dev, read.signature.inode);
    let (file, how) = binary(path, read).unwrap();
    assert_eq!((id_of(&file), how), (original, Execute::Program));
}

#[test]
fn a_binary_that_cannot_be_read_and_that_others_can_change_is_not_executed() {
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    let mut read = read_without_lease(Path::new(&word));
    read.file = None;
    let Err(Difference::Changed(what)) = binary(Path::new(&word), read) else { panic!("it was let through") };
    assert!(what.ends_with("cannot be read, and others than root can change it"), "{what}");
}

/// The system itself refuses the lease: the file is another user's, and this thread may not lease files of others.
#[test]
fn a_file_of_another_user_gets_no_lease_and_is_copied() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of another user");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let word = binary_in(scratch.path());
    std::os::unix::fs::chown(&word, Some(4321), None).unwrap();
    let shown = stage(&[&word]);
    // Capabilities are those of a thread.
    let verified = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::LEASE);
        set_capabilities(None, sets).unwrap();
        verify(&shown)
    });
    let ready = verified.join().unwrap().unwrap();
    let (file, how) = ready.execute.unwrap();
    assert_eq!(how, Execute::Program);
    assert_ne!(id_of(&file), (ready.pin.dev, ready.pin.inode));
}

#[test]
fn the_interpreter_and_code_among_the_arguments_are_compared() {
    let scratch = tempfile::tempdir().unwrap();
    let interpreter = program(scratch.path(), "interpreter", "#!/bin/sh\n");
    let script = program(scratch.path(), "script", &format!("#!{interpreter}\n"));
    let shown = stage(&[&script]);
    verify(&shown).unwrap();
    std::fs::write(&interpreter, "#!/bin/sh\necho evil\n").unwrap();
    let what = changed(verify(&shown));
    assert!(what.starts_with("the interpreter of the script is not what was shown: "), "{what}");
    // One that was not there and is there now.
    let script = program(scratch.path(), "other", &format!("#!{}/later\n", scratch.path().display()));
    let shown = stage(&[&script]);
    verify(&shown).unwrap();
    program(scratch.path(), "later", "#!/bin/sh\n");
    assert!(changed(verify(&shown)).ends_with("was not there before"));
    // A script that is an argument.
    let shown = stage(&["sh", &script]);
    verify(&shown).unwrap();
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(changed(verify(&shown)).ends_with("has another content now"));
}

#[test]
fn root_runs_changeable_code_only_if_that_is_confirmed() {
    let mut shown = stage(&["true"]);
    verify_privileged(&shown, false).unwrap();
    verify_privileged(&shown, true).unwrap();
    // As if somebody could change the program, and that was shown.
    let reason = || Writers::Requester("user 1000 owns it".to_owned());
    if let Resolved::Found { writers, .. } = &mut shown.file {
        *writers = reason();
    }
    assert_eq!(shown.changeable_code().len(), 1);
    // Nobody can by now: nothing is left to confirm.
    verify_privileged(&shown, false).unwrap();
    if rustix::process::geteuid().is_root() {
        let scratch = tempfile::tempdir().unwrap();
        let word = program(scratch.path(), "tool", "#!/bin/sh\n");
        let safe = stage(&[&word]);
        std::os::unix::fs::chown(&word, Some(4321), None).unwrap();
        assert!(changed(verify_privileged(&safe, true)).contains("that was not so when it was shown"));
        let known = stage(&[&word]);
        verify_privileged(&known, true).unwrap();
        let Err(Difference::Unconfirmed(why)) = verify_privileged(&known, false) else { panic!("it was let through") };
        assert!(why.contains(&format!("the program {word}: user 4321 owns {word}")), "{why}");
    }
    assert!(matches!(verify_privileged(&stage(&["no-such-program"]), true), Err(Difference::Missing(2))));
    assert_eq!(resolve("true"), stage(&["true"]).file);
}

/// The attack of the penetration test: the loader is swapped after it was shown.
#[test]
fn another_loader_is_noticed() {
    let scratch = tempfile::Builder::new().prefix("l").rand_bytes(5).tempdir_in("/tmp").unwrap();
    let names = elf::names_of(&File::open("/bin/sh").unwrap()).unwrap();
    let system = names.loader.map(|loader| String::from_utf8(loader).unwrap()).unwrap_or_default();
    let (one, two) = (scratch.path().join("ld1"), scratch.path().join("ld2"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    if system.len() < one.len() {
        eprintln!("skipped: the shell of this system has no loader with a long enough name");
        return;
    }
    for loader in [one, two] {
        std::fs::copy(&system, loader).unwrap();
    }
    // A copy of the shell with another loader.
    let shell = std::fs::read("/bin/sh").unwrap();
    let at = shell.windows(system.len()).position(|part| part == system.as_bytes()).unwrap();
    let word = scratch.path().join("binary").to_str().unwrap().to_owned();
    let with_loader = |loader: &str| {
        let mut bytes = shell.clone();
        bytes[at..at + system.len()].fill(0);
        bytes[at..at + loader.len()].copy_from_slice(loader.as_bytes());
        bytes
    };
    std::fs::write(&word, with_loader(one)).unwrap();
    std::fs::set_permissions(&word, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = stage(&[&word]);
    let ready = verify(&shown).unwrap();
    assert_eq!((ready.leased.len(), lease::is_intact(&ready.leased[0])), (1, true));
    drop(ready);
    let original = std::fs::read(one).unwrap();
    std::fs::write(one, b"\x7fELF of somebody else").unwrap();
    let what = changed(verify(&shown));
    assert!(what.starts_with("the loader of the program is not what was shown: "), "{what}");
    std::fs::write(one, original).unwrap();
    verify(&shown).unwrap();
    // A digest that was taken while the file named another loader.
    let mut other = shown.clone();
    if let Resolved::Found { interpreters, .. } = &mut other.file {
        interpreters[0] = stage(&[&word]).file.interpreters()[0].clone();
        interpreters[0].name = two.to_owned();
    }
    let what = changed(verify(&other));
    assert!(what.ends_with(&format!("is loaded by `{one}`, which was not shown")), "{what}");
}
