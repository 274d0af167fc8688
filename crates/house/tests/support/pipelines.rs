//! A house that runs what everybody asks for, so that running can be tested.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostel_house::approvals::{
    Action, Approval, ApprovalOptions, Approvals, Life, NewRequest, Requester, Rule, State, Subject,
};
use hostel_house::pipelines::{Outcome, PipelineLimits, Pipelines, PlanRequest, Run, RunError, plan};
use hostel_house::processes::{KeeperOptions, Processes};
use hostel_house::store::{self, Store};
use hostel_keeper::{LOCK_NAME, SOCKET_NAME};

use super::{TestHouse, until, within};

pub(crate) fn ask(stages: &[&[&str]]) -> PlanRequest {
    let stages = stages.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
    PlanRequest { stages, ..PlanRequest::default() }
}

/// Clock ticks that a process, and its ended children, have used.
pub(crate) fn processor_time(pid: u32) -> [u64; 2] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<u64> = text
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse().unwrap())
        .collect();
    [fields[0] + fields[1], fields[2] + fields[3]]
}

/// Where a house is.
pub(crate) struct Place {
    path: PathBuf,
    /// None if it is another process's.
    _own: Option<TestHouse>,
}

/// A house as one daemon has it.
pub(crate) struct Opened {
    pub(crate) processes: Processes,
    pub(crate) approvals: Approvals,
    pub(crate) pipelines: Pipelines,
    pub(crate) store: Store,
}

fn allow(name: &str, privileged: bool) -> Rule {
    Rule {
        name: name.to_owned(),
        action: Action::Allow,
        requester: None,
        session: None,
        cwd: None,
        tool: None,
        argv: None,
        env: None,
        privileged: Some(privileged),
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let own = TestHouse::new();
        Self { path: own.path().to_owned(), _own: Some(own) }
    }

    /// A house that another process has made.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), _own: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn options(&self) -> KeeperOptions {
        super::options_at(&self.path)
    }

    /// Kills whoever answers on the keeper's socket, and waits until it is gone.
    pub(crate) fn kill_keeper(&self) {
        let stream = std::os::unix::net::UnixStream::connect(self.path.join("run").join(SOCKET_NAME)).unwrap();
        let pid = rustix::net::sockopt::socket_peercred(&stream).unwrap().pid;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let lock = std::fs::File::open(self.path.join("run").join(LOCK_NAME)).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    }

    pub(crate) async fn open(&self) -> Opened {
        self.open_with(PipelineLimits::default()).await
    }

    pub(crate) async fn open_with(&self, limits: PipelineLimits) -> Opened {
        self.open_at(self.options(), limits).await
    }

    pub(crate) async fn open_without_cgroups(&self) -> Opened {
        let options = KeeperOptions { cgroup_root: Some("/dev/null/none".into()), ..self.options() };
        self.open_at(options, PipelineLimits::default()).await
    }

    pub(crate) async fn open_at(&self, options: KeeperOptions, limits: PipelineLimits) -> Opened {
        let processes = Processes::connect(options).await.unwrap();
        let store = store::open(&self.path().join("state.db")).unwrap();
        let mut options = ApprovalOptions::new(self.path().join("approver"), processes.clone());
        options.rules = vec![allow("anything", false), allow("anything as root", true)];
        let approvals = Approvals::open(store.clone(), options).await.unwrap();
        let pipelines = Pipelines::open(processes.clone(), approvals.clone(), limits).await.unwrap();
        Opened { processes, approvals, pipelines, store }
    }
}

impl Opened {
    /// An approval of this.
    pub(crate) async fn approve(&self, asked: PlanRequest) -> Approval {
        let request = NewRequest {
            subject: Subject::Pipeline(plan(asked).await),
            requester: Requester { door: "test".to_owned(), ..Requester::default() },
            summary: String::new(),
            reason: String::new(),
            life: Life::Fixed(Duration::from_secs(60)),
            connection: None,
        };
        let approval = self.approvals.request(request).await.unwrap();
        assert_eq!(approval.state, State::Approved);
        approval
    }

    pub(crate) async fn start(&self, asked: PlanRequest) -> Run {
        let approval = self.approve(asked).await;
        self.pipelines.run(&approval).await.unwrap()
    }

    /// Runs it to its end: how it ended, what the last stage printed, what the last stage complained.
    pub(crate) async fn carry_out(&self, asked: PlanRequest) -> Result<(Outcome, Vec<u8>, Vec<u8>), RunError> {
        let last = asked.stages.len() - 1;
        let run = self.start(asked).await;
        let ended = within("the end of the pipeline", run.clone().finished()).await;
        let read = match &ended {
            Ok(_) => (run.stdout().read().await.unwrap(), run.stderr(last).read().await.unwrap()),
            Err(_) => Default::default(),
        };
        run.discard();
        ended.map(|outcome| (outcome, read.0, read.1))
    }

    /// What is on record, once it is.
    pub(crate) async fn recorded(&self, id: &str) -> Outcome {
        let approval = async || self.approvals.get(id).await.unwrap();
        let known = until("the outcome is recorded", approval, |found| {
            found.as_ref().is_some_and(|approval| approval.outcome.is_some())
        });
        known.await.and_then(|approval| approval.outcome).unwrap()
    }

    pub(crate) async fn end(self) {
        self.processes.stop_keeper(Duration::ZERO).await.unwrap();
    }
}
