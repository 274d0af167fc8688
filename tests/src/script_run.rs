//! Plays a data file against a house.
//!
//! Two ways: *check* compares every answer with the file and collects what differs; *record* only
//! notes the answers, so that two programs can be compared with each other. Either way each case
//! has a directory and a connection of its own; the daemon is shared unless a case asks otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::client::Client;
use crate::frames::Transcript;
use crate::house::{self, House, Options};
use crate::pattern::{self, Names, Pattern};
use crate::script::{Action, Case, Script};
use crate::wait;

/// One answer, as noted for a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// `file/case`.
    pub case: String,
    /// The line in the data file.
    pub line: usize,
    /// What was sent last.
    pub request: String,
    /// What came, with the parts that vary from run to run replaced.
    pub answer: String,
}

/// What playing a file brought.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What differed from the file, one text each.
    pub failures: Vec<String>,
    /// Every answer.
    pub observations: Vec<Observation>,
    /// Cases left out here, with the reason.
    pub skipped: Vec<String>,
    /// How many expectations were looked at.
    pub expectations: usize,
}

/// Plays all cases of a script in directories below `work`, which is made and emptied.
///
/// # Panics
/// If the house cannot be started.
pub fn play(script: &Script, options: &Options, work: &Path, compare: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let home = work.join("home");
    fs::create_dir_all(&home).expect("a home directory");
    let mut options = options.clone();
    options.home = Some(home);
    let mut house = House::start_with(options.clone());
    for (index, case) in script.cases.iter().enumerate() {
        let directory = work.join(format!("case{}", index + 1));
        fs::create_dir_all(&directory).expect("a case directory");
        let run = CaseRun {
            script,
            case,
            directory,
            compare,
            limit: Duration::from_secs(if compare { 20 } else { 10 }),
            names: Names::new(),
            varying: BTreeSet::new(),
            transcripts: BTreeMap::new(),
            last_request: String::new(),
            last_id: 0,
        };
        run.play(&mut house, &mut outcome);
        if case.steps.iter().any(|step| step.action == Action::FreshDaemon) {
            house = House::start_with(options.clone());
        }
    }
    outcome
}

struct CaseRun<'a> {
    script: &'a Script,
    case: &'a Case,
    directory: PathBuf,
    compare: bool,
    limit: Duration,
    names: Names,
    /// Names whose values came from an answer.
    varying: BTreeSet<String>,
    transcripts: BTreeMap<String, Transcript>,
    last_request: String,
    last_id: u64,
}

