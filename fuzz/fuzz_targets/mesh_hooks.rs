//! `hooks.toml` of any content: a policy within its bounds, or an error of one line that names its own. A policy that is
//! only partly understood is none.
#![no_main]

use hostel_mesh::hooks::policy::Mistake;
use hostel_mesh::hooks::{HookName, Policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(Mistake { line, text }) => {
            assert!((1..=lines).contains(&line), "line {line} of {lines}");
            assert!(!text.contains('\n') && text.len() < 2000, "{text}");
            return;
        }
    };
    for (name, rule) in policy.rules() {
        let written = name.to_string();
        assert_eq!(HookName::parse(&written).as_ref(), Some(name));
        assert!(!written.contains('/') && !written.contains('\0') && written.len() < 128, "a name is a file's name");
        assert!(rule.timeout_s.is_none_or(|seconds| (1..=3600).contains(&seconds)));
        assert!(rule.output_size_limit <= 16 << 20 && (1..=lines).contains(&rule.line));
        assert!(rule.redact.len() <= 64 && rule.scopes.len() <= 64);
        assert_eq!(policy.runs(name), rule.enabled);
    }
    // The same text means the same.
    assert!(Policy::parse(text).is_ok_and(|again| again == policy));
});
