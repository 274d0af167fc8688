//! The house's settings: flag over environment over `hostel.toml` over what is built in.
//!
//! Invariant: all three layers go through the same typed reader, so a value is right or wrong in all of them
//! alike, and an unknown key is an error that names its line.
//!
//! It reads; it never writes a configuration file.

mod file;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::error::CommandError;
use crate::paths;
use crate::text;

pub(crate) use file::OnFull;
pub(crate) use file::Reattach;

use file::Layer;

/// How a setting's text becomes a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    /// Taken as it stands.
    Text,
    /// A number or a truth value.
    Bare,
    /// Several texts, separated by commas.
    List,
}

/// Every setting there is, in the order `config show` prints them.
const KEYS: [(&str, Shape); 18] = [
    ("doors.claustrum.enabled", Shape::Bare),
    ("doors.claustrum.listen", Shape::List),
    ("doors.claustrum.reported_version", Shape::Text),
    ("doors.claustrum.shutdown_needs_auth", Shape::Bare),
    ("doors.claustrum.reattach", Shape::Text),
    ("journal.dir", Shape::Text),
    ("journal.quota", Shape::Text),
    ("journal.per_process_quota", Shape::Text),
    ("journal.on_full", Shape::Text),
    ("journal.floor", Shape::Text),
    ("journal.keep_count", Shape::Bare),
    ("journal.keep_age", Shape::Text),
    ("journal.keep_bytes", Shape::Text),
    ("limits.connections", Shape::Bare),
    ("limits.reconnect", Shape::Text),
    ("limits.start", Shape::Text),
    ("limits.shutdown", Shape::Text),
    ("limits.log", Shape::Text),
];

/// The settings in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) claustrum: ClaustrumSettings,
    pub(crate) journal: JournalSettings,
    pub(crate) limits: LimitSettings,
    /// Where each key that is not built in came from.
    origins: BTreeMap<&'static str, String>,
}

/// The claustrum door.
#[derive(Clone, Debug)]
pub(crate) struct ClaustrumSettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Further endpoints beside `run/claustrum.sock`.
    pub(crate) listen: Vec<PathBuf>,
    /// What the door calls itself; none = our own.
    pub(crate) reported_version: Option<String>,
    /// Whether `server.shutdown` needs the token.
    pub(crate) shutdown_needs_auth: bool,
    /// What a reattach does to those who already receive the process.
    pub(crate) reattach: Reattach,
}

/// What processes printed: where it is kept, how much and how long.
#[derive(Clone, Debug)]
pub(crate) struct JournalSettings {
    /// Another place for the journals; none = `journal/` in the house.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) quota: u64,
    pub(crate) per_process_quota: u64,
    pub(crate) on_full: OnFull,
    /// Disk space that is left to others; none = the smaller of 1 GiB and 5% of the file system.
    pub(crate) floor: Option<u64>,
    pub(crate) keep_count: u64,
    pub(crate) keep_age: Duration,
    pub(crate) keep_bytes: u64,
}

