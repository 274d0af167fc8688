//! The approver's passphrase on its way to the house: typed without being seen, or read from a descriptor.
//!
//! Invariant: it is never printed, logged or kept longer than the call that needs it, and its memory is wiped. The
//! terminal is put back as it was, whatever the person does.

use std::fs::File;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::io::Write as _;

use rustix::process::DumpableBehavior;
use rustix::termios::LocalModes;
use rustix::termios::OptionalActions;
use rustix::termios::QueueSelector;
use rustix::termios::SpecialCodeIndex;
use rustix::termios::Termios;
use serde::Serialize;
use serde::Serializer;
use zeroize::Zeroize as _;
use zeroize::Zeroizing;

use crate::error::CommandError;
use crate::ui;

/// The longest passphrase that is read, in bytes.
const LONGEST: usize = 1024;

/// The shortest one of the approver's that may be set, in characters: whoever guesses at it is stopped after a few.
const SHORTEST: usize = 8;

/// The shortest one that a backup may be made with: whoever has a copy of it may guess for years.
const SHORTEST_FOR_BACKUP: usize = 12;

/// A passphrase. It does not print.
pub(crate) struct Passphrase(Zeroizing<String>);

impl Passphrase {
    pub(crate) fn new(text: String) -> Self {
        Passphrase(Zeroizing::new(text))
    }

    /// What a key is made from.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is good enough to be set, with at least so many characters.
    fn check_new(&self, shortest: usize) -> Result<(), CommandError> {
        if self.0.is_empty() {
            return Err(CommandError::usage("the passphrase is empty"));
        }
        if self.0.chars().count() < shortest {
            return Err(CommandError::usage(format!("the passphrase has fewer than {shortest} characters"))
                .hint("several words are easy to remember and hard to guess"));
        }
        Ok(())
    }

    fn check_given(self) -> Result<Self, CommandError> {
        if self.is_empty() { Err(CommandError::usage("the passphrase is empty")) } else { Ok(self) }
    }

    fn same(&self, other: &Passphrase) -> bool {
        *self.0 == *other.0
    }
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Passphrase(hidden)")
    }
}

/// Only ever into a request to the house.
impl Serialize for Passphrase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// From now on the memory of this program is in no core file, and other programs of the user cannot read it. Fails where
/// one can all the same.
pub(crate) fn keep_memory_private() -> Result<(), CommandError> {
    // Whether it had an effect is looked at.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
    check_memory_private()
}

/// Refuses to read a passphrase that another program of the user could read as well. A tracer that was there before the
/// memory was hidden stays.
pub(crate) fn check_memory_private() -> Result<(), CommandError> {
    let refused = |what: &str| {
        CommandError::failure(format!("no passphrase is asked for: {what}, and that could read it"))
            .hint("end the tracer (a debugger, `strace`) and run this again, in another terminal if need be")
    };
    if hostel_keeper::is_traced(std::process::id()) {
        return Err(refused("another program traces this one"));
    }
    match rustix::process::dumpable_behavior() {
        Ok(DumpableBehavior::NotDumpable | DumpableBehavior::DumpableReadableOnlyByRoot) => Ok(()),
        _ => Err(refused("other programs can trace this one")),
    }
}

/// From the descriptor if there is one, else from the terminal.
pub(crate) fn obtain(descriptor: Option<u32>, question: &str) -> Result<Passphrase, CommandError> {
    let given = match descriptor {
        Some(descriptor) => from_descriptor(descriptor)?,
        None => return Terminal::open()?.ask_given(question),
    };
    given.check_given()
}

/// A new one of the approver's: from the descriptor, or typed twice.
pub(crate) fn obtain_new(descriptor: Option<u32>) -> Result<Passphrase, CommandError> {
    new_for(descriptor, "New passphrase of the approver: ", SHORTEST)
}

/// A new one for the backup that the question names: from the descriptor, or typed twice.
pub(crate) fn obtain_for_backup(descriptor: Option<u32>, question: &str) -> Result<Passphrase, CommandError> {
    new_for(descriptor, question, SHORTEST_FOR_BACKUP)
}

fn new_for(descriptor: Option<u32>, question: &str, shortest: usize) -> Result<Passphrase, CommandError> {
    let Some(descriptor) = descriptor else {
        let mut terminal = Terminal::open()?;
        let given = terminal.ask(question)?;
        given.check_new(shortest)?;
        return match terminal.ask("The same again: ")?.same(&given) {
            true => Ok(given),
            false => Err(CommandError::failure("the two are not the same; nothing was changed")),
        };
    };
    let given = from_descriptor(descriptor)?;
    given.check_new(shortest)?;
    Ok(given)
}

/// What a descriptor holds, up to the end of its first line.
fn from_descriptor(descriptor: u32) -> Result<Passphrase, CommandError> {
    keep_memory_private()?;
    let problem = |error: &dyn std::fmt::Display| {
        CommandError::failure(format!("cannot read the passphrase from descriptor {descriptor}: {error}"))
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 2));
    let limit = LONGEST as u64 + 2;
    match descriptor {
        0 => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        other => File::open(format!("/proc/self/fd/{other}")).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    }
    .map_err(|error| problem(&error))?;
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = bytes.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LONGEST {
        return Err(problem(&format!("it is longer than {LONGEST} bytes")));
    }
    let text = std::str::from_utf8(line).map_err(|_| problem(&"it is not UTF-8"))?;
    Ok(Passphrase::new(text.to_owned()))
}

fn cannot_ask(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failure(format!("cannot ask for the passphrase: {error}"))
}

/// The terminal of this program, without echo for as long as this lives.
pub(crate) struct Terminal {
    file: File,
    before: Termios,
}

