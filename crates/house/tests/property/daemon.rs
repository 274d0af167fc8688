//! The real house on threads of its own, which can vanish at any instant and be opened again.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::approvals::{
    Action, Approval, ApprovalOptions, Approvals, Claim, DecideError, Face, Rule, SUDO_PROXY,
};
use hostel_house::pipelines::{End, PipelineLimits, Pipelines};
use hostel_house::processes::Processes;
use hostel_house::store::{self, Store};
use hostel_keeper::SOCKET_NAME;
use hostel_models::approvals::world::{Ending, Rules, Standing};
use hostel_peer::{Peer, PeerInfo};
use parking_lot::Mutex;

use crate::support::pipelines::Place;
use crate::support::{limit, until_closed};

/// What stands for `sudo`: an option, assignments, `--`, and the command, as the same user.
const SUDO: &str = "#!/bin/sh\nshift\nwhile [ \"$1\" != -- ]; do export \"$1\"; shift; done\nshift\nexec \"$@\"\n";

/// The parts that a visit needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) approvals: Approvals,
    pub(crate) pipelines: Pipelines,
    /// Ids that were used: the door's memory against replays.
    pub(crate) used: Arc<Mutex<HashSet<String>>>,
    /// Whom every client is taken for.
    pub(crate) requester: Option<PeerInfo>,
}

/// A daemon.
pub(crate) struct Daemon {
    runtime: tokio::runtime::Runtime,
    pub(crate) processes: Processes,
    pub(crate) house: House,
    store: Store,
}

fn rule(action: Action) -> Rule {
    Rule {
        name: "all plain ones".to_owned(),
        action,
        requester: None,
        session: None,
        cwd: None,
        tool: None,
        argv: None,
        env: None,
        privileged: Some(false),
    }
}

/// A `sudo` that needs no privileges.
pub(crate) fn played_sudo(place: &Place) -> PathBuf {
    let path = place.path().join("sudo");
    if !path.exists() {
        std::fs::write(&path, SUDO).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

/// Kills the keeper under a daemon that lives and will start another at once.
pub(crate) fn kill_keeper(place: &Place) {
    let stream = std::os::unix::net::UnixStream::connect(place.path().join("run").join(SOCKET_NAME)).unwrap();
    let pid = rustix::net::sockopt::socket_peercred(&stream).unwrap().pid;
    let keeper = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::pidfd_send_signal(&keeper, rustix::process::Signal::KILL).unwrap();
    let mut gone = [rustix::event::PollFd::new(&keeper, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: limit().as_secs().cast_signed(), tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut gone, Some(&limit)), Ok(1), "the keeper does not end");
}

impl Daemon {
    pub(crate) fn start(place: &Place, rules: Rules, eligible: bool, requester: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (processes, house, store) = runtime.block_on(async {
            let processes = Processes::connect(place.options()).await.unwrap();
            let store = store::open(&place.path().join("state.db")).unwrap();
            let mut options = ApprovalOptions::new(place.path().join("approver"), processes.clone());
            options.eligible = eligible;
            options.rules = match rules {
                Rules::Ask => Vec::new(),
                Rules::Allow => vec![rule(Action::Allow)],
                Rules::Deny => vec![rule(Action::Deny)],
            };
            let approvals = Approvals::open(store.clone(), options).await.unwrap();
            let pipelines =
                Pipelines::open(processes.clone(), approvals.clone(), PipelineLimits::default()).await.unwrap();
            pipelines.set_programs(Some(played_sudo(place)), None);
            let used = approvals.recent_requests(SUDO_PROXY, 0).await.unwrap().into_iter().map(|(id, _)| id).collect();
            let requester = PeerInfo::of(requester, rustix::process::getuid().as_raw());
            assert!(requester.is_some(), "the requester is there");
            tokio::spawn(let_go(approvals.clone(), pipelines.clone()));
            (processes, House { approvals, pipelines, used: Arc::new(Mutex::new(used)), requester }, store)
        });
        Self { runtime, processes, house, store }
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Gone, as after a SIGKILL, but for what stood in line to be written.
    pub(crate) fn vanish(self) {
        let Daemon { runtime, processes, house, store } = self;
        runtime.shutdown_timeout(Duration::from_secs(5));
        drop((processes, house));
        until_closed(&store.close());
    }

    /// Every request of a connection that is kept, by the id it was sent with.
    pub(crate) async fn found(&self, id: &str) -> Option<Approval> {
        let mut all = self.house.approvals.list(100).await.unwrap().into_iter();
        all.find(|approval| {
            approval.reason.is_empty()
                && approval.subject.pipeline().is_some_and(|pipeline| {
                    pipeline.stages.iter().any(|stage| stage.argv.iter().any(|word| word.contains(id)))
                })
        })
    }

    /// Somebody of the requester's own tree tries, with all a process can have.
    pub(crate) async fn requester_decides(&self, id: &str) -> Result<Approval, DecideError> {
        let pid = self.house.requester.as_ref().map_or(0, |requester| requester.pid);
        let peer = Peer::of_process(pid);
        let claim = Claim { face: Face::Terminal, peer, label: "the requester".to_owned() };
        self.house.approvals.decide(id, hostel_agents::Decision::AllowOnce, &claim).await
    }
}

/// What nobody comes back for ends.
async fn let_go(approvals: Approvals, pipelines: Pipelines) {
    loop {
        for approval in approvals.abandoned().await {
            drop(pipelines.abandon(&approval, "nobody came back for it").await);
        }
    }
}

/// Where a request stands, in the model's words.
pub(crate) fn standing(approval: Option<&Approval>) -> (Standing, Ending) {
    use hostel_house::approvals::State;
    let Some(approval) = approval else { return (Standing::Absent, Ending::Open) };
    let standing = match approval.state {
        State::Pending => Standing::Pending,
        State::Approved => Standing::Approved,
        State::Denied => Standing::Denied,
        State::Expired => Standing::Expired,
        State::Withdrawn => Standing::Withdrawn,
    };
    let ending = match approval.outcome.as_ref().map(|outcome| &outcome.end) {
        None => Ending::Open,
        Some(End::Finished | End::Killed { .. } | End::TimedOut { .. }) => Ending::Ran,
        Some(End::NotRun { .. } | End::Changed { .. } | End::CannotStart { .. }) => Ending::NotRun,
        Some(End::Lost { .. }) => Ending::Lost,
    };
    (standing, ending)
}
