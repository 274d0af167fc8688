//! Reads what `/proc` says about a process.
//!
//! Every file is read once, up to a bound. Nothing here belongs on a thread of the runtime: call it through `lookups`.
//! `stat`, `status` and `limits` of every process can be read, also of those that hide their memory. `environ` is the one
//! file whose reading the process itself can delay, so it is read last and only if nothing else has decided.

use std::fs::File;
use std::io::Read as _;

/// More than `stat` and `limits` ever have; of `status` the wanted line is among the first.
const MAX_FILE_BYTES: usize = 4096;

/// The most of an environment that is searched.
const MAX_ENVIRONMENT_BYTES: u64 = 2 * 1024 * 1024;

/// What `/proc/PID/stat` says, as far as it matters here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) terminal: i32,
    /// In clock ticks since boot.
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn of(pid: u32) -> Option<Stat> {
        read_small(pid, "stat", parse_stat)
    }
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The second field is the program's name in brackets and may hold anything, brackets and blanks included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Stat {
        parent: fields.nth(1)?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
        terminal: fields.next()?.parse().ok()?,
        started: fields.nth(14)?.parse().ok()?,
    })
}

/// The effective user of a process, even if its memory is hidden and its directory therefore belongs to root.
pub(crate) fn user_of(pid: u32) -> Option<u32> {
    read_small(pid, "status", |status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    })
}

/// The name a process gave itself. It proves nothing.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    read_small(pid, "comm", |name| Some(name.trim_end().to_owned()))
}

/// The hard limit of file locks of a process; `u64::MAX` if it has none.
pub(crate) fn lock_limit_of(pid: u32) -> Option<u64> {
    read_small(pid, "limits", parse_lock_limit)
}

fn parse_lock_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Whether the environment that a process was started with has a variable. `None` if the process does not show it.
pub(crate) fn has_variable(pid: u32, name: &str) -> Option<bool> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut environment).ok()?;
    let is_it = |pair: &[u8]| pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    Some(environment.split(|byte| *byte == 0).any(is_it))
}

/// The file a process runs, or the name it has where that is not shown.
pub(crate) fn program_of(pid: u32) -> Option<String> {
    match std::fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(path) => Some(path.to_string_lossy().into_owned()),
        Err(_) => name_of(pid),
    }
}

/// The directory a process is in, where that is shown.
pub(crate) fn directory_of(pid: u32) -> Option<String> {
    std::fs::read_link(format!("/proc/{pid}/cwd")).ok().map(|path| path.to_string_lossy().into_owned())
}

/// Parses what one read of a file gives. Reading until the end, in pieces, was most of what a lookup cost.
fn read_small<T>(pid: u32, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0; MAX_FILE_BYTES];
    let file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer)).ok()?;
    let text = buffer.get(..read)?;
    // A name may hold any bytes; the fields that matter come after it.
    match std::str::from_utf8(text) {
        Ok(text) => parse(text),
        Err(_) => parse(&String::from_utf8_lossy(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = parse_stat("42 (a) b (c) S 7 40 41 34816 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 777 1 2").unwrap();
        assert_eq!(stat, Stat { parent: 7, session: 41, terminal: 34816, started: 777 });
        for wrong in ["", "42 (x", "42 (x) S", "42 (x) S a 1 1 1"] {
            assert_eq!(parse_stat(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg("printf '\\377) 1 1' > /proc/$$/comm; echo; read line");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(Stat::of(child.id()).unwrap().parent, std::process::id());
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn limits_are_read_from_the_second_column() {
        let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
        let with = |line: &str| parse_lock_limit(&format!("{head}{line}\n"));
        assert_eq!(
            with("Max file locks            5                    unlimited            locks     "),
            Some(u64::MAX)
        );
        assert_eq!(with("Max file locks            5                    77                   locks     "), Some(77));
        assert_eq!(with("Max processes             5                    77                   processes "), None);
        assert_eq!(with("Max file locks            5"), None);
    }

    #[test]
    fn this_process_shows_itself() {
        let own = std::process::id();
        assert_eq!(user_of(own), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(program_of(own), Some(std::env::current_exe().unwrap().display().to_string()));
        assert_eq!(directory_of(own), Some(std::env::current_dir().unwrap().display().to_string()));
        assert!(lock_limit_of(own).is_some());
        for nobody in [u32::MAX, 0] {
            assert!(Stat::of(nobody).is_none() && user_of(nobody).is_none() && lock_limit_of(nobody).is_none());
            assert!(has_variable(nobody, "PATH").is_none());
        }
    }

    #[test]
    fn a_user_is_the_one_a_process_runs_as() {
        // Only root can become somebody else.
        if rustix::process::geteuid().is_root() {
            let mut child = Command::new("/bin/sleep").arg("100").uid(65534).spawn().unwrap();
            assert_eq!(user_of(child.id()), Some(65534));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line"]).env_clear().env("HOSTEL_X", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // While a process becomes another program, its environment cannot be seen.
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let has = |name| has_variable(child.id(), name);
        assert_eq!((has("HOSTEL_X"), has("HOSTEL_"), has("OSTEL_X")), (Some(true), Some(false), Some(false)));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
