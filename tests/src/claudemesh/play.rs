//! Plays a data file of the `/v1` surface against the daemons of a lab and collects what differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::client::Transport;
use super::lab::{Lab, Options};
use super::script::{Action, Case, Script};
use super::stream::{Block, Stream};
use crate::codecast::http::Answer;
use crate::pattern::{self, Names, Pattern};
use crate::zeroclaw::matching::{fill, matches};
use crate::{house, wait};

/// Plays all cases of a script over one transport; gives what differed.
///
/// # Panics
/// If a directory cannot be made.
pub fn play(script: &Script, transport: Transport) -> Vec<String> {
    let mut failures = Vec::new();
    let options = Options {
        members: script.members.clone(),
        config: script.config.clone(),
        broker: String::new(),
        broker_variables: Vec::new(),
    };
    let mut lab = Lab::start_with(&options);
    for (index, case) in script.cases.iter().enumerate() {
        if case.only.is_some_and(|only| only != transport) {
            continue;
        }
        let directory = lab.path().join(format!("case{}", index + 1));
        fs::create_dir_all(&directory).expect("a case directory");
        let word = format!("case-{}", index + 1);
        let mut run = Run {
            names: names(&lab, &directory, &word),
            lab: &mut lab,
            transport,
            directory,
            headers: Vec::new(),
            sent: None,
            answer: None,
            streams: BTreeMap::new(),
        };
        if let Err((line, reason)) = run.play(case) {
            let sent =
                run.sent.map_or_else(String::new, |sent| format!("{} {} {}", sent.method, sent.path, sent.body()));
            failures.push(format!(
                "{}.txt:{line} over {} ({})\n  sent:     {}\n  {reason}",
                script.name,
                transport.name(),
                case.title,
                shorten(&sent)
            ));
        }
    }
    failures
}

/// What the lines of a case may name.
fn names(lab: &Lab, directory: &std::path::Path, word: &str) -> Names {
    let mut names = Names::new();
    let mut put = |name: &str, value: String| names.insert(name.to_owned(), value);
    put("DIR", house::path_text(directory).to_owned());
    put("CASE", word.to_owned());
    for host in &lab.hosts {
        let name = &host.name;
        put(&format!("{name}.key"), host.member("pubkey"));
        put(&format!("{name}.prefix"), host.member("pubkey").chars().take(16).collect());
        put(&format!("{name}.member"), host.member("memberId"));
        put(&format!("{name}.token"), host.client(Transport::Tcp).token);
        put(&format!("{name}.port"), host.client(Transport::Tcp).port.to_string());
        put(&format!("{name}.home"), house::path_text(&host.home()).to_owned());
    }
    names
}

