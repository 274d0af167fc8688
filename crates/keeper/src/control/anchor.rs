//! A small blob that the keeper keeps for its daemon: the digest of what the daemon has decided, so that a daemon that
//! starts after a crash can tell whether its database is the one that was left (`crates/house/src/seals`).
//!
//! Guarantees: the blob is replaced as a whole, by a controller that the keeper recognises and by nobody else, in the order
//! of its frames. It is in memory only, lives as long as the keeper and survives its upgrades. What it means is not known
//! here.

use super::Control;
use crate::proto::{Builder, DecodeError, Frame, MAX_ANCHOR_BYTES, kind, tag};

impl Control {
    /// Puts a blob in the place of the one before. The daemon does not wait for an answer if it asked for none: what it
    /// sent is applied even if it dies.
    pub(super) fn put_anchor(&mut self, index: u32, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let anchor = frame.bytes(tag::ANCHOR)?;
        if anchor.len() > MAX_ANCHOR_BYTES {
            return Err(DecodeError::BadValue(tag::ANCHOR));
        }
        let (conn, corr) = (u64::from(index), frame.corr);
        if !self.is_recognised(index) {
            if corr != 0 {
                self.refuse(conn, corr, "only the daemon that the keeper recognises may leave an anchor");
            }
            return Ok(());
        }
        self.anchor = Some(anchor.to_vec());
        if corr != 0 {
            self.reply(conn, |out| Builder::new(out, kind::DONE, corr).finish());
        }
        Ok(())
    }

    /// Tells which blob was put last.
    pub(super) fn tell_anchor(&mut self, index: u32, corr: u64) {
        let conn = u64::from(index);
        if !self.is_recognised(index) {
            return self.refuse(conn, corr, "only the daemon that the keeper recognises is told the anchor");
        }
        let anchor = self.anchor.clone();
        self.reply(conn, |out| {
            let mut builder = Builder::new(out, kind::ANCHOR, corr);
            if let Some(anchor) = &anchor {
                builder = builder.bytes(tag::ANCHOR, anchor);
            }
            builder.finish();
        });
    }

    fn is_recognised(&self, index: u32) -> bool {
        self.conns.get(&index).is_some_and(|conn| conn.recognised)
    }
}
