//! Invites: a text that lets whoever holds it join a mesh.
//!
//! Invariant: the owner's signature covers everything but the part after `#`, which is never sent to a broker: a random
//! secret that opens the root key, and the digests of the broker's certificate and of the key behind it. The signature
//! covers the secret's digest, so the secret cannot be exchanged either.
//!
//! It joins nothing; it only writes and reads the text.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::fingerprint::sha256;
use crate::keys::{PublicKey, SecretKey, Signature};
use crate::sealed::{OpenError, RootKey};
use crate::{encoding, random, sealed, topic};

/// A link may have this many bytes.
pub const LINK_LIMIT: usize = 8 * 1024;

/// How long an invite lasts unless it says otherwise, in seconds.
pub const LIFE_S: u64 = 7 * 86_400;

/// Why an invite is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// Not an invite.
    #[error("not an invite: {0}")]
    Malformed(&'static str),
    /// A short link, which only its own server can resolve.
    #[error("short links (`/i/…`) are not supported: ask for the whole invite link")]
    ShortLink,
    /// Another version.
    #[error("this invite has version {0}, only version 1 is known")]
    Version(u32),
    /// Not signed by the owner it names.
    #[error("the invite's signature is not its owner's")]
    BadSignature,
    /// Too late.
    #[error("the invite has expired")]
    Expired,
    /// The part after `#` belongs to another invite.
    #[error("the secret after `#` does not belong to this invite")]
    WrongSecret,
}

impl InviteError {
    /// The word a broker answers with.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::ShortLink | Self::Version(_) | Self::WrongSecret => "invite_not_found",
            Self::BadSignature => "invite_bad_signature",
            Self::Expired => "invite_expired",
        }
    }
}

/// What an owner grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// To which mesh.
    pub mesh_id: String,
    /// Its slug.
    pub mesh_slug: String,
    /// Where its broker is.
    pub broker_url: String,
    /// Until when, in seconds since 1970.
    pub expires_at: u64,
    /// `member` or `admin`.
    pub role: String,
}

/// The signed part of an invite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// 1.
    pub v: u32,
    /// To which mesh.
    pub mesh_id: String,
    /// Its slug.
    pub mesh_slug: String,
    /// Where its broker is.
    pub broker_url: String,
    /// Until when, in seconds since 1970.
    pub expires_at: u64,
    /// Digest of the secret after `#`; base64url.
    pub mesh_root_key: String,
    /// `member` or `admin`.
    pub role: String,
    /// 64 hex.
    pub owner_pubkey: String,
    /// 128 hex.
    pub signature: String,
}

impl Invite {
    /// What the owner signs.
    #[must_use]
    pub fn signed_text(&self) -> String {
        let Self { v, mesh_id, mesh_slug, broker_url, expires_at, mesh_root_key, role, owner_pubkey, .. } = self;
        format!("{v}|{mesh_id}|{mesh_slug}|{broker_url}|{expires_at}|{mesh_root_key}|{role}|{owner_pubkey}")
    }

    /// Whether the owner it names has signed it. Whether that is the mesh's owner, the broker knows.
    pub fn verify(&self) -> Result<(), InviteError> {
        if self.v != 1 {
            return Err(InviteError::Version(self.v));
        }
        // A `|` inside a field would let two different invites have one signed text.
        let texts = [&self.mesh_id, &self.mesh_slug, &self.broker_url, &self.mesh_root_key, &self.role];
        if texts.iter().any(|text| text.contains('|')) {
            return Err(InviteError::Malformed("a field contains `|`"));
        }
        let owner = PublicKey::from_hex(&self.owner_pubkey).ok_or(InviteError::BadSignature)?;
        let signature = Signature::from_hex(&self.signature).ok_or(InviteError::BadSignature)?;
        let good = owner.verify(self.signed_text().as_bytes(), &signature);
        if good { Ok(()) } else { Err(InviteError::BadSignature) }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at <= now_ms / 1000
    }

    /// The text under which a broker knows it.
    #[must_use]
    pub fn token(&self) -> String {
        // Text and numbers: it can always be written.
        encoding::b64url(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a token. It does not verify.
    pub fn from_token(token: &str) -> Result<Self, InviteError> {
        if token.len() > LINK_LIMIT {
            return Err(InviteError::Malformed("too long"));
        }
        let bytes = encoding::unb64url(token.trim_end_matches('=')).ok_or(InviteError::Malformed("not base64url"))?;
        serde_json::from_slice(&bytes).map_err(|_| InviteError::Malformed("a field is missing or wrong"))
    }
}

/// The part of an invite that no broker sees.
#[derive(Clone)]
pub struct InviteSecret(Zeroizing<[u8; 32]>);

impl InviteSecret {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self(Zeroizing::new(random::bytes()))
    }

    /// Reads base64url.
    #[must_use]
    pub fn from_b64url(text: &str) -> Option<Self> {
        encoding::unb64url_array(text).map(|bytes| Self(Zeroizing::new(bytes)))
    }

    /// As base64url, for the link.
    #[must_use]
    pub fn to_b64url(&self) -> Zeroizing<String> {
        Zeroizing::new(encoding::b64url(&self.0[..]))
    }

    /// What stands in the signed part in its place.
    #[must_use]
    pub fn commitment(&self) -> String {
        encoding::b64url(&sha256(&[b"claudemesh-invite|", &self.0[..]].concat()))
    }

    fn key(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(sha256(&Zeroizing::new([b"claudemesh-invite-key|", &self.0[..]].concat())))
    }

    /// The root key, for the broker to keep until somebody joins.
    #[must_use]
    pub fn seal_root(&self, root: &RootKey) -> String {
        sealed::wrap(&self.key(), root.as_bytes())
    }

    /// The root key, as the joiner gets it.
    pub fn open_root(&self, text: &str) -> Result<RootKey, OpenError> {
        Ok(RootKey::from_bytes(*sealed::unwrap(&self.key(), text)?))
    }
}

impl std::fmt::Debug for InviteSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InviteSecret")
    }
}

