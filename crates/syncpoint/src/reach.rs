//! Telling a test that a point is reached: one connection, one line, one byte back.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::VARIABLE;

static LISTENER: OnceLock<Option<PathBuf>> = OnceLock::new();

pub(crate) fn tell(name: &str) {
    let listener = LISTENER.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    if let Some(path) = listener {
        report(path, name);
    }
}

/// A listener that is gone holds nobody up.
fn report(path: &Path, name: &str) {
    let Ok(mut stream) = UnixStream::connect(path) else { return };
    if stream.write_all(format!("{} {name}\n", std::process::id()).as_bytes()).is_ok() {
        let mut permission = [0];
        drop(stream.read(&mut permission));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_point_is_told_and_waits_for_permission() {
        let path = std::env::temp_dir().join(format!("hostel-syncpoint-{}", std::process::id()));
        std::fs::remove_file(&path).ok();
        report(&path, "nobody.listens.yet");
        let listener = UnixListener::bind(&path).unwrap();
        let passed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                report(&path, "some.thing.written");
                passed.store(true, Ordering::SeqCst);
            });
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = vec![0; 256];
            let count = stream.read(&mut line).unwrap();
            let expected = format!("{} some.thing.written\n", std::process::id());
            assert_eq!(std::str::from_utf8(&line[..count]).unwrap(), expected);
            assert!(!passed.load(Ordering::SeqCst));
            stream.write_all(b"1").unwrap();
        });
        assert!(passed.load(Ordering::SeqCst));
        drop(listener);
        report(&path, "nobody.listens.more");
        std::fs::remove_file(&path).ok();
    }
}
