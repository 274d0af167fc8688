//! A line between a host and the broker that can be tampered with: everything goes through, or what the broker says is
//! swallowed, or nobody gets through.
//!
//! It knows nothing of what is said: bytes come and go.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Everything goes through.
    Open,
    /// What the host says arrives, what the broker says does not.
    Deaf,
    /// No connection stands or is made.
    Cut,
}

/// The line.
pub struct Wire {
    port: u16,
    inner: Arc<Inner>,
}

struct Inner {
    state: AtomicU8,
    /// Both ends of all connections.
    ends: Mutex<Vec<TcpStream>>,
}

impl Inner {
    fn is(&self, state: State) -> bool {
        self.state.load(Ordering::SeqCst) == state as u8
    }

    fn hang_up(&self) {
        for end in self.ends.lock().expect("nobody has panicked").drain(..) {
            end.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Wire {
    /// A line to a port of this machine, open.
    ///
    /// # Panics
    /// If there is no port left.
    pub fn to(broker: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let inner = Arc::new(Inner { state: AtomicU8::new(State::Open as u8), ends: Mutex::default() });
        let line = Arc::clone(&inner);
        // Ends with the test program.
        thread::spawn(move || {
            for host in listener.incoming().map_while(Result::ok) {
                if let Ok(far) = TcpStream::connect(("127.0.0.1", broker)) {
                    join(&line, host, far);
                }
            }
        });
        Self { port, inner }
    }

    /// Settings that make a daemon use it.
    pub fn settings(&self) -> String {
        format!("[broker]\nurls = [\"ws://127.0.0.1:{}/ws\"]\n", self.port)
    }

    /// From now on it does this. Connections end when it is cut, and when it hears again: what was swallowed is lost.
    ///
    /// # Panics
    /// If a thread of it did.
    pub fn set(&self, state: State) {
        let before = self.inner.state.swap(state as u8, Ordering::SeqCst);
        if state == State::Cut || before == State::Deaf as u8 {
            self.inner.hang_up();
        }
    }
}

fn join(line: &Arc<Inner>, host: TcpStream, far: TcpStream) {
    let copies =
        || Some([host.try_clone().ok()?, far.try_clone().ok()?, host.try_clone().ok()?, far.try_clone().ok()?]);
    let Some([host_in, far_out, host_out, far_in]) = copies() else { return };
    line.ends.lock().expect("nobody has panicked").extend([host, far]);
    // Looked at once they can be hung up.
    if line.is(State::Cut) {
        line.hang_up();
        return;
    }
    thread::spawn(move || copy(host_in, far_out, || true));
    let line = Arc::clone(line);
    thread::spawn(move || copy(far_in, host_out, || !line.is(State::Deaf)));
}

fn copy(mut from: TcpStream, mut to: TcpStream, lets_through: impl Fn() -> bool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if lets_through() && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
    from.shutdown(Shutdown::Both).ok();
}
