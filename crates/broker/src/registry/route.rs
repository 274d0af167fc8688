//! Where a message goes and who sees it.
//!
//! Invariant: both are decided from one moment of a mesh. What the decision rests on goes along as guards, which are
//! checked where the entry is written: what was changed in between makes the caller look again.

use hostel_wire::frames::{Kind, To};
use hostel_wire::topic;

use super::error::Refusal;
use super::mesh::Mesh;
use super::records::{Held, TopicRecord, bucket};
use crate::engine::{Entry, Guard};

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What it is.
    pub kind: Kind,
    /// The member, topic or group, by id; `*` for everybody.
    pub dest: String,
    /// For a group: who is in it now, by id.
    pub audience: Vec<String>,
    /// What must not have changed.
    pub guards: Vec<Guard>,
}

/// What is asked of [`Mesh::route`].
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The member that sends.
    pub sender: &'a str,
    /// What it is; `None`: as the destination says.
    pub kind: Option<Kind>,
    /// Where it goes.
    pub to: &'a To,
    /// The key it is sealed with, for all but direct messages and files. `None` (first protocol): not checked.
    pub key_epoch: Option<u64>,
}

impl Mesh {
    /// Where a message goes, or why it goes nowhere (B2).
    pub fn route(&self, ask: Ask<'_>) -> Result<Route, Refusal> {
        let sender = self.member(ask.sender).filter(|member| member.is_active()).ok_or(Refusal::Forbidden)?;
        let mut guards = vec![self.guard(bucket::MEMBER, ask.sender, sender.revision)];
        let announced = ask.kind == Some(Kind::File);
        let mut audience = Vec::new();
        let (kind, dest) = match ask.to {
            To::Member(id) => {
                let receiver = self.member(id).filter(|member| member.left_ms.is_none());
                let receiver = receiver.ok_or(Refusal::RecipientUnknown)?;
                if receiver.revoked_ms.is_some() {
                    return Err(Refusal::RecipientRevoked);
                }
                if id != ask.sender && !self.may(id, ask.sender, "dm") {
                    return Err(Refusal::Blocked);
                }
                guards.push(self.guard(bucket::MEMBER, id, receiver.revision));
                let grant = self.grant(id, ask.sender).map_or(0, |grant| grant.revision);
                guards.push(self.guard(bucket::GRANT, &format!("{id}/{}", ask.sender), grant));
                (if announced { Kind::File } else { Kind::Dm }, id.clone())
            }
            To::Topic(id) => {
                let topic = self.topics.get(id).filter(|topic| self.shows(topic, ask.sender));
                let topic = topic.ok_or(Refusal::TopicNotFound)?;
                self.check_key(topic, ask.key_epoch)?;
                guards.push(self.guard(bucket::TOPIC, id, topic.revision));
                (Kind::Topic, id.clone())
            }
            To::Group(name) => {
                if topic::group_name(name).ok().as_ref() != Some(name) {
                    return Err(Refusal::Invalid);
                }
                guards.push(self.general_guard(ask.key_epoch)?);
                audience = self.group(name);
                (Kind::Group, name.clone())
            }
            To::All(true) => {
                guards.push(self.general_guard(ask.key_epoch)?);
                (if announced { Kind::File } else { Kind::All }, "*".to_owned())
            }
            To::All(false) => return Err(Refusal::Invalid),
        };
        match ask.kind {
            Some(said) if said != kind => Err(Refusal::Invalid),
            _ => Ok(Route { kind, dest, audience, guards }),
        }
    }

    fn guard(&self, bucket: &'static str, key: &str, revision: u64) -> Guard {
        Guard { bucket, key: format!("{}/{key}", self.id()), revision }
    }

    fn general_guard(&self, key_epoch: Option<u64>) -> Result<Guard, Refusal> {
        let general = self.general().ok_or(Refusal::TopicNotFound)?;
        self.check_key(general, key_epoch)?;
        Ok(self.guard(bucket::TOPIC, &general.id, general.revision))
    }

    fn check_key(&self, topic: &Held<TopicRecord>, key_epoch: Option<u64>) -> Result<(), Refusal> {
        match key_epoch {
            Some(epoch) if epoch != topic.epoch || !self.has_key(topic, epoch) => Err(Refusal::StaleKeyEpoch),
            _ => Ok(()),
        }
    }

    /// Whether an entry of the log is for a member (17.4). A direct message that is in the log was allowed when it got
    /// there; what goes to many is left out for who does not want it of its sender. Nothing is for who was revoked, also
    /// while its connections are being closed.
    #[must_use]
    pub fn sees(&self, member: &str, entry: &Entry) -> bool {
        let Some(record) = self.member(member).filter(|record| record.is_active()) else { return false };
        // What is shared is everybody's, also who wrote it: the log is where they hear of it in its order.
        if matches!(entry.kind, Kind::State | Kind::Task) {
            let shown = entry.kind == Kind::Task || self.shows_state(&entry.sender, member);
            return shown && record.joined_seq <= entry.seq;
        }
        if entry.sender == member {
            return false;
        }
        let meant = match entry.kind {
            Kind::Dm => return entry.dest == member,
            Kind::File if entry.dest != "*" => return entry.dest == member,
            Kind::Sys if entry.dest != "*" => return entry.dest == member,
            Kind::Topic => self.subscribed_at(&entry.dest, member, entry.seq),
            Kind::Group => entry.audience.binary_search_by(|one| one.as_str().cmp(member)).is_ok(),
            Kind::All | Kind::File | Kind::Sys | Kind::State | Kind::Task => record.joined_seq <= entry.seq,
        };
        meant && (entry.kind == Kind::Sys || self.may(member, &entry.sender, "broadcast"))
    }
}
