//! The processes that hold one end of a TCP connection.
//!
//! The kernel does not tell who holds a socket, so the descriptors of all processes are searched. A socket whose holder
//! hides its descriptors has no holder that counts.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::process::Process;

/// Processes of which a single connection can be; more are not a connection anybody made on purpose.
const MAX_HOLDERS: usize = 64;

/// The processes that have a socket open and let it be seen, by number. `None` if there are none, or too many.
pub(crate) fn holders_of(inode: u64) -> Option<Vec<Process>> {
    let name = format!("socket:[{inode}]");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if !holds(pid, &name) {
            continue;
        }
        // Held first and looked at again: the number may have been given away after the first look.
        if let Some((process, _)) = Process::found(pid)
            && holds(pid, &name)
            && process.is_alive()
        {
            if found.len() == MAX_HOLDERS {
                return None;
            }
            found.push(process);
        }
    }
    found.sort_by_key(Process::pid);
    (!found.is_empty()).then_some(found)
}

fn holds(pid: u32, socket: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str().as_bytes() == socket.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::tcp::{Ends, OtherEnd, other_end};

    #[test]
    fn all_who_hold_an_end_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, theirs) = listener.accept().unwrap();
        let ends = Ends { theirs, ours: server.local_addr().unwrap() };
        let OtherEnd::Local { inode, .. } = other_end(ends) else { panic!("{ends:?}") };
        let pids = || holders_of(inode).unwrap_or_default().iter().map(Process::pid).collect::<Vec<_>>();
        let own = std::process::id();
        // Another process that is started by a test beside this one may hold everything until it becomes its program.
        assert!(pids().contains(&own));
        let heir = Stdio::from(std::os::fd::OwnedFd::from(client.try_clone().unwrap()));
        let mut child = Command::new("sleep").arg("100").stdin(heir).spawn().unwrap();
        assert!(pids().contains(&child.id()) && pids().contains(&own));
        drop(client);
        assert!(pids().contains(&child.id()) && !pids().contains(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!pids().contains(&child.id()));
        assert!(holders_of(u64::MAX).is_none());
    }
}
