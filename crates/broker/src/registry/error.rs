//! Why something was refused, with the stable word of the protocol.

use crate::engine::{BlobError, EngineError, KvError};

/// Why a request was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// No such mesh.
    #[error("no such mesh")]
    MeshNotFound,
    /// No such member, or not the one meant.
    #[error("{0}")]
    NotFound(String),
    /// No such topic.
    #[error("no topic `{0}`")]
    TopicNotFound(String),
    /// No such file.
    #[error("no such file")]
    FileNotFound,
    /// No such task.
    #[error("no such task")]
    TaskNotFound,
    /// The id stands for another request already.
    #[error("the id was used for another request")]
    Reused,
    /// The file is for others.
    #[error("this file is not shared with you")]
    NotShared,
    /// The receiver does not want it of this sender.
    #[error("the receiver has blocked this sender")]
    Blocked,
    /// It may not.
    #[error("{0}")]
    Forbidden(String),
    /// What was given cannot be.
    #[error("{0}")]
    Invalid(String),
    /// It fits several.
    #[error("`{0}` fits several members")]
    Ambiguous(String),
    /// Somebody else has it.
    #[error("{0}")]
    Taken(String),
    /// The member has another key by now.
    #[error("the key was replaced")]
    KeyReplaced,
    /// It is not signed by whom it must be, or not now.
    #[error("{0}")]
    Unproven(String),
    /// Somebody has made this key of the topic already.
    #[error("this epoch has its key already")]
    EpochTaken,
    /// It is sealed with a key that does not count any more.
    #[error("sealed with a key of an epoch that is over")]
    StaleKeyEpoch,
    /// Nobody has sealed the key for this member yet.
    #[error("the topic's key is not sealed for this member yet")]
    NotSealed,
    /// A bound of the mesh is reached.
    #[error("{0}")]
    Full(String),
    /// The mesh's log has no room; trying again later helps.
    #[error("the broker's log of this mesh is full; try again later")]
    LogFull,
    /// The engine's reason; trying again may help.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl RegistryError {
    /// The word of the protocol.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MeshNotFound => "mesh_not_found",
            Self::NotFound(_) => "not_found",
            Self::TopicNotFound(_) => "topic_not_found",
            Self::FileNotFound => "file_not_found",
            Self::TaskNotFound => "task_not_found",
            Self::Reused => "idempotency_key_reused",
            Self::NotShared => "not_shared_with_you",
            Self::Blocked => "blocked",
            Self::Forbidden(_) => "forbidden",
            Self::Invalid(_) => "invalid_argument",
            Self::Ambiguous(_) => "ambiguous_prefix",
            Self::Taken(_) => "name_taken",
            Self::KeyReplaced => "key_replaced",
            Self::Unproven(_) => "bad_signature",
            Self::EpochTaken => "epoch_taken",
            Self::StaleKeyEpoch => "stale_key_epoch",
            Self::NotSealed => "key_not_sealed_for_member",
            Self::Full(_) => "capacity",
            Self::LogFull | Self::Engine(_) => "unavailable",
        }
    }
}

impl From<KvError> for RegistryError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Engine(error) => Self::Engine(error),
            KvError::Conflict { bucket, key } => {
                Self::Engine(EngineError::Unreadable(format!("`{key}` of `{bucket}` was changed by somebody else")))
            }
        }
    }
}

impl From<BlobError> for RegistryError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound => Self::FileNotFound,
            BlobError::Io(why) => Self::Engine(EngineError::Disk(why)),
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// Why a join was refused; each has the word of the protocol.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JoinError {
    /// The invite's mesh is not here.
    #[error("no such mesh")]
    MeshNotFound,
    /// The mesh has no owner key to check invites with.
    #[error("the mesh has no owner key")]
    MissingOwnerKey,
    /// It was never registered.
    #[error("no such invite")]
    NotFound,
    /// It is over.
    #[error("the invite has expired")]
    Expired,
    /// It was used as often as it may be.
    #[error("the invite is used up")]
    Exhausted,
    /// It was taken back.
    #[error("the invite was taken back")]
    Revoked,
    /// It is not signed by its owner key, or cannot be read.
    #[error("the invite's signature is wrong")]
    BadSignature,
    /// It is of another mesh than the one registered.
    #[error("the invite is of another mesh")]
    MeshMismatch,
    /// It is signed by somebody else than the owner.
    #[error("the invite is not signed by the mesh's owner")]
    OwnerMismatch,
    /// The member could not be made.
    #[error("{0}")]
    InsertFailed(String),
}

impl From<RegistryError> for JoinError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::MeshNotFound => Self::MeshNotFound,
            other => Self::InsertFailed(other.to_string()),
        }
    }
}

impl JoinError {
    /// The word of the protocol.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MeshNotFound => "mesh_not_found",
            Self::MissingOwnerKey => "mesh_missing_owner_key",
            Self::NotFound => "invite_not_found",
            Self::Expired => "invite_expired",
            Self::Exhausted => "invite_exhausted",
            Self::Revoked => "invite_revoked",
            Self::BadSignature => "invite_bad_signature",
            Self::MeshMismatch => "invite_mesh_mismatch",
            Self::OwnerMismatch => "invite_owner_mismatch",
            Self::InsertFailed(_) => "member_insert_failed",
        }
    }
}

/// Why a message does not get into the log (B2); each has the word of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Where it goes makes no sense.
    #[error("the destination is not one")]
    Invalid,
    /// The sender is not a member any more.
    #[error("you are not a member of this mesh")]
    Forbidden,
    /// The receiver does not want it.
    #[error("the recipient has blocked you")]
    Blocked,
    /// No such topic.
    #[error("no such topic")]
    TopicNotFound,
    /// No such member.
    #[error("no such member")]
    RecipientUnknown,
    /// Its key counts no more.
    #[error("the recipient is revoked")]
    RecipientRevoked,
    /// Sealed with another key than the topic's present one, or nobody has made that one yet.
    #[error("the topic has another key now")]
    StaleKeyEpoch,
}

impl Refusal {
    /// The word of the protocol.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Forbidden => "forbidden",
            Self::Blocked => "blocked",
            Self::TopicNotFound => "topic_not_found",
            Self::RecipientUnknown => "recipient_unknown",
            Self::RecipientRevoked => "recipient_revoked",
            Self::StaleKeyEpoch => "stale_key_epoch",
        }
    }

    /// Trying again is of no use.
    #[must_use]
    pub fn is_permanent(self) -> bool {
        self != Self::StaleKeyEpoch
    }
}
