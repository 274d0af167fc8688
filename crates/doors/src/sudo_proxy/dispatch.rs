//! From an accepted request to its answer: planned, put to the house, waited for, run once.
//!
//! Invariant: what waits is withdrawn when its client leaves, its handler breaks or the door ends for good, and only
//! then; a restart of ours is none of these. A request whose client is known to have left is not run.
//!
//! It never decides: whether to ask, whom, and what an answer means is the house's business.

use hostel_agents::Decision;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Claim;
use hostel_house::approvals::Connection;
use hostel_house::approvals::Face;
use hostel_house::approvals::Life;
use hostel_house::approvals::NewRequest;
use hostel_house::approvals::Requester;
use hostel_house::approvals::State;
use hostel_house::approvals::Subject;
use hostel_house::pipelines;
use hostel_house::pipelines::Outcome;
use hostel_house::pipelines::PlanRequest;
use hostel_house::pipelines::Privilege;
use hostel_house::pipelines::Run;
use hostel_house::pipelines::RunError;
use hostel_peer::Peer;

use super::NAME;
use super::answer::Plain;
use super::command;
use super::connection::Client;
use super::door::Door;
use super::door::Ended;
use super::door::Leaving;
use super::gates::Accepted;
use super::notice::Head;
use super::notice::Notice;
use super::output;

/// The rule that stands on what runs under the session's grant.
const SESSION_GRANT: &str = "session grant";

/// What a client hears whose request waited when the door ended.
const WITHDRAWN: &str = "server stopped: the request was withdrawn";

/// What a client hears whose command ran when the door ended.
const KILLED: &str = "server stopped: the command was killed";

/// Puts a request to the house and follows it to its answer.
pub(crate) async fn start(client: &mut Client<'_>, request: Accepted, line: [u8; 32]) {
    let door = client.door;
    let settings = &door.0.settings;
    let peer = client.peer().await;
    let request = request.into_fields();
    let summary = command::line(&request.pipeline);
    let privilege = match (request.privileged, &settings.pkexec) {
        (false, _) => Privilege::None,
        (true, None) => Privilege::Sudo,
        (true, Some(_)) => Privilege::Pkexec,
    };
    let plan = PlanRequest {
        stages: request.pipeline,
        env: request.env,
        privilege,
        forward_agent: settings.agent_socket.clone().filter(|_| request.forward_agent),
        display: settings.pkexec.clone().unwrap_or_default(),
        keeps_user: settings.keeps_user,
    };
    let new = NewRequest {
        subject: Subject::Pipeline(pipelines::plan(plan).await),
        requester: Requester {
            door: NAME.to_owned(),
            session: request.session,
            host: request.host,
            client: request.version,
            peer,
        },
        summary,
        reason: request.reason,
        life: Life::FromShown(settings.prompt_time),
        connection: Some(Connection { request_id: request.id, bytes: line }),
    };
    match door.0.approvals.request(new).await {
        Ok(approval) => {
            let approval = if privilege == Privilege::Pkexec { by_pkexec(door, approval).await } else { approval };
            follow(client, approval).await;
        }
        Err(error) => client.say(&Plain::Error(format!("prompt error: {error}"))).await.unwrap_or_default(),
    }
}

/// Goes on with a request whose connection a restart of ours had cut.
pub(crate) async fn resume(client: &mut Client<'_>, approval: Approval) {
    follow(client, approval).await;
}

/// `pkexec` asks and authenticates by itself: that is the approval, as the contract has it.
async fn by_pkexec(door: &Door, approval: Approval) -> Approval {
    if approval.state != State::Pending {
        return approval;
    }
    let claim = Claim { face: Face::Pkexec, peer: Peer::own(), label: "pkexec".to_owned() };
    match door.0.approvals.decide(&approval.id, Decision::AllowOnce, &claim).await {
        Ok(decided) => decided,
        // Then a person is asked; pkexec will ask as well.
        Err(error) => {
            door.0.log.warn(format_args!("pkexec cannot stand for an approval here: {error}"));
            approval
        }
    }
}

async fn follow(client: &mut Client<'_>, approval: Approval) {
    let settled = match approval.state {
        State::Pending => wait(client, approval).await,
        _ => Some(approval),
    };
    let Some(approval) = settled else { return };
    let answer = match approval.state {
        State::Approved => return run(client, approval).await,
        State::Denied => Plain::Denied,
        State::Expired => Plain::Timeout,
        State::Withdrawn | State::Pending => Plain::Error("request withdrawn".to_owned()),
    };
    client.say(&answer).await.ok();
}

/// Waits for the decision. None if there is nobody left to hear it, or the client has heard why there will be none.
async fn wait(client: &mut Client<'_>, approval: Approval) -> Option<Approval> {
    let door = client.door;
    let id = approval.id.as_str();
    let waiting = Waiting { door, id, armed: true };
    if !door.0.approvals.someone_can_decide(approval.kind) {
        let message = nobody(door);
        return give_up(client, waiting, "nobody can decide", Some(&message)).await;
    }
    let settled = tokio::select! {
        biased;
        () = client.gone() => {
            // Where there is no descriptor left to watch it with, it may be there still.
            let unwatched = (!client.is_gone()).then_some("server busy: the connection cannot be watched");
            return give_up(client, waiting, "the client left", unwatched).await;
        }
        settled = door.0.approvals.settled(id) => settled,
        ended = door.closed() => match ended {
            // Whoever serves this connection will stop; the request stays for the next daemon.
            Ended::Told(Leaving::Restart) => return None,
            _ => return give_up(client, waiting, "the door was closed", Some(WITHDRAWN)).await,
        },
    };
    match settled {
        Ok(approval) => {
            waiting.over();
            Some(approval)
        }
        Err(error) => {
            let message = format!("prompt error: {error}");
            give_up(client, waiting, "the store failed", Some(&message)).await
        }
    }
}

