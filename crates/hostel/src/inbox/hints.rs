//! What to look at twice before agreeing: root, networks, deletions, writes elsewhere, scripts, unknown programs.
//!
//! Invariant: hints only ever add a warning. They are guesses from words, so their absence promises nothing, and
//! nothing is decided by them.

use std::io::BufRead as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::Value;
use sha2::Digest as _;
use sha2::Sha256;

use super::request::File;
use super::request::Pipeline;
use super::request::Request;
use super::request::Stage;
use super::request::Writers;
use super::visible;
use super::visible::Mark;

/// How loud a hint is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Level {
    Danger,
    Caution,
}

/// One hint, in our words; names in it are made visible.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Hint {
    pub(crate) level: Level,
    pub(crate) text: String,
}

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "csh"];

const INTERPRETERS: [&str; 8] = ["python", "python3", "perl", "ruby", "node", "php", "lua", "osascript"];

/// Programs that run the one named after them.
const WRAPPERS: [&str; 16] = [
    "sudo", "doas", "env", "nice", "ionice", "nohup", "setsid", "timeout", "stdbuf", "xargs", "time", "exec",
    "command", "busybox", "chroot", "pkexec",
];

const NETWORK: [&str; 30] = [
    "curl", "wget", "ssh", "scp", "sftp", "ftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "git", "pip",
    "pip3", "npm", "npx", "pnpm", "yarn", "cargo", "go", "apt", "apt-get", "dnf", "yum", "pacman", "docker", "podman",
    "nmap", "dig",
];

const DELETING: [&str; 14] = [
    "rm", "rmdir", "unlink", "shred", "wipefs", "mkfs", "truncate", "srm", "trash", "fdisk", "parted", "userdel",
    "dropdb", "swapoff",
];

const WRITING: [&str; 13] =
    ["tee", "cp", "mv", "install", "dd", "ln", "mkdir", "touch", "tar", "unzip", "rsync", "sed", "patch"];

const PERMISSIONS: [&str; 8] = ["chmod", "chown", "chgrp", "setfacl", "chattr", "setcap", "visudo", "usermod"];

/// Where programs of the system are, as long as nobody but root can change them.
const SYSTEM: [&str; 8] =
    ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/", "/usr/local/sbin/", "/usr/lib/", "/usr/libexec/"];

/// Words of a script that are looked at.
const SCRIPT_WORDS: usize = 20_000;

/// Everything there is to say about a request, the loudest first.
pub(crate) fn hints(request: &Request) -> Vec<Hint> {
    let mut found = Found::default();
    match request.pipeline() {
        Some(pipeline) => found.pipeline(request, &pipeline),
        None if request.kind.ends_with("pipeline") => found.danger("this program does not understand what is asked"),
        None if request.kind == "question" => {}
        None if request.kind == "mesh_message" => {
            found.caution("written by somebody in the mesh; the agent gets it as a prompt, with the rights it has");
        }
        None => found.tool(request),
    }
    found.0.sort();
    found.0.dedup();
    found.0
}

#[derive(Default)]
struct Found(Vec<Hint>);

impl Found {
    fn danger(&mut self, text: impl Into<String>) {
        self.0.push(Hint { level: Level::Danger, text: text.into() });
    }

    fn caution(&mut self, text: impl Into<String>) {
        self.0.push(Hint { level: Level::Caution, text: text.into() });
    }

    fn pipeline(&mut self, request: &Request, pipeline: &Pipeline) {
        if pipeline.privileged || request.privileged() {
            self.danger("runs as root");
        }
        if pipeline.forward_agent {
            self.caution("your SSH agent is lent to it");
        }
        for variable in &pipeline.env {
            if variable.name.starts_with("LD_") || matches!(variable.name.as_str(), "BASH_ENV" | "ENV" | "PYTHONPATH") {
                self.danger(format!("{} makes programs load other code", seen(&variable.name)));
            }
        }
        let project = match request.requester.cwd.as_str() {
            "" => pipeline.cwd.as_str(),
            cwd => cwd,
        };
        let is_root = pipeline.privileged || request.privileged();
        if is_root {
            self.root_environment(pipeline);
        }
        for (position, stage) in pipeline.stages.iter().enumerate() {
            self.stage(stage, position > 0, project);
            self.files(stage, is_root);
        }
        let hidden: usize = pipeline.stages.iter().flat_map(|stage| &stage.argv).map(|word| hidden(word)).sum();
        self.hidden(hidden);
    }

