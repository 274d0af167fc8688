//! Who is compared: the bare limit, hostel, and the real program it stands in for where that can be had.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;
use anyhow::Result;

use crate::options::Options;

/// The version of claustrum the bars refer to.
pub(crate) const PEER: &str = "claustrum 1.4.0";

/// The version of sudo-proxy the bars refer to.
pub(crate) const PROXY: &str = "sudo-proxy 1.2.0";

/// What sort of subject it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bare,
    Hostel,
    Claustrum,
    SudoProxy,
}

/// One column of the table.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) label: &'static str,
    /// The program to start; unused for the bare limit.
    pub(crate) program: PathBuf,
}

/// The subjects asked for that exist here, and loud words about those that do not.
pub(crate) fn find(options: &Options) -> Result<(Vec<Subject>, Vec<String>)> {
    let wanted = |name: &str| options.subjects.iter().any(|subject| subject == name);
    let mut subjects = Vec::new();
    let mut missing = Vec::new();
    if wanted("bare") {
        subjects.push(Subject { kind: Kind::Bare, label: "bare", program: PathBuf::new() });
    }
    if wanted("hostel") {
        let program = std::env::var_os("HOSTEL_BIN").map_or_else(|| PathBuf::from("target/dist/hostel"), PathBuf::from);
        subjects.push(Subject {
            kind: Kind::Hostel,
            label: "hostel",
            program: existing(&program).context("hostel is not there: build it, or set HOSTEL_BIN")?,
        });
    }
    if wanted("claustrum") {
        for (label, variable) in [(PEER, "CLAUSTRUM_140"), ("claustrum 1.8.0", "CLAUSTRUM_180")] {
            match std::env::var_os(variable).filter(|value| !value.is_empty()) {
                Some(program) => subjects.push(Subject {
                    kind: Kind::Claustrum,
                    label,
                    program: existing(Path::new(&program)).context(variable)?,
                }),
                None if label == PEER => missing
                    .push(format!("real {label} unavailable ({variable} is not set): no ratio against it is measured")),
                None => {}
            }
        }
    }
    if wanted("sudo-proxy") {
        match std::env::var_os("SUDO_PROXY_120").filter(|value| !value.is_empty()) {
            Some(program) => subjects.push(Subject {
                kind: Kind::SudoProxy,
                label: PROXY,
                program: existing(Path::new(&program)).context("SUDO_PROXY_120")?,
            }),
            None => missing
                .push(format!("real {PROXY} unavailable (SUDO_PROXY_120 is not set): no ratio against it is measured")),
        }
    }
    Ok((subjects, missing))
}

fn existing(program: &Path) -> Result<PathBuf> {
    fs::canonicalize(program).with_context(|| format!("`{}`", program.display()))
}

/// The full path of a standard program, so that no subject spends time searching for it.
pub(crate) fn program(name: &str) -> Result<String> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file())
        .and_then(|path| path.to_str().map(str::to_owned))
        .with_context(|| format!("the program `{name}` is not installed"))
}
