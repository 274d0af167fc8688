//! Finds the files that the arguments of a command name, so that an approver sees them and who can change them.
//!
//! Guarantee: a word that is the path of a file, holds one behind `=`, `@` or a short option, or mentions an absolute
//! path inside a longer text, is listed with who can change that file. Directories that only root can change are listed
//! only where the program may run what they hold. If there are more candidates than are examined, [`Named::is_complete`]
//! is false; nothing is left out silently.
//!
//! This is a reading of words, not of what the program does with them: a file that a command finds by itself is not
//! listed. Nothing is executed, and only files that the program would run as code are read.

use std::collections::HashSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digests;
use super::plan::{Resolved, hex};
use super::writers::{Writers, writers_of};

/// Paths of one command that are examined.
const MAX_CANDIDATES: usize = 128;
/// Files of one command that are listed.
const MAX_LISTED: usize = 32;
/// A longer path is none.
const MAX_PATH_BYTES: usize = 4095;
/// A larger script has no digest.
const MAX_CODE_BYTES: u64 = 4 << 20;

/// Programs that run nothing of what their arguments name, whatever their options are. Every other program counts as one
/// that may: many programs that are no interpreters have an option that starts a program, or read configuration that
/// names one. Only names that the list has in this form count.
#[rustfmt::skip]
const DATA_ONLY: &[&str] = &[
    "[", "arch", "b2sum", "base32", "base64", "basename", "blkid", "bzip2", "cat", "chattr", "chgrp", "chmod", "chown",
    "cksum", "cmp", "comm", "cp", "cut", "date", "dd", "df", "dir", "dirname", "du", "echo", "egrep", "expand", "expr",
    "factor", "false", "fgrep", "fmt", "fold", "free", "getent", "getfacl", "grep", "groups", "gzip", "head", "hexdump",
    "id", "join", "kill", "ln", "logname", "ls", "lsattr", "lsblk", "md5sum", "mkdir", "mkfifo", "mknod", "mktemp",
    "mv", "nl", "nproc", "numfmt", "od", "paste", "pidof", "printenv", "printf", "ps", "pwd", "readlink", "realpath",
    "rm", "rmdir", "seq", "setfacl", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shred", "sleep",
    "stat", "sum", "sync", "tac", "tail", "tee", "test", "touch", "tr", "true", "truncate", "tty", "uname",
    "unexpand", "uniq", "unlink", "uptime", "users", "vdir", "wc", "who", "whoami", "xxd", "yes",
];

/// Files that are many programs, and do what the name says that they are called by.
const MULTI_CALL: &[&str] = &["busybox", "coreutils", "toybox"];

/// Programs whose first argument that is a file is a script: its content is part of what was shown. Of other programs the
/// files may be data that changes while somebody reads the request. A version at the end of a name (`python3.11`) does not
/// count.
#[rustfmt::skip]
const RUNS_SCRIPTS: &[&str] = &[
    "ansible", "ansible-playbook", "ash", "at", "awk", "bash", "batch", "bpftrace", "bun", "busybox", "bwrap",
    "capsh", "chroot", "chrt", "crontab", "csh", "dash", "dbus-run-session", "deno", "doas", "dotnet", "ed", "emacs",
    "env", "ex", "expect", "faketime", "fakeroot", "firejail", "fish", "flock", "gawk", "gdb", "gmake", "guile",
    "insmod", "ionice", "java", "julia", "just", "ksh", "linux32", "linux64", "ltrace", "lua", "luajit", "make",
    "mawk", "mksh", "mono", "nice", "ninja", "node", "nodejs", "nohup", "nsenter", "parallel", "perf", "perl", "php",
    "pkexec", "prlimit", "psql", "python", "rake", "rscript", "ruby", "runuser", "script", "sed", "setarch",
    "setpriv", "setsid", "sh", "sqlite", "start-stop-daemon", "stdbuf", "strace", "su", "sudo", "systemd-run",
    "taskset", "tclsh", "time", "timeout", "unshare", "valgrind", "watch", "wish", "xargs", "zsh",
];