    fn stage(&mut self, stage: &Stage, fed: bool, project: &str) {
        let program = stage.argv.first().map(String::as_str).unwrap_or_default();
        let file = &stage.file;
        if let Some(why) = &file.missing {
            self.caution(format!("{} cannot be run: {}", seen(program), visible::text(&visible::prose(why))));
        } else if !file.path.is_empty() && !is_of_the_system(file) {
            self.caution(format!("{} is not a program of the system", seen(real(file))));
        }
        let words = unwrapped(&stage.argv);
        let (name, arguments) = match words {
            [first, rest @ ..] => (base(first), rest),
            [] => ("", words),
        };
        let script = arguments.iter().position(|word| is_script_flag(word)).and_then(|at| arguments.get(at + 1));
        if SHELLS.contains(&name) {
            match script {
                Some(script) => {
                    self.caution(format!("{name} runs a script: read the word after -c"));
                    self.script(script);
                }
                None if fed && !arguments.iter().any(|word| !word.starts_with('-')) => {
                    self.danger(format!("whatever the stage before prints is run by {name}"));
                }
                None => self.caution(format!("{name} runs commands from elsewhere")),
            }
        } else if INTERPRETERS.contains(&name) {
            let fed = fed && arguments.iter().all(|word| word.starts_with('-'));
            match (fed, script) {
                (true, None) => self.danger(format!("whatever the stage before prints is run by {name}")),
                _ => self.caution(format!("{name} runs a program of its own")),
            }
        }
        self.command(name, arguments);
        if WRITING.contains(&name) {
            self.writes(arguments, project);
        }
    }

    /// Whose configuration root would read.
    fn root_environment(&mut self, pipeline: &Pipeline) {
        let value = |name: &str| pipeline.env.iter().find(|variable| variable.name == name);
        let (home, user) = (value("HOME"), value("USER"));
        if let (Some(home), Some(user)) = (home, user)
            && user.value != "root"
        {
            self.danger(format!("root reads files in HOME={}, and code they name runs as root", seen(&home.value)));
        }
    }

    /// Who can change what runs, and what has changed since it was asked for.
    fn files(&mut self, stage: &Stage, is_root: bool) {
        let file = &stage.file;
        self.changeable(&file.path, &file.writers, true, is_root);
        if file.changed {
            self.danger(format!("{} has changed since it was asked for; it will not run", seen(&file.path)));
        }
        for interpreter in &file.interpreters {
            let file = &interpreter.file;
            if let Some(why) = &file.missing {
                let why = visible::text(&visible::prose(why));
                let what = if interpreter.loader { "loader" } else { "interpreter" };
                self.danger(format!("its {what} {} cannot be told: {why}", seen(&interpreter.name)));
            }
            self.changeable(&file.path, &file.writers, true, is_root);
            if file.changed {
                self.danger(format!("{} has changed since it was asked for; it will not run", seen(&file.path)));
            }
        }
        let programs = std::iter::once(file).chain(file.interpreters.iter().map(|interpreter| &interpreter.file));
        for library in programs.flat_map(|file| &file.libraries) {
            let who = if library.writers.by_requester { "the requester" } else { "others" };
            let text = format!("loads libraries from {}, which {who} can change", seen(&library.path));
            if is_root { self.danger(text) } else { self.caution(text) }
        }
        for file in &stage.named {
            self.changeable(&file.path, &file.writers, file.code, is_root);
            if file.changed {
                self.danger(format!("{} has changed since it was asked for; it will not run", seen(&file.path)));
            }
        }
        if stage.names_more {
            self.danger("the arguments may name more files than were examined");
        }
    }

