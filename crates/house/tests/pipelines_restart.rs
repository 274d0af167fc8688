//! Pipelines whose daemon dies at any instant: they run once, or it is said that they did not; never twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hostel_house::approvals::{Approval, Record};
use hostel_house::pipelines::{End, PipelineLimits, PlanRequest, Run, RunError};
use hostel_house::processes::Retention;
use hostel_syncpoint::SyncPoint;
use support::pipelines::{Opened, Place, ask};
use support::{limit, until, until_closed, within};

/// A daemon on threads of its own, which can vanish without a word.
struct Daemon {
    runtime: tokio::runtime::Runtime,
    house: Opened,
}

impl Daemon {
    fn start(place: &Place, limits: PipelineLimits) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let house = runtime.block_on(place.open_with(limits));
        Self { runtime, house }
    }

    fn do_now<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Gone, as after a SIGKILL, but for what stood in line to be written.
    fn vanish(self) {
        let Daemon { runtime, house } = self;
        runtime.shutdown_timeout(Duration::from_secs(5));
        let store = house.store.clone();
        drop(house);
        until_closed(&store.close());
    }
}

fn witnessed(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

async fn again(house: &Opened, approval: &Approval) -> Approval {
    house.approvals.get(&approval.id).await.unwrap().unwrap()
}

async fn finish(run: &Run) -> Result<(), RunError> {
    within("the end of the pipeline", run.clone().finished()).await.map(drop)
}

#[test]
fn a_pipeline_outlives_its_daemon_and_the_next_one_joins_it() {
    let place = Place::new();
    let (witness, gate) = (place.path().join("witness"), place.path().join("gate"));
    let script = format!(
        "echo ran >> {}; echo before; until [ -e {} ]; do sleep 0.02; done; echo after; echo err >&2; exit 6",
        witness.display(),
        gate.display()
    );
    let first = Daemon::start(&place, PipelineLimits::default());
    let approval = first.do_now(async {
        let approval = first.house.approve(ask(&[&["sh", "-c", &script], &["cat"]])).await;
        let run = first.house.pipelines.run(&approval).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        approval
    });
    first.vanish();
    std::fs::write(&gate, "").unwrap();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let run = second.house.pipelines.run(&again(&second.house, &approval).await).await.unwrap();
        let outcome = run.clone().finished().await.unwrap();
        assert_eq!(outcome.stages.iter().map(|stage| stage.exit_code).collect::<Vec<_>>(), [6, 0]);
        assert_eq!(run.stdout().read().await.unwrap(), b"before\nafter\n");
        assert_eq!(run.stderr(0).read().await.unwrap(), b"err\n");
        assert_eq!(second.house.recorded(&approval.id).await, outcome);
    });
    second.vanish();
    // It is over and on record, but whoever asked may still come for the output.
    let third = Daemon::start(&place, PipelineLimits::default());
    third.do_now(async {
        let run = third.house.pipelines.run(&again(&third.house, &approval).await).await.unwrap();
        run.clone().finished().await.unwrap();
        assert_eq!(run.stdout().read().await.unwrap(), b"before\nafter\n");
        run.discard();
        until("it is forgotten", async || third.house.processes.list().len(), |left| *left == 0).await;
        third.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    assert_eq!(witnessed(&witness), "ran\n");
    third.vanish();
}

#[test]
fn what_ended_while_nobody_looked_is_neither_collected_nor_run_again() {
    let place = Place::new();
    let (witness, gate) = (place.path().join("witness"), place.path().join("gate"));
    let script =
        format!("echo ran >> {}; echo; until [ -e {} ]; do sleep 0.02; done", witness.display(), gate.display());
    let first = Daemon::start(&place, PipelineLimits::default());
    let approval = first.do_now(async {
        let approval = first.house.approve(ask(&[&["sh", "-c", &script]])).await;
        let run = first.house.pipelines.run(&approval).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        approval
    });
    first.vanish();
    std::fs::write(&gate, "").unwrap();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let process = second.house.processes.list().into_iter().next().expect("it is known");
        process.wait_exit(limit()).await.expect("it ends");
        let all = Retention { max_count: 0, ..Retention::default() };
        assert_eq!(second.house.processes.collect_garbage(all, false).await.unwrap().removed, []);
        let run = second.house.pipelines.run(&again(&second.house, &approval).await).await.unwrap();
        finish(&run).await.unwrap();
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    assert_eq!(witnessed(&witness), "ran\n");
    second.vanish();
}

/// The records about a request, in order, and whether its start was recorded by a daemon that found it running.
async fn records(house: &Opened, approval: &Approval) -> (Vec<String>, bool) {
    let mut all: Vec<Record> = house.approvals.audit().show(0, 10_000).await.unwrap();
    all.retain(|record| record.approval == approval.id);
    let found = all.iter().any(|record| record.kind == "started" && record.body["found"] == true);
    (all.into_iter().map(|record| record.kind).collect(), found)
}

/// As if the first daemon had ended before it could write down that it starts something.
#[test]
fn a_start_that_nobody_recorded_is_recorded_by_the_next_daemon_and_no_other() {
    let place = Place::new();
    let first = Daemon::start(&place, PipelineLimits::default());
    let (running, waiting) = first.do_now(async {
        let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON approvals WHEN NEW.run = 'started' \
                      BEGIN SELECT RAISE(ABORT, 'no room'); END";
        let store = &first.house.store;
        store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
        let running = first.house.approve(ask(&[&["sh", "-c", "echo; exec sleep 1000"]])).await;
        let run = first.house.pipelines.run(&running).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        let waiting = first.house.approve(ask(&[&["true"]])).await;
        assert_eq!(records(&first.house, &running).await.0, ["requested", "decided"]);
        store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
        (running, waiting)
    });
    first.vanish();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let told = |(kinds, found): (Vec<String>, bool)| (kinds.join(" "), found);
        assert_eq!(told(records(&second.house, &running).await), ("requested decided started".to_owned(), true));
        assert_eq!(told(records(&second.house, &waiting).await), ("requested decided".to_owned(), false));
        second.house.pipelines.abandon(&again(&second.house, &running).await, "gone").await;
        second.house.pipelines.abandon(&again(&second.house, &waiting).await, "gone").await;
        let all = told(records(&second.house, &running).await);
        assert_eq!(all, ("requested decided started finished".to_owned(), true));
        assert_eq!(told(records(&second.house, &waiting).await), ("requested decided not_run".to_owned(), false));
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    second.vanish();
}

#[test]
fn the_time_limit_counts_from_the_start_whoever_started_it() {
    let place = Place::new();
    // Long enough for the first daemon to start it and for the second to take over, on any machine.
    let limits = PipelineLimits { time: Duration::from_secs(6), ..PipelineLimits::default() };
    let first = Daemon::start(&place, limits);
    let approval = first.do_now(async {
        let approval = first.house.approve(ask(&[&["sh", "-c", "echo; exec sleep 1000"]])).await;
        let run = first.house.pipelines.run(&approval).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        approval
    });
    first.vanish();
    let second = Daemon::start(&place, limits);
    second.do_now(async {
        let run = second.house.pipelines.run(&again(&second.house, &approval).await).await.unwrap();
        assert_eq!(finish(&run).await, Err(RunError::TimedOut { secs: 6 }));
        assert_eq!(second.house.recorded(&approval.id).await.end, End::TimedOut { secs: 6 });
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    second.vanish();
}

#[test]
fn what_was_approved_and_never_started_runs_once_under_the_same_keeper_and_never_under_another() {
    let place = Place::new();
    let witness = place.path().join("witness");
    let script = format!("echo ran >> {}", witness.display());
    let first = Daemon::start(&place, PipelineLimits::default());
    let (one, two, three) = first.do_now(async {
        let approve = || first.house.approve(ask(&[&["sh", "-c", &script]]));
        (approve().await, approve().await, approve().await)
    });
    first.vanish();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let one = again(&second.house, &one).await;
        finish(&second.house.pipelines.run(&one).await.unwrap()).await.unwrap();
        assert_eq!(witnessed(&witness), "ran\n");
        // Nobody came back for this one.
        let outcome = second.house.pipelines.abandon(&again(&second.house, &three).await, "nobody came back").await;
        assert_eq!(outcome.end, End::NotRun { why: "nobody came back".to_owned() });
        assert_eq!(second.house.recorded(&three.id).await, outcome);
        let run = second.house.pipelines.run(&again(&second.house, &three).await).await;
        assert_eq!(run.err(), Some(RunError::NotRun("nobody came back".to_owned())));
        let stale = second.house.pipelines.run(&three).await;
        assert_eq!(stale.err(), Some(RunError::NotRun("it was carried out already".to_owned())));
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    second.vanish();
    let third = Daemon::start(&place, PipelineLimits::default());
    third.do_now(async {
        let run = third.house.pipelines.run(&again(&third.house, &two).await).await.unwrap();
        let error = finish(&run).await.unwrap_err();
        assert!(matches!(error, RunError::Lost(_)), "{error:?}");
        assert!(matches!(third.house.recorded(&two.id).await.end, End::Lost { .. }));
        third.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    assert_eq!(witnessed(&witness), "ran\n");
    third.vanish();
}

#[test]
fn what_nobody_comes_back_for_is_killed_and_told() {
    let place = Place::new();
    let first = Daemon::start(&place, PipelineLimits::default());
    let (running, ended) = first.do_now(async {
        let running = first.house.approve(ask(&[&["sh", "-c", "echo; exec sleep 1000"], &["cat"]])).await;
        let run = first.house.pipelines.run(&running).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        let ended = first.house.approve(ask(&[&["sh", "-c", "exit 9"]])).await;
        finish(&first.house.pipelines.run(&ended).await.unwrap()).await.unwrap();
        (running, ended)
    });
    first.vanish();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let outcome = second.house.pipelines.abandon(&again(&second.house, &running).await, "gone").await;
        assert_eq!(outcome.end, End::Killed { why: "gone".to_owned() });
        assert_eq!(outcome.stages[0].signal, Some(9));
        assert_eq!(second.house.recorded(&running.id).await, outcome);
        let outcome = second.house.pipelines.abandon(&again(&second.house, &ended).await, "gone").await;
        assert_eq!((outcome.end, outcome.stages[0].exit_code), (End::Finished, 9));
        assert_eq!(second.house.processes.running(), 0);
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    second.vanish();
}

#[test]
fn a_keeper_that_dies_in_the_middle_is_told_and_nothing_runs_again() {
    let place = Place::new();
    let witness = place.path().join("witness");
    let script = format!("echo ran >> {}; echo; exec sleep 1000", witness.display());
    let daemon = Daemon::start(&place, PipelineLimits::default());
    daemon.do_now(async {
        let approval = daemon.house.approve(ask(&[&["sh", "-c", &script], &["cat"]])).await;
        let run = daemon.house.pipelines.run(&approval).await.unwrap();
        run.stdout().next(&mut Vec::new()).await.unwrap();
        let keeper = rustix::process::Pid::from_raw(daemon.house.processes.keeper_status().pid as i32).unwrap();
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
        let error = finish(&run).await.unwrap_err();
        assert!(matches!(error, RunError::Lost(_)), "{error:?}");
        assert_eq!(witnessed(&witness), "ran\n");
        daemon.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    daemon.vanish();
}

#[test]
fn an_approval_that_was_read_before_the_keeper_died_is_lost_and_not_called_undecided() {
    let place = Place::new();
    let daemon = Daemon::start(&place, PipelineLimits::default());
    daemon.do_now(async {
        let approval = daemon.house.approve(ask(&[&["true"]])).await;
        let keeper = rustix::process::Pid::from_raw(daemon.house.processes.keeper_status().pid as i32).unwrap();
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
        let records = async || daemon.house.approvals.audit().show(0, 100).await.unwrap();
        let is_lost = |records: &Vec<_>| records.iter().any(|record: &Record| record.kind == "key_lost");
        until("everything is sealed anew", records, is_lost).await;
        let run = daemon.house.pipelines.run(&approval).await.unwrap();
        let error = finish(&run).await.unwrap_err();
        assert!(matches!(error, RunError::Lost(_)), "{error:?}");
        assert!(matches!(daemon.house.recorded(&approval.id).await.end, End::Lost { .. }));
        // What the house has not decided is not run, whatever a copy says.
        let mut forged = daemon.house.approve(ask(&[&["true"]])).await;
        forged.runs.push(forged.runs[0]);
        let error = daemon.house.pipelines.run(&forged).await.err().unwrap();
        assert!(matches!(error, RunError::NotRun(_)), "{error:?}");
        daemon.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    daemon.vanish();
}

#[test]
fn what_was_over_before_the_key_was_lost_is_not_called_not_run() {
    let place = Place::new();
    let first = Daemon::start(&place, PipelineLimits::default());
    let approval = first.do_now(async {
        let approval = first.house.approve(ask(&[&["true"]])).await;
        finish(&first.house.pipelines.run(&approval).await.unwrap()).await.unwrap();
        first.house.recorded(&approval.id).await;
        approval
    });
    first.vanish();
    place.kill_keeper();
    let second = Daemon::start(&place, PipelineLimits::default());
    second.do_now(async {
        let error = second.house.pipelines.run(&again(&second.house, &approval).await).await.err().unwrap();
        assert!(matches!(error, RunError::Lost(_)), "{error:?}");
        second.house.processes.stop_keeper(Duration::ZERO).await.unwrap();
    });
    second.vanish();
}

/// Where the daemon that is killed finds its house; without it that test is nothing.
const VICTIM: &str = "HOSTEL_TEST_VICTIM";

fn two_witnesses(place: &Path) -> PlanRequest {
    let script = |name: &str| format!("echo {name} >> {}; cat; sleep 0.003", place.join("witness").display());
    ask(&[&["sh", "-c", &script("one")], &["sh", "-c", &script("two")]])
}

/// A daemon in a process of its own: approves, says so, and runs, until it is killed.
#[test]
fn the_daemon_that_is_killed() {
    let Some(place) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let place = Place::at(&place);
        let house = place.open().await;
        let approval = house.approve(two_witnesses(place.path())).await;
        let run = house.pipelines.run(&approval);
        std::fs::write(place.path().join("approved.new"), &approval.id).unwrap();
        std::fs::rename(place.path().join("approved.new"), place.path().join("approved")).unwrap();
        let run = run.await.unwrap();
        run.clone().finished().await.ok();
        run.discard();
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_daemon_killed_at_any_instant_runs_it_once_or_says_that_it_did_not() {
    let place = Place::new();
    let (witness, approved) = (place.path().join("witness"), place.path().join("approved"));
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..40u32 {
        for path in [&witness, &approved] {
            std::fs::remove_file(path).ok();
        }
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pipelines_restart::the_daemon_that_is_killed", "--nocapture"])
            .env(VICTIM, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + limit();
        while !approved.exists() {
            assert!(Instant::now() < deadline, "it approves nothing");
            std::thread::yield_now();
        }
        // Each round dies a little later in what follows the decision.
        let instant = Instant::now() + Duration::from_micros(u64::from(round) * 250);
        while Instant::now() < instant {
            std::hint::spin_loop();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let id = std::fs::read_to_string(&approved).unwrap();
        // In every other round the keeper dies with it.
        if round % 4 == 3 {
            place.kill_keeper();
        }
        let daemon = Daemon::start(&place, PipelineLimits::default());
        let end = daemon.do_now(async {
            let approval = daemon.house.approvals.get(&id).await.unwrap().unwrap();
            match daemon.house.pipelines.run(&approval).await {
                Ok(run) => finish(&run).await,
                Err(error) => Err(error),
            }
        });
        let lines = witnessed(&witness);
        let mut sorted: Vec<&str> = lines.lines().collect();
        sorted.sort_unstable();
        let (kinds, _) = daemon.do_now(async {
            daemon.house.recorded(&id).await;
            records(&daemon.house, &daemon.house.approvals.get(&id).await.unwrap().unwrap()).await
        });
        // Where the keeper died as well, nobody knows what ran.
        let is_recorded = round % 4 == 3 || lines.is_empty() || kinds.iter().any(|kind| kind == "started");
        assert!(is_recorded, "round {round}: it ran, and no record tells of that: {kinds:?}");
        match &end {
            Ok(()) => assert_eq!(sorted, ["one", "two"], "round {round}"),
            Err(RunError::Lost(_)) => {
                let once = |name| sorted.iter().filter(|line| **line == name).count() <= 1;
                assert!(once("one") && once("two"), "round {round}: {lines:?}");
            }
            Err(other) => panic!("round {round}: {other}"),
        }
        let word = end.map_or_else(|error| error.to_string(), |()| "it ran".to_owned());
        *ends.entry(word).or_default() += 1;
        daemon.vanish();
    }
    eprintln!("{ends:?}");
    let last = Daemon::start(&place, PipelineLimits::default());
    last.do_now(last.house.processes.stop_keeper(Duration::ZERO)).unwrap();
    last.vanish();
}
