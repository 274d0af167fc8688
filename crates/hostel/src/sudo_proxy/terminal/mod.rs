//! The face of `sudo-proxy`: one question at a time on its own terminal, answered by one key.
//!
//! Invariant: only a key that was pressed after the whole question stood there answers it, and only that one; where a
//! question was taken away, the next one waits until a key that was meant for the first has come and gone. Nothing
//! else is written to the terminal while a question is open: it waits, and what waits is bounded. A request that is
//! settled elsewhere takes its question away, with a line that says so.
//!
//! A question that does not fit on the screen is shown page by page, and agreeing counts only after the last one. Code
//! that others can change runs as root only after a word was typed that says so.
//!
//! It starts nothing and keeps no clock: the house does both.

mod prompt;
mod tty;

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use hostel_agents::Decision;
use hostel_doors::claustrum::Log;
use hostel_doors::sudo_proxy;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Claim;
use hostel_house::approvals::DecideError;
use hostel_house::approvals::Face;
use hostel_house::approvals::Kind;
use hostel_house::approvals::Passphrase;
use hostel_house::approvals::State;
use hostel_house::pipelines::PasswordWanted;
use hostel_house::pipelines::Privilege;
use hostel_peer::Peer;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::Instant;

use super::digest::Style;
use crate::commands::now_ns;
use crate::inbox::passphrase;
use crate::inbox::visible;
use prompt::Asking;
use prompt::Question;
use tty::Keys;
pub(super) use tty::Tty;

/// Lines that may wait for an open question to be answered; more are not shown here.
pub(super) const WAITING: usize = 256;

/// Bytes of lines that are written at once.
const MUCH: usize = 16 << 10;

/// How long a secret may take to be typed.
const TYPING: Duration = Duration::from_secs(60);

/// How long after a question was taken away a key may still be meant for it: somebody who is about to press it needs a
/// moment to see that it is gone.
const STARTLED: Duration = Duration::from_secs(1);

/// The line under every question.
const BAR: &str = "━━━━━━━━━━━━━━━━━━━━━━━━━";

/// The word that confirms that others can change what runs as root.
const CONFIRMATION: &str = "changeable";

/// The terminal as a place where requests are decided.
pub(super) struct Terminal {
    pub(super) tty: Tty,
    pub(super) approvals: Approvals,
    /// Lines for people, each harmless and with its end.
    pub(super) lines: mpsc::Receiver<String>,
    pub(super) passwords: mpsc::Receiver<PasswordWanted>,
    /// A key alone decides nothing.
    pub(super) strict: bool,
    pub(super) log: Log,
}

/// What came of asking.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Asked {
    /// It needs no more asking, or has to be asked again.
    Done,
    /// It was settled elsewhere while it stood there.
    TakenAway,
    /// It cannot be decided here.
    NotHere,
}

/// What became of a question.
enum Answer {
    Key(u8),
    /// It was settled elsewhere.
    Over,
}

