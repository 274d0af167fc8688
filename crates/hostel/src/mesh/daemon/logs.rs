//! `daemon logs`: the last lines of a daemon's log, and on demand those that come.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::io::Seek as _;
use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::log::older;
use crate::mesh::Desk;
use crate::mesh::cli::Logs;
use crate::mesh::failure::Failure;
use crate::text;

/// How often it is looked for new lines.
const LOOK: Duration = Duration::from_millis(100);

/// The most of the end of a file that is looked through for lines.
const TAIL: u64 = 8 << 20;

/// The most that is read at once while following.
const STEP: u64 = 1 << 20;

pub(super) async fn run(desk: &Desk<'_>, arguments: &Logs) -> Result<ExitCode, Failure> {
    let mesh = desk.host.slug(desk.mesh.as_deref())?;
    let path = desk.host.dir(&mesh).log();
    let problem = |error: io::Error| Failure::io(format!("cannot read `{}`: {error}", path.display())).with_exit(1);
    let (lines, mut place) = match tail(&path, arguments.lines) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::daemon(1, "no_log", format!("there is no log of `{mesh}`"))
                .hint("start its daemon with `claudemesh daemon up`"));
        }
        Err(error) => return Err(problem(error)),
    };
    for line in &lines {
        desk.ui.line(&text::plain_json(line))?;
    }
    if !arguments.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        tokio::time::sleep(LOOK).await;
        for line in place.more(&path).map_err(problem)? {
            desk.ui.line(&text::plain_json(&line))?;
        }
    }
}

/// How far a log was read. The file is held open: one that is turned over meanwhile, twice even, is still read to its
/// end.
struct Reading {
    file: File,
    inode: u64,
    /// A line that has not ended yet.
    rest: Vec<u8>,
}

/// The last lines of a log, from its predecessor too if it holds too few.
fn tail(path: &Path, count: usize) -> io::Result<(Vec<String>, Reading)> {
    let (text, reading) = end_of(path)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() < count
        && let Ok((before, _)) = end_of(&older(path))
    {
        let mut all: Vec<String> = before.lines().map(str::to_owned).collect();
        all.append(&mut lines);
        lines = all;
    }
    let surplus = lines.len().saturating_sub(count);
    lines.drain(..surplus);
    Ok((lines, reading))
}

fn end_of(path: &Path) -> io::Result<(String, Reading)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let start = metadata.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    (&file).take(TAIL).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
    let offset = start + end as u64;
    bytes.truncate(end);
    // The first line may have been cut.
    let begin =
        if start > 0 { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |position| position + 1) } else { 0 };
    let text = String::from_utf8_lossy(bytes.get(begin..).unwrap_or_default()).into_owned();
    file.seek(SeekFrom::Start(offset))?;
    Ok((text, Reading { file, inode: metadata.ino(), rest: Vec::new() }))
}

impl Reading {
    /// Whole lines that came since; files that were turned over meanwhile come first.
    fn more(&mut self, path: &Path) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let current = match File::open(path) {
            Ok(file) => file,
            // Just being turned over: it will be there at the next look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(lines),
            Err(error) => return Err(error),
        };
        let inode = current.metadata()?.ino();
        self.read(&mut lines)?;
        if inode != self.inode {
            // What was written between the last look and the turn.
            self.read(&mut lines)?;
            let before = File::open(older(path)).ok();
            let before = before.and_then(|file| Some((file.metadata().ok()?.ino(), file)));
            if let Some((between, file)) = before.filter(|(between, _)| ![self.inode, inode].contains(between)) {
                *self = Reading { file, inode: between, rest: Vec::new() };
                self.read(&mut lines)?;
            }
            *self = Reading { file: current, inode, rest: Vec::new() };
            self.read(&mut lines)?;
        }
        Ok(lines)
    }

    /// Everything that is there, piece by piece.
    fn read(&mut self, lines: &mut Vec<String>) -> io::Result<()> {
        loop {
            let count = (&self.file).take(STEP).read_to_end(&mut self.rest)?;
            let mut whole = self.rest.split_inclusive(|byte| *byte == b'\n').peekable();
            let mut taken = 0;
            while let Some(line) = whole.next_if(|line| line.ends_with(b"\n")) {
                taken += line.len();
                lines.push(String::from_utf8_lossy(line.get(..line.len() - 1).unwrap_or_default()).into_owned());
            }
            self.rest.drain(..taken);
            if count == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_are_followed_across_a_turn() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.log");
        std::fs::write(older(&path), "0\n").unwrap();
        std::fs::write(&path, "1\n2\n3").unwrap();
        let (lines, mut reading) = tail(&path, 3).unwrap();
        assert_eq!(lines, ["0", "1", "2"]);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "3\n4").unwrap();
        assert_eq!(reading.more(&path).unwrap(), ["33", "4"]);
        writeln!(file, "5").unwrap();
        std::fs::rename(&path, older(&path)).unwrap();
        std::fs::write(&path, "6\n").unwrap();
        assert_eq!(reading.more(&path).unwrap(), ["5", "6"]);
        assert!(reading.more(&path).unwrap().is_empty());
        assert_eq!(tail(&path, 1).unwrap().0, ["6"]);
        // Turned over twice between two looks: the file in between is read as well.
        for line in ["7\n", "8\n"] {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(line.as_bytes()).unwrap();
            std::fs::rename(&path, older(&path)).unwrap();
        }
        std::fs::write(&path, "9\n").unwrap();
        assert_eq!(reading.more(&path).unwrap(), ["7", "8", "9"]);
    }
}
