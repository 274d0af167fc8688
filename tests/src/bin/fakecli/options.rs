//! Command lines, read as the CLIs read them: what they do not know is refused, never passed over.

use std::collections::HashMap;

/// What a CLI takes. Several spellings of one option stand together, separated by a bar; the first is its name.
pub(crate) struct Known {
    /// Options without a value.
    pub(crate) flags: &'static [&'static str],
    /// Options with one value.
    pub(crate) values: &'static [&'static str],
    /// Options that take all words up to the next option.
    pub(crate) lists: &'static [&'static str],
    /// Options whose value may be missing.
    pub(crate) maybe: &'static [&'static str],
}

#[derive(Default)]
pub(crate) struct Options {
    given: HashMap<&'static str, Vec<String>>,
    /// What is no option.
    pub(crate) words: Vec<String>,
}

/// Why a command line is refused.
pub(crate) enum Refused {
    Unknown(String),
    NoValue(String),
}

impl Options {
    pub(crate) fn read(known: &Known, arguments: &[String]) -> Result<Options, Refused> {
        let mut options = Options::default();
        let mut left = arguments.iter().peekable();
        while let Some(argument) = left.next() {
            if argument == "--" {
                options.words.extend(left.cloned());
                break;
            }
            if !argument.starts_with('-') || argument == "-" {
                options.words.push(argument.clone());
                continue;
            }
            let (spelling, attached) = match argument.split_once('=') {
                Some((spelling, value)) if argument.starts_with("--") => (spelling, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let find = |list: &'static [&'static str]| {
                let names = list.iter().find(|names| names.split('|').any(|name| name == spelling))?;
                names.split('|').next()
            };
            let is_option = |next: &&String| next.len() > 1 && next.starts_with('-');
            if let Some(name) = find(known.flags) {
                options.given.entry(name).or_default();
            } else if let Some(name) = find(known.values) {
                let value = attached.or_else(|| left.next_if(|next| !is_option(next)).cloned());
                let value = value.ok_or_else(|| Refused::NoValue(spelling.to_owned()))?;
                options.given.entry(name).or_default().push(value);
            } else if let Some(name) = find(known.lists) {
                let list = options.given.entry(name).or_default();
                list.extend(attached);
                while let Some(value) = left.next_if(|next| !is_option(next)) {
                    list.push(value.clone());
                }
            } else if let Some(name) = find(known.maybe) {
                let value = attached.or_else(|| left.next_if(|next| !is_option(next)).cloned());
                options.given.entry(name).or_default().extend(value);
            } else {
                return Err(Refused::Unknown(spelling.to_owned()));
            }
        }
        Ok(options)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The last value given for an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.last().map(String::as_str)
    }

    /// All values given for an option.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.given.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value if it is one of these; Err with it if not.
    pub(crate) fn choice(&self, name: &str, choices: &[&str]) -> Result<Option<&str>, String> {
        match self.value(name) {
            Some(value) if !choices.contains(&value) => Err(value.to_owned()),
            value => Ok(value),
        }
    }
}
