//! Which file a command means, and what is in it.
//!
//! Invariant: a file is named by device, inode, size and the digest of its content, and what was named once is compared,
//! never looked for again. What cannot be looked at in full is not named.
//!
//! Everything here may wait for a disk and is called where waiting does no harm; what [`cached`] can tell, it tells at once.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostel_keeper::proto::Pin;
use parking_lot::Mutex;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::plan::Resolved;

/// Where commands are looked for, whatever `PATH` the daemon has.
pub const EXECUTION_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A file whose content takes longer than this to read is not named, and so cannot be run.
const LONGEST_READ: Duration = Duration::from_secs(20);
/// Bytes read at a time.
const READ_BYTES: usize = 128 * 1024;
/// Digests that are remembered.
const REMEMBERED: usize = 1024;
/// A file that changed this recently may change again without its times telling: its digest is not remembered.
const SETTLED: Duration = Duration::from_secs(2);

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Signature {
    dev: u64,
    inode: u64,
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Signature {
    fn of(metadata: &std::fs::Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
        Self {
            dev: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn pin(self) -> Pin {
        let Self { dev, inode, size, mtime_ns, ctime_ns } = self;
        Pin { dev, inode, size, mtime_ns, ctime_ns }
    }
}

static DIGESTS: LazyLock<Mutex<HashMap<Signature, [u8; 32]>>> = LazyLock::new(Mutex::default);

/// Remembers a digest. Where there is no room for it, all others are forgotten: a file that is needed is read again.
fn remember(digests: &mut HashMap<Signature, [u8; 32]>, signature: Signature, digest: [u8; 32]) {
    if digests.len() >= REMEMBERED {
        digests.clear();
    }
    digests.insert(signature, digest);
}

/// What can be told without waiting for anybody: of files whose names are in the kernel's memory and whose digests are in
/// ours. `None` means that somebody has to look.
pub(super) mod cached {
    use rustix::fs::{ResolveFlags, StatxFlags};

    use super::*;

    /// As [`super::resolve`].
    pub(in super::super) fn resolve(word: &str) -> Option<Resolved> {
        if word.contains('/') {
            return look_at(&Path::new("/").join(word)).ok().flatten().map(|(found, _)| found);
        }
        for directory in EXECUTION_PATH.split(':').filter(|_| !word.is_empty()) {
            match look_at(&Path::new(directory).join(word)) {
                Ok(Some((found, _))) => return Some(found),
                // It is certain that there is none.
                Err(Errno::NOENT) => {}
                Ok(None) | Err(_) => return None,
            }
        }
        None
    }

    /// As [`super::verify`], if all is well; whatever is not is looked at again, with time.
    pub(in super::super) fn verify(file: &Resolved) -> Option<(PathBuf, Pin)> {
        let Resolved::Found { path, dev, inode, size, digest, .. } = file else { return None };
        let (found, signature) = look_at(path).ok().flatten()?;
        let same = matches!(found, Resolved::Found { digest: now, .. } if now == *digest);
        let same = same && (signature.dev, signature.inode, signature.size) == (*dev, *inode, *size);
        same.then(|| (path.clone(), signature.pin()))
    }

    /// A file that can be run, if everything about it is known.
    fn look_at(path: &Path) -> Result<Option<(Resolved, Signature)>, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)?;
        let ask = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&fd, "", ask, StatxFlags::BASIC_STATS)?;
        let ns = |time: rustix::fs::StatxTimestamp| {
            time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(i64::from(time.tv_nsec))
        };
        let signature = Signature {
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            mtime_ns: ns(stat.stx_mtime),
            ctime_ns: ns(stat.stx_ctime),
        };
        // Only what could be run is remembered, and who may run it does not change without its times changing.
        let Some(digest) = DIGESTS.lock().get(&signature).copied() else { return Ok(None) };
        let target = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
        let Signature { dev, inode, size, .. } = signature;
        let found = Resolved::Found { path: path.to_owned(), target: target.into(), dev, inode, size, digest };
        Ok(Some((found, signature)))
    }
}

/// The file that a first word means: looked for in [`EXECUTION_PATH`], or, with a slash in it, from `/`.
pub fn resolve(word: &str) -> Resolved {
    find(word).and_then(|path| describe(&path)).unwrap_or_else(|error| {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        Resolved::Missing { errno, text: io::Error::from_raw_os_error(errno).to_string() }
    })
}