impl Terminal {
    /// Asks until told to stop, or until the terminal is gone.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) {
        let attached = self.approvals.face();
        let log = self.log.clone();
        tokio::select! {
            () = stop => {}
            outcome = self.work() => if let Err(error) = outcome {
                log.error(format_args!("[sudo-proxy] the terminal is gone: {error}"));
            }
        }
        drop(attached);
        // The last words, while there is somewhere to say them.
        while let Ok(line) = self.lines.try_recv() {
            self.say(line).await.unwrap_or_default();
        }
    }

    /// Writes a line, and those that wait, at once.
    async fn say(&mut self, mut text: String) -> io::Result<()> {
        while text.len() < MUCH
            && let Ok(line) = self.lines.try_recv()
        {
            text.push_str(&line);
        }
        self.tty.write(&text).await
    }

    async fn work(&mut self) -> io::Result<()> {
        let mut changed = self.approvals.changed();
        // Requests that cannot be decided here.
        let mut passed = HashSet::new();
        // Before that no key is an answer.
        let mut calm = Instant::now();
        loop {
            changed.mark_unchanged();
            self.say(String::new()).await?;
            if let Ok(wanted) = self.passwords.try_recv() {
                self.ask_password(wanted).await?;
                continue;
            }
            let waiting = self.waiting();
            passed.retain(|id| waiting.iter().any(|approval| approval.id == *id));
            if let Some(approval) = waiting.into_iter().find(|approval| !passed.contains(&approval.id)) {
                let id = approval.id.clone();
                match self.ask(approval, &mut changed, calm).await? {
                    Asked::Done => {}
                    Asked::TakenAway => calm = Instant::now() + STARTLED,
                    Asked::NotHere => drop(passed.insert(id)),
                }
                continue;
            }
            tokio::select! {
                Some(line) = self.lines.recv() => self.say(line).await?,
                Some(wanted) = self.passwords.recv() => self.ask_password(wanted).await?,
                more = changed.changed() => if more.is_err() {
                    return Ok(());
                },
            }
        }
    }

    /// What waits to be decided, oldest first. What pkexec asks about is not asked twice, unless there is something to
    /// confirm that pkexec does not know of.
    fn waiting(&self) -> Vec<Approval> {
        let is_ours = |approval: &Approval| {
            approval.requester.door == sudo_proxy::NAME
                && approval.subject.pipeline().is_some_and(|pipeline| {
                    pipeline.privilege != Privilege::Pkexec || !pipeline.changeable_code().is_empty()
                })
        };
        let mut waiting: Vec<Approval> = self.approvals.pending().into_iter().filter(is_ours).collect();
        waiting.sort_by_key(|approval| approval.created_ns);
        waiting
    }

    /// Asks one question; it stands there at the moment `calm` at the earliest.
    async fn ask(
        &mut self,
        approval: Approval,
        changed: &mut watch::Receiver<u64>,
        calm: Instant,
    ) -> io::Result<Asked> {
        tokio::select! {
            () = self.tty.ours() => {}
            // It may have been settled; look again.
            _ = changed.changed() => return Ok(Asked::Done),
        }
        if let Err(error) = self.approvals.shown(&approval.id).await {
            self.log.error(format_args!("[sudo-proxy] {}: {error}", approval.id));
            return Ok(Asked::NotHere);
        }
        // With the clock that has begun now.
        let Some(approval) = self.approvals.pending().into_iter().find(|waiting| waiting.id == approval.id) else {
            return Ok(Asked::Done);
        };
        let always = approval.kind == Kind::Pipeline && self.approvals.session_grant().eligible();
        let style = Style::wanted();
        let asking = Asking {
            always,
            seconds: Duration::from_nanos(approval.expires_ns.saturating_sub(now_ns())).as_millis().div_ceil(1000)
                as u64,
            size: self.tty.size(),
            style,
        };
        let keys = self.tty.keys()?;
        let question = prompt::render(&approval, &asking);
        let answer = self.put(&question, &approval, &keys, changed, calm, style).await?;
        let (label, asked) = match answer {
            Answer::Over => (self.became(&approval.id).await, Asked::TakenAway),
            Answer::Key(key) => {
                let mut decision = meaning(key, approval.kind);
                if decision == Decision::AllowOnce && self.has_to_be_confirmed(&approval) {
                    decision = self.confirmed(&keys).await?;
                }
                let takes_passphrase = self.strict && decision != DENIED;
                if let (true, Err(error)) = (takes_passphrase, passphrase::check_memory_private()) {
                    drop(keys);
                    self.tty.write(&format!("\n→ Not decided: {error}\n")).await?;
                    return Ok(Asked::NotHere);
                }
                let claim = match takes_passphrase {
                    true => {
                        self.tty.write("\nApprover's passphrase: ").await?;
                        let typed = tokio::time::timeout(TYPING, keys.secret()).await;
                        let typed = typed.ok().transpose()?.flatten().unwrap_or_default();
                        claim(Face::Passphrase(Passphrase::new(String::from_utf8_lossy(&typed).into_owned())))
                    }
                    false => claim(Face::Terminal),
                };
                let (label, decided) = self.decide(&approval.id, decision, &claim, always).await;
                (label, if decided { Asked::Done } else { Asked::NotHere })
            }
        };
        drop(keys);
        self.tty.write(&format!("\n→ {label}\n{}{BAR}{}\n", style.bold, style.reset)).await?;
        Ok(asked)
    }

    /// Shows a question page by page and waits for the key that answers it. The first page stands there at the moment
    /// `calm` at the earliest.
    async fn put(
        &self,
        question: &Question,
        approval: &Approval,
        keys: &Keys<'_>,
        changed: &mut watch::Receiver<u64>,
        calm: Instant,
        style: Style,
    ) -> io::Result<Answer> {
        let pages = question.pages.len();
        for (position, page) in question.pages.iter().enumerate() {
            let is_last = position + 1 == pages;
            self.tty.write(page).await?;
            if position == 0 {
                tokio::time::sleep_until(calm).await;
            }
            // What was typed before the question stands there answers nothing; what is typed after counts at once.
            keys.forget();
            let ask = if is_last { question.ask.clone() } else { prompt::more(position + 1, pages, style) };
            self.tty.write(&ask).await?;
            loop {
                match self.key(approval, keys, changed).await? {
                    Answer::Key(key) if !is_last && is_next_page(key) => break,
                    Answer::Key(key) if !is_last && meaning(key, approval.kind) != DENIED => {
                        self.tty.write("\nThis is not all of it; Space shows the next page. ").await?;
                    }
                    answer => return Ok(answer),
                }
            }
            self.tty.write("\n").await?;
        }
        Ok(Answer::Over)
    }

    /// The next key, unless the request is settled elsewhere first.
    async fn key(
        &self,
        approval: &Approval,
        keys: &Keys<'_>,
        changed: &mut watch::Receiver<u64>,
    ) -> io::Result<Answer> {
        loop {
            tokio::select! {
                key = keys.next() => return Ok(Answer::Key(key?)),
                _ = changed.changed() => {
                    if !self.approvals.pending().iter().any(|waiting| waiting.id == approval.id) {
                        return Ok(Answer::Over);
                    }
                }
            }
        }
    }

    fn has_to_be_confirmed(&self, approval: &Approval) -> bool {
        let pipeline = approval.subject.pipeline();
        approval.kind == Kind::Privileged && pipeline.is_some_and(|pipeline| !pipeline.changeable_code().is_empty())
    }

    /// Has the word typed that confirms that others can change what runs as root. The warnings above say what exactly.
    async fn confirmed(&self, keys: &Keys<'_>) -> io::Result<Decision> {
        let text = format!(
            "\nOthers than root can change what would run as root, see the warnings above.\n\
             Type {CONFIRMATION} to run it all the same, anything else denies: "
        );
        self.tty.write(&text).await?;
        let typed = tokio::time::timeout(TYPING, keys.word(CONFIRMATION.len() + 1)).await;
        let typed = typed.ok().transpose()?.flatten().unwrap_or_default();
        Ok(if typed == CONFIRMATION { Decision::AllowChangeable } else { DENIED })
    }

    /// Applies an answer and says what it did; false if it cannot be applied here.
    async fn decide(&self, id: &str, decision: Decision, claim: &Claim, always: bool) -> (String, bool) {
        let label = match &decision {
            Decision::AllowOnce | Decision::AllowChangeable => "Approved",
            Decision::AllowAlways if always => "Approved (unattended for this session)",
            Decision::AllowAlways => "Approved",
            _ => "Denied",
        };
        match self.approvals.decide(id, decision, claim).await {
            Ok(_) => (label.to_owned(), true),
            Err(DecideError::Settled(_) | DecideError::NotFound(_)) => (self.became(id).await, true),
            Err(error @ DecideError::WrongPassphrase { .. }) => (format!("Not decided: {error}"), true),
            Err(error) => (format!("Not decided: {error}; see `hostel approvals show {id}`"), false),
        }
    }

    /// What became of a request that was not settled here.
    async fn became(&self, id: &str) -> String {
        let approval = self.approvals.get(id).await.ok().flatten();
        let by = |approval: &Approval| match approval.decider.as_str() {
            "" => String::new(),
            decider => format!(", by {}", visible::text(&visible::word(decider))),
        };
        match approval {
            Some(approval) => match approval.state {
                State::Expired => "Timeout".to_owned(),
                State::Withdrawn => "Withdrawn: whoever asked does not wait any more".to_owned(),
                State::Approved => format!("Approved elsewhere{}", by(&approval)),
                State::Denied => format!("Denied elsewhere{}", by(&approval)),
                State::Pending => "Not decided".to_owned(),
            },
            None => "Withdrawn".to_owned(),
        }
    }

    /// Has sudo's password typed for a command that runs.
    async fn ask_password(&mut self, mut wanted: PasswordWanted) -> io::Result<()> {
        tokio::select! {
            () = self.tty.ours() => {}
            // sudo ended without it.
            () = wanted.answer.closed() => return Ok(()),
        }
        if let Err(error) = passphrase::check_memory_private() {
            drop(wanted.answer.send(None));
            return self.tty.write(&format!("\n→ No password was given: {error}\n")).await;
        }
        let keys = self.tty.keys()?;
        self.tty.write(&password_question(&wanted)).await?;
        keys.forget();
        self.tty.write("Password: ").await?;
        let typed = tokio::select! {
            typed = tokio::time::timeout(TYPING, keys.secret()) => typed.ok().transpose()?.flatten(),
            () = wanted.answer.closed() => None,
        };
        drop(keys);
        let typed = typed.filter(|typed| !typed.is_empty());
        let label = if typed.is_some() { "" } else { "→ No password was given\n" };
        self.tty.write(&format!("\n{label}")).await?;
        // Whoever wanted it may be gone.
        drop(wanted.answer.send(typed));
        // Says nothing if the password has reached sudo.
        if let Ok(Ok(what)) = tokio::time::timeout(TYPING, wanted.refused).await {
            let what = visible::text(&visible::prose(&what)).replace('\n', " ");
            self.tty.write(&format!("→ The password was not passed on: {what}\n")).await?;
        }
        Ok(())
    }
}

