//! `hostel restore`: a house and its meshes out of a backup.
//!
//! Invariant: everything is written beside its place, read to the end and compared with its digests before anything
//! moves; a backup that is damaged or cut off changes nothing. A house or a mesh that runs is not touched; one that is
//! there is kept under another name, and only if that was asked for. The broker's logs get new epochs, so that members
//! notice and send again what the copy does not have.

use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use hostel_mesh::home::Membership;
use hostel_mesh::home::Memberships;
use hostel_mesh::home::MeshDir;
use hostel_mesh::home::backup::keep_keys_of;
use hostel_mesh::home::files;
use hostel_wire::Clock;
use hostel_wire::backup::records::Item;
use hostel_wire::backup::records::Record;
use hostel_wire::backup::records::Sum;
use hostel_wire::encoding::hex;
use serde_json::Value;
use serde_json::json;
use sha2::Digest as _;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::HOUSE;
use super::MEMBERSHIP;
use super::MESHES;
use super::cli::Restore;
use super::leftovers;
use super::meter::Meter;
use super::problem;
use super::reader::Begun;
use super::reader::Reader;
use crate::commands::Context;
use crate::daemon::lock::DaemonLock;
use crate::error::CommandError;
use crate::inbox::passphrase;
use crate::mesh::host::Host;
use crate::paths::HouseDir;
use crate::text;

/// What the name of a directory has before the number of the process that fills it.
const RESTORING: &str = ".restoring-";

