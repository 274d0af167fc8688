use std::os::unix::fs::{PermissionsExt as _, symlink};

use sha2::{Digest as _, Sha256};

use super::*;
use crate::pipelines::writers::Writers;

fn program(directory: &Path, name: &str, content: &str, mode: u32) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn errno_of(resolved: &Resolved) -> i32 {
    match resolved {
        Resolved::Missing { errno, .. } => *errno,
        Resolved::Found { path, .. } => panic!("found {path:?}"),
    }
}

/// The interpreters of a script as they are written, with the file each of them is.
fn interpreters(script: &str) -> Vec<(String, Option<PathBuf>)> {
    let target = |file: &Resolved| match file {
        Resolved::Found { target, .. } => Some(target.clone()),
        Resolved::Missing { .. } => None,
    };
    resolve(script).interpreters().iter().map(|found| (found.name.clone(), target(&found.file))).collect()
}

#[test]
fn a_name_is_looked_for_and_a_link_is_followed() {
    let Resolved::Found { path, target, size, digest, writers, .. } = resolve("sh") else { panic!("no sh") };
    assert!(path.ends_with("sh") && EXECUTION_PATH.split(':').any(|place| path.starts_with(place)));
    assert_eq!(target, path.canonicalize().unwrap());
    assert_eq!(size, target.metadata().unwrap().len());
    assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(std::fs::read(&target).unwrap())));
    assert_eq!(writers, Writers::OnlyRoot);
    assert_eq!(resolve("bin/sh"), resolve("/bin/sh"), "a name with a slash is taken from the root");
}

#[test]
fn what_is_told_at_once_is_what_a_look_would_tell() {
    assert!(resolve_at_once("no-such-program").is_none());
    let looked = resolve("sh");
    // Unless the name has just gone from the kernel's memory, it is there now.
    let told = (0..100).find_map(|_| resolve_at_once("sh")).expect("it was looked at a moment ago");
    assert_eq!(told, looked);
    assert!(is_protected(&looked));
}

#[test]
fn a_file_that_others_can_change_is_not_remembered() {
    let scratch = tempfile::tempdir().unwrap();
    let word = program(scratch.path(), "tool", "#!/bin/sh\n", 0o755);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&word).unwrap().set_modified(old).unwrap();
    let found = resolve(&word);
    assert!(matches!(found, Resolved::Found { .. }) && !is_protected(&found));
    // Its change time is of this moment in any case; what counts is that waiting would not help.
    assert!(resolve_at_once(&word).is_none());
    let link = scratch.path().join("link");
    symlink("/bin/sh", &link).unwrap();
    let found = resolve(link.to_str().unwrap());
    let Resolved::Found { target, writers, .. } = &found else { panic!("{found:?}") };
    assert_eq!(*target, Path::new("/bin/sh").canonicalize().unwrap());
    // The link can be pointed elsewhere by whoever owns it, unless that is root.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(writers.is_only_root(), is_root);
    assert!(is_root || resolve_at_once(link.to_str().unwrap()).is_none());
}

#[test]
fn what_may_not_be_run_is_told_of_if_nothing_else_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| scratch.path().join(name));
    for directory in [&one, &two] {
        std::fs::create_dir(directory).unwrap();
    }
    let find_in = |word: &str| {
        let found = super::find_in([&one, &two, &three].into_iter().map(PathBuf::as_path), word);
        found.map_err(|error| error.raw_os_error().unwrap())
    };
    program(&one, "tool", "", 0o644);
    assert_eq!(find_in("tool"), Err(Errno::ACCESS.raw_os_error()), "and what is not there does not hide that");
    program(&two, "tool", "", 0o755);
    assert_eq!(find_in("tool"), Ok(two.join("tool")));
    program(&one, "tool", "", 0o755);
    assert_eq!(find_in("tool"), Ok(one.join("tool")), "the first one");
    assert_eq!(find_in("other"), Err(Errno::NOENT.raw_os_error()));
}

#[test]
fn what_cannot_be_run_says_why() {
    let scratch = tempfile::tempdir().unwrap();
    let plain = program(scratch.path(), "plain", "", 0o644);
    for (word, errno) in [
        ("", Errno::NOENT),
        ("no-such-program", Errno::NOENT),
        ("/no/such/program", Errno::NOENT),
        (plain.as_str(), Errno::ACCESS),
        (scratch.path().to_str().unwrap(), Errno::ACCESS),
        (&format!("{plain}/x"), Errno::NOTDIR),
    ] {
        assert_eq!(errno_of(&resolve(word)), errno.raw_os_error(), "{word:?}");
    }
}

#[test]
fn what_cannot_be_shown_as_text_is_no_program() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let strange = scratch.path().join(std::ffi::OsStr::from_bytes(b"t\xffool"));
    std::fs::write(&strange, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&strange, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A good name for it does not help: what is run is what must be shown.
    let link = scratch.path().join("tool");
    symlink(&strange, &link).unwrap();
    assert_eq!(errno_of(&resolve(link.to_str().unwrap())), Errno::ILSEQ.raw_os_error());
    // Nor does a good file behind such a name.
    let good = program(scratch.path(), "good", "#!/bin/sh\n", 0o755);
    let to_good = scratch.path().join(std::ffi::OsStr::from_bytes(b"l\xffink"));
    symlink(&good, &to_good).unwrap();
    let refused = examine(&to_good).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::ILSEQ.raw_os_error()));
    assert!(matches!(resolve(&good), Resolved::Found { .. }));
}

