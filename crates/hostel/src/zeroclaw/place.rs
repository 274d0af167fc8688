//! Where a zeroclaw daemon lives: configuration, data and socket, by that program's rules.
//!
//! Invariant: a pure function of flag, variables and one question to the disk; the first of them that is set decides
//! both directories.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

/// The configuration file's name.
pub(super) const CONFIG_FILE: &str = "config.toml";

/// What the place is derived from.
#[derive(Clone, Debug, Default)]
pub(super) struct Signs {
    /// `--config-dir`.
    pub(super) flag: Option<PathBuf>,
    /// `ZEROCLAW_CONFIG_DIR`.
    pub(super) config_dir: Option<OsString>,
    /// `ZEROCLAW_DATA_DIR`.
    pub(super) data_dir: Option<OsString>,
    /// `ZEROCLAW_WORKSPACE`, the older name of the same.
    pub(super) workspace: Option<OsString>,
    /// `ZEROCLAW_SOCKET`.
    pub(super) socket: Option<OsString>,
    /// `HOME`.
    pub(super) home: Option<OsString>,
}

/// What kind of place it is, in the contract's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PlaceKind {
    Default,
    Custom,
    Temporary,
}

impl PlaceKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            PlaceKind::Default => "default",
            PlaceKind::Custom => "custom",
            PlaceKind::Temporary => "temporary",
        }
    }
}

/// Where everything is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) config_dir: PathBuf,
    pub(super) data_dir: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) kind: PlaceKind,
}

impl Signs {
    /// What this process was given.
    pub(super) fn gather(flag: Option<PathBuf>) -> Self {
        let variable = |name: &str| std::env::var_os(name);
        Signs {
            flag,
            config_dir: variable("ZEROCLAW_CONFIG_DIR"),
            data_dir: variable("ZEROCLAW_DATA_DIR"),
            workspace: variable("ZEROCLAW_WORKSPACE"),
            socket: variable("ZEROCLAW_SOCKET"),
            home: variable("HOME"),
        }
    }

    /// The place; none if there is nothing to derive it from. `exists` answers whether a file is there, `temporary`
    /// is the system's place for such things.
    pub(super) fn place(&self, exists: impl Fn(&Path) -> bool, temporary: &Path) -> Option<Place> {
        let home = self.home.as_deref().filter(|home| !home.is_empty()).map(Path::new);
        let given = |sign: &Option<OsString>| sign.clone().filter(|value| !is_blank(value));
        let own = |config_dir: PathBuf| (config_dir.join("data"), config_dir);
        let (data_dir, config_dir) = if let Some(flag) = self.flag.as_ref().filter(|flag| !is_blank(flag.as_os_str())) {
            own(expand(flag, home))
        } else if let Some(named) = given(&self.config_dir) {
            own(expand(Path::new(&named), home))
        } else if let Some(named) = given(&self.data_dir).or_else(|| given(&self.workspace)) {
            derived(Path::new(&named), exists)
        } else {
            own(home?.join(".zeroclaw"))
        };
        let socket = match self.socket.as_deref().filter(|socket| !socket.is_empty()) {
            Some(socket) => PathBuf::from(socket),
            None => data_dir.join("daemon.sock"),
        };
        let kind = if home.is_some_and(|home| config_dir == home.join(".zeroclaw")) {
            PlaceKind::Default
        } else if config_dir.starts_with(temporary) {
            PlaceKind::Temporary
        } else {
            PlaceKind::Custom
        };
        Some(Place { config_dir, data_dir, socket, kind })
    }
}

/// Data and configuration directory of a data directory that was named: the configuration is beside it where there is
/// one, or where its name says that it is only the data; else it is the configuration directory itself.
fn derived(named: &Path, exists: impl Fn(&Path) -> bool) -> (PathBuf, PathBuf) {
    let beside = named.parent().map(|parent| parent.join(".zeroclaw"));
    let only_data = matches!(named.file_name().and_then(OsStr::to_str), Some("data" | "workspace"));
    match beside {
        Some(beside) if only_data || exists(&beside.join(CONFIG_FILE)) => (named.to_owned(), beside),
        _ => (named.join("data"), named.to_owned()),
    }
}

