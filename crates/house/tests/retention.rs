//! What is removed, when, and what never is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hostel_agents::Hosting;
use hostel_house::housekeeping::{Housekeeping, HousekeepingOptions, TimeSource};
use hostel_house::processes::{ProcessId, Processes, Retention};
use support::sessions::{Daemon, options};
use support::{TestHouse, hear, limit, shell};

const DAY: Duration = Duration::from_secs(86_400);

/// The clocks of a machine. They begin at the present, because the files are real.
#[derive(Clone)]
pub(crate) struct FakeTime {
    wall: Arc<AtomicU64>,
    passing: Arc<AtomicU64>,
}

impl FakeTime {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        Self { wall: Arc::new(AtomicU64::new(now)), passing: Arc::new(AtomicU64::new(7)) }
    }

    /// Time that everybody sees pass.
    pub(crate) fn pass(&self, duration: Duration) {
        self.set_forward(duration);
        self.passing.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    fn set_forward(&self, duration: Duration) {
        self.wall.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) async fn housekeeping(&self, daemon: &Daemon, options: HousekeepingOptions) -> Housekeeping {
        let (wall, passing) = (Arc::clone(&self.wall), Arc::clone(&self.passing));
        let source = TimeSource::of(move || wall.load(Ordering::Relaxed), move || passing.load(Ordering::Relaxed));
        Housekeeping::open(daemon.processes.clone(), daemon.sessions.clone(), options, source).await.unwrap()
    }
}

/// Limits that nothing reaches.
pub(crate) fn loose() -> HousekeepingOptions {
    let retention = Retention { max_count: usize::MAX, max_age: Duration::MAX, max_bytes: u64::MAX };
    HousekeepingOptions { retention, quota: 1 << 40, floor: 1, age_delay: Duration::ZERO }
}

const EVERYTHING: Retention = Retention { max_count: 0, max_age: Duration::ZERO, max_bytes: 0 };

/// Hosts a process that prints and ends, and ends the keeper: only the journal remembers it.
async fn leave_a_journal(house: &TestHouse, name: &str) -> ProcessId {
    let processes = house.open().await;
    let process = processes.spawn(shell(name, "echo out; exit 3")).await.unwrap();
    hear(&process, 0).await;
    processes.stop_keeper(Duration::ZERO).await.unwrap();
    process.id()
}

