//! Values out of TOML, each with its line, and what nobody asked for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Notice;

/// A parsed text that remembers which of its keys were asked for.
pub(super) struct Reader<'a> {
    text: &'a str,
    root: DeTable<'a>,
    known: BTreeSet<(&'static str, &'static str)>,
    /// Sections that belong elsewhere.
    skipped: Vec<&'static str>,
}

type Found = Result<bool, Notice>;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, Notice> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { text, root: root.into_inner(), known: BTreeSet::new(), skipped: Vec::new() }),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                Err(Notice { line, text: error.message().lines().collect::<Vec<_>>().join(" ") })
            }
        }
    }

    /// Keys that somebody has asked for.
    #[cfg(test)]
    pub(super) fn known(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.known.iter().copied()
    }

    /// Keys that nobody has asked for.
    pub(super) fn unknown(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut say = |key: &Spanned<_>, text: String| {
            notices.push(Notice { line: line_of(self.text, key.span().start), text });
        };
        for (section, value) in &self.root {
            let name = section.get_ref();
            if self.skipped.iter().any(|skipped| *skipped == name.as_ref()) {
                continue;
            }
            if !self.known.iter().any(|(known, _)| known == name) {
                say(section, format!("`{name}` is not known and was skipped"));
                continue;
            }
            for key in value.get_ref().as_table().into_iter().flat_map(DeTable::keys) {
                let inner = key.get_ref();
                if !self.known.iter().any(|(known, key)| known == name && key == inner) {
                    say(key, format!("`{name}.{inner}` is not known and was skipped"));
                }
            }
        }
        notices
    }

    /// The line of a section that has its place elsewhere; nothing else is said about it.
    pub(super) fn misplaced(&mut self, section: &'static str) -> Option<usize> {
        let (key, _) = self.root.get_key_value(section)?;
        let line = line_of(self.text, key.span().start);
        self.skipped.push(section);
        Some(line)
    }

    fn get(&mut self, section: &'static str, key: &'static str) -> Result<Option<&Spanned<DeValue<'a>>>, Notice> {
        self.known.insert((section, key));
        let Some(table) = self.root.get(section) else { return Ok(None) };
        match table.get_ref().as_table() {
            Some(entries) => Ok(entries.get(key)),
            None => {
                let text = format!("`{section}` is a section: write `[{section}]`");
                Err(Notice { line: line_of(self.text, table.span().start), text })
            }
        }
    }

    /// Reads one value with `read`, which says what it expected when it is something else.
    fn value<T>(
        &mut self,
        section: &'static str,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Found {
        let text = self.text;
        let Some(value) = self.get(section, key)? else { return Ok(false) };
        match read(value.get_ref()) {
            Ok(value) => {
                *target = value;
                Ok(true)
            }
            Err(expected) => {
                let line = line_of(text, value.span().start);
                Err(Notice { line, text: format!("`{section}.{key}` must be {expected}") })
            }
        }
    }

    /// Refuses a combination, at the line of one of its keys.
    pub(super) fn refuse(
        &mut self,
        section: &'static str,
        key: &'static str,
        wrong: bool,
        why: impl FnOnce() -> String,
    ) -> Result<(), Notice> {
        if !wrong {
            return Ok(());
        }
        let text = self.text;
        let line = self.get(section, key)?.map_or(1, |value| line_of(text, value.span().start));
        Err(Notice { line, text: format!("`{section}.{key}`: {}", why()) })
    }

    /// The line of a key; the first if it is not there.
    pub(super) fn line(&self, section: &str, key: &str) -> usize {
        let value = self.root.get(section).and_then(|table| table.get_ref().as_table()?.get(key));
        value.map_or(1, |value| line_of(self.text, value.span().start))
    }

    pub(super) fn flag(&mut self, section: &'static str, key: &'static str, target: &mut bool) -> Found {
        self.value(section, key, target, |value| value.as_bool().ok_or_else(|| "`true` or `false`".into()))
    }

    /// A text; an empty one says nothing.
    pub(super) fn text(&mut self, section: &'static str, key: &'static str, target: &mut Option<String>) -> Found {
        self.value(section, key, target, |value| {
            let text = value.as_str().ok_or("a text in quotes")?;
            Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
        })
    }

    pub(super) fn path(&mut self, section: &'static str, key: &'static str, target: &mut Option<PathBuf>) -> Found {
        self.value(section, key, target, |value| {
            let text = value.as_str().ok_or("a path in quotes")?;
            let path = Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
            match path {
                Some(path) if !path.is_absolute() => Err("an absolute path".into()),
                path => Ok(path),
            }
        })
    }

    pub(super) fn texts(&mut self, section: &'static str, key: &'static str, target: &mut Vec<String>) -> Found {
        self.value(section, key, target, |value| {
            let items = value.as_array().ok_or("a list of texts")?;
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().ok_or_else(|| "a list of texts".into())
        })
    }

    pub(super) fn one_of<T: Copy>(
        &mut self,
        section: &'static str,
        key: &'static str,
        choices: &[(&str, T)],
        target: &mut T,
    ) -> Found {
        self.value(section, key, target, |value| {
            let chosen = choices.iter().find(|(name, _)| value.as_str() == Some(name));
            let names = || choices.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            chosen.map(|(_, value)| *value).ok_or_else(|| format!("one of {}", names()))
        })
    }

    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        section: &'static str,
        key: &'static str,
        range: RangeInclusive<u64>,
        target: &mut T,
    ) -> Found {
        self.value(section, key, target, |value| {
            let number = whole(value).filter(|number| range.contains(number));
            let number = number.and_then(|number| T::try_from(number).ok());
            number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
        })
    }

    pub(super) fn fraction(
        &mut self,
        section: &'static str,
        key: &'static str,
        range: RangeInclusive<f64>,
        target: &mut f64,
    ) -> Found {
        self.value(section, key, target, |value| {
            let number = value.as_float().and_then(|float| float.as_str().parse().ok());
            let number = number.or_else(|| whole(value).map(|whole| whole as f64));
            let number = number.filter(|number| range.contains(number));
            number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
        })
    }

    /// A number of bytes, or a text with a unit.
    pub(super) fn size<T: TryFrom<u64>>(
        &mut self,
        section: &'static str,
        key: &'static str,
        range: RangeInclusive<u64>,
        target: &mut T,
    ) -> Found {
        self.value(section, key, target, |value| {
            let bytes = whole(value).or_else(|| value.as_str().and_then(size_of));
            let bytes = bytes.filter(|bytes| range.contains(bytes)).and_then(|bytes| T::try_from(bytes).ok());
            bytes.ok_or_else(|| {
                let most =
                    if *range.end() == u64::MAX { String::new() } else { format!(" and at most {}", range.end()) };
                format!("a size such as 1048576 or \"5GB\", at least {}{most}", range.start())
            })
        })
    }

    pub(super) fn address(&mut self, section: &'static str, key: &'static str, target: &mut IpAddr) -> Found {
        self.value(section, key, target, |value| {
            let text = value.as_str().map(|text| if text == "localhost" { "127.0.0.1" } else { text });
            text.and_then(|text| text.parse().ok()).ok_or_else(|| "an IP address in quotes".into())
        })
    }

    /// The mode of a file, in octal digits; nobody else may write, and the owner must be able to.
    pub(super) fn mode(&mut self, section: &'static str, key: &'static str, target: &mut u32) -> Found {
        self.value(section, key, target, |value| {
            let mode = value.as_str().and_then(|digits| u32::from_str_radix(digits, 8).ok());
            let mode = mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600 && mode & 0o007 == 0);
            mode.ok_or_else(|| "a mode such as \"0600\" or \"0660\", closed to others".into())
        })
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str().trim_start_matches('+'), integer.radix()).ok()
}

/// `5GB`, `256 MiB`, `1.5 GB`, `1024`.
fn size_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "tb" | "t" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    match number.parse::<u64>() {
        Ok(number) => number.checked_mul(unit),
        Err(_) => {
            let bytes = number.parse::<f64>().ok()? * unit as f64;
            (bytes.is_finite() && (0.0..1e18).contains(&bytes)).then_some(bytes as u64)
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
