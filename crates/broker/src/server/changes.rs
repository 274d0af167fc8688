//! What others hear when members and topics change, whoever changed them and by whatever way.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hostel_wire::frames::close;
use hostel_wire::iso;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::room::system;
use super::{Broker, keys_needed, welcome};
use crate::engine::Engine;
use crate::registry::{Change, What};

/// Listens until the broker is gone.
pub(crate) async fn listen<E: Engine>(broker: Weak<Broker<E>>, mut changes: broadcast::Receiver<Change>) {
    loop {
        let change = changes.recv().await;
        let Some(broker) = broker.upgrade() else { return };
        match change {
            Ok(change) => tell(&broker, &change).await,
            Err(RecvError::Lagged(_)) => tell_everything(&broker),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Nobody knows what was missed: everybody gets the whole roster, and who must not be there goes.
fn tell_everything<E: Engine>(broker: &Broker<E>) {
    for (id, room) in broker.rooms.all() {
        let Some(mesh) = broker.registry.mesh(&id) else { continue };
        for text in welcome::roster(&mesh) {
            room.tell(text, |one| one.protocol >= 2);
        }
        for connection in room.connections() {
            let stands = mesh.member(&connection.member).is_some_and(|member| member.is_active());
            if !stands {
                connection.end(close::BANNED, "banned");
            }
        }
    }
}

async fn tell<E: Engine>(broker: &Arc<Broker<E>>, change: &Change) {
    let Some(mesh) = broker.registry.mesh(&change.mesh) else { return };
    let room = broker.rooms.room(&change.mesh);
    let now = broker.clock.now_ms();
    if let Some(member) = change.what.member().and_then(|id| mesh.member(id)) {
        let delta = welcome::roster_delta(&mesh, member, change.marks.as_ref());
        room.tell(&delta, |one| one.protocol >= 2);
    }
    match &change.what {
        What::Renamed { member, old_name, name } => {
            let pubkey = mesh.member(member).map(|member| member.pubkey.clone());
            let data = json!({"memberId": member, "pubkey": pubkey, "oldName": old_name, "name": name});
            let text = system(mesh.id(), "member_renamed", data, now);
            room.tell(&text, |one| one.member != *member);
        }
        What::KeyRotated { member, old_pubkey, new_pubkey, until_ms } => {
            let data = json!({
                "memberId": member,
                "name": mesh.member(member).map(|record| record.name.clone()),
                "pubkey": new_pubkey,
                "oldPubkey": old_pubkey,
                "newPubkey": new_pubkey,
                "graceUntil": iso(*until_ms),
            });
            let text = system(mesh.id(), "member_keypair_rotated", data, now);
            room.tell(&text, |one| one.member != *member);
            let (broker, switch) = (Arc::downgrade(broker), broker.settings.switch);
            hostel_tasks::spawn(close_replaced(broker, switch, change.mesh.clone(), member.clone()));
        }
        What::Changed { member } => {
            let Some(record) = mesh.member(member) else { return };
            let data = json!({
                "memberId": member,
                "name": record.name,
                "pubkey": record.pubkey,
                "groups": record.groups,
                "profile": welcome::profile(record),
            });
            let text = system(mesh.id(), "profile_updated", data, now);
            room.tell(&text, |one| one.member != *member);
        }
        What::Revoked { member, by } => {
            let record = mesh.member(member);
            let data = json!({
                "memberId": member,
                "name": record.map(|record| record.name.clone()),
                "pubkey": record.map(|record| record.pubkey.clone()),
                "by": by,
            });
            let text = system(mesh.id(), "member_revoked", data, now);
            let alarmed = |id: &str| mesh.member(id).is_some_and(|one| one.is_admin());
            room.tell(&text, |one| one.member == *member || alarmed(&one.member));
            for connection in room.of(member) {
                connection.end(close::BANNED, "banned");
            }
        }
        What::Left { member } => {
            for connection in room.of(member) {
                connection.bye.store(true, std::sync::atomic::Ordering::Release);
                connection.end(close::NORMAL, "left");
            }
        }
        What::Joined { member } => keys_needed::ask_for(broker, &mesh, member),
        What::Subscribed { topic, member } => {
            if let Some(topic) = mesh.topic(topic)
                && mesh.without_key(topic).contains(member)
            {
                keys_needed::ask(broker, &mesh, topic, topic.epoch, std::slice::from_ref(member));
            }
        }
        What::Sealed { topic, epoch, members } => {
            for member in members {
                bring_key(broker, mesh.id(), topic, *epoch, member).await;
            }
            // Whoever made the key may not have known everybody who needs it.
            if let Some(topic) = mesh.topic(topic).filter(|topic| topic.epoch == *epoch) {
                let missing = mesh.without_key(topic);
                if !missing.is_empty() {
                    keys_needed::ask(broker, &mesh, topic, topic.epoch, &missing);
                }
            }
        }
        _ => {}
    }
}

/// A member's connections that were made with a key it has no more end, once its daemon has had the time to make them
/// again by itself: whoever else holds that key is out.
async fn close_replaced<E: Engine>(broker: Weak<Broker<E>>, switch: Duration, mesh: String, member: String) {
    // The broker is not held while this waits: it may go meanwhile.
    tokio::time::sleep(switch).await;
    let Some(broker) = broker.upgrade() else { return };
    let Some(snapshot) = broker.registry.mesh(&mesh) else { return };
    let Some(record) = snapshot.member(&member) else { return };
    for connection in broker.rooms.room(&mesh).of(&member) {
        if connection.member_key.hex() != record.pubkey {
            connection.end(close::NORMAL, "key_replaced");
        }
    }
}

/// Brings a member that is there its copy of a key.
async fn bring_key<E: Engine>(broker: &Broker<E>, mesh: &str, topic: &str, epoch: u64, member: &str) {
    let connections = broker.rooms.room(mesh).of(member);
    if connections.iter().all(|one| one.protocol < 2) {
        return;
    }
    let Ok((epoch, seal)) = broker.registry.seal_get(mesh, member, topic, Some(epoch)).await else { return };
    let text: tokio_tungstenite::tungstenite::Utf8Bytes =
        keys_needed::key_frame(topic, epoch, member, seal, None).encode().into();
    for connection in connections.iter().filter(|one| one.protocol >= 2) {
        connection.tell(text.clone());
    }
}
