//! Reads a data file. Whatever is not understood is refused with its line number.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::language::{Language, Sign};

/// One data file.
#[derive(Clone, Debug)]
pub struct Script {
    /// Where it is.
    pub path: PathBuf,
    /// Its name without `.txt`.
    pub name: String,
    /// Whether values are compared as JSON.
    pub json: bool,
    /// The other settings in the order of the file, names and values.
    pub settings: Vec<(String, String)>,
    /// The cases.
    pub cases: Vec<Case>,
    /// Whether a failed case may be followed by a new daemon.
    pub(super) supports_fresh_daemon: bool,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the case shows.
    pub title: String,
    /// The only variant it is for.
    pub variant: Option<String>,
    /// The options of `! fresh-daemon`, if the case has a daemon of its own.
    pub fresh_daemon: Option<String>,
    /// The lines.
    pub steps: Vec<Step>,
}

/// One line of a case.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line's number.
    pub number: usize,
    /// The whole line.
    pub line: String,
    /// The connection it is about; empty for the case's first.
    pub connection: String,
    /// What it asks for.
    pub action: Action,
}

/// What a line asks for. Texts still have their placeholders.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Run a shell command, which must succeed.
    Shell(String),
    /// Run a shell command and keep what it prints under a name.
    Capture(String, String),
    /// Send a text, with the end of a message or without.
    Send(String, bool),
    /// Make a call the door completes.
    Call(String),
    /// Make a call that gets no answer.
    Notify(String),
    /// A header of the next request.
    Header(String, String),
    /// An HTTP request: method, path, body.
    Request(String, String, String),
    /// The next message.
    Message(String),
    /// The result of the last call.
    Result(String),
    /// The error of the last call: its code, and its message if that matters.
    Error(String, Option<String>),
    /// The status of the response, and its body if that matters. With `until`, the request is repeated until it fits.
    Status {
        /// The status.
        status: u16,
        /// The body.
        body: Option<String>,
        /// Whether the request is repeated.
        until: bool,
    },
    /// A header of the response.
    HasHeader(String, String),
    /// A header the response does not have.
    LacksHeader(String),
    /// A part of the response's body.
    Contains(String),
    /// The next event of the stream. With `until`, events are read until one fits.
    Event {
        /// The event.
        text: String,
        /// Whether others are passed over.
        until: bool,
    },
    /// No event of the stream was like this so far.
    NoEvent(String),
    /// The stream is over.
    StreamEnd,
    /// The output of a channel since it was last looked at.
    Output(String, String),
    /// A directive and what follows it.
    Directive(String, String),
}

