//! `-serve`: the daemon of one socket, sent into the background.
//!
//! Invariant: the launcher returns when the socket accepts, or with the reason why it never will. The token passes
//! from launcher to daemon through a socket pair and nowhere else.
//!
//! A daemon that serves the same socket already is superseded: its processes are ours from then on.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use hostel_doors::claustrum;
use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Log;
use hostel_doors::claustrum::Metrics;
use hostel_doors::claustrum::metrics;
use hostel_doors::native::protocol::DoorAddress;
use hostel_house::workspace::errno::PathError;
use rustix::process::PidfdFlags;
use rustix::process::PidfdGetfdFlags;
use zeroize::Zeroizing;

use super::Flags;
use super::fail;
use super::socket_error;
use crate::config::Settings;
use crate::config::agents::Defaults;
use crate::daemon;
use crate::daemon::House;
use crate::daemon::Opening;
use crate::daemon::Policy;
use crate::daemon::Rival;
use crate::daemon::doors::ClaustrumDoor;
use crate::daemon::doors::Door;
use crate::daemon::doors::door_settings;
use crate::daemon::launch;
use crate::daemon::launch::Launcher;
use crate::daemon::launch::Outcome;
use crate::daemon::log::Logs;
use crate::daemon::log::Stream;
use crate::daemon::opening;
use crate::daemon::opening::ZeroclawFace;
use crate::daemon::sockets::Bound;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;

/// How long the launcher waits for the socket to accept.
const LIMIT: Duration = Duration::from_secs(10);

/// The most of a token that is read.
const TOKEN_LIMIT: u64 = 64 << 10;

/// Tells a process that it is the daemon and not the launcher.
const DAEMON_MARK: &str = "CLAUSTRUM_DAEMON_CHILD";
/// The name programs look for; the daemon's children inherit it.
const PUBLIC_MARK: &str = "CLAUDE_SSH_DAEMON_CHILD";
/// Where a forwarded token is: on the descriptor with this number, or on the pair to our launcher.
const TOKEN_PIPE: &str = "CLAUSTRUM_TOKEN_PIPE";
/// Our launcher is at the other end of stdin, and so is the token.
const LAUNCHED_WITH_TOKEN: &str = "launcher-token";
/// Our launcher is at the other end of stdin; the token comes from elsewhere.
const LAUNCHED: &str = "launcher";

pub(super) fn run(called: &OsStr, words: &[OsString], flags: &Flags, socket: &Path) -> ExitCode {
    if flags.token_fd < 0 && flags.token_file.is_empty() {
        return fail("daemonized child requires --token-file or --token-fd");
    }
    let outcome = match std::env::var_os(DAEMON_MARK).is_some_and(|mark| mark == "1") {
        true => serve(flags, socket),
        false => start(called, words, flags, socket),
    };
    match outcome {
        Ok(code) => code,
        Err(message) => fail(&message),
    }
}

/// The launcher's part.
fn start(called: &OsStr, words: &[OsString], flags: &Flags, socket: &Path) -> Result<ExitCode, String> {
    let deadline = Instant::now() + LIMIT;
    let mut command = launch::own_program(called, words);
    command.env(DAEMON_MARK, "1").env(PUBLIC_MARK, "1");
    let token = match flags.token_fd >= 0 {
        true => {
            command.env(TOKEN_PIPE, LAUNCHED_WITH_TOKEN);
            read_descriptor(flags.token_fd).map_err(|error| format!("read --token-fd: {}", words_of(&error)))?
        }
        false => {
            command.env(TOKEN_PIPE, LAUNCHED);
            Zeroizing::new(Vec::new())
        }
    };
    match launch::launch(command, &token, LIMIT).map_err(|error| words_of(&error))? {
        Outcome::Ready => Ok(ExitCode::SUCCESS),
        // Another daemon of this socket overtook ours; it will accept in a moment.
        Outcome::Ended(Some(status)) if status.success() => wait_for_accept(socket, deadline),
        // It has said why on the standard error we share.
        Outcome::Ended(_) | Outcome::Failed(_) => Ok(ExitCode::FAILURE),
        Outcome::TimedOut => Err(timed_out(socket)),
    }
}

fn timed_out(socket: &Path) -> String {
    format!("timeout waiting for daemon to accept on {}", socket.display())
}

