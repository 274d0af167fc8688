//! Files that come with a prompt.
//!
//! Invariant: a file is stored once per session, under its own hash, readable by nobody else; what a client calls it
//! never becomes part of a path. Nothing is stored of a request that is refused.

use std::fs;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use hostel_syncpoint::points;
use serde_json::Value;
use serde_json::json;
use sha2::Digest as _;
use sha2::Sha256;

use super::code;
use super::identity::hex;
use super::params::Params;
use crate::rpc::Failure;

/// Bytes of one file.
const FILE_LIMIT: u64 = 10 << 20;

/// Bytes of all files of one request.
const REQUEST_LIMIT: usize = 20 << 20;

/// Files of one request.
const COUNT_LIMIT: usize = 64;

/// Endings of pictures, for files without a type.
const PICTURES: [&str; 7] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "svg"];

/// A file that was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    content: Content,
    name: String,
    picture: bool,
}

#[derive(Debug)]
enum Content {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

/// A file that is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What the prompt says of it.
    pub(crate) marker: String,
    hash: String,
    path: PathBuf,
    size: usize,
    deduplicated: bool,
}

impl Stored {
    /// As it is answered.
    pub(crate) fn describe(&self) -> Value {
        json!({
            "ref_id": format!("sha256:{}", self.hash),
            "marker": self.marker,
            "workspace_path": self.path.display().to_string(),
            "size_bytes": self.size,
            "deduplicated": self.deduplicated,
        })
    }
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(code::PARAMS, message)
}

/// Reads what is asked for. Paths are for clients that share the daemon's files.
pub(crate) fn wanted(entries: &[Value], local: bool) -> Result<Vec<Wanted>, Failure> {
    if entries.len() > COUNT_LIMIT {
        return Err(bad(format!("{} files, at most {COUNT_LIMIT} are taken at once", entries.len())));
    }
    entries.iter().map(|entry| Params::of(entry, "an attachment").and_then(|entry| want(&entry, local))).collect()
}

fn want(entry: &Params, local: bool) -> Result<Wanted, Failure> {
    if !matches!(entry.text("source")?, None | Some("file" | "clipboard")) {
        return Err(bad("`source` is neither `file` nor `clipboard`"));
    }
    let filename = entry.text("filename")?;
    let (content, from_path) = match (entry.text("path")?, entry.text("data_b64")?) {
        (Some(_), Some(_)) | (None, None) => return Err(bad("an attachment has either `path` or `data_b64`")),
        (Some(_), None) if !local => {
            return Err(bad("`path` is for clients on the same machine, outside the house; send `data_b64`"));
        }
        (Some(path), None) if !path.starts_with('/') => return Err(bad(format!("`{path}` is not an absolute path"))),
        (Some(path), None) => (Content::Path(PathBuf::from(path)), Path::new(path).file_name()),
        (None, Some(data)) => {
            let bytes = base64_simd::STANDARD.decode_to_vec(data).map_err(|_| bad("`data_b64` is not base64"))?;
            (Content::Bytes(bytes), None)
        }
    };
    let name = clean_name(filename.or_else(|| from_path.and_then(|name| name.to_str())).unwrap_or_default());
    let picture = match entry.text("mime_type")? {
        Some(kind) => kind.starts_with("image/"),
        None => ending(&name).is_some_and(|ending| PICTURES.contains(&ending.as_str())),
    };
    Ok(Wanted { content, name, picture })
}

/// The last part of a name, without anything that could break a line of the prompt.
fn clean_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|character| !character.is_control()).take(200).collect();
    if clean.trim().is_empty() { "attachment".to_owned() } else { clean }
}

/// A short, harmless ending, so that whoever opens the file knows what it is.
fn ending(name: &str) -> Option<String> {
    let ending = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    (ending.len() <= 8 && ending.chars().all(|character| character.is_ascii_alphanumeric())).then_some(ending)
}

