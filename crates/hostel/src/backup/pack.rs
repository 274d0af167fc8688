//! `hostel backup`: everything durable of a house and its meshes, sealed as it is read.
//!
//! Invariant: the file is 0600 and whole, or not there. The house may run meanwhile.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::BufWriter;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use hostel_mesh::home::Memberships;
use hostel_store::snapshot;
use hostel_wire::Clock;
use hostel_wire::backup::Content;
use hostel_wire::backup::Cost;
use hostel_wire::backup::StreamSealer;
use hostel_wire::backup::records::End;
use hostel_wire::backup::records::Item;
use hostel_wire::backup::records::PIECE;
use hostel_wire::backup::records::Record;
use hostel_wire::backup::records::Sum;
use hostel_wire::encoding::hex;
use hostel_wire::iso;
use serde_json::json;
use sha2::Digest as _;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::FORMAT;
use super::HOUSE;
use super::MEMBERSHIP;
use super::MESHES;
use super::Preface;
use super::cli::Backup;
use super::leftovers;
use super::meter::Meter;
use super::problem;
use super::source;
use super::source::Kind;
use super::source::Thing;
use super::unreadable;
use crate::commands::Context;
use crate::error::CommandError;
use crate::inbox::passphrase;
use crate::mesh::host::Host;
use crate::text;

/// How many things that were left out are named to people.
const NAMED: usize = 20;

