//! sudo's password: asked for when sudo asks, and written into a pipe that only sudo reads.
//!
//! sudo reads its standard input (`-S`). It announces that it wants a password by its prompt, which is a random text here
//! and appears on its standard error; it stands in sudo's environment, which nobody but root can read. So the first
//! appearance of that text proves that sudo itself asks. A command that has been started gets no password: sudo asks
//! again only while it has no child.
//!
//! Guarantees: the password is written to the pipe of an approved privileged request and nowhere else, after one more
//! look at the files; it is on no disk, in no argument and no log, and memory that held it is wiped. The pipe is closed as
//! soon as the command runs, so that a command finds nothing but the end of its input.
//!
//! It knows no terminal: whoever shows the question gets a [`PasswordWanted`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::PipeFlags;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};
use zeroize::Zeroizing;

use super::plan::Pipeline;
use super::run::look_again;
use crate::processes::{Batch, Item, Next, Process, ProcessId, Stream};

/// How often sudo may ask for one request: as often as it does by itself.
const MAX_ATTEMPTS: u32 = 3;
/// Bytes of standard error that are searched: a lecture, messages about wrong passwords, the prompts.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
/// How often it is checked whether the command has been started.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A child of sudo that lives this long is the command, and no helper of the system's authentication.
const HELPER_LIFE: Duration = Duration::from_millis(300);

const PROMPT_START: &str = "[hostel-sudo-";
const PROMPT_DIGITS: usize = 32;
const PROMPT_END: &str = "]";

/// A password that is not printed and is wiped.
pub type Password = Zeroizing<Vec<u8>>;

/// sudo wants a password.
#[derive(Debug)]
pub struct PasswordWanted {
    /// The request it is for.
    pub approval: String,
    /// What will run.
    pub pipeline: Pipeline,
    /// Where the password goes; none if it was not given.
    pub answer: oneshot::Sender<Option<Password>>,
    /// Hears why a password that was given did not reach sudo.
    pub refused: oneshot::Receiver<String>,
}

/// Where passwords are asked for.
pub type PasswordDesk = mpsc::Sender<PasswordWanted>;

/// The text by which sudo announces that it wants a password.
#[derive(Clone, Debug)]
pub(super) struct Prompt(String);

impl Prompt {
    pub(super) fn random() -> io::Result<Self> {
        let digits = ProcessId::random()?.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(Self(format!("{PROMPT_START}{digits}{PROMPT_END}")))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// sudo's standard input: its end for sudo, and ours.
pub(super) struct PasswordPipe {
    pub(super) prompt: Prompt,
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

impl PasswordPipe {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        Ok(Self { prompt: Prompt::random()?, reader, writer })
    }
}

/// What a run of sudo needs to have its password typed.
pub(super) struct Attendance<'a> {
    pub(super) process: &'a Arc<Process>,
    /// What the kernel calls it until it becomes the command.
    pub(super) sudo: &'a str,
    pub(super) prompt: &'a Prompt,
    pub(super) desk: &'a PasswordDesk,
    pub(super) approval: &'a str,
    pub(super) pipeline: &'a Pipeline,
    /// The approver has confirmed that others can change what runs.
    pub(super) is_confirmed: bool,
}

impl Attendance<'_> {
    /// Answers sudo until the command runs or sudo has ended.
    pub(super) async fn serve(&self, writer: OwnedFd) {
        let Ok(mut writer) = tokio::net::unix::pipe::Sender::from_owned_fd(writer) else { return };
        let Ok(mut watch) = self.process.watch(0) else { return };
        let mut batch = Batch::default();
        let mut printed = Vec::new();
        let mut answered = 0;
        let mut commands = CommandStart::default();
        loop {
            let next = tokio::select! {
                next = watch.next(&mut batch) => next,
                () = tokio::time::sleep(CHECK_INTERVAL) => {
                    if commands.has_started(self.process, self.sudo).await {
                        return;
                    }
                    continue;
                }
            };
            match next {
                Ok(Next::Items) => {}
                Ok(Next::Ended | Next::Replaced) | Err(_) => return,
            }
            for item in batch.items() {
                if let Item::Output { stream: Stream::Err, data, .. } = item {
                    printed.extend_from_slice(data);
                }
            }
            let asked = occurrences(&printed, self.prompt.text().as_bytes());
            if asked > answered {
                // What sudo has started may print anything; it gets no password.
                if answered > 0 && !self.process.offspring().await.is_empty() {
                    return;
                }
                answered += 1;
                let Some(line) = self.ask().await else { return };
                if writer.write_all(&line).await.is_err() {
                    return;
                }
            }
            if answered >= MAX_ATTEMPTS as usize || printed.len() > MAX_SEARCHED_BYTES {
                return;
            }
        }
    }