/// A file or directory that an argument names.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NamedFile {
    /// Which word names it; the program is word 0.
    pub word: usize,
    /// The path, as far as it is the argument's own.
    pub path: PathBuf,
    /// Whether it is a directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_directory: bool,
    /// Who can change it.
    pub writers: Writers,
    /// Whether the program may run what its arguments name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_code: bool,
    /// SHA-256 of its content, if it is the script that the program runs and not too large.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_digest")]
    pub digest: Option<[u8; 32]>,
}

/// The files that the arguments of one command name.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Named {
    pub(super) files: Vec<NamedFile>,
    /// Whether every candidate was examined and every file is listed.
    pub(super) is_complete: bool,
}

/// Looks for the files that the words of a command name. Blocks on a slow disk.
pub(super) fn named_files(argv: &[String], program: &Resolved, cwd: &Path) -> Named {
    let is_code = !is_data_only(argv, program);
    let runs_scripts = is_code
        && names_of(argv, program)
            .any(|name| is_in(RUNS_SCRIPTS, name) || name.starts_with("ld-linux") || name == "ld.so");
    let mut named = Named { files: Vec::new(), is_complete: true };
    let (mut seen, mut has_script) = (HashSet::new(), false);
    for (word, path) in candidates(argv) {
        let full = cwd.join(path);
        if !seen.insert(full.clone()) {
            continue;
        }
        if seen.len() > MAX_CANDIDATES || named.files.len() == MAX_LISTED {
            named.is_complete = false;
            break;
        }
        let Ok(metadata) = full.metadata() else { continue };
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            continue;
        }
        let writers = writers_of(&full);
        // A directory of the system says nothing to a program that runs nothing, and a plain word may have its name by chance.
        if metadata.is_dir() && writers.is_only_root() && !(is_code && path.contains('/') && path != "/") {
            continue;
        }
        // The first file that is a word of its own is the script; what follows may be data that changes by itself.
        let is_script =
            runs_scripts && metadata.is_file() && path == argv.get(word).map_or("", String::as_str) && !has_script;
        has_script |= is_script;
        let is_small = metadata.is_file() && metadata.len() <= MAX_CODE_BYTES;
        let digest = match is_script && is_small {
            true => {
                digests::read(&full, |_| Ok(())).ok().filter(digests::ReadFile::is_readable).map(|read| read.digest)
            }
            false => None,
        };
        named.files.push(NamedFile { word, path: full, is_directory: metadata.is_dir(), writers, is_code, digest });
    }
    named
}

/// Whether it is certain, without waiting for a disk, that no argument names a file.
pub(super) fn surely_names_none(argv: &[String], cwd: &Path) -> bool {
    let mut examined = 0;
    candidates(argv).all(|(_, path)| {
        examined += 1;
        examined <= MAX_CANDIDATES && digests::is_known_to_be_missing(&cwd.join(path))
    })
}

/// The parts of words that may be paths, with the number of the word.
fn candidates(argv: &[String]) -> impl Iterator<Item = (usize, &str)> {
    argv.iter().enumerate().skip(1).flat_map(|(word, text)| paths_in(text).into_iter().map(move |path| (word, path)))
}

fn paths_in(text: &str) -> Vec<&str> {
    let mut found = vec![text];
    found.extend(text.split_once('=').map(|(_, value)| value));
    found.extend(text.strip_prefix('@'));
    // A short option with its value: `-C/dir`, `-I/include`.
    let short = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    found.extend(short.and_then(|rest| rest.get(rest.chars().next()?.len_utf8()..)));
    found.extend(text.strip_prefix("file://"));
    // Several options in one word, the last with its value: `-Ef/script`.
    found.extend(text.find('/').filter(|_| text.starts_with('-')).and_then(|at| text.get(at..)));
    // A script, or a list: absolute paths between anything that ends a word of a shell.
    if text.contains(ends_word) {
        found.extend(text.split(ends_word).filter(|part| part.starts_with('/')));
    }
    let is_path = |path: &&str| !path.is_empty() && path.len() <= MAX_PATH_BYTES && !path.contains('\0');
    found.into_iter().filter(is_path).collect()
}

