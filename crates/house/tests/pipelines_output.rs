//! Output of pipelines where a daemon has one thread, slow readers and unusual limits, as `sudo-proxy` may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use crate::support;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use hostel_house::approvals::RunState;
use hostel_house::pipelines::{PipelineLimits, RunError};
use rustix::fs::Advice;
use support::pipelines::{Place, ask};
use support::{until, within};

/// More than a reader is handed at once.
const LONG: usize = 3_000_000;

fn journals(place: &Place) -> Vec<PathBuf> {
    let files = std::fs::read_dir(place.options().journal_dir).unwrap();
    files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|kind| kind == "j")).collect()
}

#[tokio::test]
async fn output_that_is_only_on_the_disk_is_read_with_one_thread_as_well() {
    let place = Place::new();
    let house = place.open().await;
    let run = house.start(ask(&[&["head", "-c", &LONG.to_string(), "/dev/zero"]])).await;
    run.clone().finished().await.unwrap();
    for path in journals(&place) {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    assert_eq!(run.stdout().read().await.unwrap().len(), LONG);
    run.discard();
    house.end().await;
}

#[tokio::test]
async fn output_stays_for_as_long_as_it_is_read() {
    let place = Place::new();
    let limits = PipelineLimits { unclaimed: Duration::from_millis(50), ..PipelineLimits::default() };
    let house = place.open_with(limits).await;
    let mut run = house.start(ask(&[&["sh", "-c", "echo out; echo err >&2"]])).await;
    run.finished().await.unwrap();
    assert_eq!(run.stderr(0).read().await.unwrap(), b"err\n");
    assert_eq!(journals(&place).len(), 1);
    // Another one that nobody comes for goes, and the first one's time was over before.
    let mut other = house.start(ask(&[&["echo", "unheard"]])).await;
    other.finished().await.unwrap();
    assert_eq!(journals(&place).len(), 2);
    drop(other);
    until("the other one's journal is gone", async || journals(&place), |left| left.len() == 1).await;
    assert_eq!(run.stdout().read().await.unwrap(), b"out\n");
    // Nobody is left to read it.
    drop(run);
    until("its journal is gone", async || journals(&place), Vec::is_empty).await;
    house.end().await;
}

#[tokio::test]
async fn a_limit_beyond_every_clock_is_no_limit() {
    let place = Place::new();
    let house = place.open_with(PipelineLimits { time: Duration::MAX, ..PipelineLimits::default() }).await;
    let (outcome, stdout, _) = house.carry_out(ask(&[&["echo", "ran"]])).await.unwrap();
    assert_eq!((outcome.stages[0].exit_code, stdout.as_slice()), (0, b"ran\n".as_slice()));
    house.end().await;
}

#[tokio::test]
async fn whoever_has_read_all_that_is_kept_does_not_wait_for_the_end() {
    let place = Place::new();
    let limits = PipelineLimits { output: 4, ..PipelineLimits::default() };
    let house = place.open_with(limits).await;
    assert_eq!(house.pipelines.limits(), limits);
    let approval = house.approve(ask(&[&["sh", "-c", "echo 12345; exec sleep 1000"]])).await;
    let run = house.pipelines.run(&approval).await.unwrap();
    let read = within("what is kept", run.stdout().read()).await;
    assert_eq!(read.unwrap(), b"1234");
    assert_eq!(house.processes.running(), 1);
    assert_eq!(approval.run, RunState::Due);
    // It is written without anybody waiting for it.
    let state = async || house.approvals.get(&approval.id).await.unwrap().unwrap().run;
    until("its start is on record", state, |state| *state == RunState::Started).await;
    run.kill("it was seen");
    within("its end", run.clone().finished()).await.unwrap_err();
    house.end().await;
}

#[tokio::test]
async fn errors_that_come_after_much_output_are_waited_for() {
    let place = Place::new();
    let house = place.open().await;
    let gate = place.path().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let script = "head -c $1 /dev/zero; read line < $2; echo late >&2";
    let approval = house.approve(ask(&[&["sh", "-c", script, "sh", &LONG.to_string(), gate.to_str().unwrap()]])).await;
    let mut run = house.pipelines.run(&approval).await.unwrap();
    let (mut output, mut all) = (run.stdout(), Vec::new());
    while all.len() < LONG {
        assert_ne!(within("output", output.next(&mut all)).await.unwrap(), 0);
    }
    // There is nothing yet, and it is not at its end.
    let (mut errors, mut late) = (run.stderr(0), Vec::new());
    tokio::time::timeout(Duration::from_millis(50), errors.next(&mut late)).await.unwrap_err();
    std::fs::write(&gate, "go\n").unwrap();
    within("its end", run.finished()).await.unwrap();
    assert_eq!(run.stderr(0).read().await.unwrap(), b"late\n");
    house.end().await;
}

#[tokio::test]
async fn what_is_killed_before_it_begins_is_not_run() {
    let place = Place::new();
    let house = place.open().await;
    let witness = place.path().join("witness");
    let approval = house.approve(ask(&[&["touch", witness.to_str().unwrap()]])).await;
    let mut run = house.pipelines.run(&approval).await.unwrap();
    // There is one thread: nobody has carried anything out yet.
    run.kill("whoever asked has left");
    let error = within("its end", run.finished()).await.unwrap_err();
    assert_eq!(error, RunError::NotRun("whoever asked has left".to_owned()));
    assert!(!witness.exists() && house.processes.list().is_empty());
    house.end().await;
}
