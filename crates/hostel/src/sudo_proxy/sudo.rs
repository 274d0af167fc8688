//! `sudo` inside a guard: it asks the sudo-proxy door to run the command as root, and a person decides.
//!
//! Programs that become root do not work inside a guard, so this takes their place there. It understands the words that
//! scripts use with `sudo` for running one command as root, and refuses all others by name.
//!
//! Guarantees: it has no rights of its own. Whatever it is asked for goes through the door or is refused.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

use super::complain;
use super::request;
use super::say;

/// The user that a command is run as.
const ROOT: [&str; 2] = ["root", "#0"];

/// How long something that is written to standard input is waited for, in nanoseconds.
const INPUT_WAIT_NS: i64 = 200_000_000;

/// What is wanted of it.
#[derive(Debug, Eq, PartialEq)]
enum Wanted {
    Version,
    /// Forgetting a password that it never had.
    Nothing,
    Command(Vec<OsString>),
}

/// The whole program.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    match parse(words) {
        Ok(Wanted::Version) => say(&format!("sudo of hostel {}: asks for consent\n", env!("CARGO_PKG_VERSION"))),
        Ok(Wanted::Nothing) => ExitCode::SUCCESS,
        Ok(Wanted::Command(_)) if has_input() => {
            complain("sudo: what is written to standard input cannot be passed on to a command that waits for consent");
            complain("sudo: write it to a file and let the command read that, for example `sudo cp FILE TARGET`");
            ExitCode::FAILURE
        }
        Ok(Wanted::Command(command)) => {
            let mut asked: Vec<OsString> = ["--session", "sudo", "--reason", "sudo"].map(OsString::from).to_vec();
            asked.extend(command);
            request::main(&asked)
        }
        Err(reason) => {
            complain(&format!("sudo: {reason}"));
            complain("sudo: this agent is guarded: `sudo COMMAND` asks the person at the machine to run it as root");
            ExitCode::FAILURE
        }
    }
}

/// Whether somebody feeds the command, as in `echo 1 | sudo tee FILE`: without its input such a command would do harm. A
/// pipe that stays open and silent is what agents give to every command.
fn has_input() -> bool {
    let stdin = io::stdin();
    let Ok(found) = rustix::fs::fstat(&stdin) else { return false };
    match rustix::fs::FileType::from_raw_mode(found.st_mode) {
        rustix::fs::FileType::RegularFile => found.st_size > 0,
        rustix::fs::FileType::Fifo => {
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            let limit = Timespec { tv_sec: 0, tv_nsec: INPUT_WAIT_NS };
            rustix::event::poll(&mut waiting, Some(&limit)).unwrap_or(0) > 0
                && waiting.iter().any(|end| end.revents().contains(PollFlags::IN))
        }
        _ => false,
    }
}

/// Reads the words after the program's name.
fn parse(words: &[OsString]) -> Result<Wanted, String> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        match text.as_ref() {
            "-V" | "--version" => return Ok(Wanted::Version),
            "-k" | "-K" | "--reset-timestamp" | "--remove-timestamp" if rest.as_slice().is_empty() => {
                return Ok(Wanted::Nothing);
            }
            "--" => return command(rest.as_slice()),
            "-u" | "--user" => is_root(&rest.next().map(|user| user.to_string_lossy()).unwrap_or_default())?,
            "-i" | "-s" | "--login" | "--shell" if rest.as_slice().is_empty() => {
                return Err("a shell of root's cannot be asked for; name the command".to_owned());
            }
            other if other.starts_with("--user=") => is_root(other.trim_start_matches("--user="))?,
            other if other.starts_with("-u") && other.len() > 2 => is_root(other.trim_start_matches("-u"))?,
            // What these ask for is what happens: nobody is asked for a password, and the home directory is root's.
            "--non-interactive" | "--set-home" | "--askpass" | "--stdin" | "--login" | "--reset-timestamp" => {}
            other if is_harmless(other) => {}
            other if other.starts_with('-') && other.len() > 1 => {
                return Err(format!("the option `{other}` is not known inside a guard"));
            }
            _ => return command(std::iter::once(word).chain(rest).cloned().collect::<Vec<_>>().as_slice()),
        }
    }
    Err("no command is named".to_owned())
}

/// Letters that change nothing here, alone or together.
fn is_harmless(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|letter| "nHASki".contains(letter))
}

fn is_root(user: &str) -> Result<(), String> {
    if ROOT.contains(&user) {
        return Ok(());
    }
    Err(format!("commands can be run as root alone, not as `{user}`"))
}

/// The command, with variables before it handed to `env`: the door takes none from a client.
fn command(words: &[OsString]) -> Result<Wanted, String> {
    let is_variable = |word: &OsString| {
        let text = word.to_string_lossy();
        text.split_once('=').is_some_and(|(name, _)| {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        })
    };
    let variables = words.iter().take_while(|word| is_variable(word)).count();
    match words.get(variables..) {
        None | Some([]) => Err("no command is named".to_owned()),
        Some([first, ..]) if first.as_encoded_bytes().starts_with(b"-") => {
            Err(format!("`{}` is no command", first.to_string_lossy()))
        }
        // The door divides commands there.
        Some(all) if all.iter().any(|word| word == "|") => Err("an argument `|` cannot be passed on".to_owned()),
        Some(_) if variables == 0 => Ok(Wanted::Command(words.to_vec())),
        Some(_) => Ok(Wanted::Command(std::iter::once("env".into()).chain(words.iter().cloned()).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Result<String, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(&words).map(|wanted| match wanted {
            Wanted::Command(command) => command.join(" ".as_ref()).into_string().unwrap(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn what_scripts_say() {
        for (words, command) in [
            (&["apt-get", "install", "-y", "jq"][..], "apt-get install -y jq"),
            (&["-n", "true"], "true"),
            (&["-nH", "-u", "root", "--", "ls", "-l"], "ls -l"),
            (&["-uroot", "-S", "id"], "id"),
            (&["--user=root", "--non-interactive", "id"], "id"),
            (&["DEBIAN_FRONTEND=noninteractive", "apt", "update"], "env DEBIAN_FRONTEND=noninteractive apt update"),
            (&["sh", "-c", "A=1 b"], "sh -c A=1 b"),
            (&["-i", "whoami"], "whoami"),
            (&["-V"], "Version"),
            (&["-k"], "Nothing"),
        ] {
            assert_eq!(wanted(words).as_deref(), Ok(command), "{words:?}");
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_by_name() {
        for (words, part) in [
            (&[][..], "no command"),
            (&["-n"], "no command"),
            (&["A=1"], "no command"),
            (&["-u", "postgres", "psql"], "`postgres`"),
            (&["-i"], "shell"),
            (&["--", "--no-privilege", "id"], "`--no-privilege`"),
            (&["echo", "|", "x"], "`|`"),
            (&["-E", "make"], "`-E`"),
            (&["-l"], "`-l`"),
            (&["-e", "/etc/hosts"], "`-e`"),
            (&["--chdir=/x", "ls"], "`--chdir=/x`"),
        ] {
            let refused = wanted(words).unwrap_err();
            assert!(refused.contains(part), "{words:?}: {refused}");
        }
    }
}
