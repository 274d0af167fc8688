//! Other paths to the same directory: a file system that is mounted twice shows what is hidden in one place in the other.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The mounts of this process.
pub(super) struct MountTable(Vec<Mount>);

struct Mount {
    /// `MAJOR:MINOR` of the file system.
    device: Vec<u8>,
    /// Which directory of the file system is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

impl MountTable {
    /// Reads `mountinfo`. Lines that make no sense are passed over.
    pub(super) fn parse(text: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            Some(Mount { device: fields.next()?.to_vec(), root: path(fields.next()?), point: path(fields.next()?) })
        };
        MountTable(text.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// Every other path that leads to a directory, which is given without symbolic links.
    pub(super) fn aliases(&self, directory: &Path) -> Vec<PathBuf> {
        // Of several mounts at one point the last covers the others.
        let holds = |mount: &&Mount| directory.starts_with(&mount.point);
        let Some(home) = self.0.iter().filter(holds).max_by_key(|mount| mount.point.components().count()) else {
            return Vec::new();
        };
        let Ok(inside) = directory.strip_prefix(&home.point) else { return Vec::new() };
        let on_device = join(&home.root, inside);
        let same = self.0.iter().filter(|mount| mount.device == home.device);
        let other = |mount: &Mount| Some(join(&mount.point, on_device.strip_prefix(&mount.root).ok()?));
        let mut found: Vec<PathBuf> = same.filter_map(other).filter(|alias| alias != directory).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Joining an empty path would add a slash.
fn join(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

/// A path of the table: space, tab, newline and backslash are written as three octal digits.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 8:2 / /home rw - ext4 /dev/sda2 rw
31 22 8:2 /ada /srv/with\\040space rw - ext4 /dev/sda2 rw
32 22 8:2 /bob /srv/bob rw - ext4 /dev/sda2 rw
33 22 8:1 / /mnt/root rw - ext4 /dev/sda1 rw
nonsense
";

    #[test]
    fn a_directory_is_found_wherever_its_file_system_is_mounted() {
        let table = MountTable::parse(TABLE.as_bytes());
        let aliases = |path: &str| table.aliases(Path::new(path));
        assert_eq!(aliases("/home/ada/.hostel"), [PathBuf::from("/srv/with space/.hostel")]);
        assert_eq!(aliases("/home/ada"), [PathBuf::from("/srv/with space")]);
        assert_eq!(aliases("/home/eve/.hostel"), [] as [PathBuf; 0]);
        assert_eq!(aliases("/var/lib/x"), [PathBuf::from("/mnt/root/var/lib/x")]);
        assert_eq!(aliases("/mnt/root/var"), [PathBuf::from("/var")]);
        assert!(MountTable::parse(b"").aliases(Path::new("/x")).is_empty());
    }
}