/// `hostel restore`.
pub(crate) fn run(context: &Context<'_>, arguments: &Restore) -> Result<ExitCode, CommandError> {
    let (ui, home) = (context.ui, context.home.as_path());
    let begun = Begun::open(&arguments.source.input)?;
    stopped(home)?;
    let empty = is_empty(home)?;
    if !empty && !arguments.force {
        return Err(CommandError::failure(format!("there is a house in `{}` already", home.display()))
            .hint("`--force` puts the backup in its place; what is there is kept beside it")
            .hint("or restore it elsewhere with `--home DIR`"));
    }
    let passphrase = passphrase::obtain(arguments.source.passphrase_fd, "Passphrase of the backup: ")?;
    let (reader, preface) = begun.unlock(passphrase.as_bytes())?;
    drop(passphrase);
    let host = Host::quiet().ok().filter(|_| !arguments.no_meshes);
    let now_ms = Clock::system().now_ms();
    let stage = Stage::make(home, host.as_ref())?;
    let sum = unpack(reader, &stage, Meter::new(ui, "restoring"))?;
    let coming = coming(&stage)?;
    let meshes: Vec<String> = coming.iter().map(|mesh| mesh.membership.slug.clone()).collect();
    if let Some(host) = &host {
        for mesh in &coming {
            may_replace(host, &mesh.membership.slug, arguments.force)?;
            mesh.keep_keys(host, now_ms)?;
        }
    }
    renew_broker(&stage.house)?;
    stage.sync()?;
    // Reading may have taken long: somebody may have started it meanwhile.
    stopped(home)?;
    // From here on it only moves.
    let mut kept = Vec::new();
    place_house(home, &stage.house, empty, now_ms, &mut kept)?;
    if let Some(host) = &host {
        for mesh in &coming {
            mesh.place(host, now_ms, &mut kept)?;
        }
    }
    drop(stage);
    if ui.json() {
        ui.data(&json!({
            "ok": true, "home": home, "files": sum.files, "bytes": sum.bytes, "meshes": meshes,
            "made_at": preface.made_at, "kept": kept,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(&format!(
        "`{}` is as it was on {}: {} files, {}",
        home.display(),
        text::printable(&preface.made_at),
        sum.files,
        text::size(sum.bytes)
    ))?;
    if !meshes.is_empty() {
        ui.line(&format!("meshes: {}", meshes.join(", ")))?;
        ui.note("another machine that still uses these identities has to stop: a mesh takes one of them at a time");
    }
    for path in kept {
        ui.note(&format!("what was here is kept as `{}`", path.display()));
    }
    ui.note("start it with `hostel up`, and see that nothing is missing with `hostel audit verify`");
    Ok(ExitCode::SUCCESS)
}

/// Refuses while anything of the house runs.
fn stopped(home: &Path) -> Result<(), CommandError> {
    let mut roots = vec![home.to_owned()];
    for entry in fs::read_dir(home.join("as")).into_iter().flatten().flatten() {
        roots.push(entry.path());
    }
    let locks = roots.iter().flat_map(|root| {
        let dir = HouseDir::at(root.clone());
        [dir.daemon_lock(), dir.run().join(hostel_keeper::LOCK_NAME), root.join("broker/pid")]
    });
    for lock in locks.filter(|lock| lock.exists()) {
        if DaemonLock::is_held(&lock).map_err(|error| problem("look at", &lock, &error))? {
            return Err(CommandError::failure(format!("the house in `{}` is up", home.display()))
                .hint("end it with `hostel down`"));
        }
    }
    Ok(())
}

fn is_empty(home: &Path) -> Result<bool, CommandError> {
    match fs::read_dir(home) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(problem("look into", home, &error)),
    }
}

/// Whether a mesh may be put where it belongs.
fn may_replace(host: &Host, mesh: &str, force: bool) -> Result<(), CommandError> {
    if host.locks(mesh).iter().any(|lock| DaemonLock::is_held(lock).unwrap_or_default()) {
        return Err(CommandError::failure(format!("the daemon of the mesh `{mesh}` runs"))
            .hint(format!("stop it with `hostel mesh daemon down --mesh {mesh}`")));
    }
    let joined = host.meshes().map_err(CommandError::from)?.iter().any(|joined| joined.slug == mesh);
    if !force && (joined || host.dir(mesh).keypair().exists()) {
        return Err(CommandError::failure(format!("this user already has an identity in the mesh `{mesh}`"))
            .hint("`--force` puts the backup in its place; what is there is kept beside it"));
    }
    Ok(())
}

/// Where things are until all of them are there; gone with this value, except what was moved.
struct Stage {
    house: PathBuf,
    /// On the file system where meshes belong.
    meshes: Option<PathBuf>,
}

impl Stage {
    fn make(home: &Path, host: Option<&Host>) -> Result<Self, CommandError> {
        let name = home.file_name().ok_or_else(|| problem("restore", home, &"it has no name"))?;
        let mut draft = std::ffi::OsString::from(".");
        draft.push(name);
        draft.push(RESTORING);
        if let (Some(parent), Some(beginning)) = (home.parent(), draft.to_str()) {
            leftovers::sweep(parent, beginning, &[""]);
        }
        draft.push(std::process::id().to_string());
        let house = home.with_file_name(draft);
        let meshes = host.map(|host| {
            let root = host.places().daemon_root();
            leftovers::sweep(root, RESTORING, &[""]);
            root.join(format!("{RESTORING}{}", std::process::id()))
        });
        let stage = Stage { house, meshes };
        stage.clear();
        for directory in std::iter::once(&stage.house).chain(&stage.meshes) {
            private(directory)?;
        }
        Ok(stage)
    }

    /// Where something of the archive is put; none for meshes where there is no place for them.
    fn place(&self, path: &str) -> Option<PathBuf> {
        match path.split_once('/') {
            Some((HOUSE, rest)) => Some(self.house.join(rest)),
            Some((MESHES, rest)) => self.meshes.as_ref().map(|meshes| meshes.join(rest)),
            _ => None,
        }
    }

    /// The meshes that have come, each with a slug that can be one.
    fn meshes(&self) -> Result<Vec<String>, CommandError> {
        let Some(root) = &self.meshes else { return Ok(Vec::new()) };
        let entries = fs::read_dir(root).map_err(|error| problem("look into", root, &error))?;
        let mut slugs: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        slugs.retain(|slug| hostel_wire::topic::is_mesh_slug(slug));
        slugs.sort();
        Ok(slugs)
    }

    /// Has everything on the disk, names too, before any of it gets the name it is to have.
    fn sync(&self) -> Result<(), CommandError> {
        for directory in std::iter::once(&self.house).chain(&self.meshes) {
            sync_below(directory).map_err(|error| problem("write", directory, &error))?;
        }
        Ok(())
    }

    fn clear(&self) {
        for directory in std::iter::once(&self.house).chain(&self.meshes) {
            fs::remove_dir_all(directory).ok();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Directories alone: each file was synced when it was written.
fn sync_below(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_below(&entry.path())?;
        }
    }
    File::open(directory)?.sync_all()
}

/// After something in a directory was given another name.
fn sync_parent(path: &Path) -> Result<(), CommandError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|error| problem("write", parent, &error))
}

fn private(directory: &Path) -> Result<(), CommandError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| problem("make", directory, &error))
}

