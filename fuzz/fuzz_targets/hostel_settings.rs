//! `hostel.toml` of any content: settings that can be shown and typed back, or an error of one line.
#![no_main]

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use hostel::fuzzing::settings;
use hostel_fuzz::journal::file_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = file_of(bytes);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match settings(&path, &[]) {
        Err(message) => assert!(!message.trim_end().contains('\n'), "an error of several lines: {message}"),
        Ok(rows) => {
            // A list with a comma in it and an empty text cannot be typed.
            let lists = ["listen", "dir", "command", "env"];
            let typed: Vec<String> = rows
                .iter()
                .filter(|(key, value, origin)| {
                    origin != "built in" && !lists.iter().any(|list| key.ends_with(list)) && !value.is_empty()
                })
                .map(|(key, value, _)| format!("{key}={value}"))
                .collect();
            settings(&path, &typed).expect("what is shown can be typed");
        }
    }
    // The same bytes as a flag.
    if let Ok(text) = std::str::from_utf8(bytes) {
        let nowhere = PathBuf::from("/proc/self/fd/none");
        let key = ["journal.quota", "journal.keep_age", "limits.connections", "doors.claustrum.listen"];
        for key in key {
            drop(settings(&nowhere, &[format!("{key}={text}")]));
        }
        drop(settings(&nowhere, &[text.to_owned()]));
    }
});
