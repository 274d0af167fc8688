//! Finds the files that the arguments of a command name, so that an approver sees them and who can change them.
//!
//! Guarantee: a word that is the path of a file, holds one behind `=`, `@` or a short option, or mentions an absolute
//! path inside a longer text, is listed with who can change that file. If there are more candidates than are examined,
//! [`Named::is_complete`] is false; nothing is left out silently.
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
/// A larger file that would be run as code has no digest.
const MAX_CODE_BYTES: u64 = 4 << 20;

/// Programs that run what their arguments name: shells, interpreters, programs that start others, build tools, package
/// managers and whatever else executes files or configuration it is pointed to. A version at the end of a name
/// (`python3.11`) does not count.
#[rustfmt::skip]
const RUNS_ARGUMENTS: &[&str] = &[
    "ansible", "ansible-playbook", "apk", "apt", "apt-get", "ash", "at", "awk", "bash", "batch", "bpftrace", "bun",
    "bundle", "busybox", "bwrap", "cargo", "chroot", "chrt", "cmake", "crontab", "csh", "dash", "deno", "dnf", "doas",
    "docker", "docker-compose", "dotnet", "dpkg", "ed", "emacs", "env", "ex", "expect", "fakeroot", "find",
    "firejail", "fish", "flatpak", "flock", "gawk", "gdb", "gem", "git", "gmake", "go", "gradle", "guile", "helm",
    "hostel", "insmod", "ionice", "java", "julia", "just", "ksh", "kubectl", "ld.so", "ltrace", "lua", "luajit",
    "make", "mawk", "meson", "mksh", "modprobe", "mono", "mvn", "mysql", "nice", "ninja", "node", "nodejs", "nohup",
    "npm", "npx", "nsenter", "parallel", "perf", "perl", "php", "pip", "pipx", "pkexec", "pnpm", "podman", "psql",
    "python", "rake", "rpm", "rscript", "rsync", "ruby", "runuser", "screen", "script", "sed", "setpriv", "setsid",
    "sh", "snap", "socat", "sqlite", "ssh", "stdbuf", "strace", "su", "sudo", "systemctl", "systemd-run", "taskset",
    "tclsh", "time", "timeout", "tmux", "unshare", "valgrind", "vi", "vim", "watch", "wish", "xargs", "yarn", "yum",
    "zsh", "zypper",
];

/// Those of them that also run what they find in a directory.
#[rustfmt::skip]
const RUNS_DIRECTORIES: &[&str] = &[
    "ansible", "ansible-playbook", "bun", "bundle", "cargo", "cmake", "deno", "docker", "docker-compose", "gem", "git",
    "gmake", "go", "gradle", "helm", "java", "just", "kubectl", "make", "meson", "mvn", "ninja", "node", "nodejs",
    "npm", "npx", "perl", "pip", "pipx", "pnpm", "podman", "python", "rake", "ruby", "yarn",
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
    /// Whether the program is one that runs what its arguments name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_code: bool,
    /// SHA-256 of its content, if it is code and not too large.
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
    let runs_files = names_of(argv, program).any(|name| is_in(RUNS_ARGUMENTS, name) || name.starts_with("ld-linux"));
    let runs_directories = runs_files && {
        let words = argv.iter().flat_map(|word| word.split(ends_word)).map(last_part);
        words.chain(names_of(argv, program)).any(|name| is_in(RUNS_DIRECTORIES, name))
    };
    let mut named = Named { files: Vec::new(), is_complete: true };
    let mut seen = HashSet::new();
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
        let is_code = if kind.is_dir() { runs_directories } else { runs_files };
        let writers = writers_of(&full);
        // A plain word that happens to be the name of a directory is most likely no path.
        if !path.contains('/') && metadata.is_dir() && writers.is_only_root() {
            continue;
        }
        let is_small = metadata.is_file() && metadata.len() <= MAX_CODE_BYTES;
        let digest = match is_code && is_small {
            true => digests::read(&full, |_| Ok(())).ok().filter(digests::ReadFile::is_readable).map(|read| read.digest),
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
