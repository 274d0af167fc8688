//! The daemon of one port, in the foreground.
//!
//! Invariant: the port file and the line on stdout come after the port accepts, and the file goes before anything is put
//! away. A signal ends every CLI; sessions are in the house and are there again, idle, when a daemon has the same
//! address.
//!
//! Unlike other daemons of ours it can be looked into by its own user, unless other machines can reach it: the real
//! head finds out with `lsof` whose process listens, and would take one that hides for a stranger's.

use std::io;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use hostel_doors::claustrum::Log;
use hostel_doors::codecast;
use hostel_doors::native::protocol::DoorAddress;
use tokio::net::TcpListener;

use super::options::Options;
use super::port;
use super::port::PortFile;
use crate::config::Settings;
use crate::config::agents::Defaults;
use crate::daemon;
use crate::daemon::House;
use crate::daemon::Opening;
use crate::daemon::Policy;
use crate::daemon::Rival;
use crate::daemon::log::Logs;
use crate::daemon::log::Stream;
use crate::daemon::log::level_wanted;
use crate::daemon::opening;
use crate::daemon::opening::CodecastFiles;
use crate::daemon::opening::ZeroclawFace;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;

/// How long CLIs have to end by themselves, by contract.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the daemon until it is told to end.
pub(super) fn run() -> Result<(), String> {
    let plain = |error: CommandError| error.to_string();
    let user = std::env::var_os("HOME").filter(|home| !home.is_empty()).ok_or("HOME is not set")?;
    let folder = Path::new(&user).join(".codecast");
    let home = paths::home(None).map_err(plain)?;
    let settings = Settings::load(&HouseDir::at(&home).config_file(), &[]).map_err(plain)?;
    let (options, problem) = Options::read(&folder.join("daemon.yaml"));
    let variable = |name: &str| std::env::var(name).ok();
    let options = options.over(variable("DAEMON_PORT").as_deref(), variable("DAEMON_BIND").as_deref());
    let address = options.address()?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    if !address.is_loopback() {
        daemon::hide_memory();
    }
    let runtime = daemon::runtime().map_err(|error| format!("cannot start the runtime: {error}"))?;
    let outcome = runtime.block_on(async {
        let listener = port::listen(address, options.port)
            .await
            .map_err(|error| format!("no port from {} on can be had on {address}: {error}", options.port))?;
        open_and_serve(listener, &home, &folder, settings, &options, problem).await
    });
    runtime.shutdown_background();
    outcome
}

async fn open_and_serve(
    listener: TcpListener,
    home: &Path,
    folder: &Path,
    settings: Settings,
    options: &Options,
    problem: Option<String>,
) -> Result<(), String> {
    let plain = |error: CommandError| error.to_string();
    let endpoint = listener.local_addr().map_err(|error| error.to_string())?;
    // Not by the program's name: whoever ends the daemon by that name would end the keeper of such a folder too.
    let dir = HouseDir::personality(home, codecast::NAME, Path::new(&endpoint.to_string()));
    dir.create().map_err(plain)?;
    let level = level_wanted(std::env::var("RUST_LOG").ok().as_deref());
    let logs = Logs::open(&dir, settings.limits.log, level, Some(Stream::Output))
        .map_err(|error| format!("cannot open the log: {error}"))?;
    if let Some(problem) = problem {
        logs.log.warn(format_args!(
            "[hostel] {}: {problem}; going on with what is built in",
            folder.join("daemon.yaml").display()
        ));
    }
    let mut files = CodecastFiles::new(folder, &settings.codecast);
    let named = [
        (&options.tls_cert, &mut files.cert),
        (&options.tls_key, &mut files.key),
        (&options.tokens_file, &mut files.tokens),
    ];
    for (named, file) in named {
        if let Some(named) = named {
            file.clone_from(named);
        }
    }
    let house = House::open(dir, settings, logs, Rival::Respect, Defaults::All).await.map_err(plain)?;
    let door = opening::codecast_door(&house, listener, &files).map_err(plain)?;
    let zeroclaw = opening::zeroclaw_door(&house, ZeroclawFace::of_house(&house)).map_err(plain)?;
    let told = DoorAddress { name: codecast::NAME.to_owned(), address: endpoint.to_string(), open: true, note: None };
    house.log.info(format_args!("[hostel] codecast door on {endpoint}, house in {}", house.dir.root().display()));
    let opening = Opening {
        doors: vec![door],
        addresses: vec![opening::native_address(&house), told],
        port_file: tell_port(&folder.join("daemon.port"), endpoint.port(), &house.log),
        zeroclaw,
        policy: Policy { keep_on_signal: false, doors_may_end: false, grace: GRACE },
    };
    let ready = || {
        // A closed stdout is no reason not to serve.
        io::stdout().lock().write_all(format!("DAEMON_PORT={}\n", endpoint.port()).as_bytes()).unwrap_or_default();
    };
    house.serve(opening, ready, std::future::pending()).await.map_err(plain)
}

/// Writes the port down. A daemon that cannot do so can still be found by its line and by trying ports.
fn tell_port(file: &Path, port: u16, log: &Log) -> Option<PortFile> {
    let written = PortFile::write(file, port);
    written.map_err(|error| log.error(format_args!("[hostel] cannot write {}: {error}", file.display()))).ok()
}
