//! What a member lets a given sender do to it.

use std::sync::Arc;

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{CAPABILITIES, GrantRecord};
use super::update::Update;
use super::{Engine, Registry};

impl<E: Engine> Registry<E> {
    /// Sets what a sender, given by id, key or name, may do to a member; `None` is the default, an empty list blocks.
    pub async fn grant_set(
        &self,
        mesh: &str,
        member: &str,
        target: &str,
        capabilities: Option<Vec<String>>,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let known = |one: &String| CAPABILITIES.contains(&one.as_str());
        if let Some(strange) = capabilities.iter().flatten().find(|one| !known(one)) {
            return Err(RegistryError::Invalid(format!("`{strange}` is none of {}", CAPABILITIES.join(", "))));
        }
        let (mesh, member, target) = (mesh.to_owned(), member.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let sender = snapshot.find(&target)?.id.clone();
            let grant = capabilities.map(|mut capabilities| {
                capabilities.sort_unstable();
                capabilities.dedup();
                GrantRecord { capabilities }
            });
            if snapshot.grant(&member, &sender).map(|held| &held.record) == grant.as_ref() {
                return Ok(snapshot);
            }
            let mut update = Update::of(&mesh);
            update.grant(&member, &sender, grant);
            update.news(What::Granted { receiver: member, sender });
            inner.commit(update).await
        })
        .await
    }
}
