//! The arguments of `sudo-proxy`.
//!
//! Invariant: what the real program takes is taken as it takes it, the last of several counts; anything else is refused
//! by its name before anything is touched.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    Version,
    Help,
    Serve(Options),
}

/// The options of the daemon.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Options {
    pub(super) socket: Option<PathBuf>,
    pub(super) host: Option<String>,
    pub(super) login: Option<String>,
    /// Let pkexec ask, where there is a display.
    pub(super) pkexec: bool,
    pub(super) verbose: bool,
    /// Whether a grant for the whole session may be given; none = as `hosts.json` says.
    pub(super) eligible: Option<bool>,
    pub(super) forward_agent: bool,
    /// A program wants the connection to another machine: ask whoever sits here before it is opened.
    pub(super) ask_first: bool,
}

pub(super) const HELP: &str = "\
Usage: sudo-proxy [--socket PATH] [--host HOST] [--login USER] [--pkexec] [-v]
                  [--unattended-eligible | --no-unattended-eligible] [--forward-agent] [--ask-first]

Runs commands that others ask for, as root or as you, once you have agreed to each of them.

Options:
  --socket PATH               where to listen (default: $XDG_RUNTIME_DIR/sudo-proxy.sock)
  --host HOST                 run it on another machine, reached by ssh
  --login USER                the user to be there
  --forward-agent             with --host: commands that ask for it may use your ssh agent
  --ask-first                 with --host: ask in this terminal before connecting
  --pkexec                    let pkexec ask for agreement, where there is a display
  -v, --verbose               say on standard error what is asked for
  --unattended-eligible       the answer `a` at a prompt lets unprivileged commands run
                              unasked until this program ends
  --no-unattended-eligible    never, whatever hosts.json says
  -V, --version               print the version
  -h, --help                  print this
";

/// Reads the words after the program's name; the error is the word nobody knows.
pub(crate) fn parse(words: &[OsString]) -> Result<Task, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, attached) = split(word);
        // An option at the very end that lacks its value counts as not given.
        let mut value = || attached.clone().or_else(|| words.next().cloned());
        match name.as_str() {
            "--socket" => options.socket = value().map(PathBuf::from),
            "--host" => options.host = value().as_ref().map(text),
            "--login" => options.login = value().as_ref().map(text),
            _ if attached.is_some() => return Err(word.to_string_lossy().into_owned()),
            "--pkexec" => options.pkexec = true,
            "--verbose" | "-v" => options.verbose = true,
            "--unattended-eligible" => options.eligible = Some(true),
            "--no-unattended-eligible" => options.eligible = Some(false),
            "--forward-agent" => options.forward_agent = true,
            "--ask-first" => options.ask_first = true,
            "--version" | "-V" => return Ok(Task::Version),
            "--help" | "-h" => return Ok(Task::Help),
            _ => return Err(word.to_string_lossy().into_owned()),
        }
    }
    Ok(Task::Serve(options))
}

/// `--name=value` in its two parts.
fn split(word: &OsString) -> (String, Option<OsString>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => {
            let (name, value) = bytes.split_at(at);
            let value = OsString::from_vec(value.get(1..).unwrap_or_default().to_vec());
            (String::from_utf8_lossy(name).into_owned(), Some(value))
        }
        _ => (word.to_string_lossy().into_owned(), None),
    }
}

fn text(value: &OsString) -> String {
    value.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Task, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn options(words: &[&str]) -> Options {
        match read(words) {
            Ok(Task::Serve(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option() {
        let expected = Options {
            socket: Some(PathBuf::from("/s")),
            host: Some("h".to_owned()),
            login: Some("u".to_owned()),
            pkexec: true,
            verbose: true,
            eligible: Some(false),
            forward_agent: true,
            ask_first: true,
        };
        let rest =
            ["--pkexec", "-v", "--unattended-eligible", "--no-unattended-eligible", "--forward-agent", "--ask-first"];
        let spaced = ["--socket", "/s", "--host", "h", "--login", "u"];
        let joined = ["--socket=/s", "--host=h", "--login=u"];
        assert_eq!(options(&[&spaced[..], &rest].concat()), expected);
        assert_eq!(options(&[&joined[..], &rest].concat()), expected);
        assert_eq!(options(&["--socket="]).socket, Some(PathBuf::new()));
        assert_eq!(options(&["--socket"]), Options::default());
        assert_eq!(read(&["-V", "--nonsense"]), Ok(Task::Version));
        assert_eq!(read(&["--help"]), Ok(Task::Help));
    }

    #[test]
    fn the_unknown_is_named() {
        for word in ["--nonsense", "word", "-x", "--pkexec=yes", "--"] {
            assert_eq!(read(&["-v", word]), Err(word.to_owned()));
        }
    }
}