/// The path of a program, as `execvp` would find it.
pub(super) fn find(word: &str) -> io::Result<PathBuf> {
    if word.contains('/') {
        let path = Path::new("/").join(word);
        return can_run(&path).map(|()| path);
    }
    if word.is_empty() {
        return Err(Errno::NOENT.into());
    }
    find_in(EXECUTION_PATH.split(':').map(Path::new), word)
}

/// Likewise, in these directories. One that may not be run is told of if there is none that may be.
fn find_in<'a>(directories: impl Iterator<Item = &'a Path>, word: &str) -> io::Result<PathBuf> {
    let mut refused = io::Error::from(Errno::NOENT);
    for directory in directories {
        let path = directory.join(word);
        match can_run(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Whether the kernel would execute it, as far as that can be told before.
fn can_run(path: &Path) -> io::Result<()> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn describe(path: &Path) -> io::Result<Resolved> {
    let target = path.canonicalize()?;
    // What is stored and shown is text.
    if path.to_str().is_none() || target.to_str().is_none() {
        return Err(Errno::ILSEQ.into());
    }
    let (signature, digest) = look_at(&target)?;
    Ok(Resolved::Found {
        path: path.to_owned(),
        target,
        dev: signature.dev,
        inode: signature.inode,
        size: signature.size,
        digest,
    })
}

/// Why a file is not the one that was shown.
#[derive(Debug)]
pub(super) enum Difference {
    /// It cannot be run at all.
    Missing(i32),
    /// It is another one, in words.
    Changed(String),
}

/// Looks at a file again. What it returns lets the keeper see, in the last instant, that it still is the one.
pub(super) fn verify(file: &Resolved) -> Result<(PathBuf, Pin), Difference> {
    let (path, dev, inode, size, digest) = match file {
        Resolved::Found { path, dev, inode, size, digest, .. } => (path, *dev, *inode, *size, digest),
        Resolved::Missing { errno, .. } => return Err(Difference::Missing(*errno)),
    };
    let changed = |what: String| Err(Difference::Changed(format!("`{}` {what}", path.display())));
    let (signature, found) = match look_at(path) {
        Ok(looked) => looked,
        Err(error) => return changed(format!("cannot be looked at any more: {error}")),
    };
    if (signature.dev, signature.inode) != (dev, inode) {
        return changed("is another file now".to_owned());
    }
    if signature.size != size || found != *digest {
        return changed("has another content now".to_owned());
    }
    Ok((path.clone(), signature.pin()))
}

/// A file's signature and digest. The digest of a file that may be executed but not read is all zeros.
fn look_at(path: &Path) -> io::Result<(Signature, [u8; 32])> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    let before = Signature::of(&metadata);
    if let Some(digest) = DIGESTS.lock().get(&before) {
        return Ok((before, *digest));
    }
    let file = match open_at_once(path) {
        Ok(file) => file,
        Err(Errno::ACCESS | Errno::PERM) => return Ok((before, [0; 32])),
        Err(errno) => return Err(errno.into()),
    };
    let digest = digest_of(&file, LONGEST_READ)?;
    let after = Signature::of(&file.metadata()?);
    if after != before {
        // Written to, or replaced, while it was read.
        return Err(Errno::STALE.into());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if is_settled(&after, now) && can_be_run_by_somebody(metadata.mode()) {
        remember(&mut DIGESTS.lock(), after, digest);
    }
    Ok((after, digest))
}

/// Opens a file that may have become something that waits for its other end since it was looked at.
fn open_at_once(path: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn can_be_run_by_somebody(mode: u32) -> bool {
    mode & 0o111 != 0
}

fn digest_of(mut file: &File, longest: Duration) -> io::Result<[u8; 32]> {
    let deadline = Instant::now() + longest;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if Instant::now() > deadline {
            return Err(Errno::FBIG.into());
        }
    }
}

/// Whether a file has not changed for a while before `now`, counted from 1970.
fn is_settled(signature: &Signature, now: Duration) -> bool {
    let last = signature.ctime_ns.max(signature.mtime_ns);
    i64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(last) > SETTLED.as_nanos() as i64
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(directory: &Path, name: &str, content: &str, mode: u32) -> String {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn errno_of(resolved: &Resolved) -> i32 {
        match resolved {
            Resolved::Missing { errno, .. } => *errno,
            Resolved::Found { path, .. } => panic!("found {path:?}"),
        }
    }

    #[test]
    fn a_name_is_looked_for_and_a_link_is_followed() {
        let Resolved::Found { path, target, size, digest, .. } = resolve("sh") else { panic!("no sh") };
        assert!(path.ends_with("sh") && EXECUTION_PATH.split(':').any(|place| path.starts_with(place)));
        assert_eq!(target, path.canonicalize().unwrap());
        assert_eq!(size, target.metadata().unwrap().len());
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(std::fs::read(&target).unwrap())));
        assert_eq!(resolve("bin/sh"), resolve("/bin/sh"), "a name with a slash is taken from the root");
    }

    #[test]
    fn what_is_told_at_once_is_what_a_look_would_tell() {
        assert!(cached::resolve("no-such-program").is_none());
        let looked = resolve("sh");
        // Unless the name has just gone from the kernel's memory, it is there now.
        let told = (0..100).find_map(|_| cached::resolve("sh")).expect("it was looked at a moment ago");
        assert_eq!(told, looked);
        assert_eq!(cached::verify(&looked).unwrap(), verify(&looked).unwrap());
        let Resolved::Found { path, target, dev, inode, size, mut digest } = looked else { panic!("no sh") };
        digest[0] ^= 1;
        assert!(cached::verify(&Resolved::Found { path, target, dev, inode, size, digest }).is_none());
        let scratch = tempfile::tempdir().unwrap();
        let word = program(scratch.path(), "fresh", "#!/bin/sh\n", 0o755);
        let fresh = resolve(&word);
        assert!(cached::resolve(&word).is_none() && cached::verify(&fresh).is_none(), "it changed a moment ago");
    }

    #[test]
    fn digests_that_are_remembered_are_few_and_of_what_has_settled() {
        let signature = |inode, mtime_ns, ctime_ns| Signature { dev: 1, inode, size: 3, mtime_ns, ctime_ns };
        let mut digests = HashMap::new();
        for inode in 0..REMEMBERED as u64 {
            remember(&mut digests, signature(inode, 0, 0), [1; 32]);
        }
        assert_eq!(digests.len(), REMEMBERED);
        remember(&mut digests, signature(u64::MAX, 0, 0), [2; 32]);
        assert_eq!(digests, HashMap::from([(signature(u64::MAX, 0, 0), [2; 32])]));
        let (now, second) = (Duration::from_secs(1_000), 1_000_000_000);
        for (mtime, ctime, settled) in [
            (997 * second, 997 * second, true),
            (998 * second - 1, 998 * second - 1, true),
            (998 * second, 0, false),
            (0, 998 * second, false),
            (999 * second, 1, false),
            (0, 2_000 * second, false),
        ] {
            assert_eq!(is_settled(&signature(1, mtime, ctime), now), settled, "{mtime} {ctime}");
        }
        for (mode, runs) in [(0o100_644, false), (0o104_000, false), (0o100_744, true), (0o100_010, true), (1, true)] {
            assert_eq!(can_be_run_by_somebody(mode), runs, "{mode:o}");
        }
    }

    #[test]
    fn what_takes_too_long_to_read_has_no_digest() {
        let endless = digest_of(&File::open("/dev/zero").unwrap(), Duration::ZERO).unwrap_err();
        assert_eq!(endless.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
        let directory = digest_of(&File::open("/").unwrap(), Duration::ZERO).unwrap_err();
        assert_eq!(directory.raw_os_error(), Some(Errno::ISDIR.raw_os_error()), "it is not tried again");
        let empty = digest_of(&File::open("/dev/null").unwrap(), Duration::ZERO).unwrap();
        assert_eq!(empty, <[u8; 32]>::from(Sha256::digest([])));
    }

    #[test]
    fn what_may_not_be_run_is_told_of_if_nothing_else_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| scratch.path().join(name));
        for directory in [&one, &two] {
            std::fs::create_dir(directory).unwrap();
        }
        let find_in = |word: &str| {
            let found = super::find_in([&one, &two, &three].into_iter().map(PathBuf::as_path), word);
            found.map_err(|error| error.raw_os_error().unwrap())
        };
        program(&one, "tool", "", 0o644);
        assert_eq!(find_in("tool"), Err(Errno::ACCESS.raw_os_error()), "and what is not there does not hide that");
        program(&two, "tool", "", 0o755);
        assert_eq!(find_in("tool"), Ok(two.join("tool")));
        program(&one, "tool", "", 0o755);
        assert_eq!(find_in("tool"), Ok(one.join("tool")), "the first one");
        assert_eq!(find_in("other"), Err(Errno::NOENT.raw_os_error()));
    }

    #[test]
    fn nobody_waits_for_the_other_end_of_what_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let pipe = scratch.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o755), 0).unwrap();
        let (told, opened) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let known = cached::resolve(pipe.to_str().unwrap());
            told.send((known, open_at_once(&pipe).is_ok()))
        });
        assert_eq!(opened.recv_timeout(Duration::from_secs(30)), Ok((None, true)));
    }

    #[test]
    fn what_cannot_be_run_says_why() {
        let scratch = tempfile::tempdir().unwrap();
        let plain = program(scratch.path(), "plain", "", 0o644);
        for (word, errno) in [
            ("", Errno::NOENT),
            ("no-such-program", Errno::NOENT),
            ("/no/such/program", Errno::NOENT),
            (plain.as_str(), Errno::ACCESS),
            (scratch.path().to_str().unwrap(), Errno::ACCESS),
            (&format!("{plain}/x"), Errno::NOTDIR),
        ] {
            assert_eq!(errno_of(&resolve(word)), errno.raw_os_error(), "{word:?}");
        }
    }

    #[test]
    fn another_file_and_another_content_are_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let word = program(scratch.path(), "tool", "#!/bin/sh\nexit 1\n", 0o755);
        let file = resolve(&word);
        let (path, pin) = verify(&file).unwrap();
        assert_eq!((path.to_str().unwrap(), pin.size), (word.as_str(), 17));
        // The same inode with other bytes.
        std::fs::write(&word, "#!/bin/sh\nexit 2\n").unwrap();
        let Err(Difference::Changed(what)) = verify(&file) else { panic!("not noticed") };
        assert!(what.ends_with("has another content now"), "{what}");
        std::fs::write(&word, "#!/bin/sh\nexit 1\n").unwrap();
        verify(&file).expect("the same bytes again");
        // Another inode with the same bytes.
        let other = program(scratch.path(), "other", "#!/bin/sh\nexit 1\n", 0o755);
        std::fs::rename(other, &word).unwrap();
        let Err(Difference::Changed(what)) = verify(&file) else { panic!("not noticed") };
        assert!(what.ends_with("is another file now"), "{what}");
        std::fs::remove_file(&word).unwrap();
        assert!(matches!(verify(&file), Err(Difference::Changed(_))));
        rustix::fs::mknodat(CWD, &word, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o755), 0).unwrap();
        assert!(matches!(verify(&file), Err(Difference::Changed(_))), "and nobody waits for its other end");
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_another_file() {
        let scratch = tempfile::tempdir().unwrap();
        let one = program(scratch.path(), "one", "#!/bin/sh\n", 0o755);
        let two = program(scratch.path(), "two", "#!/bin/sh\n", 0o755);
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let file = resolve(link.to_str().unwrap());
        assert!(
            matches!(&file, Resolved::Found { path, target, .. } if *path == link && target.to_str() == Some(&one))
        );
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&two, &link).unwrap();
        assert!(matches!(verify(&file), Err(Difference::Changed(_))));
    }

    #[test]
    fn what_cannot_be_shown_as_text_is_no_program() {
        use std::os::unix::ffi::OsStrExt as _;
        let scratch = tempfile::tempdir().unwrap();
        let strange = scratch.path().join(std::ffi::OsStr::from_bytes(b"t\xffool"));
        std::fs::write(&strange, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&strange, std::fs::Permissions::from_mode(0o755)).unwrap();
        // A good name for it does not help: what is run is what must be shown.
        let link = scratch.path().join("tool");
        std::os::unix::fs::symlink(&strange, &link).unwrap();
        assert_eq!(errno_of(&resolve(link.to_str().unwrap())), Errno::ILSEQ.raw_os_error());
        // Nor does a good file behind such a name.
        let good = program(scratch.path(), "good", "#!/bin/sh\n", 0o755);
        let to_good = scratch.path().join(std::ffi::OsStr::from_bytes(b"l\xffink"));
        std::os::unix::fs::symlink(&good, &to_good).unwrap();
        let refused = describe(&to_good).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::ILSEQ.raw_os_error()));
        assert!(matches!(resolve(&good), Resolved::Found { .. }));
    }
}
