//! Foreign text for people who decide: every string becomes marks that look like nothing else.
//!
//! Invariant: what is painted holds printable ASCII, letters of a short list and our own visible escapes, so nothing
//! foreign steers a terminal, changes its direction, hides, or joins what stands beside it. Different strings are
//! painted differently: a string can be read back from what is painted.
//!
//! It knows no screen: [`rows`] breaks marks to a width, [`text`] writes them out, and whoever paints gives each [`Tone`] a
//! style of its own.

use std::fmt::Write as _;

/// Letters beyond ASCII that are painted as they are: those of European languages in Latin script that look like no
/// other letter. Everything else is spelled out, so that no Cyrillic `а` passes for a Latin `a`.
const LETTERS: &str = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïñòóôõöøùúûüýþÿĀāĂăĄąĆćĊċČčĎďĐđĒēĖėĘęĚěĞğĠġĢģĦħĪī\
                       ĮįĶķĹĺĻļĽľŁłŃńŅņŇňŌōŐőŒœŔŕŘřŚśŞşŠšŢţŤťŪūŮůŰűŲųŴŵŶŷŸŹźŻżŽž";

/// Signs that texts for people hold besides letters.
const SIGNS: &str = "¡¢£¥§©«®°±²³¶·»¼½¾¿×÷–—‘’‚“”„†•…€™←↑→↓−≈≠≤≥✓";

/// What a shell would not take as it stands.
const META: &str = "|&;<>()$`\\\"'*?[]#~={}!^%";

/// Names of the control characters that have one everybody knows.
const CONTROLS: [&str; 33] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI", "DLE",
    "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US", "SP",
];

/// One painted thing. It stands for one character or byte of what was there, or for the absence of all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mark {
    /// A letter, as it is.
    Plain(char),
    /// A letter that means something to a shell.
    Meta(char),
    /// A blank that separates words of a text.
    Blank,
    /// A blank that is to be seen.
    Space,
    /// A tab of a text.
    Tab,
    /// The end of a line of a command or a file: seen, and the next row begins.
    Return,
    /// The end of a line of a text for people: the next row begins.
    Break,
    /// A character that cannot be trusted to look like itself.
    Escape(char),
    /// A byte that belongs to no character.
    Byte(u8),
    /// There is nothing at all.
    Nothing,
}

/// How a mark is to be set off from others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tone {
    Plain,
    /// It means something to a shell.
    Meta,
    /// It is only there so that something invisible is seen.
    Faint,
    /// It stands for something else: reverse video.
    Escape,
}

impl Mark {
    /// Writes it out.
    pub(crate) fn write(self, out: &mut String) {
        match self {
            Mark::Plain(letter) | Mark::Meta(letter) => out.push(letter),
            Mark::Blank => out.push(' '),
            Mark::Space => out.push('␣'),
            Mark::Tab => out.push('⇥'),
            Mark::Return => out.push('↵'),
            Mark::Break => out.push('\n'),
            Mark::Nothing => out.push_str("⟨empty⟩"),
            // Writing to a string cannot fail.
            Mark::Byte(byte) => write!(out, "⟨0x{byte:02X}⟩").unwrap_or_default(),
            Mark::Escape('\u{7f}') => out.push_str("⟨DEL⟩"),
            Mark::Escape(character) => match CONTROLS.get(u32::from(character) as usize) {
                Some(name) => write!(out, "⟨{name}⟩").unwrap_or_default(),
                None => write!(out, "⟨U+{:04X}⟩", u32::from(character)).unwrap_or_default(),
            },
        }
    }

