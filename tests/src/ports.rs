//! Ports of this machine for tests that name a port before something listens on it.
//!
//! Prefer port 0 where the program can say which port it got.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Blocks lie below the range from which Linux chooses ports by itself (from 32768).
const FIRST_PORT: u16 = 10_000;
const BLOCK_SIZE: u16 = 128;
const BLOCKS: u16 = 170;

/// A port that no other test uses while this process lives, nor the 100 ports after it.
///
/// The kernel does not choose these ports for connections and listeners of others. Tests, also those of another clone,
/// claim a block of ports by binding a name in the abstract socket namespace, which all of them see.
///
/// # Panics
/// If all blocks are in use.
pub fn own_port() -> u16 {
    for block in 0..BLOCKS {
        let name = SocketAddr::from_abstract_name(format!("hostel-test-ports-{block}")).expect("a short name");
        let Ok(claim) = UnixListener::bind_addr(&name) else { continue };
        let port = FIRST_PORT + block * BLOCK_SIZE;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            // The claim has to live as long as this process.
            std::mem::forget(claim);
            return port;
        }
    }
    panic!("all {BLOCKS} blocks of ports for tests are in use")
}
