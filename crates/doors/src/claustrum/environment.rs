//! The environment of a child: the daemon's, then the login shell's `PATH`, then the caller's map.
//!
//! What is only the daemon's business never reaches a child: the token and the marks of the
//! daemon's own start. The one mark children do see is `CLAUDE_SSH_DAEMON_CHILD=1`, which programs
//! look for. The caller's map is laid over all of that and may set anything.

use std::ffi::{OsStr, OsString};

/// Names the daemon keeps to itself.
pub const PRIVATE: [&str; 3] = ["CLAUDE_RPC_TOKEN", "CLAUSTRUM_DAEMON_CHILD", "CLAUSTRUM_TOKEN_PIPE"];

const CHILD_MARK: &str = "CLAUDE_SSH_DAEMON_CHILD";

/// A name or value that no environment can hold; the text is Go's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("exec: environment variable contains NUL")]
pub struct ContainsNul;

/// What every child starts from.
pub fn base(daemon: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<_> =
        daemon.into_iter().filter(|(name, _)| !PRIVATE.iter().any(|private| name == private)).collect();
    set(&mut environment, OsStr::new(CHILD_MARK), OsStr::new("1"));
    environment
}

/// The environment of one child.
pub fn for_child(
    base: &[(OsString, OsString)],
    login_path: Option<&OsStr>,
    asked: &[(String, String)],
) -> Result<Vec<(OsString, OsString)>, ContainsNul> {
    if asked.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
        return Err(ContainsNul);
    }
    let mut environment = base.to_vec();
    if let Some(path) = login_path {
        set(&mut environment, OsStr::new("PATH"), path);
    }
    for (name, value) in asked {
        set(&mut environment, name.as_ref(), value.as_ref());
    }
    Ok(environment)
}

/// Replaces in place, or appends.
fn set(environment: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    match environment.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.to_owned(),
        None => environment.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<T: Clone + Into<OsString>>(pairs: &[(T, T)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect()
    }

    #[test]
    fn what_children_see() {
        let daemon = pairs(&[
            ("A", "1"),
            ("CLAUDE_RPC_TOKEN", "secret"),
            ("PATH", "/bin"),
            ("CLAUSTRUM_DAEMON_CHILD", "1"),
            ("CLAUSTRUM_TOKEN_PIPE", "3"),
            ("B", "2"),
        ]);
        let base = base(daemon);
        let expected = pairs(&[("A", "1"), ("PATH", "/bin"), ("B", "2"), ("CLAUDE_SSH_DAEMON_CHILD", "1")]);
        assert_eq!(base, expected);

        let login = Some(OsStr::new("/login"));
        let asked = [("B", "b"), ("C", ""), ("CLAUDE_RPC_TOKEN", "own")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = pairs(&[
            ("A", "1"),
            ("PATH", "/login"),
            ("B", "b"),
            ("CLAUDE_SSH_DAEMON_CHILD", "1"),
            ("C", ""),
            ("CLAUDE_RPC_TOKEN", "own"),
        ]);
        assert_eq!(for_child(&base, login, &asked), Ok(expected));

        let asked = [("PATH".to_owned(), "/own".to_owned())];
        let child = for_child(&base, login, &asked).unwrap();
        assert_eq!(child[1], ("PATH".into(), "/own".into()));
    }

    #[test]
    fn a_zero_byte_is_refused() {
        for asked in [("A", "\0"), ("\0", "A")] {
            let asked = [(asked.0.to_owned(), asked.1.to_owned())];
            assert_eq!(for_child(&[], None, &asked), Err(ContainsNul));
        }
    }
}