/// A file that is being written.
struct Open {
    file: Option<File>,
    path: PathBuf,
    hash: Sha256,
    size: u64,
}

fn unpack(mut reader: Reader, stage: &Stage, mut meter: Meter) -> Result<Sum, CommandError> {
    let mut seen = Sum::default();
    let mut open: Option<Open> = None;
    let mut told = None;
    while let Some(message) = reader.next()? {
        let record = Record::parse(&message).map_err(|error| CommandError::failure(error.to_string()))?;
        match (record, open.take()) {
            (Record::Directory(item), None) => directory(stage, &item)?,
            (Record::File(item), None) => open = Some(create(stage, &item)?),
            (Record::Data(bytes), Some(mut writing)) => {
                if let Some(file) = &mut writing.file {
                    file.write_all(bytes).map_err(|error| problem("write", &writing.path, &error))?;
                }
                writing.hash.update(bytes);
                writing.size += bytes.len() as u64;
                meter.add(bytes.len());
                open = Some(writing);
            }
            (Record::End(end), Some(writing)) => {
                if end.size != writing.size || end.sha256 != hex(&writing.hash.finalize()) {
                    return Err(reader.damaged("a file in it is not what it was"));
                }
                if let Some(file) = &writing.file {
                    file.sync_all().map_err(|error| problem("write", &writing.path, &error))?;
                }
                seen.files += 1;
                seen.bytes += writing.size;
            }
            (Record::Sum(sum), None) => told = Some(sum),
            _ => return Err(reader.damaged("its pieces are not in order")),
        }
    }
    match told {
        Some(told) if told == seen => Ok(seen),
        _ => Err(reader.damaged("some of its files are missing")),
    }
}

fn directory(stage: &Stage, item: &Item) -> Result<(), CommandError> {
    let Some(path) = stage.place(&item.path) else { return Ok(()) };
    private(&path)
}

fn create(stage: &Stage, item: &Item) -> Result<Open, CommandError> {
    let Some(path) = stage.place(&item.path) else {
        return Ok(Open { file: None, path: PathBuf::from(&item.path), hash: Sha256::new(), size: 0 });
    };
    if let Some(parent) = path.parent() {
        private(parent)?;
    }
    // A second file of the same name is refused: nothing of ours has two.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| problem("write", &path, &error))?;
    let mode = fs::Permissions::from_mode((item.mode & 0o755) | 0o600);
    file.set_permissions(mode).map_err(|error| problem("write", &path, &error))?;
    Ok(Open { file: Some(file), path, hash: Sha256::new(), size: 0 })
}

/// Members must notice that the broker's logs are those of another time.
fn renew_broker(house: &Path) -> Result<(), CommandError> {
    let database = house.join("broker/broker.db");
    if !database.exists() {
        return Ok(());
    }
    hostel_broker::engine::renew_epochs(&database).map(drop).map_err(|error| problem("change", &database, &error))
}

fn before(path: &Path, now_ms: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".before-{now_ms}"));
    PathBuf::from(name)
}

fn place_house(
    home: &Path,
    staged: &Path,
    empty: bool,
    now_ms: u64,
    kept: &mut Vec<PathBuf>,
) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        problem("move the house to", home, &error)
            .hint("a directory that is a mount of its own cannot be replaced: use `--home DIR`")
    };
    if home.exists() {
        match empty {
            true => fs::remove_dir(home).map_err(failed)?,
            false => {
                let before = before(home, now_ms);
                fs::rename(home, &before).map_err(failed)?;
                kept.push(before);
            }
        }
    }
    fs::rename(staged, home).map_err(failed)?;
    sync_parent(home)
}

