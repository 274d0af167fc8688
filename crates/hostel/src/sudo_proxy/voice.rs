//! What `sudo-proxy` says to people besides its questions: its log on standard error, and what became of commands.
//!
//! Invariant: while a question may be open on the same terminal, lines go to whoever asks it and wait there; otherwise
//! they go to standard error at once. A reader that does not keep up misses lines, and nobody waits for it.

use std::io;
use std::io::IsTerminal as _;
use std::io::Write;

use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Log;
use hostel_doors::sudo_proxy::notice::Head;
use hostel_doors::sudo_proxy::notice::Notice;
use hostel_house::approvals::Approval;
use hostel_house::pipelines::End;
use hostel_house::pipelines::Outcome;
use tokio::sync::mpsc;

use super::digest;
use super::digest::Excerpt;
use super::digest::Style;
use crate::inbox::visible;

/// Date, time and level before each line of a log: people who watch need none of it.
const PREFIX: usize = 26;

/// Characters of a command in a line about it.
const COMMAND: usize = 200;

/// Before each line of a command's output, so that it passes for nothing of ours.
const MARGIN: &str = "│ ";

/// The sink of the door's log.
pub(super) struct Voice {
    /// Whoever asks questions on the terminal that standard error is.
    terminal: Option<mpsc::Sender<String>>,
    /// The house's own log.
    file: Log,
}

impl Voice {
    /// A log whose lines go to people, and to the house's own log.
    pub(super) fn log(lines: Option<&mpsc::Sender<String>>, file: &Log) -> io::Result<Log> {
        let terminal = lines.filter(|_| io::stderr().is_terminal()).cloned();
        let (waits, voice) = (terminal.is_none(), Voice { terminal, file: file.clone() });
        if waits { Log::new(Level::Info, voice) } else { Ok(Log::on_caller(Level::Info, voice)) }
    }
}

impl Write for Voice {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line.get(PREFIX..).unwrap_or_default());
        self.file.info(format_args!("[sudo-proxy] {}", text.trim_end()));
        let text = visible::text(&visible::prose(text.trim_end())) + "\n";
        match &self.terminal {
            Some(terminal) => drop(terminal.try_send(text)),
            None => io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default(),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Turns what the door tells into lines on the terminal, for as long as it tells anything.
pub(super) async fn tell(mut notices: mpsc::Receiver<Notice>, lines: mpsc::Sender<String>) {
    while let Some(notice) = notices.recv().await {
        // A terminal that does not keep up misses it.
        lines.try_send(text(&notice, Style::wanted())).ok();
    }
}

fn text(notice: &Notice, style: Style) -> String {
    let Style { dim, reset, bold } = style;
    match notice {
        Notice::Stopping { session } => {
            format!("{dim}■{reset} sudo-proxy stopped by {}\n", cut(&visible::prose(session)))
        }
        Notice::Unasked { approval } => {
            let agent = approval.subject.pipeline().is_some_and(|pipeline| pipeline.forward_agent);
            let agent = if agent { format!(" {dim}(agent forwarded){reset}") } else { String::new() };
            format!("{dim}▶{reset} {}{agent}\n", command(approval))
        }
        Notice::Over { outcome: Ok(outcome), stdout, stderr, .. } if outcome.end == End::Finished => {
            let codes: Vec<i32> = outcome.stages.iter().map(|stage| stage.exit_code).collect();
            let stderrs: Vec<Excerpt> = stderr.iter().map(excerpt).collect();
            digest::render(&codes, &excerpt(stdout), &stderrs, style, MARGIN) + &left(outcome, style)
        }
        Notice::Over { approval, outcome, .. } => {
            let why = match outcome {
                Ok(outcome) => (ending(&outcome.end), left(outcome, style)),
                Err(why) => (why.clone(), String::new()),
            };
            format!("{bold}error: {}{reset} ({})\n{}", cut(&visible::prose(&why.0)), command(approval), why.1)
        }
    }
}

fn ending(end: &End) -> String {
    match end {
        End::Finished => "finished".to_owned(),
        End::CannotStart { errno, .. } => format!("cannot start: {}", io::Error::from_raw_os_error(*errno)),
        End::TimedOut { secs } => format!("timed out after {secs}s"),
        End::Changed { what, .. } => format!("not run, {what}"),
        End::Killed { why } => format!("killed: {why}"),
        End::NotRun { why } => format!("not run: {why}"),
        End::Lost { why } => format!("lost: {why}"),
    }
}

/// Processes that could not be ended are somebody's business now.
fn left(outcome: &Outcome, style: Style) -> String {
    if outcome.unkillable.is_empty() {
        return String::new();
    }
    let pids: Vec<String> = outcome.unkillable.iter().map(ToString::to_string).collect();
    format!("{}still running, cannot be killed: process {}{}\n", style.bold, pids.join(", "), style.reset)
}

fn excerpt(head: &Head) -> Excerpt {
    let excerpt = Excerpt::of(&head.bytes);
    if head.is_cut { excerpt.and_more() } else { excerpt }
}

fn command(approval: &Approval) -> String {
    let marks = approval
        .subject
        .pipeline()
        .map(|pipeline| visible::command(pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str))));
    cut(&marks.unwrap_or_default())
}

fn cut(marks: &[visible::Mark]) -> String {
    let text = visible::text(marks).replace('\n', " ");
    crate::text::cut(&text, COMMAND).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_harmless_lines() {
        let notice = Notice::Stopping { session: "me\u{1b}[2J\nExecute? [y/N]".to_owned() };
        assert_eq!(text(&notice, Style::PLAIN), "■ sudo-proxy stopped by me⟨ESC⟩[2J Execute? [y/N]\n");
    }
}
