//! Who calls a tool.
//!
//! Invariant: the process behind an HTTP connection is found by asking the system, never by believing the client. What
//! cannot be found stays unknown.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;

/// Processes that are looked through for the owner of a socket.
const PROCESS_LIMIT: usize = 32_768;

/// Descriptors of one process that are looked through.
const DESCRIPTOR_LIMIT: usize = 4_096;

/// A process as the system knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// Who calls.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Caller {
    /// What the MCP client calls itself.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// The process behind it, where that is not the one at the other end of our own streams.
    pub process: Option<Process>,
}

impl Caller {
    /// A word for the client that can be shown anywhere.
    pub(super) fn word(&self) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' ' | '/');
        let word: String = self.name.chars().filter(|letter| plain(*letter)).take(64).collect();
        if word.trim().is_empty() { "unknown".to_owned() } else { word.trim().to_owned() }
    }
}

/// The process at the other end of a TCP connection on this machine: `ours` and `theirs` are the two ends as this
/// process sees them.
pub(super) fn behind(ours: SocketAddr, theirs: SocketAddr) -> Option<Process> {
    let (ours, theirs) = (plain(ours), plain(theirs));
    let path = if theirs.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let table = std::fs::read_to_string(path).ok()?;
    let (uid, inode) = row(&table, theirs, ours)?;
    let wanted = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten().take(PROCESS_LIMIT);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.into_iter().find(|pid| holds(*pid, &wanted)).map(|pid| Process { pid, uid })
}

/// Whether a process of ours has that descriptor.
fn holds(pid: u32, wanted: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let directory = format!("/proc/{pid}/fd");
    if own != 0 && !std::fs::metadata(&directory).is_ok_and(|metadata| metadata.uid() == own) {
        return false;
    }
    let Ok(descriptors) = std::fs::read_dir(directory) else { return false };
    descriptors
        .flatten()
        .take(DESCRIPTOR_LIMIT)
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted))
}

/// IPv4 in the clothes of IPv6 as what it is.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// User and inode of the socket with these ends.
fn row(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<(u32, u64)> {
    let ends = (spelled(local), spelled(remote));
    for line in table.lines().skip(1) {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let here = (fields.next()?, fields.next()?);
        if here != (ends.0.as_str(), ends.1.as_str()) {
            continue;
        }
        // state, queues, timer, retransmits, then the user, a timeout and the inode.
        let mut fields = fields.skip(4);
        let uid = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        return (inode != 0).then_some((uid, inode));
    }
    None
}

/// An address as the kernel's table has it.
fn spelled(address: SocketAddr) -> String {
    let mut text = String::new();
    match address.ip() {
        IpAddr::V4(ip) => write!(text, "{:08X}", u32::from_ne_bytes(ip.octets())).unwrap_or_default(),
        IpAddr::V6(ip) => {
            for word in ip.octets().chunks_exact(4) {
                let word = <[u8; 4]>::try_from(word).unwrap_or_default();
                write!(text, "{:08X}", u32::from_ne_bytes(word)).unwrap_or_default();
            }
        }
    }
    write!(text, ":{:04X}", address.port()).unwrap_or_default();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_process_behind_a_connection_is_found() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, theirs) = listener.accept().await.unwrap();
        let found = behind(served.local_addr().unwrap(), theirs).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert_eq!(found.uid, rustix::process::geteuid().as_raw());
        drop(client);
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(behind(served.local_addr().unwrap(), nobody), None);
    }

    #[test]
    fn names_of_clients_are_made_harmless() {
        let named = |name: &str| Caller { name: name.to_owned(), ..Caller::default() }.word();
        assert_eq!(named("claude-code"), "claude-code");
        assert_eq!(named("a\u{1b}[31m\u{202e}b\n"), "a31mb");
        assert_eq!(named(" \u{200b}"), "unknown");
        assert_eq!(named(&"x".repeat(500)).len(), 64);
    }
}