/// Bounds of waits and queues.
#[derive(Clone, Debug)]
pub(crate) struct LimitSettings {
    /// Connections to our own socket.
    pub(crate) connections: usize,
    /// How long `run`, `attach` and `logs -f` look for a daemon that went away.
    pub(crate) reconnect: Duration,
    /// How long a launcher waits for its daemon.
    pub(crate) start: Duration,
    /// How long a daemon has to end gracefully.
    pub(crate) shutdown: Duration,
    /// The size of the daemon's log before it is turned over.
    pub(crate) log: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            claustrum: ClaustrumSettings {
                enabled: true,
                listen: paths::default_claustrum_endpoint().into_iter().collect(),
                reported_version: None,
                shutdown_needs_auth: true,
                reattach: Reattach::Share,
            },
            journal: JournalSettings {
                dir: None,
                quota: 10 << 30,
                per_process_quota: 16 << 30,
                on_full: OnFull::Hold,
                floor: None,
                keep_count: 1_000,
                keep_age: Duration::from_secs(7 * 86_400),
                keep_bytes: 10 << 30,
            },
            limits: LimitSettings {
                connections: 4_096,
                reconnect: Duration::from_secs(30),
                start: Duration::from_secs(10),
                shutdown: Duration::from_secs(10),
                log: 8 << 20,
            },
            origins: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Reads every layer. `flags` are `KEY=VALUE` texts of `--set`.
    pub(crate) fn load(file: &Path, flags: &[String]) -> Result<Self, CommandError> {
        let mut settings = Settings::default();
        match std::fs::read_to_string(file) {
            Ok(text) => settings.apply_file(&text, file)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CommandError::failure(format!("cannot read `{}`: {error}", file.display())));
            }
        }
        settings.apply_environment(|name| std::env::var(name).ok())?;
        settings.apply_flags(flags)?;
        settings.check()?;
        Ok(settings)
    }

    /// Reads one file and nothing else, for `config check`.
    pub(crate) fn check_file(file: &Path) -> Result<(), CommandError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| CommandError::failure(format!("cannot read `{}`: {error}", file.display())))?;
        let mut settings = Settings::default();
        settings.apply_file(&text, file)?;
        settings.check()
    }

    fn apply_file(&mut self, text: &str, file: &Path) -> Result<(), CommandError> {
        let layer = Layer::read(text).map_err(|problem| {
            CommandError::usage(format!("{}:{}: {}", file.display(), problem.line, problem.message))
                .hint("see every setting with `hostel config show`")
        })?;
        self.apply(layer, &file.display().to_string());
        Ok(())
    }

    fn apply_environment(&mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<(), CommandError> {
        for (key, shape) in KEYS {
            let name = variable(key);
            let Some(value) = lookup(&name) else { continue };
            let layer = Layer::read(&document(key, shape, &value)).map_err(|problem| {
                CommandError::usage(format!("{name}: {}", problem.message)).hint("correct or unset the variable")
            })?;
            self.apply(layer, &name);
        }
        Ok(())
    }

    fn apply_flags(&mut self, flags: &[String]) -> Result<(), CommandError> {
        for flag in flags {
            let Some((key, value)) = flag.split_once('=') else {
                return Err(CommandError::usage(format!("`--set {flag}` has no `=`"))
                    .hint("write for example `--set journal.quota=5GiB`"));
            };
            let Some((key, shape)) = KEYS.iter().find(|(known, _)| *known == key.trim()) else {
                return Err(CommandError::usage(format!("there is no setting `{}`", key.trim()))
                    .hint("see every setting with `hostel config show`"));
            };
            let layer = Layer::read(&document(key, *shape, value))
                .map_err(|problem| CommandError::usage(format!("--set {key}: {}", problem.message)))?;
            self.apply(layer, "--set");
        }
        Ok(())
    }

    /// Lays one layer over what is there and remembers where it came from.
    fn apply(&mut self, layer: Layer, origin: &str) {
        let origins = &mut self.origins;
        macro_rules! take {
            ($key:literal, $from:expr, $into:expr) => {
                if let Some(value) = $from {
                    $into = value.into();
                    origins.insert($key, origin.to_owned());
                }
            };
        }
        let claustrum = layer.doors.claustrum;
        take!("doors.claustrum.enabled", claustrum.enabled, self.claustrum.enabled);
        take!(
            "doors.claustrum.listen",
            claustrum.listen.map(|list| list.0.iter().map(|path| paths::expand(path)).collect::<Vec<_>>()),
            self.claustrum.listen
        );
        take!("doors.claustrum.reported_version", claustrum.reported_version, self.claustrum.reported_version);
        take!("doors.claustrum.shutdown_needs_auth", claustrum.shutdown_needs_auth, self.claustrum.shutdown_needs_auth);
        take!("doors.claustrum.reattach", claustrum.reattach, self.claustrum.reattach);
        let journal = layer.journal;
        take!("journal.dir", journal.dir.map(|dir| paths::expand(&dir)), self.journal.dir);
        take!("journal.quota", journal.quota.map(|size| size.0), self.journal.quota);
        take!(
            "journal.per_process_quota",
            journal.per_process_quota.map(|size| size.0),
            self.journal.per_process_quota
        );
        take!("journal.on_full", journal.on_full, self.journal.on_full);
        take!("journal.floor", journal.floor.map(|size| size.0), self.journal.floor);
        take!("journal.keep_count", journal.keep_count, self.journal.keep_count);
        take!("journal.keep_age", journal.keep_age.map(|time| time.0), self.journal.keep_age);
        take!("journal.keep_bytes", journal.keep_bytes.map(|size| size.0), self.journal.keep_bytes);
        let limits = layer.limits;
        take!("limits.connections", limits.connections, self.limits.connections);
        take!("limits.reconnect", limits.reconnect.map(|time| time.0), self.limits.reconnect);
        take!("limits.start", limits.start.map(|time| time.0), self.limits.start);
        take!("limits.shutdown", limits.shutdown.map(|time| time.0), self.limits.shutdown);
        take!("limits.log", limits.log.map(|size| size.0), self.limits.log);
    }

    /// Rules about values that are well-formed one by one.
    fn check(&self) -> Result<(), CommandError> {
        let wrong = |key: &str, rule: &str| {
            let origin = self.origins.get(key).map_or("built in", String::as_str);
            Err(CommandError::usage(format!("{origin}: `{key}` {rule}")))
        };
        if self.limits.connections == 0 {
            return wrong("limits.connections", "must be at least 1");
        }
        if self.journal.quota < 1 << 20 {
            return wrong("journal.quota", "must be at least 1 MiB");
        }
        if self.journal.per_process_quota < 1 << 20 {
            return wrong("journal.per_process_quota", "must be at least 1 MiB");
        }
        if self.limits.log < 64 << 10 {
            return wrong("limits.log", "must be at least 64 KiB");
        }
        if self.journal.dir.as_ref().is_some_and(|dir| dir.is_relative()) {
            return wrong("journal.dir", "must be an absolute path");
        }
        if self.claustrum.listen.iter().any(|path| path.is_relative()) {
            return wrong("doors.claustrum.listen", "must hold absolute paths");
        }
        Ok(())
    }

    /// Each setting as key, value in the form that can be typed back, and origin.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        KEYS.iter()
            .map(|(key, _)| {
                let origin = self.origins.get(key).cloned().unwrap_or_else(|| "built in".to_owned());
                (*key, self.value(key), origin)
            })
            .collect()
    }

    fn value(&self, key: &str) -> String {
        let paths = |list: &[PathBuf]| list.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
        match key {
            "doors.claustrum.enabled" => self.claustrum.enabled.to_string(),
            "doors.claustrum.listen" => paths(&self.claustrum.listen),
            "doors.claustrum.reported_version" => self.claustrum.reported_version.clone().unwrap_or_default(),
            "doors.claustrum.shutdown_needs_auth" => self.claustrum.shutdown_needs_auth.to_string(),
            "doors.claustrum.reattach" => self.claustrum.reattach.name().to_owned(),
            "journal.dir" => self.journal.dir.as_deref().map(|dir| dir.display().to_string()).unwrap_or_default(),
            "journal.quota" => text::size(self.journal.quota),
            "journal.per_process_quota" => text::size(self.journal.per_process_quota),
            "journal.on_full" => self.journal.on_full.name().to_owned(),
            "journal.floor" => self.journal.floor.map_or_else(|| "auto".to_owned(), text::size),
            "journal.keep_count" => self.journal.keep_count.to_string(),
            "journal.keep_age" => text::duration(self.journal.keep_age),
            "journal.keep_bytes" => text::size(self.journal.keep_bytes),
            "limits.connections" => self.limits.connections.to_string(),
            "limits.reconnect" => text::duration(self.limits.reconnect),
            "limits.start" => text::duration(self.limits.start),
            "limits.shutdown" => text::duration(self.limits.shutdown),
            "limits.log" => text::size(self.limits.log),
            _ => String::new(),
        }
    }

    /// The same as data.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.rows()
            .into_iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}))
            .collect()
    }
}

