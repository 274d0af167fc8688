//! What a member lets a given sender do to it.

use std::sync::Arc;

use super::change::What;
use super::error::RegistryError;
use super::records::{CAPABILITIES, GrantRecord, Held, MemberRecord};
use super::update::Update;
use super::{Engine, Registry};

/// A sender, and what it may do.
pub type Granted = (Arc<Held<MemberRecord>>, Vec<String>);

impl<E: Engine> Registry<E> {
    /// Sets what a sender, given by id, key or name, may do to a member; `None` is the default, an empty list blocks. Tells
    /// who that is.
    pub async fn grant_set(
        &self,
        mesh: &str,
        member: &str,
        target: &str,
        capabilities: Option<Vec<String>>,
    ) -> Result<Arc<Held<MemberRecord>>, RegistryError> {
        let known = |one: &String| CAPABILITIES.contains(&one.as_str());
        if let Some(strange) = capabilities.iter().flatten().find(|one| !known(one)) {
            return Err(RegistryError::Invalid(format!("`{strange}` is none of {}", CAPABILITIES.join(", "))));
        }
        let (mesh, member, target) = (mesh.to_owned(), member.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let found = Arc::clone(snapshot.find(&target)?);
            let sender = found.id.clone();
            if sender == member {
                return Err(RegistryError::Invalid("nobody bars themselves".to_owned()));
            }
            let grant = capabilities.map(|mut capabilities| {
                capabilities.sort_unstable();
                capabilities.dedup();
                GrantRecord { capabilities }
            });
            if snapshot.grant(&member, &sender).map(|held| &held.record) == grant.as_ref() {
                return Ok(found);
            }
            let mut update = Update::of(&mesh);
            update.grant(&member, &sender, grant);
            update.news(What::Granted { receiver: member, sender });
            inner.commit(update).await?;
            Ok(found)
        })
        .await
    }

    /// For which senders a member has set something, and what, by the senders' ids.
    pub fn grant_list(&self, mesh: &str, member: &str) -> Result<Vec<Granted>, RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        let set = snapshot.grants.get(member).into_iter().flat_map(super::shards::Shards::iter);
        let mut all: Vec<_> = set
            .filter_map(|(sender, grant)| Some((Arc::clone(snapshot.member(sender)?), grant.capabilities.clone())))
            .collect();
        all.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
        Ok(all)
    }
}
