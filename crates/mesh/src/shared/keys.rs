//! The keys of what is shared: which one seals, and how earlier ones are come by.
//!
//! Invariant: what is written is sealed with the key that counts now, which nobody has who was revoked. Earlier keys are
//! handed on to who comes later, sealed with a later one.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_wire::frames::client::Call;
use hostel_wire::frames::shared::{Link, Page};
use hostel_wire::sealed::SharedKey;
use serde_json::json;
use tokio::time::Instant;

use super::{Shared, answer, can_share, keyless};
use crate::link::calls::Line;
use crate::mesh::Refusal;
use crate::mesh::core::Core;
use crate::topics::{Ask, GENERAL};

/// How long the key that seals may take to come, and one that only reads.
const SEALING: Duration = Duration::from_secs(10);
const READING: Duration = Duration::from_secs(3);

const NOBODY: &str = "it is sealed with an earlier key, and nobody who has that one is connected";

/// How often the keeper of keys is asked.
const ASKING: Duration = Duration::from_millis(500);

/// Links that are kept, and parts in which they are asked for.
const MOST: usize = 100_000;
const PARTS: usize = 100;

/// The key that counts now, waited for if it is on its way.
pub(super) async fn sealing(core: &Core) -> Result<(u64, SharedKey), Refusal> {
    let deadline = Instant::now() + SEALING;
    let mut changed = core.topics.watch();
    let mut asked: Option<Instant> = None;
    loop {
        changed.borrow_and_update();
        if let Ok((epoch, key)) = core.topics.posting_key(GENERAL) {
            return Ok((epoch, SharedKey::derive(&key)));
        }
        core.check()?;
        if Instant::now() >= deadline {
            return Err(keyless("the key all members share has changed, and nobody who has it is connected"));
        }
        if asked.is_none_or(|at| at.elapsed() >= ASKING) {
            core.topics.ask(Ask::Post(GENERAL.to_owned()));
            asked = Some(Instant::now());
        }
        tokio::time::timeout(ASKING, changed.changed()).await.ok();
    }
}

/// The key of an epoch: our own, one that was handed on, or one that somebody seals for us.
async fn opening(core: &Core, line: &Line, epoch: u64) -> Result<SharedKey, Refusal> {
    if let Some(key) = core.shared.key(core, epoch) {
        return Ok(key);
    }
    refresh(core, line).await?;
    if let Some(key) = core.shared.key(core, epoch) {
        return Ok(key);
    }
    core.topics.ask(Ask::Read(GENERAL.to_owned(), epoch));
    let deadline = Instant::now() + READING;
    let mut changed = core.topics.watch();
    loop {
        changed.borrow_and_update();
        if let Some(key) = core.shared.key(core, epoch) {
            return Ok(key);
        }
        if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
            return Err(keyless(NOBODY));
        }
    }
}

/// Keys as one request asks for them: one that does not come is waited for once, and after that no other is either.
#[derive(Default)]
pub(super) struct Opening {
    missing: BTreeSet<u64>,
}

impl Opening {
    /// The key of an epoch, as [`opening`] comes by it.
    pub(super) async fn key(&mut self, core: &Core, epoch: u64) -> Result<SharedKey, Refusal> {
        if let Some(key) = core.shared.key(core, epoch) {
            return Ok(key);
        }
        if self.missing.is_empty() {
            let found = opening(core, &*core.line()?, epoch).await;
            if matches!(&found, Err(refusal) if refusal.code() == "key_unavailable") {
                self.missing.insert(epoch);
            }
            return found;
        }
        // It may be there for the next request.
        if self.missing.insert(epoch) {
            core.topics.ask(Ask::Read(GENERAL.to_owned(), epoch));
        }
        Err(keyless(NOBODY))
    }
}

impl Shared {
    /// The key of an epoch, as far as it can be had without asking anybody.
    pub(super) fn key(&self, core: &Core, epoch: u64) -> Option<SharedKey> {
        let links = self.links.lock();
        let (mut at, mut chain) = (epoch, Vec::new());
        let held = loop {
            if let Some(key) = core.topics.key(GENERAL, at) {
                break SharedKey::derive(&key);
            }
            // Links go up alone, so this ends.
            let link = links.get(&at).filter(|link| link.under > at)?;
            chain.push(link.link.as_str());
            at = link.under;
        };
        chain.into_iter().rev().try_fold(held, |key, link| key.open_link(link).ok())
    }
}

/// Asks for the links there are.
async fn refresh(core: &Core, line: &Line) -> Result<(), Refusal> {
    let mut after = None;
    for _ in 0..PARTS {
        let answer = answer(line.ask(Call::SharedLinks(Page { after: after.take() })).await)?;
        let links: Vec<Link> =
            answer.fields.get("links").and_then(|links| serde_json::from_value(links.clone()).ok()).unwrap_or_default();
        let more = answer.fields.get("more").and_then(serde_json::Value::as_bool).unwrap_or_default();
        after = links.last().map(|link| link.epoch.to_string());
        let mut kept = core.shared.links.lock();
        for link in links {
            if kept.len() < MOST || kept.contains_key(&link.epoch) {
                kept.insert(link.epoch, link);
            }
        }
        if !more || after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Hands keys of earlier epochs on to whoever has the present one, where nobody has yet. The first is everybody's.
pub(crate) async fn hand_on(core: &Core, line: &Line) {
    let Ok((now, key)) = core.topics.posting_key(GENERAL) else { return };
    if now <= 1 || core.shared.handed_on.load(Ordering::Relaxed) == now || can_share(line).is_err() {
        return;
    }
    let handing = async {
        refresh(core, line).await?;
        let lacking: Vec<u64> = {
            let links = core.shared.links.lock();
            (1..now).rev().take(MOST).filter(|epoch| !links.contains_key(epoch)).collect()
        };
        let present = SharedKey::derive(&key);
        for epoch in lacking {
            let Some(earlier) = core.topics.key(GENERAL, epoch) else { continue };
            let link = present.link(&SharedKey::derive(&earlier));
            line.ask(Call::SharedLinkPut(Link { epoch, under: now, link })).await?;
        }
        Ok::<(), Refusal>(())
    };
    match handing.await {
        Ok(()) => core.shared.handed_on.store(now, Ordering::Relaxed),
        Err(refusal) => core.log.debug("shared_keys_not_handed_on", json!({"code": refusal.code()})),
    }
}
