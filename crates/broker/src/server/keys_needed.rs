//! Who needs the key of a topic, and who could give it.
//!
//! The broker has none of these keys. It only knows who has a sealed copy and who has not, and brings the two together.

use hostel_wire::frames::client::Seal;
use hostel_wire::frames::server::{ServerFrame, TopicKeyFrame, TopicKeyNeeded};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Broker;
use crate::engine::Engine;
use crate::registry::{Mesh, SealRecord, TopicRecord};

/// Members that are named in one frame.
const MOST: usize = 512;

fn frames(topic: &TopicRecord, epoch: u64, members: &[String]) -> Vec<Utf8Bytes> {
    let frame = |members: &[String]| {
        let needed = TopicKeyNeeded { topic_id: topic.id.clone(), epoch, members: members.to_vec() };
        ServerFrame::TopicKeyNeeded(needed).encode().into()
    };
    members.chunks(MOST).map(frame).collect()
}

/// What a member that has come could give to others.
pub(crate) fn of_holder(mesh: &Mesh, member: &str) -> Vec<Utf8Bytes> {
    mesh.wanted_of(member).iter().flat_map(|(topic, members)| frames(topic, topic.epoch, members)).collect()
}

/// Asks those who are there for what a member lacks.
pub(crate) fn ask_for<E: Engine>(broker: &Broker<E>, mesh: &Mesh, member: &str) {
    for topic in mesh.topics() {
        if mesh.without_key(topic).iter().any(|one| one == member) {
            ask(broker, mesh, topic, topic.epoch, &[member.to_owned()]);
        }
    }
}

/// Asks those who are there for a key of a topic for these members: the present one, or one that posts in the log still
/// need.
pub(crate) fn ask<E: Engine>(broker: &Broker<E>, mesh: &Mesh, topic: &TopicRecord, epoch: u64, members: &[String]) {
    let room = broker.rooms.room(mesh.id());
    for text in frames(topic, epoch, members) {
        room.tell(&text, |one| one.protocol >= 2 && mesh.holds(&topic.id, epoch, &one.member));
    }
}

/// A member's copy of a key as a frame.
pub(crate) fn key_frame(
    topic: &str,
    epoch: u64,
    member: &str,
    seal: SealRecord,
    req_id: Option<String>,
) -> ServerFrame {
    let seal = Seal { member_id: member.to_owned(), blob: seal.blob, nonce: seal.nonce };
    ServerFrame::TopicKey(TopicKeyFrame { req_id, topic_id: topic.to_owned(), epoch, seal })
}
