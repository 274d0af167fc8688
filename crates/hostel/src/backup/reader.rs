//! The messages of a backup, one after the other, out of its file.

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;

use hostel_wire::backup::BackupError;
use hostel_wire::backup::Content;
use hostel_wire::backup::FRAME_PREFIX;
use hostel_wire::backup::HEADER;
use hostel_wire::backup::Header;
use hostel_wire::backup::StreamOpener;
use hostel_wire::backup::frame_length;
use zeroize::Zeroizing;

use super::FORMAT;
use super::Preface;
use super::problem;
use super::unreadable;
use crate::error::CommandError;

/// A file whose beginning is a backup's; nobody has shown a passphrase yet.
pub(super) struct Begun {
    file: BufReader<File>,
    path: PathBuf,
    header: [u8; HEADER],
    frame: Vec<u8>,
    sum: [u8; 32],
}

impl Begun {
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let file = File::open(path).map_err(|error| problem("read", path, &error))?;
        let mut file = BufReader::with_capacity(1 << 17, file);
        let mut header = [0; HEADER];
        let mut have = 0;
        // A short file is told by what it begins with, not by its length.
        while have < HEADER {
            match file.read(header.get_mut(have..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) => return Err(problem("read", path, &error)),
            }
        }
        Header::expect(header.get(..have).unwrap_or_default(), Content::House).map_err(unreadable(path))?;
        let mut begun = Begun { file, path: path.to_owned(), header, frame: Vec::new(), sum: [0; 32] };
        let mut prefix = [0; FRAME_PREFIX];
        begun.exact(&mut prefix)?;
        let length = frame_length(prefix).map_err(unreadable(path))?;
        let mut frame = vec![0; FRAME_PREFIX + length];
        let (head, rest) = frame.split_at_mut(FRAME_PREFIX);
        head.copy_from_slice(&prefix);
        begun.exact(rest)?;
        begun.frame = frame;
        let mut sum = [0; 32];
        begun.exact(&mut sum)?;
        begun.sum = sum;
        Ok(begun)
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), CommandError> {
        exact(&mut self.file, &self.path, bytes)
    }

    /// Goes on with a passphrase.
    pub(super) fn unlock(self, passphrase: &[u8]) -> Result<(Reader, Preface), CommandError> {
        let opened = StreamOpener::begin(Content::House, passphrase, &self.header, &self.frame, &self.sum);
        let (opener, first) = opened.map_err(unreadable(&self.path))?;
        let odd = |_| unreadable(&self.path)(BackupError::Damaged("its beginning makes no sense"));
        let preface: Preface = serde_json::from_slice(&first).map_err(odd)?;
        if preface.format > FORMAT {
            let what = format!("`{}` was made by a later version of this program", self.path.display());
            return Err(CommandError::failure(what).hint("use that one"));
        }
        Ok((Reader { file: self.file, path: self.path, opener }, preface))
    }
}

/// The messages after the first.
pub(super) struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    opener: StreamOpener,
}

impl Reader {
    /// The next message; none after the last one, if it really is the last.
    pub(super) fn next(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, CommandError> {
        if self.opener.is_over() {
            let mut more = [0];
            let left = self.file.read(&mut more).map_err(|error| problem("read", &self.path, &error))?;
            return match left {
                0 => Ok(None),
                _ => Err(self.damaged("there is more after its end")),
            };
        }
        let mut prefix = [0; FRAME_PREFIX];
        exact(&mut self.file, &self.path, &mut prefix)?;
        let length = frame_length(prefix).map_err(unreadable(&self.path))?;
        let mut sealed = vec![0; length];
        exact(&mut self.file, &self.path, &mut sealed)?;
        self.opener.next(&sealed).map(Some).map_err(unreadable(&self.path))
    }

    pub(super) fn damaged(&self, what: &'static str) -> CommandError {
        unreadable(&self.path)(BackupError::Damaged(what))
    }
}

fn exact(file: &mut BufReader<File>, path: &Path, bytes: &mut [u8]) -> Result<(), CommandError> {
    file.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => unreadable(path)(BackupError::Damaged("its end is missing")),
        _ => problem("read", path, &error),
    })
}
