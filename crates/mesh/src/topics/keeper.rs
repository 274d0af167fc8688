//! Who sees to the keys of topics while a connection stands: fetches what is missing, makes what nobody has, seals
//! copies for those who need one, and opens what waited.
//!
//! Invariant: a key is believed only if a member of the mesh sealed it, and a key of ours is used only once the broker
//! has stored it as the epoch's first: two who make one at the same time end up with the same. Copies are sealed only
//! for members whose key counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::client::{Call, Seal};
use hostel_wire::frames::server::{TopicKeyFrame, TopicKeyNeeded};
use hostel_wire::sealed::TopicKey;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Ask, GENERAL, talk};
use crate::link::calls::{Line, Reply};
use crate::link::{open, pages};
use crate::mesh::Refusal;
use crate::mesh::core::Core;

/// Copies in one frame: each has about 250 bytes.
const SEALS: usize = 500;

/// Asks that could not be satisfied are tried again after this long.
const AGAIN: Duration = Duration::from_secs(5);
/// And not later than after this long.
const LATEST: Duration = Duration::from_secs(60);

/// What the broker says about keys unasked.
#[derive(Debug)]
pub(crate) enum KeyNews {
    /// Somebody has sealed one for us.
    Arrived(TopicKeyFrame),
    /// Somebody needs one that we hold.
    Needed(TopicKeyNeeded),
}

/// What became of an ask.
enum Outcome {
    Settled,
    /// Somebody else must act first.
    Waits,
}

/// Sees to keys until the connection ends.
pub(crate) async fn keep(core: &Arc<Core>, line: &Line, mut news: mpsc::Receiver<KeyNews>) {
    let mut open: BTreeSet<Ask> = BTreeSet::new();
    // Each missing key is reported once.
    let mut reported: BTreeSet<(String, u64)> = BTreeSet::new();
    let (mut look, mut wait) = (true, AGAIN);
    loop {
        if look {
            open.extend(core.topics.take_asks());
            open = settle_all(core, line, open, &mut reported).await;
        }
        look = tokio::select! {
            said = news.recv() => match said {
                None => return,
                Some(KeyNews::Arrived(frame)) => match take(core, &frame) {
                    Some((ring, epoch)) => {
                        open_waiting(core, &ring, epoch).await;
                        true
                    }
                    None => false,
                },
                Some(KeyNews::Needed(needed)) => {
                    if let Err(refusal) = share(core, line, &needed).await {
                        core.log.debug("topic_key_not_shared", json!({"code": refusal.code()}));
                    }
                    false
                }
            },
            () = core.topics.asked.notified() => {
                wait = AGAIN;
                true
            }
            () = tokio::time::sleep(wait), if !open.is_empty() => {
                wait = (wait * 2).min(LATEST);
                true
            }
        };
    }
}

/// Sees to everything that was asked; what is left must be tried again.
async fn settle_all(
    core: &Arc<Core>,
    line: &Line,
    asks: BTreeSet<Ask>,
    reported: &mut BTreeSet<(String, u64)>,
) -> BTreeSet<Ask> {
    let mut left = BTreeSet::new();
    for ask in asks {
        match settle(core, line, &ask).await {
            Ok(Outcome::Settled) => {}
            Ok(Outcome::Waits) => {
                if let Ask::Read(ring, epoch) = &ask
                    && reported.insert((ring.clone(), *epoch))
                {
                    let topic =
                        core.topics.id_of_ring(ring).and_then(|id| core.topics.by_id(&id)).map(|known| known.name);
                    let data = json!({"mesh": core.me.slug, "topic": topic, "epoch": epoch});
                    core.publish("topic_key_missing", data).await;
                }
                left.insert(ask);
            }
            Err(refusal) => {
                core.log.debug("topic_key_refused", json!({"code": refusal.code(), "detail": refusal.detail()}));
                // Whoever wants to post waits until it can be settled.
                if matches!(ask, Ask::Post(_)) || refusal.code() == "broker_unavailable" {
                    left.insert(ask);
                }
            }
        }
    }
    left
}

