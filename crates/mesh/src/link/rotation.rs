//! How the broker hears that the member has another key, and what has to be done once it has.
//!
//! Invariant: a key is adopted only on the broker's word: its answer, or its welcome. A connection speaks with one key from
//! its hello to its end; once another one counts it ends, and the next one speaks with that. Nothing here loses anything:
//! a connection may end at every point of it, and the next one goes on.

use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::client::{Call, Succession};
use hostel_wire::hello::succeed;
use hostel_wire::iso;
use serde_json::json;
use tokio::time::Instant;

use super::End;
use super::calls::Line;
use crate::keyring::MemberKey;
use crate::mesh::Refusal;
use crate::mesh::core::Core;

/// How long a key that was replaced leads to its member.
const GRACE_MS: u64 = 24 * 3_600_000;

/// How long to wait before the broker is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a connection stands at least on which it cannot be found out what has become of a request that was its first.
const DOUBT: Duration = Duration::from_secs(10);
const FRESH: Duration = Duration::from_secs(2);

/// Tells the broker of a key that is to count, whenever there is one, as long as the connection stands. Ends it where
/// only the next welcome can say which key counts.
pub(super) async fn tell(core: &Arc<Core>, line: &Line) -> End {
    let (mut changed, began) = (core.keys.watch(), Instant::now());
    loop {
        changed.mark_unchanged();
        if let Some(next) = core.keys.next() {
            match ask(core, line, &next).await {
                Ok(()) => adopt(core, &next).await,
                Err(refusal) => match verdict(refusal.code()) {
                    Verdict::Again => tokio::time::sleep(AGAIN).await,
                    Verdict::Never => abandon(core, &next, refusal).await,
                    Verdict::Unclear => {
                        core.log.warn("rotation_unclear", json!({"code": refusal.code(), "detail": refusal.detail()}));
                        // One that stands for a while may go by a time that the broker's clock was set from since; the
                        // next one knows the right one.
                        if began.elapsed() < FRESH {
                            tokio::time::sleep_until(began + DOUBT).await;
                        }
                        return End::lost("error", refusal);
                    }
                },
            }
            continue;
        }
        if changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What a refusal says about a key that is to count.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is open; the same connection may ask again.
    Again,
    /// It does not count, and will not.
    Never,
    /// The broker may have it.
    Unclear,
}

/// A key is given up on words alone that leave no doubt: whoever gives up one that the broker has is locked out for good.
/// `bad_signature` is none of them: a clock that is off is refused with it, too, and a new connection sets it right.
fn verdict(code: &str) -> Verdict {
    match code {
        "broker_unavailable" | "daemon_busy" | "unavailable" | "rate_limited" => Verdict::Again,
        "forbidden" | "invalid_argument" | "name_taken" | "capacity" | "key_replaced" | "unknown_message_type" => {
            Verdict::Never
        }
        _ => Verdict::Unclear,
    }
}

async fn ask(core: &Core, line: &Line, next: &MemberKey) -> Result<(), Refusal> {
    let current = core.keys.current();
    let timestamp = core.broker_now_ms();
    let me = &core.me;
    let Succession { old_pubkey, new_pubkey, timestamp, signature, proof } =
        succeed(&me.mesh_id, &me.member_id, &current.key, &next.key, timestamp);
    let call = Call::RotateKey { old_pubkey, new_pubkey, timestamp, signature, proof };
    line.ask(call).await.map(drop)
}

/// The broker has the key: from now on it is ours.
pub(super) async fn adopt(core: &Arc<Core>, next: &Arc<MemberKey>) {
    // On a task of its own: the connection on which this is done ends by it.
    hostel_tasks::spawn(adopted(Arc::clone(core), Arc::clone(next))).await.ok();
}

async fn adopted(core: Arc<Core>, next: Arc<MemberKey>) {
    let (ring, key) = (Arc::clone(&core), Arc::clone(&next));
    let before = hostel_tasks::spawn_blocking(move || ring.keys.adopt(&key)).await;
    let Ok(Some(before)) = before else { return };
    let me = &core.me;
    let data = json!({
        "mesh": me.slug, "memberId": me.member_id, "name": core.display_name(), "self": true,
        "oldPubkey": before.pubkey, "newPubkey": next.pubkey, "graceUntil": iso(grace(&core, &before.pubkey)),
    });
    core.log.info("member_keypair_rotated", data.clone());
    core.publish("member_keypair_rotated", data).await;
}

/// The broker knew an earlier key of ours and has followed us to the one that counts: its copies of keys are sealed for
/// that earlier one.
pub(super) fn told_again(core: &Core) {
    core.log
        .warn("broker_set_back", json!({"pubkey": core.pubkey(), "detail": "it knew an earlier key of this member"}));
    core.resealed.forget();
}

/// Until when a key that was replaced leads to us: as the roster says, or, where that is yet to come, as brokers do it.
fn grace(core: &Core, pubkey: &str) -> u64 {
    let ours = core.roster.member(&core.me.member_id);
    let listed = ours.and_then(|ours| ours.retired.into_iter().find(|key| key.pubkey == pubkey));
    listed.map_or_else(|| core.broker_now_ms().saturating_add(GRACE_MS), |key| key.until)
}

async fn abandon(core: &Arc<Core>, next: &Arc<MemberKey>, refusal: Refusal) {
    core.log.error("rotation_refused", json!({"code": refusal.code(), "detail": refusal.detail()}));
    let (ring, key) = (Arc::clone(core), Arc::clone(next));
    hostel_tasks::spawn_blocking(move || ring.keys.abandon(&key, refusal)).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_given_up_on_certain_words_alone() {
        for code in ["forbidden", "invalid_argument", "name_taken", "capacity", "key_replaced", "unknown_message_type"]
        {
            assert_eq!(verdict(code), Verdict::Never, "{code}");
        }
        for code in ["broker_unavailable", "daemon_busy", "unavailable", "rate_limited"] {
            assert_eq!(verdict(code), Verdict::Again, "{code}");
        }
        for code in ["bad_signature", "not_found", "mesh_not_found", "internal", "broker_refused", "of_a_later_broker"]
        {
            assert_eq!(verdict(code), Verdict::Unclear, "{code}");
        }
    }
}