fn change_two_days_ago(path: &Path) {
    let time = SystemTime::now() - Duration::from_secs(2 * 86_400);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

async fn collect_everything(processes: &Processes) -> usize {
    processes.collect_garbage(EVERYTHING, false).await.unwrap().removed.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_read_is_renamed_and_never_removed() {
    let house = TestHouse::new();
    let id = leave_a_journal(&house, "damaged").await;
    let own = house.journal().join(id.file_name());
    let mut bytes = std::fs::read(&own).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&own, &bytes).unwrap();
    change_two_days_ago(&own);

    let processes = house.open().await;
    assert_eq!(collect_everything(&processes).await, 0);
    assert_eq!(std::fs::read(&own).unwrap(), bytes, "it is not removed");

    // A session may still need it.
    processes.spare([id]);
    assert!(processes.examine_unknown_journals().await.unwrap().is_empty(), "it was told at the start");
    let told = processes.unreadable_journals().0;
    assert_eq!(told.iter().map(|journal| (journal.id, journal.is_set_aside)).collect::<Vec<_>>(), [(id, false)]);
    assert!(own.exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();

    let processes = house.open().await;
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.iter().map(|journal| (journal.id, journal.is_set_aside)).collect::<Vec<_>>(), [(id, true)]);
    let renamed = house.journal().join(&told[0].file);
    assert_eq!(told[0].file, format!("{id}.j.unreadable"));
    assert!(!own.exists() && std::fs::read(&renamed).unwrap() == bytes);
    assert_eq!(processes.unreadable_journals().0, told);
    assert_eq!(collect_everything(&processes).await, 0);
    assert!(renamed.exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();

    // A program that can read it takes it back.
    bytes[70] ^= 1;
    std::fs::write(&renamed, &bytes).unwrap();
    let processes = house.open().await;
    assert_eq!(processes.unreadable_journals().0, []);
    let process = processes.get("damaged").expect("it is known again");
    assert_eq!(hear(&process, 0).await.stdout, b"out\n");
    assert_eq!(process.wait_exit(limit()).await.map(|exit| exit.code), Some(3));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_a_newer_program_is_called_newer_and_kept() {
    let house = TestHouse::new();
    let id = leave_a_journal(&house, "newer").await;
    let own = house.journal().join(id.file_name());
    let mut bytes = std::fs::read(&own).unwrap();
    bytes[..4].copy_from_slice(b"HJB2");
    bytes[64..96].fill(0x55);
    std::fs::write(&own, &bytes).unwrap();
    change_two_days_ago(&own);
    let processes = house.open().await;
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].reason.contains("newer version"), "{}", told[0].reason);
    assert_eq!(std::fs::read(house.journal().join(&told[0].file)).unwrap(), bytes);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_file_that_was_never_begun_is_removed_and_only_after_a_day() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let file = |byte: u8| house.journal().join(ProcessId([byte; 16]).file_name());
    for (byte, size) in [(1, 0), (2, 63), (3, 0), (4, 64)] {
        std::fs::write(file(byte), vec![0; size]).unwrap();
    }
    for byte in [1, 2, 4] {
        change_two_days_ago(&file(byte));
    }
    let told = processes.examine_unknown_journals().await.unwrap();
    assert_eq!(told.iter().map(|journal| journal.id).collect::<Vec<_>>(), [ProcessId([4; 16])]);
    assert!(!file(1).exists() && !file(2).exists() && !file(4).exists());
    assert!(file(3).exists(), "somebody may be making it");
    assert!(house.journal().join(&told[0].file).exists());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[test]
fn age_removes_nothing_by_a_clock_that_was_set_and_only_after_a_day_by_one_that_was_not() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    daemon.run(async {
        let process = daemon.processes.spawn(shell("old", "echo out")).await.unwrap();
        hear(&process, 0).await;
        let id = process.id();
        drop(process);
        let is_there = || daemon.processes.by_id(id).is_some() && place.journal().join(id.file_name()).exists();
        let rule = Retention { max_age: 7 * DAY, ..loose().retention };
        let week = HousekeepingOptions { retention: rule, age_delay: Duration::from_secs(600), ..loose() };
        let time = FakeTime::new();
        let first = time.housekeeping(&daemon, week).await;
        first.round().await.unwrap();

        // A clock set by mistake, also over a restart, and also for somebody who asks.
        time.set_forward(40 * DAY);
        assert_eq!(first.round().await.unwrap().doubt_ns.map(|ahead| ahead > 0), Some(true));
        time.pass(Duration::from_secs(601));
        first.round().await.unwrap();
        let second = time.housekeeping(&daemon, week).await;
        time.pass(Duration::from_secs(601));
        second.round().await.unwrap();
        second.collect(false, false, None).await.unwrap();
        assert!(is_there());

        // What the clock stays at is believed after a day; the verdict waits for another day.
        time.pass(DAY);
        second.round().await.unwrap();
        time.pass(DAY - Duration::from_secs(1));
        second.round().await.unwrap();
        assert!(is_there());

        // A daemon that has just started does nothing because of an age.
        time.pass(Duration::from_secs(1));
        let third = time.housekeeping(&daemon, week).await;
        third.round().await.unwrap();
        assert!(is_there());
        time.pass(Duration::from_secs(600));
        assert_eq!(third.round().await.unwrap().by_rule.removed.len(), 1);
        assert!(!is_there());
    });
    daemon.end();
}

#[test]
fn what_is_needed_again_loses_its_tombstone() {
    let place = TestHouse::new();
    let mut keep_a_day = options(Vec::new());
    keep_a_day.keep_archived = DAY;
    let daemon = Daemon::start(&place, keep_a_day);
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        support::sessions::ask(&session, "hello").await;
        let time = FakeTime::new();
        let keeper = time.housekeeping(&daemon, loose()).await;
        session.close(hostel_house::sessions::Cause::SessionRemoved).await.unwrap();
        time.pass(2 * DAY);
        assert_eq!(keeper.round().await.unwrap().sessions, 0);
        let again = daemon.sessions.revive("s").await.unwrap();
        assert_eq!(keeper.round().await.unwrap().sessions, 0);
        again.close(hostel_house::sessions::Cause::SessionRemoved).await.unwrap();
        time.pass(DAY);
        assert_eq!(keeper.round().await.unwrap().sessions, 0, "the verdict is a new one");
        time.pass(DAY);
        assert_eq!(keeper.round().await.unwrap().sessions, 1);
    });
    daemon.end();
}

