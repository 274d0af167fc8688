//! An inbox of a test's own, without a keeper.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::{
    Action, Answer, Approval, ApprovalOptions, Approvals, Claim, Connection, Cost, DecideError, Face, Glob, Household,
    KeeperId, Life, NewRequest, Passphrase, Requester, Rule, Subject,
};
use hostel_house::pipelines::{End, Outcome, Pipeline, Privilege, Resolved, Stage, StageEnd, Writers};
use hostel_house::seals::MemoryVault;
use hostel_house::store::{self, Store};
use hostel_peer::{Peer, PeerInfo, Standing};
use parking_lot::Mutex;

use crate::support::{until, within};

/// A cost that tests can pay.
pub(crate) const CHEAP: Cost = Cost { memory: 8 << 10, passes: 1 };

/// Knows which processes are inside.
#[derive(Default)]
pub(crate) struct Neighbours {
    pub(crate) inside: Mutex<HashSet<u32>>,
}

pub(crate) const KEEPER: KeeperId = KeeperId { pid: 4_194_303, since_ns: 77 };

impl Household for Neighbours {
    fn standing<'a>(&'a self, peer: &'a Peer) -> Answer<'a> {
        Box::pin(async move {
            let pids = peer.pids().await;
            let is_inside = pids.iter().any(|pid| self.inside.lock().contains(pid));
            if is_inside { Standing::Insider } else { peer.standing().await }
        })
    }

    fn keeper(&self) -> Option<KeeperId> {
        Some(KEEPER)
    }
}

/// A house that can be left and entered again.
pub(crate) struct House {
    directory: tempfile::TempDir,
    pub(crate) options: ApprovalOptions,
    pub(crate) neighbours: Arc<Neighbours>,
    pub(crate) vault: MemoryVault,
    pub(crate) store: Store,
    pub(crate) approvals: Approvals,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ApprovalOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let neighbours = Arc::new(Neighbours::default());
        let household: Arc<dyn Household> = Arc::clone(&neighbours) as Arc<dyn Household>;
        let vault = MemoryVault::new().unwrap();
        let file = directory.path().join("approver");
        let mut options = ApprovalOptions::with_household(file, household, Arc::new(vault.clone()));
        options.cost = CHEAP;
        change(&mut options);
        let store = store::open(&directory.path().join("state.db")).unwrap();
        let approvals = Approvals::open(store.clone(), options.clone()).await.unwrap();
        House { directory, options, neighbours, vault, store, approvals }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.path().join("state.db")
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Everything in memory goes; the next daemon finds what is on disk.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    pub(crate) async fn restart_with(self, change: impl FnOnce(&mut ApprovalOptions)) -> Self {
        let House { directory, mut options, neighbours, vault, store, approvals } = self;
        drop(approvals);
        let writer = store.close();
        drop(store);
        until("the writer ends", async || writer.strong_count(), |writers| *writers == 0).await;
        change(&mut options);
        let store = store::open(&directory.path().join("state.db")).unwrap();
        let approvals = Approvals::open(store.clone(), options.clone()).await.unwrap();
        House { directory, options, neighbours, vault, store, approvals }
    }

    pub(crate) async fn ask(&self, new: NewRequest) -> Approval {
        self.approvals.request(new).await.unwrap()
    }

    pub(crate) async fn get(&self, id: &str) -> Approval {
        self.approvals.get(id).await.unwrap().unwrap()
    }

    pub(crate) async fn settled(&self, id: &str) -> Approval {
        within("it to be settled", self.approvals.settled(id)).await.unwrap()
    }

    /// The kinds of the records about a request.
    pub(crate) async fn records(&self, id: &str) -> Vec<String> {
        let records = self.approvals.audit().show(0, 10_000).await.unwrap();
        records.into_iter().filter(|record| record.approval == id).map(|record| record.kind).collect()
    }

    /// The audit is whole and holds as many records as it says. The house endorses in the background, so there may be one more
    /// record after each look.
    pub(crate) async fn verified(&self) -> u64 {
        let before = self.approvals.audit().last().await.unwrap();
        let found = self.approvals.audit().verify(None).await.unwrap();
        assert_eq!(found.broken, None);
        let after = self.approvals.audit().last().await.unwrap();
        assert!((before..=after).contains(&found.records), "{before} {} {after}", found.records);
        found.records
    }

