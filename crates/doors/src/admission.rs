//! How doors word what the accept loop has to tell.

use hostel_peer::accept::Notice;

use crate::claustrum::Log;

/// Writes notices of a door's accept loop to the log.
pub(crate) fn notices_to(log: &Log, door: &'static str) -> impl Fn(Notice<'_>) + Send + Sync + 'static {
    let log = log.clone();
    move |notice| match notice {
        Notice::AcceptFailed(error) => log.warn(format_args!("{door}: accept error (retrying): {error}")),
        Notice::TurnedAway { peer, reason, silenced: 0 } => {
            log.warn(format_args!("{door}: refused a connection ({peer}): {reason}"));
        }
        Notice::TurnedAway { peer, reason, silenced } => {
            log.warn(format_args!("{door}: refused a connection ({peer}): {reason}; {silenced} others before it"));
        }
        Notice::Panicked(error) => log.error(format_args!("{door}: a connection's handler failed: {error}")),
    }
}
