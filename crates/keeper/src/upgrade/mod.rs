//! Replacing the running keeper by another build of itself, without a child noticing.
//!
//! The pump parks between two records, everything known goes into a memfd as frames of the wire
//! protocol, the new build reads it once for trial (`--check-state`), then takes our place by
//! `exec`: same process id, same children, same lock, same listening socket. Whatever fails before
//! that leaves the old build running as if nothing had been asked.

mod state;

use std::ffi::CString;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use zeroize::Zeroizing;

pub use state::fuzz_state;
pub(crate) use state::{Resumed, proof_of_reading, read_state};

use crate::child_table::Slot;
use crate::control::Control;
use crate::key::{HouseKey, KEY_BYTES};
use crate::launch;
use crate::proto::{Builder, kind};
use crate::pump::{ParkedChild, ParkedPump};
use crate::state::{Command, Event, NewChild};
use crate::sys;
use state::write_state;

/// How long the pump may take to park (it may be inside a slow write).
const PARK_LIMIT: Duration = Duration::from_secs(2);
/// How long the new build may take to read the state.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Becomes the program behind a descriptor. Returns only when it could not be done; the text says why.
pub(crate) fn upgrade(control: &mut Control, conn: u64, corr: u64, program: &OwnedFd) -> Result<(), String> {
    if control.children.iter().any(|slot| slot.starting.is_some()) {
        return Err("a process is just being started; try again".to_owned());
    }
    let parked = park(control)?;
    let attempt = pass_on_key(control).and_then(|secrets| {
        let state = write_state(control, &parked, &secrets)?;
        Ok((state, secrets))
    });
    let attempt = attempt.map_err(|error| format!("cannot write the state: {error}")).and_then(|(state, secrets)| {
        check(program, &state)?;
        Ok((state, secrets))
    });
    let (state, secrets) = match attempt {
        Ok(written) => written,
        Err(text) => {
            unpark(control, parked);
            return Err(text);
        }
    };
    control.reply(conn, |out| Builder::new(out, kind::DONE, corr).finish());
    let kept = kept_descriptors(control, &parked, [&state, &secrets]);
    set_inherited(&kept, true);
    let argv: Vec<CString> = ["hostel", crate::SUBCOMMAND, "--resume-state", &state.as_raw_fd().to_string()]
        .iter()
        .filter_map(|word| CString::new(*word).ok())
        .collect();
    let error = sys::exec_descriptor(program.as_fd(), &argv);
    set_inherited(&kept, false);
    unpark(control, parked);
    // It was told that we go; the end of the connection makes it look again.
    control.drop_conn(conn as u32);
    Err(format!("cannot execute the new program: {error}"))
}

fn park(control: &mut Control) -> Result<ParkedPump, String> {
    control.commands.push(Command::Park);
    let deadline = Instant::now() + PARK_LIMIT;
    loop {
        let mut parked = None;
        for event in control.events.take() {
            match event {
                Event::Parked(pump) => parked = Some(*pump),
                other => control.take_event(other),
            }
        }
        if let Some(parked) = parked {
            return Ok(parked);
        }
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err("output is being written to a slow disk; try again".to_owned());
        }
        let timeout =
            rustix::event::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let bell = control.events.bell();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(bell, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&timeout)).ok();
    }
}

/// Starts the pump again in this image of the program.
pub(crate) fn unpark(control: &mut Control, parked: ParkedPump) {
    let mut pairs = Vec::new();
    for child in parked.children {
        if let Some(slot) = control.children.get(child.key) {
            pairs.push(reunite(slot, child));
        }
    }
    // Without a pump nothing can be kept; leaving lets the next keeper say so of every process.
    if launch::start_pump(
        &control.setting,
        &control.commands,
        &control.events,
        parked.limits,
        pairs,
        Some(parked.notes),
    )
    .is_err()
    {
        control.give_up();
    }
}

