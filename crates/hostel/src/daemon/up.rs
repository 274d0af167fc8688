//! The daemon of `hostel up`: the house's own directory, every door at once.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hostel_doors::claustrum;
use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Log;
use hostel_doors::native::protocol::DoorAddress;
use zeroize::Zeroizing;

use super::ClaustrumDoor;
use super::House;
use super::Policy;
use super::Rival;
use super::bind;
use super::door_settings;
use super::hide_memory;
use super::launch::Launcher;
use super::log::Both;
use super::log::LogFile;
use super::sockets::Occupant;
use super::sockets::occupant;
use crate::config::Settings;
use crate::error::CommandError;
use crate::paths::HouseDir;

/// How long processes have to end by themselves at `hostel down`.
const GRACE: Duration = Duration::from_secs(3);

/// Bytes of chance in the local token.
const TOKEN_BYTES: usize = 32;

/// Runs the daemon here. `launcher` hears when it is up; without one, `announce` is called with the addresses.
pub(crate) fn run(
    dir: HouseDir,
    settings: Settings,
    launcher: Option<Launcher>,
    announce: impl FnOnce(&[DoorAddress]),
) -> Result<ExitCode, CommandError> {
    hide_memory();
    let runtime =
        super::runtime().map_err(|error| CommandError::failure(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        let foreground = launcher.is_none();
        match open(dir, settings, foreground).await {
            Ok((house, doors, addresses)) => {
                let shown = addresses.clone();
                let policy = Policy { keep_on_signal: true, doors_may_end: false, grace: GRACE };
                house
                    .serve(doors, addresses, policy, || match launcher {
                        Some(launcher) => launcher.ready(),
                        None => announce(&shown),
                    })
                    .await
            }
            Err(error) => {
                if let Some(launcher) = launcher {
                    launcher.failed(&error.to_string());
                }
                Err(error)
            }
        }
    });
    // A login shell that is still being asked must not hold us up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn open(
    dir: HouseDir,
    settings: Settings,
    foreground: bool,
) -> Result<(House, Vec<ClaustrumDoor>, Vec<DoorAddress>), CommandError> {
    dir.create()?;
    let log_problem = |error: std::io::Error| CommandError::failure(format!("cannot open the log: {error}"));
    let file = LogFile::open(&dir.daemon_log(), settings.limits.log).map_err(log_problem)?;
    let log = match foreground {
        true => Both::new(file).and_then(|both| Log::new(Level::Info, both)),
        false => Log::new(Level::Info, file),
    }
    .map_err(log_problem)?;
    log.info(format_args!(
        "[hostel] version {} starts as process {} in {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        dir.root().display()
    ));
    let house = House::open(dir, settings, log, Rival::Respect).await?;
    let (doors, addresses) = open_doors(&house)?;
    for door in &addresses {
        let state = if door.open { "open" } else { "not open" };
        let note = door.note.as_deref().unwrap_or("");
        house.log.info(format_args!("[hostel] door {} on {}: {state} {note}", door.name, door.address));
    }
    Ok((house, doors, addresses))
}

/// Binds every address the settings ask for, and says what became of each.
fn open_doors(house: &House) -> Result<(Vec<ClaustrumDoor>, Vec<DoorAddress>), CommandError> {
    let mut addresses = vec![DoorAddress {
        name: "native".to_owned(),
        address: house.dir.socket().display().to_string(),
        open: true,
        note: None,
    }];
    let mut doors = Vec::new();
    let settings = &house.settings.claustrum;
    if !settings.enabled {
        return Ok((doors, addresses));
    }
    let token = local_token(&house.dir.token_file())?;
    let token_note = format!("token in {}", house.dir.token_file().display());
    let counters = Arc::default();
    let mut open = |path: &Path| -> Result<(), CommandError> {
        doors.push(ClaustrumDoor { bound: bind(path)?, settings: door_settings(house, &token, &counters) });
        Ok(())
    };
    let mut say = |path: &Path, open: bool, note: String| {
        addresses.push(DoorAddress {
            name: claustrum::NAME.to_owned(),
            address: path.display().to_string(),
            open,
            note: Some(note),
        });
    };
    let own = house.dir.claustrum_socket();
    open(&own)?;
    say(&own, true, token_note.clone());
    for path in &settings.listen {
        if !path.parent().is_some_and(Path::is_dir) {
            say(path, false, "its directory does not exist".to_owned());
            continue;
        }
        match occupant(path) {
            Occupant::Listening => say(path, false, "taken: somebody listens there".to_owned()),
            Occupant::Other => say(path, false, "taken: not a socket of ours".to_owned()),
            Occupant::Nobody | Occupant::Stale => match open(path) {
                Ok(()) => say(path, true, token_note.clone()),
                Err(error) => say(path, false, error.to_string()),
            },
        }
    }
    Ok((doors, addresses))
}

/// The token of this house's own claustrum door, made once.
fn local_token(path: &Path) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let problem = |error: std::io::Error| CommandError::failure(format!("cannot make `{}`: {error}", path.display()));
    match std::fs::read(path) {
        Ok(mut token) => {
            while token.last().is_some_and(u8::is_ascii_whitespace) {
                token.pop();
            }
            if !token.is_empty() {
                return Ok(Zeroizing::new(token));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(problem(error)),
    }
    let mut chance = Zeroizing::new([0_u8; TOKEN_BYTES]);
    getrandom::fill(chance.as_mut())
        .map_err(|error| CommandError::failure(format!("the system gives no random numbers: {error}")))?;
    let token: Zeroizing<String> = Zeroizing::new(chance.iter().map(|byte| format!("{byte:02x}")).collect());
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(problem)?;
    file.write_all(token.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(problem)?;
    Ok(Zeroizing::new(token.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn the_token_is_made_once_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("local_token");
        let first = local_token(&path).unwrap();
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(*local_token(&path).unwrap(), *first);
        std::fs::write(&path, "\n").unwrap();
        assert_ne!(*local_token(&path).unwrap(), *first);
    }
}
