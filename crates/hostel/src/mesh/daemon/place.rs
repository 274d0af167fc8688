//! Whether a process still has the place it lives in.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(10);

/// Waits until a file that is ours is gone or somebody else's: then the directory was removed, and whoever goes on
/// serves nobody and is found by nobody.
pub(crate) async fn gone(file: &Path) {
    let inode = |file: &Path| file.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let ours = inode(file);
    let mut looking = tokio::time::interval(LOOK);
    looking.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while ours == inode(file) {
        looking.tick().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_was_replaced_is_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pid");
        std::fs::write(&path, "1").unwrap();
        let mut waiting = Box::pin(gone(&path));
        assert!(tokio::time::timeout(3 * LOOK, &mut waiting).await.is_err());
        std::fs::write(scratch.path().join("other"), "2").unwrap();
        std::fs::rename(scratch.path().join("other"), &path).unwrap();
        tokio::time::timeout(3 * LOOK, &mut waiting).await.unwrap();
    }
}
