//! `daemon.yaml` and `tokens.yaml` of any content: options that can be written down and read again, or what is built in
//! and a word about it; and exactly the tokens that stand there.
#![no_main]

use std::fmt::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use hostel::fuzzing::{Codecast, codecast_options};
use hostel_doors::codecast::fuzzing::tokens;
use hostel_fuzz::journal::file_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (options, problem) = read(bytes, None, None);
    if let Some(problem) = problem {
        assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
        assert_eq!((options, None), read(b"", None, None), "a file that is not understood changes nothing");
    } else {
        assert_eq!(read(written(&options).as_bytes(), None, None), (options, None), "what was read can be written");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        variables(text);
        if let Err(problem) = tokens(text) {
            assert!(!problem.is_empty());
        }
        listed(text);
    }
});

fn read(bytes: &[u8], port: Option<&str>, bind: Option<&str>) -> (Codecast, Option<String>) {
    let file = file_of(bytes);
    codecast_options(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), port, bind)
}

/// A text in quotation marks. What JSON escapes YAML escapes alike; the rest are characters YAML wants escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ' '..='~' => out.push(character),
            other => write!(out, "\\U{:08x}", u32::from(other)).expect("text has room"),
        }
    }
    out + "\""
}

fn written(options: &Codecast) -> String {
    let mut yaml = format!("port: {}\nbind: {}\n", options.port, quoted(&options.bind));
    for (key, path) in ["tokens_file", "tls_cert", "tls_key"].iter().zip(&options.files) {
        if let Some(path) = path.as_deref().and_then(Path::to_str) {
            writeln!(yaml, "{key}: {}", quoted(path)).expect("text has room");
        }
    }
    yaml
}

/// Two variables count more than the file, if they say anything.
fn variables(text: &str) {
    let file = b"port: 5\nbind: \"::1\"\n";
    let (options, _) = read(file, Some(text), Some(text));
    assert_eq!(options.port, text.trim().parse().unwrap_or(5));
    assert_eq!(options.bind, if text.trim().is_empty() { "::1" } else { text });
    if let Err(problem) = options.address {
        assert!(problem.contains(&options.bind));
    }
}

/// Tokens written down one by one are the tokens that are read, empty ones left out.
fn listed(text: &str) {
    let words: Vec<&str> = text.split('\n').take(8).collect();
    let mut yaml = String::from("tokens:\n");
    let mut expected = Vec::new();
    for word in &words {
        writeln!(yaml, "- label: {}\n  token: {}", quoted(word), quoted(word)).expect("text has room");
        let alone = tokens(&format!("tokens: [{{token: {}}}]", quoted(word))).expect("a token");
        assert_eq!(alone.len(), usize::from(!word.is_empty()));
        expected.extend(alone);
    }
    assert_eq!(tokens(&yaml), Ok(expected));
}
