//! The command line that runs a stage: the command itself, or `sudo` or `pkexec` with it.
//!
//! Guarantee: no word of a request becomes an option or an assignment of `sudo` or `pkexec`. What they are given is the
//! resolved file and the words after the first, behind `--` or an absolute path. `sudo` is never given a program that
//! would ask for a password in its place.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::account::account;
use super::password::{PasswordDesk, Prompt};
use super::plan::{Pipeline, Privilege, Stage};
use super::resolve::{self, EXECUTION_PATH};

/// How root is reached on this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    /// Instead of the `sudo` of the execution path.
    pub(super) sudo: Option<PathBuf>,
    /// Instead of the `pkexec` of the execution path.
    pub(super) pkexec: Option<PathBuf>,
    /// Where sudo's password is asked for; without it sudo fails where it would need one.
    pub(super) passwords: Option<PasswordDesk>,
}

/// What is executed for a stage.
#[derive(Debug, PartialEq)]
pub(super) struct CommandLine {
    pub(super) program: PathBuf,
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// It is the resolved file itself, which the keeper can still compare.
    pub(super) is_the_file: bool,
}

/// The file that leads to root, or why none does and what to do about it. May wait for the disk.
pub(super) fn wrapper(privilege: Privilege, ways: &Ways, keeper_pid: u32) -> Result<Option<PathBuf>, String> {
    let (name, given) = match privilege {
        Privilege::None => return Ok(None),
        Privilege::Sudo => ("sudo", &ways.sudo),
        Privilege::Pkexec => ("pkexec", &ways.pkexec),
    };
    let path = match given {
        Some(path) => path.clone(),
        None => resolve::find(name).map_err(|_| {
            format!(
                "`{name}` is not installed, so nothing can run as root here; install it, or ask for the command \
                 without privileges"
            )
        })?,
    };
    let metadata = path.metadata().map_err(|error| format!("`{}` cannot be looked at: {error}", path.display()))?;
    if rustix::process::geteuid().is_root() {
        return Ok(Some(path));
    }
    let leads = given.is_some() || leads_to_root(metadata.uid(), metadata.mode());
    match obstacle(name, &path, leads, gains_no_privileges(keeper_pid)) {
        Some(why) => Err(why),
        None => Ok(Some(path)),
    }
}

/// Why a file that was found does not lead somebody to root who is not.
fn obstacle(name: &str, path: &Path, leads: bool, no_new_privileges: bool) -> Option<String> {
    if !leads {
        return Some(format!(
            "`{}` is not set-user-ID root, so it cannot run anything as root; repair its installation",
            path.display()
        ));
    }
    no_new_privileges.then(|| {
        format!(
            "`{name}` cannot work here: this service runs with \"no new privileges\" (a container or a unit with \
             NoNewPrivileges); start it outside of that"
        )
    })
}

/// Whether a file of this owner and mode runs as root, whoever starts it.
fn leads_to_root(uid: u32, mode: u32) -> bool {
    uid == 0 && mode & 0o4000 != 0
}

fn gains_no_privileges(pid: u32) -> bool {
    says_no_new_privileges(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

fn says_no_new_privileges(status: &str) -> bool {
    status
        .lines()
        .any(|line| line.split_once(':').is_some_and(|(name, rest)| name == "NoNewPrivs" && rest.trim() == "1"))
}

/// The command line of a stage whose file is `path`. With a `prompt`, sudo announces by it that it wants a password on its
/// standard input.
pub(super) fn command_line(
    pipeline: &Pipeline,
    stage: &Stage,
    path: &Path,
    wrapper: Option<&Path>,
    prompt: Option<&Prompt>,
) -> CommandLine {
    let words = stage.argv.iter().skip(1).map(OsString::from);
    let own_env = || pipeline.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let Some(wrapper) = wrapper else {
        let first = stage.argv.first().map(OsString::from).unwrap_or_default();
        let argv = std::iter::once(first).chain(words).collect();
        return CommandLine { program: path.to_owned(), argv, env: own_env(), is_the_file: true };
    };
    let (argv, env) = match pipeline.privilege {
        Privilege::Pkexec => {
            let head = [OsString::from("pkexec"), path.into()];
            (head.into_iter().chain(words).collect(), own_env())
        }
        Privilege::Sudo | Privilege::None => {
            // With `-k` sudo neither uses nor leaves behind an earlier authentication.
            let way: &[&str] = if prompt.is_some() { &["sudo", "-k", "-S"] } else { &["sudo", "-n"] };
            let assignments = pipeline.env.iter().map(|(name, value)| OsString::from(format!("{name}={value}")));
            let head = way.iter().map(OsString::from);
            let argv = head.chain(assignments).chain([OsString::from("--"), path.into()]).chain(words).collect();
            (argv, sudo_environment(prompt))
        }
    };
    CommandLine { program: wrapper.to_owned(), argv, env, is_the_file: false }
}

/// What sudo itself gets: enough to know whose it is and to ask for a password, nothing of the daemon's. The prompt is a
/// secret until sudo prints it, so it does not stand among the arguments, which everybody can read.
fn sudo_environment(prompt: Option<&Prompt>) -> Vec<(OsString, OsString)> {
    let account = account();
    let mut env: Vec<(OsString, OsString)> = [
        ("HOME", account.home.as_str()),
        ("LOGNAME", account.name.as_str()),
        ("PATH", EXECUTION_PATH),
        ("USER", account.name.as_str()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    if let Some(prompt) = prompt {
        env.push(("SUDO_PROMPT".into(), prompt.text().into()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_roots_and_set_user_id_leads_to_root() {
        assert!(leads_to_root(0, 0o104_755));
        assert!(leads_to_root(0, 0o104_111));
        for (uid, mode) in [(0, 0o100_755), (0, 0o102_755), (1000, 0o104_755), (1000, 0o100_755), (0, 0)] {
            assert!(!leads_to_root(uid, mode), "{uid} {mode:o}");
        }
    }

    #[test]
    fn what_stands_between_somebody_and_root_is_named() {
        let found = |leads, no_new_privileges| obstacle("sudo", Path::new("/x/sudo"), leads, no_new_privileges);
        assert_eq!(found(true, false), None);
        let repair = "`/x/sudo` is not set-user-ID root, so it cannot run anything as root; repair its installation";
        assert_eq!(found(false, false).as_deref(), Some(repair));
        assert_eq!(found(false, true).as_deref(), Some(repair));
        assert!(
            found(true, true).is_some_and(|why| why.starts_with("`sudo` cannot work here: this service runs with"))
        );
    }

    #[test]
    fn no_new_privileges_is_one_line_of_a_status() {
        assert!(says_no_new_privileges("Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t0\n"));
        for status in ["", "NoNewPrivs:\t0\n", "Threads:\t1\nNoNewPrivs:\t0\n", "Threads:\t1\n", "NoNewPrivs\n1\n"] {
            assert!(!says_no_new_privileges(status), "{status}");
        }
    }

    #[test]
    fn a_thread_that_gave_up_new_privileges_is_seen() {
        // For good, and for this thread alone.
        let seen = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            gains_no_privileges(own)
        });
        assert!(seen.join().unwrap());
        assert!(!gains_no_privileges(u32::MAX), "of nobody nothing is known");
    }
}
