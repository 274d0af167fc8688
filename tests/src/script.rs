//! The data files: request lines in, reply lines out, in a form a person can read.
//!
//! `tests/README.md` describes the format. This module only reads it; [`crate::script_run`] plays it.

use std::fs;
use std::path::{Path, PathBuf};

/// One data file.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file's name without its ending.
    pub name: String,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// One case: its own directory and its own connection.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows.
    pub title: String,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a case.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where it stands in the file.
    pub line: usize,
    /// What it asks for.
    pub action: Action,
}

/// What one line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `$ command`: must succeed.
    Shell(String),
    /// `$= name command`: its output becomes `${name}`.
    Capture(String, String),
    /// `> line`: sent as it is.
    Send(String),
    /// `>. text`: sent without a newline.
    SendPart(String),
    /// `>> method [params]`: a well-formed request with the next id.
    Call(String, Option<String>),
    /// `< line`: the next reply.
    Reply(String),
    /// `<= result`: the reply to the last call.
    Result(String),
    /// `<! code message`: the reply to the last call.
    Error(i64, String),
    /// `<~ line`: the next stream frame.
    Frame(String),
    /// `~ process stdout "text"`: all that came on standard output.
    Stdout(String, String),
    /// `~ process stderr "text"`: all that came on standard error.
    Stderr(String, String),
    /// `~ process exit code`: the exit frame.
    Exit(String, i64),
    /// `! closed`
    Closed,
    /// `! half-close`
    HalfClose,
    /// `! reconnect`
    Reconnect,
    /// `! fresh-daemon`
    FreshDaemon,
    /// `! daemon-gone`
    DaemonGone,
    /// `! only-if command`: the case is left out, loudly, where the command fails.
    OnlyIf(String),
    /// `! log text`
    Log(String),
}

/// The folder of a door's data files.
pub fn folder(repository: &Path) -> PathBuf {
    repository.join("tests/claustrum/data")
}

/// The names of all data files, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Script {
    /// Reads a data file.
    ///
    /// # Panics
    /// If it is missing or a line is not understood.
    pub fn load(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("{name}.txt"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(name, &text).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()))
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut cases: Vec<Case> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(title) = line.strip_prefix("@ ") {
                let title = title.to_owned();
                if cases.iter().any(|case| case.title == title) {
                    return Err(format!("line {number}: two cases have the title {title:?}"));
                }
                cases.push(Case { title, steps: Vec::new() });
                continue;
            }
            let action = parse_action(line).map_err(|reason| format!("line {number}: {reason}: {line}"))?;
            let case = cases.last_mut().ok_or_else(|| format!("line {number}: before the first case"))?;
            case.steps.push(Step { line: number, action });
        }
        if let Some(empty) = cases.iter().find(|case| !case.steps.iter().any(|step| step.action.expects())) {
            return Err(format!("case {:?} expects nothing", empty.title));
        }
        Ok(Self { name: name.to_owned(), cases })
    }
}

impl Action {
    /// Whether this line can fail because of the daemon.
    pub fn expects(&self) -> bool {
        !matches!(
            self,
            Self::Send(_)
                | Self::SendPart(_)
                | Self::Call(..)
                | Self::HalfClose
                | Self::Reconnect
                | Self::FreshDaemon
                | Self::OnlyIf(_)
        )
    }
}

fn parse_action(line: &str) -> Result<Action, String> {
    let (sigil, rest) = line.split_once(' ').unwrap_or((line, ""));
    let text = rest.to_owned();
    Ok(match sigil {
        "$" => Action::Shell(text),
        "$=" => {
            let (name, command) = rest.split_once(' ').ok_or("a name and a command are needed")?;
            Action::Capture(name.to_owned(), command.to_owned())
        }
        ">" => Action::Send(text),
        ">." => Action::SendPart(text),
        ">>" => match rest.split_once(' ') {
            Some((method, params)) => Action::Call(method.to_owned(), Some(params.to_owned())),
            None => Action::Call(text, None),
        },
        "<" => Action::Reply(text),
        "<=" => Action::Result(text),
        "<!" => {
            let (code, message) = rest.split_once(' ').ok_or("a code and a message are needed")?;
            Action::Error(code.parse().map_err(|_| "the code is not a number")?, message.to_owned())
        }
        "<~" => Action::Frame(text),
        "~" => parse_output(rest)?,
        "!" => parse_directive(rest)?,
        _ => return Err("the line starts with no known sign".to_owned()),
    })
}

fn parse_output(rest: &str) -> Result<Action, String> {
    let mut words = rest.splitn(3, ' ');
    let (Some(process), Some(stream), Some(value)) = (words.next(), words.next(), words.next()) else {
        return Err("a process, a stream and a value are needed".to_owned());
    };
    let process = process.to_owned();
    let text =
        || serde_json::from_str::<String>(value).map_err(|error| format!("the value is not a JSON string ({error})"));
    Ok(match stream {
        "stdout" => Action::Stdout(process, text()?),
        "stderr" => Action::Stderr(process, text()?),
        "exit" => Action::Exit(process, value.parse().map_err(|_| "the exit code is not a number")?),
        _ => return Err("the stream is stdout, stderr or exit".to_owned()),
    })
}

fn parse_directive(rest: &str) -> Result<Action, String> {
    Ok(match rest.split_once(' ').unwrap_or((rest, "")) {
        ("closed", "") => Action::Closed,
        ("half-close", "") => Action::HalfClose,
        ("reconnect", "") => Action::Reconnect,
        ("fresh-daemon", "") => Action::FreshDaemon,
        ("daemon-gone", "") => Action::DaemonGone,
        ("only-if", command) => Action::OnlyIf(command.to_owned()),
        ("log", text) => Action::Log(text.to_owned()),
        _ => return Err("no such directive".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "# comment\n@ one\n$ touch a\n$= sha echo x\n> raw line\n>. part\n>> a.b {\"c\":1}\n>> a.b\n< reply\n\
                    <= {}\n<! -32602 Invalid params\n<~ frame\n~ p stdout \"a\\n\"\n~ p exit -1\n! closed\n! log some text\n";
        let script = Script::parse("x", text).expect("a script");
        let actions: Vec<&Action> = script.cases[0].steps.iter().map(|step| &step.action).collect();
        assert_eq!(actions.len(), 14);
        assert_eq!(actions[4], &Action::Call("a.b".into(), Some("{\"c\":1}".into())));
        assert_eq!(actions[8], &Action::Error(-32602, "Invalid params".into()));
        assert_eq!(actions[10], &Action::Stdout("p".into(), "a\n".into()));
        assert_eq!(actions[13], &Action::Log("some text".into()));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in
            ["> early\n", "@ a\n? what\n< x\n", "@ a\n> x\n", "@ a\n< x\n@ a\n< x\n", "@ a\n! dance\n", "@ a\n<! x y\n"]
        {
            assert!(Script::parse("x", text).is_err(), "{text}");
        }
    }
}
