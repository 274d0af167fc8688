//! The passphrase, wrong ones, and proof in memory.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::{Claim, DecideError, Face, LockoutLimits, Passphrase, State};
use hostel_peer::Peer;
use hostel_syncpoint::SyncPoint;

use super::house::{House, command, terminal, with_passphrase};

const RIGHT: &str = "correct horse";

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.to_owned())
}

async fn with_approver(change: impl FnOnce(&mut hostel_house::approvals::ApprovalOptions)) -> House {
    let house = House::with(change).await;
    house.approvals.approver().set(passphrase(RIGHT), None, &Peer::own(), "me").await.unwrap();
    house
}

async fn try_with(house: &House, id: &str, text: &str) -> Result<State, DecideError> {
    house.approvals.decide(id, Decision::AllowOnce, &with_passphrase(text)).await.map(|approval| approval.state)
}

fn kinds(records: &[hostel_house::approvals::Record]) -> Vec<&str> {
    records.iter().map(|record| record.kind.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn set_shown_changed_and_removed() {
    let house = House::new().await;
    let approver = house.approvals.approver();
    assert!(!approver.is_set());
    let short = approver.set(passphrase("short"), None, &Peer::own(), "me").await;
    assert!(matches!(short, Err(DecideError::Refused(_))), "{short:?}");
    approver.set(passphrase(RIGHT), None, &Peer::own(), "me").await.unwrap();
    assert!(approver.is_set());
    let file = house.path().join("approver");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("$argon2id$v=19$") && !text.contains(RIGHT), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // Nothing else is left beside it.
    let names: Vec<_> = std::fs::read_dir(house.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".new")), "{names:?}");
    // Another only with the old one.
    let without = approver.set(passphrase("battery staple"), None, &Peer::own(), "me").await;
    assert!(matches!(without, Err(DecideError::Refused(_))), "{without:?}");
    let wrong = approver.set(passphrase("battery staple"), Some(passphrase("wrong one")), &Peer::own(), "me").await;
    assert!(matches!(wrong, Err(DecideError::WrongPassphrase { left: 4 })), "{wrong:?}");
    approver.set(passphrase("battery staple"), Some(passphrase(RIGHT)), &Peer::own(), "me").await.unwrap();
    let asked = house.ask(command(&["true"])).await;
    assert!(matches!(try_with(&house, &asked.id, RIGHT).await, Err(DecideError::WrongPassphrase { left: 4 })));
    assert_eq!(try_with(&house, &asked.id, "battery staple").await.unwrap(), State::Approved);
    approver.clear(passphrase("battery staple"), &Peer::own(), "me").await.unwrap();
    assert!(!approver.is_set() && !file.exists());
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    // The endorsement of a passphrase is written behind the backs of those who show it, at any later moment.
    let told: Vec<&str> = kinds(&records).into_iter().filter(|kind| *kind != "endorsed").collect();
    assert_eq!(
        told,
        [
            "segment",
            "approver_set",
            "wrong_passphrase",
            "approver_changed",
            "requested",
            "wrong_passphrase",
            "decided",
            "approver_cleared"
        ]
    );
    let all = serde_json::to_string(&records.iter().map(|record| &record.body).collect::<Vec<_>>()).unwrap();
    assert!(!all.contains("battery") && !all.contains("horse"), "{all}");
    assert_eq!(format!("{:?}", passphrase(RIGHT)), "Passphrase(…)");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_ones_lead_to_a_pause_that_a_restart_does_not_end() {
    assert_eq!(LockoutLimits::default().wait, Duration::from_secs(30));
    // Far longer than the test takes, on any machine.
    let wait = Duration::from_secs(3000);
    let house = with_approver(|options| (options.lockout.wait, options.lockout.longest) = (wait, wait)).await;
    let asked = house.ask(command(&["true"])).await;
    for left in (1..5).rev() {
        let wrong = try_with(&house, &asked.id, "wrong").await;
        assert!(matches!(wrong, Err(DecideError::WrongPassphrase { left: found }) if found == left), "{wrong:?}");
    }
    let before = now();
    let locked = try_with(&house, &asked.id, "wrong").await;
    let Err(DecideError::LockedOut { until_ns }) = locked else { panic!("{locked:?}") };
    let until = Duration::from_nanos(until_ns);
    assert!(before + wait <= until && until <= now() + wait, "{before:?} {until:?} {:?}", now());
    // The right one is not even looked at, by any way.
    assert!(matches!(try_with(&house, &asked.id, RIGHT).await, Err(DecideError::LockedOut { .. })));
    let unlock = house.approvals.approver().unlock(&passphrase(RIGHT), &Peer::own(), "me").await;
    assert!(matches!(unlock, Err(DecideError::LockedOut { .. })), "{unlock:?}");
    let house = house.restart().await;
    assert!(
        matches!(try_with(&house, &asked.id, RIGHT).await, Err(DecideError::LockedOut { until_ns: found }) if found == until_ns)
    );
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
    // What takes no passphrase goes on.
    assert_eq!(house.approve(&asked.id).await.unwrap().state, State::Approved);
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "wrong_passphrase").count(), 5);
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "locked_out").count(), 1);
}

