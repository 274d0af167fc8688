//! Where the files of services are; writing and removing them.
//!
//! Invariant: a file is replaced whole, and replaced or removed only if we wrote it. For the machine's services, whose
//! directory is open to several users, the user it runs as is compared as well.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::Scope;
use super::cli::Kind;
use super::cli::Where;
use super::plist;
use super::unit::Unit;
use crate::broker::place::replace;
use crate::mesh::failure::Failure;

/// Where systemd looks for the machine's own units.
const SYSTEM: &str = "/etc/systemd/system";

/// The most of a unit file that is read.
const LIMIT: u64 = 64 << 10;

/// How a unit of ours begins, and what stands in a line of a property list of ours.
const OURS: &str = "# Written by `";
const OUR_LIST: &str = "\n<!-- Written by `";

/// The directory of the supervisor's files.
pub(crate) fn directory(kind: Kind, scope: Scope) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || {
        variable("HOME").ok_or_else(|| {
            Failure::daemon(1, "no_home", "HOME is not set")
                .hint("set it, or say where the file shall be with `--dir DIR`")
        })
    };
    Ok(match (kind, scope) {
        (Kind::Launchd, Scope::User) => home()?.join("Library/LaunchAgents"),
        (Kind::Launchd, Scope::System) => "/Library/LaunchDaemons".into(),
        (_, Scope::System) => SYSTEM.into(),
        (_, Scope::User) => match variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute()) {
            Some(config) => config.join("systemd/user"),
            None => home()?.join(".config/systemd/user"),
        },
    })
}

/// The file of a unit.
pub(crate) fn file(unit: &Unit, kind: Kind, place: &Where) -> Result<PathBuf, Failure> {
    let directory = match &place.dir {
        Some(directory) => directory.clone(),
        None => directory(kind, unit.scope)?,
    };
    Ok(directory.join(match kind {
        Kind::Launchd => unit.plist_name(),
        _ => unit.file_name(),
    }))
}

/// What stands in that file.
pub(crate) fn text(unit: &Unit, kind: Kind) -> Result<String, Failure> {
    match kind {
        Kind::Launchd => Ok(unit.launchd()),
        _ => unit.systemd(),
    }
}

/// Writes the file of a unit.
pub(crate) fn write(unit: &Unit, kind: Kind, path: &Path) -> Result<(), Failure> {
    let text = text(unit, kind)?;
    check_ours(unit, kind, path)?;
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| replace(path, text.as_bytes(), 0o644)).map_err(|error| cannot("write", path, &error))
}

/// Refuses to touch a file that we did not write, or wrote for another user.
pub(crate) fn check_ours(unit: &Unit, kind: Kind, path: &Path) -> Result<(), Failure> {
    let Some(there) = read(path)? else { return Ok(()) };
    let ours = match kind {
        Kind::Launchd => there.contains(OUR_LIST) && list_user_of(&there) == unit.user.as_deref().map(plist::escaped),
        _ => there.starts_with(OURS) && user_of(&there) == unit.user.as_deref(),
    };
    match ours {
        true => Ok(()),
        false => Err(Failure::daemon(1, "exists", format!("`{}` is there and somebody else's", path.display()))
            .hint("look at it, and move it away if nobody needs it")),
    }
}

/// Removes the file of a unit; false if there is none.
pub(crate) fn remove(path: &Path) -> Result<bool, Failure> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(cannot("remove", path, &error)),
    }
}

/// Whether a unit file was written by us for these directories: another set of them may have a mesh of the same name.
pub(crate) fn is_of(unit: &Unit, path: &Path) -> Result<bool, Failure> {
    let ours = unit.systemd()?;
    let there = read(path)?.unwrap_or_default();
    Ok(there.starts_with(OURS)
        && user_of(&there) == unit.user.as_deref()
        && writable_of(&there).is_some()
        && writable_of(&there) == writable_of(&ours))
}

/// Whether a unit is installed: as this user's, else as the machine's for this user.
pub(crate) fn installed(user: &Unit, system: &Unit) -> Option<Scope> {
    let there = |unit: &Unit, scope| {
        let path = directory(Kind::Systemd, scope).ok()?.join(unit.file_name());
        let text = read(&path).ok()??;
        (scope == Scope::User || user_of(&text) == unit.user.as_deref()).then_some(scope)
    };
    there(user, Scope::User).or_else(|| there(system, Scope::System))
}

