//! Tests as whoever runs them; those that need another owner than root are skipped for others than root.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

const SOMEBODY: u32 = 4321;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The first weakness for a house of this user.
fn weakness(uid: u32, path: &Path) -> Option<(String, bool)> {
    let own = Own { uid, groups: vec![uid] };
    let found = (Walk { own: &own, devices: HashSet::new() }).walk(path).unwrap();
    found.map(|weakness| (weakness.text, weakness.by_requester))
}

/// A directory of root's on the way to which everything is root's; none if these tests are not run by root.
fn roots_directory() -> Option<tempfile::TempDir> {
    let is_root = rustix::process::geteuid().is_root();
    let directory = is_root.then(|| tempfile::tempdir().unwrap())?;
    weakness(SOMEBODY, directory.path()).is_none().then_some(directory)
}

#[test]
fn programs_of_the_system_are_roots_alone() {
    for path in ["/", "/usr/bin/env", "/bin/sh", "/etc/passwd"] {
        assert_eq!(writers_of(Path::new(path)), Writers::OnlyRoot, "{path}");
    }
    let missing = writers_of(Path::new("/no/such/file"));
    assert!(missing.reason().is_some_and(|reason| reason.starts_with("/no/such/file cannot be examined: ")));
    assert!(!Writers::default().is_only_root() && Writers::default().reason().is_some());
}

#[test]
fn owners_groups_and_everybody_are_told_apart() {
    let Some(directory) = roots_directory() else { return };
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let shown = file.display();
    for (owner, group, mode, uid, expected) in [
        (0, 0, 0o755, SOMEBODY, None),
        (0, 0, 0o4711, SOMEBODY, None),
        (SOMEBODY, 0, 0o555, SOMEBODY, Some((format!("user {SOMEBODY} owns {shown}"), true))),
        (SOMEBODY, 0, 0o555, 7, Some((format!("user {SOMEBODY} owns {shown}"), false))),
        (0, 0, 0o757, SOMEBODY, Some((format!("every user can write to {shown}"), true))),
        (0, SOMEBODY, 0o775, SOMEBODY, Some((format!("group {SOMEBODY} can write to {shown}"), true))),
        (0, 7, 0o775, SOMEBODY, Some((format!("group 7 can write to {shown}"), false))),
        (0, 7, 0o775, 0, Some((format!("group 7 can write to {shown}"), false))),
    ] {
        chown(&file, Some(owner), Some(group)).unwrap();
        set_mode(&file, mode);
        assert_eq!(weakness(uid, &file), expected, "{owner} {group} {mode:o}");
    }
}

#[test]
fn a_directory_or_a_link_on_the_way_counts() {
    let Some(directory) = roots_directory() else { return };
    let (safe, open) = (directory.path().join("safe"), directory.path().join("open"));
    for place in [&safe, &open] {
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("file"), "").unwrap();
    }
    chown(&open, Some(SOMEBODY), None).unwrap();
    let file = safe.join("file");
    assert_eq!(weakness(SOMEBODY, &file), None);
    assert_eq!(weakness(SOMEBODY, &safe.join("../safe/./file")), None);
    let owns_open = Some((format!("user {SOMEBODY} owns {}", open.display()), true));
    assert_eq!(weakness(SOMEBODY, &open.join("file")), owns_open);
    assert_eq!(weakness(SOMEBODY, &open.join("../safe/file")), owns_open, "the directory could become a link");
    // A link to a safe file that lies in a directory of somebody's, directly or behind another link.
    symlink(&file, open.join("link")).unwrap();
    symlink(open.join("link"), safe.join("link")).unwrap();
    symlink("../safe/file", safe.join("good")).unwrap();
    assert_eq!(weakness(SOMEBODY, &open.join("link")), owns_open);
    assert_eq!(weakness(SOMEBODY, &safe.join("link")), owns_open);
    assert_eq!(weakness(SOMEBODY, &safe.join("good")), None);
    symlink("loop", safe.join("loop")).unwrap();
    assert!(writers_of(&safe.join("loop")).reason().is_some_and(|reason| reason.contains("cannot be examined")));
    assert!(writers_of(&file.join("below")).reason().is_some());
}

#[test]
fn in_a_sticky_directory_the_owner_of_the_entry_counts() {
    let Some(directory) = roots_directory() else { return };
    let shared = directory.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let (own, foreign) = (shared.join("own"), shared.join("foreign"));
    std::fs::write(&own, "").unwrap();
    symlink(&own, &foreign).unwrap();
    std::os::unix::fs::lchown(&foreign, Some(SOMEBODY), None).unwrap();
    assert_eq!(weakness(SOMEBODY, &own), None);
    assert!(weakness(SOMEBODY, &foreign).is_some_and(|(text, _)| text.ends_with("shared/foreign")));
    // The directory itself: anybody can put files into it.
    assert!(weakness(SOMEBODY, &shared).is_some_and(|(text, _)| text.starts_with("every user can write to")));
    set_mode(&shared, 0o777);
    assert!(weakness(SOMEBODY, &own).is_some_and(|(text, _)| text.ends_with("/shared")));
}

#[test]
fn a_file_system_of_a_user_is_recognised() {
    let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  30 22 0:51 / /home/me/x rw,nosuid shared:1 - fuse.sshfs host:/ rw,user_id=1000,group_id=1000\n\
                  31 22 0:52 / /mnt rw - fuse.root x rw,user_id=0,group_id=0\n\
                  32 22 0:53 / / rw - virtiofs myfs rw\n";
    let device = |minor| rustix::fs::makedev(0, minor);
    assert_eq!(server_of(mounts, device(51)), Some(1000));
    for other in [device(52), device(53), device(54), rustix::fs::makedev(8, 1)] {
        assert_eq!(server_of(mounts, other), None);
    }
}
