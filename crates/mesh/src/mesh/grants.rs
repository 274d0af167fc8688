//! What a peer may do to us: write to us, reach us with what goes to many, read the state we write.
//!
//! Invariant: the broker keeps it and holds others to it; nothing is kept here, so what is said is what holds. Never done
//! for a session: whom its host hears is not a session's to say.

use hostel_wire::frames::client::Call;
use serde_json::{Value, json};

use super::{Mesh, Refusal};
use crate::link::calls::Line;
use crate::link::pages;
use crate::resolve;
use crate::roster::Roster;

impl Mesh {
    /// Sets what a peer may do: `None` is the default, an empty list blocks. Only with a broker.
    pub async fn grant(&self, peer: &str, capabilities: Option<Vec<String>>) -> Result<Value, Refusal> {
        let core = &self.core;
        core.check()?;
        let line = core.line_soon().await?;
        set(&line, &core.roster, peer, capabilities).await
    }

    /// For which peers something was set, and what they may do.
    pub async fn grants(&self) -> Result<Value, Refusal> {
        self.core.check()?;
        list(&*self.core.line_soon().await?).await
    }
}

/// Tells a broker.
pub(crate) async fn set(
    line: &Line,
    roster: &Roster,
    peer: &str,
    capabilities: Option<Vec<String>>,
) -> Result<Value, Refusal> {
    let member = resolve::member(roster, peer).map_err(|refusal| refusal.about("peer"))?;
    let strange = |refusal: Refusal| match refusal.code() {
        "invalid_argument" => refusal.about("capabilities"),
        _ => refusal,
    };
    let call = Call::GrantSet { target: member.id.clone(), capabilities: capabilities.clone() };
    line.ask(call).await.map_err(strange)?;
    let peer = json!({"memberId": member.id, "displayName": member.name, "pubkey": member.pubkey});
    Ok(json!({"ok": true, "peer": peer, "capabilities": capabilities}))
}

/// Asks a broker.
pub(crate) async fn list(line: &Line) -> Result<Value, Refusal> {
    let text = |grant: &Value, key: &str| grant.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let shown = |grant: &Value| {
        let capabilities = grant.get("capabilities").cloned().unwrap_or_else(|| json!([]));
        json!({"memberId": text(grant, "memberId"), "displayName": text(grant, "name"),
            "pubkey": text(grant, "pubkey"), "capabilities": capabilities})
    };
    let listed = pages::grants(line).await?;
    Ok(json!({"grants": listed.items.iter().map(shown).collect::<Vec<_>>()}))
}
