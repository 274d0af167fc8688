//! `-bridge`: stdin to the socket, the socket to stdout, bytes as they come.
//!
//! Invariant: the end of stdin does not end the relay; what the daemon still has to say is passed on until the daemon
//! closes or nobody reads our stdout any more.
//!
//! It adds nothing and looks at nothing, in particular no `auth`.

use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::fail;
use super::socket_error;

/// Bytes moved at once.
const PIECE: usize = 64 << 10;

pub(super) fn run(socket: &Path) -> ExitCode {
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) => return fail(&format!("dial server: {}", socket_error("dial", socket, "connect", &error))),
    };
    let input = match stream.try_clone() {
        Ok(input) => input,
        Err(error) => return fail(&format!("dial server: {error}")),
    };
    // It waits for stdin for as long as stdin waits, and ends with the program.
    let reader = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || forward(input));
    if let Err(error) = reader {
        return fail(&format!("dial server: {error}"));
    }
    relay(stream);
    ExitCode::SUCCESS
}

/// Our stdin to the daemon.
fn forward(mut socket: UnixStream) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; PIECE];
    loop {
        let count = match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if socket.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            // Nobody takes it; what was said before may still be on its way to us.
            socket.shutdown(Shutdown::Write).unwrap_or_default();
            return;
        }
    }
}

/// The daemon to our stdout, until either is gone.
fn relay(mut socket: UnixStream) {
    let mut buffer = vec![0; PIECE];
    let mut stdout = io::stdout();
    loop {
        if !wait(&socket, &stdout) {
            return;
        }
        let count = match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let written = stdout.write_all(buffer.get(..count).unwrap_or_default()).and_then(|()| stdout.flush());
        if written.is_err() {
            return;
        }
    }
}

/// Waits until the socket has something; false once nobody reads our stdout any more.
fn wait(socket: &UnixStream, stdout: &io::Stdout) -> bool {
    loop {
        let mut watched = [PollFd::new(socket, PollFlags::IN), PollFd::new(stdout, PollFlags::empty())];
        match rustix::event::poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return true,
        }
        let [socket, stdout] = &watched;
        if !socket.revents().is_empty() {
            return true;
        }
        if stdout.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return false;
        }
    }
}