async fn settle(core: &Arc<Core>, line: &Line, ask: &Ask) -> Result<Outcome, Refusal> {
    match ask {
        Ask::Read(ring, epoch) => {
            if core.topics.key(ring, *epoch).is_some() {
                open_waiting(core, ring, *epoch).await;
                return Ok(Outcome::Settled);
            }
            let Some(id) = core.topics.id_of_ring(ring) else { return Ok(Outcome::Waits) };
            match fetch(core, line, &id, Some(*epoch)).await? {
                true => {
                    open_waiting(core, ring, *epoch).await;
                    Ok(Outcome::Settled)
                }
                false => Ok(Outcome::Waits),
            }
        }
        Ask::Post(ring) => for_posting(core, line, ring).await,
    }
}

/// Gets the key of the topic's own epoch, or makes it.
async fn for_posting(core: &Arc<Core>, line: &Line, ring: &str) -> Result<Outcome, Refusal> {
    talk::refresh(&core.topics, line).await?;
    let id = core.topics.id_of_ring(ring);
    let Some(known) = id.as_deref().and_then(|id| core.topics.by_id(id)) else {
        let Some(id) = id else {
            core.topics.fresh(ring);
            return Ok(Outcome::Settled);
        };
        // The list may be older than the topic, or not be all of it: the broker is asked about this one.
        fetch(core, line, &id, None).await?;
        core.topics.fresh(ring);
        return Ok(if core.topics.is_gone(&id) { Outcome::Settled } else { Outcome::Waits });
    };
    let everybody_has_it = ring == GENERAL && known.epoch == 0;
    let mut settled = everybody_has_it || fetch(core, line, &known.id, Some(known.epoch)).await?;
    if !settled {
        settled = match create(core, line, &known.id, known.epoch).await {
            Ok(()) => true,
            // Somebody was faster; their copy for us may be there already, or a holder will be asked for one.
            Err(refusal) if refusal.code() == "epoch_taken" => fetch(core, line, &known.id, Some(known.epoch)).await?,
            Err(refusal) => return Err(refusal),
        };
    }
    if !settled {
        return Ok(Outcome::Waits);
    }
    core.topics.fresh(ring);
    open_waiting(core, ring, known.epoch).await;
    Ok(Outcome::Settled)
}

/// Asks for our copy of a key; `false` if there is none.
async fn fetch(core: &Arc<Core>, line: &Line, topic_id: &str, epoch: Option<u64>) -> Result<bool, Refusal> {
    match line.ask(Call::TopicKeyGet { topic_id: topic_id.to_owned(), epoch }).await {
        Ok(Reply::TopicKey(frame)) => Ok(take(core, &frame).is_some()),
        Ok(Reply::Answer(_)) => Ok(false),
        Err(refusal) if refusal.code() == "broker_unavailable" => Err(refusal),
        Err(refusal) if refusal.code() == "topic_not_found" => {
            core.topics.forget(topic_id);
            Ok(false)
        }
        Err(_) => Ok(false),
    }
}

/// Takes a key that was sealed for us, if a member of the mesh sealed it. Says where it belongs.
fn take(core: &Core, frame: &TopicKeyFrame) -> Option<(String, u64)> {
    let (blob, nonce) = (&frame.seal.blob, &frame.seal.nonce);
    // It may have been sealed before our key was replaced.
    let earlier = || {
        let (opened, archived) = core.keys.try_others(|key| TopicKey::open_seal_with(blob, nonce, key).ok())?;
        if archived {
            core.metrics.decrypt_archived();
        }
        Some(opened)
    };
    let opened = TopicKey::open_seal(blob, nonce, &core.key().key).ok().or_else(earlier);
    let Some((key, sealer)) = opened else {
        core.metrics.invalid("decrypt");
        return None;
    };
    if !core.roster.has_x25519(&sealer) {
        core.metrics.invalid("sender");
        core.log.warn("topic_key_of_stranger", json!({"topic": frame.topic_id, "epoch": frame.epoch}));
        return None;
    }
    let ring = core.topics.ring(&frame.topic_id);
    core.topics.raise(&frame.topic_id, frame.epoch);
    core.topics.add_key(&ring, frame.epoch, key);
    Some((ring, frame.epoch))
}

