//! `POST /v1/rotate-keypair`: another key for the member.
//!
//! Invariant: whoever asks is answered once it is certain what became of it, or told that it is still open; it goes on
//! without them.

use std::sync::Arc;
use std::time::Duration;

use hostel_wire::iso;
use serde::Serialize;

use super::core::Standing;
use super::{Mesh, Refusal};
use crate::keyring::{MemberKey, Outcome};

/// How long whoever asks is kept waiting.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key that was replaced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rotated {
    /// Always.
    pub ok: bool,
    /// In which mesh.
    pub mesh: String,
    /// Whose.
    #[serde(rename = "memberId")]
    pub member_id: String,
    /// The key before, hex.
    pub old_pubkey: String,
    /// The key now, hex.
    pub pubkey: String,
    /// When.
    pub rotated_at: String,
    /// Until when the old key still leads to the member.
    pub grace_until: Option<String>,
    /// Until when what was sealed for the old key can be opened.
    pub opens_until: Option<String>,
    /// Earlier keys that are kept.
    pub archived: usize,
}

impl Mesh {
    /// Draws a new key for the member and makes it the one that counts, here and at the broker. One that is under way
    /// already is finished instead.
    pub async fn rotate_keypair(&self) -> Result<Rotated, Refusal> {
        let core = &self.core;
        core.check()?;
        core.keys.check()?;
        let line = core.line_soon().await?;
        if core.keys.next().is_none() && !line.welcome.features.supported.contains_key("rotate_key") {
            let why = "this broker does not let members replace their keys; bring it up to date";
            return Err(Refusal::new("not_supported", why));
        }
        let (ring, before) = (Arc::clone(core), core.keys.current());
        let begun = hostel_tasks::spawn_blocking(move || ring.keys.begin()).await;
        let key = begun.map_err(Refusal::internal)??;
        match tokio::time::timeout(PATIENCE, self.settled(&key)).await {
            Ok(Ok(())) => {}
            Ok(Err(refusal)) => return Err(refusal),
            Err(_) => {
                let why = "the new key is drawn, and the broker has not answered yet; it is told as soon as it can be";
                return Err(Refusal::new("broker_unavailable", why).with("pending", true));
            }
        }
        let ours = core.roster.member(&core.me.member_id);
        let grace = ours.and_then(|ours| ours.retired.into_iter().find(|key| key.pubkey == before.pubkey));
        Ok(Rotated {
            ok: true,
            mesh: core.me.slug.clone(),
            member_id: core.me.member_id.clone(),
            rotated_at: iso(core.clock.now_ms()),
            grace_until: grace.map(|key| iso(key.until)),
            opens_until: core.keys.opens_until(&before.pubkey).map(iso),
            archived: core.keys.archived(),
            old_pubkey: before.pubkey.clone(),
            pubkey: key.pubkey.clone(),
        })
    }

    /// Waits until a key counts and there is a connection that speaks with it, or it was given up.
    async fn settled(&self, key: &MemberKey) -> Result<(), Refusal> {
        let core = &self.core;
        let mut changed = core.keys.watch();
        let mut ending = core.ending();
        loop {
            match core.keys.outcome(key) {
                Outcome::Done => break,
                Outcome::Refused(refusal) => return Err(refusal),
                Outcome::Open => {}
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = ending.wait_for(Option::is_some) => {
                    core.check()?;
                    return Err(Refusal::new("closed", "the daemon ends; the rotation goes on when it is started again"));
                }
            }
        }
        // The connection of the old key ends by itself; whoever asks next should find the new one's.
        let mut standing = core.watch_standing();
        let renewed = async {
            while core.spoken_with().as_deref() != Some(&key.pubkey) || core.standing() != Standing::Open {
                if standing.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), renewed).await.ok();
        Ok(())
    }
}
