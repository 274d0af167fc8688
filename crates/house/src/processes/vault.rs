//! The keeper as the vault of the house: it makes the house key, and it keeps the anchor of what was decided.
//!
//! Guarantees: an anchor stands in the socket to the keeper before [`Vault::put`] returns, so it reaches the keeper even if
//! this daemon is killed at that moment, and before anything that is asked of the keeper afterwards. A keeper that takes
//! nothing, or whose connection is lost while its process lives, holds up whoever decides, for [`PUT_TIMEOUT`] at most; then
//! the decision is refused. Only the end of the keeper's process makes the anchor needless: the key has ended with it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_keeper::proto::{Builder, feature, kind, tag};

use super::Processes;
use super::link::{Answer, LinkEnd};
use crate::seals::{HouseKey, KeyChanges, Recalled, Vault, VaultError};

/// How long the keeper may take to make room for an anchor.
const PUT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before it is looked whether there is another connection.
const RELINK_LOOK: Duration = Duration::from_millis(2);

impl Processes {
    fn keeps_anchors(&self) -> bool {
        self.house.welcome.read().features & feature::ANCHOR != 0
    }
}

impl Vault for Processes {
    fn key(&self) -> Option<Arc<HouseKey>> {
        self.house_key().filter(|_| self.keeps_anchors())
    }

    fn key_changes(&self) -> Option<KeyChanges> {
        Some(self.house_keys())
    }

    fn recall(&self) -> Recalled<'_> {
        Box::pin(async {
            let asked = self.house.request(|corr, out| Builder::new(out, kind::GET_ANCHOR, corr).finish()).await;
            match asked {
                Ok(Answer::Anchor(anchor)) => Ok(anchor),
                Ok(Answer::Refused(why)) => Err(io::Error::other(why)),
                Ok(other) => Err(io::Error::other(format!("unexpected answer {other:?}"))),
                Err(gone) => Err(io::Error::other(gone.to_string())),
            }
        })
    }

    fn put(&self, anchor: &[u8]) -> Result<(), VaultError> {
        let deadline = Instant::now() + PUT_TIMEOUT;
        loop {
            let encode = |out: &mut Vec<u8>| Builder::new(out, kind::PUT_ANCHOR, 0).bytes(tag::ANCHOR, anchor).finish();
            let link = self.house.link();
            let error = match link.send_now(deadline, encode) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_over = Instant::now() >= deadline;
            match error.kind() {
                // The keeper was replaced in place: the next image is told by the next link.
                io::ErrorKind::Interrupted if !is_over => {}
                // The kernel may close a keeper's connections a moment before its process counts as ended.
                io::ErrorKind::NotConnected if !link.keeper_lives() => return Err(VaultError::Gone),
                io::ErrorKind::NotConnected if link.state() == LinkEnd::Superseded => {
                    return Err(VaultError::Stuck("a younger daemon is in charge of this house".to_owned()));
                }
                // The keeper lives and has the anchor of before: a commit without it would look like tampering later.
                io::ErrorKind::NotConnected if !is_over => std::thread::sleep(RELINK_LOOK),
                io::ErrorKind::NotConnected => {
                    let seconds = PUT_TIMEOUT.as_secs();
                    return Err(VaultError::Stuck(format!(
                        "the connection is lost and did not come back in {seconds} s"
                    )));
                }
                _ => return Err(VaultError::Stuck(error.to_string())),
            }
        }
    }
}