struct Sent {
    host: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Sent {
    fn body(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

struct Run<'a> {
    lab: &'a mut Lab,
    transport: Transport,
    directory: PathBuf,
    names: Names,
    /// Of the next request.
    headers: Vec<(String, String)>,
    sent: Option<Sent>,
    answer: Option<Answer>,
    streams: BTreeMap<String, Listener>,
}

/// An event stream, and all that came on it.
struct Listener {
    stream: Stream,
    heard: Vec<(String, Value)>,
}

impl Run<'_> {
    fn play(&mut self, case: &Case) -> Result<(), (usize, String)> {
        for step in &case.steps {
            let host = if step.host.is_empty() { self.lab.hosts[0].name.clone() } else { step.host.clone() };
            self.step(&host, &step.action).map_err(|reason| (step.line, reason))?;
        }
        Ok(())
    }

    fn step(&mut self, host: &str, action: &Action) -> Result<(), String> {
        match action {
            Action::Shell(command) => self.shell(command).map(drop),
            Action::Capture(name, command) => {
                let printed = self.shell(command)?;
                self.names.insert(name.clone(), printed.trim_end().to_owned());
                Ok(())
            }
            Action::Header(name, value) => {
                let value = pattern::render_text(value, &self.names)?;
                self.headers.push((name.clone(), value));
                Ok(())
            }
            Action::Request(method, path, body) => {
                let path = pattern::render_text(path, &self.names)?;
                let body = pattern::render(body, &self.names)?;
                let headers = std::mem::take(&mut self.headers);
                let sent = Sent { host: host.to_owned(), method: method.clone(), path, headers, body };
                self.answer = Some(self.request(&sent));
                self.sent = Some(sent);
                Ok(())
            }
            Action::Answer(status, json) => self.compare(*status, json.as_deref()),
            Action::Eventually(status, json) => self.eventually(*status, json.as_deref()),
            Action::Whole(text) => {
                let got = self.answer()?.text();
                self.fits(text, &got)
            }
            Action::Contains(text) => {
                let text = fill(text, &self.names);
                let got = self.answer()?.text();
                if got.contains(&text) { Ok(()) } else { Err(format!("not in the answer: {text}\n{}", shorten(&got))) }
            }
            Action::HasHeader(name, value) => {
                let got = self.answer()?.header(name).unwrap_or("(none)").to_owned();
                self.fits(value, &got)
            }
            Action::LacksHeader(name) => match self.answer()?.header(name) {
                None => Ok(()),
                Some(value) => Err(format!("there is a header {name}: {value}")),
            },
            Action::Listen(query) => {
                let query = pattern::render_text(query, &self.names)?;
                let headers = std::mem::take(&mut self.headers);
                let stream = self.lab.host(host).client(self.transport).events(&query, &headers);
                self.streams.insert(host.to_owned(), Listener { stream, heard: Vec::new() });
                Ok(())
            }
            Action::Event(name, json) => self.await_event(host, name, json),
            Action::NoEvent(name, json) => {
                let expected = self.json(json)?;
                let heard = self.streams.get(host).map(|listener| &listener.heard).ok_or("nobody listens there")?;
                let like = heard
                    .iter()
                    .find(|(other, data)| other == name && matches(&expected, data, &mut self.names.clone()).is_ok());
                like.map_or(Ok(()), |(_, data)| Err(format!("there was such an event: {data}")))
            }
            Action::Comment(text) => {
                let listener = self.streams.get_mut(host).ok_or("nobody listens there")?;
                match listener.stream.try_block() {
                    Ok(Some(Block::Comment(got))) if got == *text => Ok(()),
                    other => Err(format!("no comment but {other:?}")),
                }
            }
            Action::Cut => self.streams.remove(host).map(drop).ok_or_else(|| "nobody listens there".to_owned()),
            directive => self.direct(host, directive),
        }
    }

    /// Reads events until one fits: what an earlier case has caused may still come.
    fn await_event(&mut self, host: &str, name: &str, json: &str) -> Result<(), String> {
        let expected = self.json(json)?;
        let listener = self.streams.get_mut(host).ok_or("nobody listens there")?;
        let mut differences = String::new();
        loop {
            let (got_name, got) = match listener.stream.try_event() {
                Ok(Some(event)) => event,
                Ok(None) => return Err(format!("the stream is over; no such event:{differences}")),
                Err(error) => return Err(format!("{error}; no such event:{differences}")),
            };
            listener.heard.push((got_name.clone(), got.clone()));
            let mut names = self.names.clone();
            let fits =
                if got_name == name { matches(&expected, &got, &mut names) } else { Err("another name".to_owned()) };
            match fits {
                Ok(()) => {
                    names.insert("LAST".to_owned(), listener.stream.last_id.clone().unwrap_or_default());
                    self.names = names;
                    return Ok(());
                }
                Err(reason) => {
                    let shown = shorten(&format!("{got_name} {got}"));
                    write!(differences, "\n  {reason}: {shown}").expect("text takes text");
                }
            }
        }
    }

    fn direct(&mut self, host: &str, action: &Action) -> Result<(), String> {
        match action {
            Action::Broker(true) => {
                self.lab.start_broker();
                for host in &self.lab.hosts {
                    host.wait_connected();
                }
            }
            Action::Broker(false) => {
                self.lab.kill_broker();
                for host in &self.lab.hosts {
                    let client = host.client(Transport::Socket);
                    wait::until_true(wait::LIMIT, "the daemon to see that the broker is gone", || {
                        client.get("/v1/health").json()["connected"] == false
                    });
                }
            }
            Action::Kill => self.lab.host_mut(host).kill(),
            Action::Start => {
                self.lab.host_mut(host).start();
                self.refresh(host);
            }
            Action::Restart => {
                self.lab.host_mut(host).stop();
                self.lab.host_mut(host).start();
                self.refresh(host);
            }
            Action::Run(arguments) => {
                let arguments = pattern::render_text(arguments, &self.names)?;
                let arguments: Vec<&str> = arguments.split(' ').collect();
                let printed = self.lab.host(host).run(&arguments);
                self.names.insert("PRINTED".to_owned(), printed.trim_end().to_owned());
                self.refresh(host);
            }
            Action::Log(text) => {
                let text = pattern::render_text(text, &self.names)?;
                let host = self.lab.host(host);
                wait::attempt(wait::LIMIT, || host.printed().contains(&text).then_some(()))
                    .ok_or_else(|| format!("nothing logged contains: {text}\n{}", host.printed()))?;
            }
            other => return Err(format!("this line cannot be played: {other:?}")),
        }
        Ok(())
    }

    /// Port and token may be others after a start.
    fn refresh(&mut self, host: &str) {
        let client = self.lab.host(host).client(Transport::Tcp);
        self.names.insert(format!("{host}.token"), client.token);
        self.names.insert(format!("{host}.port"), client.port.to_string());
    }

    fn request(&self, sent: &Sent) -> Answer {
        let client = self.lab.host(&sent.host).client(self.transport);
        client.request(&sent.method, &sent.path, &sent.headers, &sent.body)
    }

    fn answer(&self) -> Result<&Answer, String> {
        self.answer.as_ref().ok_or_else(|| "nothing was asked yet".to_owned())
    }

    fn json(&self, text: &str) -> Result<Value, String> {
        serde_json::from_str(text).map_err(|error| format!("the data file is wrong: {error}: {text}"))
    }

    fn compare(&mut self, status: u16, json: Option<&str>) -> Result<(), String> {
        let answer = self.answer()?.clone();
        if answer.status != status {
            return Err(format!("{} instead of {status}: {}", answer.status, shorten(&answer.text())));
        }
        let Some(json) = json else { return Ok(()) };
        if answer.header("content-type") != Some("application/json") {
            return Err(format!("the answer is no JSON: {:?}", answer.headers));
        }
        let (expected, got) = (self.json(json)?, answer.json());
        matches(&expected, &got, &mut self.names)
            .map_err(|reason| format!("{reason}\n  got: {}", shorten(&got.to_string())))
    }

    fn eventually(&mut self, status: u16, json: Option<&str>) -> Result<(), String> {
        let mut outcome = self.compare(status, json);
        wait::attempt(wait::LIMIT, || {
            if outcome.is_ok() {
                return Some(());
            }
            let again = self.sent.as_ref().map(|sent| self.request(sent));
            self.answer = again;
            outcome = self.compare(status, json);
            outcome.is_ok().then_some(())
        });
        outcome
    }

    fn fits(&mut self, expected: &str, got: &str) -> Result<(), String> {
        let pattern = Pattern::compile(expected, &self.names)?;
        let found = pattern
            .matches(got.as_bytes())
            .ok_or_else(|| format!("expected: {}\n  got:      {}", shorten(expected), shorten(got)))?;
        self.names.extend(found);
        Ok(())
    }

    fn shell(&self, command: &str) -> Result<String, String> {
        let text = pattern::render_text(command, &self.names)?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-ec").arg(format!("umask 022\n{text}"));
        house::set_base_environment(&mut shell, &self.directory);
        shell.current_dir(&self.directory);
        let output = house::run(shell);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{text}` ended with {}: {}{}", output.status, printed.trim_end(), complaint.trim_end()))
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= 1000 {
        return text.to_owned();
    }
    let head: String = text.chars().take(300).collect();
    format!("{head} …({} bytes)", text.len())
}