impl Terminal {
    pub(crate) fn open() -> Result<Self, CommandError> {
        keep_memory_private()?;
        let none = |error: &dyn std::fmt::Display| cannot_ask(error).hint("give it with `--passphrase-fd N`");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .map_err(|_| none(&"this program has no terminal"))?;
        let before = rustix::termios::tcgetattr(&file).map_err(|error| none(&error))?;
        let mut quiet = before.clone();
        // Signals come as bytes too: one that ended us would leave the terminal without echo.
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed before the question is no answer to it.
        rustix::termios::tcsetattr(&file, OptionalActions::Flush, &quiet).map_err(|error| none(&error))?;
        Ok(Terminal { file, before })
    }

    /// Columns of the terminal.
    pub(crate) fn columns(&self) -> usize {
        self.size().0
    }

    fn size(&self) -> (usize, usize) {
        let (columns, rows) = ui::screen_size(&self.file).unwrap_or((80, 24));
        (columns.max(20), rows)
    }

    /// Writes lines that fit the columns. What does not fit on the screen is shown in parts, each after a key.
    pub(crate) fn show(&mut self, lines: &[String]) -> Result<(), CommandError> {
        // The question after the last part takes rows as well.
        let (_, rows) = self.size();
        let parts: Vec<_> = lines.chunks(rows.saturating_sub(4).max(4)).collect();
        for (position, part) in parts.iter().enumerate() {
            self.write(&(part.join("\n") + "\n"))?;
            if position + 1 < parts.len() {
                self.forget();
                self.write(&format!("page {} of {}: Space shows the next, q leaves ", position + 1, parts.len()))?;
                while !matches!(self.key()?, Some(b' ' | b'\r' | b'\n')) {}
                self.write("\n")?;
            }
        }
        self.forget();
        Ok(())
    }

    /// Asks a question that is answered by one key; whether that was `y`.
    pub(crate) fn confirms(&mut self, question: &str) -> Result<bool, CommandError> {
        self.write(question)?;
        let key = self.key()?;
        self.write("\n")?;
        Ok(matches!(key, Some(b'y' | b'Y')))
    }

    /// A key; none if it says nothing here. `q`, Esc, Ctrl-C and a terminal that is gone end the command.
    fn key(&mut self) -> Result<Option<u8>, CommandError> {
        let mut byte = [0];
        let read = self.file.read(&mut byte).map_err(|error| cannot_ask(&error))?;
        match (read, byte[0]) {
            (0, _) | (_, 0x03 | 0x04 | 0x1b | b'q') => {
                self.write("\n")?;
                Err(CommandError::failure("nothing was changed"))
            }
            (_, key) => Ok(Some(key)),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), CommandError> {
        self.file.write_all(text.as_bytes()).map_err(|error| cannot_ask(&error))
    }

    /// What was typed before the question is no answer to it.
    fn forget(&self) {
        rustix::termios::tcflush(&self.file, QueueSelector::IFlush).unwrap_or_default();
    }

    /// A passphrase that is not empty.
    pub(crate) fn ask_given(&mut self, question: &str) -> Result<Passphrase, CommandError> {
        self.ask(question)?.check_given()
    }

    fn ask(&mut self, question: &str) -> Result<Passphrase, CommandError> {
        let failed = |error: std::io::Error| cannot_ask(&error);
        self.file.write_all(question.as_bytes()).map_err(failed)?;
        let mut typed = Zeroizing::new(Vec::with_capacity(LONGEST));
        let outcome = loop {
            let mut byte = [0];
            let read = self.file.read(&mut byte).map_err(failed)?;
            match (read, byte[0]) {
                (0, _) | (_, 0x03 | 0x1b) => break Err(CommandError::failure("nothing was changed")),
                (_, b'\n' | b'\r' | 0x04) => break Ok(()),
                (_, 0x15) => typed.zeroize(),
                (_, 0x08 | 0x7f) => {
                    // A character may be several bytes.
                    while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                (_, byte) if typed.len() < LONGEST => typed.push(byte),
                _ => break Err(CommandError::failure(format!("the passphrase is longer than {LONGEST} bytes"))),
            }
        };
        self.file.write_all(b"\n").map_err(failed)?;
        outcome?;
        let text = std::str::from_utf8(&typed).map_err(|_| CommandError::failure("the passphrase is not UTF-8"))?;
        Ok(Passphrase::new(text.to_owned()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        rustix::termios::tcsetattr(&self.file, OptionalActions::Flush, &self.before).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_who_reads_one_is_private() {
        use std::io::Seek as _;
        use std::os::fd::AsRawFd as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"several words\n").unwrap();
        file.rewind().unwrap();
        let given = obtain(Some(file.as_raw_fd() as u32), "").unwrap();
        assert!(given.same(&Passphrase::new("several words".to_owned())));
        let behaviour = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(behaviour, DumpableBehavior::NotDumpable);
    }

    #[test]
    fn short_and_empty_ones_are_refused_and_none_is_printed() {
        let check = |text: &str, shortest| {
            Passphrase::new(text.to_owned()).check_new(shortest).map_err(|error| error.to_string())
        };
        assert_eq!(check("", SHORTEST), Err("the passphrase is empty".to_owned()));
        assert!(check("seven77", SHORTEST).unwrap_err().starts_with("the passphrase has fewer than 8 characters; "));
        assert_eq!(check("eight888", SHORTEST), Ok(()));
        let eleven = check("grüßegrüßeg", SHORTEST_FOR_BACKUP).unwrap_err();
        assert!(eleven.starts_with("the passphrase has fewer than 12 characters; "), "{eleven}");
        assert_eq!(check("grüßegrüßegr", SHORTEST_FOR_BACKUP), Ok(()));
        assert_eq!(format!("{:?}", Passphrase::new("secret".to_owned())), "Passphrase(hidden)");
    }
}
