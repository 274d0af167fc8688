//! Shell tools and other offspring.
//!
//! As with the real CLIs a tool has a session of its own, so that a signal to the CLI's process group does not reach
//! it. It is this very program under another name that prepares the child and becomes the shell.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::inbox::Arrival;

/// Longest life of what nobody ends.
pub(crate) const LIFE: Duration = Duration::from_secs(900);
/// Most output of a tool that is kept.
const LARGEST: u64 = 1 << 20;
const TOOL: &str = "fakecli-tool";
const MORTAL_TOOL: &str = "fakecli-mortal-tool";
const HOLDER: &str = "fakecli-holder";

/// The running tool's process group, 0 if none runs.
static RUNNING: AtomicI32 = AtomicI32::new(0);

pub(crate) fn is_helper(name: &str) -> bool {
    [TOOL, MORTAL_TOOL, HOLDER].contains(&name)
}

/// What this program does under a helper's name. Never comes back.
pub(crate) fn help(name: &str, mut arguments: impl Iterator<Item = OsString>) -> ! {
    rustix::process::setsid().ok();
    if name == HOLDER {
        thread::sleep(LIFE);
        std::process::exit(0);
    }
    if name == MORTAL_TOOL {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a death signal can be asked for");
    }
    let command = arguments.next().expect("a command");
    let problem = Command::new("/bin/sh").arg("-c").arg(command).exec();
    panic!("no shell: {problem}");
}

/// Starts a command; its end will arrive under the number returned. A mortal one dies with this program.
pub(crate) fn start(command: &str, directory: &str, mortal: bool, sender: Sender<Arrival>) -> u64 {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let number = STARTED.fetch_add(1, Ordering::SeqCst);
    let (mut output, input) = io::pipe().expect("a pipe");
    let errors = input.try_clone().expect("a pipe can be shared");
    let me = env::current_exe().expect("a running program has a path");
    let mut child = Command::new(me)
        .arg0(if mortal { MORTAL_TOOL } else { TOOL })
        .arg(command)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(errors)
        .spawn()
        .expect("a tool can be started");
    RUNNING.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
    thread::spawn(move || {
        let (done, is_done) = mpsc::channel();
        let text = thread::spawn(move || {
            let mut text = Vec::new();
            (&mut output).take(LARGEST).read_to_end(&mut text).unwrap_or(0);
            done.send(text).ok();
        });
        let status = child.wait().expect("a child ends");
        RUNNING.store(0, Ordering::SeqCst);
        // What it left behind may hold the pipe; the answer does not wait for that.
        let said = is_done.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
        drop(text);
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
        sender.send(Arrival::Tool { number, output: String::from_utf8_lossy(&said).into_owned(), code }).ok();
    });
    number
}

/// Ends the running tool with all of its group.
pub(crate) fn end_running() {
    if let Some(group) = Pid::from_raw(RUNNING.load(Ordering::SeqCst)) {
        rustix::process::kill_process_group(group, Signal::KILL).ok();
    }
}

/// A process that holds standard output and has nothing to do with us any more; its id.
pub(crate) fn leave_holder() -> u32 {
    let me = env::current_exe().expect("a running program has a path");
    let child = Command::new(me).arg0(HOLDER).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    child.expect("a grandchild can be started").id()
}

/// Becomes a process that hears no polite signal and does nothing.
pub(crate) fn hang() -> ! {
    // What is ignored stays ignored across exec; the program keeps its pid and its pipes.
    let script = format!("trap '' TERM INT HUP; exec sleep {}", LIFE.as_secs());
    let problem = Command::new("/bin/sh").arg("-c").arg(script).exec();
    panic!("no shell: {problem}");
}