    pub(crate) async fn approve(&self, id: &str) -> Result<Approval, DecideError> {
        self.approvals.decide(id, Decision::AllowOnce, &terminal()).await
    }

    pub(crate) async fn deny(&self, id: &str) -> Result<Approval, DecideError> {
        self.approvals.decide(id, Decision::Reject(String::new()), &terminal()).await
    }
}

/// A key on the sudo-proxy personality's own terminal.
pub(crate) fn terminal() -> Claim {
    Claim { face: Face::Terminal, peer: Peer::own(), label: "the terminal".to_owned() }
}

pub(crate) fn with_passphrase(text: &str) -> Claim {
    let face = Face::Passphrase(Passphrase::new(text.to_owned()));
    Claim { face, peer: Peer::own(), label: "somebody".to_owned() }
}

pub(crate) fn stage(words: &[&str]) -> Stage {
    let path = Path::new("/usr/bin").join(words[0]);
    let file = Resolved::Found {
        target: path.clone(),
        path,
        dev: 1,
        inode: 2,
        size: 3,
        digest: [4; 32],
        writers: Writers::OnlyRoot,
        interpreters: Vec::new(),
        libraries: Vec::new(),
    };
    Stage::new(words.iter().map(|word| (*word).to_owned()).collect(), file)
}

pub(crate) fn pipeline(stages: &[&[&str]], privilege: Privilege) -> Pipeline {
    Pipeline {
        stages: stages.iter().map(|words| stage(words)).collect(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        cwd: PathBuf::from("/"),
        privilege,
        forward_agent: false,
    }
}

pub(crate) fn requester() -> Requester {
    Requester { door: "sudo-proxy".to_owned(), session: "alpha".to_owned(), ..Requester::default() }
}

/// `true`, as nobody in particular.
pub(crate) fn command(words: &[&str]) -> NewRequest {
    request(Subject::Pipeline(pipeline(&[words], Privilege::None)))
}

pub(crate) fn root_command(words: &[&str]) -> NewRequest {
    request(Subject::Pipeline(pipeline(&[words], Privilege::Sudo)))
}

pub(crate) fn request(subject: Subject) -> NewRequest {
    NewRequest {
        subject,
        requester: requester(),
        summary: "something".to_owned(),
        reason: "because".to_owned(),
        life: Life::Fixed(Duration::from_secs(600)),
        connection: None,
    }
}

/// A request that belongs to a connection of [`asker`].
pub(crate) fn connected(id: &str, words: &[&str]) -> NewRequest {
    let connection = Connection { request_id: id.to_owned(), bytes: line(id) };
    let requester = Requester { peer: Some(asker()), ..requester() };
    NewRequest { connection: Some(connection), requester, ..command(words) }
}

/// Some process that asks.
pub(crate) fn asker() -> PeerInfo {
    PeerInfo { pid: 4711, started: 815, uid: 1000, program: "/usr/bin/asker".to_owned(), ..PeerInfo::default() }
}

/// The digest of the line that asked.
pub(crate) fn line(id: &str) -> [u8; 32] {
    let mut bytes = [9; 32];
    for (byte, letter) in bytes.iter_mut().zip(id.bytes()) {
        *byte = letter;
    }
    bytes
}

pub(crate) fn rule(name: &str, action: Action, argv: &[&str]) -> Rule {
    Rule {
        name: name.to_owned(),
        action,
        requester: None,
        session: None,
        cwd: None,
        tool: None,
        argv: Some(argv.iter().map(|word| Glob::new(word).unwrap()).collect()),
        env: None,
        privileged: None,
    }
}

pub(crate) fn finished(code: i32) -> Outcome {
    Outcome {
        end: End::Finished,
        stages: vec![StageEnd { exit_code: code, signal: None, stderr_truncated: false }],
        stdout_truncated: false,
        unkillable: Vec::new(),
        started_ns: 5,
        ended_ns: 9,
    }
}