impl Script {
    /// Reads a data file of a door.
    ///
    /// # Panics
    /// If it is missing or invalid.
    pub fn load(language: &Language, name: &str) -> Self {
        let path = super::folder(language).join(format!("{name}.txt"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut script =
            Self::parse(language, name, &text).unwrap_or_else(|reason| panic!("{}:{reason}", path.display()));
        script.path = path;
        script
    }

    /// Reads the text of a data file.
    ///
    /// # Errors
    /// The number of the first line that is wrong, and why.
    pub fn parse(language: &Language, name: &str, text: &str) -> Result<Self, String> {
        let mut script = Self {
            path: PathBuf::from(format!("{name}.txt")),
            name: name.to_owned(),
            json: false,
            settings: Vec::new(),
            cases: Vec::new(),
            supports_fresh_daemon: language.standard.contains(&"fresh-daemon"),
        };
        let mut last = 0;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            script.line(language, number, line).map_err(|reason| format!("{number}: {reason}: {line}"))?;
            last = number;
        }
        script.end_case(language).map_err(|reason| format!("{last}: {reason}"))?;
        if script.cases.is_empty() {
            return Err("1: the file has no case".to_owned());
        }
        Ok(script)
    }

    fn line(&mut self, language: &Language, number: usize, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (sign, bracket) = match word.split_once('[') {
            Some((sign, inside)) => {
                let inside = inside.strip_suffix(']').filter(|inside| !inside.is_empty());
                (sign, Some(inside.ok_or("a name in brackets is needed")?))
            }
            None => (word, None),
        };
        match sign {
            "@" => {
                self.end_case(language)?;
                return self.begin_case(language, bracket, rest);
            }
            "=" if self.cases.is_empty() => return self.setting(language, rest),
            "=" => return Err("a setting stands before the first case".to_owned()),
            _ => {}
        }
        let sign = Sign::read(sign).ok_or("the line starts with no known sign")?;
        if !language.has(sign) {
            return Err(format!("the {} door has no `{}`", language.door, sign.written()));
        }
        let json = self.json;
        let case = self.cases.last_mut().ok_or("the line stands before the first case")?;
        let action = parse_action(language, sign, rest, json)?;
        if matches!(&action, Action::Directive(word, _) if word == "fresh-daemon") {
            if !case.steps.is_empty() || case.fresh_daemon.is_some() {
                return Err("`! fresh-daemon` must be the first line of a case".to_owned());
            }
            case.fresh_daemon = Some(rest.trim_start_matches("fresh-daemon").trim_start().to_owned());
            return Ok(());
        }
        if let Some(name) = bracket
            && matches!(sign, Sign::Shell | Sign::Capture)
        {
            return Err(format!("a shell command has no connection [{name}]"));
        }
        let connection = bracket.unwrap_or_default().to_owned();
        case.steps.push(Step { number, line: line.to_owned(), connection, action });
        Ok(())
    }

    fn setting(&mut self, language: &Language, rest: &str) -> Result<(), String> {
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        if rest == "json" {
            self.json = true;
        } else if language.setting(name).is_some() {
            self.settings.push((name.to_owned(), value.to_owned()));
        } else {
            return Err(format!("the {} door has no setting `{name}`", language.door));
        }
        Ok(())
    }

    fn begin_case(&mut self, language: &Language, variant: Option<&str>, title: &str) -> Result<(), String> {
        if title.is_empty() {
            return Err("a case needs a title".to_owned());
        }
        if self.cases.iter().any(|case| case.title == title) {
            return Err("another case has the same title".to_owned());
        }
        if let Some(variant) = variant
            && !language.variants.contains(&variant)
        {
            return Err(format!("the {} door has no variant `{variant}`", language.door));
        }
        let variant = variant.map(str::to_owned);
        self.cases.push(Case { title: title.to_owned(), variant, fresh_daemon: None, steps: Vec::new() });
        Ok(())
    }

    fn end_case(&self, language: &Language) -> Result<(), String> {
        match self.cases.last() {
            Some(case) if !case.steps.iter().any(|step| step.expects(language)) => {
                Err(format!("the case {:?} before this line expects nothing", case.title))
            }
            _ => Ok(()),
        }
    }

    /// The values of a setting.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.settings.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }
}

impl Step {
    /// Whether the line can fail because of the daemon.
    pub fn expects(&self, language: &Language) -> bool {
        match &self.action {
            Action::Directive(word, _) => language.directive(word).is_some_and(|word| word.expects),
            _ => self.sign().is_some_and(Sign::expects),
        }
    }

    fn sign(&self) -> Option<Sign> {
        let word = self.line.split(' ').next().unwrap_or_default();
        Sign::read(word.split('[').next().unwrap_or_default())
    }

