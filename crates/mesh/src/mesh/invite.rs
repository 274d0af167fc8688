//! Invites: signed by the owner's key, which only the owner's host has; the broker learns neither that nor the root key.
//! Whoever owns the mesh by succession has not the key it was made with, and signs with its own.

use hostel_wire::frames::client::Call;
use hostel_wire::invite::{CertPin, InviteLink, LIFE_S, Terms};
use hostel_wire::iso;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use serde_json::Value;

use super::{InviteRequest, Invited, Refusal};
use crate::link::calls::Line;
use crate::link::dial::BrokerUrl;
use crate::roster::Roster;

/// The longest an invite may be good for.
const LONGEST_S: u64 = 365 * 24 * 3600;

/// With what an invite is made.
pub(crate) struct Inviter<'a> {
    pub(crate) slug: &'a str,
    pub(crate) mesh_id: &'a str,
    pub(crate) broker_url: String,
    pub(crate) owner: Option<&'a SecretKey>,
    pub(crate) root: Option<&'a RootKey>,
    pub(crate) certificate: Option<CertPin>,
    pub(crate) now_ms: u64,
}

/// What a host signs invites with: the key the mesh was made with, else its own where it owns the mesh by now.
pub(crate) fn signer(owner: Option<&SecretKey>, roster: &Roster, member: &str, own: &SecretKey) -> Option<SecretKey> {
    let owns = || roster.member(member).is_some_and(|member| member.role == "owner");
    owner.cloned().or_else(|| owns().then(|| own.clone()))
}

/// Makes an invite and registers it with the broker.
pub(crate) async fn create(line: &Line, who: Inviter<'_>, request: InviteRequest) -> Result<Invited, Refusal> {
    let owner = who.owner.ok_or_else(|| Refusal::new("owner_only", "only the mesh owner's host can invite"))?;
    let role = request.role.unwrap_or_else(|| "member".to_owned());
    if !matches!(role.as_str(), "member" | "admin") {
        return Err(Refusal::field("role", "one of member, admin"));
    }
    let max_uses = request.max_uses.unwrap_or(1);
    if !(1..=10_000).contains(&max_uses) {
        return Err(Refusal::field("max_uses", "an invite can be used 1 to 10000 times"));
    }
    let life = request.expires_in_s.unwrap_or(LIFE_S);
    if !(1..=LONGEST_S).contains(&life) {
        return Err(Refusal::field("expires_in_s", "an invite is good for a second to a year"));
    }
    let broker_url = request.broker_url.unwrap_or(who.broker_url);
    let parsed = BrokerUrl::parse(&broker_url).map_err(|error| Refusal::field("broker_url", error.to_string()))?;
    let terms = Terms {
        mesh_id: who.mesh_id.to_owned(),
        mesh_slug: who.slug.to_owned(),
        broker_url,
        expires_at: who.now_ms / 1000 + life,
        role,
    };
    // A certificate is only looked at where there is one.
    let link = InviteLink::make(&terms, owner, who.certificate.filter(|_| parsed.tls)).map_err(Refusal::internal)?;
    let sealed_root_key = link.secret.as_ref().zip(who.root).map(|(secret, root)| secret.seal_root(root));
    let call = Call::InviteCreate {
        token: link.token.clone(),
        sealed_root_key,
        max_uses: Some(max_uses),
        preset: request.preset,
    };
    let fields = line.fields(call).await?;
    let id = fields.get("inviteId").or_else(|| fields.get("id")).and_then(Value::as_str).unwrap_or_default();
    Ok(Invited {
        ok: true,
        invite: link.text().to_string(),
        invite_id: id.to_owned(),
        expires_at: iso(terms.expires_at.saturating_mul(1000)),
        max_uses,
    })
}
