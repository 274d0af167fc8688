//! The arguments of `zeroclaw`: the one verb this program takes over, and its flags.
//!
//! Invariant: whatever the real daemon takes is taken; anything else is an error that names the word.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    Version,
    Help,
    Daemon(Daemon),
}

/// The flags of `zeroclaw daemon`. Host and port belong to an HTTP gateway that is not here: they are taken, checked and
/// not used.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Daemon {
    /// End with the last client.
    pub(super) ephemeral: bool,
    /// Where the configuration is said to be.
    pub(super) config_dir: Option<PathBuf>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) allow_degraded_security: bool,
}

pub(super) const USAGE: &str = "\
Usage: zeroclaw daemon [--ephemeral] [--config-dir DIR] [--host HOST] [--port PORT] [--allow-degraded-security]
       zeroclaw --version
";

/// Reads the words after the program's name.
pub(crate) fn parse(words: &[OsString]) -> Result<Task, String> {
    let mut flags = Daemon::default();
    let mut verb = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, attached) = split(word);
        let mut value = |name: &str| match &attached {
            Some(value) => Ok(value.clone()),
            None => words.next().cloned().ok_or_else(|| format!("`{name}` needs a value")),
        };
        match name.to_string_lossy().as_ref() {
            "--config-dir" => flags.config_dir = Some(value("--config-dir")?.into()),
            "--host" => flags.host = Some(value("--host")?.to_string_lossy().into_owned()),
            "--port" | "-p" => {
                let text = value("--port")?.to_string_lossy().into_owned();
                flags.port = Some(text.parse().map_err(|_| format!("`{text}` is not a port"))?);
            }
            _ if attached.is_some() => return Err(unexpected(word)),
            "--ephemeral" => flags.ephemeral = true,
            "--allow-degraded-security" => flags.allow_degraded_security = true,
            "--version" | "-V" => return Ok(Task::Version),
            "--help" | "-h" => return Ok(Task::Help),
            "daemon" if !verb => verb = true,
            _ => return Err(unexpected(word)),
        }
    }
    match verb {
        true => Ok(Task::Daemon(flags)),
        false => Err("`daemon` is the only verb there is here".to_owned()),
    }
}

/// `--flag=value` in its two parts.
fn split(word: &OsStr) -> (&OsStr, Option<OsString>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => {
            let (name, value) = bytes.split_at(at);
            (OsStr::from_bytes(name), Some(OsStr::from_bytes(value.get(1..).unwrap_or_default()).to_owned()))
        }
        _ => (word, None),
    }
}

fn unexpected(word: &OsStr) -> String {
    format!("unexpected argument `{}`", word.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Task, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_the_real_client_passes_is_taken() {
        let expected = Daemon {
            ephemeral: true,
            config_dir: Some(PathBuf::from("/c")),
            host: None,
            port: None,
            allow_degraded_security: false,
        };
        assert_eq!(read(&["daemon", "--ephemeral", "--config-dir", "/c"]), Ok(Task::Daemon(expected.clone())));
        assert_eq!(read(&["--config-dir=/c", "daemon", "--ephemeral"]), Ok(Task::Daemon(expected)));
        let all = read(&["daemon", "--host", "127.0.0.1", "-p", "0", "--allow-degraded-security"]).unwrap();
        assert_eq!(
            all,
            Task::Daemon(Daemon {
                host: Some("127.0.0.1".to_owned()),
                port: Some(0),
                allow_degraded_security: true,
                ..Daemon::default()
            })
        );
        assert_eq!(read(&["--version"]), Ok(Task::Version));
        assert_eq!(read(&["daemon", "-h"]), Ok(Task::Help));
    }

    #[test]
    fn anything_else_is_named() {
        for (words, expected) in [
            (&[][..], "`daemon` is the only verb there is here"),
            (&["agent"], "unexpected argument `agent`"),
            (&["daemon", "daemon"], "unexpected argument `daemon`"),
            (&["daemon", "--ephemeral=yes"], "unexpected argument `--ephemeral=yes`"),
            (&["daemon", "--port"], "`--port` needs a value"),
            (&["daemon", "--port=http"], "`http` is not a port"),
        ] {
            assert_eq!(read(words), Err(expected.to_owned()), "{words:?}");
        }
    }
}
