//! The end of the audit, and the key that signs it.
//!
//! One key pair for each lifetime of the keeper, derived from the house key. A signature covers the digest of the last
//! record, and with it every record before.

use dryoc::classic::crypto_sign::{crypto_sign_detached, crypto_sign_seed_keypair, crypto_sign_verify_detached};
use zeroize::Zeroizing;

use super::HouseKey;

/// What every signature is of, before its own parts.
const DOMAIN: &[u8] = b"hostel audit segment 1\0";

/// The last record of the audit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct AuditHead {
    pub(crate) no: u64,
    pub(crate) digest: [u8; 32],
}

impl AuditHead {
    /// Of an audit without records.
    pub(crate) const NONE: AuditHead = AuditHead { no: 0, digest: [0; 32] };
}

/// Signs the records of one lifetime of the keeper.
#[derive(Clone)]
pub(crate) struct SegmentKey {
    public: [u8; 32],
    secret: Zeroizing<[u8; 64]>,
}

impl SegmentKey {
    pub(crate) fn new(key: &HouseKey) -> Self {
        let (public, secret) = crypto_sign_seed_keypair(key.derive("signature of the audit").as_bytes());
        SegmentKey { public, secret: Zeroizing::new(secret) }
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.public
    }

    /// Signs the records from `first` to `head`.
    pub(crate) fn sign(&self, first: u64, head: AuditHead) -> [u8; 64] {
        let mut signature = [0; 64];
        // It cannot fail: both sizes are in the types. A signature of zeros verifies nowhere.
        crypto_sign_detached(&mut signature, &message(first, head), &self.secret).ok();
        signature
    }

    /// Whether this is the signature of such a key under the records from `first` to `head`.
    pub(crate) fn verifies(public: &[u8; 32], first: u64, head: AuditHead, signature: &[u8; 64]) -> bool {
        crypto_sign_verify_detached(signature, &message(first, head), public).is_ok()
    }
}

fn message(first: u64, head: AuditHead) -> Vec<u8> {
    [DOMAIN, &first.to_le_bytes(), &head.no.to_le_bytes(), &head.digest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_these_records_and_no_others() {
        let key = SegmentKey::new(&HouseKey::from_bytes(&[1; 32]));
        let head = AuditHead { no: 7, digest: [9; 32] };
        let signature = key.sign(3, head);
        assert!(SegmentKey::verifies(&key.public(), 3, head, &signature));
        assert!(!SegmentKey::verifies(&key.public(), 4, head, &signature));
        assert!(!SegmentKey::verifies(&key.public(), 3, AuditHead { no: 8, ..head }, &signature));
        assert!(!SegmentKey::verifies(&key.public(), 3, AuditHead { digest: [8; 32], ..head }, &signature));
        let other = SegmentKey::new(&HouseKey::from_bytes(&[2; 32]));
        assert!(!SegmentKey::verifies(&other.public(), 3, head, &signature));
    }
}