    /// Columns it takes.
    pub(crate) fn width(self) -> usize {
        match self {
            Mark::Plain(letter) => crate::text::columns(letter.encode_utf8(&mut [0; 4])),
            Mark::Meta(_) | Mark::Blank | Mark::Space | Mark::Tab | Mark::Return => 1,
            Mark::Break => 0,
            Mark::Nothing => 7,
            Mark::Byte(_) => 6,
            Mark::Escape('\u{7f}') => 5,
            Mark::Escape(character) => match CONTROLS.get(u32::from(character) as usize) {
                Some(name) => name.len() + 2,
                None => 4 + format!("{:04X}", u32::from(character)).len(),
            },
        }
    }

    /// How it is set off.
    pub(crate) fn tone(self) -> Tone {
        match self {
            Mark::Plain(_) | Mark::Blank | Mark::Break => Tone::Plain,
            Mark::Meta(_) => Tone::Meta,
            Mark::Space | Mark::Tab | Mark::Return | Mark::Nothing => Tone::Faint,
            Mark::Escape(_) | Mark::Byte(_) => Tone::Escape,
        }
    }

    fn ends_row(self) -> bool {
        matches!(self, Mark::Return | Mark::Break | Mark::Escape('\n'))
    }
}

/// A word of a command, a path, a name or a value: nothing in it is taken for granted, blanks are seen too.
pub(crate) fn word(text: &str) -> Vec<Mark> {
    if text.is_empty() {
        return vec![Mark::Nothing];
    }
    let mark = |character: char| match character {
        ' ' => Mark::Space,
        other if META.contains(other) => Mark::Meta(other),
        other => strict(other),
    };
    text.chars().map(mark).collect()
}

/// A word of any bytes.
pub(crate) fn bytes(text: &[u8]) -> Vec<Mark> {
    if text.is_empty() {
        return vec![Mark::Nothing];
    }
    let mut marks = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        if !chunk.valid().is_empty() {
            marks.extend(word(chunk.valid()));
        }
        marks.extend(chunk.invalid().iter().map(|byte| Mark::Byte(*byte)));
    }
    marks
}

/// A script, or part of a file: lines and blanks stay readable, blanks at the end of a line are seen.
pub(crate) fn code(text: &str) -> Vec<Mark> {
    if text.is_empty() {
        return vec![Mark::Nothing];
    }
    let mut marks: Vec<Mark> = text
        .chars()
        .map(|character| match character {
            ' ' => Mark::Blank,
            '\t' => Mark::Tab,
            '\n' => Mark::Return,
            other => strict(other),
        })
        .collect();
    let mut at_end = true;
    for mark in marks.iter_mut().rev() {
        match mark {
            Mark::Return => at_end = true,
            Mark::Blank if at_end => *mark = Mark::Space,
            _ => at_end = false,
        }
    }
    marks
}

/// A text for people: letters of many scripts are let through, whatever steers or hides is not.
pub(crate) fn prose(text: &str) -> Vec<Mark> {
    let mark = |character: char| match character {
        ' ' => Mark::Blank,
        '\n' => Mark::Break,
        other if readable(other) => Mark::Plain(other),
        other => strict(other),
    };
    text.chars().map(mark).collect()
}

/// A pipeline on one line: words apart, stages parted by ` | `. What a shell would not take as it stands is in quotes,
/// so a word that is a bar is not a pipe.
pub(crate) fn command<'a, Stage>(stages: impl IntoIterator<Item = Stage>) -> Vec<Mark>
where
    Stage: IntoIterator<Item = &'a str>,
{
    let mut marks = Vec::new();
    for (stage, words) in stages.into_iter().enumerate() {
        if stage > 0 {
            marks.extend([Mark::Blank, Mark::Meta('|'), Mark::Blank]);
        }
        for (position, text) in words.into_iter().enumerate() {
            if position > 0 {
                marks.push(Mark::Blank);
            }
            quoted(text, &mut marks);
        }
    }
    marks
}

