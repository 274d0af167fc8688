//! Starting a process, and its input.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hostel_syncpoint::points;
use rustix::event::epoll;
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::{Control, FAILURE, STDIN, event_key};
use crate::child_table::{Flow, Slot, Starting, Stdin};
use crate::key::OwnerToken;
use crate::proto::{Builder, Phase, Spawn, Stage, StdinKind, kind, tag};
use crate::pump::now_ns;
use crate::state::{Bounds, Command, NewChild, Progress, SlotKey};
use crate::sys::{self, ChildEnds, Program};

/// Size of the pipes that carry little: pipe memory is a budget of the user.
const SMALL_PIPE: usize = 16 * 1024;
/// Descriptors a child costs: three pipe ends and a journal.
const DESCRIPTORS_PER_CHILD: usize = 4;
/// Descriptors kept for everything else.
const RESERVE: usize = 32 + 64;
/// Bytes of the command line that are kept for showing.
const COMMAND_LIMIT: usize = 4096;

/// How many children the descriptor limit allows.
pub(super) fn child_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20) as usize;
    (limit * 9 / 10).saturating_sub(RESERVE) / DESCRIPTORS_PER_CHILD
}

/// The keeper's ends and the child's ends of its pipes.
struct Pipes {
    /// None where the child's input is not the keeper's business.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    failure: OwnedFd,
    child_stdin: OwnedFd,
    child_stdout: OwnedFd,
    child_stderr: OwnedFd,
    child_failure: OwnedFd,
}

/// What the child reads from.
enum Input {
    /// Ends that are yet to be made.
    Make(StdinKind),
    /// The output of another process, or a descriptor that came with the request.
    Taken(OwnedFd),
}