impl CaseRun<'_> {
    fn play(mut self, house: &mut House, outcome: &mut Outcome) {
        self.fill_names(house);
        let mut client = house.connect();
        for step in &self.case.steps {
            if let Action::OnlyIf(command) = &step.action {
                if self.shell(command, house).is_err() {
                    outcome.skipped.push(format!("{}/{}: not so here: {command}", self.script.name, self.case.title));
                    return;
                }
                continue;
            }
            if step.action.expects() {
                outcome.expectations += 1;
            }
            match self.step(&step.action, &mut client, house) {
                Ok(Some((expected, got))) => {
                    let pattern = Pattern::compile(&expected, &self.names);
                    match pattern {
                        Ok(pattern) => self.note(step.line, &expected, &pattern, &got, outcome),
                        Err(reason) => outcome.failures.push(self.failure(step.line, &reason)),
                    }
                }
                Ok(None) => {}
                Err(reason) => {
                    self.observe(step.line, &format!("({reason})"), outcome);
                    outcome.failures.push(self.failure(step.line, &reason));
                    if self.compare {
                        break;
                    }
                }
            }
        }
    }

    fn fill_names(&mut self, house: &House) {
        let mut put = |name: &str, value: &Path| {
            self.names.insert(name.to_owned(), house::path_text(value).to_owned());
        };
        put("DIR", &self.directory);
        put("HOME", &house.home());
        put("SOCKET", &house.socket());
        put("CWD", house.path());
        put("CHILD", &crate::binary::testchild());
        self.names.insert("TOKEN".to_owned(), house.token().to_owned());
    }

    fn failure(&self, line: usize, reason: &str) -> String {
        let request = shorten(&self.last_request);
        format!("{}.txt:{line} ({})\n  sent:     {request}\n  {reason}", self.script.name, self.case.title)
    }

    fn observe(&self, line: usize, answer: &str, outcome: &mut Outcome) {
        // The house's own directory differs between two programs that are compared.
        let house = Path::new(&self.names["CWD"]).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let answer = answer.replace(&house, "HOUSE");
        outcome.observations.push(Observation {
            case: format!("{}/{}", self.script.name, self.case.title),
            line,
            request: self.last_request.clone(),
            answer,
        });
    }

    fn note(&mut self, line: usize, expected: &str, pattern: &Pattern, got: &str, outcome: &mut Outcome) {
        let loose = Pattern::compile_loosely(expected, &self.names, &self.varying).unwrap_or_else(|_| pattern.clone());
        let masked = String::from_utf8_lossy(&loose.mask(got.as_bytes())).into_owned();
        self.observe(line, &masked, outcome);
        if let Some(found) = pattern.matches(got.as_bytes()) {
            self.varying.extend(found.keys().cloned());
            self.names.extend(found);
        } else {
            let shown = pattern::render_text(expected, &self.names).unwrap_or_else(|_| expected.to_owned());
            let reason = format!("expected: {}\n  got:      {}", shorten(&shown), shorten(got));
            outcome.failures.push(self.failure(line, &reason));
        }
    }

    /// Does one step; an answer is given back beside the text that describes it.
    fn step(
        &mut self,
        action: &Action,
        client: &mut Client,
        house: &mut House,
    ) -> Result<Option<(String, String)>, String> {
        match action {
            Action::Shell(command) => {
                self.shell(command, house)?;
            }
            Action::Capture(name, command) => {
                let output = self.shell(command, house)?;
                self.names.insert(name.clone(), output.trim_end().to_owned());
            }
            Action::Send(line) => {
                let mut bytes = pattern::render(line, &self.names)?;
                bytes.push(b'\n');
                self.send(client, &bytes)?;
            }
            Action::SendPart(text) => {
                let bytes = pattern::render(text, &self.names)?;
                self.send(client, &bytes)?;
            }
            Action::Call(method, params) => {
                self.last_id += 1;
                let id = self.last_id;
                let params = params.as_ref().map_or_else(String::new, |params| format!(r#","params":{params}"#));
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params},"auth":"${{TOKEN}}"}}"#);
                let mut bytes = pattern::render(&line, &self.names)?;
                bytes.push(b'\n');
                self.send(client, &bytes)?;
            }
            Action::Reply(line) => return Ok(Some((line.clone(), reply(client, self.limit)?))),
            Action::Result(result) => {
                let id = self.last_id;
                return Ok(Some((
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
                    reply(client, self.limit)?,
                )));
            }
            Action::Error(code, message) => {
                let id = self.last_id;
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#);
                return Ok(Some((line, reply(client, self.limit)?)));
            }
            Action::Frame(line) => {
                let frame = client.try_frame(self.limit).map_err(|trouble| format!("no frame: {trouble}"))?;
                let transcript =
                    self.transcripts.entry(frame.process.clone()).or_insert_with(|| Transcript::after(frame.seq - 1));
                if frame.seq == 1 && transcript.exit.is_some() {
                    // The id was used again: a new process counts from one.
                    *transcript = Transcript::default();
                }
                transcript.take(&frame)?;
                return Ok(Some((line.clone(), frame.raw)));
            }
            Action::Stdout(process, text) => {
                return self.output(client, process, text, |transcript| &transcript.stdout).map(Some);
            }
            Action::Stderr(process, text) => {
                return self.output(client, process, text, |transcript| &transcript.stderr).map(Some);
            }
            Action::Exit(process, code) => {
                let process = pattern::render_text(process, &self.names)?;
                while self.transcript(&process).exit.is_none() {
                    let frame =
                        client.try_frame_of(&process, self.limit).map_err(|trouble| format!("no frame: {trouble}"))?;
                    self.transcript(&process).take(&frame)?;
                }
                let exit = self.transcript(&process).exit.unwrap_or_default();
                return Ok(Some((format!("exit {code}"), format!("exit {exit}"))));
            }
            Action::Closed => client.try_closed(self.limit)?,
            Action::HalfClose => client.half_close(),
            Action::Reconnect => {
                *client = house.try_connect().map_err(|error| format!("cannot connect again: {error}"))?;
                self.transcripts.clear();
            }
            Action::FreshDaemon => {
                *house = House::start_with(house.options().clone());
                self.fill_names(house);
                *client = house.connect();
            }
            Action::DaemonGone => {
                let daemon = house.daemon();
                wait::attempt(self.limit, || (!daemon.alive()).then_some(())).ok_or("the daemon still runs")?;
            }
            Action::OnlyIf(_) => {}
            Action::Log(text) => {
                let text = pattern::render_text(text, &self.names)?;
                wait::attempt(self.limit, || house.log().contains(&text).then_some(()))
                    .ok_or_else(|| format!("no log line contains: {text}\n  the log is:\n{}", house.log()))?;
            }
        }
        Ok(None)
    }

    fn send(&mut self, client: &mut Client, bytes: &[u8]) -> Result<(), String> {
        self.last_request = String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
        client.send(bytes).map_err(|error| format!("cannot send: {error}"))
    }

    fn transcript(&mut self, process: &str) -> &mut Transcript {
        self.transcripts.entry(process.to_owned()).or_default()
    }

    fn output(
        &mut self,
        client: &mut Client,
        process: &str,
        text: &str,
        part: impl Fn(&Transcript) -> &Vec<u8>,
    ) -> Result<(String, String), String> {
        let process = pattern::render_text(process, &self.names)?;
        let wanted = pattern::render(text, &self.names)?;
        loop {
            let transcript = self.transcript(&process);
            if part(transcript).len() >= wanted.len() || transcript.exit.is_some() {
                let got = part(transcript).clone();
                return Ok((format!("{text:?}"), format!("{:?}", String::from_utf8_lossy(&got))));
            }
            let frame = client.try_frame_of(&process, self.limit).map_err(|reason| {
                let so_far = String::from_utf8_lossy(part(self.transcript(&process))).into_owned();
                format!("{reason}; so far {so_far:?} of {text:?}")
            })?;
            self.transcript(&process).take(&frame)?;
        }
    }

    fn shell(&mut self, command: &str, house: &House) -> Result<String, String> {
        let text = pattern::render_text(command, &self.names)?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-ec").arg(format!("umask 022\n{text}"));
        house.set_environment(&mut shell);
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

fn reply(client: &mut Client, limit: Duration) -> Result<String, String> {
    client.try_reply(limit).map_err(|trouble| format!("no reply: {trouble}"))
}

fn shorten(text: &str) -> String {
    if text.len() <= 1200 {
        return text.to_owned();
    }
    let head: String = text.chars().take(600).collect();
    let tail: Vec<char> = text.chars().rev().take(200).collect();
    format!("{head} …({} bytes)… {}", text.len(), tail.iter().rev().collect::<String>())
}
