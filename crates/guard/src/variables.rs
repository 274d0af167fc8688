//! Variables that reach into the launcher.
//!
//! Whoever asks for a guarded process chooses its variables, and the dynamic linker reads some of them before the launcher's
//! first instruction: it would load a file of theirs into a process that has no guard yet. Such variables travel under
//! another name, and get their own back when the launcher becomes the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What stands before the name of a variable that the launcher must not see.
const PREFIX: &[u8] = b"HOSTEL_GUARDED_";

/// What the variables of the dynamic linker and of the C library begin with.
const OF_THE_LINKER: [&[u8]; 4] = [b"LD_", b"GLIBC_", b"MALLOC_", PREFIX];

/// The name under which a variable passes the launcher.
pub(crate) fn disarmed(name: OsString) -> OsString {
    match OF_THE_LINKER.iter().any(|start| name.as_bytes().starts_with(start)) {
        true => OsString::from_vec([PREFIX, name.as_bytes()].concat()),
        false => name,
    }
}

/// The name that a variable has for the program, if it passed the launcher under another one.
pub(crate) fn rearmed(name: &OsStr) -> Option<&OsStr> {
    name.as_bytes().strip_prefix(PREFIX).map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_linker_pass_under_another_name() {
        for name in ["LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "HOSTEL_GUARDED_LD_PRELOAD"] {
            let passed = disarmed(name.into());
            assert_eq!(passed, OsString::from(format!("HOSTEL_GUARDED_{name}")));
            assert_eq!(rearmed(&passed), Some(OsStr::new(name)));
        }
        for name in ["PATH", "LD", "OLD_LD_PRELOAD", "HOSTEL_HOME"] {
            assert_eq!(disarmed(name.into()), name);
            assert_eq!(rearmed(OsStr::new(name)), None);
        }
    }
}