/// Makes the key of an epoch and seals it for everybody who may read, ourselves included.
pub(crate) async fn create(core: &Arc<Core>, line: &Line, topic_id: &str, epoch: u64) -> Result<(), Refusal> {
    let ring = core.topics.ring(topic_id);
    let mut members = readers(core, line, &ring, topic_id).await?;
    members.insert(core.me.member_id.clone());
    // A broker that was set back may have lost copies of a key that is in use.
    let key = core.topics.key(&ring, epoch).unwrap_or_else(TopicKey::generate);
    let mut seals: Vec<Seal> = members.iter().filter_map(|id| seal(core, &key, id)).collect();
    // Ours goes with the first: that is what makes it the creation of the epoch.
    seals.sort_by_key(|seal| seal.member_id != core.me.member_id);
    for some in seals.chunks(SEALS) {
        line.ask(Call::TopicKeyPut { topic_id: topic_id.to_owned(), epoch, seals: some.to_vec() }).await?;
    }
    core.topics.raise(topic_id, epoch);
    core.topics.add_key(&ring, epoch, key);
    core.log.info("topic_key_created", json!({"topic": topic_id, "epoch": epoch, "readers": seals.len()}));
    Ok(())
}

/// Who may read a topic: its subscribers; for `general`, which broadcasts use as well, everybody.
async fn readers(core: &Core, line: &Line, ring: &str, topic_id: &str) -> Result<BTreeSet<String>, Refusal> {
    if ring == GENERAL {
        return Ok(core.roster.with(|members| members.map(|member| member.id.clone()).collect()));
    }
    let listed = pages::topic_members(line, topic_id).await?.items;
    let id = |member: &Value| {
        let id = member.get("memberId").or_else(|| member.get("id")).unwrap_or(member);
        id.as_str().map(str::to_owned)
    };
    Ok(listed.iter().filter_map(id).collect())
}

fn seal(core: &Core, key: &TopicKey, member_id: &str) -> Option<Seal> {
    let own = core.key();
    let public = match member_id == core.me.member_id {
        true => own.public(),
        false => {
            let member = core.roster.member(member_id).filter(|member| !member.revoked && !member.left)?;
            hostel_wire::keys::PublicKey::from_hex(&member.pubkey)?
        }
    };
    let (blob, nonce) = key.seal_for(&own.key, &public).ok()?;
    Some(Seal { member_id: member_id.to_owned(), blob, nonce })
}

/// Seals a key we hold for who needs it.
async fn share(core: &Core, line: &Line, needed: &TopicKeyNeeded) -> Result<(), Refusal> {
    let ring = core.topics.ring(&needed.topic_id);
    let Some(key) = core.topics.key(&ring, needed.epoch) else { return Ok(()) };
    let others = needed.members.iter().filter(|id| **id != core.me.member_id);
    let seals: Vec<Seal> = others.filter_map(|id| seal(core, &key, id)).collect();
    for some in seals.chunks(SEALS) {
        let (topic_id, epoch) = (needed.topic_id.clone(), needed.epoch);
        line.ask(Call::TopicKeyPut { topic_id, epoch, seals: some.to_vec() }).await?;
    }
    Ok(())
}

/// Opens what waited for a key, and tells of it.
async fn open_waiting(core: &Arc<Core>, ring: &str, epoch: u64) {
    let Some(key) = core.topics.key(ring, epoch) else { return };
    let mut after = 0;
    loop {
        let Ok(waiting) = core.inbox.waiting(ring, epoch, after, 256).await else { return };
        let Some(last) = waiting.last() else { return };
        after = last.no;
        let opened = waiting.iter().map(|row| (row.no, open::waited(core, &key, row))).collect();
        match core.inbox.decrypted(opened).await {
            Ok(rows) => rows.iter().for_each(|row| core.count_received(row)),
            Err(error) => {
                core.log.error("inbox_failed", json!({"error": error.to_string()}));
                return;
            }
        }
    }
}