/// What the pump is told of a child when it takes it up again.
pub(crate) fn reunite(slot: &Slot, mut parked: ParkedChild) -> (NewChild, ParkedChild) {
    let new = NewChild {
        key: slot.key,
        id: slot.id,
        label: slot.label.clone(),
        pid: slot.pid,
        start_ns: slot.start_ns,
        stdout: parked.stdout.take(),
        stderr: parked.stderr.take(),
        quota: slot.quota,
        on_full: slot.on_full,
        bounds: slot.bounds,
        progress: Arc::clone(&slot.progress),
    };
    (new, parked)
}

/// Everything that must stay open over the exec.
fn kept_descriptors<'a>(
    control: &'a Control,
    parked: &'a ParkedPump,
    written: [&'a OwnedFd; 2],
) -> Vec<BorrowedFd<'a>> {
    let mut kept = vec![control.lock.as_fd(), control.listener.as_fd(), control.setting.journal.as_fd()];
    kept.extend(written.map(AsFd::as_fd));
    for slot in control.children.iter() {
        kept.extend(slot.stdin.borrow().into_iter().chain(slot.held_stdout.as_ref().map(AsFd::as_fd)));
    }
    for child in &parked.children {
        kept.extend([&child.stdout, &child.stderr].into_iter().flatten().map(AsFd::as_fd));
    }
    kept
}

fn set_inherited(descriptors: &[BorrowedFd<'_>], inherited: bool) {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    for fd in descriptors {
        rustix::io::fcntl_setfd(fd, flags).ok();
    }
}

/// Puts the house key where only the next image of this process can read it: into a socket. Between its exec and its first
/// instructions a process can be looked into by others of the same user, and the kernel lets them open its files by
/// `/proc/PID/fd`, the memfd of the state among them, but no sockets.
fn pass_on_key(control: &Control) -> io::Result<OwnedFd> {
    let (near, far) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let key = control.house_key.expose();
    let sent = rustix::net::send(&near, key, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    if sent == key.len() { Ok(far) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The house key that the image before this one has passed on; a new one if it has not, or knew none.
pub(crate) fn take_key(secrets: Option<OwnedFd>) -> io::Result<HouseKey> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    let read = secrets.map(|socket| rustix::net::recv(&socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT));
    match read {
        Some(Ok((_, KEY_BYTES))) => Ok(HouseKey::from_bytes(&bytes)),
        _ => HouseKey::random(),
    }
}

/// Lets the new build read the state without acting on it. The state holds no secret but input that waits: the trial is an
/// ordinary process that others of the same user can look into.
fn check(program: &OwnedFd, state: &OwnedFd) -> Result<(), String> {
    let copy = rustix::io::dup(state).map_err(|errno| format!("cannot copy the state: {errno}"))?;
    // The new process has our descriptors until its exec, so the name leads to the very file that was checked.
    let mut trial = Process::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .args([crate::SUBCOMMAND, "--check-state"])
        .stdin(Stdio::from(copy))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env_clear()
        .spawn()
        .map_err(|error| format!("cannot try the new program: {error}"))?;
    let deadline = Instant::now() + CHECK_LIMIT;
    loop {
        match trial.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("the new program does not understand the state ({status})")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                drop(trial.kill());
                drop(trial.wait());
                return Err("the new program did not read the state in time".to_owned());
            }
        }
    }
    // An exit code alone could be any program's: the proof can only come from having read it.
    let mut said = String::new();
    if let Some(output) = trial.stdout.take() {
        output.take(256).read_to_string(&mut said).map_err(|error| error.to_string())?;
    }
    let copy = rustix::io::dup(state).map_err(|errno| format!("cannot copy the state: {errno}"))?;
    let expected = proof_of_reading(std::fs::File::from(copy)).map_err(|error| error.to_string())?;
    if said == expected { Ok(()) } else { Err("the new program is not a keeper".to_owned()) }
}
