//! Why somebody did not become a member.

use std::io;
use std::path::PathBuf;

use hostel_wire::invite::InviteError;

use crate::home::ConfigError;
use crate::home::settings::SettingsError;

/// Why a broker could not be asked, or what it said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The link is not one, or has expired.
    #[error("{0}")]
    Invite(#[from] InviteError),
    /// The link was cut short.
    #[error("the link lacks its secret, the part after `#`: ask for the whole link")]
    NoSecret,
    /// The broker's answer does not contain the root key, or it does not open.
    #[error("the broker did not hand over the mesh's key: ask for another invite")]
    RootKey,
    /// A name that cannot be one.
    #[error("{0}")]
    Name(String),
    /// An address that is none.
    #[error("{0}")]
    Url(String),
    /// TLS that could not be checked.
    #[error(
        "{url} speaks TLS and the invite names no certificate for it: ask for a new invite, or set `ca_file` below \
         `[broker]` in {}", file.display()
    )]
    NoCertificate {
        /// Where the broker is.
        url: String,
        /// The mesh's settings.
        file: PathBuf,
    },
    /// No answer.
    #[error("the broker at {url} cannot be reached: {source}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// An answer that makes no sense.
    #[error("the broker's answer cannot be understood: {0}")]
    Answer(String),
    /// The broker said no.
    #[error("the broker refused: {}", if detail.is_empty() { code } else { detail })]
    Refused {
        /// Its word.
        code: String,
        /// For people.
        detail: String,
        /// Whether asking again is of no use.
        permanent: bool,
    },
    /// One's own files.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// One's own files.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// One's own files.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl EnrolError {
    /// A stable word.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Invite(InviteError::BadSignature) => "invite_bad_signature",
            Self::Invite(InviteError::Expired) => "invite_expired",
            Self::Invite(_) | Self::NoSecret => "invite_malformed",
            Self::RootKey => "root_key_missing",
            Self::Name(_) => "invalid_name",
            Self::Url(_) => "invalid_url",
            Self::NoCertificate { .. } => "certificate_unknown",
            Self::Unreachable { .. } => "broker_unavailable",
            Self::Answer(_) => "bad_answer",
            Self::Refused { code, .. } => code,
            Self::Config(_) | Self::Settings(_) | Self::Io(_) => "io",
        }
    }

    /// Whether the same request will never succeed.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { permanent: true, .. })
    }
}
