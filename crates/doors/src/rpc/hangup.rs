//! Telling a client that has finished sending from one that is gone.
//!
//! Invariant: it waits for what the system announces and asks for nothing else.

use std::io;
use std::os::fd::AsFd as _;

use tokio::io::Interest;
use tokio::net::UnixStream;

/// Waits until the other side has closed both directions. A client that only finished sending still reads.
pub(crate) async fn gone(stream: &UnixStream) {
    // Without a descriptor to spare nobody can watch: the client is gone as soon as it stops sending.
    let Ok(watched) = second_handle(stream) else { return };
    while let Ok(ready) = watched.ready(Interest::WRITABLE).await {
        if ready.is_write_closed() {
            return;
        }
        // There being room to write is no news; the next change is.
        watched.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())).ok();
    }
}

/// A handle of its own, whose events are nobody else's.
fn second_handle(stream: &UnixStream) -> io::Result<UnixStream> {
    UnixStream::from_std(stream.as_fd().try_clone_to_owned()?.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_half_close_is_not_the_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.shutdown().await.unwrap();
        let waiting = gone(&ours);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());
        drop(theirs);
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
    }
}