/// Whether a character ends a word of a script or of a list.
fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || "|&;()<>{}[]`\"'$,=:".contains(letter)
}

/// Whether a program certainly runs nothing of what its arguments name.
fn is_data_only(argv: &[String], program: &Resolved) -> bool {
    let Resolved::Found { path, target, .. } = program else { return false };
    let target = target.to_str().map_or("", last_part);
    let called = [argv.first().map(String::as_str), path.to_str()];
    called.into_iter().all(|name| name.is_some_and(|name| DATA_ONLY.contains(&last_part(name))))
        && (DATA_ONLY.contains(&target) || MULTI_CALL.contains(&target))
}

/// The names of a program: by the word it is asked for with, by where it was found, by the file it is.
fn names_of<'a>(argv: &'a [String], program: &'a Resolved) -> impl Iterator<Item = &'a str> {
    let (path, target) = match program {
        Resolved::Found { path, target, .. } => (path.to_str(), target.to_str()),
        Resolved::Missing { .. } => (None, None),
    };
    [argv.first().map(String::as_str), path, target].into_iter().flatten().map(last_part)
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a list has a name, with or without the version at its end.
fn is_in(list: &[&str], name: &str) -> bool {
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    list.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(base))
}

/// A digest as text, if there is one.
mod optional_digest {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &Option<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
        match digest {
            Some(digest) => super::hex::serialize(digest, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
        #[derive(serde::Deserialize)]
        struct Digest(#[serde(with = "super::hex")] [u8; 32]);
        Ok(Option::<Digest>::deserialize(deserializer)?.map(|digest| digest.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    fn named(list: &[&str]) -> Vec<(usize, String, bool)> {
        let argv = words(list);
        let program = super::super::resolve::resolve(&argv[0]);
        let found = named_files(&argv, &program, Path::new("/"));
        assert!(found.is_complete);
        found.files.iter().map(|file| (file.word, file.path.to_str().unwrap().to_owned(), file.is_code)).collect()
    }

    #[test]
    fn paths_are_found_in_every_form() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, place) = (scratch.path().join("x.sh"), scratch.path().to_str().unwrap().to_owned());
        std::fs::write(&file, "echo\n").unwrap();
        let file = file.to_str().unwrap().to_owned();
        for (argv, word, path, is_code) in [
            (vec!["bash", &file], 1, &file, true),
            (vec!["bash", "-e", &file], 2, &file, true),
            (vec!["cat", &file], 1, &file, false),
            (vec!["make", "-C", &place, "install"], 2, &place, true),
            (vec!["make", &format!("-C{place}")], 1, &place, true),
            (vec!["make", "-f", &file], 2, &file, true),
            (vec!["tee", "-a", &file], 2, &file, false),
            (vec!["curl", &format!("--config={file}")], 1, &file, true),
            (vec!["curl", "-d", &format!("@{file}")], 2, &file, true),
            (vec!["sed", &format!("-Ef{file}")], 1, &file, true),
            (vec!["env", "-C", &place, "sh"], 2, &place, true),
            (vec!["env", &format!("PATH={place}"), "x.sh"], 1, &place, true),
            (vec!["prlimit", &file], 1, &file, true),
            (vec!["tar", "-I", &file, "-cf", "-", "nothing"], 2, &file, true),
            (vec!["find", &place, "-name", "x"], 1, &place, true),
            (vec!["a program that nobody knows", &file], 1, &file, true),
            (vec!["env", &format!("X={file}"), "true"], 1, &file, true),
            (vec!["sh", "-c", &format!("cd / && . '{file}'; true")], 2, &file, true),
            (vec!["sh", "-c", &format!("make -C {place}")], 2, &place, true),
        ] {
            assert_eq!(named(&argv), [(word, path.clone(), is_code)], "{argv:?}");
            assert!(!surely_names_none(&words(&argv), Path::new("/")), "{argv:?}");
        }
        let relative = file.trim_start_matches('/');
        assert_eq!(named(&["python3", relative]), [(1, format!("/{relative}"), true)], "from the directory it runs in");
    }

    #[test]
    fn words_that_name_nothing_are_not_listed() {
        for argv in [
            &["echo", "hello", "", "-n", "=", "@", "-", "--", "a=b", "no/such/file"][..],
            // Devices are no files, and a plain word is no directory.
            &["cat", "/dev/null", "usr", "bin"],
        ] {
            assert_eq!(named(argv), [], "{argv:?}");
        }
        let long = "x".repeat(200_000);
        assert_eq!(named(&["echo", &long]), []);
        // Asked once, the kernel knows.
        let argv = words(&["echo", "hello-nobody", "-n"]);
        assert!((0..100).any(|_| {
            drop(Path::new("/hello-nobody").metadata());
            drop(Path::new("/-n").metadata());
            drop(Path::new("/n").metadata());
            surely_names_none(&argv, Path::new("/"))
        }));
        assert!(surely_names_none(&words(&["true"]), Path::new("/")));
    }

    #[test]
    fn too_many_candidates_are_told_of() {
        let many: Vec<String> = (0..200).map(|number| format!("/no/such/file-{number}")).collect();
        let argv: Vec<String> = [words(&["cat"]), many, words(&["/etc/passwd"])].concat();
        let found = named_files(&argv, &super::super::resolve::resolve("cat"), Path::new("/"));
        assert_eq!(found, Named { files: Vec::new(), is_complete: false });
        assert!(!surely_names_none(&argv, Path::new("/")));
    }

    #[test]
    fn a_script_has_a_digest_and_is_the_same_after_it_was_stored() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("x.sh");
        std::fs::write(&file, "echo\n").unwrap();
        let argv = words(&["sh", file.to_str().unwrap(), "/etc", "/usr/bin/true"]);
        let found = named_files(&argv, &super::super::resolve::resolve("sh"), Path::new("/")).files;
        assert_eq!(found.iter().map(|file| file.digest.is_some()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(found[2].path, Path::new("/usr/bin/true"));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vec<NamedFile>>(&text).unwrap(), found);
    }

    #[test]
    fn what_lies_in_proc_is_of_whoever_looks() {
        for path in ["/proc/self/cwd/etc/passwd", "/proc/thread-self/root/etc/passwd", "/proc/1/cwd"] {
            let argv = words(&["bash", path]);
            let found = named_files(&argv, &super::super::resolve::resolve("bash"), Path::new("/")).files;
            // Root's process is closed to others.
            let Some(file) = found.first() else { continue };
            assert!(file.is_code && matches!(file.writers, Writers::Requester(_)), "{path}: {file:?}");
        }
        let argv = words(&["cat", "/proc/self/status", "/proc/cpuinfo"]);
        let found = named_files(&argv, &super::super::resolve::resolve("cat"), Path::new("/")).files;
        assert!(found.iter().all(|file| !file.is_code), "{found:?}");
        assert_eq!(found.iter().map(|file| file.writers.is_only_root()).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_program_is_known_by_all_of_its_names() {
        let scratch = tempfile::tempdir().unwrap();
        let disguised = scratch.path().join("cat");
        std::os::unix::fs::symlink("/bin/sh", &disguised).unwrap();
        for (word, expected) in [("cat", true), ("sh", false), (disguised.to_str().unwrap(), false), ("no-such", false)]
        {
            let argv = words(&[word, "/etc/passwd"]);
            assert_eq!(is_data_only(&argv, &super::super::resolve::resolve(word)), expected, "{word}");
        }
    }

    #[test]
    fn names_with_versions_are_known() {
        for name in ["python3.11", "python3", "Python", "perl5.36.0", "bash", "ksh93"] {
            assert!(is_in(RUNS_SCRIPTS, name), "{name}");
        }
        for name in ["cat", "pythonx", "shx", ""] {
            assert!(!is_in(RUNS_SCRIPTS, name), "{name}");
        }
        assert!(RUNS_SCRIPTS.iter().all(|name| !DATA_ONLY.contains(name)));
    }
}
