//! Looking for a word in files and in memory, in every form in which it may lie there: as it is, as base64 wherever it
//! begins, as hex, as UTF-16.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use hostel_tests::procfs::Identity;
use rustix::process::Signal;

/// What is looked for.
pub(super) struct Needles {
    forms: Vec<(&'static str, Vec<u8>)>,
    /// Whether any form begins with these two bytes: one pass is enough for all.
    beginnings: Vec<bool>,
}

impl Needles {
    pub(super) fn of(word: &str) -> Self {
        assert!(word.len() >= 16 && word.is_ascii(), "a word that is nowhere by chance");
        let bytes = word.as_bytes();
        let mut forms = vec![("as it is", bytes.to_vec())];
        for (name, alphabet) in [("base64", base64_simd::STANDARD), ("base64url", base64_simd::URL_SAFE_NO_PAD)] {
            for before in 0..3 {
                let padded = [vec![0; before], bytes.to_vec()].concat();
                // Only what the bytes around it have no part in.
                let whole = alphabet.encode_to_string(&padded[..padded.len() / 3 * 3]);
                forms.push((name, whole.as_bytes()[(before * 8).div_ceil(6)..].to_vec()));
            }
        }
        let hex = |upper: bool| {
            let digits = bytes.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
            digits.collect::<String>().into_bytes()
        };
        forms.push(("hex", hex(false)));
        forms.push(("hex", hex(true)));
        // One of these is found whichever byte of each pair comes first.
        forms.push(("UTF-16", bytes.iter().flat_map(|byte| [*byte, 0]).take(2 * bytes.len() - 1).collect()));
        forms.push(("reversed", bytes.iter().rev().copied().collect()));
        let mut beginnings = vec![false; 1 << 16];
        for (_, form) in &forms {
            beginnings[usize::from(form[0]) << 8 | usize::from(form[1])] = true;
        }
        Self { forms, beginnings }
    }

    /// The forms that are there, with some of what is around them.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for (at, pair) in bytes.windows(2).enumerate() {
            if !self.beginnings[usize::from(pair[0]) << 8 | usize::from(pair[1])] {
                continue;
            }
            for (name, form) in &self.forms {
                if bytes[at..].starts_with(form) {
                    let around = &bytes[at.saturating_sub(40)..(at + form.len() + 40).min(bytes.len())];
                    found.push(format!("{name} at {at}: {}", around.escape_ascii()));
                }
            }
        }
        found
    }

    /// The forms that are in any file below a directory; gives also how many bytes there were.
    pub(super) fn in_files(&self, root: &Path) -> (Vec<String>, u64) {
        let (mut found, mut seen) = (Vec::new(), 0);
        let mut open = vec![root.to_owned()];
        while let Some(path) = open.pop() {
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                open.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
            } else if kind.is_file() {
                let bytes = fs::read(&path).expect("a file can be read");
                seen += bytes.len() as u64;
                found.extend(self.find(&bytes).into_iter().map(|place| format!("{}: {place}", path.display())));
                found.extend(self.find(path.as_os_str().as_encoded_bytes()));
            }
        }
        (found, seen)
    }

    /// The forms that are anywhere in a process's memory; `None` where nobody may look into it.
    pub(super) fn in_memory(&self, memory: &Memory) -> Vec<String> {
        let regions = memory.0.iter();
        regions
            .flat_map(|(name, bytes)| self.find(bytes).into_iter().map(move |place| format!("{name}: {place}")))
            .collect()
    }
}

/// The memory of a process, region by region.
pub(super) struct Memory(Vec<(String, Vec<u8>)>);

impl Memory {
    /// All that can be read, while the process stands still; `None` where nobody may look into it.
    pub(super) fn of(process: Identity) -> Option<Self> {
        process.signal(Signal::STOP);
        let memory = Self::read(process.pid);
        process.signal(Signal::CONT);
        memory
    }

    fn read(pid: i32) -> Option<Self> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        let mut regions = Vec::new();
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (range, rights) = (fields.next()?, fields.next()?);
            // The kernel's own pages are no memory of the process.
            if !rights.starts_with('r') || line.contains("[vvar") || line.contains("[vsyscall]") {
                continue;
            }
            let (from, to) = range.split_once('-')?;
            let from = u64::from_str_radix(from, 16).ok()?;
            let length = usize::try_from(u64::from_str_radix(to, 16).ok()? - from).ok()?;
            let mut bytes = vec![0; length];
            let mut got = 0;
            while got < length {
                // Beyond the end of a mapped file there is nothing.
                match memory.read_at(&mut bytes[got..], from + got as u64) {
                    Ok(0) | Err(_) => break,
                    Ok(more) => got += more,
                }
            }
            bytes.truncate(got);
            let name = line.split_ascii_whitespace().nth(5).unwrap_or("anonymous");
            regions.push((format!("{range} {rights} {name}"), bytes));
        }
        Some(Self(regions))
    }

    pub(super) fn size(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

#[test]
fn every_form_is_found() {
    let word = "q7wzk2mx9vbn4tyr8c";
    let needles = Needles::of(word);
    let text = |before: usize| format!("{}{word} and more", "-".repeat(before));
    for before in 0..7 {
        let plain = text(before);
        assert_eq!(needles.find(plain.as_bytes()).len(), 1);
        assert!(!needles.find(base64_simd::STANDARD.encode_to_string(&plain).as_bytes()).is_empty(), "{before}");
        assert!(!needles.find(base64_simd::URL_SAFE_NO_PAD.encode_to_string(&plain).as_bytes()).is_empty());
        let hex: String = plain.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!needles.find(hex.as_bytes()).is_empty());
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let wide: Vec<u8> = plain.encode_utf16().flat_map(order).collect();
            assert!(!needles.find(&wide).is_empty());
        }
    }
    assert!(needles.find(b"q7wzk2mx9vbn4tyr8 c, cHE3d3prMm14OXZibjR0eXI").is_empty());
}
