//! What a command pipeline is, exactly: the words of each stage, the file each first word means, the whole environment.
//!
//! Invariant: a plan holds everything that decides what will run. It is what is stored, what a person is shown and what
//! is started; nothing is looked up again between the three, only compared.
//!
//! It runs nothing and asks nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::account;
use super::arguments::{NamedFile, named_files, surely_names_none};
use super::resolve::{EXECUTION_PATH, resolve, resolve_at_once};
use super::writers::Writers;

/// Commands joined by pipes; one command is a pipeline of one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pipeline {
    /// The commands, in the order data flows.
    pub stages: Vec<Stage>,
    /// The whole environment of every stage, sorted by name.
    pub env: Vec<(String, String)>,
    /// Where every stage starts.
    pub cwd: PathBuf,
    /// As whom it runs.
    pub privilege: Privilege,
    /// Whether the daemon's SSH agent is among the environment.
    pub forward_agent: bool,
}

impl Pipeline {
    /// What of it runs as code and can be changed by somebody else than root, each in words.
    #[must_use]
    pub fn changeable_code(&self) -> Vec<String> {
        self.stages.iter().flat_map(Stage::changeable_code).collect()
    }
}

/// One command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stage {
    /// Its words as they were asked for, passed on as they are.
    pub argv: Vec<String>,
    /// The file the first word means.
    pub file: Resolved,
    /// Files and directories that the other words name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedFile>,
    /// The other words may name more files than were examined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_more: bool,
}

impl Stage {
    /// A command whose file is known and whose words name no file.
    #[must_use]
    pub fn new(argv: Vec<String>, file: Resolved) -> Self {
        Self { argv, file, named: Vec::new(), names_more: false }
    }

    /// What of this command runs as code and can be changed by somebody else than root, each in words.
    #[must_use]
    pub fn changeable_code(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut look = |what: &str, path: &str, writers: &Writers| {
            if let Some(reason) = writers.reason() {
                found.push(format!("{what} {path}: {reason}"));
            }
        };
        if let Resolved::Found { path, writers, .. } = &self.file {
            look("the program", &path.to_string_lossy(), writers);
        }
        for interpreter in self.file.interpreters() {
            match &interpreter.file {
                Resolved::Found { path, writers, .. } => look(interpreter.what(), &path.to_string_lossy(), writers),
                Resolved::Missing { .. } => look(interpreter.what(), &interpreter.name, &Writers::Unknown),
            }
        }
        let programs = std::iter::once(&self.file).chain(self.file.interpreters().iter().map(|found| &found.file));
        for LibraryPath { path, writers } in programs.flat_map(Resolved::libraries) {
            look("the place of libraries", &path.to_string_lossy(), writers);
        }
        for file in self.named.iter().filter(|file| file.is_code) {
            let what = if file.is_directory { "the directory" } else { "the file" };
            look(what, &file.path.to_string_lossy(), &file.writers);
        }
        if self.names_more {
            found.push("there are more files among the arguments than were examined".to_owned());
        }
        found
    }
}

/// As whom a pipeline runs, and by which way.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// As the daemon's user.
    #[default]
    None,
    /// As root, through `sudo`.
    Sudo,
    /// As root, through `pkexec`, which asks by itself.
    Pkexec,
}

impl Privilege {
    /// Whether it runs as somebody else.
    #[must_use]
    pub fn is_privileged(self) -> bool {
        self != Privilege::None
    }
}

/// The file that a command's first word means.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolved {
    /// There is one, and this is what it was when it was looked at.
    Found {
        /// Where it was found.
        path: PathBuf,
        /// The file itself, every link followed.
        target: PathBuf,
        /// Its device.
        dev: u64,
        /// Its inode.
        inode: u64,
        /// Its size in bytes.
        size: u64,
        /// SHA-256 of its content.
        #[serde(with = "hex")]
        digest: [u8; 32],
        /// Who can change it, or make the path lead to another file.
        #[serde(default)]
        writers: Writers,
        /// If it is a script: the programs that run it, one after the other. The loader of a binary among all of these
        /// as well, if others than root can change the loader.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interpreters: Vec<Interpreter>,
        /// If it is a binary: the places of libraries that it names itself and that others than root can change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        libraries: Vec<LibraryPath>,
    },
    /// There is none that can be run; starting it would fail like this.
    Missing {
        /// The kernel's number for it.
        errno: i32,
        /// The same in words.
        text: String,
    },
}