/// `journal.quota` is `HOSTEL_JOURNAL_QUOTA`.
fn variable(key: &str) -> String {
    format!("HOSTEL_{}", key.replace('.', "_").to_uppercase())
}

/// One setting as a small TOML document, so that it takes the same way as a file's.
fn document(key: &str, shape: Shape, value: &str) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let value = match shape {
        Shape::Text => quoted(value),
        Shape::Bare if value.trim().chars().all(|character| character.is_ascii_alphanumeric()) => match value.trim() {
            "" => quoted(value),
            bare if bare.parse::<u64>().is_ok() || bare == "true" || bare == "false" => bare.to_owned(),
            other => quoted(other),
        },
        Shape::Bare => quoted(value),
        Shape::List => {
            let items: Vec<String> =
                value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
    };
    format!("{key} = {value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, CommandError> {
        let mut settings = Settings::default();
        settings.apply_file(text, Path::new("hostel.toml"))?;
        settings.check()?;
        Ok(settings)
    }

    #[test]
    fn a_whole_file_is_understood() {
        let settings = read(
            "[doors.claustrum]\nlisten = [\"/tmp/a.sock\", \"/tmp/b.sock\"]\nreported_version = \"7c2f88d\"\n\
             shutdown_needs_auth = false\n\n[journal]\ndir = \"/var/j\"\nquota = \"5 GiB\"\nper_process_quota = 2097152\n\
             on_full = \"drop-oldest\"\nkeep_count = 5\nkeep_age = \"1d 12h\"\nkeep_bytes = \"1 GB\"\nfloor = \"2 GiB\"\n\n\
             [limits]\nconnections = 5\nreconnect = \"1m\"\n",
        )
        .unwrap();
        assert_eq!(settings.claustrum.listen, ["/tmp/a.sock", "/tmp/b.sock"].map(PathBuf::from));
        assert_eq!(settings.claustrum.reported_version.as_deref(), Some("7c2f88d"));
        assert!(!settings.claustrum.shutdown_needs_auth);
        assert_eq!(settings.journal.quota, 5 << 30);
        assert_eq!(settings.journal.per_process_quota, 2 << 20);
        assert_eq!(settings.journal.on_full, OnFull::DropOldest);
        assert_eq!(settings.journal.keep_age, Duration::from_secs(129_600));
        assert_eq!(settings.journal.keep_bytes, 1_000_000_000);
        assert_eq!(settings.journal.floor, Some(2 << 30));
        assert_eq!(settings.limits.reconnect, Duration::from_secs(60));
        assert_eq!(
            read("[doors.claustrum]\nlisten = \"/tmp/a.sock\"\n").unwrap().claustrum.listen,
            [PathBuf::from("/tmp/a.sock")]
        );
    }

    #[test]
    fn errors_name_the_line_and_the_way_out() {
        let cases = [
            (
                "[journal]\nquota = \"1 GiB\"\nquotta = 3\n",
                "hostel.toml:3: unknown key `quotta`, the keys here are `dir`, `quota`, `per_process_quota`, `on_full`, \
                 `floor`, `keep_count`, `keep_age`, `keep_bytes`; see every setting with `hostel config show`",
            ),
            (
                "\n[jornal]\n",
                "hostel.toml:2: unknown key `jornal`, the keys here are `doors`, `journal`, `limits`; see every setting \
                 with `hostel config show`",
            ),
            (
                "[journal]\n\nquota = \"lots\"\n",
                "hostel.toml:3: `lots` is not a size, write for example \"10 GiB\"; see every setting with `hostel config show`",
            ),
            (
                "[journal]\nkeep_age = 7\n",
                "hostel.toml:2: a duration is written as text, for example \"7d\" or \"1h 30m\"; see every setting with \
                 `hostel config show`",
            ),
            (
                "[journal]\non_full = \"panic\"\n",
                "hostel.toml:2: `panic` is not one of \"hold\", \"drop-oldest\"; see every setting with `hostel config show`",
            ),
            ("[journal]\nquota = \"1 KiB\"\n", "hostel.toml: `journal.quota` must be at least 1 MiB"),
            ("[journal]\ndir = \"here\"\n", "hostel.toml: `journal.dir` must be an absolute path"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.exit_code(), 2);
        }
        let broken = read("[journal\n").unwrap_err().to_string();
        assert!(broken.starts_with("hostel.toml:1: "), "{broken}");
    }

    #[test]
    fn flag_beats_environment_beats_file() {
        let mut settings = read("[journal]\nquota = \"1 GiB\"\nkeep_count = 1\nkeep_age = \"1d\"\n").unwrap();
        settings
            .apply_environment(|name| match name {
                "HOSTEL_JOURNAL_QUOTA" => Some("2 GiB".to_owned()),
                "HOSTEL_JOURNAL_KEEP_COUNT" => Some("2".to_owned()),
                "HOSTEL_DOORS_CLAUSTRUM_LISTEN" => Some("/a, /b".to_owned()),
                _ => None,
            })
            .unwrap();
        settings.apply_flags(&["journal.quota=3GiB".to_owned()]).unwrap();
        assert_eq!(settings.journal.quota, 3 << 30);
        assert_eq!(settings.journal.keep_count, 2);
        assert_eq!(settings.journal.keep_age, Duration::from_secs(86_400));
        assert_eq!(settings.claustrum.listen, [PathBuf::from("/a"), PathBuf::from("/b")]);
        let row = |key: &str| settings.rows().into_iter().find(|row| row.0 == key).unwrap();
        assert_eq!(row("journal.quota"), ("journal.quota", "3 GiB".to_owned(), "--set".to_owned()));
        assert_eq!(row("journal.keep_count").2, "HOSTEL_JOURNAL_KEEP_COUNT");
        assert_eq!(row("journal.keep_age").2, "hostel.toml");
        assert_eq!(row("limits.start").2, "built in");
    }

    #[test]
    fn wrong_flags_and_variables_say_so() {
        let mut settings = Settings::default();
        let flag =
            |settings: &mut Settings, text: &str| settings.apply_flags(&[text.to_owned()]).unwrap_err().to_string();
        assert_eq!(
            flag(&mut settings, "journal.quota"),
            "`--set journal.quota` has no `=`; write for example `--set journal.quota=5GiB`"
        );
        assert_eq!(
            flag(&mut settings, "nope=1"),
            "there is no setting `nope`; see every setting with `hostel config show`"
        );
        assert_eq!(
            flag(&mut settings, "journal.quota=much"),
            "--set journal.quota: `much` is not a size, write for example \"10 GiB\""
        );
        let error =
            settings.apply_environment(|name| (name == "HOSTEL_LIMITS_START").then(|| "soon".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HOSTEL_LIMITS_START: `soon` is not a duration, write for example \"7d\" or \"1h 30m\"; correct or unset the variable"
        );
    }
}
