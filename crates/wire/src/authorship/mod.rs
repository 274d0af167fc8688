//! Proofs of authorship: what a reader checks to know which member wrote a message, without trusting the broker.
//!
//! A broker carries everything and can change every field of a frame. A reader therefore believes only what follows from
//! the member key it knows (the key that safety numbers cover):
//!
//! | what | proof |
//! |---|---|
//! | direct message, sealed with the member's key | the box itself |
//! | direct message, sealed with a session's key | [`SessionProof`] inside the box: the member vouches for the session key |
//! | message for a topic, a group or everybody | [`BodySignature`] inside the box, by the member's key |
//! | entry of the shared state, task | [`RecordContext`], by the member's key |
//! | the member's name, and that it signs | [`Statement`], handed out by the broker with the roster |
//! | another key of the same member | [`Succession`]s, see [`follow`] |
//! | another member in the place of one | [`Remint`] |
//!
//! Guarantee: a signature is bound to mesh, member, connection key, kind of entry, destination, message id and the exact
//! bytes of the text. Moving it to any other of these makes it invalid.
//!
//! Signatures of messages are inside the box and cover the plaintext, not the ciphertext: a message is sealed again for
//! every attempt and for every later key of its topic, a broker that does not know signatures carries them unchanged, and
//! one that does cannot remove them.
//!
//! This module keeps no keys and decides nothing about members: which key to verify with is the caller's to know.

mod message;
mod records;
mod statement;
mod succession;

pub use message::{BodySignature, MessageContext, SessionProof, sign_message};
pub use records::{RecordContext, RecordPart};
pub use statement::{Remint, Statement};
pub use succession::{KeyHistory, MAX_BODY_SUCCESSIONS, follow};
pub(crate) use succession::{read_step, write_step};

#[cfg(doc)]
use crate::frames::client::Succession;
use sha2::{Digest as _, Sha256};

/// Collects the fields of a text that is signed. Each field is preceded by its length, so that no two lists of fields
/// give the same bytes.
struct SignedText {
    purpose: &'static str,
    hash: Sha256,
}

impl SignedText {
    fn new(purpose: &'static str) -> Self {
        Self { purpose, hash: Sha256::new() }
    }

    fn field(mut self, bytes: &[u8]) -> Self {
        self.hash.update((bytes.len() as u64).to_be_bytes());
        self.hash.update(bytes);
        self
    }

    fn finish(self) -> String {
        format!("{}|{}", self.purpose, crate::encoding::hex(&self.hash.finalize()))
    }
}