/// What a password is for.
fn password_question(wanted: &PasswordWanted) -> String {
    const COMMAND: usize = 200;
    let words = wanted.pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str));
    let command = visible::text(&visible::command(words)).replace('\n', " ");
    format!("\nsudo needs your password for: {}\n", crate::text::cut(&command, COMMAND))
}

/// A no without a reason.
const DENIED: Decision = Decision::Reject(String::new());

fn is_next_page(key: u8) -> bool {
    matches!(key, b' ' | b'\r' | b'\n')
}

/// What a key says: `y` agrees, `a` agrees to all that is not for root, anything else refuses.
fn meaning(key: u8, kind: Kind) -> Decision {
    match key {
        b'y' | b'Y' => Decision::AllowOnce,
        b'a' | b'A' if kind == Kind::Pipeline => Decision::AllowAlways,
        _ => DENIED,
    }
}

fn claim(face: Face) -> Claim {
    Claim { face, peer: Peer::own(), label: "the terminal of sudo-proxy".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_agrees_and_another_for_what_is_not_root() {
        for key in 0..=u8::MAX {
            for kind in [Kind::Pipeline, Kind::Privileged] {
                let expected = match (key, kind) {
                    (b'y' | b'Y', _) => Decision::AllowOnce,
                    (b'a' | b'A', Kind::Pipeline) => Decision::AllowAlways,
                    _ => Decision::Reject(String::new()),
                };
                assert_eq!(meaning(key, kind), expected, "{key} {kind:?}");
            }
        }
    }
}