/// The disk space of a process's journal.
fn used(processes: &Processes, id: ProcessId) -> u64 {
    processes.by_id(id).map_or(0, |process| process.status().journal_bytes)
}

#[test]
fn a_house_whose_quota_is_used_up_makes_room_by_itself() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    daemon.run(async {
        let quota = 16 << 20;
        daemon.processes.set_limits(quota, 1 << 40, 0).await;
        // The proof of D3, in small: an ended process has 10 of 16 MiB, and a running one wants 8.
        let ended = daemon.processes.spawn(shell("ended", "head -c 10000000 /dev/zero")).await.unwrap();
        ended.wait_exit(limit()).await.unwrap();
        let (ended, ended_id) = (ended.id(), ended.id());
        let wants = daemon.processes.spawn(shell("wants", "head -c 8000000 /dev/zero; echo done")).await.unwrap();
        support::until("it is held", async || wants.status(), |now| now.held.is_some()).await;
        let time = FakeTime::new();
        let keeper = time.housekeeping(&daemon, HousekeepingOptions { quota, ..loose() }).await;
        support::within("somebody to say so", keeper.room_is_needed()).await;
        let round = keeper.round().await.unwrap();
        assert_eq!(round.for_room.removed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ended]);
        assert_eq!(used(&daemon.processes, ended_id), 0);
        assert_eq!(hear(&wants, 0).await.stdout.len(), 8_000_005);
    });
    daemon.end();
}

