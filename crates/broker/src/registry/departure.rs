//! What goes with a member that leaves or is banned.
//!
//! Invariant: whoever loses the right to read makes every topic whose key they have need another one, in the same
//! transaction; those they have vouched for go with them; and where anybody stays, somebody owns the mesh.

use std::sync::Arc;

use serde_json::json;

use super::change::What;
use super::mesh::Mesh;
use super::records::{Held, InviteRecord, MemberRecord, MeshRecord, Role};
use super::update::Update;
use super::{Engine, Inner};
use crate::audit::kind;

impl<E: Engine> Inner<E> {
    /// A member leaves, now.
    pub(super) fn take_leave(&self, update: &mut Update, mesh: &Mesh, found: &Held<MemberRecord>) {
        self.gone(update, found);
        self.sever(update, mesh, found);
        if let Some(heir) = mesh.heir(&found.id).filter(|_| found.role == Role::Owner) {
            self.tell(update, kind::MEMBER_ROLE, &found.id, &heir.id, json!({"role": Role::Owner.as_str()}));
            update.news(What::Changed { member: heir.id.clone() });
            update.member(MemberRecord { role: Role::Owner, ..heir.record.clone() });
            update.mesh(MeshRecord { owner_member: heir.id.clone(), ..mesh.record.record.clone() });
        }
        if mesh.is_alone(found) {
            // Nobody is left to answer for who would come.
            for invite in mesh.invites().filter(|invite| invite.revoked_ms.is_none()) {
                let record = InviteRecord { revoked_ms: Some(self.clock.now_ms()), ..invite.record.clone() };
                update.invite(&invite.id, Some(record));
            }
        }
    }

    /// Ends what a member and its wards may read; the wards leave.
    pub(super) fn sever(&self, update: &mut Update, mesh: &Mesh, found: &Held<MemberRecord>) {
        let wards = mesh.wards(&found.id);
        let ids: Vec<&str> = wards.iter().map(|ward| ward.id.as_str()).chain([found.id.as_str()]).collect();
        self.no_longer_read(update, mesh, &ids);
        for ward in wards {
            self.gone(update, ward);
        }
    }

    fn gone(&self, update: &mut Update, found: &Held<MemberRecord>) {
        let body = json!({"pubkey": found.pubkey, "name": found.name});
        self.tell(update, kind::MEMBER_LEFT, &found.id, &found.id, body);
        update.news(What::Left { member: found.id.clone() });
        let left_ms = Some(self.clock.now_ms());
        update.member(MemberRecord { left_ms, leaves_ms: None, ..found.record.clone() });
    }

    fn no_longer_read(&self, update: &mut Update, mesh: &Mesh, members: &[&str]) {
        let mut topics: Vec<_> = mesh.topics().collect();
        topics.sort_by(|one, other| one.id.cmp(&other.id));
        for topic in topics {
            for member in members {
                self.close_sub(update, mesh, &topic.id, member);
            }
            let derived = topic.is_general() && topic.epoch == 0;
            if derived || members.iter().any(|member| mesh.holds(&topic.id, topic.epoch, member)) {
                self.raise_epoch(update, mesh, topic);
            }
        }
    }
}

impl Mesh {
    /// Members that are there because this one vouches for them.
    pub(super) fn wards(&self, sponsor: &str) -> Vec<&Arc<Held<MemberRecord>>> {
        let mut wards: Vec<_> = self.active().filter(|member| member.sponsor.as_deref() == Some(sponsor)).collect();
        wards.sort_by(|one, other| one.id.cmp(&other.id));
        wards
    }

    /// Nobody else is there but who would go along.
    fn is_alone(&self, member: &MemberRecord) -> bool {
        self.active().all(|other| other.id == member.id || other.sponsor.as_ref() == Some(&member.id))
    }

    /// Whether a member can leave without leaving others behind in a mesh that nobody owns.
    pub(super) fn can_do_without(&self, member: &MemberRecord) -> bool {
        member.role != Role::Owner || self.heir(&member.id).is_some() || self.is_alone(member)
    }

    /// Who would own the mesh without this one: its own successor, else the administrator who has been there longest. Who
    /// would go along is none.
    fn heir(&self, but_for: &str) -> Option<&Arc<Held<MemberRecord>>> {
        let others =
            self.members().filter(|member| member.is_admin() && member.id != but_for && member.sponsor.is_none());
        let is_successor = |member: &MemberRecord| member.predecessor.as_deref() == Some(but_for);
        others.min_by_key(|member| {
            (std::cmp::Reverse(member.role), !is_successor(member), member.joined_ms, member.id.clone())
        })
    }
}
