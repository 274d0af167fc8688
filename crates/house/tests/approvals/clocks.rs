//! Lives: fixed, or from when a face shows the request.

use std::time::Duration;

use hostel_house::approvals::{Approval, Life, NewRequest, State};

use super::house::{House, command};
use crate::support::within;

const LIFE: Duration = Duration::from_millis(40);
const LONG: Duration = Duration::from_secs(600);

fn from_shown(life: Duration) -> NewRequest {
    NewRequest { life: Life::FromShown(life), ..command(&["true"]) }
}

fn left(approval: &Approval) -> Duration {
    Duration::from_nanos(approval.expires_ns - approval.created_ns)
}

/// As it stands in memory once that is so.
async fn until(house: &House, id: &str, wanted: impl Fn(&Approval) -> bool) -> Approval {
    let mut changed = house.approvals.changed();
    let found = async {
        loop {
            changed.borrow_and_update();
            if let Some(approval) = house.approvals.pending().into_iter().find(|one| one.id == id && wanted(one)) {
                return approval;
            }
            changed.changed().await.unwrap();
        }
    };
    within("the request to be like that", found).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_face_the_clock_runs_from_the_start() {
    let house = House::new().await;
    let asked = house.ask(from_shown(LIFE)).await;
    assert_eq!(left(&asked), LIFE);
    assert_eq!(house.settled(&asked.id).await.state, State::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_face_the_clock_waits_to_be_shown() {
    let house = House::new().await;
    let face = house.approvals.face();
    let asked = house.ask(from_shown(LIFE)).await;
    assert!(left(&asked) > LONG);
    // Time goes by; a fixed life that ends meanwhile shows that the clock was looked at.
    let fixed = house.ask(NewRequest { life: Life::Fixed(LIFE), ..command(&["true"]) }).await;
    assert_eq!(house.settled(&fixed.id).await.state, State::Expired);
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
    house.approvals.shown(&asked.id).await.unwrap();
    assert_eq!(house.settled(&asked.id).await.state, State::Expired);
    let shown = house.get(&asked.id).await;
    assert_eq!(Duration::from_nanos(shown.expires_ns - shown.shown_ns), LIFE);
    assert_eq!(house.records(&asked.id).await, ["requested", "shown", "expired"]);
    drop(face);
}

#[tokio::test(flavor = "multi_thread")]
async fn showing_it_again_gives_no_more_time() {
    let house = House::new().await;
    let _face = house.approvals.face();
    let asked = house.ask(from_shown(LONG)).await;
    house.approvals.shown(&asked.id).await.unwrap();
    let first = until(&house, &asked.id, |one| one.shown_ns > 0).await;
    for _ in 0..3 {
        house.approvals.shown(&asked.id).await.unwrap();
    }
    let again = house.get(&asked.id).await;
    assert_eq!((again.shown_ns, again.expires_ns), (first.shown_ns, first.expires_ns));
    assert_eq!(house.records(&asked.id).await, ["requested", "shown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_last_face_leaves_the_clock_starts() {
    let house = House::new().await;
    let (one, other) = (house.approvals.face(), house.approvals.face());
    let asked = house.ask(from_shown(LIFE)).await;
    drop(one);
    assert!(left(&house.get(&asked.id).await) > LONG);
    drop(other);
    assert_eq!(house.settled(&asked.id).await.state, State::Expired);
    // Nobody has seen it.
    assert_eq!(house.get(&asked.id).await.shown_ns, 0);
    assert_eq!(house.records(&asked.id).await, ["requested", "expired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_life_is_what_it_is() {
    let house = House::new().await;
    let _face = house.approvals.face();
    let asked = house.ask(NewRequest { life: Life::Fixed(LONG), ..command(&["true"]) }).await;
    house.approvals.shown(&asked.id).await.unwrap();
    let shown = until(&house, &asked.id, |one| one.shown_ns > 0).await;
    assert_eq!(shown.expires_ns, asked.expires_ns);
    assert_eq!(house.approvals.expires_ns(&asked.id), Some(asked.expires_ns));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_runs_on_while_no_daemon_does() {
    let house = House::new().await;
    let face = house.approvals.face();
    let shown = house.ask(from_shown(LONG)).await;
    house.approvals.shown(&shown.id).await.unwrap();
    let before = until(&house, &shown.id, |one| one.shown_ns > 0).await;
    let fixed = house.ask(NewRequest { life: Life::Fixed(LIFE), ..command(&["true"]) }).await;
    let unseen = house.ask(from_shown(LIFE)).await;
    drop(face);
    let house = house.restart_with(|options| options.rejoin = Duration::from_millis(200)).await;
    assert_eq!(house.get(&shown.id).await.expires_ns, before.expires_ns);
    assert_eq!(house.settled(&fixed.id).await.state, State::Expired);
    // No face has come back: its clock starts, or had started.
    assert_eq!(house.settled(&unseen.id).await.state, State::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_end_at_the_same_moment() {
    let house = House::new().await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let approvals = house.approvals.clone();
        let life = Life::Fixed(Duration::from_millis(100));
        asked.spawn(async move { approvals.request(NewRequest { life, ..command(&["true"]) }).await.unwrap().id });
    }
    for id in asked.join_all().await {
        assert_eq!(house.settled(&id).await.state, State::Expired);
    }
    assert_eq!(house.verified().await, 1 + 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_faces_of_before_a_restart_have_their_time_to_come_back() {
    let house = House::new().await;
    let face = house.approvals.face();
    let unseen = house.ask(from_shown(LONG)).await;
    let house = house.restart_with(|options| options.rejoin = Duration::from_secs(600)).await;
    drop(face);
    // Fixed lives that end meanwhile show that the clock was looked at.
    for _ in 0..2 {
        let fixed = house.ask(NewRequest { life: Life::Fixed(LIFE), ..command(&["true"]) }).await;
        assert_eq!(house.settled(&fixed.id).await.state, State::Expired);
    }
    assert_eq!(house.get(&unseen.id).await.expires_ns, unseen.expires_ns, "it waits to be shown");
    let house = house.restart_with(|options| options.rejoin = Duration::ZERO).await;
    let begun = until(&house, &unseen.id, |one| one.expires_ns < unseen.expires_ns).await;
    assert_eq!(begun.shown_ns, 0, "there is nobody to show it to");
}
