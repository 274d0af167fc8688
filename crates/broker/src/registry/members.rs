//! Members: their names, their roles, their leaving and their banishment.
//!
//! Invariant: an administrator rules over members, the owner over administrators, nobody over the owner.

use std::sync::Arc;

use hostel_wire::{iso, topic};
use serde_json::{Map, Value, json};

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{Held, MemberRecord, Role};
use super::update::{Update, bytes};
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// A profile has this many bytes at most.
const PROFILE: usize = 4096;

/// Somebody can announce to leave this far ahead.
const MOST_HOURS: u32 = 24 * 30;

impl<E: Engine> Registry<E> {
    /// Gives a member another name.
    pub async fn rename(&self, mesh: &str, member: &str, name: &str) -> Result<Arc<Mesh>, RegistryError> {
        let name = topic::display_name(name).map_err(|error| RegistryError::Invalid(error.to_string()))?;
        self.edit_member(mesh, member, move |inner, update, snapshot, found| {
            if !snapshot.record.policy.self_editable.display_name && found.role < Role::Admin {
                return Err(RegistryError::Forbidden("members may not change their names in this mesh".to_owned()));
            }
            if snapshot.name_taken(&name, &found.id) {
                return Err(RegistryError::Taken(format!("`{name}` is somebody else")));
            }
            if name == found.name {
                return Ok(());
            }
            let old_name = found.name.clone();
            inner.tell(update, kind::MEMBER_RENAMED, &found.id, &found.id, json!({"from": old_name, "to": name}));
            update.news(What::Renamed { member: found.id.clone(), old_name, name: name.clone() });
            update.member(MemberRecord { name, ..found.record.clone() });
            Ok(())
        })
        .await
    }

    /// Sets what a member says of itself for good: avatar, title, bio, capabilities. A null removes.
    pub async fn set_profile(
        &self,
        mesh: &str,
        member: &str,
        changes: Map<String, Value>,
    ) -> Result<Arc<Mesh>, RegistryError> {
        self.edit_member(mesh, member, move |_, update, _, found| {
            let mut profile = found.profile.clone();
            for (key, value) in changes {
                match value {
                    Value::Null => drop(profile.remove(&key)),
                    value => drop(profile.insert(key, value)),
                }
            }
            if bytes(&profile).len() > PROFILE {
                return Err(RegistryError::Invalid("the profile is too long".to_owned()));
            }
            if profile != found.profile {
                update.news(What::Changed { member: found.id.clone() });
                update.member(MemberRecord { profile, ..found.record.clone() });
            }
            Ok(())
        })
        .await
    }

