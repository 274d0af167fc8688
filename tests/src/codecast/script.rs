//! The data files of the codecast door. `tests/codecast/README.md` describes them; [`super::play`] plays them.

use std::fs;
use std::path::Path;

/// One data file.
#[derive(Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub name: String,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One case: connections and a directory of its own.
#[derive(Debug)]
pub struct Case {
    /// What it shows.
    pub title: String,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One line of a case.
#[derive(Debug)]
pub struct Step {
    /// Where it stands.
    pub line: usize,
    /// On which connection; empty for the first.
    pub connection: String,
    /// What it asks for.
    pub action: Action,
}

/// What a line asks for.
#[derive(Debug, Eq, PartialEq)]
pub enum Action {
    /// `$ command`: must succeed.
    Shell(String),
    /// `$= name command`: what it prints becomes `${name}`.
    Capture(String, String),
    /// `>> method params`: a call.
    Call(String, Option<String>),
    /// `> body`: a body as it is.
    Post(String),
    /// `>: METHOD PATH`: a request of another kind; `>+` lines add headers, a `>|` line sends it with a body.
    Request(String, String),
    /// `>+ Name: value`
    Header(String, String),
    /// `>| body`
    Body(String),
    /// `<= result`: the result, keys in alphabetical order.
    Result(String),
    /// `<! code message`: the error.
    Error(i64, String),
    /// `< body`: the whole body, byte for byte.
    Whole(String),
    /// `<# status`: the status.
    Status(u16),
    /// `<+ name: value`: a header.
    HasHeader(String, String),
    /// `<~ event`: the next frame of a stream, byte for byte.
    Frame(String),
    /// `<$`: the stream is over.
    End,
    /// `! cut`: the connection is closed from here.
    Cut,
    /// `! log text`: a log line contains the text.
    Log(String),
}

impl Action {
    fn expects(&self) -> bool {
        matches!(
            self,
            Self::Shell(_)
                | Self::Result(_)
                | Self::Error(..)
                | Self::Whole(_)
                | Self::Status(_)
                | Self::HasHeader(..)
                | Self::Frame(_)
                | Self::End
                | Self::Log(_)
        )
    }
}

/// Reads a data file.
///
/// # Panics
/// If it is missing or a line is not understood.
pub fn load(folder: &Path, name: &str) -> Script {
    let path = folder.join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(name, &text).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()))
}

fn parse(name: &str, text: &str) -> Result<Script, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(title) = line.strip_prefix("@ ") {
            cases.push(Case { title: title.to_owned(), steps: Vec::new() });
            continue;
        }
        let wrong = |reason: &str| format!("line {number}: {reason}: {line}");
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (sign, connection) = match sign.split_once('[') {
            Some((sign, connection)) => (sign, connection.strip_suffix(']').ok_or_else(|| wrong("no `]`"))?),
            None => (sign, ""),
        };
        let action = action(sign, rest).map_err(|reason| wrong(&reason))?;
        let case = cases.last_mut().ok_or_else(|| wrong("before the first case"))?;
        case.steps.push(Step { line: number, connection: connection.to_owned(), action });
    }
    match cases.iter().find(|case| !case.steps.iter().any(|step| step.action.expects())) {
        Some(empty) => Err(format!("case {:?} expects nothing", empty.title)),
        None => Ok(Script { name: name.to_owned(), cases }),
    }
}

fn action(sign: &str, rest: &str) -> Result<Action, String> {
    let text = rest.to_owned();
    let two = |by: &str| {
        let (left, right) = rest.split_once(by).ok_or(format!("two parts with {by:?} between are needed"))?;
        Ok::<_, String>((left.to_owned(), right.to_owned()))
    };
    Ok(match sign {
        "$" => Action::Shell(text),
        "$=" => two(" ").map(|(name, command)| Action::Capture(name, command))?,
        ">>" => match rest.split_once(' ') {
            Some((method, params)) => Action::Call(method.to_owned(), Some(params.to_owned())),
            None => Action::Call(text, None),
        },
        ">" => Action::Post(text),
        ">:" => two(" ").map(|(method, path)| Action::Request(method, path))?,
        ">+" => two(": ").map(|(name, value)| Action::Header(name, value))?,
        ">|" => Action::Body(text),
        "<=" => Action::Result(text),
        "<!" => {
            let (code, message) = two(" ")?;
            Action::Error(code.parse().map_err(|_| "the code is not a number")?, message)
        }
        "<" => Action::Whole(text),
        "<#" => Action::Status(rest.parse().map_err(|_| "the status is not a number")?),
        "<+" => two(": ").map(|(name, value)| Action::HasHeader(name, value))?,
        "<~" => Action::Frame(text),
        "<$" => Action::End,
        "!" if rest == "cut" => Action::Cut,
        "!" => match rest.split_once(' ') {
            Some(("log", text)) => Action::Log(text.to_owned()),
            _ => return Err("no such directive".to_owned()),
        },
        _ => return Err("the line starts with no known sign".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "# comment\n@ one\n$ true\n$= a echo b\n>> m {}\n>>[b] m\n> {}\n>: GET /\n>+ A: b\n>| x\n<= {}\n\
                    <! -1 no\n< x\n<# 200\n<+ a: b\n<~[b] {}\n<$[b]\n! cut\n! log x\n";
        let script = parse("x", text).expect("a script");
        let steps = &script.cases[0].steps;
        assert_eq!(steps.len(), 17);
        assert_eq!((steps[3].connection.as_str(), &steps[3].action), ("b", &Action::Call("m".into(), None)));
        assert_eq!(steps[9].action, Action::Error(-1, "no".into()));
        assert_eq!(steps[14].action, Action::End);
    }

    #[test]
    fn mistakes_are_refused() {
        for text in ["<= early\n", "@ a\n? x\n", "@ a\n>> m\n", "@ a\n! dance\n", "@ a\n<! x y\n", "@ a\n<~[b x\n"] {
            assert!(parse("x", text).is_err(), "{text}");
        }
    }
}
