//! A member takes another key, seals anew what only its old one opened, and says what it is called.
//!
//! Invariant: both keys have signed, now and for this member of this mesh. Who is connected has heard of the new key
//! before the one who asked is told that it counts: nothing sealed with it can come to anybody before that.

use hostel_wire::frames::client::{Call, Seal, Succession};
use hostel_wire::hello::{check_time, is_succession};
use hostel_wire::iso;
use serde_json::json;

use super::{Asker, Outcome, Reply};
use crate::engine::Engine;
use crate::registry::RegistryError;
use crate::server::log::Level;
use crate::server::welcome;

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn keys(&self, call: Call) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let registry = &self.broker.registry;
        match call {
            Call::RotateKey { old_pubkey, new_pubkey, timestamp, signature, proof } => {
                let said = Succession { old_pubkey, new_pubkey, timestamp, signature, proof };
                if !is_succession(mesh, member, &said) {
                    return Err(RegistryError::Unproven("both keys must sign".to_owned()));
                }
                // What is done already is said, however late it is asked: nothing changes by it, and whoever did not hear
                // the first answer must not take the key for refused.
                let found = registry.mesh(mesh).and_then(|mesh| mesh.member(member).cloned());
                if found.is_none_or(|member| member.pubkey != said.new_pubkey) {
                    check_time(timestamp, self.broker.clock.now_ms())
                        .map_err(|error| RegistryError::Unproven(error.to_string()))?;
                }
                self.rotate(said).await
            }
            Call::MemberState { statement, lineage } => {
                if self.connection.key != self.connection.member_key {
                    return Err(RegistryError::Forbidden("only the member's own connection may do this".to_owned()));
                }
                registry.state_member(mesh, member, statement, lineage).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::TopicKeyReplace { topic_id, epoch, blob, nonce } => {
                let seal = Seal { member_id: member.to_owned(), blob, nonce };
                registry.seal_replace(mesh, member, &topic_id, epoch, seal).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::FileKeyReplace { file_id, sealed_key } => {
                registry.file_key_replace(mesh, member, &file_id, sealed_key).await?;
                Ok(Reply::Ok(json!({})))
            }
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }

    async fn rotate(&self, said: Succession) -> Outcome {
        let (old, new) = (said.old_pubkey.clone(), said.new_pubkey.clone());
        let (mesh, member) = (self.mesh_id(), self.member());
        // A session was vouched for by a key; it does not decide about it.
        if self.connection.key != self.connection.member_key {
            return Err(RegistryError::Forbidden("only the member's own connection may do this".to_owned()));
        }
        let rotated = self.broker.registry.rotate_key(mesh, member, &old, &new, Some(said)).await?;
        let delta = welcome::roster_delta(&rotated.mesh, &rotated.member, None);
        self.broker.rooms.room(mesh).tell(&delta, |one| one.protocol >= 2);
        if !rotated.already {
            let fields = json!({"mesh": mesh, "member": member, "old": old, "new": new});
            self.broker.log.line(Level::Info, "member_keypair_rotated", fields);
        }
        Ok(Reply::Ok(json!({
            "memberId": member,
            "pubkey": new,
            "oldPubkey": old,
            "graceUntil": iso(rotated.until_ms),
            "already": rotated.already,
        })))
    }
}
