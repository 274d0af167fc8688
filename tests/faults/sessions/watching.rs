//! Watchers of the sessions' storm: each event once and in order, and what was seen once never becomes something else.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hostel_tests::random::Random;
use serde_json::Value;

use super::feeding::{Shared, Subject};
use super::native::Trouble;

/// Watches a session's events, each exactly once and in order, until it rests. A restless one leaves every now and
/// then and comes back to something it has seen before.
pub(crate) fn watch(shared: &Shared, subject: &Subject, restless: Option<u64>) -> Option<Vec<Value>> {
    let mut random = Random::new(restless.unwrap_or(0));
    let mut seen: Vec<Value> = Vec::new();
    let number = |update: &Value| update["seq"].as_u64().unwrap_or(0);
    while !(subject.rests() && restless.is_some()) {
        let mut native = shared.connect("hostel.sock")?;
        // Where to begin: after the last, or after some earlier one.
        let again = restless.map_or(0, |_| random.below(20).min(seen.len() as u64));
        let mut at = seen.len() - usize::try_from(again).unwrap_or(0);
        let since = at.checked_sub(1).map_or(0, |last| number(&seen[last]));
        if native.attach(&subject.id, since, true).is_err() {
            continue;
        }
        let mut left = restless.map(|_| 1 + random.below(300));
        loop {
            if restless.is_none() && subject.rests() {
                return Some(seen);
            }
            if left == Some(0) || shared.failure().is_some() {
                break;
            }
            left = left.map(|left| left - 1);
            let deadline = Instant::now() + Duration::from_millis(if restless.is_some() { 50 } else { 200 });
            let update = match native.update_until(deadline) {
                Ok(update) => update,
                Err(Trouble::Late) if restless.is_none() => continue,
                Err(_) => break,
            };
            shared.updates.fetch_add(1, Ordering::Relaxed);
            if let Some(known) = seen.get(at) {
                if *known != update {
                    shared.fail(format!("{}: an event changed: {known} became {update}", subject.letter));
                    return None;
                }
            } else {
                let last = seen.last().map_or(0, number);
                if update["type"] == "gap" || number(&update) <= last {
                    shared.fail(format!("{}: after event {last} came {update}", subject.letter));
                    return None;
                }
                if update["type"] == "turn_complete" && restless.is_none() {
                    subject.ended.fetch_add(1, Ordering::SeqCst);
                }
                seen.push(update);
            }
            at += 1;
        }
        if shared.failure().is_some() {
            return None;
        }
    }
    Some(seen)
}