/// A mesh that came with the backup, and makes sense.
struct Coming {
    staged: MeshDir,
    entry: Value,
    membership: Membership,
}

/// Every mesh of the backup, looked at before anything moves.
fn coming(stage: &Stage) -> Result<Vec<Coming>, CommandError> {
    let Some(root) = &stage.meshes else { return Ok(Vec::new()) };
    let mut coming = Vec::new();
    for mesh in stage.meshes()? {
        let staged = root.join(&mesh);
        let file = staged.join(MEMBERSHIP);
        let text = files::read_bounded(&file, 1 << 20).map_err(|error| problem("read", &file, &error))?;
        let entry = text.map(Zeroizing::new).and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let read = entry.and_then(|entry| Some((Memberships::parse(&entry).ok()?, entry)));
        let Some((membership, entry)) = read.filter(|(membership, _)| membership.slug == mesh) else {
            let odd = format!("the membership of the mesh `{mesh}` in it makes no sense; nothing was changed");
            return Err(CommandError::failure(odd).hint("restore the house alone with `--no-meshes`"));
        };
        fs::remove_file(&file).map_err(|error| problem("remove", &file, &error))?;
        coming.push(Coming { staged: MeshDir::at(staged), entry, membership });
    }
    Ok(coming)
}

impl Coming {
    /// Keys that the same member has had here since open what is still on its way to them.
    fn keep_keys(&self, host: &Host, now_ms: u64) -> Result<(), CommandError> {
        keep_keys_of(host.places(), &self.membership, &self.staged, now_ms)
            .map_err(|error| CommandError::failure(error.to_string()))
    }

    fn place(&self, host: &Host, now_ms: u64, kept: &mut Vec<PathBuf>) -> Result<(), CommandError> {
        let mesh = &self.membership.slug;
        let (staged, place) = (self.staged.path(), host.dir(mesh).path().to_owned());
        if place.exists() {
            let old = place.with_file_name(format!(".{mesh}.before-{now_ms}"));
            fs::rename(&place, &old).map_err(|error| problem("move", &place, &error))?;
            kept.push(old);
        }
        fs::rename(staged, &place).map_err(|error| problem("move", staged, &error))?;
        sync_parent(&place)?;
        // Last: until it stands there, nothing of the directory is used.
        Memberships::put_entry(host.places(), &self.entry).map_err(|error| CommandError::failure(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use hostel_wire::keys::SecretKey;

    use super::*;

    fn stage(root: &Path) -> Stage {
        let stage = Stage { house: root.join("house"), meshes: Some(root.join("meshes")) };
        private(&stage.house).unwrap();
        stage
    }

    fn entry(slug: &str) -> Value {
        let key = SecretKey::generate();
        json!({
            "meshId": "m1", "memberId": "u1", "slug": slug, "name": slug, "pubkey": key.public().hex(),
            "secretKey": key.to_hex().as_str(), "brokerUrl": "ws://127.0.0.1:1/ws", "joinedAt": "",
        })
    }

    #[test]
    fn every_mesh_is_looked_at_before_anything_moves() {
        let scratch = tempfile::tempdir().unwrap();
        let stage = stage(scratch.path());
        let put = |slug: &str, text: &str| {
            let directory = scratch.path().join("meshes").join(slug);
            private(&directory).unwrap();
            fs::write(directory.join(MEMBERSHIP), text).unwrap();
        };
        put("lab", &entry("lab").to_string());
        put("office", &entry("office").to_string());
        let slugs = |coming: Vec<Coming>| coming.into_iter().map(|one| one.membership.slug).collect::<Vec<_>>();
        assert_eq!(slugs(coming(&stage).unwrap()), ["lab", "office"]);
        stage.sync().unwrap();
        put("lab", &entry("lab").to_string());
        for odd in ["", "{}", "{", &entry("lab").to_string()] {
            put("office", odd);
            let said = coming(&stage).map(slugs).unwrap_err().to_string();
            assert!(said.contains("`office`") && said.contains("nothing was changed"), "{said}");
            put("lab", &entry("lab").to_string());
        }
    }
}
