//! A session's token in a file that only its owner can read, and that is gone with the session.
//!
//! Invariant: the token is made here, is never printed, and stands nowhere else on disk. The file has a directory of its
//! own, which the guard of the session's agent shows. What a killed command left is removed by the next one; its token is
//! dead by then.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use hostel_wire::encoding::hex;
use hostel_wire::random;
use zeroize::Zeroizing;

use crate::mesh::failure::Failure;
use crate::paths;

/// Files that are looked at for what was left behind.
const LEFT: usize = 1024;

pub(super) struct Token {
    text: Zeroizing<String>,
    file: PathBuf,
    path: String,
}

impl Token {
    /// A new one, in a folder of its own.
    pub(super) fn make(folder: &Path, name: &str) -> Result<Self, Failure> {
        paths::private_directory(folder)?;
        sweep(folder);
        let text = Zeroizing::new(hex(&*Zeroizing::new(random::bytes::<32>())));
        // Never a path that was in use before: the house may still have the session that was led to it.
        let own = folder.join(format!("{name}-{}-{}", hex(&random::bytes::<8>()), std::process::id()));
        paths::private_directory(&own)?;
        let file = own.join("token");
        let cannot = |error: std::io::Error| Failure::io(format!("cannot write `{}`: {error}", file.display()));
        let path = file.to_str().map(str::to_owned);
        let path = path.ok_or_else(|| Failure::io(format!("`{}` is not UTF-8", file.display())))?;
        let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).map_err(cannot)?;
        written.write_all(text.as_bytes()).and_then(|()| written.write_all(b"\n")).map_err(cannot)?;
        Ok(Token { text, file, path })
    }

    pub(super) fn text(&self) -> &Zeroizing<String> {
        &self.text
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // One that is gone already is gone.
        std::fs::remove_file(&self.file).ok();
        if let Some(own) = self.file.parent() {
            std::fs::remove_dir(own).ok();
        }
    }
}

/// Removes what killed commands have left.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(LEFT) {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.rsplit_once('-')).and_then(|(_, pid)| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_lies_in_a_private_file_and_goes_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("launch");
        let token = Token::make(&folder, "review").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let file = PathBuf::from(token.path());
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.trim_end(), token.text().as_str());
        assert_eq!(text.trim_end().len(), 64);
        // What was left behind goes, what is in use stays.
        let left = folder.join(format!("old-{}", u32::MAX));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("token"), "").unwrap();
        let another = Token::make(&folder, "review").unwrap();
        assert!(!left.exists() && file.exists());
        assert_ne!(another.text(), token.text());
        assert_ne!(another.path(), token.path());
        drop(token);
        assert!(!file.parent().unwrap().exists());
    }
}