/// By what a broker is known whose certificate no authority of ours vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertPin {
    /// SHA-256 of its certificate.
    pub cert: [u8; 32],
    /// SHA-256 of the public key (SPKI) that stays when the certificate is renewed: the certificate's own, or that of the
    /// authority that came with it. Absent in invites of before.
    pub key: Option<[u8; 32]>,
}

impl From<[u8; 32]> for CertPin {
    fn from(cert: [u8; 32]) -> Self {
        Self { cert, key: None }
    }
}

/// An invite as it is handed over.
#[derive(Debug, Clone)]
pub struct InviteLink {
    /// For the broker.
    pub token: String,
    /// What it says.
    pub payload: Invite,
    /// For the joiner alone; absent where somebody cut the link short.
    pub secret: Option<InviteSecret>,
    /// The broker's certificate, where that is one of its own making.
    pub cert: Option<CertPin>,
}

impl InviteLink {
    /// Makes and signs one.
    pub fn make(terms: &Terms, owner: &SecretKey, cert: Option<CertPin>) -> Result<Self, InviteError> {
        let secret = InviteSecret::generate();
        let mut payload = Invite {
            v: 1,
            mesh_id: terms.mesh_id.clone(),
            mesh_slug: terms.mesh_slug.clone(),
            broker_url: terms.broker_url.clone(),
            expires_at: terms.expires_at,
            mesh_root_key: secret.commitment(),
            role: terms.role.clone(),
            owner_pubkey: owner.public().hex(),
            signature: String::new(),
        };
        payload.signature = owner.sign(payload.signed_text().as_bytes()).hex();
        payload.verify()?;
        Ok(Self { token: payload.token(), payload, secret: Some(secret), cert })
    }

    /// The link. Whoever reads it can join: it is shown once, to the person who invites.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(format!("ic://join/{}", self.token));
        if let Some(secret) = &self.secret {
            text.push_str("#k=");
            text.push_str(&secret.to_b64url());
        }
        if let Some(cert) = &self.cert {
            text.push(if self.secret.is_some() { '&' } else { '#' });
            text.push_str("cert=");
            text.push_str(&encoding::hex(&cert.cert));
            if let Some(key) = &cert.key {
                text.push_str("&key=");
                text.push_str(&encoding::hex(key));
            }
        }
        text
    }

    /// Reads `ic://join/…`, `https://host/join/…` or a bare token, and verifies the signature. Whether it has expired
    /// is for whoever knows the time.
    pub fn parse(text: &str) -> Result<Self, InviteError> {
        let text = text.trim();
        if text.len() > LINK_LIMIT {
            return Err(InviteError::Malformed("too long"));
        }
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let address = address.split_once('?').map_or(address, |(address, _)| address);
        let token = token_of(address)?;
        let payload = Invite::from_token(token)?;
        payload.verify()?;
        if !topic::is_mesh_slug(&payload.mesh_slug) {
            return Err(InviteError::Malformed("the mesh's slug is not one"));
        }
        if payload.role != "member" && payload.role != "admin" {
            return Err(InviteError::Malformed("the role is neither `member` nor `admin`"));
        }
        let (secret, cert) = read_fragment(fragment)?;
        if let Some(secret) = &secret
            && secret.commitment() != payload.mesh_root_key
        {
            return Err(InviteError::WrongSecret);
        }
        Ok(Self { token: token.to_owned(), payload, secret, cert })
    }
}

fn token_of(address: &str) -> Result<&str, InviteError> {
    let path = if let Some(token) = address.strip_prefix("ic://join/") {
        return Ok(token.trim_end_matches('/'));
    } else if let Some(rest) = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")) {
        rest.split_once('/').map_or("", |(_, path)| path)
    } else if address.contains("://") || address.contains('/') {
        return Err(InviteError::Malformed("an invite begins with `ic://join/`"));
    } else {
        return Ok(address);
    };
    if let Some(token) = path.strip_prefix("join/") {
        Ok(token.trim_end_matches('/'))
    } else if path.starts_with("i/") {
        Err(InviteError::ShortLink)
    } else {
        Err(InviteError::Malformed("the address has no `/join/`"))
    }
}

fn read_fragment(fragment: &str) -> Result<(Option<InviteSecret>, Option<CertPin>), InviteError> {
    let (mut secret, mut cert, mut key) = (None, None, None);
    for part in fragment.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("k", value)) => {
                secret = Some(InviteSecret::from_b64url(value).ok_or(InviteError::Malformed("`k` is not 32 bytes"))?);
            }
            Some(("cert", value)) => {
                cert = Some(encoding::unhex_array(value).ok_or(InviteError::Malformed("`cert` is not 32 bytes"))?);
            }
            Some(("key", value)) => {
                key = Some(encoding::unhex_array(value).ok_or(InviteError::Malformed("`key` is not 32 bytes"))?);
            }
            // A later version may say more.
            _ => {}
        }
    }
    // A key alone names no broker: what is renewed must have been something.
    Ok((secret, cert.map(|cert| CertPin { cert, key })))
}

#[cfg(test)]
#[path = "invite_tests.rs"]
mod tests;
