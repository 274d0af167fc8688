//! Opening doors: what each needs of its house, and what is told of it.
//!
//! Invariant: an address that is in use, or not ours to take, is left alone and said to be so. A door that other
//! machines can reach is never opened without TLS and a token.

use std::io;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use hostel_doors::claustrum::Secret;
use hostel_doors::codecast;
use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::tls;
use hostel_doors::zeroclaw;
use tokio::net::TcpListener;
use zeroize::Zeroizing;

use super::House;
use super::doors::CodecastDoor;
use super::doors::Door;
use super::doors::WssDoor;
use super::system::connection_limit;
use crate::config::CodecastSettings;
use crate::error::CommandError;
use crate::paths;

/// Bytes of chance in a token.
pub(super) const TOKEN_BYTES: usize = 32;

/// The most of a token's file that is read.
const TOKEN_LIMIT: usize = 4096;

/// Our own socket, which every house has.
pub(crate) fn native_address(house: &House) -> DoorAddress {
    DoorAddress { name: "native".to_owned(), address: house.dir.socket().display().to_string(), open: true, note: None }
}

/// How the zeroclaw door presents itself.
#[derive(Clone, Debug)]
pub(crate) struct ZeroclawFace {
    pub(crate) config_dir: PathBuf,
    pub(crate) config_file: PathBuf,
    /// `default`, `custom` or `temporary`.
    pub(crate) config_kind: &'static str,
    pub(crate) endpoint: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// Whether the door for other machines may be opened.
    pub(crate) remote: bool,
}

impl ZeroclawFace {
    /// The face of a house that has its own settings and its own socket.
    pub(crate) fn of_house(house: &House) -> Self {
        ZeroclawFace {
            config_dir: house.dir.root().to_owned(),
            config_file: house.dir.config_file(),
            config_kind: "custom",
            endpoint: house.dir.zeroclaw_socket(),
            data_dir: house.dir.root().to_owned(),
            remote: false,
        }
    }
}

/// The zeroclaw door of a house; all its sockets, and our own, share it.
pub(crate) fn zeroclaw_door(house: &House, face: ZeroclawFace) -> Result<zeroclaw::Door, CommandError> {
    let ours = &house.settings.zeroclaw;
    let mut settings = zeroclaw::Settings::new(ours.reported_version.clone(), face.data_dir, face.endpoint);
    settings.config_dir = face.config_dir;
    settings.config_file = face.config_file;
    face.config_kind.clone_into(&mut settings.config_kind);
    settings.session_limit = ours.session_limit;
    settings.connections = connection_limit(house.settings.limits.connections);
    settings.approval_wait = ours.approval_wait;
    settings.native_approval_wait = house.settings.sessions.approval_wait;
    settings.question_wait = house.settings.approvals.wait;
    settings.started = house.started;
    settings.logs = house.ring.clone();
    settings.proxy_users.clone_from(&ours.wss.proxy_users);
    if face.remote && ours.wss.enabled {
        settings.token = Some(Secret::new(token(&wss_token_file(house))?.to_vec()));
    }
    Ok(zeroclaw::Door::new(
        house.sessions.clone(),
        house.approvals.clone(),
        house.processes.clone(),
        house.insiders.clone(),
        settings,
        house.log.clone(),
    ))
}

fn wss_token_file(house: &House) -> PathBuf {
    house.settings.zeroclaw.wss.token_file.clone().unwrap_or_else(|| house.dir.root().join("wss-token"))
}

/// Opens the zeroclaw door for other machines, if it is wanted.
pub(crate) async fn open_wss(house: &House, door: &zeroclaw::Door) -> Option<(Option<Door>, DoorAddress)> {
    let ours = &house.settings.zeroclaw.wss;
    if !ours.enabled {
        return None;
    }
    let address = SocketAddr::new(ours.bind, ours.port);
    let own = |name: &str| house.dir.root().join(name);
    let cert = ours.cert.clone().unwrap_or_else(|| own("wss-cert.pem"));
    let key = ours.key.clone().unwrap_or_else(|| own("wss-key.pem"));
    let opened = async {
        let identity = tls::Identity::load_or_make(&cert, &key).map_err(|error| error.to_string())?;
        let tls = identity.acceptor(tls::Protocols::Http1).map_err(|error| error.to_string())?;
        let listener = TcpListener::bind(address).await.map_err(|error| bind_note(&error))?;
        let note = format!("certificate {}, token in {}", identity.fingerprint(), wss_token_file(house).display());
        Ok((Door::Wss(WssDoor { listener, tls, door: door.clone() }), note))
    };
    let (door, note) = match opened.await {
        Ok((door, note)) => (Some(door), note),
        Err(note) => (None, note),
    };
    let told = DoorAddress {
        name: zeroclaw::NAME.to_owned(),
        address: format!("wss://{address}"),
        open: door.is_some(),
        note: Some(note),
    };
    Some((door, told))
}

/// Why an address could not be had, for people.
pub(super) fn bind_note(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "taken: somebody listens there".to_owned(),
        _ => error.to_string(),
    }
}

