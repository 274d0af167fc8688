//! The process that serves a session: read it, feed it; `stopping` stops it.

mod stopping;

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Decision, Setup};
use tokio::time::Instant;

use crate::approvals::{Approval, State};
use crate::processes::{Batch, Member, Next, Process, ProcessId, StdinError, Watch};
use crate::sessions::conversation::{Checkpoint, Conversation, Due, Given, MarkId, Parsed, Said, ShownTool};
use crate::sessions::launch;
use crate::sessions::rows::ProcessIdentity;
use crate::sessions::session::Session;
use crate::sessions::types::SessionOptions;

use stopping::Stop;
pub(super) use stopping::Stopping;

/// Before input that found no room is offered again.
const NO_ROOM: Duration = Duration::from_millis(20);

/// What an agent hears when nobody answered its question.
const NOBODY: &str = "Nobody answered in time, so this was not allowed.";

/// A question that is open.
struct Asked {
    no: u64,
    approval: String,
    request: String,
    answer: Option<Decision>,
    tool: Arc<ShownTool>,
}

/// The process and the conversation with it.
pub(super) struct Talk {
    process: Arc<Process>,
    identity: ProcessIdentity,
    watch: Option<Watch>,
    batch: Batch,
    /// What `batch` holds was read ahead, and is still to be handed out.
    ahead: Option<Next>,
    conversation: Conversation,
    setup: Setup,
    prompt_in_args: bool,
    /// It has served a turn before.
    reused: bool,
    /// Nobody can prove that a prompt which is not in the journal was never given.
    one_try: bool,
    eof: bool,
    ended: bool,
    stop: Stop,
    interrupt_waits: bool,
    /// What it had started when it was asked to stop.
    offspring: Option<Arc<[Member]>>,
    retry: Option<Instant>,
    /// An input of which nobody knows whether the keeper has it: nothing else may be offered in its place.
    unsure: Option<Due>,
    questions: Vec<Asked>,
    /// Bytes of input that the keeper has accepted.
    accepted: u64,
    /// How far the journal went when this began to read it: the last frame, and bytes of input.
    goal: (u64, u64),
    /// When something on the way there was read last, and anything at all.
    heard_at: Instant,
    read_at: Instant,
    /// The checkpoint that this began with was not the last one.
    outdated: bool,
    /// That it has ended is on disk.
    written_off: bool,
}

impl Talk {
    pub(super) fn fresh(
        process: Arc<Process>,
        identity: ProcessIdentity,
        setup: Setup,
        options: &SessionOptions,
    ) -> Self {
        let driver = hostel_agents::driver(&setup);
        Self::at(process, identity, setup, driver, &Checkpoint::default(), options)
    }

