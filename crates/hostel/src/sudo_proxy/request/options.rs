//! The arguments of `sudo-request`.
//!
//! Invariant: options end at the first word that does not begin with `--`; there is no word that ends them before. A
//! lone `|` divides commands, and an empty one between two of them is nothing.

use std::ffi::OsString;
use std::path::PathBuf;

/// What is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    Version,
    Help,
    Request(Options),
}

/// A request and how its answer is shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Options {
    pub(super) socket: Option<PathBuf>,
    pub(super) reason: String,
    pub(super) session: String,
    /// Show a digest instead of the output.
    pub(super) print: bool,
    pub(super) privileged: bool,
    pub(super) forward_agent: bool,
    /// Never empty, and no command in it is.
    pub(super) pipeline: Vec<Vec<String>>,
}

pub(super) const USAGE: &str = "Usage: sudo-request [OPTIONS] COMMAND [ARGS...] ['|' COMMAND [ARGS...] ...]";

pub(super) const HELP: &str = "
Asks sudo-proxy to run a command, or several joined by pipes, and shows what came of it.

Options:
  --socket PATH    where sudo-proxy listens (default: $XDG_RUNTIME_DIR/sudo-proxy.sock)
  --reason TEXT    what it is needed for, shown to who is asked
  --session NAME   who asks (default: sudo-request-cli)
  --print          print exit codes and the first lines of the output, and succeed
  --no-privilege   run it as the user, not as root
  --forward-agent  with --no-privilege: the command may use the ssh agent
  -V, --version    print the version
  -h, --help       print this

Example:
  sudo-request --no-privilege ls /tmp '|' wc -l
";

/// Reads the words after the program's name.
pub(crate) fn parse(words: &[OsString]) -> Result<Task, String> {
    let mut options = Options {
        socket: None,
        reason: String::new(),
        session: "sudo-request-cli".to_owned(),
        print: false,
        privileged: true,
        forward_agent: false,
        pipeline: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = |name: &str| words.next().ok_or_else(|| format!("{name} requires a value"));
        match word.to_string_lossy().as_ref() {
            "--version" | "-V" => return Ok(Task::Version),
            "--help" | "-h" => return Ok(Task::Help),
            "--socket" => options.socket = Some(value("--socket")?.into()),
            "--reason" => options.reason = text(value("--reason")?)?,
            "--session" => options.session = text(value("--session")?)?,
            "--print" => options.print = true,
            "--no-privilege" => options.privileged = false,
            "--forward-agent" => options.forward_agent = true,
            other if other.starts_with("--") => return Err(format!("unknown option: {other}")),
            _ => {
                let command = std::iter::once(word).chain(words).map(text).collect::<Result<Vec<_>, _>>()?;
                options.pipeline =
                    command.split(|word| word == "|").filter(|stage| !stage.is_empty()).map(<[_]>::to_vec).collect();
                break;
            }
        }
    }
    if options.forward_agent && options.privileged {
        return Err(
            "--forward-agent is only allowed with --no-privilege (privileged commands cannot use the agent)".to_owned()
        );
    }
    match options.pipeline.is_empty() {
        true => Err("no command specified".to_owned()),
        false => Ok(Task::Request(options)),
    }
}

/// Requests are JSON: a word that is no text cannot be in one.
fn text(word: &OsString) -> Result<String, String> {
    word.to_str().map(str::to_owned).ok_or_else(|| format!("not valid UTF-8: {}", word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn read(words: &[&str]) -> Result<Task, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn stages(words: &[&str]) -> Vec<String> {
        match read(words) {
            Ok(Task::Request(options)) => options.pipeline.iter().map(|stage| stage.join(" ")).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_at_the_first_plain_word() {
        let all =
            ["--socket", "/s", "--reason", "why", "--session", "me", "--print", "--no-privilege", "--forward-agent"];
        let Ok(Task::Request(options)) = read(&[&all[..], &["ls", "--print", "-V"]].concat()) else { panic!() };
        assert_eq!(
            options,
            Options {
                socket: Some(PathBuf::from("/s")),
                reason: "why".to_owned(),
                session: "me".to_owned(),
                print: true,
                privileged: false,
                forward_agent: true,
                pipeline: vec![vec!["ls".to_owned(), "--print".to_owned(), "-V".to_owned()]],
            }
        );
        assert_eq!(stages(&["-x", "y"]), ["-x y"]);
        assert_eq!(read(&["--print", "-V"]), Ok(Task::Version));
        assert_eq!(read(&["-h"]), Ok(Task::Help));
    }

    #[test]
    fn pipes_divide() {
        assert_eq!(stages(&["a", "1", "|", "b", "|", "|", "c", "|"]), ["a 1", "b", "c"]);
        assert_eq!(stages(&["|", "a"]), ["a"]);
        assert_eq!(stages(&["a|b", "||"]), ["a|b ||"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, expected) in [
            (&[][..], "no command specified"),
            (&["--print"], "no command specified"),
            (&["|", "|"], "no command specified"),
            (&["--"], "unknown option: --"),
            (&["--socket=/s", "ls"], "unknown option: --socket=/s"),
            (&["--reason"], "--reason requires a value"),
            (
                &["--forward-agent", "ls"],
                "--forward-agent is only allowed with --no-privilege (privileged commands cannot use the agent)",
            ),
        ] {
            assert_eq!(read(words), Err(expected.to_owned()), "{words:?}");
        }
        let broken = vec![OsString::from("ls"), OsString::from_vec(vec![b'a', 0xff])];
        assert_eq!(parse(&broken), Err("not valid UTF-8: a\u{fffd}".to_owned()));
    }
}
