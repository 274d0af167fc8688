//! Whose daemon this is, by the password database.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where programs are that nobody but root can have put there.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/// How long the system's directory of users may take where the file does not know us.
const LIMIT: Duration = Duration::from_secs(3);

/// What the password database says of the daemon's user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) home: String,
}

static ACCOUNT: OnceLock<Account> = OnceLock::new();
static ROOT: OnceLock<Account> = OnceLock::new();

/// Whether [`account`] and [`root`] answer without waiting.
pub(super) fn is_known() -> bool {
    ACCOUNT.get().is_some()
}

/// Root, by the system's own file: no directory service is asked who root is.
pub(super) fn root() -> &'static Account {
    ROOT.get_or_init(|| {
        let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        in_lines(&file, 0).unwrap_or_else(|| Account { name: "root".to_owned(), home: "/root".to_owned() })
    })
}

/// The daemon's user; asked for once. May wait for a directory service.
pub(super) fn account() -> &'static Account {
    ACCOUNT.get_or_init(|| {
        root();
        let uid = rustix::process::geteuid().as_raw();
        let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let known = in_lines(&file, uid).or_else(|| in_lines(&ask_directory(uid), uid));
        known.unwrap_or_else(|| in_environment(uid, |name| std::env::var(name).ok()))
    })
}

/// Whether this is the home directory of the daemon's user, or root's. May wait for a directory service.
pub(crate) fn is_known_home(home: &str) -> bool {
    account().home == home || root().home == home
}

/// Whether this is root's home directory.
pub(crate) fn is_home_of_root(home: &str) -> bool {
    root().home == home
}

/// Whom nobody knows, by what the environment says.
fn in_environment(uid: u32, variable: impl Fn(&str) -> Option<String>) -> Account {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    Account {
        name: variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| uid.to_string()),
        home: variable("HOME").unwrap_or_else(|| "/".to_owned()),
    }
}

fn in_lines(text: &str, uid: u32) -> Option<Account> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let matches = fields.get(2)?.parse() == Ok(uid);
        let home = fields.get(5).filter(|_| matches && fields.len() >= 7)?;
        Some(Account { name: (*fields.first()?).to_owned(), home: (*home).to_owned() })
    })
}

/// Users may come from elsewhere than the file; `getent` knows where.
fn ask_directory(uid: u32) -> String {
    let mut text = String::new();
    let mut command = Command::new("getent");
    // Only from directories of the system: whoever asks for the command may be able to write to others.
    command.env("PATH", SYSTEM_PATH);
    command.args(["passwd", &uid.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    hostel_peer::marks::mark_children_of(&mut command);
    let Ok(mut child) = command.spawn() else { return text };
    let deadline = Instant::now() + LIMIT;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().ok();
    child.wait().ok();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(64 * 1024).read_to_string(&mut text).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken:x:7\n+::::::\nann:x:7:7:A, B:/home/ann:/bin/zsh\n";
        assert_eq!(in_lines(text, 7), Some(Account { name: "ann".to_owned(), home: "/home/ann".to_owned() }));
        assert_eq!(in_lines(text, 0).map(|account| account.home), Some("/root".to_owned()));
        assert_eq!(in_lines(text, 8), None);
        assert!(!account().home.is_empty());
    }

    #[test]
    fn whom_nobody_knows_the_environment_may() {
        let account = |given: &[(&str, &str)]| {
            let variable =
                |name: &str| given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.to_string());
            let Account { name, home } = in_environment(7, variable);
            format!("{name} {home}")
        };
        assert_eq!(account(&[("USER", "ann"), ("LOGNAME", "bob"), ("HOME", "/home/ann")]), "ann /home/ann");
        assert_eq!(account(&[("USER", ""), ("LOGNAME", "bob"), ("HOME", "")]), "bob /");
        assert_eq!(account(&[]), "7 /");
    }

    #[test]
    fn whom_the_file_does_not_know_the_directory_is_asked_for() {
        // A system without `getent` has no directory.
        let has_directory =
            Command::new("getent").arg("passwd").arg("0").output().is_ok_and(|told| told.status.success());
        assert_eq!(in_lines(&ask_directory(0), 0).is_some(), has_directory);
        assert_eq!(in_lines(&ask_directory(u32::MAX - 7), u32::MAX - 7), None);
    }
}
