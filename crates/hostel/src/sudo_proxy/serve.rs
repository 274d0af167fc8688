//! `sudo-proxy`: the daemon of one socket, in the foreground of a terminal.
//!
//! Invariant: an address at which somebody answers is left alone. The socket is gone before anything else when the
//! program ends; what it runs ends with it; and a signal that ends it is what its parent sees. Killed outright, it finds
//! its requests and commands again when it is started anew.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::claustrum::Level;
use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::sudo_proxy;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::NAME;
use super::Options;
use super::complain;
use super::hosts;
use super::registry::RegistryFile;
use super::terminal;
use super::terminal::Terminal;
use super::terminal::Tty;
use super::voice;
use super::voice::Voice;
use crate::config::Settings;
use crate::config::agents::Defaults;
use crate::daemon;
use crate::daemon::House;
use crate::daemon::Opening;
use crate::daemon::Policy;
use crate::daemon::Rival;
use crate::daemon::consent;
use crate::daemon::consent::SudoProxyFace;
use crate::daemon::doors::Door;
use crate::daemon::doors::SudoProxyDoor;
use crate::daemon::log::Logs;
use crate::daemon::opening;
use crate::daemon::opening::ZeroclawFace;
use crate::daemon::sockets::Bound;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;

/// The hidden sub-command that ends by a signal: once more this program, with every signal as it was at first.
pub(crate) const DIE: &str = "die-by-signal";

/// How long a command may run, by contract, in whole seconds.
const TIME_VARIABLE: &str = "SUDO_PROXY_EXEC_TIMEOUT_SECS";

/// Notices that may wait for the terminal.
const NOTICES: usize = 64;

/// How long the terminal may take to be put in order.
const TIDYING: Duration = Duration::from_secs(1);

/// Runs the daemon until it is told to end.
pub(super) fn run(options: &Options) -> Result<ExitCode, String> {
    let plain = |error: CommandError| error.to_string();
    let socket = options.socket.clone().unwrap_or_else(hosts::default_socket);
    make_room(&socket)?;
    daemon::hide_memory();
    hostel_keeper::memory::stay_small();
    let home = paths::home(None).map_err(plain)?;
    let settings = Settings::load(&HouseDir::at(&home).config_file(), &[]).map_err(plain)?;
    let settings = adjusted(settings, options, std::env::var(TIME_VARIABLE).ok().as_deref());
    // One thread: it waits for people most of the time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let outcome = runtime.block_on(open_and_serve(&home, &socket, settings, options));
    runtime.shutdown_background();
    Ok(match outcome? {
        Some(signal) => die_by(signal),
        None => ExitCode::SUCCESS,
    })
}

/// The settings with what the command line and the user's files say over them.
fn adjusted(mut settings: Settings, options: &Options, time: Option<&str>) -> Settings {
    let ours = &mut settings.sudo_proxy;
    let file = || ours.unattended_eligible || RegistryFile::of_user().read().policy.unattended_eligible;
    ours.unattended_eligible = options.eligible.unwrap_or_else(file);
    if let Some(seconds) = time.and_then(|text| text.parse().ok()) {
        ours.exec_timeout = Duration::from_secs(seconds);
    }
    settings
}

/// Sees to it that the socket's path is free: somebody who answers there keeps it, anything else has to go.
fn make_room(socket: &Path) -> Result<(), String> {
    if socket.symlink_metadata().is_err() {
        return Ok(());
    }
    let dial = hostel_keeper::socket_path::shorten(socket).map_err(|error| error.to_string())?;
    match UnixStream::connect(dial.as_ref()) {
        Ok(_) => Err(format!("sudo-proxy is already running on {}", socket.display())),
        Err(_) => std::fs::remove_file(socket).map_err(|error| error.to_string()),
    }
}