/// `hostel backup`.
pub(crate) fn run(context: &Context<'_>, arguments: &Backup) -> Result<ExitCode, CommandError> {
    let (ui, home) = (context.ui, &context.home);
    if !home.is_dir() {
        return Err(CommandError::failure(format!("there is no house in `{}`", home.display()))
            .hint("say where it is with `--home DIR`"));
    }
    let out = std::path::absolute(&arguments.out).map_err(|error| problem("write", &arguments.out, &error))?;
    let draft = Draft::create(&out)?;
    let passphrase =
        passphrase::obtain_for_backup(arguments.passphrase_fd, "Passphrase for the backup of this house: ")?;
    let preface = Preface {
        format: FORMAT,
        made_at: iso(Clock::system().now_ms()),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let first = serde_json::to_vec(&preface).map_err(|error| problem("write", &out, &error))?;
    let begun = StreamSealer::begin(Content::House, Cost::default(), passphrase.as_bytes(), &first);
    let (sealer, bytes) = begun.map_err(unreadable(&out))?;
    drop(passphrase);
    leftovers::sweep(
        home,
        ".backup-",
        &Scratch::FILES.map(|ending| [".db", ending].concat()).each_ref().map(String::as_str),
    );
    let scratch = home.join(format!(".backup-{}.db", std::process::id()));
    let mut pack = Pack {
        out: BufWriter::with_capacity(1 << 17, draft.file.try_clone().map_err(|error| problem("write", &out, &error))?),
        sealer,
        sum: Sum::default(),
        meter: Meter::new(ui, "backing up"),
        scratch: Scratch(scratch),
        path: out.clone(),
        left: Vec::new(),
    };
    pack.write(&bytes)?;
    // What is written here and now is no part of the house.
    let except = |path: &Path| path == out || path == draft.path;
    pack.all_of(home, HOUSE, &except)?;
    let meshes = take_meshes(&mut pack, &except)?;
    let (sum, left) = pack.finish()?;
    draft.keep(&out)?;
    if ui.json() {
        let size = fs::metadata(&out).map_or(0, |metadata| metadata.len());
        ui.data(&json!({
            "ok": true, "path": out, "files": sum.files, "bytes": sum.bytes, "size": size, "meshes": meshes,
            "left_out": left.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(&format!(
        "backup of `{}`: {} files, {}, in {}",
        home.display(),
        sum.files,
        text::size(sum.bytes),
        out.display()
    ))?;
    if !meshes.is_empty() {
        ui.line(&format!("meshes: {}", meshes.join(", ")))?;
    }
    for path in left.iter().take(NAMED) {
        ui.note(&format!("not in it, for it is no file or too deep: `{}`", path.display()));
    }
    if left.len() > NAMED {
        ui.note(&format!("and {} more; `--json` names all", left.len() - NAMED));
    }
    ui.note("databases are as they were at one moment, journals at least as far; tokens and logs are not in it");
    Ok(ExitCode::SUCCESS)
}

/// Every mesh that is joined: its entry, and what its daemon keeps.
fn take_meshes(pack: &mut Pack, except: &dyn Fn(&Path) -> bool) -> Result<Vec<String>, CommandError> {
    let Ok(host) = Host::quiet() else { return Ok(Vec::new()) };
    let mut taken = Vec::new();
    for joined in host.meshes().map_err(CommandError::from)? {
        let mesh = joined.slug;
        let entry =
            || Memberships::entry(host.places(), &mesh).map_err(|error| CommandError::failure(error.to_string()));
        let Some(before) = entry()? else { continue };
        let dir = host.dir(&mesh);
        let prefix = format!("{MESHES}/{mesh}");
        pack.all_of(dir.path(), &prefix, except)?;
        // Read after the files: if a key is changed meanwhile, the newer one is here.
        let entry = entry()?.unwrap_or(before);
        let text = Zeroizing::new(serde_json::to_vec(&entry).map_err(|error| problem("read", dir.path(), &error))?);
        pack.bytes(&format!("{prefix}/{MEMBERSHIP}"), 0o600, &text)?;
        taken.push(mesh);
    }
    Ok(taken)
}

struct Pack {
    out: BufWriter<File>,
    sealer: StreamSealer,
    sum: Sum,
    meter: Meter,
    scratch: Scratch,
    path: PathBuf,
    /// What could not be taken.
    left: Vec<PathBuf>,
}

impl Pack {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.out.write_all(bytes).map_err(|error| problem("write", &self.path, &error))
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), CommandError> {
        let plain = record.to_bytes().map(Zeroizing::new);
        let plain = plain.ok_or_else(|| problem("write", &self.path, &"a name in the house is too long"))?;
        let sealed = self.sealer.next(&plain);
        self.write(&sealed)
    }

    /// Everything below a directory.
    fn all_of(&mut self, root: &Path, prefix: &str, except: &dyn Fn(&Path) -> bool) -> Result<(), CommandError> {
        let found = source::things(root, prefix, except).map_err(|error| problem("look through", root, &error))?;
        self.left.extend(found.left);
        found.things.iter().try_for_each(|thing| self.take(thing))
    }

    fn take(&mut self, thing: &Thing) -> Result<(), CommandError> {
        let item = || Item { path: thing.path.clone(), mode: thing.mode };
        match thing.kind {
            Kind::Directory => self.record(&Record::Directory(item())),
            Kind::File => match File::open(&thing.from) {
                Ok(file) => self.file(item(), file, &thing.from),
                // Journals and files that are over are removed all the time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(problem("read", &thing.from, &error)),
            },
            Kind::Database => {
                let scratch = self.scratch.0.clone();
                self.scratch.clear();
                snapshot(&thing.from, &scratch).map_err(|error| {
                    problem("copy", &thing.from, &error).hint("no backup was written").hint(
                        "if the file is damaged: `hostel mesh daemon recover` for a mesh's, an earlier backup for others",
                    )
                })?;
                let file = File::open(&scratch).map_err(|error| problem("read", &scratch, &error))?;
                let taken = self.file(item(), file, &thing.from);
                self.scratch.clear();
                taken
            }
        }
    }

    /// A file as far as it is now.
    fn file(&mut self, item: Item, file: File, from: &Path) -> Result<(), CommandError> {
        let failed = |error: io::Error| problem("read", from, &error);
        let length = file.metadata().map_err(failed)?.len();
        let mut file = file.take(length);
        self.record(&Record::File(item))?;
        let (mut hash, mut size) = (Sha256::new(), 0_u64);
        let mut piece = Zeroizing::new(vec![0; PIECE]);
        loop {
            let read = fill(&mut file, &mut piece).map_err(failed)?;
            let bytes = piece.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            hash.update(bytes);
            size += read as u64;
            self.record(&Record::Data(bytes))?;
            self.meter.add(read);
        }
        self.end(size, &hash.finalize())
    }

    fn bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), CommandError> {
        self.record(&Record::File(Item { path: path.to_owned(), mode }))?;
        for piece in bytes.chunks(PIECE) {
            self.record(&Record::Data(piece))?;
        }
        self.end(bytes.len() as u64, &Sha256::digest(bytes))
    }

    fn end(&mut self, size: u64, digest: &[u8]) -> Result<(), CommandError> {
        self.sum.files += 1;
        self.sum.bytes += size;
        self.record(&Record::End(End { size, sha256: hex(digest) }))
    }

    fn finish(self) -> Result<(Sum, Vec<PathBuf>), CommandError> {
        let Pack { mut out, sealer, sum, path, left, .. } = self;
        let last = Record::Sum(sum.clone()).to_bytes().unwrap_or_default();
        let written = out.write_all(&sealer.finish(&last)).and_then(|()| out.flush());
        written.map_err(|error| problem("write", &path, &error))?;
        Ok((sum, left))
    }
}

/// Reads until a piece is full or the file ends.
fn fill(file: &mut impl io::Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The copy of one database at a time, in the house itself: it is not encrypted.
struct Scratch(PathBuf);

impl Scratch {
    const FILES: [&'static str; 4] = ["", "-wal", "-shm", "-journal"];

    fn clear(&self) {
        for suffix in Self::FILES {
            let mut name = self.0.as_os_str().to_owned();
            name.push(suffix);
            fs::remove_file(name).ok();
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The file under another name until it is whole; gone with this value unless it was kept.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn create(out: &Path) -> Result<Self, CommandError> {
        let name = out.file_name().filter(|_| !out.is_dir()).ok_or_else(|| problem("write", out, &"it is no file"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".");
        if let (Some(directory), Some(beginning)) = (out.parent(), hidden.to_str()) {
            leftovers::sweep(directory, beginning, &[""]);
        }
        hidden.push(std::process::id().to_string());
        let path = out.with_file_name(hidden);
        fs::remove_file(&path).ok();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| problem("write", out, &error))?;
        Ok(Draft { path, file })
    }

    fn keep(self, out: &Path) -> Result<(), CommandError> {
        let kept = || {
            self.file.sync_all()?;
            fs::rename(&self.path, out)?;
            match out.parent() {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        };
        kept().map_err(|error| problem("write", out, &error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}
