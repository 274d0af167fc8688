//! `zeroclaw daemon`: the daemon of one socket, in the foreground.
//!
//! Invariant: the lock is taken before anything else is touched and given back last. With `--ephemeral` the end comes
//! exactly one second after the last client left, whatever runs, and never before the first one came.

use std::path::Path;
use std::time::Duration;

use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::zeroclaw;
use hostel_doors::zeroclaw::Clients;
use tokio::sync::watch;

use super::NAME;
use super::endpoint;
use super::endpoint::Endpoint;
use super::flags::Daemon;
use super::place::CONFIG_FILE;
use super::place::Place;
use super::place::Signs;
use crate::config::Settings;
use crate::config::agents::Defaults;
use crate::daemon;
use crate::daemon::House;
use crate::daemon::Opening;
use crate::daemon::Policy;
use crate::daemon::Rival;
use crate::daemon::doors::Door;
use crate::daemon::doors::ZeroclawDoor;
use crate::daemon::log::Logs;
use crate::daemon::log::Stream;
use crate::daemon::log::level_wanted;
use crate::daemon::opening;
use crate::daemon::opening::ZeroclawFace;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;

/// How long agents have to end by themselves, by contract.
const GRACE: Duration = Duration::from_millis(500);

/// How long an ephemeral daemon waits for another client.
const EPHEMERAL: Duration = Duration::from_secs(1);

/// Runs the daemon until it is told to end, or until its last client has left.
pub(super) fn run(flags: &Daemon) -> Result<(), String> {
    let plain = |error: CommandError| error.to_string();
    let signs = Signs::gather(flags.config_dir.clone());
    let place = signs.place(Path::exists, &std::env::temp_dir()).ok_or("HOME is not set")?;
    let home = paths::home(None).map_err(plain)?;
    let settings = Settings::load(&HouseDir::at(&home).config_file(), &[]).map_err(plain)?;
    endpoint::prepare_directory(&place.socket).map_err(|error| error.to_string())?;
    let endpoint = Endpoint::take(&place.socket).map_err(|error| error.to_string())?;
    daemon::hide_memory();
    let runtime = daemon::runtime().map_err(|error| format!("cannot start the runtime: {error}"))?;
    let outcome = runtime.block_on(open_and_serve(&home, settings, place, endpoint, flags));
    runtime.shutdown_background();
    outcome
}

async fn open_and_serve(
    home: &Path,
    settings: Settings,
    place: Place,
    endpoint: Endpoint,
    flags: &Daemon,
) -> Result<(), String> {
    let plain = |error: CommandError| error.to_string();
    let socket = paths::absolute(endpoint.path()).map_err(plain)?;
    let dir = HouseDir::personality(home, NAME, &socket);
    dir.create().map_err(plain)?;
    let level = level_wanted(std::env::var("RUST_LOG").ok().as_deref());
    let logs = Logs::open(&dir, settings.limits.log, level, Some(Stream::Error))
        .map_err(|error| format!("cannot open the log: {error}"))?;
    if flags.host.is_some() || flags.port.is_some() || flags.allow_degraded_security {
        logs.log.info(format_args!("[hostel] there is no HTTP gateway here: its flags change nothing"));
    }
    let house = House::open(dir, settings, logs, Rival::Respect, Defaults::Found).await.map_err(plain)?;
    let face = ZeroclawFace {
        config_file: place.config_dir.join(CONFIG_FILE),
        config_dir: place.config_dir,
        config_kind: place.kind.word(),
        endpoint: endpoint.path().to_owned(),
        data_dir: place.data_dir,
        remote: true,
    };
    let zeroclaw = opening::zeroclaw_door(&house, face).map_err(plain)?;
    let bound = daemon::bind(endpoint.path()).map_err(plain)?;
    let told =
        DoorAddress { name: zeroclaw::NAME.to_owned(), address: socket.display().to_string(), open: true, note: None };
    let mut addresses = vec![opening::native_address(&house), told];
    let mut doors = vec![Door::Zeroclaw(ZeroclawDoor { bound, door: zeroclaw.clone(), endpoint: Some(endpoint) })];
    if let Some((opened, told)) = opening::open_wss(&house, &zeroclaw).await {
        let note = told.note.as_deref().unwrap_or("");
        house.log.info(format_args!("[hostel] {}: {note}", told.address));
        doors.extend(opened);
        addresses.push(told);
    }
    house.log.info(format_args!(
        "[hostel] zeroclaw door on {}, house in {}",
        socket.display(),
        house.dir.root().display()
    ));
    let clients = zeroclaw.clients();
    let ephemeral = flags.ephemeral;
    let over = async move {
        match ephemeral {
            true => last_client_left(clients).await,
            false => std::future::pending().await,
        }
    };
    let policy = Policy { keep_on_signal: false, doors_may_end: false, grace: GRACE };
    house.serve(Opening { doors, addresses, port_file: None, zeroclaw, policy }, || (), over).await.map_err(plain)
}

/// Waits until a client has come, all have left, and nobody came for a while after.
async fn last_client_left(mut clients: watch::Receiver<Clients>) {
    loop {
        let Ok(ever) = clients.wait_for(|clients| clients.ever > 0 && clients.connected == 0).await.map(|now| now.ever)
        else {
            return;
        };
        // However short a visit is, it starts the wait anew.
        let another = clients.wait_for(|clients| clients.ever != ever);
        if tokio::time::timeout(EPHEMERAL, another).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Sends what becomes of the clients, each after a pause; gives the moment of the end.
    async fn ends_after(steps: &[(u64, usize, u64)]) -> Duration {
        let (sender, clients) = watch::channel(Clients { connected: 0, ever: 0 });
        let begin = Instant::now();
        let steps = steps.to_vec();
        let script = tokio::spawn(async move {
            for (pause, connected, ever) in steps {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                sender.send_replace(Clients { connected, ever });
            }
            sender.closed().await;
        });
        last_client_left(clients).await;
        let end = begin.elapsed();
        script.await.unwrap();
        end
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_comes_one_second_after_the_last_one() {
        let second = Duration::from_secs(1);
        // Nobody for a minute, then somebody for ten seconds.
        assert_eq!(ends_after(&[(60_000, 1, 1), (10_000, 0, 1)]).await, 71 * second);
        // Back within the second: the wait starts anew.
        assert_eq!(
            ends_after(&[(1_000, 1, 1), (1_000, 0, 1), (999, 1, 2), (5_000, 0, 2)]).await,
            Duration::from_millis(8_999)
        );
        // A visit so short that it was never seen connected.
        assert_eq!(ends_after(&[(1_000, 0, 1), (500, 0, 2)]).await, Duration::from_millis(2_500));
        // One of two leaves.
        assert_eq!(ends_after(&[(0, 2, 2), (1_000, 1, 2), (9_000, 0, 2)]).await, 11 * second);
    }
}