/// Refuses to touch the machine's services without being root.
pub(crate) fn check_rights(place: &Where) -> Result<(), Failure> {
    if place.system && place.dir.is_none() && !rustix::process::geteuid().is_root() {
        return Err(Failure::daemon(1, "not_root", "a service of the machine takes root")
            .hint("try it with `sudo --preserve-env=HOME,HOSTEL_HOME`, or without `--system`"));
    }
    Ok(())
}

/// Who owns a directory, by name if there is one: a service of the machine runs as that user.
pub(crate) fn owner_of(path: &Path) -> Result<String, Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let uid = path.metadata().map_err(|error| cannot("look at", path, &error))?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    Ok(name.unwrap_or(uid))
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    use std::io::Read as _;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot("read", path, &error)),
    };
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes).map_err(|error| cannot("read", path, &error))?;
    // What is no text is nothing of ours.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn user_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("User="))
}

fn list_user_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<key>UserName</key>")?;
    let (_, rest) = rest.split_once("<string>")?;
    rest.split_once("</string>").map(|(user, _)| user.to_owned())
}

fn writable_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("ReadWritePaths="))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::daemon(1, "io", format!("cannot {what} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::unit::tests::sample;
    use super::*;

    #[test]
    fn only_what_is_ours_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Where { dir: Some(scratch.path().join("a/b")), ..Where::default() };
        let unit = sample(Scope::User);
        let path = file(&unit, Kind::Systemd, &place).unwrap();
        assert_eq!(path, scratch.path().join("a/b/claudemesh-daemon-lab.service"));
        write(&unit, Kind::Systemd, &path).unwrap();
        write(&unit, Kind::Systemd, &path).unwrap();
        assert!(is_of(&unit, &path).unwrap());
        assert!(!is_of(&sample(Scope::System), &path).unwrap());
        let elsewhere = super::super::unit::Confinement::Daemon { memory: 1 << 28, writable: vec!["/other".into()] };
        assert!(!is_of(&Unit { confinement: elsewhere, ..unit.clone() }, &path).unwrap());
        // The same name for another user, and a file of somebody's own.
        assert_eq!(write(&sample(Scope::System), Kind::Systemd, &path).unwrap_err().word(), "exists");
        std::fs::write(&path, "[Unit]\n").unwrap();
        assert_eq!(write(&unit, Kind::Systemd, &path).unwrap_err().word(), "exists");
        assert!(!is_of(&unit, &path).unwrap());
        assert_eq!(check_ours(&unit, Kind::Systemd, &path).unwrap_err().word(), "exists");
        assert!(remove(&path).unwrap());
        assert!(!remove(&path).unwrap());
        check_ours(&unit, Kind::Systemd, &path).unwrap();
    }

    #[test]
    fn a_property_list_is_replaced_and_removed_if_it_is_ours() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Where { dir: Some(scratch.path().to_owned()), ..Where::default() };
        for scope in [Scope::User, Scope::System] {
            let unit = sample(scope);
            let path = file(&unit, Kind::Launchd, &place).unwrap();
            write(&unit, Kind::Launchd, &path).unwrap();
            write(&unit, Kind::Launchd, &path).unwrap();
            let other = Unit { user: Some("a&b".to_owned()), scope: Scope::System, ..unit.clone() };
            assert_eq!(write(&other, Kind::Launchd, &path).unwrap_err().word(), "exists");
            std::fs::remove_file(&path).unwrap();
            write(&other, Kind::Launchd, &path).unwrap();
            check_ours(&other, Kind::Launchd, &path).unwrap();
            assert_eq!(check_ours(&unit, Kind::Launchd, &path).unwrap_err().word(), "exists");
            // One of somebody's own, which need not even be text.
            std::fs::write(&path, b"bplist00\xd1\x01\x02").unwrap();
            assert_eq!(write(&unit, Kind::Launchd, &path).unwrap_err().word(), "exists");
            assert_eq!(check_ours(&unit, Kind::Launchd, &path).unwrap_err().word(), "exists");
            assert!(remove(&path).unwrap());
        }
    }
}
