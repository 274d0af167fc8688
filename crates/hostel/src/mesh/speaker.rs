//! Who speaks: a session of the mesh, by the token its environment leads to, else the member.
//!
//! Invariant: a token is read anew each time, from a file that dies with its session, and never printed. What was started
//! inside a launched session never becomes the member because that session has ended: it shows a token that nobody has.
//! The environment of another process is read only where that process is the same user's, and never that of our own
//! program: keeper and daemon may have been started inside a session, and belong to none.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use zeroize::Zeroizing;

pub(crate) use hostel_house::sessions::variables::MESH;
pub(crate) use hostel_house::sessions::variables::SESSION;
pub(crate) use hostel_house::sessions::variables::TOKEN;
pub(crate) use hostel_house::sessions::variables::TOKEN_FILE;

/// All of them.
pub(crate) use hostel_house::sessions::variables::ALL as VARIABLES;

/// Parents that are looked through for a session's environment.
const GENERATIONS: usize = 16;

/// The most of an environment that is read.
const ENVIRONMENT: u64 = 4 << 20;

/// A token has this many hexadecimal digits.
const DIGITS: usize = 64;

/// Who speaks, as far as an environment tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speaker {
    /// What the session shows; none for the member.
    pub(crate) token: Option<Zeroizing<String>>,
    /// An environment of a session, whether there is a token already or not.
    pub(crate) in_session: bool,
    /// The mesh that is meant where none is named.
    pub(crate) mesh: Option<String>,
}

impl Speaker {
    /// Our own environment's.
    pub(crate) fn of_environment() -> Self {
        Speaker::of(|name| std::env::var_os(name))
    }

    /// Our own environment's, else that of whoever started us: some agents keep theirs from the programs they start.
    pub(crate) fn of_us() -> Self {
        let own = Speaker::of_environment();
        match own.in_session {
            true => own,
            false => Speaker::of_process(std::os::unix::process::parent_id()),
        }
    }

    /// That of a process, or of the nearest of its ancestors that has one.
    pub(crate) fn of_process(pid: u32) -> Self {
        let mut pid = pid;
        for _ in 0..GENERATIONS {
            let Some(environment) = environment(pid) else { break };
            let speaker = Speaker::of(|name| value(&environment, name));
            if speaker.in_session {
                return speaker;
            }
            match parent(pid) {
                Some(parent) if parent > 1 => pid = parent,
                _ => break,
            }
        }
        Speaker::default()
    }

    /// A session of the house, by the file of its token and, where it was launched, its mesh.
    pub(crate) fn of_session(token_file: &Path, mesh: Option<String>) -> Self {
        let speaker = Speaker::of(|name| (name == TOKEN_FILE).then(|| token_file.as_os_str().to_owned()));
        Speaker { mesh, ..speaker }
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let from_file = set(TOKEN_FILE).and_then(|path| std::fs::read_to_string(path).ok()).map(Zeroizing::new);
        let given = || set(TOKEN).and_then(|token| token.into_string().ok()).map(Zeroizing::new);
        let token =
            from_file.or_else(given).map(|text| Zeroizing::new(text.trim().to_owned())).filter(|text| fits(text));
        let launched = set(SESSION).is_some();
        Speaker {
            in_session: launched || set(TOKEN_FILE).is_some() || set(TOKEN).is_some(),
            token: token.or_else(|| launched.then(nobodys)),
            mesh: set(MESH).and_then(|mesh| mesh.into_string().ok()),
        }
    }
}

/// The mesh our own environment means.
pub(crate) fn mesh_of_environment() -> Option<String> {
    std::env::var(MESH).ok().filter(|mesh| !mesh.is_empty())
}

/// A command that is not to be taken for a part of the session we are in.
pub(crate) fn leave_session(command: &mut std::process::Command) {
    for name in VARIABLES {
        command.env_remove(name);
    }
}

