//! Messages between five daemons while these and the broker are killed with SIGKILL at random.

use std::env;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::claudemesh::{Lab, Transport};
use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::callers::{self, Fate, Sent, Shared};
use super::check;
use super::field::{self, Destination, NAMES, Place};

/// How many messages, unless `HOSTEL_MESSAGES` says otherwise.
const MESSAGES: u64 = 2000;
/// How many kills, unless `HOSTEL_KILLS` says otherwise.
const KILLS: u64 = 20;
/// How long everything may take to arrive once it is calm.
const SETTLING: Duration = Duration::from_secs(180);

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn killing_daemons_and_the_broker_loses_and_doubles_no_message() {
    let mut seed = random::seed();
    let end = setting("HOSTEL_MINUTES").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    loop {
        storm(seed);
        // Another mesh, and everything else comes otherwise.
        seed = Random::new(seed).bits();
        if end.is_none_or(|end| Instant::now() >= end) {
            break;
        }
    }
}

fn storm(seed: u64) {
    let kills = setting("HOSTEL_KILLS").unwrap_or(KILLS);
    let messages = setting("HOSTEL_MESSAGES").unwrap_or(MESSAGES);
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let preparing = Instant::now();
    let (mut lab, places) = field::prepare();
    eprintln!("five daemons and a broker after {:.1} s", preparing.elapsed().as_secs_f64());
    let since = Instant::now();
    let shared = Shared::default();
    let (mut sent, figures) = send_and_kill(&mut lab, &shared, &places, &mut random, (messages, kills));
    if let Some(reason) = shared.failure() {
        panic!("after {} kills (seed {seed}): {reason}", figures.kills);
    }
    let stormed = since.elapsed();
    settle(&lab, &places, &mut sent, "first");
    let first = check_all(&lab, &sent, seed);
    // Whatever was half done is done again by a start: still nothing comes twice.
    lab.kill_broker();
    lab.hosts.iter_mut().for_each(hostel_tests::claudemesh::Host::kill);
    lab.start_broker();
    lab.hosts.iter_mut().for_each(hostel_tests::claudemesh::Host::start);
    settle(&lab, &places, &mut sent, "second");
    let second = check_all(&lab, &sent, seed);
    assert_eq!(second, first + NAMES.len() * (NAMES.len() - 1), "the inboxes but for the last words");
    for host in &mut lab.hosts {
        assert!(host.stop().success(), "{}", host.printed());
    }
    lab.kill_broker();
    let logged = check::check_log(&lab, &sent);
    for host in &lab.hosts {
        assert!(!host.printed().contains("panicked"), "{} panicked:\n{}", host.name, host.printed());
    }
    assert!(!lab.broker_printed().contains("panicked"), "the broker panicked:\n{}", lab.broker_printed());
    report(&shared, &sent, &figures, (stormed, since.elapsed()), (first, logged));
}

#[derive(Default)]
struct Figures {
    kills: u64,
    of_broker: u64,
    restarts: Vec<Duration>,
}

fn send_and_kill(
    lab: &mut Lab,
    shared: &Shared,
    places: &[Place],
    random: &mut Random,
    (messages, kills): (u64, u64),
) -> (Vec<Sent>, Figures) {
    let parts: Vec<(usize, usize, Vec<Destination>)> = (0..NAMES.len())
        .flat_map(|sender| {
            let parts = callers::parts(sender, NAMES.len());
            parts.into_iter().enumerate().map(move |(part, destinations)| (sender, part, destinations))
        })
        .collect();
    let count = parts.len() as u64;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (sender, part, destinations)) in (0..).zip(&parts) {
            let share = messages / count + u64::from(number < messages % count);
            let seed = random.bits();
            threads
                .push(scope.spawn(move || callers::call(shared, places, (*sender, *part), destinations, share, seed)));
        }
        let figures = kill_repeatedly(lab, shared, random, (messages, kills), count);
        let sent = threads.into_iter().flat_map(|thread| thread.join().expect("a caller does not panic")).collect();
        (sent, figures)
    })
}

