//! Output of pipelines where a daemon has one thread, slow readers and unusual limits, as `sudo-proxy` may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

mod support;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use hostel_house::pipelines::PipelineLimits;
use rustix::fs::Advice;
use support::pipelines::{Place, ask};
use support::until;

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
    drop(house.start(ask(&[&["echo", "unheard"]])).await);
    until("the other one's journal is there", || journals(&place).len() == 2).await;
    until("the other one's journal is gone", || journals(&place).len() == 1).await;
    assert_eq!(run.stdout().read().await.unwrap(), b"out\n");
    // Nobody is left to read it.
    drop(run);
    until("its journal is gone", || journals(&place).is_empty()).await;
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