fn fits(token: &str) -> bool {
    token.len() == DIGITS && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A token that no session has.
fn nobodys() -> Zeroizing<String> {
    Zeroizing::new("0".repeat(DIGITS))
}

/// The environment a process was started with, if it is ours to read and not one of our own program.
fn environment(pid: u32) -> Option<Zeroizing<Vec<u8>>> {
    let folder = format!("/proc/{pid}");
    let folder = Path::new(&folder);
    if folder.metadata().ok()?.uid() != rustix::process::geteuid().as_raw() || is_ours(&folder.join("exe")) {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::new());
    std::fs::File::open(folder.join("environ")).ok()?.take(ENVIRONMENT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a program is this one, or an earlier build in its place.
fn is_ours(exe: &Path) -> bool {
    let same_file = || {
        let (theirs, ours) = (exe.metadata().ok()?, Path::new("/proc/self/exe").metadata().ok()?);
        Some((theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()))
    };
    let same_place = || {
        let plain = |path: &Path| {
            let name = path.as_os_str().as_bytes();
            OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(name)).to_owned()
        };
        let (theirs, ours) = (std::fs::read_link(exe).ok()?, std::fs::read_link("/proc/self/exe").ok()?);
        Some(plain(&theirs) == plain(&ours))
    };
    // What cannot be looked at is not looked into either.
    same_file().unwrap_or(true) || same_place().unwrap_or(true)
}

/// A variable of an environment.
fn value(environment: &[u8], name: &str) -> Option<OsString> {
    let rest = |entry: &[u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    environment.split(|byte| *byte == 0).find_map(rest).map(OsString::from_vec)
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; what follows the last bracket is the state and the parent.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(variables: &[(&str, &str)]) -> Speaker {
        let of = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(*value));
        Speaker::of(of)
    }

    #[test]
    fn a_token_comes_from_its_file_and_dies_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("token");
        std::fs::write(&file, format!("{}\n", "ab".repeat(32))).unwrap();
        let path = file.to_str().unwrap();
        let shown = |speaker: &Speaker| speaker.token.as_ref().map(|token| token.to_string());
        let inside = speaker(&[(TOKEN_FILE, path), (MESH, "lab")]);
        assert_eq!((shown(&inside), inside.mesh.as_deref()), (Some("ab".repeat(32)), Some("lab")));
        std::fs::remove_file(&file).unwrap();
        // One that is not there yet is no session's yet.
        let early = speaker(&[(TOKEN_FILE, path)]);
        assert_eq!((shown(&early), early.in_session), (None, true));
        // A launched session that has ended is never the member.
        let late = speaker(&[(TOKEN_FILE, path), (SESSION, "review")]);
        assert_eq!(shown(&late), Some("0".repeat(64)));
        let member = speaker(&[(TOKEN_FILE, ""), (TOKEN, "")]);
        assert!(member.token.is_none() && !member.in_session);
        assert_eq!(shown(&speaker(&[(TOKEN, &"F".repeat(64))])), Some("F".repeat(64)));
        assert_eq!(shown(&speaker(&[(TOKEN, "short")])), None);
    }

    #[test]
    fn the_environment_of_a_process_and_of_its_ancestors() {
        let token = "cd".repeat(32);
        let mut command = std::process::Command::new("sh");
        // The shell is asked for its child's number; the child has no such variable of its own.
        command.args(["-c", "env -i sleep 60 & echo $!; wait"]).env(TOKEN, &token);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let below: u32 = lines.next().unwrap().unwrap().trim().parse().unwrap();
        // While it becomes another program, its environment cannot be seen.
        while std::fs::read_to_string(format!("/proc/{below}/comm")).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        for pid in [child.id(), below] {
            let found = Speaker::of_process(pid);
            assert_eq!(found.token.as_ref().map(|token| token.to_string()), Some(token.clone()), "{pid}");
        }
        // Our own program is not looked into.
        assert!(!Speaker::of_process(std::process::id()).in_session);
        assert!(!Speaker::of_process(u32::MAX).in_session);
        for pid in [below, child.id()] {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        child.wait().unwrap();
    }
}
