//! File modes as text, in the ten-or-more character form the claustrum contract prints.
//!
//! The text starts with every type and attribute letter that applies, in a fixed order (a single `-` when none
//! does), followed by nine permission letters. Set-id and sticky bits are letters of their own in front and never
//! change the permission letters, which is where this form differs from `ls`.

use rustix::fs::{FileType, Mode, RawMode};

const PERMISSIONS: &[u8; 9] = b"rwxrwxrwx";

/// The text for a raw `st_mode` value.
pub fn mode_text(raw: RawMode) -> String {
    let file_type = FileType::from_raw_mode(raw);
    let mode = Mode::from_raw_mode(raw);
    // The order of this list is the order of the letters.
    let letters = [
        ('d', file_type == FileType::Directory),
        ('L', file_type == FileType::Symlink),
        ('D', matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice)),
        ('p', file_type == FileType::Fifo),
        ('S', file_type == FileType::Socket),
        ('u', mode.contains(Mode::SUID)),
        ('g', mode.contains(Mode::SGID)),
        ('c', file_type == FileType::CharacterDevice),
        ('t', mode.contains(Mode::SVTX)),
    ];
    let mut text: String = letters.iter().filter(|(_, applies)| *applies).map(|(letter, _)| *letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in PERMISSIONS.iter().enumerate() {
        let set = raw & (1 << (8 - index)) != 0;
        text.push(if set { char::from(*letter) } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::mode_text;

    #[test]
    fn every_letter_in_its_place() {
        for (raw, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o100_000, "----------"),
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o104_755, "urwxr-xr-x"),
            (0o106_755, "ugrwxr-xr-x"),
            (0o042_755, "dgrwxr-xr-x"),
            (0o020_666, "Dcrw-rw-rw-"),
            (0o060_660, "Drw-rw----"),
            (0o010_644, "prw-r--r--"),
            (0o140_755, "Srwxr-xr-x"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o101_600, "trw-------"),
        ] {
            assert_eq!(mode_text(raw), text, "{raw:o}");
        }
    }
}