    fn changeable(&mut self, path: &str, writers: &Writers, is_code: bool, is_root: bool) {
        let Some((_, reason)) = writers.warning() else { return };
        let who = if writers.by_requester { "the requester" } else { "somebody else than root" };
        let reason = visible::text(&visible::prose(reason));
        let text = format!("{who} can change {} until it is used: {reason}", seen(path));
        if is_root && is_code { self.danger(text) } else { self.caution(text) }
    }

    /// A program by its name.
    fn command(&mut self, name: &str, arguments: &[String]) {
        let has = |word: &str| arguments.iter().any(|argument| argument == word);
        if NETWORK.contains(&name) {
            self.caution(format!("{name} reaches the network"));
        }
        let deletes = match name {
            "find" => has("-delete") || has("-exec"),
            "git" => has("clean") || has("reset") || has("checkout"),
            "dd" => true,
            name => DELETING.contains(&name) || name.starts_with("mkfs."),
        };
        if deletes {
            self.caution(format!("{name} deletes or overwrites"));
        }
        if PERMISSIONS.contains(&name) {
            self.caution(format!("{name} changes who may do what"));
        }
    }

    /// Paths among the words that are outside of where the work is.
    fn writes(&mut self, arguments: &[String], project: &str) {
        for word in arguments {
            let path = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            if path.starts_with('/') && outside(path, project) {
                self.caution(format!("may write to {}, outside of {}", seen(path), seen(project)));
            }
        }
    }

    /// Programs that are named in a script. Only words are looked at: it is a guess.
    fn script(&mut self, text: &str) {
        let parts = text.split(|letter: char| letter.is_whitespace() || "|&;(){}<>`\"'$".contains(letter));
        let words: Vec<String> = parts.filter(|word| !word.is_empty()).take(SCRIPT_WORDS).map(str::to_owned).collect();
        for (position, word) in words.iter().enumerate() {
            let rest = words.get(position + 1..).unwrap_or_default();
            match base(word) {
                "find" | "git" | "dd" if !rest.is_empty() => self.command(base(word), rest),
                "find" | "git" => {}
                "sudo" | "doas" | "pkexec" => self.danger("asks for root inside the script"),
                name => self.command(name, &[]),
            }
        }
        let piped = |name: &str| {
            let end = |letter: char| letter.is_whitespace() || ";&<>()".contains(letter);
            text.split('|').skip(1).any(|part| part.trim_start().split(end).next().map(base) == Some(name))
        };
        if let Some(shell) = SHELLS.into_iter().find(|shell| piped(shell)) {
            self.danger(format!("the script feeds what it gets to {shell}"));
        }
    }

    fn tool(&mut self, request: &Request) {
        let text = |key: &str| request.input.get(key).and_then(Value::as_str);
        let command = match request.input.get("command").or_else(|| request.input.get("cmd")) {
            Some(Value::String(command)) => Some(command.clone()),
            Some(Value::Array(words)) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
            _ => None,
        };
        if let Some(command) = command {
            self.script(&command);
            self.hidden(hidden(&command.replace(['\n', '\t'], " ")));
        }
        let tool = request.tool.to_ascii_lowercase();
        if tool.contains("web") || tool.contains("fetch") || text("url").is_some() {
            self.caution("reaches the network");
        }
        let writes = ["write", "edit", "patch", "delete", "move"].iter().any(|word| tool.contains(word));
        let path = ["file_path", "filePath", "path", "notebook_path"].iter().find_map(|key| text(key));
        let project = request.requester.cwd.as_str();
        if let Some(path) = path
            && writes
            && !project.is_empty()
            && path.starts_with('/')
            && outside(path, project)
        {
            self.caution(format!("writes to {}, outside of {}", seen(path), seen(project)));
        }
    }