fn now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
}

/// The pause that a wrong passphrase leads to, if it is the one that was expected.
async fn locks_for(house: &House, id: &str, wanted: Duration) {
    let before = now();
    let locked = try_with(house, id, "wrong").await;
    let after = now();
    let Err(DecideError::LockedOut { until_ns }) = locked else { panic!("{locked:?}") };
    let until = Duration::from_nanos(until_ns);
    assert!(before + wanted <= until && until <= after + wanted, "{wanted:?}: {before:?} {after:?} {until:?}");
    tokio::time::sleep(until.saturating_sub(now())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_double_up_to_the_longest_and_the_right_one_forgives() {
    let house = with_approver(|options| {
        options.lockout =
            LockoutLimits { attempts: 2, wait: Duration::from_millis(50), longest: Duration::from_millis(150) };
    })
    .await;
    let asked = house.ask(command(&["true"])).await;
    for wanted in [50, 100, 150, 150] {
        let wrong = try_with(&house, &asked.id, "wrong").await;
        assert!(matches!(wrong, Err(DecideError::WrongPassphrase { left: 1 })), "{wrong:?}");
        locks_for(&house, &asked.id, Duration::from_millis(wanted)).await;
    }
    assert_eq!(try_with(&house, &asked.id, RIGHT).await.unwrap(), State::Approved);
    let asked = house.ask(command(&["true"])).await;
    let wrong = try_with(&house, &asked.id, "wrong").await;
    assert!(matches!(wrong, Err(DecideError::WrongPassphrase { left: 1 })), "{wrong:?}");
    locks_for(&house, &asked.id, Duration::from_millis(50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections_get_no_more_attempts() {
    let house = with_approver(|_| {}).await;
    let asked = house.ask(command(&["true"])).await;
    let mut many = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (approvals, id) = (house.approvals.clone(), asked.id.clone());
        many.spawn(async move {
            let claim = with_passphrase(&format!("guess {number}"));
            approvals.decide(&id, Decision::AllowOnce, &claim).await.unwrap_err()
        });
    }
    let all = many.join_all().await;
    let wrong = all.iter().filter(|error| matches!(error, DecideError::WrongPassphrase { .. })).count();
    assert_eq!(wrong, 4, "{all:?}");
    assert!(
        all.iter().all(|error| matches!(error, DecideError::WrongPassphrase { .. } | DecideError::LockedOut { .. }))
    );
    let records = house.approvals.audit().show(0, 1000).await.unwrap();
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "wrong_passphrase").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_counts_though_the_daemon_is_killed_while_it_is_looked_at() {
    let house = with_approver(|_| {}).await;
    let asked = house.ask(command(&["true"])).await;
    // As if four were wrong and the fifth was never answered.
    let work = |transaction: &rusqlite::Transaction<'_>| transaction.execute("UPDATE lockout SET wrong = 5", []);
    house.store.write(SyncPoint::NONE, work).await.unwrap();
    let house = house.restart().await;
    assert!(matches!(try_with(&house, &asked.id, RIGHT).await, Err(DecideError::LockedOut { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_somebody_writes_into_the_database_is_none_and_a_restart_makes_it_the_longest() {
    let house = with_approver(|options| options.lockout.longest = Duration::from_secs(3000)).await;
    let asked = house.ask(command(&["true"])).await;
    let forge = async |house: &House| {
        let work = |transaction: &rusqlite::Transaction<'_>| {
            transaction.execute("UPDATE lockout SET until_ns = 9000000000000000000", [])
        };
        house.store.write(SyncPoint::NONE, work).await.unwrap();
    };
    // The count in memory is what counts, and is written again.
    forge(&house).await;
    assert_eq!(try_with(&house, &asked.id, RIGHT).await.unwrap(), State::Approved);
    forge(&house).await;
    let before = now();
    let house = house.restart().await;
    let asked = house.ask(command(&["true"])).await;
    let locked = try_with(&house, &asked.id, RIGHT).await;
    let Err(DecideError::LockedOut { until_ns }) = locked else { panic!("{locked:?}") };
    let (until, longest) = (Duration::from_nanos(until_ns), Duration::from_secs(3000));
    assert!(before + longest <= until && until <= now() + longest, "{before:?} {until:?}");
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "tampered").count(), 2, "{:?}", kinds(&records));
}

#[tokio::test(flavor = "multi_thread")]
async fn proof_in_memory_holds_until_the_passphrase_is_another() {
    let house = with_approver(|_| {}).await;
    let approver = house.approvals.approver();
    let wrong = approver.unlock(&passphrase("wrong"), &Peer::own(), "me").await;
    assert!(matches!(wrong, Err(DecideError::WrongPassphrase { left: 4 })), "{wrong:?}");
    let unlock = approver.unlock(&passphrase(RIGHT), &Peer::own(), "me").await.unwrap();
    assert_eq!(format!("{unlock:?} {:?}", passphrase(RIGHT)), "Unlock(…) Passphrase(…)");
    let claim = Claim { face: Face::Unlocked(unlock), peer: Peer::own(), label: "a face".to_owned() };
    for _ in 0..2 {
        let asked = house.ask(command(&["true"])).await;
        assert_eq!(house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await.unwrap().decider, "a face");
    }
    let asked = house.ask(command(&["true"])).await;
    approver.set(passphrase("battery staple"), Some(passphrase(RIGHT)), &Peer::own(), "me").await.unwrap();
    let stale = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
    assert!(matches!(stale, Err(DecideError::Refused(_))), "{stale:?}");
    approver.clear(passphrase("battery staple"), &Peer::own(), "me").await.unwrap();
    let none = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
    assert!(matches!(none, Err(DecideError::NoPassphraseSet)), "{none:?}");
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
}

/// Does something to the approver's file. The passphrase of before counts, now and after a restart, and the restart
/// records that the file is another.
async fn changes_nothing(change: impl FnOnce(&std::path::Path)) {
    let house = with_approver(|_| {}).await;
    let file = house.path().join("approver");
    change(&file);
    let counts = async |house: &House| {
        assert!(house.approvals.approver().is_set());
        let asked = house.ask(command(&["true"])).await;
        for wrong in [OTHER, ""] {
            let wrong = try_with(house, &asked.id, wrong).await;
            assert!(matches!(wrong, Err(DecideError::WrongPassphrase { .. })), "{wrong:?}");
        }
        assert_eq!(try_with(house, &asked.id, RIGHT).await.unwrap(), State::Approved);
    };
    counts(&house).await;
    let house = house.restart().await;
    counts(&house).await;
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    let tampered: Vec<_> = records.iter().filter(|record| record.kind == "tampered").collect();
    assert!(tampered.iter().any(|record| record.body["what"] == "approver_file"), "{tampered:?}");
}

const OTHER: &str = "battery staple";

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_others_can_touch_changes_nothing() {
    for mode in [0o644, 0o620, 0o604] {
        changes_nothing(|file| {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        })
        .await;
    }
    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        changes_nothing(|file| std::os::unix::fs::chown(file, Some(65534), None).unwrap()).await;
    }
    changes_nothing(|file| {
        let elsewhere = file.with_file_name("elsewhere");
        std::fs::rename(file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, file).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_replaces_changes_nothing() {
    for text in ["", "nonsense", "$2b$12$abc", &"$argon2id$".repeat(2000)] {
        changes_nothing(|file| std::fs::write(file, text).unwrap()).await;
    }
    changes_nothing(|file| std::fs::remove_file(file).unwrap()).await;
    // A digest that a house made of another passphrase.
    let other = House::new().await;
    other.approvals.approver().set(passphrase(OTHER), None, &Peer::own(), "me").await.unwrap();
    changes_nothing(|file| {
        std::fs::copy(other.path().join("approver"), file).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_demands_it_everywhere() {
    assert!(!House::new().await.approvals.is_strict());
    let house = with_approver(|options| options.strict = true).await;
    assert!(house.approvals.is_strict());
    let asked = house.ask(command(&["true"])).await;
    for face in [Face::Socket, Face::Terminal, Face::Pkexec] {
        let refused = house.approvals.decide(&asked.id, Decision::AllowOnce, &Claim { face, ..terminal() }).await;
        assert!(matches!(refused, Err(DecideError::Refused(_))), "{refused:?}");
    }
    assert_eq!(try_with(&house, &asked.id, RIGHT).await.unwrap(), State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passphrase_is_neither_short_nor_endless() {
    use hostel_house::approvals::{LONGEST_PASSPHRASE, SHORTEST_PASSPHRASE};
    for (length, taken) in [
        (SHORTEST_PASSPHRASE - 1, false),
        (SHORTEST_PASSPHRASE, true),
        (LONGEST_PASSPHRASE, true),
        (LONGEST_PASSPHRASE + 1, false),
    ] {
        let house = House::new().await;
        let set = house.approvals.approver().set(passphrase(&"x".repeat(length)), None, &Peer::own(), "me").await;
        assert_eq!(set.is_ok(), taken, "{length}: {set:?}");
    }
}
