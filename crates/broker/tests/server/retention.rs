//! What time takes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_broker::{Limits, Settings};
use hostel_wire::Clock;
use serde_json::json;

use super::Lab;
use super::peer::dm;

const DAY: u64 = 24 * 3_600_000;

#[tokio::test]
async fn old_entries_go_their_ids_stay_and_readers_hear_of_the_gap() {
    let ahead = Arc::new(AtomicU64::new(0));
    let clock = Clock::of({
        let (ahead, system) = (Arc::clone(&ahead), Clock::system());
        move || system.now_ms() + ahead.load(Ordering::Relaxed)
    });
    let limits = Limits { retention_days: 30, dedupe_days: 60, ..Limits::default() };
    let lab = Lab::with_clock(Settings { limits, ..Settings::default() }, clock).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let first = a.send(dm(&bob, "m1")).await;
    a.send(dm(&bob, "m2")).await;
    ahead.store(31 * DAY, Ordering::Relaxed);
    lab.host.broker.registry().sweep().await.unwrap();
    a.send(dm(&bob, "m3")).await;
    let again = a.send(dm(&bob, "m1")).await;
    assert_eq!((&again["messageId"], &again["duplicate"]), (&first["messageId"], &json!(true)));
    assert_eq!(again["historyAvailable"], false);
    let epoch = a.epoch();
    let mut b = bob.link_from(&lab.host, &epoch, 0).await;
    assert_eq!((&b.welcome["resume"], &b.welcome["gap"]), (&json!("gap"), &json!({"from": 1, "to": 2})));
    assert_eq!(b.welcome["log"], json!({"epoch": epoch, "firstSeq": 3, "lastSeq": 3}));
    assert_eq!(b.push().await["client_message_id"], "m3");
    // Who has everything that is gone has no gap.
    let b = bob.link_from(&lab.host, &epoch, 2).await;
    assert_eq!((&b.welcome["resume"], b.welcome["gap"].is_null()), (&json!("ok"), true));
    // When its time has come, an id is free again.
    ahead.store(62 * DAY, Ordering::Relaxed);
    lab.host.broker.registry().sweep().await.unwrap();
    let anew = a.send(dm(&bob, "m1")).await;
    assert_eq!((&anew["seq"], anew["duplicate"].is_null()), (&json!(4), true));
}
