//! The daemon killed with SIGKILL at random moments, a hundred times and more, under traffic.

use std::env;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::house::{self, House};
use hostel_tests::random::{self, Random};
use hostel_tests::wait;

use crate::storm::{self, Chatter, Shared};

/// How many children talk and listen at once.
const CHILDREN: u64 = 4;

#[test]
fn killing_the_daemon_at_random_loses_nothing() {
    storm(House::start(), false, |house, shared, random| kill_at_random(house, shared, random, false));
}

#[test]
fn killing_the_daemon_while_the_keeper_upgrades_itself_loses_nothing() {
    storm(House::start(), true, |house, shared, random| kill_at_random(house, shared, random, true));
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What the killing brought, for the figures.
#[derive(Default)]
pub(crate) struct Killing {
    pub(crate) kills: u64,
    pub(crate) upgrades: u64,
    pub(crate) restarts: Vec<Duration>,
}

fn kill_at_random(house: &mut House, shared: &Shared, random: &mut Random, upgrades: bool) -> Killing {
    let kills = setting("HOSTEL_KILLS").unwrap_or(100);
    let end = setting("HOSTEL_MINUTES").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    kill_repeatedly(house, shared, random, kills, end, upgrades)
}

/// Children that talk and listen while `kill` kills the daemon; then every byte must be there, once and in order.
pub(crate) fn storm(mut house: House, upgrades: bool, kill: impl FnOnce(&mut House, &Shared, &mut Random) -> Killing) {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed}), upgrades: {upgrades}");
    let mut random = Random::new(seed);
    let keeper = house.keeper();
    let shared = Shared::new(house.socket(), house.token());
    let chatters: Vec<Chatter> = (0..CHILDREN)
        .map(|number| Chatter {
            name: format!("chatter{number}"),
            seed: random.bits(),
            record: house.path().join(format!("record{number}")),
            code: 40 + number as i64,
        })
        .collect();
    let mut client = house.connect();
    for chatter in &chatters {
        chatter.spawn(&mut client);
    }
    drop(client);

    let since = Instant::now();
    let (killing, views) = thread::scope(|scope| {
        let mut workers = Vec::new();
        for chatter in &chatters {
            let (steady, restless, feeding) = (random.bits(), random.bits(), random.bits());
            let shared = &shared;
            let watchers = [
                scope.spawn(move || storm::watch(shared, chatter, None)),
                scope.spawn(move || storm::watch(shared, chatter, Some(restless ^ steady))),
            ];
            workers.push((chatter, watchers, scope.spawn(move || storm::feed(shared, chatter, feeding))));
        }
        let (shared, spawning) = (&shared, random.bits());
        let spawner = scope.spawn(move || storm::spawn_many(shared, spawning));

        let killing = kill(&mut house, shared, &mut random);
        shared.ending.store(true, Ordering::SeqCst);
        let mut views = Vec::new();
        for (chatter, watchers, feeder) in workers {
            let sent = feeder.join().expect("a feeder does not panic");
            let seen: Vec<_> =
                watchers.into_iter().filter_map(|watcher| watcher.join().expect("a watcher does not panic")).collect();
            views.push((chatter, sent, seen));
        }
        spawner.join().expect("the spawner does not panic");
        (killing, views)
    });
    if let Some(reason) = shared.failure() {
        panic!("after {} kills (seed {seed}): {reason}", killing.kills);
    }
    let mut sent_in_all = 0;
    for (chatter, sent, seen) in views {
        let sent = sent.expect("a feeder that did not fail gives a total");
        assert_eq!(seen.len(), 2, "a watcher that did not fail gives its view");
        if let Err(reason) = storm::compare_with_record(chatter, sent, &seen) {
            panic!("after {} kills (seed {seed}): {reason}", killing.kills);
        }
        sent_in_all += sent;
        let printed: u64 = seen.iter().map(|view| view.out + view.err).sum();
        shared.output.fetch_add(printed, Ordering::Relaxed);
    }
    assert!(sent_in_all > 0, "nothing was fed");
    assert_eq!(house.keeper().pid, keeper.pid, "the keeper's process changed");
    report(&shared, killing, since.elapsed());
    let refusals = shared.refusals.load(Ordering::Relaxed);
    assert_eq!(
        refusals, 0,
        "nothing was lost, but {refusals} requests were refused for want of the keeper (seed {seed})"
    );
}

fn kill_repeatedly(
    house: &mut House,
    shared: &Shared,
    random: &mut Random,
    kills: u64,
    end: Option<Instant>,
    upgrades: bool,
) -> Killing {
    let mut killing = Killing::default();
    loop {
        let over = end.map_or(killing.kills >= kills, |end| Instant::now() >= end);
        if over || shared.failure().is_some() {
            return killing;
        }
        wait_for_a_random_moment(shared, random);
        if upgrades && random.below(4) == 0 {
            match upgrade_keeper(house) {
                Ok(()) => killing.upgrades += 1,
                Err(reason) => {
                    shared.fail(reason);
                    return killing;
                }
            }
            thread::sleep(Duration::from_micros(random.below(5000)));
        }
        house.kill();
        let since = Instant::now();
        house.serve();
        killing.restarts.push(since.elapsed());
        killing.kills += 1;
    }
}

/// Half of the moments are chosen by the clock, half by how much input has been accepted meanwhile, so
/// that a slow machine is killed in the midst of its work as well.
fn wait_for_a_random_moment(shared: &Shared, random: &mut Random) {
    if random.below(2) == 0 {
        thread::sleep(Duration::from_micros(random.below(100_000)));
        return;
    }
    let goal = shared.input.load(Ordering::Relaxed) + random.below(3000);
    wait::attempt_often(Duration::from_millis(300), Duration::from_millis(1), || {
        (shared.input.load(Ordering::Relaxed) >= goal).then_some(())
    });
}

/// Runs `hostel keeper upgrade` on the house.
fn upgrade_keeper(house: &House) -> Result<(), String> {
    let directory = house.house_directory();
    let name = directory.file_name().expect("a house has a name").to_string_lossy().into_owned();
    let output = house::run(house.hostel(&["keeper", "upgrade", "--house", &name]));
    if output.status.success() {
        return Ok(());
    }
    Err(format!("hostel keeper upgrade ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn report(shared: &Shared, mut killing: Killing, took: Duration) {
    killing.restarts.sort();
    let median = killing.restarts.get(killing.restarts.len() / 2).copied().unwrap_or_default();
    let worst = killing.restarts.last().copied().unwrap_or_default();
    eprintln!(
        "figures: {} kills, {} keeper upgrades, {:.1} s, restart median {median:?} worst {worst:?}, {} connections, \
         {} frames, {:.1} MiB of output checked, {:.1} KiB of input, {} short processes; nothing lost, nothing twice",
        killing.kills,
        killing.upgrades,
        took.as_secs_f64(),
        shared.reconnects.load(Ordering::Relaxed),
        shared.frames.load(Ordering::Relaxed),
        shared.output.load(Ordering::Relaxed) as f64 / 1024.0 / 1024.0,
        shared.input.load(Ordering::Relaxed) as f64 / 1024.0,
        shared.spawns.load(Ordering::Relaxed),
    );
}