#[test]
fn journals_of_agents_whose_events_are_stored_go_first_and_the_history_stays() {
    let place = TestHouse::new();
    let script = support::sessions::claude_once("init; say hello; result hello");
    let daemon = Daemon::start(&place, options(script));
    let session = daemon.session("script", Hosting::PerMessage, place.path());
    daemon.run(async {
        for _ in 0..3 {
            assert_eq!(support::sessions::ask(&session, "x").await.1, "hello");
        }
        support::sessions::until_idle(&session).await;
        let agents: Vec<ProcessId> = daemon.processes.list().iter().map(|process| process.id()).collect();
        assert_eq!(agents.len(), 3);
        let before = support::sessions::history(&daemon.sessions, "s").await;
        let warm = support::sessions::new_session("w", "echo", Hosting::Warm, place.path());
        let warm = daemon.sessions.create(warm).await.unwrap();
        support::sessions::ask(&warm, "hello").await;
        let other = daemon.processes.spawn(shell("other", "head -c 1000000 /dev/zero")).await.unwrap();
        other.wait_exit(limit()).await.unwrap();
        let other = other.id();

        // More room is needed than there is.
        let time = FakeTime::new();
        let keeper = time.housekeeping(&daemon, HousekeepingOptions { quota: 1, ..loose() }).await;
        let stored = async || keeper.collect(true, true, None).await.unwrap().removed.len();
        // The end of the last one is written a moment after its turn's.
        support::until("all three may go", stored, |count| *count == 4).await;
        let round = keeper.round().await.unwrap();
        let removed: Vec<ProcessId> = round.for_room.removed.iter().map(|(id, _)| *id).collect();
        assert_eq!(removed[..3].iter().collect::<std::collections::HashSet<_>>(), agents.iter().collect());
        assert_eq!(removed[3..], [other]);
        assert!(round.is_short, "the warm agent's journal is needed");
        assert_eq!(daemon.processes.running(), 1);
        let after = support::sessions::history(&daemon.sessions, "s").await;
        assert_eq!(after.len(), before.len());
        assert_eq!(support::sessions::ask(&session, "again").await.1, "hello");
    });
    daemon.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_ends_and_a_marked_one_is_fed_however_full_the_quota_is() {
    let house = TestHouse::new();
    let processes = house.open().await;
    processes.set_limits(4 << 20, 1 << 40, 0).await;
    let endless = processes.spawn(shell("endless", "yes")).await.unwrap();
    support::until("it is held", async || endless.status(), |now| now.held.is_some()).await;
    let before = endless.status().last_seq;
    endless.kill(rustix::process::Signal::KILL).await;
    let exit = endless.wait_exit(limit()).await.expect("it is over");
    assert_eq!(exit.signal, 9);
    let seqs = hear(&endless, 0).await.seqs;
    assert!(seqs.last() > Some(&before), "what was left in its pipe is kept");

    // Output that was printed after the quota was used up is written when the process ends.
    let last = processes.spawn(shell("last", "echo last words; exit 7")).await.unwrap();
    assert_eq!(last.wait_exit(limit()).await.map(|exit| exit.code), Some(7));
    assert_eq!(hear(&last, 0).await.stdout, b"last words\n");

    // A process that is held by its open pipe ends when the time for that is over.
    let leaky = processes.spawn(shell("leaky", "yes & exit 4")).await.unwrap();
    assert_eq!(leaky.wait_exit(limit()).await.map(|exit| exit.code), Some(4));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_silent_process_outlives_its_keeper() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let silent = processes.spawn(shell("silent", "exit 5")).await.unwrap();
    silent.wait_exit(limit()).await.unwrap();
    let own = house.journal().join(silent.id().file_name());
    support::until(
        "its journal is made",
        async || std::fs::metadata(&own).map_or(0, |file| file.len()),
        |len| *len > 0,
    )
    .await;
    let keeper = rustix::process::Pid::from_raw(processes.keeper_status().pid as i32).unwrap();
    let mut seen = 0;
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    support::within("the keeper's death", processes.keeper_died(&mut seen)).await;
    drop(processes);
    let processes = house.open().await;
    let exit = processes.get("silent").expect("it is known").wait_exit(limit()).await;
    assert_eq!(exit.map(|exit| (exit.code, exit.lost)), Some((5, false)));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[test]
fn an_agent_can_be_stopped_though_the_database_takes_nothing() {
    let place = TestHouse::new();
    let script = support::sessions::claude(
        r#"*'"content":"flood"'*) init; line=$(head -c 20000 /dev/zero | tr '\0' x); while :; do say "$line"; done;;"#,
    );
    let daemon = Daemon::start(&place, options(script));
    let session = daemon.session("script", Hosting::Warm, place.path());
    let sent = daemon.run(async {
        let sent = session.send(support::sessions::prompt("flood")).await.unwrap();
        support::sessions::follow_until(&session, sent.after_seq, |event| {
            matches!(event, hostel_agents::Event::Text { .. })
        })
        .await;
        sent
    });
    daemon.refuse_writes(true);
    daemon.run(async {
        let stalled = async || daemon.sessions.stalled();
        let told = support::until("the session waits for the database", stalled, Option::is_some).await.unwrap();
        assert_eq!(told.sessions, 1);
        assert!(told.error.contains("no room"), "{}", told.error);
        assert_eq!(daemon.processes.running(), 1);
        assert!(
            session.interrupt(hostel_house::sessions::Scope::Running, hostel_house::sessions::Cause::ClientRpc).await
        );
        support::until("the agent has ended", async || daemon.processes.running(), |running| *running == 0).await;
        assert!(daemon.sessions.stalled().is_some(), "nothing could be written yet");
    });
    daemon.refuse_writes(false);
    daemon.run(async {
        let events = support::sessions::follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(support::sessions::end_of(&events).0, hostel_agents::Outcome::Cancelled);
        assert_eq!(daemon.sessions.stalled(), None);
    });
    daemon.end();
}
