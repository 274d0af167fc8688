//! A client's visit to the house, served as the sudo-proxy door serves it, without the wire.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostel_house::approvals::{Approval, Connection, Life, NewRequest, Requester, SUDO_PROXY, State, Subject};
use hostel_house::pipelines::{PlanRequest, Privilege, RunError, plan};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::daemon::{Daemon, House};

/// What a client hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ran,
    Denied,
    Expired,
    Withdrawn,
    NotRun,
    Lost,
    Duplicate,
    /// It had left.
    Nothing,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) privileged: bool,
    pub(crate) life: Life,
    /// Something that makes the bytes different, and nothing else.
    pub(crate) salt: u8,
}

/// A connection while it is served.
pub(crate) struct Visit {
    /// What it sends is what the first connection sent.
    pub(crate) same_bytes: bool,
    /// The memory of the daemon that serves it.
    served_by: Arc<Mutex<HashSet<String>>>,
    leave: watch::Sender<bool>,
    state: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waits: AtomicBool,
    told: Mutex<Option<Told>>,
}

impl Visit {
    /// Comes in; is served on the threads of the daemon.
    pub(crate) fn begin(house: &House, wish: Wish, same_bytes: bool) -> Self {
        let (leave, left) = watch::channel(false);
        let state = Arc::new(Shared::default());
        let (served, shared) = (house.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let told = Server { house: served, left, shared: Arc::clone(&shared) }.serve(wish).await;
            shared.waits.store(false, Ordering::Release);
            *shared.told.lock() = Some(told);
        });
        Visit { same_bytes, served_by: Arc::clone(&house.used), leave, state }
    }

    pub(crate) fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Whether this daemon serves it, and not one that is gone.
    pub(crate) fn is_of(&self, daemon: &Daemon) -> bool {
        Arc::ptr_eq(&self.served_by, &daemon.house.used)
    }

    /// It waits for a decision.
    pub(crate) fn waits(&self) -> bool {
        self.state.waits.load(Ordering::Acquire)
    }

    pub(crate) fn told(&self) -> Option<Told> {
        *self.state.told.lock()
    }
}

struct Server {
    house: House,
    left: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

impl Server {
    async fn serve(mut self, wish: Wish) -> Told {
        let bytes: [u8; 32] = Sha256::digest(format!("{} {:?} {}", wish.id, wish.argv, wish.salt)).into();
        if let Some(approval) = self.house.approvals.rejoin(SUDO_PROXY, &wish.id, &bytes, self.house.requester.as_ref())
        {
            return self.follow(approval).await;
        }
        if !self.house.used.lock().insert(wish.id.clone()) {
            return Told::Duplicate;
        }
        let privilege = if wish.privileged { Privilege::Sudo } else { Privilege::None };
        let asked = PlanRequest { stages: vec![wish.argv], privilege, ..PlanRequest::default() };
        let new = NewRequest {
            subject: Subject::Pipeline(plan(asked).await),
            requester: Requester {
                door: SUDO_PROXY.to_owned(),
                session: "a session".to_owned(),
                peer: self.house.requester.clone(),
                ..Requester::default()
            },
            summary: String::new(),
            reason: String::new(),
            life: wish.life,
            connection: Some(Connection { request_id: wish.id, bytes }),
        };
        let approval = self.house.approvals.request(new).await.expect("a disk that takes it");
        self.follow(approval).await
    }

    async fn follow(&mut self, approval: Approval) -> Told {
        let settled = match approval.state {
            State::Pending => match self.wait(&approval).await {
                Some(settled) => settled,
                None => return Told::Nothing,
            },
            _ => approval,
        };
        match settled.state {
            State::Approved => self.run(&settled).await,
            State::Denied => Told::Denied,
            State::Expired => Told::Expired,
            State::Withdrawn => Told::Withdrawn,
            State::Pending => panic!("it is settled"),
        }
    }

    /// None if the client left first.
    async fn wait(&mut self, approval: &Approval) -> Option<Approval> {
        self.shared.waits.store(true, Ordering::Release);
        let settled = tokio::select! {
            biased;
            _ = self.left.wait_for(|left| *left) => None,
            settled = self.house.approvals.settled(&approval.id) => Some(settled.expect("a disk that can be read")),
        };
        self.shared.waits.store(false, Ordering::Release);
        if settled.is_none() {
            let withdrawn = self.house.approvals.withdraw_request(&approval.id, "the client left").await;
            if !withdrawn.expect("a disk that takes it") {
                self.abandon(&approval.id).await;
            }
        }
        settled
    }

    /// What was approved is not run any more.
    async fn abandon(&self, id: &str) {
        let found = self.house.approvals.get(id).await.expect("a disk that can be read").expect("it is there");
        if found.state == State::Approved {
            drop(self.house.pipelines.abandon(&found, "the client left").await);
        }
    }

    async fn run(&self, approval: &Approval) -> Told {
        if *self.left.borrow() {
            self.abandon(&approval.id).await;
            return Told::Nothing;
        }
        let finished = match self.house.pipelines.run(approval).await {
            Ok(mut run) => {
                let finished = run.finished().await;
                run.discard();
                finished
            }
            Err(error) => Err(error),
        };
        match finished {
            Ok(_) | Err(RunError::Killed(_) | RunError::TimedOut { .. }) => Told::Ran,
            Err(RunError::Lost(_)) => Told::Lost,
            Err(RunError::NotRun(_) | RunError::Changed { .. } | RunError::CannotStart { .. }) => Told::NotRun,
            Err(error) => panic!("{error}"),
        }
    }
}
