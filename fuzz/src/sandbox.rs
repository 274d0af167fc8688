//! A directory to unpack into, with neighbours that must not notice.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hostel_house::workspace::archive::{Failure, Limits, MARKER};
use rustix::fs::{CWD, FileType, Mode};

/// Small, so that reaching a limit is cheap.
pub const LIMITS: Limits = Limits { total_bytes: 256 * 1024, members: 40 };
/// What stands in the destination before, if it is not fresh: ways out that nobody may take.
pub const PLANTED: [&str; 3] = ["way", "file", "pipe"];

const KEPT: &[u8] = b"not yours";

/// The place; one for the whole run of a target.
pub struct Sandbox {
    root: PathBuf,
}

impl Sandbox {
    /// The place of this process, below `TMPDIR`.
    pub fn get() -> &'static Self {
        static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
        SANDBOX.get_or_init(|| {
            let root = std::env::temp_dir().join(format!("hostel-fuzz-{}", std::process::id()));
            fs::create_dir_all(root.join("outside")).expect("the place can be made");
            fs::write(root.join("outside/kept"), KEPT).expect("the place can be filled");
            Sandbox { root }
        })
    }

    /// Where to unpack.
    pub fn destination(&self) -> PathBuf {
        self.root.join("dest")
    }

    /// Where nothing may appear.
    pub fn outside(&self) -> PathBuf {
        self.root.join("outside")
    }

    /// Makes the destination anew, with or without something planted in it.
    pub fn fresh(&self, planted: bool) {
        let destination = self.destination();
        if destination.exists() {
            fs::remove_dir_all(&destination).expect("the destination can be removed");
        }
        fs::create_dir(&destination).expect("the destination can be made");
        if planted {
            symlink("../outside", destination.join(PLANTED[0])).expect("links can be made");
            symlink("../outside/kept", destination.join(PLANTED[1])).expect("links can be made");
            rustix::fs::mknodat(CWD, destination.join(PLANTED[2]), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .expect("pipes can be made");
        }
    }

    /// Checks what an extraction promised.
    pub fn check(&self, outcome: &Result<u64, Failure>, planted: bool) {
        let mut names: Vec<_> =
            entries(&self.root).iter().map(|path| path.file_name().map(|name| name.to_owned())).collect();
        names.sort();
        assert_eq!(names, [Some("dest".into()), Some("outside".into())], "something appeared beside the destination");
        assert_eq!(entries(&self.outside()), [self.outside().join("kept")], "something appeared outside");
        assert_eq!(fs::read(self.outside().join("kept")).ok().as_deref(), Some(KEPT), "a file outside was changed");

        let (mut files, mut bytes) = (0_u64, 0_u64);
        let mut directories = vec![self.destination()];
        while let Some(directory) = directories.pop() {
            for path in entries(&directory) {
                let metadata = fs::symlink_metadata(&path).expect("what is listed is there");
                let was_there = planted && PLANTED.iter().any(|name| path == self.destination().join(name));
                assert!(
                    was_there || metadata.is_dir() || metadata.is_file(),
                    "{} is neither file nor directory",
                    path.display()
                );
                assert_eq!(metadata.permissions().mode() & 0o7000, 0, "{} has a special mode", path.display());
                if metadata.is_dir() {
                    directories.push(path);
                } else if !was_there {
                    assert_eq!(metadata.nlink(), 1);
                    files += 1;
                    bytes += metadata.len();
                }
            }
        }
        assert!(bytes <= LIMITS.total_bytes, "{bytes} bytes came out");
        let marker = self.destination().join(MARKER);
        if let Ok(count) = outcome {
            assert!(marker.is_file(), "a complete destination has its marker");
            // A member may replace an earlier one, or be the marker itself.
            assert!(files <= count + 1, "{files} files where {count} were told");
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .expect("directories can be listed")
        .map(|entry| entry.expect("entries can be read").path())
        .collect()
}
