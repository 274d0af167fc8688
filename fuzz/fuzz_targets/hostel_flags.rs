//! The command lines of the claustrum and zeroclaw personalities: words that strangers chose.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use hostel::fuzzing::{claustrum_flags, zeroclaw_flags};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut words: Vec<OsString> =
        bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    zeroclaw(&words);
    let outcome = claustrum_flags(&words);
    if outcome.is_ok() {
        // Nothing behind the flags matters.
        words.extend(["--".into(), "-nonsense".into()]);
        assert_eq!(claustrum_flags(&words), outcome);
    }
    let number = bytes.first_chunk().map_or(0, |chunk| i64::from_le_bytes(*chunk));
    let sign = if number < 0 { "-" } else { "" };
    let size = number.unsigned_abs();
    for spelled in [
        format!("{number}"),
        format!("{sign}{size:#x}"),
        format!("{sign}{size:#o}"),
        format!("{sign}{size:#b}"),
        format!("{sign}0{size:o}"),
    ] {
        let flags = claustrum_flags(&["-token-fd".into(), OsString::from(&spelled)]).expect("a number is a number");
        assert!(flags.contains(&format!("token_fd: {number},")), "{spelled} became {flags}");
    }
});

/// What is refused is named, and what is taken is taken wherever the verb stands.
fn zeroclaw(words: &[OsString]) {
    match zeroclaw_flags(words) {
        Err(message) => {
            let named = |word: &OsString| {
                let word = word.to_string_lossy();
                message.contains(word.as_ref())
                    || word.split_once('=').is_some_and(|(_, value)| message.contains(value))
            };
            let missing = message.contains("needs a value") || message.contains("`daemon`");
            assert!(missing || words.iter().any(named), "{message}");
        }
        Ok(task) if task.starts_with("Daemon") => {
            let Some(at) = words.iter().position(|word| word == "daemon") else { panic!("{task} without a verb") };
            // The word may also be the value of a flag; then it stays where it is.
            let mut first = words.to_vec();
            let verb = first.remove(at);
            first.insert(0, verb);
            if at == 0 || !words[at - 1].to_string_lossy().starts_with('-') {
                assert_eq!(zeroclaw_flags(&first), Ok(task));
            }
        }
        Ok(_) => {}
    }
}