fn is_blank(value: &OsStr) -> bool {
    value.as_bytes().iter().all(u8::is_ascii_whitespace)
}

/// `~` and a leading `~/` replaced by the user's directory.
fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<OsString> {
        Some(text.into())
    }

    fn place(signs: &Signs, present: &[&str]) -> (String, String, String) {
        let place =
            signs.place(|path| present.iter().any(|known| path == Path::new(known)), Path::new("/tmp")).unwrap();
        let text = |path: &Path| path.display().to_string();
        (text(&place.config_dir), text(&place.data_dir), text(&place.socket))
    }

    fn expect(signs: &Signs, present: &[&str], config: &str, data: &str) {
        let socket = format!("{data}/daemon.sock");
        assert_eq!(place(signs, present), (config.to_owned(), data.to_owned(), socket), "{signs:?}");
    }

    #[test]
    fn the_first_sign_decides_both_directories() {
        let mut signs = Signs { home: some("/u"), ..Signs::default() };
        expect(&signs, &[], "/u/.zeroclaw", "/u/.zeroclaw/data");
        signs.workspace = some("/w/files");
        expect(&signs, &[], "/w/files", "/w/files/data");
        signs.data_dir = some("/d/data");
        expect(&signs, &[], "/d/.zeroclaw", "/d/data");
        signs.config_dir = some("~/conf");
        expect(&signs, &[], "/u/conf", "/u/conf/data");
        signs.flag = Some(PathBuf::from("/flag"));
        expect(&signs, &["/d/.zeroclaw/config.toml"], "/flag", "/flag/data");
    }

    #[test]
    fn blank_signs_are_none() {
        let mut signs = Signs {
            flag: Some(PathBuf::from(" ")),
            home: some("/u"),
            config_dir: some(" "),
            data_dir: some(""),
            ..Signs::default()
        };
        expect(&signs, &[], "/u/.zeroclaw", "/u/.zeroclaw/data");
        signs.workspace = some("/w/workspace");
        expect(&signs, &[], "/w/.zeroclaw", "/w/workspace");
        signs.home = None;
        expect(&signs, &[], "/w/.zeroclaw", "/w/workspace");
        assert_eq!(Signs::default().place(|_| false, Path::new("/tmp")), None);
    }

    #[test]
    fn a_named_data_directory_finds_its_configuration_beside_it() {
        let signs = Signs { data_dir: some("/srv/files"), ..Signs::default() };
        expect(&signs, &[], "/srv/files", "/srv/files/data");
        expect(&signs, &["/srv/.zeroclaw/config.toml"], "/srv/.zeroclaw", "/srv/files");
    }

    #[test]
    fn a_named_socket_is_taken_as_it_stands() {
        let mut signs = Signs { home: some("/u"), socket: some("~/ x.sock"), ..Signs::default() };
        assert_eq!(place(&signs, &[]).2, "~/ x.sock");
        signs.socket = some("");
        assert_eq!(place(&signs, &[]).2, "/u/.zeroclaw/data/daemon.sock");
    }

    #[test]
    fn the_kind_of_place() {
        let kind = |signs: &Signs| signs.place(|_| false, Path::new("/tmp")).unwrap().kind.word();
        let mut signs = Signs { home: some("/u"), ..Signs::default() };
        assert_eq!(kind(&signs), "default");
        signs.flag = Some(PathBuf::from("/etc/zeroclaw"));
        assert_eq!(kind(&signs), "custom");
        signs.flag = Some(PathBuf::from("/tmp/x"));
        assert_eq!(kind(&signs), "temporary");
    }
}