/// How it is said that nobody could agree.
fn nobody(door: &Door) -> String {
    if door.0.settings.terminal {
        // What a program without a terminal hears when it opens `/dev/tty`.
        return format!("prompt error: {}", std::io::Error::from_raw_os_error(rustix::io::Errno::NXIO.raw_os_error()));
    }
    "prompt error: nobody can approve: set a passphrase with `hostel approver set`, then answer with `hostel approvals`"
        .to_owned()
}

/// Withdraws a request and says so, if there is somebody to hear it. A decision that came first stands, but what it
/// allowed is not run.
async fn give_up(client: &mut Client<'_>, waiting: Waiting<'_>, why: &str, message: Option<&str>) -> Option<Approval> {
    let (door, id) = (waiting.door, waiting.id.to_owned());
    waiting.over();
    withdraw(door, &id, why).await;
    if let Some(message) = message {
        client.say(&Plain::Error(message.to_owned())).await.ok();
    }
    None
}

async fn withdraw(door: &Door, id: &str, why: &str) {
    match door.0.approvals.withdraw_request(id, why).await {
        Ok(true) => {}
        Ok(false) => not_run(door, id, why).await,
        Err(error) => door.0.log.error(format_args!("a request could not be withdrawn: {error}")),
    }
}

/// Puts on record that what was approved is not run, if it was.
async fn not_run(door: &Door, id: &str, why: &str) {
    let Ok(Some(approval)) = door.0.approvals.get(id).await else { return };
    if approval.state != State::Approved || approval.outcome.is_some() {
        return;
    }
    door.0.pipelines.abandon(&approval, why).await;
}

/// A request that waits: withdrawn if whoever follows it stops, unless that is because another daemon goes on.
struct Waiting<'a> {
    door: &'a Door,
    id: &'a str,
    armed: bool,
}

impl Waiting<'_> {
    fn over(mut self) {
        self.armed = false;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.armed || self.door.is_closed_by(Ended::Told(Leaving::Restart)) {
            return;
        }
        let (door, id) = (self.door.clone(), self.id.to_owned());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { withdraw(&door, &id, "its handler ended").await });
        }
    }
}

/// Runs what was approved, or joins what runs already, and answers.
async fn run(client: &mut Client<'_>, approval: Approval) {
    let door = client.door;
    if client.is_gone() {
        return not_run(door, &approval.id, "the client left").await;
    }
    if approval.rule == SESSION_GRANT {
        door.0.log.info(format_args!("[{}] [unattended] {}", client.id(), approval.summary));
        door.tell(|| Notice::Unasked { approval: Box::new(approval.clone()) });
    }
    let mut held = match door.0.pipelines.run(&approval).await {
        Ok(run) => Held { door, run },
        Err(error) => return fail(client, &approval, failure(&approval, &error)).await,
    };
    let mut killed = false;
    let finished = tokio::select! {
        biased;
        finished = held.run.finished() => finished,
        ended = door.closed() => {
            if ended == Ended::Told(Leaving::Restart) {
                return;
            }
            killed = true;
            held.run.kill("the door was closed");
            held.run.finished().await
        }
    };
    match finished {
        Ok(outcome) => {
            if door.0.settings.notices.is_some() {
                let (stdout, stderr) = output::heads(&held.run, &outcome).await;
                over(door, &approval, Ok(outcome.clone()), stdout, stderr);
            }
            // A client that left or does not read loses its answer; the outcome is on record.
            output::stream(client, &held.run, &outcome).await.ok();
        }
        Err(_) if killed => fail(client, &approval, KILLED.to_owned()).await,
        Err(error) => fail(client, &approval, failure(&approval, &error)).await,
    }
}

/// A command whose output somebody needs: thrown away with the one who needed it, unless another daemon goes on.
struct Held<'a> {
    door: &'a Door,
    run: Run,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.door.is_closed_by(Ended::Told(Leaving::Restart)) {
            self.run.clone().discard();
        }
    }
}

async fn fail(client: &mut Client<'_>, approval: &Approval, message: String) {
    over(client.door, approval, Err(message.clone()), Head::default(), Vec::new());
    client.say(&Plain::Error(message)).await.ok();
}

fn over(door: &Door, approval: &Approval, outcome: Result<Outcome, String>, stdout: Head, stderr: Vec<Head>) {
    door.tell(|| Notice::Over { approval: Box::new(approval.clone()), outcome, stdout, stderr });
}

/// Why there is no output to answer with, in the contract's words.
fn failure(approval: &Approval, error: &RunError) -> String {
    let is_single = approval.subject.pipeline().is_none_or(|pipeline| pipeline.stages.len() == 1);
    let cannot = |stage: usize, why: &dyn std::fmt::Display| {
        if is_single {
            format!("failed to execute command: {why}")
        } else {
            format!("failed to spawn pipeline stage {stage}: {why}")
        }
    };
    match error {
        RunError::CannotStart { stage, errno } => cannot(*stage, &std::io::Error::from_raw_os_error(*errno)),
        RunError::TimedOut { secs } if is_single => format!("command timed out after {secs}s"),
        RunError::TimedOut { secs } => format!("pipeline timed out after {secs}s"),
        RunError::Changed { stage, what } => cannot(*stage, &format!("it is not what was approved: {what}")),
        RunError::Killed(why) => format!("command killed: {why}"),
        RunError::NotRun(why) => cannot(0, why),
        RunError::Lost(_) | RunError::Output(_) => format!("wait failed: {error}"),
    }
}
