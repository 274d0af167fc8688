//! What a codecast daemon is told: `~/.codecast/daemon.yaml`, and two variables over it.
//!
//! Invariant: nothing in the file keeps the daemon from starting. A file that cannot be understood is said to be so,
//! and what is built in counts.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;

use hostel_doors::codecast::yaml::{self, Node, YamlError};

use crate::config::CODECAST_PORT;
use crate::config::parse_host;
use crate::paths;

/// The most of the file that is read.
const FILE_LIMIT: u64 = 64 << 10;

/// What the daemon does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Options {
    /// The first port to try.
    pub(crate) port: u16,
    /// The address as it was written.
    pub(crate) bind: String,
    pub(crate) tokens_file: Option<PathBuf>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            port: CODECAST_PORT,
            bind: Ipv4Addr::LOCALHOST.to_string(),
            tokens_file: None,
            tls_cert: None,
            tls_key: None,
        }
    }
}

impl Options {
    /// Reads the file; the second value says what was wrong with it.
    pub(crate) fn read(file: &Path) -> (Self, Option<String>) {
        match read_bounded(file) {
            Ok(Some(text)) => Options::from_yaml(&text)
                .map_or_else(|problem| (Options::default(), Some(problem.to_string())), |options| (options, None)),
            Ok(None) => (Options::default(), None),
            Err(error) => (Options::default(), Some(error.to_string())),
        }
    }

    /// Keys that nobody knows here are somebody else's.
    fn from_yaml(text: &str) -> Result<Self, YamlError> {
        let file = yaml::parse(text)?;
        let built_in = Options::default();
        let text = |key: &str| file.get(key)?.map(Node::text).transpose();
        let path = |key: &str| Ok(text(key)?.filter(|text| !text.is_empty()).map(|text| paths::expand(&text)));
        Ok(Options {
            port: file.get("port")?.map(Node::port).transpose()?.unwrap_or(built_in.port),
            bind: text("bind")?.unwrap_or(built_in.bind),
            tokens_file: path("tokens_file")?,
            tls_cert: path("tls_cert")?,
            tls_key: path("tls_key")?,
        })
    }

    /// Lays `DAEMON_PORT` and `DAEMON_BIND` over it; a port that is none is passed over.
    pub(crate) fn over(mut self, port: Option<&str>, bind: Option<&str>) -> Self {
        if let Some(port) = port.and_then(|port| port.trim().parse().ok()) {
            self.port = port;
        }
        if let Some(bind) = bind.filter(|bind| !bind.trim().is_empty()) {
            bind.clone_into(&mut self.bind);
        }
        self
    }

    /// The address to bind.
    pub(crate) fn address(&self) -> Result<IpAddr, String> {
        parse_host(&self.bind).ok_or_else(|| format!("`{}` is not an address this daemon can listen on", self.bind))
    }
}

fn read_bounded(file: &Path) -> std::io::Result<Option<String>> {
    use std::io::Read as _;
    let mut text = String::new();
    match std::fs::File::open(file) {
        Ok(file) => file.take(FILE_LIMIT).read_to_string(&mut text).map(|_| Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_understood_in_part_or_not_at_all() {
        let read = |text: &str| Options::from_yaml(text);
        let whole =
            read("port: 9200\nbind: 0.0.0.0\ntokens_file: /t\ntls_cert: /c\ntls_key: \"/k\"\nother: [1]\n").unwrap();
        assert_eq!((whole.port, whole.bind.as_str()), (9200, "0.0.0.0"));
        assert_eq!(whole.tokens_file.as_deref(), Some(Path::new("/t")));
        assert_eq!(whole.tls_key.as_deref(), Some(Path::new("/k")));
        assert_eq!(read("port: 1\n").unwrap(), Options { port: 1, ..Options::default() });
        assert_eq!(read("bind: ::1\n").unwrap().bind, "::1");
        for empty in ["", "\n", "---\n", "# nothing\n", "port:\n"] {
            assert_eq!(read(empty).unwrap(), Options::default(), "{empty:?}");
        }
        for wrong in ["port: many\n", "port: 70000\n", "[", "just words\n"] {
            let problem = read(wrong).unwrap_err().to_string();
            assert!(!problem.is_empty() && !problem.contains('\n'), "{wrong:?}: {problem}");
        }
    }

    #[test]
    fn variables_count_more_than_the_file() {
        let options = Options { port: 5, ..Options::default() };
        assert_eq!(
            options.clone().over(Some("6"), Some("::1")),
            Options { port: 6, bind: "::1".to_owned(), ..options.clone() }
        );
        assert_eq!(options.clone().over(Some("x"), Some(" ")), options);
        assert_eq!(options.clone().over(None, None), options);
    }

    #[test]
    fn every_name_of_this_machine_is_an_address() {
        for (bind, loopback) in [
            ("127.0.0.1", true),
            ("localhost", true),
            ("::1", true),
            ("[::1]", true),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            let options = Options { bind: bind.to_owned(), ..Options::default() };
            assert_eq!(options.address().unwrap().is_loopback(), loopback, "{bind}");
        }
        assert!(Options { bind: "my-host".to_owned(), ..Options::default() }.address().is_err());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_said_to_be_so() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("daemon.yaml");
        assert_eq!(Options::read(&file), (Options::default(), None));
        std::fs::write(&file, "port: 9300\n").unwrap();
        assert_eq!(Options::read(&file).0.port, 9300);
        std::fs::write(&file, "port: {\n").unwrap();
        let (options, problem) = Options::read(&file);
        assert!(options == Options::default() && problem.is_some());
    }
}
