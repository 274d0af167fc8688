//! The process that serves a unix socket, for whoever connects to one.
//!
//! Every process of a user can put a socket into the place of a house's own, or of its keeper's. So whoever connects looks
//! at the process that listens before anything is sent that matters: the daemon at its keeper, a command at the daemon.
//!
//! | what is found | what follows |
//! |---|---|
//! | another user's process, one that is further inside a house than it should be, one that has ended and left its socket to somebody else | [`ServerError`] |
//! | a process whose program can be seen and is not the expected one, a process that cannot be looked at | [`Served::doubt`], or an error at the keeper |
//!
//! What is expected of the other process never depends on the present limit of this one: every process of the user can
//! lower that ([`marks`]). A process that began as a hosted one may use a house that is inside as well; it tells that one
//! no secret, and could not decide anything anyway.
//!
//! Limits: programs of ours hide their memory, and the kernel hides the program file of such a process from its user. A
//! process outside every house that hides itself is therefore not told from a daemon. Those are trusted, see SECURITY.md.

use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::standing::Standing;
use crate::{lookups, marks, proc, sys};

/// What the kernel appends to the name of a program file that was removed.
const DELETED: &str = " (deleted)";

/// Why a process is not the one that should serve a socket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerError {
    /// It is another user's.
    OtherUser {
        /// That user.
        uid: u32,
    },
    /// It runs inside a house, and the one that should be there does not.
    Inside {
        /// Its process id.
        pid: u32,
        /// What it shows of its program.
        program: String,
    },
    /// It runs another program.
    OtherProgram {
        /// Its process id.
        pid: u32,
        /// The program.
        program: String,
    },
    /// This process runs inside a house, or another process has lowered its limit of file locks.
    ThisIsInside,
    /// It has ended, and left its socket to another process: no daemon does that.
    Ended,
    /// It cannot be looked at.
    Unknown {
        /// Why.
        reason: &'static str,
    },
}