    /// Makes a member an administrator or not; for the owner.
    pub async fn set_role(
        &self,
        mesh: &str,
        by: &str,
        target: &str,
        role: Role,
    ) -> Result<Arc<Held<MemberRecord>>, RegistryError> {
        let (mesh, by, target) = (mesh.to_owned(), by.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.owner(&by)?;
            let found = snapshot.find(&target)?;
            if found.role == Role::Owner || role == Role::Owner {
                return Err(RegistryError::Forbidden("a mesh keeps its owner".to_owned()));
            }
            if found.sponsor.is_some() {
                let why = "a member for a while has no more rights than any other";
                return Err(RegistryError::Forbidden(why.to_owned()));
            }
            let id = found.id.clone();
            let mut update = Update::of(&mesh);
            inner.tell(&mut update, kind::MEMBER_ROLE, &by, &id, json!({"role": role.as_str()}));
            update.news(What::Changed { member: id.clone() });
            update.member(MemberRecord { role, ..found.record.clone() });
            inner.commit(update).await?.known(&id)
        })
        .await
    }

    /// Leaves for good, now or after some hours. The owner's place goes to the administrator who has been there longest; an
    /// owner without one cannot leave the others behind. With the last one its invites end.
    pub async fn leave(&self, mesh: &str, member: &str, after_hours: Option<u32>) -> Result<Arc<Mesh>, RegistryError> {
        self.edit_member(mesh, member, move |inner, update, snapshot, found| {
            if !snapshot.can_do_without(found) {
                let why = "the owner can leave a mesh once somebody else is an administrator";
                return Err(RegistryError::Forbidden(why.to_owned()));
            }
            match after_hours {
                Some(hours) if hours > 0 => {
                    let at = inner.clock.now_ms() + u64::from(hours.min(MOST_HOURS)) * 3_600_000;
                    inner.tell(update, kind::MEMBER_RETIRING, &found.id, &found.id, json!({"at": iso(at)}));
                    update.member(MemberRecord { leaves_ms: Some(at), ..found.record.clone() });
                }
                _ => inner.take_leave(update, snapshot, found),
            }
            Ok(())
        })
        .await
    }

    /// Revokes a member's key, which is also how one is banned. Administrators may, and members themselves for their own;
    /// an administrator's key only the owner or they themselves.
    pub async fn revoke(&self, mesh: &str, by: &str, target: &str) -> Result<Arc<Held<MemberRecord>>, RegistryError> {
        let (mesh, by, target) = (mesh.to_owned(), by.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            let found = snapshot.find(&target)?;
            snapshot.active_member(&by)?;
            if found.role == Role::Owner {
                return Err(RegistryError::Forbidden("the owner of a mesh cannot be banned".to_owned()));
            }
            if found.id != by {
                snapshot.may_administer(&by, &found.id)?;
            }
            if found.revoked_ms.is_some() {
                return Ok(Arc::clone(found));
            }
            let id = found.id.clone();
            let mut update = Update::of(&mesh);
            inner.tell(
                &mut update,
                kind::MEMBER_REVOKED,
                &by,
                &id,
                json!({"pubkey": found.pubkey, "name": found.name}),
            );
            update.news(What::Revoked { member: id.clone(), by });
            inner.sever(&mut update, &snapshot, found);
            update.member(MemberRecord { revoked_ms: Some(inner.clock.now_ms()), ..found.record.clone() });
            inner.commit(update).await?.known(&id)
        })
        .await
    }

    /// Takes a revocation back; for the owner and administrators.
    pub async fn unban(&self, mesh: &str, by: &str, target: &str) -> Result<Arc<Held<MemberRecord>>, RegistryError> {
        let (mesh, by, target) = (mesh.to_owned(), by.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.admin(&by)?;
            let found = snapshot.find(&target)?;
            if found.revoked_ms.is_none() {
                return Ok(Arc::clone(found));
            }
            let id = found.id.clone();
            let mut update = Update::of(&mesh);
            inner.tell(&mut update, kind::MEMBER_UNBANNED, &by, &id, json!({"pubkey": found.pubkey}));
            update.news(What::Unbanned { member: id.clone() });
            if let Some(general) = snapshot.general() {
                inner.open_sub(&mut update, &snapshot, &general.id, &id);
            }
            // What was sent to all while it was banned is not for it.
            let joined_seq = inner.next_seq(&mesh);
            update.member(MemberRecord { revoked_ms: None, joined_seq, ..found.record.clone() });
            inner.commit(update).await?.known(&id)
        })
        .await
    }

    /// Members whose keys are revoked, newest first; for the owner and administrators.
    pub fn bans(&self, mesh: &str, by: &str) -> Result<Vec<Arc<Held<MemberRecord>>>, RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.admin(by)?;
        let mut all: Vec<_> = snapshot.members().filter(|member| member.revoked_ms.is_some()).cloned().collect();
        all.sort_by(|one, other| (other.revoked_ms, &other.id).cmp(&(one.revoked_ms, &one.id)));
        Ok(all)
    }

    async fn edit_member(
        &self,
        mesh: &str,
        member: &str,
        edit: impl FnOnce(&Inner<E>, &mut Update, &Mesh, &Held<MemberRecord>) -> Result<(), RegistryError> + Send + 'static,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let (mesh, member) = (mesh.to_owned(), member.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            let mut update = Update::of(&mesh);
            edit(&inner, &mut update, &snapshot, snapshot.active_member(&member)?)?;
            if update.is_empty() {
                return Ok(snapshot);
            }
            inner.commit(update).await
        })
        .await
    }
}

impl Mesh {
    /// A member that is there, or why one may do nothing.
    pub(super) fn active_member(&self, id: &str) -> Result<&Arc<Held<MemberRecord>>, RegistryError> {
        let refused = || RegistryError::Forbidden("you are not a member of this mesh".to_owned());
        self.member(id).filter(|member| member.is_active()).ok_or_else(refused)
    }

    pub(super) fn admin(&self, id: &str) -> Result<&Arc<Held<MemberRecord>>, RegistryError> {
        let refused = || RegistryError::Forbidden("only the owner and administrators may do this".to_owned());
        self.member(id).filter(|member| member.is_admin()).ok_or_else(refused)
    }

    pub(super) fn owner(&self, id: &str) -> Result<&Arc<Held<MemberRecord>>, RegistryError> {
        let refused = || RegistryError::Forbidden("only the owner may do this".to_owned());
        self.member(id).filter(|member| member.is_active() && member.role == Role::Owner).ok_or_else(refused)
    }

    /// Whether one member may kick, disconnect, ban or unban another, given by id, key or name; the answer is that one.
    pub fn may_administer(&self, by: &str, target: &str) -> Result<&Arc<Held<MemberRecord>>, RegistryError> {
        let admin = self.admin(by)?;
        let found = self.find(target)?;
        match found.id != by && found.role >= admin.role {
            true => Err(RegistryError::Forbidden("only the owner may do this to an administrator".to_owned())),
            false => Ok(found),
        }
    }

    fn known(&self, id: &str) -> Result<Arc<Held<MemberRecord>>, RegistryError> {
        self.member(id).cloned().ok_or_else(|| RegistryError::NotFound(format!("no member `{id}`")))
    }
}