    fn hidden(&mut self, count: usize) {
        match count {
            0 => {}
            1 => self.danger("one character is not what it looks like and is spelled out"),
            count => self.danger(format!("{count} characters are not what they look like and are spelled out")),
        }
    }
}

/// The words without programs that only run the one after them.
fn unwrapped(argv: &[String]) -> &[String] {
    let mut words = argv;
    // A wrapper takes words of its own; as many as there are is a bound.
    for _ in 0..argv.len() {
        let [first, rest @ ..] = words else { break };
        if !WRAPPERS.contains(&base(first)) {
            break;
        }
        let own = rest.iter().position(|word| {
            !word.starts_with('-') && !word.contains('=') && !word.starts_with(|letter: char| letter.is_ascii_digit())
        });
        words = own.and_then(|at| rest.get(at..)).unwrap_or_default();
    }
    words
}

fn is_script_flag(word: &str) -> bool {
    matches!(word, "-e" | "--eval" | "--command")
        || (word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Whether a path leads out of a folder. Also when that cannot be told from the words.
fn outside(path: &str, folder: &str) -> bool {
    path.split('/').any(|part| part == "..") || !Path::new(path).starts_with(folder)
}

fn hidden(word: &str) -> usize {
    visible::word(word).iter().filter(|mark| matches!(mark, Mark::Escape(_) | Mark::Byte(_))).count()
}

/// A name in our own words: visible, and no longer than a line.
fn seen(name: &str) -> String {
    crate::text::cut(&visible::text(&visible::word(name)), 60).into_owned()
}

/// The file itself, every link followed.
fn real(file: &File) -> &str {
    if file.target.is_empty() { &file.path } else { &file.target }
}

/// Whether a program is the system's: it lies where such programs lie, and nobody but root can change it.
fn is_of_the_system(file: &File) -> bool {
    file.writers.changeable.is_none() && SYSTEM.iter().any(|folder| real(file).starts_with(folder))
}

/// Reads the files again and notes those that are not what they were when they were asked for. Blocks on a slow disk.
pub(crate) fn look_again(request: &mut Request) {
    let Some(pipeline) = request.pipeline() else { return };
    for (position, stage) in pipeline.stages.iter().enumerate() {
        let place = format!("/stages/{position}");
        let mut note = |pointer: &str, is_same: bool| {
            if let Some(Value::Object(file)) = request.subject.pointer_mut(&format!("{place}{pointer}")) {
                file.insert("changed".to_owned(), (!is_same).into());
            }
        };
        let is_same =
            |file: &File| file.missing.is_some() || file.target.is_empty() || has_digest(real(file), &file.digest);
        note("/file", is_same(&stage.file));
        for (number, interpreter) in stage.file.interpreters.iter().enumerate() {
            note(&format!("/file/interpreters/{number}/file"), is_same(&interpreter.file));
        }
        for (number, file) in stage.named.iter().enumerate() {
            let is_same = file.digest.as_deref().is_none_or(|digest| has_digest(&file.path, digest));
            note(&format!("/named/{number}"), is_same);
        }
    }
}

/// Whether the file at a path has a content. One that may not be read cannot be compared.
fn has_digest(path: &str, digest: &str) -> bool {
    let unreadable = !digest.is_empty() && digest.bytes().all(|digit| digit == b'0');
    let read = || -> std::io::Result<String> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(i32::try_from(flags).unwrap_or(0)).open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(String::new());
        }
        let mut hasher = Sha256::new();
        let mut reader = std::io::BufReader::with_capacity(128 << 10, file);
        loop {
            let piece = reader.fill_buf()?;
            if piece.is_empty() {
                return Ok(hostel_house::pipelines::hex_of(&hasher.finalize().into()));
            }
            hasher.update(piece);
            let length = piece.len();
            reader.consume(length);
        }
    };
    unreadable || read().is_ok_and(|found| found == digest)
}

#[cfg(test)]
#[path = "hints_tests.rs"]
mod tests;