fn quoted(text: &str, marks: &mut Vec<Mark>) {
    let safe = |character: char| character.is_ascii_alphanumeric() || "_@+:,./-=%".contains(character);
    if !text.is_empty() && text.chars().all(safe) {
        marks.extend(text.chars().map(Mark::Plain));
        return;
    }
    marks.push(Mark::Plain('\''));
    for character in text.chars() {
        match character {
            ' ' => marks.push(Mark::Space),
            // As a shell wants it: the quotes end, a quote of its own, the quotes begin again.
            '\'' => marks.extend(['\'', '\\', '\'', '\''].map(Mark::Meta)),
            other if META.contains(other) => marks.push(Mark::Meta(other)),
            other => marks.push(strict(other)),
        }
    }
    marks.push(Mark::Plain('\''));
}

/// Whether a character steers a terminal, changes the direction of writing, or is not seen: controls, formats, fillers,
/// tags, variation selectors. Texts of all screens spell such characters out in the same way, see [`Mark::write`].
pub(crate) fn steers_or_hides(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0xad | 0x34f
                | 0x61c
                | 0x115f
                | 0x1160
                | 0x17b4
                | 0x17b5
                | 0x180b..=0x180f
                | 0x200b..=0x200f
                | 0x2028..=0x202e
                | 0x2060..=0x206f
                | 0x2800
                | 0x3164
                | 0xfe00..=0xfe0f
                | 0xfeff
                | 0xffa0
                | 0xfff0..=0xfffb
                | 0x1_bca0..=0x1_bca3
                | 0x1_d173..=0x1_d17a
                | 0xe_0000..=0xe_0fff
        )
}

fn strict(character: char) -> Mark {
    if character.is_ascii_graphic() || (!character.is_ascii() && LETTERS.contains(character)) {
        Mark::Plain(character)
    } else {
        Mark::Escape(character)
    }
}

/// Whether a text for people may hold it. Scripts that are written from the right are spelled out: they would reorder
/// what stands beside them on the same row.
fn readable(character: char) -> bool {
    match u32::from(character) {
        // Latin but the oddities, Greek, Cyrillic; not their combining marks.
        0xc0..=0x17f | 0x386..=0x3ff | 0x400..=0x481 | 0x48a..=0x52f => character.is_alphabetic(),
        // Kana, Chinese, Korean, and the punctuation that goes with them.
        0x3001..=0x3003 | 0x3008..=0x3011 | 0x3041..=0x3096 | 0x30a1..=0x30fc | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => {
            true
        }
        0xff01 | 0xff08 | 0xff09 | 0xff0c | 0xff0e | 0xff1a | 0xff1b | 0xff1f => true,
        _ => character.is_ascii_graphic() || (!character.is_ascii() && SIGNS.contains(character)),
    }
}

/// Marks broken into rows of a width: between words where a word fits into a row, anywhere else. Nothing is left out.
pub(crate) fn rows(marks: &[Mark], width: usize) -> Vec<Vec<Mark>> {
    let width = width.max(1);
    let mut rows: Vec<Vec<Mark>> = vec![Vec::new()];
    let mut used = 0;
    let mut after_end = false;
    for word in marks.chunk_by(|mark, _| *mark != Mark::Blank && !mark.ends_row()) {
        // A blank at the end of a row may stand beyond it: nobody misses it.
        let visible: usize = word.iter().filter(|mark| **mark != Mark::Blank).map(|mark| mark.width()).sum();
        if after_end || (used > 0 && used + visible > width && visible <= width) {
            rows.push(Vec::new());
            used = 0;
        }
        for mark in word {
            let needs = mark.width();
            if used > 0 && used + needs > width && *mark != Mark::Blank {
                rows.push(Vec::new());
                used = 0;
            }
            if let Some(row) = rows.last_mut() {
                row.push(*mark);
            }
            used += needs;
        }
        after_end = word.last().is_some_and(|mark| mark.ends_row());
    }
    rows
}

/// Marks as text, without any paint.
pub(crate) fn text(marks: &[Mark]) -> String {
    let mut out = String::with_capacity(marks.len());
    for mark in marks {
        mark.write(&mut out);
    }
    out
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