impl ServerError {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            ServerError::Inside { pid, .. } | ServerError::OtherProgram { pid, .. } => {
                format!("nothing was sent to it; end it (`kill {pid}`) and start the house outside with `hostel up`")
            }
            ServerError::Ended => "start the house with `hostel up`".to_owned(),
            ServerError::OtherUser { .. } => "choose a house of your own (`--home`, `HOSTEL_HOME`)".to_owned(),
            ServerError::ThisIsInside => {
                "use a new terminal outside of every house; a daemon of which this is said has to be ended and started again"
                    .to_owned()
            }
            ServerError::Unknown { .. } => {
                "run the command in the process namespace of the house, then try again".to_owned()
            }
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::OtherUser { uid } => write!(formatter, "a process of user {uid} answers there"),
            ServerError::Inside { pid, program } => {
                write!(
                    formatter,
                    "process {pid} (`{program}`) answers there, and by its limit of file locks it runs inside a house"
                )
            }
            ServerError::OtherProgram { pid, program } => {
                write!(formatter, "process {pid} answers there, and it runs `{program}`")
            }
            ServerError::ThisIsInside => formatter.write_str(
                "this process runs inside a house, or another one has lowered its limit of file locks (`ulimit -H -x`)",
            ),
            ServerError::Ended => formatter.write_str("the process that began to listen there has ended"),
            ServerError::Unknown { reason } => write!(formatter, "the process that answers there {reason}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// The process that serves a socket, after nothing was found against it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Why it may be another program all the same. Then it is told no secret.
    pub doubt: Option<ServerError>,
}

/// Looks at the process that serves the socket of a house's daemon.
///
/// # Errors
/// It cannot be the daemon of a house that this process may trust.
pub async fn daemon(socket: impl AsFd) -> Result<Served, ServerError> {
    let process = match process_of(socket) {
        Ok(process) => process,
        Err(error @ ServerError::Unknown { .. }) => return Ok(Served { doubt: Some(error) }),
        Err(error) => return Err(error),
    };
    let looked = lookups::run(move || look_at_daemon(&process)).await;
    looked.unwrap_or(Ok(Served { doubt: Some(UNANSWERED) }))
}

/// Looks at the process that serves the socket of a keeper. `program` is what this process would start as a keeper.
///
/// # Errors
/// It cannot be the keeper of a house whose daemon this process may be, or it could not be looked at.
pub async fn keeper(socket: impl AsFd, program: &Path) -> Result<Process, ServerError> {
    let process = process_of(socket)?;
    let program = program.to_owned();
    lookups::run(move || look_at_keeper(&process, &program).map(|()| process)).await.unwrap_or(Err(UNANSWERED))
}

const UNANSWERED: ServerError = ServerError::Unknown { reason: "could not be looked at in time" };
const GONE: ServerError = ServerError::Unknown { reason: "has ended, or cannot be looked at" };

/// The process that listens. Makes system calls that do not wait.
fn process_of(socket: impl AsFd) -> Result<Process, ServerError> {
    match sys::peer_credentials(&socket) {
        Ok((_, uid)) if uid != rustix::process::geteuid().as_raw() => return Err(ServerError::OtherUser { uid }),
        Ok((None, _)) => return Err(ServerError::Unknown { reason: "is in another process namespace" }),
        Ok(_) => {}
        Err(_) => return Err(GONE),
    }
    Process::of_socket(&socket).filter(Process::is_alive).ok_or(ServerError::Ended)
}

fn look_at_daemon(process: &Process) -> Result<Served, ServerError> {
    match Standing::of(process) {
        Standing::Unknown if !process.is_alive() => Err(ServerError::Ended),
        Standing::Unknown => Ok(Served { doubt: Some(GONE) }),
        // This process knows that it is a hosted one, and the daemon is that of a house beside it.
        Standing::Insider if marks::is_nested() && !is_below(process).unwrap_or(true) => {
            Ok(Served { doubt: Some(ServerError::ThisIsInside) })
        }
        Standing::Insider => Err(ServerError::Inside { pid: process.pid(), program: shown(process) }),
        Standing::Owner | Standing::OtherUser | Standing::Remote => Ok(Served { doubt: other_program(process, None) }),
    }
}

fn look_at_keeper(process: &Process, program: &Path) -> Result<(), ServerError> {
    this_process()?;
    if is_below(process).ok_or(GONE)? {
        return Err(ServerError::Inside { pid: process.pid(), program: shown(process) });
    }
    // A keeper lets in nobody who is further inside than it may be itself.
    let limit = process.look_up(|pid, _| proc::lock_limit_of(pid)).ok_or(GONE)?;
    if marks::is_nested() && marks::lowest_outside() < limit {
        return Err(ServerError::ThisIsInside);
    }
    other_program(process, Some(program)).map_or(Ok(()), Err)
}

/// Checks that this process can be the daemon of a house.
///
/// # Errors
/// It carries the mark of a hosted process and does not know that it is one.
pub fn this_process() -> Result<(), ServerError> {
    if marks::is_marked_unexpectedly() { Err(ServerError::ThisIsInside) } else { Ok(()) }
}

/// Whether a process that serves has the limits of a hosted one by now. `None` if it could not be looked at.
pub async fn is_inside(process: &Process) -> Option<bool> {
    let process = process.clone();
    lookups::run(move || is_below(&process)).await.flatten()
}

/// Whether a process is further inside than what a house is run by that this process may use.
fn is_below(process: &Process) -> Option<bool> {
    process.look_up(|pid, _| Some(proc::lock_limit_of(pid)? < marks::lowest_outside()))
}

fn shown(process: &Process) -> String {
    process.look_up(|pid, _| proc::program_of(pid)).unwrap_or_else(|| "unknown".to_owned())
}

/// The program of a process, if it can be seen and is neither this one nor `expected`, now or before it was replaced.
/// Root sees every program, also that of a house that was installed elsewhere: there nothing follows from it.
fn other_program(process: &Process, expected: Option<&Path>) -> Option<ServerError> {
    if rustix::process::geteuid().is_root() {
        return None;
    }
    let found = process.look_up(|pid, _| Program::of(&format!("/proc/{pid}/exe")))?;
    let own = Program::of("/proc/self/exe");
    let expected = expected.and_then(|path| Program::of(path.to_str()?));
    match [own, expected].into_iter().flatten().any(|known| known.is(&found)) {
        true => None,
        false => Some(ServerError::OtherProgram { pid: process.pid(), program: found.path.display().to_string() }),
    }
}

/// A program file.
struct Program {
    file: (u64, u64),
    /// Where it is, or was.
    path: PathBuf,
}

impl Program {
    fn of(path: &str) -> Option<Program> {
        let metadata = fs::metadata(path).ok()?;
        let path = fs::read_link(path).unwrap_or_else(|_| path.into());
        let name = path.to_string_lossy().into_owned();
        let path = name.strip_suffix(DELETED).map_or(path, PathBuf::from);
        Some(Program { file: (metadata.dev(), metadata.ino()), path })
    }

    fn is(&self, other: &Program) -> bool {
        self.file == other.file || self.path == other.path
    }
}
