//! News of changes, for who tells the members.

/// Something has changed, and is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In which mesh.
    pub mesh: String,
    /// The roster's revision after it.
    pub roster_rev: u64,
    /// The marks of the roster before and after it, where this is the last that is told of the change.
    pub marks: Option<(String, String)>,
    /// What.
    pub what: What,
}

/// What has changed; members, topics and files by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The mesh is new.
    MeshCreated,
    /// Its rules.
    Policy,
    /// Somebody is new, or back.
    Joined {
        /// Who.
        member: String,
    },
    /// Somebody has another name.
    Renamed {
        /// Who.
        member: String,
        /// The name before.
        old_name: String,
        /// The name now.
        name: String,
    },
    /// What somebody says of itself.
    Stated {
        /// Who.
        member: String,
    },
    /// Role, groups or profile of somebody.
    Changed {
        /// Who.
        member: String,
    },
    /// Somebody has another key.
    KeyRotated {
        /// Who.
        member: String,
        /// The key before, hex.
        old_pubkey: String,
        /// The key now, hex.
        new_pubkey: String,
        /// Until when the old one leads to it.
        until_ms: u64,
    },
    /// Keys that somebody had lead to them no more.
    KeyOver {
        /// Whose.
        member: String,
    },
    /// A key counts no more.
    Revoked {
        /// Whose.
        member: String,
        /// Who said so.
        by: String,
    },
    /// It counts again.
    Unbanned {
        /// Whose.
        member: String,
    },
    /// Somebody has left for good.
    Left {
        /// Who.
        member: String,
    },
    /// A topic is new.
    TopicCreated {
        /// Which.
        topic: String,
    },
    /// A topic is gone.
    TopicDeleted {
        /// Which.
        topic: String,
        /// Its name.
        name: String,
    },
    /// Somebody has subscribed.
    Subscribed {
        /// To which topic.
        topic: String,
        /// Who.
        member: String,
    },
    /// Somebody has unsubscribed.
    Unsubscribed {
        /// From which topic.
        topic: String,
        /// Who.
        member: String,
    },
    /// Posts need another key from now on.
    Epoch {
        /// Of which topic.
        topic: String,
        /// Which.
        epoch: u64,
    },
    /// Copies of a key are there.
    Sealed {
        /// Of which topic.
        topic: String,
        /// Which key.
        epoch: u64,
        /// For whom.
        members: Vec<String>,
    },
    /// What a sender may do to a receiver.
    Granted {
        /// The receiver.
        receiver: String,
        /// The sender.
        sender: String,
    },
    /// A file is new.
    FileAdded {
        /// Which.
        file: String,
    },
    /// A file is gone.
    FileDeleted {
        /// Which.
        file: String,
    },
}

impl What {
    /// The member whose entry of the roster has changed.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::Joined { member }
            | Self::Renamed { member, .. }
            | Self::Changed { member }
            | Self::Stated { member }
            | Self::KeyRotated { member, .. }
            | Self::KeyOver { member }
            | Self::Revoked { member, .. }
            | Self::Unbanned { member }
            | Self::Left { member } => Some(member),
            _ => None,
        }
    }
}