async fn open_and_serve(
    home: &Path,
    socket: &Path,
    settings: Settings,
    options: &Options,
) -> Result<Option<Signal>, String> {
    let plain = |error: CommandError| error.to_string();
    let endpoint = paths::absolute(socket).map_err(plain)?;
    let dir = HouseDir::personality(home, NAME, &endpoint);
    dir.create().map_err(plain)?;
    let logs = Logs::open(&dir, settings.limits.log, Level::Info, None)
        .map_err(|error| format!("cannot open the log: {error}"))?;
    let mut house = House::open(dir, settings, logs, Rival::Respect, Defaults::Found).await.map_err(plain)?;
    let tty = Tty::open();
    let (lines, heard) = mpsc::channel(terminal::WAITING);
    let voice = Voice::log(tty.is_ok().then_some(&lines), &house.log).map_err(|error| error.to_string())?;
    let (notices, told) = mpsc::channel(NOTICES);
    // One question at a time: there is one terminal.
    let (passwords, wanted) = mpsc::channel(1);
    house.end_with_terminal();
    let face = SudoProxyFace {
        passwords: tty.is_ok().then_some(passwords),
        pkexec: options.pkexec,
        verbose: options.verbose,
        terminal: true,
        notices: Some(notices),
        log: voice,
    };
    let door = consent::sudo_proxy_door(&house, face).await.map_err(plain)?;
    let zeroclaw = opening::zeroclaw_door(&house, ZeroclawFace::of_house(&house)).map_err(plain)?;
    let dial = hostel_keeper::socket_path::shorten(socket).map_err(|error| error.to_string())?;
    let bound = Bound::replace(socket, dial.as_ref()).map_err(|error| error.to_string())?;
    drop(dial);
    if options.verbose {
        say_hello(socket);
    }
    let (leave, left) = oneshot::channel::<()>();
    let face = match tty {
        Ok(tty) => {
            hostel_tasks::spawn(voice::tell(told, lines));
            let terminal = Terminal {
                tty,
                approvals: house.approvals.clone(),
                lines: heard,
                passwords: wanted,
                strict: house.settings.approvals.strict,
                log: house.log.clone(),
            };
            Some(hostel_tasks::spawn(terminal.run(async { drop(left.await) })))
        }
        Err(error) => {
            house.log.info(format_args!("[sudo-proxy] there is no terminal here: {error}"));
            None
        }
    };
    let told = DoorAddress {
        name: sudo_proxy::NAME.to_owned(),
        address: endpoint.display().to_string(),
        open: true,
        note: None,
    };
    let opening = Opening {
        doors: vec![Door::SudoProxy(SudoProxyDoor { bound, door })],
        addresses: vec![opening::native_address(&house), told],
        port_file: None,
        zeroclaw,
        policy: Policy { keep_on_signal: false, doors_may_end: true, grace: Duration::ZERO },
    };
    let ended_by = house.ended_by();
    let served = house.serve(opening, || (), std::future::pending()).await;
    drop(leave);
    if let Some(face) = face {
        // Whatever it was doing, the terminal is as it was before.
        drop(tokio::time::timeout(TIDYING, face).await);
    }
    served.map_err(plain)?;
    Ok(ended_by.get().copied())
}

/// What `-v` says at the start.
fn say_hello(socket: &Path) {
    complain(&format!("sudo-proxy listening on {}", socket.display()));
    complain(match has_display() {
        true => "mode: local (TUI + pkexec)",
        false => "mode: remote (TUI + sudo)",
    });
    if agent_socket().is_some() {
        complain("ssh agent forwarding: available");
    }
}

/// Whether there is a display that pkexec could ask on.
pub(crate) fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The ssh agent this daemon may lend.
pub(crate) fn agent_socket() -> Option<PathBuf> {
    std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Ends by a signal, as whoever waits for us expects. Signals that were caught are as they were at first only in a new
/// program, so this one becomes another that sends it to itself.
fn die_by(signal: Signal) -> ExitCode {
    let number = signal.as_raw();
    let error = Command::new("/proc/self/exe").arg(DIE).arg(number.to_string()).exec();
    complain(&format!("error: cannot end by signal {number}: {error}"));
    ExitCode::from(u8::try_from(128 + number).unwrap_or(1))
}

/// The whole life of that other program.
pub(crate) fn die(number: Option<&std::ffi::OsString>) -> ExitCode {
    let number = number.and_then(|number| number.to_str()).and_then(|number| number.parse().ok());
    let signal = [Signal::TERM, Signal::INT, Signal::HUP].into_iter().find(|signal| Some(signal.as_raw()) == number);
    if let Some(signal) = signal {
        let sent: io::Result<()> = rustix::process::kill_process(rustix::process::getpid(), signal).map_err(Into::into);
        drop(sent);
    }
    // Only somebody who blocked the signal sees this.
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_answers_keeps_the_path() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("s.sock");
        make_room(&path).unwrap();
        std::fs::write(&path, "whatever").unwrap();
        make_room(&path).unwrap();
        assert!(!path.exists());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(make_room(&path).unwrap_err(), format!("sudo-proxy is already running on {}", path.display()));
        assert!(path.exists());
        drop(listener);
        make_room(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn flag_beats_file_and_only_numbers_are_times() {
        let eligible = |flag, file| {
            let mut settings = Settings::default();
            settings.sudo_proxy.unattended_eligible = file;
            let options = Options { eligible: flag, ..Options::default() };
            adjusted(settings, &options, None).sudo_proxy.unattended_eligible
        };
        assert!(eligible(Some(true), false) && !eligible(Some(false), true) && eligible(None, true));
        let time = |text| adjusted(Settings::default(), &Options::default(), text).sudo_proxy.exec_timeout.as_secs();
        assert_eq!((time(None), time(Some("7")), time(Some("7s")), time(Some(""))), (300, 7, 300, 300));
    }
}