fn open_pipes(input: Input, holds_stdout: bool) -> rustix::io::Result<Pipes> {
    // The keeper's ends do not block; that flag belongs to the end, so the child does not see it.
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let null =
        || rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let (child_stdin, keeper_stdin) = match input {
        Input::Make(StdinKind::Pipe) => pipe().map(|(child, keeper)| (child, Some(keeper)))?,
        Input::Make(StdinKind::Socket) => {
            let (child, keeper) =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            (child, Some(keeper))
        }
        Input::Make(StdinKind::Null | StdinKind::From | StdinKind::Descriptor) => (null()?, None),
        Input::Taken(fd) => (fd, None),
    };
    let (stdout, child_stdout) = pipe()?;
    let (stderr, child_stderr) = pipe()?;
    let (failure, child_failure) = pipe()?;
    // What is held becomes another child's input, which must wait like any other.
    let read_here = (!holds_stdout).then_some(&stdout);
    for end in keeper_stdin.iter().chain(read_here).chain([&stderr, &failure]) {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    for end in keeper_stdin.iter().chain([&stderr]) {
        // Refused for a socket pair, and without consequence when refused.
        rustix::pipe::fcntl_setpipe_size(end, SMALL_PIPE).ok();
    }
    Ok(Pipes { stdin: keeper_stdin, stdout, stderr, failure, child_stdin, child_stdout, child_stderr, child_failure })
}

fn prepare(spawn: &Spawn, file: Option<OwnedFd>) -> Option<Program> {
    let strings =
        |list: &[Vec<u8>]| list.iter().map(|bytes| CString::new(bytes.as_slice()).ok()).collect::<Option<Vec<_>>>();
    Some(Program {
        path: CString::new(spawn.program.as_slice()).ok()?,
        argv: strings(&spawn.argv)?,
        env: strings(&spawn.env)?,
        cwd: CString::new(spawn.cwd.as_slice()).ok()?,
        umask: spawn.umask,
        nofile: spawn.nofile,
        own_session: spawn.terms.is_some(),
        limit_tag: spawn.terms.map_or(0, |terms| terms.limit_tag),
        pin: spawn.terms.and_then(|terms| terms.pin),
        execute: match spawn.execute {
            Some(execute) => Some((file?, execute)),
            None => None,
        },
    })
}

fn command_line(argv: &[Vec<u8>]) -> Vec<u8> {
    let mut line = argv.join(&b' ');
    line.truncate(COMMAND_LIMIT);
    line
}

impl Control {
    /// Starts a process; the answer follows when its exec has worked or failed.
    /// `descriptors` came with the request: first the program, if one is to be executed, then its standard input.
    pub(super) fn spawn(&mut self, conn: u64, corr: u64, spawn: Spawn, descriptors: Vec<OwnedFd>) {
        if let Some(key) = self.children.key_of(spawn.id) {
            return self.answer_again(conn, corr, key);
        }
        let terms = spawn.terms.unwrap_or_default();
        if terms.only_if_known {
            return self.spawn_failed(conn, corr, Stage::Unknown, 0, "");
        }
        if self.stopping.is_some() {
            return self.spawn_failed(conn, corr, Stage::Limit, 0, "the keeper is stopping");
        }
        if spawn.label.len() > hostel_journal::MAX_LABEL {
            let text = format!("a label may have {} bytes", hostel_journal::MAX_LABEL);
            return self.spawn_failed(conn, corr, Stage::Limit, 0, &text);
        }
        if self.children.living() >= self.child_limit {
            let text = format!(
                "{} processes are running, which is as many as the limit of open files allows",
                self.child_limit
            );
            return self.spawn_failed(conn, corr, Stage::Limit, 0, &text);
        }
        let mut descriptors = descriptors.into_iter();
        let file = spawn.execute.and_then(|_| descriptors.next());
        let Some(program) = prepare(&spawn, file) else {
            return self.spawn_failed(conn, corr, Stage::Exec, rustix::io::Errno::INVAL.raw_os_error(), "");
        };
        let input = match self.input_of(&spawn, descriptors.next()) {
            Ok(input) => input,
            Err(text) => {
                return self.spawn_failed(conn, corr, Stage::Setup, rustix::io::Errno::BADF.raw_os_error(), text);
            }
        };
        let pipes = match open_pipes(input, terms.holds_stdout) {
            Ok(pipes) => pipes,
            Err(errno) => return self.spawn_failed(conn, corr, Stage::Setup, errno.raw_os_error(), ""),
        };
        // A stage carries its mark among its limits; making and removing a cgroup costs as much as a tenth of its life.
        let in_cgroup = spawn.terms.is_none_or(|terms| terms.own_cgroup);
        let cgroups = self.cgroups.as_ref().filter(|_| in_cgroup);
        let cgroup = cgroups.and_then(|cgroups| cgroups.prepare(spawn.id));
        let ends = ChildEnds {
            stdin: pipes.child_stdin.as_fd(),
            stdout: pipes.child_stdout.as_fd(),
            stderr: pipes.child_stderr.as_fd(),
            failure: pipes.child_failure.as_fd(),
            cgroup: cgroup.as_ref().map(AsFd::as_fd),
        };
        let start_ns = now_ns();
        let own_session = program.own_session;
        let (pid, birth) = match sys::start(program, &ends) {
            Ok(started) => started,
            Err(error) => return self.spawn_failed(conn, corr, Stage::Setup, error.raw_os_error().unwrap_or(0), ""),
        };
        // A leader of a group cannot begin a session: such a child is left to do it alone.
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32).filter(|_| !own_session) {
            // The child does the same; whoever is first, a signal to the group finds it. Refused once
            // it has executed its program, and then it was done.
            rustix::process::setpgid(Some(pid), Some(pid)).ok();
        }
        let key = self.children.next_key();
        // If this fails the process could not be told from one that never starts: give it up.
        if epoll::add(&self.epoll, &pipes.failure, event_key(FAILURE, key.slot, key.generation), epoll::EventFlags::IN)
            .is_err()
        {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
            // Nobody will say when it has ended.
            birth.give_up();
            return self.spawn_failed(conn, corr, Stage::Setup, rustix::io::Errno::NOSPC.raw_os_error(), "");
        }
        let (stdout, held_stdout) =
            if terms.holds_stdout { (None, Some(pipes.stdout)) } else { (Some(pipes.stdout), None) };
        self.children.insert(Slot {
            key,
            id: spawn.id,
            label: spawn.label,
            command: command_line(&spawn.argv),
            pid,
            start_ns,
            quota: spawn.quota,
            on_full: spawn.on_full,
            bounds: Bounds::of(spawn.terms.as_ref()),
            stdin: Stdin { fd: pipes.stdin, ..Stdin::default() },
            owner: spawn.owner.as_ref().map(OwnerToken::digest),
            held_stdout,
            starting: Some(Starting {
                failure: pipes.failure,
                stdout,
                stderr: pipes.stderr,
                waiters: vec![(conn, corr)],
                marks: Vec::new(),
                _birth: birth,
            }),
            observed: None,
            ended: None,
            progress: Arc::new(Progress::default()),
        });
    }

    /// What a new process reads from. Output that is held for it is taken, whether or not it can be started then.
    fn input_of(&mut self, spawn: &Spawn, given: Option<OwnedFd>) -> Result<Input, &'static str> {
        match spawn.stdin {
            StdinKind::From => {}
            StdinKind::Descriptor => {
                return given.map(Input::Taken).ok_or("the descriptor for the standard input did not come");
            }
            other => return Ok(Input::Make(other)),
        }
        let producer = spawn.terms.and_then(|terms| terms.stdin_from).and_then(|id| self.children.key_of(id));
        let held = producer.and_then(|key| self.children.get_mut(key)).and_then(|slot| slot.held_stdout.take());
        held.map(Input::Taken).ok_or("there is no held output to read from")
    }

    /// A known id gets its first answer again, never a second process.
    fn answer_again(&mut self, conn: u64, corr: u64, key: SlotKey) {
        let Some(slot) = self.children.get_mut(key) else { return };
        match &mut slot.starting {
            Some(starting) => starting.waiters.push((conn, corr)),
            None => self.spawned(conn, corr, key),
        }
    }

    fn spawned(&mut self, conn: u64, corr: u64, key: SlotKey) {
        let Some((pid, start_ns)) = self.children.get(key).map(|slot| (slot.pid, slot.start_ns)) else { return };
        points::KEEPER_SPAWNED.reach();
        self.reply(conn, |out| {
            Builder::new(out, kind::SPAWNED, corr).u32(tag::PID, pid).u64(tag::START_NS, start_ns).finish();
        });
    }

    fn spawn_failed(&mut self, conn: u64, corr: u64, stage: Stage, errno: i32, text: &str) {
        self.reply(conn, |out| {
            Builder::new(out, kind::FAILED, corr)
                .u32(tag::STAGE, stage.to_wire())
                .i32(tag::ERRNO, errno)
                .bytes(tag::TEXT, text.as_bytes())
                .finish();
        });
    }

    /// The failure pipe has spoken: eight bytes, or its end.
    pub(super) fn exec_outcome(&mut self, key: SlotKey) {
        let Some(slot) = self.children.get_mut(key) else { return };
        let Some(starting) = &slot.starting else { return };
        let mut message = [0u8; 8];
        let Ok(read) = rustix::io::read(&starting.failure, &mut message) else { return };
        let Some(starting) = slot.starting.take() else { return };
        epoll::delete(&self.epoll, &starting.failure).ok();
        if read == message.len() {
            let [s0, s1, s2, s3, e0, e1, e2, e3] = message;
            let stage = Stage::from_wire(u32::from_le_bytes([s0, s1, s2, s3])).unwrap_or(Stage::Setup);
            let errno = i32::from_le_bytes([e0, e1, e2, e3]);
            self.detach_stdin(key);
            // Its zombie is reaped like a stranger's: nothing knows its id any more.
            if let (Some(slot), Some(cgroups)) = (self.children.remove(key), &self.cgroups) {
                cgroups.remove(slot.id);
            }
            for (conn, corr) in starting.waiters {
                self.spawn_failed(conn, corr, stage, errno, "");
            }
            return self.look_for_ended();
        }
        self.commands.push(Command::Add(Box::new(NewChild {
            key,
            id: slot.id,
            label: slot.label.clone(),
            pid: slot.pid,
            start_ns: slot.start_ns,
            stdout: starting.stdout,
            stderr: Some(starting.stderr),
            quota: slot.quota,
            on_full: slot.on_full,
            bounds: slot.bounds,
            progress: Arc::clone(&slot.progress),
        })));
        for mark in starting.marks {
            self.commands.push(mark);
        }
        // A stage is often over before this would be done; the pump does it for one that is not.
        if slot.bounds == Bounds::NONE {
            sys::prefer_as_victim(slot.pid);
        }
        if let Some(exit) = slot.observed {
            self.commands.push(Command::Exited(key, exit));
        }
        for (conn, corr) in starting.waiters {
            self.spawned(conn, corr, key);
        }
    }

    /// Moves queued input on and listens for room where there is none.
    pub(super) fn drive_stdin(&mut self, key: SlotKey) {
        let Some(slot) = self.children.get_mut(key) else { return };
        match slot.stdin.write() {
            Flow::Blocked if slot.stdin.attached => {}
            Flow::Blocked => {
                if let Some(fd) = slot.stdin.borrow() {
                    let added =
                        epoll::add(&self.epoll, fd, event_key(STDIN, key.slot, key.generation), epoll::EventFlags::OUT);
                    slot.stdin.attached = added.is_ok();
                }
            }
            Flow::Idle if slot.stdin.attached => {
                if let Some(fd) = slot.stdin.borrow() {
                    epoll::delete(&self.epoll, fd).ok();
                }
                slot.stdin.attached = false;
            }
            Flow::Idle => {}
            Flow::Close => self.detach_stdin(key),
        }
    }

    /// Closes a child's input, out of the epoll set first.
    pub(super) fn detach_stdin(&mut self, key: SlotKey) {
        let Some(slot) = self.children.get_mut(key) else { return };
        if slot.stdin.attached
            && let Some(fd) = slot.stdin.borrow()
        {
            epoll::delete(&self.epoll, fd).ok();
        }
        slot.stdin.close();
        debug_assert!(slot.phase() != Phase::Starting || slot.starting.is_some());
    }
}