    /// The password as a line, if it is given and the files are still those that were approved.
    async fn ask(&self) -> Option<Password> {
        let (answer, answered) = oneshot::channel();
        let (refuse, refused) = oneshot::channel();
        let wanted =
            PasswordWanted { approval: self.approval.to_owned(), pipeline: self.pipeline.clone(), answer, refused };
        self.desk.send(wanted).await.ok()?;
        let mut progress = self.process.progress.subscribe();
        let password = tokio::select! {
            password = answered => password.ok().flatten()?,
            // sudo gave up waiting.
            _ = progress.wait_for(|progress| progress.exit.is_some()) => return None,
        };
        if let Err(what) = look_again(self.pipeline.clone(), self.is_confirmed).await {
            // Whoever typed it may be gone.
            refuse.send(what).ok();
            return None;
        }
        let mut line = Zeroizing::new(Vec::with_capacity(password.len() + 1));
        line.extend_from_slice(&password);
        line.push(b'\n');
        Some(line)
    }
}

/// Notices that sudo has started the command.
#[derive(Default)]
struct CommandStart {
    /// Children of sudo that were seen, and when first.
    since: Option<(Vec<u32>, tokio::time::Instant)>,
}

impl CommandStart {
    async fn has_started(&mut self, process: &Process, sudo: &str) -> bool {
        // sudo becomes the command itself where it has nothing to do afterwards.
        let pid = process.pid();
        let name = hostel_tasks::spawn_blocking(move || std::fs::read_to_string(format!("/proc/{pid}/comm")));
        if name.await.ok().and_then(Result::ok).is_some_and(|name| name.trim_end() != sudo) {
            return true;
        }
        let mut children: Vec<u32> = process.offspring().await.iter().map(|member| member.pid).collect();
        children.sort_unstable();
        if children.is_empty() {
            self.since = None;
            return false;
        }
        match &self.since {
            Some((known, since)) if known.iter().any(|pid| children.contains(pid)) => since.elapsed() >= HELPER_LIFE,
            _ => {
                self.since = Some((children, tokio::time::Instant::now()));
                false
            }
        }
    }
}

fn occurrences(text: &[u8], word: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = rest.windows(word.len()).position(|part| part == word) {
        count += 1;
        rest = rest.get(at + word.len()..).unwrap_or_default();
    }
    count
}

/// Takes sudo's prompts out of what a stage wrote to its standard error: they are this program's words, not the command's.
#[derive(Debug, Default)]
pub(super) struct WithoutPrompts {
    /// The beginning of what may become a prompt.
    held: Vec<u8>,
}

impl WithoutPrompts {
    /// Passes on what is no prompt. The end of `data` may be held back until more is known.
    pub(super) fn pass(&mut self, data: &[u8], mut take: impl FnMut(&[u8])) {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(data);
        let mut rest = text.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == PROMPT_START.as_bytes()[0]) {
            let (before, from) = rest.split_at(at);
            take(before);
            match prompt_at(from) {
                Found::Whole(length) => rest = from.get(length..).unwrap_or_default(),
                Found::None => {
                    let (first, others) = from.split_at(1);
                    take(first);
                    rest = others;
                }
                Found::Beginning => {
                    self.held = from.to_vec();
                    return;
                }
            }
        }
        take(rest);
    }

    /// What was held back and is no prompt after all.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

enum Found {
    Whole(usize),
    /// All there is could be the beginning of one.
    Beginning,
    None,
}

fn prompt_at(text: &[u8]) -> Found {
    let length = PROMPT_START.len() + PROMPT_DIGITS + PROMPT_END.len();
    let fits = |(position, byte): (usize, &u8)| match position.checked_sub(PROMPT_START.len()) {
        None => PROMPT_START.as_bytes().get(position) == Some(byte),
        Some(digit) if digit < PROMPT_DIGITS => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        Some(end) => PROMPT_END.as_bytes().get(end - PROMPT_DIGITS) == Some(byte),
    };
    match text.iter().take(length).enumerate().all(fits) {
        true if text.len() >= length => Found::Whole(length),
        true => Found::Beginning,
        false => Found::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(pieces: &[&str]) -> String {
        let mut filter = WithoutPrompts::default();
        let mut out = Vec::new();
        for piece in pieces {
            filter.pass(piece.as_bytes(), |part| out.extend_from_slice(part));
        }
        out.extend(filter.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prompts_are_taken_out_wherever_they_are_cut() {
        let prompt = Prompt::random().unwrap();
        let text = format!("{0}Sorry, try again.\n{0}[x] [hostel-sudo-nothing] done", prompt.text());
        for cut in 0..=text.len() {
            let (one, two) = text.split_at(cut);
            assert_eq!(without(&[one, two]), "Sorry, try again.\n[x] [hostel-sudo-nothing] done", "{cut}");
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(without(&letters), "Sorry, try again.\n[x] [hostel-sudo-nothing] done");
        // What only begins like one stays.
        let half = &prompt.text()[..20];
        assert_eq!(without(&["oh ", half]), format!("oh {half}"));
    }

    #[test]
    fn prompts_differ_and_are_counted() {
        let (one, other) = (Prompt::random().unwrap(), Prompt::random().unwrap());
        assert_ne!(one.text(), other.text());
        let text = format!("{0} and {0}{1}", one.text(), other.text());
        assert_eq!(occurrences(text.as_bytes(), one.text().as_bytes()), 2);
        assert_eq!(occurrences(b"", one.text().as_bytes()), 0);
    }
}