/// Sees to the directory a socket is to be in: it is there, or it is made, for nobody else, where everything is the
/// user's own. Gives the reason if there is none afterwards.
pub(super) fn endpoint_directory(socket: &Path) -> Result<(), String> {
    let places = [Some(user_home()), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)];
    directory_in(socket, places.into_iter().flatten())
}

fn directory_in(socket: &Path, mut places: impl Iterator<Item = PathBuf>) -> Result<(), String> {
    let Some(directory) = socket.parent() else { return Err("it is no place for a socket".to_owned()) };
    if directory.is_dir() {
        return Ok(());
    }
    let shown = directory.display();
    let plain = !directory.components().any(|part| part == Component::ParentDir);
    let own = rustix::process::geteuid().as_raw();
    let is_own = |place: &PathBuf| place.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
    // The root is nobody's home, whatever the environment says.
    let holds = |place: &PathBuf| place.parent().is_some() && directory.starts_with(place) && is_own(place);
    if !plain || !places.any(|place| holds(&place)) {
        return Err(format!(
            "its directory {shown} does not exist, and is made only in your home or runtime directory: make it, then start again"
        ));
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| format!("its directory {shown} cannot be made: {error}"))
}

/// The files of the codecast door: its own folder's, unless the settings name others.
#[derive(Clone, Debug)]
pub(crate) struct CodecastFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) tokens: PathBuf,
}

impl CodecastFiles {
    /// What the settings name, the rest in `folder`.
    pub(crate) fn new(folder: &Path, settings: &CodecastSettings) -> Self {
        let own = |named: &Option<PathBuf>, name: &str| named.clone().unwrap_or_else(|| folder.join(name));
        CodecastFiles {
            cert: own(&settings.tls_cert, "tls-cert.pem"),
            key: own(&settings.tls_key, "tls-key.pem"),
            tokens: own(&settings.tokens_file, "tokens.yaml"),
        }
    }
}

/// A codecast door on a socket that is bound already. One that other machines can reach needs certificate and tokens.
pub(crate) fn codecast_door(house: &House, listener: TcpListener, files: &CodecastFiles) -> Result<Door, CommandError> {
    let exposed = !listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let auth = match exposed {
        false => None,
        true => {
            let failed = |error: tls::TlsError| CommandError::failure(error.to_string());
            if let Some(folder) = files.key.parent() {
                paths::private_directory(folder)?;
            }
            let identity = tls::Identity::load_or_make(&files.cert, &files.key).map_err(failed)?;
            house.log.info(format_args!("[hostel] the codecast door's certificate is {}", identity.fingerprint()));
            let tls = identity.acceptor(tls::Protocols::Http2).map_err(failed)?;
            Some(codecast::Auth { tls, tokens: files.tokens.clone() })
        }
    };
    let version = house.settings.codecast.reported_version.clone();
    let mut settings = codecast::Settings::new(version, env!("HOSTEL_RUSTC").to_owned(), user_home());
    settings.auth = auth;
    settings.started = house.started;
    settings.mode = house.settings.codecast.mode;
    settings.approval_wait = house.settings.sessions.approval_wait;
    settings.limits.connections = connection_limit(house.settings.limits.connections);
    Ok(Door::Codecast(CodecastDoor { listener, settings }))
}

/// The user's own directory; the root where there is none.
pub(crate) fn user_home() -> PathBuf {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// A token that is kept in a file, made once.
pub(super) fn token(path: &Path) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let problem = |error: io::Error| CommandError::failure(format!("cannot make `{}`: {error}", path.display()));
    match std::fs::read(path) {
        Ok(mut token) => {
            token.truncate(TOKEN_LIMIT);
            while token.last().is_some_and(u8::is_ascii_whitespace) {
                token.pop();
            }
            if !token.is_empty() {
                return Ok(Zeroizing::new(token));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
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

    #[test]
    fn directories_are_made_in_ones_own_places_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let made =
            |socket: &str| directory_in(&scratch.path().join(socket), [PathBuf::from("/"), home.clone()].into_iter());
        made("home/.zeroclaw/data/daemon.sock").unwrap();
        for directory in ["home/.zeroclaw", "home/.zeroclaw/data"] {
            assert_eq!(scratch.path().join(directory).metadata().unwrap().mode() & 0o777, 0o700, "{directory}");
        }
        // What is there is as it should be, wherever it is.
        made("s.sock").unwrap();
        for elsewhere in ["other/s.sock", "home/../other/s.sock", "home2/s.sock"] {
            let reason = made(elsewhere).unwrap_err();
            assert!(reason.contains("does not exist, and is made only in your home"), "{reason}");
        }
        assert!(!scratch.path().join("other").exists() && !scratch.path().join("home2").exists());
        std::fs::write(home.join("file"), "").unwrap();
        let reason = made("home/file/below/s.sock").unwrap_err();
        assert!(reason.contains("cannot be made"), "{reason}");
    }

    #[test]
    fn the_token_is_made_once_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("local_token");
        let first = token(&path).unwrap();
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(*token(&path).unwrap(), *first);
        std::fs::write(&path, "\n").unwrap();
        assert_ne!(*token(&path).unwrap(), *first);
    }
}