#[test]
fn interpreters_are_found_as_the_kernel_and_env_find_them() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    let real = |path: &str| Some(Path::new(path).canonicalize().unwrap());
    let sh = || ("/bin/sh".to_owned(), real("/bin/sh"));
    let env = || ("/usr/bin/env".to_owned(), real("/usr/bin/env"));
    assert_eq!(interpreters("true"), [], "no script");
    let plain = program(place, "plain", "#!/bin/sh -e\necho", 0o755);
    assert_eq!(interpreters(&plain), [sh()]);
    let by_env = program(place, "by-env", "#!/usr/bin/env sh\n", 0o755);
    assert_eq!(interpreters(&by_env), [env(), ("sh".to_owned(), real("/bin/sh"))]);
    let split = program(place, "split", "#!/usr/bin/env -S A=b sh -e\n", 0o755);
    assert_eq!(interpreters(&split), [env(), ("sh".to_owned(), real("/bin/sh"))]);
    let odd = program(place, "odd", "#!/usr/bin/env -S 's h'\n", 0o755);
    assert_eq!(interpreters(&odd), [env(), ("env -S 's h'".to_owned(), None)]);
    let lost = program(place, "lost", "#!/no/such/interpreter\n", 0o755);
    assert_eq!(interpreters(&lost), [("/no/such/interpreter".to_owned(), None)]);
    // A script that is interpreted by a script.
    let outer = program(place, "outer", &format!("#!{plain}\n"), 0o755);
    let target = Path::new(&plain).canonicalize().unwrap();
    assert_eq!(interpreters(&outer), [(plain, Some(target)), sh()]);
    let round = place.join("round").to_str().unwrap().to_owned();
    program(place, "round", &format!("#!{round}\n"), 0o755);
    let found = interpreters(&round);
    assert_eq!((found.len(), found.last().unwrap().1.clone()), (MAX_DEPTH + 1, None), "the kernel gives up as well");
    // Whoever can change the interpreter can change what the script does.
    let protected = resolve(&by_env);
    assert!(!is_protected(&protected), "the script itself is nobody's but ours");
}

/// A copy of the shell whose loader is another file; none where the shell has no loader or the new name has no room.
fn with_loader(directory: &Path, name: &str, loader: &str) -> Option<String> {
    let mut bytes = std::fs::read("/bin/sh").unwrap();
    let old = digests::read(Path::new("/bin/sh"), |_| Ok(())).unwrap().elf_names().unwrap().loader?;
    let at = bytes.windows(old.len()).position(|part| part == old).unwrap();
    let room = bytes.get_mut(at..at + old.len()).filter(|_| loader.len() <= old.len())?;
    room.fill(0);
    room[..loader.len()].copy_from_slice(loader.as_bytes());
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(path.to_str().unwrap().to_owned())
}

/// A directory with a name that is short enough to take the place of a loader's.
fn short_directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("l").rand_bytes(5).tempdir_in("/tmp").unwrap()
}

#[test]
fn a_loader_that_others_can_change_is_examined_like_an_interpreter() {
    let scratch = short_directory();
    let loader = program(scratch.path(), "ld", "\x7fELF", 0o755);
    let Some(binary) = with_loader(scratch.path(), "binary", &loader) else {
        eprintln!("skipped: the shell of this system has no loader with a long enough name");
        return;
    };
    let found = resolve(&binary);
    let [shown] = found.interpreters() else { panic!("{found:?}") };
    assert!(shown.is_loader && shown.name == loader);
    assert!(matches!(&shown.file, Resolved::Found { path, .. } if *path == Path::new(&loader)));
    assert!(!is_protected(&found));
    // Likewise behind a script, and where it is not there yet.
    let script = program(scratch.path(), "script", &format!("#!{binary}\n"), 0o755);
    let names = || resolve(&script).interpreters().iter().map(|found| (found.is_loader, found.name.clone())).collect();
    let expected: Vec<(bool, String)> = vec![(false, binary.clone()), (true, loader.clone())];
    assert_eq!(expected, Vec::from_iter::<Vec<_>>(names()));
    std::fs::remove_file(&loader).unwrap();
    assert_eq!(interpreters(&binary), [(loader, None)]);
    // One of the system says nothing.
    assert_eq!(interpreters("/bin/sh"), []);
}

#[test]
fn places_of_libraries_that_others_can_change_are_listed() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("lib");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-x", "c", "-", "-o"])
        .arg(scratch.path().join("binary"))
        .args(["-Wl,-rpath,$ORIGIN/lib/later", "-Wl,-rpath,/usr/lib/no-such-directory"])
        .stdin(std::process::Stdio::piped())
        .spawn();
    let Ok(mut compiler) = compiled else {
        eprintln!("skipped: there is no compiler `cc`");
        return;
    };
    std::io::Write::write_all(&mut compiler.stdin.take().unwrap(), b"int main(void) { return 0; }\n").unwrap();
    assert!(compiler.wait().unwrap().success());
    let found = resolve(scratch.path().join("binary").to_str().unwrap());
    let [library] = found.libraries() else { panic!("{found:?}") };
    assert_eq!(library.path, place.canonicalize().unwrap().join("later"));
    assert!(!library.writers.is_only_root());
    assert_eq!(found.interpreters(), []);
    assert_eq!(resolve("/bin/sh").libraries(), []);
}
