//! The claustrum command line: words that strangers chose.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use hostel::fuzzing::claustrum_flags;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut words: Vec<OsString> =
        bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
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