fn wait_for_accept(socket: &Path, deadline: Instant) -> Result<ExitCode, String> {
    while Instant::now() < deadline {
        if UnixStream::connect(socket).is_ok() {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(timed_out(socket))
}

/// The daemon's part.
fn serve(flags: &Flags, socket: &Path) -> Result<ExitCode, String> {
    let pipe = std::env::var(TOKEN_PIPE).unwrap_or_default();
    let mut launcher = match pipe.as_str() {
        LAUNCHED | LAUNCHED_WITH_TOKEN => Some(Launcher::take().map_err(|error| words_of(&error))?),
        _ => None,
    };
    let token = read_token(flags, &pipe, launcher.as_mut())?;
    if launcher.is_none() {
        launch::silence_stdin().map_err(|error| words_of(&error))?;
    }
    daemon::hide_memory();
    let plain = |error: CommandError| error.to_string();
    let home = paths::home(None).map_err(plain)?;
    let settings = Settings::load(&HouseDir::at(&home).config_file(), &[]).map_err(plain)?;
    check_endpoint(socket)?;
    let endpoint = paths::absolute(socket).map_err(plain)?;
    let dir = HouseDir::personality(&home, claustrum::NAME, &endpoint);
    let runtime = daemon::runtime().map_err(|error| words_of(&error))?;
    let outcome = runtime.block_on(open_and_serve(flags, socket, dir, settings, &token, launcher));
    // A login shell that is still being asked must not hold us up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn open_and_serve(
    flags: &Flags,
    socket: &Path,
    dir: HouseDir,
    settings: Settings,
    token: &[u8],
    launcher: Option<Launcher>,
) -> Result<(), String> {
    dir.create().map_err(|error| error.to_string())?;
    let level = Level::named(&std::env::var("CLAUSTRUM_LOG_LEVEL").unwrap_or_default());
    let logs = Logs::open(&dir, settings.limits.log, level, Some(Stream::Error))
        .map_err(|error| format!("open log: {}", words_of(&error)))?;
    let plain = |error: CommandError| error.to_string();
    let house = House::open(dir, settings, logs, Rival::Supersede, Defaults::Found).await.map_err(plain)?;
    let bound = Bound::replace(socket, socket)
        .map_err(|error| format!("listen unix: {}", socket_error("listen", socket, "bind", &error)))?;
    let counters = Arc::new(Metrics::default());
    if !flags.metrics_addr.is_empty() {
        serve_metrics(&flags.metrics_addr.to_string_lossy(), Arc::clone(&counters), &house.log).await;
    }
    let told =
        DoorAddress { name: claustrum::NAME.to_owned(), address: socket.display().to_string(), open: true, note: None };
    let door = ClaustrumDoor { bound, settings: door_settings(&house, token, &counters) };
    let opening = Opening {
        doors: vec![Door::Claustrum(door)],
        addresses: vec![opening::native_address(&house), told],
        port_file: None,
        zeroclaw: opening::zeroclaw_door(&house, ZeroclawFace::of_house(&house)).map_err(plain)?,
        policy: Policy { keep_on_signal: flags.keep_children, doors_may_end: true, grace: Duration::ZERO },
    };
    let banner = format!("Claustrum remote server listening on {}\n", socket.display());
    let ready = || {
        // A closed stdout is no reason not to serve.
        io::stdout().lock().write_all(banner.as_bytes()).unwrap_or_default();
        if let Some(launcher) = launcher {
            launcher.ready();
        }
    };
    house.serve(opening, ready, std::future::pending()).await.map_err(plain)
}

/// Serves the counters; a failure is logged and nothing more.
async fn serve_metrics(address: &str, counters: Arc<Metrics>, log: &Log) {
    match listen_tcp(address).await {
        Ok(listener) => {
            log.info(format_args!("[Server] metrics: serving Prometheus counters on {address}/metrics"));
            hostel_tasks::spawn(metrics::serve(listener, counters, std::future::pending()));
        }
        Err(error) => log.error(format_args!("[Server] metrics: listen {address}: {}", words_of(&error))),
    }
}

/// Listens on `HOST:PORT`; without a host, on every interface, of both families where there are two.
async fn listen_tcp(address: &str) -> io::Result<tokio::net::TcpListener> {
    if !address.starts_with(':') {
        return tokio::net::TcpListener::bind(address).await;
    }
    match tokio::net::TcpListener::bind(format!("[::]{address}")).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            tokio::net::TcpListener::bind(format!("0.0.0.0{address}")).await
        }
        bound => bound,
    }
}