/// Reads and stores files in a session's directory; blocks. Nothing is stored unless everything can be read.
pub(crate) fn store(wanted: Vec<Wanted>, directory: &Path) -> Result<Vec<Stored>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut total = 0;
    let mut read = Vec::with_capacity(wanted.len());
    for file in wanted {
        let bytes = match file.content {
            Content::Bytes(bytes) => bytes,
            Content::Path(path) => {
                read_file(&path).map_err(|error| bad(format!("cannot read `{}`: {error}", path.display())))?
            }
        };
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(bad(format!("`{}` has {} bytes, {FILE_LIMIT} are allowed", file.name, bytes.len())));
        }
        total += bytes.len();
        if total > REQUEST_LIMIT {
            return Err(bad(format!("the files have more than {REQUEST_LIMIT} bytes together")));
        }
        read.push((file.name, file.picture, bytes));
    }
    let failed = |error: io::Error| Failure::new(code::INTERNAL, format!("cannot keep an attachment: {error}"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    read.iter().map(|(name, picture, bytes)| keep(directory, name, *picture, bytes).map_err(failed)).collect()
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // A named pipe must not hold us up before it is known to be one.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn keep(directory: &Path, name: &str, picture: bool, bytes: &[u8]) -> io::Result<Stored> {
    let hash = hex(&Sha256::digest(bytes));
    let known = find(directory, &hash, bytes.len())?;
    let deduplicated = known.is_some();
    let path = match known {
        Some(path) => path,
        None => {
            let file = ending(name).map_or_else(|| hash.clone(), |ending| format!("{hash}.{ending}"));
            let path = directory.join(file);
            let half = directory.join(format!(".{}", uuid::Uuid::new_v4()));
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?.write_all(bytes)?;
            points::ATTACHMENT_STORED.reach_if_ok(fs::rename(&half, &path))?;
            path
        }
    };
    let marker = match picture {
        true => format!("[IMAGE:{}]", path.display()),
        false => format!("[Document: {name}] {}", path.display()),
    };
    Ok(Stored { marker, hash, path, size: bytes.len(), deduplicated })
}

/// A stored file of that hash, whatever its ending.
fn find(directory: &Path, hash: &str, size: usize) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let same = Path::new(&entry.file_name()).file_stem().is_some_and(|stem| stem == hash);
        if same && entry.metadata()?.len() == size as u64 {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// The directory of a session's files. Ids that are no plain words are hashed: they may be any text.
pub(crate) fn directory(data_dir: &Path, session: &str) -> PathBuf {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let name = match !session.is_empty() && session.len() <= 100 && session.chars().all(plain) {
        true => session.to_owned(),
        false => format!("sha256-{}", hex(&Sha256::digest(session.as_bytes()))),
    };
    data_dir.join("uploads").join(name)
}

/// A prompt and the lines its files add.
pub(crate) fn with_markers(prompt: &str, files: &[Stored]) -> String {
    files.iter().fold(prompt.to_owned(), |mut text, file| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&file.marker);
        text
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn take(entries: &Value, local: bool, directory: &Path) -> Result<Vec<Stored>, Failure> {
        store(wanted(entries.as_array().unwrap(), local)?, directory)
    }

    #[test]
    fn a_file_is_kept_once_under_its_hash() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), "s");
        let source = root.path().join("notes.TXT");
        fs::write(&source, "hello").unwrap();
        let entries = json!([
            {"path": source, "mimeType": "text/plain"},
            {"data_b64": "aGVsbG8=", "filename": "../x/again.md"},
            {"dataB64": "AAEC", "filename": "p.PNG"},
        ]);
        let stored = take(&entries, true, &directory).unwrap();
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let path = directory.join(format!("{hash}.txt"));
        assert_eq!(stored[0].marker, format!("[Document: notes.TXT] {}", path.display()));
        assert_eq!(stored[1].marker, format!("[Document: again.md] {}", path.display()));
        assert!(!stored[0].deduplicated && stored[1].deduplicated);
        assert!(stored[2].marker.starts_with("[IMAGE:/") && stored[2].marker.ends_with(".png]"));
        assert_eq!(stored[0].describe()["ref_id"], format!("sha256:{hash}"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        assert_eq!(with_markers("see", &stored[..1]), format!("see\n{}", stored[0].marker));
        assert_eq!(with_markers("", &stored[..1]), stored[0].marker);
    }

    #[test]
    fn what_cannot_be_taken_is_refused_and_nothing_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), "s");
        let big = root.path().join("big");
        fs::write(&big, vec![0; (10 << 20) + 1]).unwrap();
        let half = root.path().join("half");
        fs::write(&half, vec![0; 9 << 20]).unwrap();
        for (entries, local) in [
            (json!([{}]), true),
            (json!([1]), true),
            (json!([{"path": "/etc/hostname", "data_b64": ""}]), true),
            (json!([{"path": "relative"}]), true),
            (json!([{"path": "/nonexistent/file"}]), true),
            (json!([{"path": root.path()}]), true),
            (json!([{"path": big}]), true),
            (json!([{"path": half}, {"path": half}, {"path": half}]), true),
            (json!([{"path": half}]), false),
            (json!([{"data_b64": "*"}]), true),
            (json!([{"data_b64": "aGk"}]), true),
            (json!([{"data_b64": "", "source": "elsewhere"}]), true),
            (json!([{"data_b64": "", "dataB64": "AA=="}]), true),
        ] {
            assert_eq!(take(&entries, local, &directory).unwrap_err().code, code::PARAMS, "{entries}");
        }
        assert!(!directory.exists());
    }

    #[test]
    fn any_id_stays_below_the_uploads() {
        let root = Path::new("/d");
        assert_eq!(directory(root, "a-b_1"), Path::new("/d/uploads/a-b_1"));
        for id in ["", "..", "a/b", "ä", &"x".repeat(101)] {
            let path = directory(root, id);
            assert_eq!(path.parent(), Some(Path::new("/d/uploads")));
            assert!(path.file_name().unwrap().to_str().unwrap().starts_with("sha256-"), "{id}");
        }
    }

    #[test]
    fn names_cannot_break_the_prompt() {
        assert_eq!(clean_name("a\nb/c\u{7}d.txt"), "cd.txt");
        assert_eq!(clean_name("C:\\x\\y.doc"), "y.doc");
        assert_eq!(clean_name("/"), "attachment");
        assert_eq!(ending("x.tar.gz").as_deref(), Some("gz"));
        assert_eq!((ending("x"), ending("x.a b"), ending("x.verylongending")), (None, None, None));
    }
}
