//! What members say of themselves, for other members to check: their names, that they sign what they write, and how
//! they came by their keys.
//!
//! Guarantee: a statement that is handed out was signed by the member's present key, or by the one it had when it made
//! it, and names the member as this registry does. Members verify it themselves: a broker that hands out another one
//! gains nothing.

use std::sync::Arc;

use hostel_wire::authorship::Statement;
use hostel_wire::frames::client::Succession;
use hostel_wire::hello::{SKEW_MS, is_succession};
use hostel_wire::keys::PublicKey;

use super::change::What;
use super::error::RegistryError;
use super::lineage::MOST_SUCCESSIONS;
use super::mesh::Mesh;
use super::records::MemberRecord;
use super::update::Update;
use super::{Engine, Inner, Registry};

impl<E: Engine> Registry<E> {
    /// Keeps what a member says of itself. Saying the same again changes nothing.
    pub async fn state_member(
        &self,
        mesh: &str,
        member: &str,
        statement: Statement,
        lineage: Vec<Succession>,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let (mesh, member) = (mesh.to_owned(), member.to_owned());
        self.in_turn(|inner| async move { inner.state_member(&mesh, &member, statement, lineage).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn state_member(
        &self,
        mesh: &str,
        id: &str,
        statement: Statement,
        lineage: Vec<Succession>,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        let member = snapshot.active_member(id)?;
        let key = PublicKey::from_hex(&member.pubkey);
        if !key.is_some_and(|key| statement.verify(mesh, id, &key)) {
            return Err(RegistryError::Unproven("the statement is not signed with the member's key".to_owned()));
        }
        if statement.name != member.name {
            return Err(RegistryError::Invalid(format!("the member is called `{}` here", member.name)));
        }
        if statement.at > self.clock.now_ms().saturating_add(SKEW_MS) {
            return Err(RegistryError::Invalid("the statement is of the future".to_owned()));
        }
        let lineage = longer(mesh, member, lineage)?;
        if member.statement.as_ref() == Some(&statement) && lineage.is_none() {
            return Ok(snapshot);
        }
        let lineage = lineage.unwrap_or_else(|| member.lineage.clone());
        let mut update = Update::of(mesh);
        update.news(What::Stated { member: id.to_owned() });
        update.member(MemberRecord { statement: Some(statement), lineage, ..member.record.clone() });
        self.commit(update).await
    }
}

/// A lineage, if it leads to the member's key and tells more than the one that is kept.
fn longer(
    mesh: &str,
    member: &MemberRecord,
    lineage: Vec<Succession>,
) -> Result<Option<Vec<Succession>>, RegistryError> {
    if lineage.len() <= member.lineage.len() {
        return Ok(None);
    }
    let ends = lineage.last().is_some_and(|last| last.new_pubkey == member.pubkey);
    let joined = lineage.windows(2).all(|pair| matches!(pair, [one, two] if one.new_pubkey == two.old_pubkey));
    // What costs most comes last.
    let proven = lineage.len() <= MOST_SUCCESSIONS
        && ends
        && joined
        && lineage.iter().all(|step| is_succession(mesh, &member.id, step));
    match proven {
        true => Ok(Some(lineage)),
        false => Err(RegistryError::Unproven("the lineage does not lead to the member's key".to_owned())),
    }
}
