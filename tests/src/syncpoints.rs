//! Sync points of the program under test: wait until a process is between a write and its acknowledgement, hold it
//! there, or kill it there.
//!
//! The listener is a unix socket whose path stands in `HOSTEL_SYNC_POINTS` of every process that is to be heard. Each
//! process reports every point that it reaches and waits for one byte. One point at a time is armed; all others get their
//! byte at once. Points exist in builds with debug assertions only.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::procfs::Identity;
use crate::wait;

/// The environment variable with the path of the listener.
pub const VARIABLE: &str = "HOSTEL_SYNC_POINTS";

/// What happens to the process that reaches the armed point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Then {
    Hold,
    Kill,
}

struct Armed {
    point: String,
    /// The point is passed this many times before it counts.
    skip: u64,
    then: Then,
}

#[derive(Default)]
struct State {
    reached: BTreeMap<String, u64>,
    armed: Option<Armed>,
    met: Option<Identity>,
    held: Option<UnixStream>,
    ended: bool,
}

/// A listener for the points of one test.
pub struct SyncPoints {
    path: PathBuf,
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl SyncPoints {
    /// Listens in a directory of the test.
    ///
    /// # Panics
    /// If the socket cannot be made.
    pub fn listen(directory: &Path) -> Self {
        let path = directory.join("points.sock");
        let listener = UnixListener::bind(&path).expect("a socket for sync points");
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if lock(&shared.0).ended {
                    return;
                }
                answer(&shared, stream);
            }
        });
        Self { path, state, thread: Some(thread) }
    }

    /// The variable and its value for the environment of the processes under test.
    ///
    /// # Panics
    /// If the directory's name is not text.
    pub fn variable(&self) -> (String, String) {
        (VARIABLE.to_owned(), self.path.to_str().expect("a plain path").to_owned())
    }

    /// Has the next process that reaches this point killed with SIGKILL before it goes on.
    pub fn kill_next(&self, point: &str) {
        self.kill_after(point, 0);
    }

    /// The same after the point was passed this many times.
    pub fn kill_after(&self, point: &str, skip: u64) {
        self.arm(point, skip, Then::Kill);
    }

    /// Has the next process that reaches this point stay there until `release`.
    pub fn hold_next(&self, point: &str) {
        self.arm(point, 0, Then::Hold);
    }

    fn arm(&self, point: &str, skip: u64, then: Then) {
        let mut state = lock(&self.state.0);
        assert!(state.held.is_none(), "a process is still held at another point");
        state.met = None;
        state.armed = Some(Armed { point: point.to_owned(), skip, then });
    }

    /// The process that reached the armed point, if one did within this time. One that was to be killed is dead.
    pub fn met_within(&self, limit: Duration) -> Option<Identity> {
        let end = Instant::now() + limit;
        let mut state = lock(&self.state.0);
        while state.met.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.state.1.wait_timeout(state, left).expect("nobody panics while holding it").0;
        }
        state.met
    }

    /// The process that reached the armed point.
    ///
    /// # Panics
    /// If none does: with the names of all points that were reached.
    pub fn met(&self) -> Identity {
        self.met_within(wait::LIMIT).unwrap_or_else(|| panic!("{}", self.explain()))
    }

    /// What is armed and what was reached so far, for a message.
    pub fn explain(&self) -> String {
        let state = lock(&self.state.0);
        let armed = state.armed.as_ref().map_or("nothing", |armed| &armed.point);
        format!("waiting for the point {armed}; reached so far: {:?}", state.reached)
    }

    /// Lets the held process go on.
    pub fn release(&self) {
        let held = lock(&self.state.0).held.take();
        if let Some(mut held) = held {
            // A process that was killed meanwhile needs no permission.
            held.write_all(b"1").ok();
        }
    }

    /// Lets the held process go on and has the next one at this point killed, with nothing in between: the held process
    /// may be there at once.
    pub fn release_and_kill_next(&self, point: &str) {
        let mut state = lock(&self.state.0);
        let held = state.held.take();
        state.met = None;
        state.armed = Some(Armed { point: point.to_owned(), skip: 0, then: Then::Kill });
        if let Some(mut held) = held {
            held.write_all(b"1").ok();
        }
    }

    /// Holds and kills nobody any more.
    pub fn disarm(&self) {
        lock(&self.state.0).armed = None;
        self.release();
    }

    /// How often each point was reached.
    pub fn reached(&self) -> BTreeMap<String, u64> {
        lock(&self.state.0).reached.clone()
    }
}

impl Drop for SyncPoints {
    fn drop(&mut self) {
        lock(&self.state.0).ended = true;
        self.disarm();
        // The thread waits for a connection; without its socket nobody can wake it, and it ends with the test.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            thread.join().ok();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics while holding it")
}

/// Reads which process is where, and lets it go on, holds it or kills it. Nothing here waits for long: every process
/// writes its line at once.
fn answer(shared: &(Mutex<State>, Condvar), mut stream: UnixStream) {
    stream.set_read_timeout(Some(wait::LIMIT)).ok();
    let mut line = String::new();
    if BufReader::new(&stream).read_line(&mut line).is_err() {
        return;
    }
    let Some((process, point)) = parse(&line) else { return };
    let mut state = lock(&shared.0);
    *state.reached.entry(point.to_owned()).or_default() += 1;
    let met_before = state.met.is_some();
    let then = match &mut state.armed {
        Some(armed) if armed.point == point && armed.skip > 0 => {
            armed.skip -= 1;
            None
        }
        Some(armed) if armed.point == point && !met_before => Some(armed.then),
        _ => None,
    };
    match then {
        None => drop(stream.write_all(b"1")),
        Some(then) => {
            if then == Then::Kill {
                process.signal(Signal::KILL);
                process.wait_gone(wait::LIMIT);
            } else {
                state.held = Some(stream);
            }
            state.met = Some(process);
            shared.1.notify_all();
        }
    }
}

fn parse(line: &str) -> Option<(Identity, &str)> {
    let (pid, point) = line.strip_suffix('\n')?.split_once(' ')?;
    Some((Identity::of(pid.parse().ok()?)?, point))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn report(path: &Path, pid: u32, point: &str) -> UnixStream {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(format!("{pid} {point}\n").as_bytes()).unwrap();
        stream.set_read_timeout(Some(wait::LIMIT)).unwrap();
        stream
    }

    #[test]
    fn a_process_goes_on_is_held_or_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let points = SyncPoints::listen(directory.path());
        let (own, mut byte) = (std::process::id(), [0]);
        assert_eq!(report(&points.path, own, "a.b.c").read(&mut byte).unwrap(), 1);
        points.hold_next("a.b.d");
        assert_eq!(report(&points.path, own, "a.b.c").read(&mut byte).unwrap(), 1);
        assert_eq!(points.met_within(Duration::ZERO), None);
        let mut held = report(&points.path, own, "a.b.d");
        assert_eq!(points.met().pid, i32::try_from(own).unwrap());
        points.release();
        assert_eq!(held.read(&mut byte).unwrap(), 1);
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        points.kill_after("a.b.e", 1);
        assert_eq!(report(&points.path, child.id(), "a.b.e").read(&mut byte).unwrap(), 1);
        assert!(child.try_wait().unwrap().is_none());
        drop(report(&points.path, child.id(), "a.b.e"));
        points.met();
        assert!(!child.wait().unwrap().success());
        assert_eq!(points.reached()["a.b.c"], 2);
        assert!(points.explain().contains("a.b.e"), "{}", points.explain());
    }
}