    /// The line with another text behind its sign.
    pub fn with_text(&self, text: &str) -> String {
        let word = self.line.split(' ').next().unwrap_or_default();
        format!("{word} {text}")
    }
}

fn parse_action(language: &Language, sign: Sign, rest: &str, json: bool) -> Result<Action, String> {
    let text = rest.to_owned();
    Ok(match sign {
        Sign::Shell => Action::Shell(text),
        Sign::Capture => {
            let (name, command) = rest.split_once(' ').ok_or("a name and a command are needed")?;
            Action::Capture(name.to_owned(), command.to_owned())
        }
        Sign::Send => Action::Send(text, true),
        Sign::SendPart => Action::Send(text, false),
        Sign::Call => Action::Call(text),
        Sign::Notify => Action::Notify(text),
        Sign::Header => header(rest).map(|(name, value)| Action::Header(name, value))?,
        Sign::Request => {
            let mut words = rest.splitn(3, ' ');
            let (Some(method), Some(path)) = (words.next(), words.next()) else {
                return Err("a method and a path are needed".to_owned());
            };
            Action::Request(method.to_owned(), path.to_owned(), words.next().unwrap_or_default().to_owned())
        }
        Sign::Message => Action::Message(checked(text, json)?),
        Sign::Result => Action::Result(checked(text, json)?),
        Sign::Error => match rest.split_once(' ') {
            _ if rest.is_empty() => return Err("a code is needed".to_owned()),
            Some((code, message)) => Action::Error(code.to_owned(), Some(message.to_owned())),
            None => Action::Error(text, None),
        },
        Sign::Status | Sign::EventualStatus => {
            let (status, body) = rest.split_once(' ').map_or((rest, None), |(status, body)| (status, Some(body)));
            let status = status.parse().map_err(|_| "the status is not a number")?;
            let body = body.map(|body| checked(body.to_owned(), json)).transpose()?;
            Action::Status { status, body, until: sign == Sign::EventualStatus }
        }
        Sign::HasHeader => header(rest).map(|(name, value)| Action::HasHeader(name, value))?,
        Sign::LacksHeader => Action::LacksHeader(text),
        Sign::Contains => Action::Contains(text),
        Sign::Event | Sign::EventualEvent => {
            Action::Event { text: checked_event(text, json)?, until: sign == Sign::EventualEvent }
        }
        Sign::NoEvent => Action::NoEvent(checked_event(text, json)?),
        Sign::StreamEnd if rest.is_empty() => Action::StreamEnd,
        Sign::StreamEnd => return Err("nothing follows this sign".to_owned()),
        Sign::Output => output(rest)?,
        Sign::Directive => {
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let known =
                language.directive(word).ok_or_else(|| format!("the {} door has no `! {word}`", language.door))?;
            if !known.usage.contains(' ') && !rest.is_empty() {
                return Err(format!("nothing follows `! {word}`"));
            }
            Action::Directive(word.to_owned(), rest.to_owned())
        }
    })
}

fn checked(text: String, json: bool) -> Result<String, String> {
    if json {
        serde_json::from_str::<Value>(&text).map_err(|error| format!("the text is not JSON ({error})"))?;
    }
    Ok(text)
}

/// An event of a JSON file is a name and, if it matters, JSON.
fn checked_event(text: String, json: bool) -> Result<String, String> {
    if json && let Some((_, data)) = text.split_once(' ') {
        checked(data.to_owned(), json)?;
    }
    if text.is_empty() { Err("an event is needed".to_owned()) } else { Ok(text) }
}

fn header(rest: &str) -> Result<(String, String), String> {
    let (name, value) = rest.split_once(':').ok_or("a header has a colon")?;
    Ok((name.to_owned(), value.trim_start().to_owned()))
}

fn output(rest: &str) -> Result<Action, String> {
    let at = rest.find('"').unwrap_or_else(|| rest.rfind(' ').map_or(0, |at| at + 1));
    let (channel, value) = rest.split_at(at);
    let text = match serde_json::from_str(value) {
        Ok(Value::String(text)) => text,
        Ok(Value::Number(number)) => number.to_string(),
        _ => return Err("a JSON string or a number is needed".to_owned()),
    };
    Ok(Action::Output(channel.trim_end().to_owned(), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fake::LANGUAGE;

    fn parse(text: &str) -> Result<Script, String> {
        Script::parse(&LANGUAGE, "x", text)
    }

    #[test]
    fn each_sign_is_read() {
        let text = "# comment\n= members alice bob\n= members carol\n\n@ one\n$ touch a\n$= sha echo x y\n> raw line\n>. part\n\
                    >> a.b {\"c\":1}\n>- a.b\n>+ A: b\n>+ Empty:\n>:[bob] POST /v1/send {\"to\": \"a b\"}\n>: GET /\n< reply\n\
                    <= {}\n<! -32602 Invalid params\n<! error\n<# 200\n<#? 202 {}\n<+ allow: GET, POST\n<- link\n<* part\n\
                    <~[b] {}\n<~? message {}\n<~! message\n<$[b]\n~ p stdout \"a\\n\"\n~ \"text\"\n~ p exit -1\n! closed\n\
                    ! log some text\n! knock twice\n@[fast] two\n! fresh-daemon -v\n< x\n";
        let script = parse(text).expect("a script");
        assert_eq!(script.values("members"), ["alice bob", "carol"]);
        assert!(!script.json);
        let text = str::to_owned;
        let steps = script.cases[0].steps.iter();
        let actions: Vec<(&str, &Action)> = steps.map(|step| (step.connection.as_str(), &step.action)).collect();
        let expected = [
            ("", Action::Shell(text("touch a"))),
            ("", Action::Capture(text("sha"), text("echo x y"))),
            ("", Action::Send(text("raw line"), true)),
            ("", Action::Send(text("part"), false)),
            ("", Action::Call(text("a.b {\"c\":1}"))),
            ("", Action::Notify(text("a.b"))),
            ("", Action::Header(text("A"), text("b"))),
            ("", Action::Header(text("Empty"), String::new())),
            ("bob", Action::Request(text("POST"), text("/v1/send"), text("{\"to\": \"a b\"}"))),
            ("", Action::Request(text("GET"), text("/"), String::new())),
            ("", Action::Message(text("reply"))),
            ("", Action::Result(text("{}"))),
            ("", Action::Error(text("-32602"), Some(text("Invalid params")))),
            ("", Action::Error(text("error"), None)),
            ("", Action::Status { status: 200, body: None, until: false }),
            ("", Action::Status { status: 202, body: Some(text("{}")), until: true }),
            ("", Action::HasHeader(text("allow"), text("GET, POST"))),
            ("", Action::LacksHeader(text("link"))),
            ("", Action::Contains(text("part"))),
            ("b", Action::Event { text: text("{}"), until: false }),
            ("", Action::Event { text: text("message {}"), until: true }),
            ("", Action::NoEvent(text("message"))),
            ("b", Action::StreamEnd),
            ("", Action::Output(text("p stdout"), text("a\n"))),
            ("", Action::Output(String::new(), text("text"))),
            ("", Action::Output(text("p exit"), text("-1"))),
            ("", Action::Directive(text("closed"), String::new())),
            ("", Action::Directive(text("log"), text("some text"))),
            ("", Action::Directive(text("knock"), text("twice"))),
        ];
        assert_eq!(actions, expected.iter().map(|(name, action)| (*name, action)).collect::<Vec<_>>());
        assert_eq!(script.cases[0].steps[0].number, 6);
        let second = &script.cases[1];
        assert_eq!(
            (second.variant.as_deref(), second.fresh_daemon.as_deref(), second.steps.len()),
            (Some("fast"), Some("-v"), 1)
        );
    }

    #[test]
    fn mistakes_are_refused_with_the_number_of_the_line() {
        for (number, text) in [
            (1, "> early\n@ a\n< x\n"),
            (2, "@ a\n? what\n< x\n"),
            (2, "@ a\n> nothing is expected\n"),
            (3, "@ a\n> nothing is expected\n@ b\n< x\n"),
            (3, "@ a\n< x\n@ a\n< x\n"),
            (1, "@\n< x\n"),
            (2, "@ a\n! dance\n< x\n"),
            (2, "@ a\n! closed now\n"),
            (2, "@ a\n! restart\n< x\n"),
            (2, "@ a\n<!\n"),
            (2, "@ a\n<# x\n"),
            (2, "@ a\n<~[b x\n"),
            (2, "@ a\n<~[] x\n"),
            (2, "@ a\n<~\n"),
            (2, "@ a\n<$ more\n"),
            (2, "@ a\n>: GET\n< x\n"),
            (2, "@ a\n>+ header\n< x\n"),
            (2, "@ a\n$= name\n< x\n"),
            (2, "@ a\n$[b] true\n< x\n"),
            (2, "@ a\n~ p stdout text\n"),
            (2, "@ a\n~ p stdout \"text\n"),
            (1, "@[odd] a\n< x\n"),
            (1, "= colour red\n@ a\n< x\n"),
            (3, "@ a\n< x\n= json\n"),
            (3, "@ a\n< x\n! fresh-daemon\n"),
            (3, "= json\n@ a\n< {\"a\":}\n"),
            (3, "= json\n@ a\n<= x\n"),
            (3, "= json\n@ a\n<# 200 x\n"),
            (3, "= json\n@ a\n<~ name {\n"),
            (1, "# nothing\n"),
        ] {
            let reason = parse(text).expect_err(text);
            assert!(reason.starts_with(&format!("{number}: ")), "{text}: {reason}");
        }
    }

    #[test]
    fn a_sign_the_door_does_not_have_is_refused() {
        let language = Language { signs: &[Sign::Message], ..LANGUAGE };
        assert!(Script::parse(&language, "x", "@ a\n< x\n").is_ok());
        let reason = Script::parse(&language, "x", "@ a\n<# 200\n").expect_err("no `<#`");
        assert!(reason.contains("has no `<#`"), "{reason}");
    }
}
