//! What a host may be called, which names mean this machine, and where the sockets are.
//!
//! Invariant: a text that passes `check` can stand in a file name and among the arguments of ssh without being taken for
//! anything else. Names are compared, never looked up: an alias that only ssh or the resolver knows counts as another
//! machine.

use std::net::IpAddr;
use std::path::Path;
use std::path::PathBuf;

/// The file that says what this machine is called.
const HOSTNAME: &str = "/etc/hostname";

/// The most of that file that is looked at.
const NAME_LIMIT: usize = 255;

/// Why a text cannot be a host. The words are the contract's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum HostError {
    /// There is nothing.
    #[error("host must not be empty")]
    Empty,
    /// ssh would take it for an option.
    #[error("host must not start with '-'")]
    Dash,
    /// It holds something that no host has.
    #[error("host contains forbidden character: {0:?}")]
    Forbidden(char),
}

/// Whether a text may be a host, or a login name before one.
pub(crate) fn check(host: &str) -> Result<(), HostError> {
    if host.is_empty() {
        return Err(HostError::Empty);
    }
    if host.starts_with('-') {
        return Err(HostError::Dash);
    }
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@' | ':');
    match host.chars().find(|letter| !allowed(letter)) {
        Some(letter) => Err(HostError::Forbidden(letter)),
        None => Ok(()),
    }
}

/// Whether a host is this machine, which calls itself `own`. A user before it, one dot after it and the case of its
/// letters mean nothing.
pub(crate) fn is_this_machine(host: &str, own: &str) -> bool {
    let name = host.rsplit('@').next().unwrap_or(host);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let own = own.to_ascii_lowercase();
    let first = own.split('.').next().unwrap_or_default();
    name == "localhost" || (!own.is_empty() && name == own) || (!first.is_empty() && name == first)
}

/// What this machine calls itself; nothing where it does not say.
pub(crate) fn own_name() -> String {
    let name = std::fs::read_to_string(HOSTNAME).unwrap_or_default();
    name.trim().chars().take(NAME_LIMIT).collect()
}

/// What ssh is told: the host, with the login before it if there is one.
pub(crate) fn target(host: &str, login: Option<&str>) -> String {
    match login {
        Some(login) if !login.is_empty() => format!("{login}@{host}"),
        _ => host.to_owned(),
    }
}

/// The user's own directory for sockets.
pub(crate) fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => Path::new("/run/user").join(rustix::process::getuid().as_raw().to_string()),
    }
}

/// The contract's own endpoint.
pub(crate) fn default_socket() -> PathBuf {
    runtime_dir().join(super::SOCKET_NAME)
}

/// This machine's end of the tunnel to a host whose text passed `check`.
pub(crate) fn tunnel_socket(target: &str) -> PathBuf {
    runtime_dir().join(format!("sudo-proxy-{target}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_texts() {
        for good in ["h", "user@host.example.com", "root@10.0.0.1", "::1", "a_b-c", "H9"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let message = |host: &str| check(host).unwrap_err().to_string();
        assert_eq!(message(""), "host must not be empty");
        assert_eq!(message("-oProxyCommand=x"), "host must not start with '-'");
        assert_eq!(message("a b"), "host contains forbidden character: ' '");
        assert_eq!(message("a'b"), "host contains forbidden character: '\\''");
        assert_eq!(message("a\nb"), "host contains forbidden character: '\\n'");
        for bad in ";|&$`()<>*?{}[]'\"\\=,~!#%^+/é".chars() {
            assert_eq!(check(&format!("a{bad}b")), Err(HostError::Forbidden(bad)));
        }
    }

    #[test]
    fn names_of_this_machine() {
        for local in [
            "localhost",
            "LocalHost.",
            "127.0.0.1",
            "127.1.2.3",
            "user@127.0.0.1",
            "::1",
            "u@::1",
            "box.local",
            "BOX.LOCAL.",
            "box",
            "u@box",
        ] {
            assert!(is_this_machine(local, "box.local"), "{local}");
        }
        for remote in [
            "127.0.0.1.example",
            "notlocalhost",
            "localhost.example",
            "10.0.0.4",
            "128.0.0.1",
            "::2",
            "box.example.com",
            "buildbox",
            "box.local..",
            "",
        ] {
            assert!(!is_this_machine(remote, "box.local"), "{remote}");
        }
        assert!(is_this_machine("127.0.0.1", "") && !is_this_machine("", "") && !is_this_machine("box", ""));
    }

    #[test]
    fn what_ssh_is_told() {
        assert_eq!(target("h", None), "h");
        assert_eq!(target("h", Some("")), "h");
        assert_eq!(target("h", Some("u")), "u@h");
    }
}