impl Resolved {
    /// A file that cannot be run, for the kernel's reason.
    pub(super) fn missing(errno: i32) -> Self {
        Resolved::Missing { errno, text: std::io::Error::from_raw_os_error(errno).to_string() }
    }

    /// The programs that run it, if it is a script, and loaders that others than root can change.
    #[must_use]
    pub fn interpreters(&self) -> &[Interpreter] {
        match self {
            Resolved::Found { interpreters, .. } => interpreters,
            Resolved::Missing { .. } => &[],
        }
    }

    /// The places of libraries that it names itself and that others than root can change.
    #[must_use]
    pub fn libraries(&self) -> &[LibraryPath] {
        match self {
            Resolved::Found { libraries, .. } => libraries,
            Resolved::Missing { .. } => &[],
        }
    }
}

/// A program that runs a script, or that loads a binary.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Interpreter {
    /// As it is written in the first line of the script, or in the binary.
    pub name: String,
    /// The file that means.
    pub file: Resolved,
    /// The kernel starts it in place of the binary before it, which names it (`PT_INTERP`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loader: bool,
}

impl Interpreter {
    pub(super) fn missing(name: String, errno: rustix::io::Errno) -> Self {
        Interpreter { name, file: Resolved::missing(errno.raw_os_error()), is_loader: false }
    }

    fn what(&self) -> &'static str {
        if self.is_loader { "the loader" } else { "the interpreter" }
    }
}

/// A directory that a binary has its libraries looked for in, or a library that it names by its path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LibraryPath {
    /// Where it is.
    pub path: PathBuf,
    /// Who can change it, or create it.
    pub writers: Writers,
}

/// A pipeline as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest {
    /// The words of each command.
    pub stages: Vec<Vec<String>>,
    /// Variables that the request brings; whoever took it has checked their names.
    pub env: BTreeMap<String, String>,
    /// As whom.
    pub privilege: Privilege,
    /// The daemon's own `SSH_AUTH_SOCK`, if it is asked for and there is one.
    pub forward_agent: Option<PathBuf>,
    /// For [`Privilege::Pkexec`]: the daemon's own `DISPLAY`, `WAYLAND_DISPLAY` and `XAUTHORITY`, as far as it has them.
    pub display: BTreeMap<String, String>,
    /// For [`Privilege::Sudo`]: `HOME`, `USER` and `LOGNAME` are the requester's, as the sudo-proxy contract has it,
    /// instead of root's. Root's programs then read the requester's configuration, and run code that it names.
    pub keeps_user: bool,
}

/// Stages that one pipeline may have; more are not run.
pub const MOST_STAGES: usize = 64;

/// The umask and the place of every stage.
pub(super) const UMASK: u32 = 0o077;
const PLACE: &str = "/";

/// Finds out what a request means. Where that takes a look at a disk, a thread of its own waits for it.
pub async fn plan(ask: PlanRequest) -> Pipeline {
    if let Some(files) = known_files(&ask, account::is_known()) {
        let named = vec![(Vec::new(), false); files.len()];
        return assemble(ask, files.into_iter().zip(named));
    }
    let (privilege, stages) = (ask.privilege, ask.stages.clone());
    let planned = hostel_tasks::spawn_blocking(move || {
        let examined: Vec<_> = ask.stages.iter().map(|argv| examined(argv)).collect();
        assemble(ask, examined.into_iter())
    });
    // The thread cannot have been lost while the daemon lives; if it was, nothing is known of any file.
    planned.await.unwrap_or_else(|_| Pipeline {
        stages: stages.into_iter().map(|argv| Stage::new(argv, unknown_file())).collect(),
        env: Vec::new(),
        cwd: PathBuf::from(PLACE),
        privilege,
        forward_agent: false,
    })
}

