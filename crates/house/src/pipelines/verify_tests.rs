use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

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

#[test]
fn a_binary_that_others_can_change_is_executed_by_descriptor() {
    let scratch = tempfile::tempdir().unwrap();
    let word = scratch.path().join("copy").to_str().unwrap().to_owned();
    std::fs::copy("/bin/true", &word).unwrap();
    let ready = verify(&stage(&[&word])).unwrap();
    let (file, how) = ready.execute.unwrap();
    assert_eq!(how, Execute::Program);
    let stat = rustix::fs::fstat(&*file).unwrap();
    assert_eq!((stat.st_dev, stat.st_ino), (ready.pin.dev, ready.pin.inode));
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
