//! The name of a process inside a house, and the name of its journal file.
//!
//! An id is 16 random bytes, never anything a client chose, so a file name made of it cannot leave the journal folder.
//! It carries no meaning and is never reused.

use std::fmt;
use std::io;
use std::str::FromStr;

/// The 16 random bytes that name one process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub [u8; 16]);

/// Returned when a text is not an id of 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a process id is 32 lower-case hexadecimal digits")]
pub struct ParseIdError;

const FILE_SUFFIX: &str = ".j";

impl ProcessId {
    /// A fresh id from the kernel's random source.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other("no random source"),
        })?;
        Ok(Self(bytes))
    }

    /// The name of this process's journal inside the journal folder.
    pub fn file_name(&self) -> String {
        format!("{self}{FILE_SUFFIX}")
    }

    /// The id in a journal's file name, or none if the name is not one of ours.
    pub fn from_file_name(name: &[u8]) -> Option<Self> {
        let hex = name.strip_suffix(FILE_SUFFIX.as_bytes())?;
        std::str::from_utf8(hex).ok()?.parse().ok()
    }

    /// The half of the id that every block header repeats.
    pub(crate) fn low(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProcessId({self})")
    }
}

impl FromStr for ProcessId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(ParseIdError);
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let &[high, low] = pair else {
                return Err(ParseIdError);
            };
            *byte = digit(high)? << 4 | digit(low)?;
        }
        Ok(Self(bytes))
    }
}

fn digit(character: u8) -> Result<u8, ParseIdError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(ParseIdError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_file_name_round_trip() {
        let id = ProcessId::random().unwrap();
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(ProcessId::from_file_name(id.file_name().as_bytes()), Some(id));
        assert_ne!(id, ProcessId::random().unwrap());
    }

    #[test]
    fn only_the_exact_spelling_is_an_id() {
        let good = "00ff00ff00ff00ff00ff00ff00ff00ff";
        assert_eq!(good.parse(), Ok(ProcessId([0, 255].repeat(8).try_into().unwrap())));
        for bad in ["", "00", &good.to_uppercase(), &good[1..], "../../../../../../../../../etc/"] {
            assert_eq!(bad.parse::<ProcessId>(), Err(ParseIdError), "{bad}");
        }
        for bad in ["", ".j", "x.j", &format!("{good}.k"), &format!("{good}.j~")] {
            assert_eq!(ProcessId::from_file_name(bad.as_bytes()), None, "{bad}");
        }
    }
}