/// The files of one command: its program, those its words name, and whether there may be more of them.
type Files = (Resolved, (Vec<NamedFile>, bool));

fn examined(argv: &[String]) -> Files {
    let file = resolve(first(argv));
    let named = named_files(argv, &file, Path::new(PLACE));
    (file, (named.files, !named.is_complete))
}

/// A command as it would be planned now. Blocks on a slow disk.
pub(super) fn look_anew(argv: &[String]) -> Stage {
    let (file, (named, names_more)) = examined(argv);
    Stage { argv: argv.to_vec(), file, named, names_more }
}

fn first(argv: &[String]) -> &str {
    argv.first().map_or("", String::as_str)
}

fn unknown_file() -> Resolved {
    Resolved::missing(rustix::io::Errno::IO.raw_os_error())
}

/// The files of all stages, if they are known without a look at a disk and no word names another one. Where the account
/// is not known, somebody has to wait anyway.
fn known_files(ask: &PlanRequest, is_account_known: bool) -> Option<Vec<Resolved>> {
    let stages = is_account_known.then_some(&ask.stages)?;
    let known =
        |argv: &Vec<String>| surely_names_none(argv, Path::new(PLACE)).then(|| resolve_at_once(first(argv))).flatten();
    stages.iter().map(known).collect()
}

fn assemble(ask: PlanRequest, files: impl Iterator<Item = Files>) -> Pipeline {
    let forward_agent = ask.forward_agent.is_some();
    let env = environment(ask.env, ask.privilege, ask.keeps_user, ask.forward_agent, ask.display);
    let stages = ask.stages.into_iter().zip(files);
    let stages = stages.map(|(argv, (file, (named, names_more)))| Stage { argv, file, named, names_more }).collect();
    Pipeline { stages, env, cwd: PathBuf::from(PLACE), privilege: ask.privilege, forward_agent }
}

/// The whole environment: what the request brings, then what every command has. Who a privileged command takes itself
/// for is decided here and not by the request.
fn environment(
    mut env: BTreeMap<String, String>,
    privilege: Privilege,
    keeps_user: bool,
    agent: Option<PathBuf>,
    display: BTreeMap<String, String>,
) -> Vec<(String, String)> {
    if privilege == Privilege::Pkexec {
        // pkexec sets HOME, USER, LOGNAME and PATH for root, and takes the display to ask on.
        env.retain(|name, _| !IDENTITY.contains(&name.as_str()));
        let known = |name: &str| ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"].contains(&name);
        env.extend(display.into_iter().filter(|(name, _)| known(name)));
        return env.into_iter().collect();
    }
    let is_roots = privilege == Privilege::Sudo && !keeps_user;
    let account = if is_roots { account::root() } else { account::account() };
    if is_roots {
        env.retain(|name, _| !IDENTITY.contains(&name.as_str()));
    }
    let own = [
        ("HOME", account.home.as_str()),
        ("LOGNAME", account.name.as_str()),
        ("PATH", EXECUTION_PATH),
        ("USER", account.name.as_str()),
    ];
    for (name, value) in own {
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    if let Some(socket) = agent {
        env.insert("SSH_AUTH_SOCK".to_owned(), socket.to_string_lossy().into_owned());
    }
    env.into_iter().collect()
}

/// Variables that tell a program who it runs for, and so whose files it reads.
const IDENTITY: [&str; 5] = ["HOME", "LOGNAME", "MAIL", "SHELL", "USER"];

/// Digests as text: a person compares them, and the stored bytes stay short.
pub(super) mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(in super::super) fn serialize<S: Serializer>(digest: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::hex_of(digest))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let digits: Vec<u8> = text.bytes().filter_map(|digit| (digit as char).to_digit(16)).map(|d| d as u8).collect();
        if digits.len() != 64 || text.len() != 64 {
            return Err(D::Error::custom("a digest has 64 hexadecimal digits"));
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] * 16 + pair[1];
        }
        Ok(digest)
    }
}

/// A digest as people write it.
#[must_use]
pub fn hex_of(digest: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