/// What can be known about the socket's path before anything is started for it.
fn check_endpoint(socket: &Path) -> Result<(), String> {
    let wrong = |error: &io::Error| format!("listen unix: {}", socket_error("listen", socket, "bind", error));
    if socket.as_os_str().len() > hostel_keeper::socket_path::LIMIT {
        return Err(wrong(&rustix::io::Errno::INVAL.into()));
    }
    match socket.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => match parent.metadata() {
            Ok(metadata) if !metadata.is_dir() => Err(wrong(&rustix::io::Errno::NOTDIR.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(wrong(&error)),
        },
        _ => Ok(()),
    }
}

fn read_token(flags: &Flags, pipe: &str, launcher: Option<&mut Launcher>) -> Result<Zeroizing<Vec<u8>>, String> {
    let forwarded = match (launcher, pipe) {
        (Some(launcher), LAUNCHED_WITH_TOKEN) => Some(launcher.secret()),
        (Some(_), _) => None,
        (None, "") if flags.token_fd >= 0 => Some(read_descriptor(flags.token_fd)),
        (None, "") => None,
        (None, number) => Some(number.parse().map_err(|_| rustix::io::Errno::BADF.into()).and_then(read_descriptor)),
    };
    let mut token = match forwarded {
        Some(token) => token.map_err(|error| format!("read token pipe: {}", words_of(&error)))?,
        None => read_token_file(Path::new(&flags.token_file))?,
    };
    // One line end belongs to the line; whatever else is there belongs to the token.
    if token.ends_with(b"\n") {
        token.pop();
        if token.ends_with(b"\r") {
            token.pop();
        }
    }
    if token.is_empty() {
        return Err("token is empty".to_owned());
    }
    Ok(token)
}

/// Reads the file and removes it: the token is ours alone from then on.
fn read_token_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let failed = |operation: &'static str, error: &io::Error| {
        format!("read --token-file: {}", PathError::new(operation, path, error))
    };
    let mut file = File::open(path).map_err(|error| failed("open", &error))?;
    let token = read_bounded(&mut file).map_err(|error| failed("read", &error))?;
    // What cannot be removed was perhaps removed by somebody else.
    std::fs::remove_file(path).unwrap_or_default();
    Ok(token)
}

fn read_bounded(source: &mut impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut token = Zeroizing::new(Vec::new());
    source.take(TOKEN_LIMIT).read_to_end(&mut token)?;
    Ok(token)
}

/// Reads an open descriptor of ours to its end.
fn read_descriptor(number: i64) -> io::Result<Zeroizing<Vec<u8>>> {
    let bad = || io::Error::from(rustix::io::Errno::BADF);
    let number = i32::try_from(number).map_err(|_| bad())?;
    if number == 0 {
        return read_bounded(&mut io::stdin().lock());
    }
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    let copied = own.and_then(|own| rustix::process::pidfd_getfd(&own, number, PidfdGetfdFlags::empty()));
    match copied {
        Ok(copy) => read_bounded(&mut File::from(copy)),
        Err(rustix::io::Errno::BADF) => Err(bad()),
        // Where that call is forbidden the descriptor can still be opened anew, unless it is a socket.
        Err(_) => {
            let mut again = File::open(format!("/proc/self/fd/{number}")).map_err(|_| bad())?;
            read_bounded(&mut again)
        }
    }
}

/// An error of the system in the contract's words.
fn words_of(error: &io::Error) -> String {
    use hostel_house::workspace::errno;
    match error.raw_os_error() {
        Some(number) => errno::errno_text(number).to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_loses_its_line_end_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        let read = |content: &str| {
            std::fs::write(&path, content).unwrap();
            let flags = Flags { token_file: path.clone().into(), ..Flags::default() };
            let token = read_token(&flags, "", None);
            assert!(!path.exists());
            token.map(|token| String::from_utf8(token.to_vec()).unwrap())
        };
        assert_eq!(read("tok\n").unwrap(), "tok");
        assert_eq!(read("tok\r\n").unwrap(), "tok");
        assert_eq!(read(" tok \n\n").unwrap(), " tok \n");
        assert_eq!(read("tok\r").unwrap(), "tok\r");
        assert_eq!(read("\n").unwrap_err(), "token is empty");
        let missing = read_token_file(&path).unwrap_err();
        assert_eq!(missing, format!("read --token-file: open {}: no such file or directory", path.display()));
        assert_eq!(
            read_token_file(scratch.path()).unwrap_err(),
            format!("read --token-file: read {}: is a directory", scratch.path().display())
        );
    }

    #[test]
    fn descriptors_are_read_by_number() {
        use std::os::fd::AsRawFd as _;
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"secret").unwrap();
        drop(writer);
        assert_eq!(**read_descriptor(reader.as_raw_fd().into()).unwrap(), b"secret"[..]);
        assert_eq!(read_descriptor(9_999).unwrap_err().raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
    }

    #[tokio::test]
    async fn a_port_alone_means_every_interface() {
        let listener = listen_tcp(":0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (there, here) = tokio::join!(tokio::net::TcpStream::connect(("127.0.0.1", port)), listener.accept());
        assert!(there.is_ok() && here.is_ok());
        assert_eq!(listen_tcp(&format!(":{port}")).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(listen_tcp("127.0.0.1").await.is_err());
    }

    #[test]
    fn endpoints_that_cannot_be_bound_are_refused_early() {
        let scratch = tempfile::tempdir().unwrap();
        let missing = scratch.path().join("missing/rpc.sock");
        assert_eq!(
            check_endpoint(&missing).unwrap_err(),
            format!("listen unix: listen unix {}: bind: no such file or directory", missing.display())
        );
        let long = scratch.path().join("x".repeat(120));
        assert!(check_endpoint(&long).unwrap_err().ends_with("bind: invalid argument"));
        assert!(check_endpoint(Path::new("rpc.sock")).is_ok());
    }
}