    /// Goes on from a checkpoint.
    pub(super) fn at(
        process: Arc<Process>,
        identity: ProcessIdentity,
        setup: Setup,
        driver: Box<dyn hostel_agents::Driver>,
        from: &Checkpoint,
        options: &SessionOptions,
    ) -> Self {
        let watch = process.watch(from.place.seq).ok().map(Watch::with_marks);
        let status = process.status();
        Self {
            accepted: status.stdin_applied,
            goal: (status.last_seq, status.stdin_applied),
            process,
            identity,
            watch,
            batch: Batch::default(),
            ahead: None,
            conversation: Conversation::new(driver, from, options.line_limit),
            prompt_in_args: hostel_agents::launch(&setup).prompt_in_args,
            setup,
            reused: from.saved.is_some(),
            one_try: false,
            eof: false,
            ended: false,
            stop: Stop::No,
            interrupt_waits: false,
            offspring: None,
            retry: None,
            unsure: None,
            questions: Vec::new(),
            heard_at: Instant::now(),
            read_at: Instant::now(),
            outdated: false,
            written_off: false,
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        self.process.id()
    }

    /// What of its row never changes.
    pub(super) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Whether the journal shows that the checkpoint that this began with was not the last one.
    pub(super) fn is_outdated(&self) -> bool {
        self.outdated
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.conversation.last_seq()
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        self.conversation.checkpoint()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// That it has ended is on disk.
    pub(super) fn write_off(&mut self) {
        self.written_off = true;
    }

    pub(super) fn is_written_off(&self) -> bool {
        self.written_off
    }

    /// Everything was read that was there when it was taken up. Before that nothing may be said or stopped: what is
    /// known of the conversation is of an earlier moment.
    pub(super) fn is_current(&self) -> bool {
        let (seq, stdin) = self.goal;
        let read = self.conversation.last_seq() >= seq && self.conversation.stdin() >= stdin;
        read || self.ended || self.watch.is_none()
    }

    /// It should be current by now, and is not: what is known of it has to do. Input whose mark cannot be written while
    /// the journal is full is such a case, and input that did not come from here.
    pub(super) fn is_stuck(&mut self, grace: Duration) -> bool {
        let late = !self.is_current() && self.heard_at + grace <= Instant::now();
        late && !(self.conversation.last_seq() < self.goal.0 && self.has_news())
    }

    /// It died before the prompt reached it, after it had served others: another process may try. The journal of a process
    /// whose keeper died proves nothing, because its last records may be missing.
    pub(super) fn died_unused(&self, turn: u64) -> bool {
        let is_lost = self.process.status().exit.is_some_and(|exit| exit.lost);
        self.ended && self.reused && !self.one_try && !is_lost && !self.prompt_given(turn)
    }

    /// A prompt that is not found in the journal is not given to another process.
    pub(super) fn forbid_another_try(&mut self) {
        self.one_try = true;
    }

    pub(super) fn session_id(&self) -> Option<String> {
        self.conversation.session_id().map(str::to_owned)
    }

    /// Whether it can serve a turn that would start a process like this.
    pub(super) fn fits(&self, setup: &Setup, session: &Session) -> bool {
        let whole = !self.conversation.is_mid_sentence();
        let alive = !self.ended && self.stop == Stop::No && self.process.is_running();
        whole && alive && launch::still_fits(&self.setup, setup) && launch::has_guard(&self.process, session)
    }

    pub(super) fn begin_turn(&mut self) {
        self.reused = true;
        self.conversation.begin_turn();
    }

    /// Half an input was given.
    pub(super) fn is_mid_sentence(&self) -> bool {
        self.conversation.is_mid_sentence()
    }

    /// Whether there is more to be read of a process that is gone.
    pub(super) fn is_unheard(&self) -> bool {
        !self.ended && self.watch.is_some() && !self.process.is_running()
    }

    /// It is gone and its end is nowhere to be read, as when somebody has removed its journal.
    pub(super) fn is_endless(&mut self, grace: Duration) -> bool {
        self.is_unheard() && self.read_at + grace <= Instant::now() && !self.has_news()
    }

    /// Whether there is something to read right now. That time has passed says nothing: it may be this daemon that was
    /// held up, by its disk or by a busy machine, and not the process that has nothing more to say.
    fn has_news(&mut self) -> bool {
        if self.ahead.is_none() {
            match self.watch.as_mut().map(|watch| watch.poll(&mut self.batch)) {
                Some(Ok(next)) => self.ahead = next,
                // Nothing can be said of it yet: it has its time again.
                Some(Err(error)) if error.is_passing() => {
                    self.read_at = Instant::now();
                    return true;
                }
                Some(Err(_)) | None => return false,
            }
        }
        self.ahead.is_some()
    }

    /// An input that may be found in the journal that is read again.
    pub(super) fn expect(&mut self, mark: MarkId, given: Given) {
        self.conversation.expect(mark, given);
    }

    /// The house had begun to stop it before a restart.
    pub(super) fn expect_stop(&mut self) {
        self.conversation.stopped = true;
    }

    /// Whether the prompt has reached the agent.
    pub(super) fn prompt_given(&self, turn: u64) -> bool {
        self.conversation.was_sent(MarkId::prompt(turn)) || self.prompt_in_args
    }

    /// Waits for news. `false` when there will be none.
    pub(super) async fn read(&mut self) -> bool {
        let Some(watch) = &mut self.watch else { return std::future::pending().await };
        let next = match self.ahead.take() {
            Some(next) => Ok(next),
            None => watch.next(&mut self.batch).await,
        };
        match next {
            Ok(Next::Items) => true,
            // Its end was read, or its journal cannot be: either way there is no more.
            Ok(Next::Ended | Next::Replaced) | Err(_) => {
                self.watch = None;
                false
            }
        }
    }

    /// What was read.
    pub(super) fn parse(&mut self, parsed: &mut Vec<Parsed>) {
        self.read_at = Instant::now();
        if self.conversation.last_seq() < self.goal.0 {
            self.heard_at = self.read_at;
        }
        let was_current = self.is_current();
        self.conversation.read(&self.batch, parsed);
        self.outdated |= !was_current && self.conversation.has_unknown_prompt();
        self.ended |= matches!(parsed.last(), Some(Parsed::Ended));
    }

    /// Nothing can be read any more, though the end was not seen.
    pub(super) fn is_unreadable(&self) -> bool {
        self.watch.is_none() && !self.ended
    }

    /// A question of the agent that waits for a person, or whose answer has not reached it. An agent that uses an id
    /// again has no use for an answer to the earlier question.
    pub(super) fn asked(&mut self, approval: &Approval) {
        self.questions.retain(|asked| asked.request != approval.request);
        self.questions.push(Asked {
            no: approval.no,
            approval: approval.id.clone(),
            request: approval.request.clone(),
            answer: answer_of(approval),
            tool: shown(approval),
        });
    }

    /// Questions from before a restart: those the agent waits for at the place from which its journal is read, and
    /// those that are read again, after the event of this number.
    pub(super) fn recall(&mut self, approvals: Vec<Approval>, after_seq: u64) {
        for approval in approvals {
            let open = approval.state != State::Withdrawn && self.conversation.waits_for(&approval.request);
            if open {
                self.asked(&approval);
            }
            if let Some(decision) = answer_of(&approval).filter(|_| open || approval.seq > after_seq) {
                let tool = shown(&approval);
                let given = Given::Decision { approval: approval.id, request: approval.request, decision, tool };
                self.expect(MarkId::decision(approval.no), given);
            }
        }
    }

    /// The question is no more; returns its number.
    pub(super) fn withdrawn(&mut self, request: &str) -> Option<u64> {
        let at = self.questions.iter().position(|asked| asked.request == request)?;
        Some(self.questions.swap_remove(at).no)
    }

    /// Whether a person is waited for.
    pub(super) fn has_questions(&self) -> bool {
        self.questions.iter().any(|asked| asked.answer.is_none())
    }

    /// The numbers of the questions that a person is waited for with.
    pub(super) fn open_questions(&self) -> Vec<u64> {
        self.questions.iter().filter(|asked| asked.answer.is_none()).map(|asked| asked.no).collect()
    }

    /// Questions that nobody needs to answer any more: all of them, or those the agent does not wait for.
    pub(super) fn drop_questions(&mut self, all: bool) -> Vec<u64> {
        let Self { questions, conversation, .. } = self;
        questions.extract_if(.., |asked| all || !conversation.waits_for(&asked.request)).map(|asked| asked.no).collect()
    }

    /// What people have decided since.
    pub(super) fn decided(&mut self, approvals: &[Approval]) {
        for asked in &mut self.questions {
            if let Some(approval) = approvals.iter().find(|approval| approval.no == asked.no) {
                asked.answer = answer_of(approval);
            }
        }
    }

    /// Gives the agent what is due, one thing after the other.
    pub(super) async fn feed(&mut self, turn: Option<(u64, &str)>) {
        self.retry = None;
        while let Some(due) = self.unsure.take().or_else(|| self.next_due(turn)) {
            match self.process.stdin_marked(due.offset, &due.bytes, due.mark.0).await {
                Ok(applied) => self.accepted = applied.applied,
                Err(StdinError::NotRunning | StdinError::Gap) => return,
                // The keeper did not give this daemon its key: nobody can talk to this process any more. Once it has ended
                // the conversation goes on with another one.
                Err(StdinError::Owned) => {
                    self.process.kill_tree().await;
                    return;
                }
                Err(error) => {
                    self.unsure = matches!(error, StdinError::Keeper(_)).then_some(due);
                    self.retry = Some(Instant::now() + NO_ROOM);
                    return;
                }
            }
        }
        // A CLI that has its prompt as an argument takes what comes on standard input for a part of it, and waits.
        let said_all = self.prompt_in_args || self.conversation.wants_eof();
        if !self.eof && !self.ended && said_all {
            // A process that has ended needs no end of input.
            self.process.end_stdin().await.ok();
            self.eof = true;
        }
    }

    fn next_due(&mut self, turn: Option<(u64, &str)>) -> Option<Due> {
        // One at a time: what was given before is read in the journal first.
        if self.ended || self.conversation.stdin() < self.accepted.max(self.process.accepted()) {
            return None;
        }
        if let Some(due) = self.conversation.own_words() {
            return Some(due);
        }
        let mut at = 0;
        while let Some(asked) = self.questions.get(at) {
            let Some(decision) = asked.answer.clone() else {
                at += 1;
                continue;
            };
            let mark = MarkId::decision(asked.no);
            let (approval, request, tool) = (asked.approval.clone(), asked.request.clone(), Arc::clone(&asked.tool));
            let given = Given::Decision { approval, request, decision, tool };
            let known = self.conversation.was_sent(mark);
            let asked = self.questions.swap_remove(at);
            match if known { Said::Nothing } else { self.conversation.say(mark, given) } {
                Said::Due(due) => {
                    // Should it find no room, it is said again.
                    self.questions.push(asked);
                    return Some(due);
                }
                Said::Later => {
                    self.questions.push(asked);
                    return None;
                }
                Said::Signal | Said::Nothing => {}
            }
        }
        let (turn, prompt) = turn?;
        if self.interrupt_waits {
            let mark = MarkId::interrupt(turn);
            if self.conversation.was_sent(mark) {
                self.interrupt_waits = false;
            } else if let Said::Due(due) = self.conversation.say(mark, Given::Interrupt) {
                return Some(due);
            }
            return None;
        }
        if self.stop == Stop::No && !self.prompt_given(turn) && self.conversation.ready() {
            let given = Given::Prompt { turn, text: prompt.to_owned() };
            if let Said::Due(due) = self.conversation.say(MarkId::prompt(turn), given) {
                return Some(due);
            }
        }
        None
    }

    /// When to look again, if nothing happens before.
    pub(super) fn deadline(&self, grace: Duration) -> Option<Instant> {
        let stop = match self.stop {
            Stop::No => None,
            Stop::Asked(at) | Stop::Signalled(at) | Stop::Killed(at) => Some(at),
        };
        let stuck = (!self.is_current()).then(|| self.heard_at + grace).filter(|at| *at > Instant::now());
        let endless = self.is_unheard().then(|| self.read_at + grace);
        [stop, self.retry, stuck, endless].into_iter().flatten().min()
    }
}

/// What people are shown of it: the answer is about this, whatever the agent's driver remembers.
fn shown(approval: &Approval) -> Arc<ShownTool> {
    Arc::new(ShownTool { tool: approval.tool.clone(), input: approval.input.clone() })
}

/// What the agent is to hear; nothing while nobody has answered.
pub(super) fn answer_of(approval: &Approval) -> Option<Decision> {
    match approval.state {
        State::Pending | State::Withdrawn => None,
        State::Expired => Some(Decision::Reject(NOBODY.to_owned())),
        State::Approved | State::Denied => approval.decision.clone(),
    }
}
