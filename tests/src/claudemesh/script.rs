//! The data files of the `/v1` surface. `tests/claudemesh/README.md` describes them; [`super::play`] plays them.

use std::fs;
use std::path::Path;

use super::client::Transport;

/// One data file.
#[derive(Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub name: String,
    /// Who is in the mesh; the first is who is meant where nobody is named.
    pub members: Vec<String>,
    /// `config.toml` of every daemon.
    pub config: String,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug)]
pub struct Case {
    /// What it shows.
    pub title: String,
    /// The only transport it is about, if there is one.
    pub only: Option<Transport>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One line of a case.
#[derive(Debug)]
pub struct Step {
    /// Where it stands.
    pub line: usize,
    /// Of which host; empty for the first.
    pub host: String,
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
    /// `>+ Name: value`: a header of the next request.
    Header(String, String),
    /// `> METHOD PATH body`
    Request(String, String, String),
    /// `< status json`
    Answer(u16, Option<String>),
    /// `<? status json`: the request is made again until its answer is this one.
    Eventually(u16, Option<String>),
    /// `<= text`: the whole body.
    Whole(String),
    /// `<* text`: the body contains the text.
    Contains(String),
    /// `<+ name: value`
    HasHeader(String, String),
    /// `<- name`
    LacksHeader(String),
    /// `! listen query`: opens an event stream.
    Listen(String),
    /// `~ name json`: the next event of that name that fits.
    Event(String, String),
    /// `~! name json`: no event that came so far is like this.
    NoEvent(String, String),
    /// `~: text`: the next block is this comment.
    Comment(String),
    /// `! cut`: the event stream is closed from here.
    Cut,
    /// `! broker down`, `! broker up`
    Broker(bool),
    /// `! kill`, `! start`, `! restart`
    Kill,
    /// The daemon is started.
    Start,
    /// The daemon is asked to end and started again.
    Restart,
    /// `! run arguments`: a command of claudemesh that must work.
    Run(String),
    /// `! log text`: the daemon has logged the text.
    Log(String),
}

impl Action {
    fn expects(&self) -> bool {
        matches!(
            self,
            Self::Shell(_)
                | Self::Answer(..)
                | Self::Eventually(..)
                | Self::Whole(_)
                | Self::Contains(_)
                | Self::HasHeader(..)
                | Self::LacksHeader(_)
                | Self::Event(..)
                | Self::NoEvent(..)
                | Self::Comment(_)
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
    let mut script =
        Script { name: name.to_owned(), members: vec!["alice".to_owned()], config: String::new(), cases: Vec::new() };
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        let wrong = |reason: &str| format!("line {number}: {reason}: {line}");
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (sign, inside) = match sign.split_once('[') {
            Some((sign, inside)) => (sign, inside.strip_suffix(']').ok_or_else(|| wrong("no `]`"))?),
            None => (sign, ""),
        };
        if sign == "@" {
            let only = match inside {
                "" => None,
                "tcp" => Some(Transport::Tcp),
                "socket" => Some(Transport::Socket),
                _ => return Err(wrong("no such transport")),
            };
            script.cases.push(Case { title: rest.to_owned(), only, steps: Vec::new() });
            continue;
        }
        if let (Some(members), true) = (line.strip_prefix("! members "), script.cases.is_empty()) {
            script.members = members.split(' ').map(str::to_owned).collect();
            continue;
        }
        if let (Some(setting), true) = (line.strip_prefix("! config "), script.cases.is_empty()) {
            script.config.push_str(setting);
            script.config.push('\n');
            continue;
        }
        let action = action(sign, rest).map_err(|reason| wrong(&reason))?;
        let case = script.cases.last_mut().ok_or_else(|| wrong("before the first case"))?;
        case.steps.push(Step { line: number, host: inside.to_owned(), action });
    }
    match script.cases.iter().find(|case| !case.steps.iter().any(|step| step.action.expects())) {
        Some(empty) => Err(format!("case {:?} expects nothing", empty.title)),
        None => Ok(script),
    }
}

fn action(sign: &str, rest: &str) -> Result<Action, String> {
    let text = rest.to_owned();
    let two = |by: &str| {
        let (left, right) = rest.split_once(by).ok_or(format!("two parts with {by:?} between are needed"))?;
        Ok::<_, String>((left.to_owned(), right.to_owned()))
    };
    let answer = || {
        let (status, json) = rest.split_once(' ').map_or((rest, None), |(status, json)| (status, Some(json)));
        let status: u16 = status.parse().map_err(|_| "the status is not a number")?;
        Ok::<_, String>((status, json.map(str::to_owned)))
    };
    Ok(match sign {
        "$" => Action::Shell(text),
        "$=" => two(" ").map(|(name, command)| Action::Capture(name, command))?,
        ">+" => {
            let (name, value) = rest.split_once(':').ok_or("a header has a colon")?;
            Action::Header(name.to_owned(), value.trim_start().to_owned())
        }
        ">" => {
            let mut words = rest.splitn(3, ' ');
            let (Some(method), Some(path)) = (words.next(), words.next()) else {
                return Err("a method and a path are needed".to_owned());
            };
            Action::Request(method.to_owned(), path.to_owned(), words.next().unwrap_or_default().to_owned())
        }
        "<" => answer().map(|(status, json)| Action::Answer(status, json))?,
        "<?" => answer().map(|(status, json)| Action::Eventually(status, json))?,
        "<=" => Action::Whole(text),
        "<*" => Action::Contains(text),
        "<+" => two(": ").map(|(name, value)| Action::HasHeader(name, value))?,
        "<-" => Action::LacksHeader(text),
        "~" => {
            let (name, json) = rest.split_once(' ').unwrap_or((rest, r#"{"...":1}"#));
            Action::Event(name.to_owned(), json.to_owned())
        }
        "~!" => two(" ").map(|(name, json)| Action::NoEvent(name, json))?,
        "~:" => Action::Comment(text),
        "!" => match rest.split_once(' ').unwrap_or((rest, "")) {
            ("listen", query) => Action::Listen(query.to_owned()),
            ("cut", "") => Action::Cut,
            ("broker", "down") => Action::Broker(false),
            ("broker", "up") => Action::Broker(true),
            ("kill", "") => Action::Kill,
            ("start", "") => Action::Start,
            ("restart", "") => Action::Restart,
            ("run", arguments) => Action::Run(arguments.to_owned()),
            ("log", text) => Action::Log(text.to_owned()),
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
        let text = "# comment\n! members alice bob\n! config [ipc]\n! config max_sse = 2\n@ one\n$ true\n$= a echo b\n\
                    >+ A: b\n>+ Empty:\n>[bob] POST /v1/send {\"to\": \"a\"}\n< 202 {}\n<? 200\n<= x\n<* y\n<+ a: b\n\
                    <- link\n! listen ?events=message\n~[bob] message {}\n~! message {}\n~: connected\n! cut\n! broker down\n! kill\n\
                    ! start\n! restart\n! run daemon status\n! log x\n@[tcp] two\n> GET /\n< 404\n";
        let script = parse("x", text).expect("a script");
        assert_eq!(script.members, ["alice", "bob"]);
        assert_eq!(script.config, "[ipc]\nmax_sse = 2\n");
        let steps = &script.cases[0].steps;
        assert_eq!(steps.len(), 22);
        assert_eq!(steps[3].action, Action::Header("Empty".into(), String::new()));
        let request = Action::Request("POST".into(), "/v1/send".into(), "{\"to\": \"a\"}".into());
        assert_eq!((steps[4].host.as_str(), &steps[4].action), ("bob", &request));
        assert_eq!(steps[6].action, Action::Eventually(200, None));
        assert_eq!((script.cases[0].only, script.cases[1].only), (None, Some(Transport::Tcp)));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in [
            "< 200\n",
            "@ a\n? x\n",
            "@ a\n> GET /\n",
            "@ a\n! dance\n< 200\n",
            "@ a\n< x\n",
            "@[udp] a\n< 200\n",
            "@ a\n> GET\n< 200\n",
        ] {
            assert!(parse("x", text).is_err(), "{text}");
        }
    }
}
