//! A sudo-proxy on another machine: this program becomes the ssh that runs it there.
//!
//! Invariant: everything ssh is told was checked before, and nothing passes through a shell of this machine. The prompt
//! of the other machine appears in this terminal; nothing here decides anything.

use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use super::complain;
use super::hosts;
use super::registry::RegistryFile;
use super::registry::is_uid;
use crate::daemon::sockets::Occupant;
use crate::daemon::sockets::occupant;

/// The most of an answer to `id -u` that is read.
const ANSWER: u64 = 4096;

/// Becomes the ssh for a target; comes back only with the reason why not.
pub(super) fn run(target: &str, verbose: bool, forward_agent: bool) -> ExitCode {
    let error = match prepare(target) {
        Ok(uid) => become_ssh(target, &uid, verbose, forward_agent),
        Err(message) => message,
    };
    complain(&format!("error: {error}"));
    ExitCode::FAILURE
}

/// How long whoever sits at the terminal may take to agree to a connection.
const AGREEMENT_TIME: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };

/// Asks at the terminal whether a program may have a machine connected to. Without a terminal the answer is no.
pub(super) fn is_agreed(target: &str) -> bool {
    let asked = || -> std::io::Result<bool> {
        let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        // What was typed before the question stands there answers nothing.
        rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::IFlush)?;
        write!(terminal, "A program wants to connect to {target} by ssh, with your keys.\nType yes to connect: ")?;
        let mut ready = [rustix::event::PollFd::new(&terminal, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&AGREEMENT_TIME))? == 0 {
            return Ok(false);
        }
        let mut answer = [0; 64];
        let length = terminal.read(&mut answer)?;
        Ok(answer.get(..length).unwrap_or_default().trim_ascii() == b"yes")
    };
    asked().unwrap_or(false)
}

/// Finds the user's id there and makes room for this machine's end of the tunnel.
fn prepare(target: &str) -> Result<String, String> {
    let registry = RegistryFile::of_user();
    let uid = user_there(&registry, target)?;
    let socket = hosts::tunnel_socket(target);
    if occupant(&socket) == Occupant::Listening {
        return Err(format!("sudo-proxy is already running on {}", socket.display()));
    }
    // An ssh that ended left it behind, and ssh takes no path that exists.
    std::fs::remove_file(&socket).unwrap_or_default();
    // A list that cannot be written is no reason not to connect.
    registry.update(|registry| registry.touch(target)).unwrap_or_default();
    Ok(uid)
}

/// The user's id on a target: as it was noted, else as the target says.
pub(crate) fn user_there(registry: &RegistryFile, target: &str) -> Result<String, String> {
    let known = registry.read();
    if let Some(uid) = known.hosts.get(target).and_then(|host| host.user()) {
        return Ok(uid.to_owned());
    }
    let failed = || format!("failed to get remote UID via ssh {target} id -u");
    let mut child = Command::new("ssh")
        .args([target, "id", "-u"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ssh id -u: {error}"))?;
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER).read_to_end(&mut answer).map_err(|error| format!("ssh id -u: {error}"))?;
    }
    let status = child.wait().map_err(|error| format!("ssh id -u: {error}"))?;
    if !status.success() {
        return Err(failed());
    }
    let uid = String::from_utf8_lossy(&answer).trim().to_owned();
    if !is_uid(&uid) {
        return Err(format!("ssh {target} id -u returned non-numeric uid: {uid:?}"));
    }
    registry.update(|registry| registry.host(target).uid.clone_from(&uid)).unwrap_or_default();
    Ok(uid)
}

/// What ssh is told.
fn arguments(target: &str, socket: &Path, uid: &str, forward_agent: bool) -> Vec<String> {
    let mut words: Vec<String> = ["-t"].map(str::to_owned).to_vec();
    // `ERROR` keeps quiet about connections that came before the other end listened, and about nothing that matters.
    for option in ["ServerAliveInterval=15", "ServerAliveCountMax=3", "ExitOnForwardFailure=yes", "LogLevel=ERROR"] {
        words.extend(["-o".to_owned(), option.to_owned()]);
    }
    words.extend(["-L".to_owned(), format!("{}:/run/user/{uid}/sudo-proxy.sock", socket.display())]);
    if forward_agent {
        words.push("-A".to_owned());
    }
    words.extend([target.to_owned(), "sudo-proxy".to_owned()]);
    words
}

/// Comes back only if it fails.
fn become_ssh(target: &str, uid: &str, verbose: bool, forward_agent: bool) -> String {
    let words = arguments(target, &hosts::tunnel_socket(target), uid, forward_agent);
    if verbose {
        complain(&format!("+ ssh {}", words.join(" ")));
    }
    let error = Command::new("ssh").args(&words).exec();
    format!("failed to exec ssh: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_is_told() {
        let words = arguments("u@h", Path::new("/r/sudo-proxy-u@h.sock"), "1000", true);
        assert_eq!(
            words.join(" "),
            "-t -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -o ExitOnForwardFailure=yes -o LogLevel=ERROR \
             -L /r/sudo-proxy-u@h.sock:/run/user/1000/sudo-proxy.sock -A u@h sudo-proxy"
        );
        assert!(!arguments("h", Path::new("/s"), "0", false).contains(&"-A".to_owned()));
    }
}
