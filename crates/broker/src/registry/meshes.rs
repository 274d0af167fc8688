//! Making a mesh, and its rules.

use std::sync::Arc;

use hostel_wire::keys::PublicKey;
use hostel_wire::{ids, topic};
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::names::unique;
use super::records::{GENERAL, Interval, MemberRecord, MeshRecord, Policy, Role, SubRecord, TopicRecord, bucket};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;
use crate::engine::KvOp;

/// A mesh to be, with its first member.
#[derive(Debug, Clone)]
pub struct NewMesh {
    /// For people; its slug is made of it.
    pub name: String,
    /// Hex; signs invites.
    pub owner_pubkey: String,
    /// Hex; the first member's key.
    pub member_pubkey: String,
    /// The first member's name.
    pub display_name: String,
}

/// A mesh that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedMesh {
    /// Its id.
    pub mesh_id: String,
    /// Its slug.
    pub slug: String,
    /// The first member's id.
    pub member_id: String,
    /// The first member's name.
    pub display_name: String,
}

impl<E: Engine> Registry<E> {
    /// Makes a mesh with its first member, who owns it, and the topic `general`. Asking again with the same keys and name
    /// gives the same mesh: an answer may be lost.
    pub async fn create_mesh(&self, new: NewMesh) -> Result<CreatedMesh, RegistryError> {
        self.in_turn(|inner| async move { inner.create_mesh(new).await }).await
    }

    /// Changes the rules of a mesh; for its owner.
    pub async fn set_policy(&self, mesh: &str, by: &str, policy: Policy) -> Result<Arc<Mesh>, RegistryError> {
        let (mesh, by) = (mesh.to_owned(), by.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.owner(&by)?;
            let mut update = Update::of(&mesh);
            inner.tell(&mut update, kind::MESH_POLICY, &by, "", json!({"policy": policy}));
            update.mesh(MeshRecord { policy, ..snapshot.record.record.clone() });
            update.news(What::Policy);
            inner.commit(update).await
        })
        .await
    }
}

impl<E: Engine> Inner<E> {
    async fn create_mesh(&self, new: NewMesh) -> Result<CreatedMesh, RegistryError> {
        let key = |text: &str, what: &str| {
            let key = PublicKey::from_hex(text).filter(|key| key.x25519().is_ok());
            key.map(|key| key.hex()).ok_or_else(|| RegistryError::Invalid(format!("`{what}` is no public key")))
        };
        let owner_pubkey = key(&new.owner_pubkey, "owner_pubkey")?;
        let pubkey = key(&new.member_pubkey, "member.pubkey")?;
        let invalid = || RegistryError::Invalid("a mesh's name needs a letter or a digit".to_owned());
        let wanted = topic::mesh_slug(&new.name).ok_or_else(invalid)?;
        if let Some(known) = self.made_before(&owner_pubkey, &pubkey, &new.name) {
            return Ok(known);
        }
        let slug = {
            let meshes = self.meshes.read();
            if meshes.len() >= self.settings.meshes {
                return Err(RegistryError::Full(format!("this broker has {} meshes", meshes.len())));
            }
            unique(&wanted, |slug| meshes.values().any(|mesh| mesh.record.slug == slug))
        };
        let now = self.clock.now_ms();
        let (id, member_id, topic_id) = (ids::ulid(now), ids::ulid(now), ids::ulid(now));
        // An entry of the log needs its mesh, not the other way round.
        self.engine.ensure_log(&id).await?;
        let name = topic::display_slug(&new.display_name);
        let member = MemberRecord {
            id: member_id.clone(),
            pubkey,
            name: name.clone(),
            role: Role::Owner,
            joined_ms: now,
            joined_seq: 1,
            ..MemberRecord::default()
        };
        let general = TopicRecord {
            id: topic_id.clone(),
            name: GENERAL.to_owned(),
            visibility: "public".to_owned(),
            created_by: member_id.clone(),
            created_ms: now,
            ..TopicRecord::default()
        };
        let mut update = Update::of(&id);
        update.raw(KvOp::check(bucket::SLUG, &slug, 0));
        update.raw(KvOp::put(bucket::SLUG, &slug, id.clone().into_bytes()));
        update.mesh(MeshRecord {
            id: id.clone(),
            slug: slug.clone(),
            name: new.name.chars().take(128).collect(),
            owner_pubkey,
            owner_member: member_id.clone(),
            created_ms: now,
            policy: Policy { concurrency: self.settings.concurrency, ..Policy::default() },
        });
        update.member(member);
        update.topic(&topic_id, Some(general));
        update.sub(&topic_id, &member_id, Some(SubRecord { intervals: vec![Interval { since: 1, until: None }] }));
        self.tell(&mut update, kind::MESH_CREATED, &member_id, &id, json!({"slug": slug}));
        update.news(What::MeshCreated);
        self.commit(update).await?;
        Ok(CreatedMesh { mesh_id: id, slug, member_id, display_name: name })
    }

    fn made_before(&self, owner_pubkey: &str, pubkey: &str, name: &str) -> Option<CreatedMesh> {
        let meshes = self.meshes.read();
        let mesh = meshes.values().find(|mesh| mesh.record.owner_pubkey == owner_pubkey && mesh.record.name == name)?;
        let member = mesh.member_by_key(pubkey).filter(|member| member.is_active() && member.role == Role::Owner)?;
        Some(CreatedMesh {
            mesh_id: mesh.id().to_owned(),
            slug: mesh.record.slug.clone(),
            member_id: member.id.clone(),
            display_name: member.name.clone(),
        })
    }
}