/// Kills that are spread over the messages; the last ones may come when all are sent, but not all are delivered.
fn kill_repeatedly(
    lab: &mut Lab,
    shared: &Shared,
    random: &mut Random,
    (messages, kills): (u64, u64),
    callers: u64,
) -> Figures {
    let mut figures = Figures::default();
    while figures.kills < kills && shared.failure().is_none() {
        let goal = messages * figures.kills / kills.max(1) + random.below(messages / kills.max(1) + 1);
        wait::attempt_often(Duration::from_secs(5), Duration::from_millis(2), || {
            let there = shared.settled.load(Ordering::Relaxed) >= goal;
            (there || shared.done.load(Ordering::SeqCst) == callers).then_some(())
        });
        thread::sleep(Duration::from_micros(random.below(30_000)));
        // Most often one dies, now and then several at once.
        let many = match random.below(10) {
            0 => 3,
            1 | 2 => 2,
            _ => 1,
        };
        let mut victims: Vec<usize> = (0..=NAMES.len()).collect();
        for at in (1..victims.len()).rev() {
            victims.swap(at, usize::try_from(random.below(at as u64 + 1)).expect("an index"));
        }
        victims.truncate(many);
        // The broker is everybody's: it dies more often than each.
        if random.below(6) == 0 && !victims.contains(&NAMES.len()) {
            victims[0] = NAMES.len();
        }
        for victim in &victims {
            match lab.hosts.get_mut(*victim) {
                Some(host) => host.kill(),
                None => {
                    lab.kill_broker();
                    figures.of_broker += 1;
                }
            }
            figures.kills += 1;
        }
        // Short most often; now and then long enough for much to pile up.
        let longest = if random.below(10) == 0 { 3_000_000 } else { 200_000 };
        thread::sleep(Duration::from_micros(random.below(longest)));
        victims.reverse();
        for victim in victims {
            let since = Instant::now();
            match lab.hosts.get_mut(victim) {
                Some(host) => {
                    // Now and then the next one dies as well, while it starts.
                    if random.below(6) == 0 {
                        host.launch(&[]);
                        thread::sleep(Duration::from_micros(random.below(200_000)));
                        host.kill();
                        figures.kills += 1;
                    }
                    host.start();
                }
                None => lab.start_broker(),
            }
            figures.restarts.push(since.elapsed());
        }
    }
    figures
}

/// Waits until every outbox is empty and everybody has everybody's last word, which comes after everything else.
fn settle(lab: &Lab, places: &[Place], sent: &mut Vec<Sent>, word: &str) {
    for host in &lab.hosts {
        host.wait_connected();
    }
    wait::until_true(SETTLING, "every outbox to be empty", || check::outboxes_empty(lab));
    for (sender, host) in lab.hosts.iter().enumerate() {
        let id = format!("{word}-{}", places[sender].key);
        let body = json!({"to": "*", "message": word, "priority": "low", "client_message_id": id});
        let answer = host.client(Transport::Socket).post("/v1/send", &body);
        assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
        sent.push(Sent {
            id,
            sender,
            destination: Destination::All,
            priority: "low",
            body: word.to_owned(),
            meta: None,
            fate: Fate::Heard,
        });
    }
    for host in &lab.hosts {
        let client = host.client(Transport::Socket);
        wait::until_true(SETTLING, &format!("the last words to come to {}", host.name), || {
            let page = client.get_json("/v1/inbox?mark_seen=false&limit=50");
            let items = page["items"].as_array().expect("items");
            items.iter().filter(|item| item["body"] == word).count() == NAMES.len() - 1
        });
    }
    wait::until_true(SETTLING, "every outbox to be empty", || check::outboxes_empty(lab));
}

fn check_all(lab: &Lab, sent: &[Sent], seed: u64) -> usize {
    let mut rows = 0;
    let mut wrong = Vec::new();
    for (number, host) in lab.hosts.iter().enumerate() {
        let client = host.client(Transport::Socket);
        let dead = client.get_json("/v1/outbox?status=dead&limit=10")["items"].clone();
        if dead.as_array().is_none_or(|items| !items.is_empty()) {
            wrong.push(format!("{} gave up messages: {dead}", host.name));
        }
        let inbox: Vec<Value> = check::inbox(&client);
        match check::check_inbox(number, &inbox, sent) {
            Ok(found) => rows += found,
            Err(reason) => wrong.push(reason),
        }
    }
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    rows
}

fn report(
    shared: &Shared,
    sent: &[Sent],
    figures: &Figures,
    (stormed, took): (Duration, Duration),
    (rows, logged): (usize, usize),
) {
    let mut restarts = figures.restarts.clone();
    restarts.sort();
    let median = restarts.get(restarts.len() / 2).copied().unwrap_or_default();
    let fates = |fate: Fate| sent.iter().filter(|message| message.fate == fate).count();
    eprintln!(
        "figures: {} kills ({} of the broker), {} messages accepted and {} whose answer nobody heard in {:.1} s ({:.1} s \
         with settling), {rows} rows in inboxes, {logged} entries in the log, {} answers lost, {} ids known already, restart \
         median {median:?}, refusals {:?}; nothing lost, nothing twice, order kept",
        figures.kills,
        figures.of_broker,
        fates(Fate::Heard),
        fates(Fate::Unheard) + fates(Fate::Abandoned),
        stormed.as_secs_f64(),
        took.as_secs_f64(),
        shared.lost.load(Ordering::Relaxed),
        shared.known.load(Ordering::Relaxed),
        shared.refusals.lock().expect("nobody panics while holding it"),
    );
}
