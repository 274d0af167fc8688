//! `claustrum -install`: makes sure one version of the agent's command-line program is there and runs.
//!
//! The answer is a single line of facts; a failure is one of the facts and never an exit code. A program is put in
//! place by renaming a complete, checked and tried file, so whoever looks sees the old one or the new one.
//!
//! Nothing outside the program directory is written, whatever the version is called, except that a local blob is
//! removed once it was installed.

mod fetch;
mod place;
mod probe;
mod prune;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::claustrum;
use hostel_doors::claustrum::gojson::Object;
use hostel_house::workspace::{PathError, paths};

use super::flags::Flags;

/// Directly followed by the facts as JSON.
const MARKER: &str = "__INSTALL_RESULT__";

/// What to install and from where; empty means not given.
#[derive(Debug, Clone)]
pub(crate) struct InstallOptions {
    /// The version of the server, to be reported.
    pub(crate) server_version: String,
    /// The directory with one file per version.
    pub(crate) cli_dir: OsString,
    /// The version wanted, which is its file's name.
    pub(crate) cli_version: OsString,
    /// Where to download it from.
    pub(crate) cli_url: OsString,
    /// The SHA-256 of the compressed program, in hex.
    pub(crate) cli_checksum: OsString,
    /// A local compressed program; wins over the address.
    pub(crate) cli_zst: OsString,
    /// How many versions stay; zero or less keeps all.
    pub(crate) cli_keep: i64,
    /// Bounds of time and size.
    pub(crate) limits: InstallLimits,
}

/// Bounds of one installation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InstallLimits {
    /// The largest compressed program, in bytes.
    pub(crate) blob: u64,
    /// The largest program, in bytes.
    pub(crate) program: u64,
    /// Time for the whole download.
    pub(crate) download: Duration,
    /// Time for one `--version`.
    pub(crate) trial: Duration,
}

impl Default for InstallLimits {
    fn default() -> Self {
        Self {
            blob: 512 * 1024 * 1024,
            program: 512 * 1024 * 1024,
            download: Duration::from_secs(300),
            trial: Duration::from_secs(15),
        }
    }
}

/// Why a program was not installed. The texts are the contract's.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("invalid cli version {}", paths::quoted(.0))]
    BadVersion(OsString),
    #[error("cli {} missing and no --cli-url or --cli-zst provided", .0.display())]
    NoSource(OsString),
    #[error("opening input: {0}")]
    OpenInput(#[source] PathError),
    #[error("opening input: {} exceeds {limit} bytes", .path.display())]
    InputTooLarge { path: PathBuf, limit: u64 },
    #[error("download failed: {0}")]
    Download(String),
    #[error("download failed with status {0}")]
    Status(u16),
    #[error("checksum mismatch: expected={expected}, actual={actual}")]
    Checksum { expected: String, actual: String },
    #[error("mkdir cli dir: {0}")]
    MakeDirectory(#[source] PathError),
    #[error("decompressing: {0}")]
    Decompress(String),
    #[error("installed cli at {} is not runnable", .0.display())]
    NotRunnable(PathBuf),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("rename {} {}: {text}", .from.display(), .to.display())]
    Rename { from: PathBuf, to: PathBuf, text: String },
}

/// What is told about a run.
#[derive(Debug, Default)]
struct Facts {
    libc: &'static str,
    cli_path: PathBuf,
    was_present: bool,
    error: String,
}

/// Runs the mode and prints its line. Always a success: a failure is among the facts.
pub(super) fn run(flags: &Flags) -> ExitCode {
    let options = InstallOptions {
        server_version: super::reported_version(),
        cli_dir: flags.cli_dir.clone(),
        cli_version: flags.cli_version.clone(),
        cli_url: flags.cli_url.clone(),
        cli_checksum: flags.cli_checksum.clone(),
        cli_zst: flags.cli_zst.clone(),
        cli_keep: flags.cli_keep,
        limits: InstallLimits::default(),
    };
    let line = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let line = runtime.block_on(install(options));
            // A name lookup that outlived its download must not hold the exit.
            runtime.shutdown_background();
            line
        }
        Err(error) => {
            render(&options.server_version, &Facts { error: error.to_string(), libc: "", ..Facts::default() })
        }
    };
    // Nobody is left to tell when the reader has gone.
    io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap_or_default();
    ExitCode::SUCCESS
}

/// Installs what is asked for and returns the line to print, without its end.
pub(crate) async fn install(options: InstallOptions) -> String {
    let mut facts = Facts { libc: probe::libc().await, ..Facts::default() };
    if !options.cli_dir.is_empty() && !options.cli_version.is_empty() {
        ensure(&options, &mut facts).await;
    }
    render(&options.server_version, &facts)
}

async fn ensure(options: &InstallOptions, facts: &mut Facts) {
    let directory = paths::clean(Path::new(&options.cli_dir));
    if !is_plain_name(options.cli_version.as_bytes()) {
        facts.error = InstallError::BadVersion(options.cli_version.clone()).to_string();
        return;
    }
    let cli_path = paths::join(&directory, &options.cli_version);
    facts.cli_path.clone_from(&cli_path);
    facts.was_present = cli_path.is_file() && probe::runs(&cli_path, options.limits.trial).await;
    if !facts.was_present
        && let Err(error) = fresh(options, &directory, &cli_path).await
    {
        facts.error = error.to_string();
        return;
    }
    if let Ok(keep) = usize::try_from(options.cli_keep)
        && keep > 0
    {
        prune::prune(&directory, &options.cli_version, keep);
    }
}

/// Installs a program that is missing or does not run.
async fn fresh(options: &InstallOptions, directory: &Path, cli_path: &Path) -> Result<(), InstallError> {
    let limits = &options.limits;
    let expected = options.cli_checksum.to_string_lossy();
    if !options.cli_zst.is_empty() {
        let input = fetch::from_file(Path::new(&options.cli_zst), limits.blob).await?;
        // A blob that came over a trusted channel needs no checksum; a stated one must hold all the same.
        if !expected.is_empty() {
            fetch::verify(&input.bytes, &expected)?;
        }
        place::place(input.bytes, directory, cli_path, limits).await?;
        input.origin.remove();
        return Ok(());
    }
    if options.cli_url.is_empty() {
        return Err(InstallError::NoSource(options.cli_version.clone()));
    }
    let bytes = fetch::from_network(&options.cli_url.to_string_lossy(), limits).await?;
    fetch::verify(&bytes, &expected)?;
    place::place(bytes, directory, cli_path, limits).await
}

/// True for a name that stays in its directory.
fn is_plain_name(name: &[u8]) -> bool {
    !matches!(name, b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

fn render(server_version: &str, facts: &Facts) -> String {
    let mut json = Vec::new();
    let mut object = Object::open(&mut json);
    object
        .string("serverVersion", server_version)
        .string("os", claustrum::platform(std::env::consts::OS))
        .string("arch", claustrum::architecture(std::env::consts::ARCH))
        .string("libc", facts.libc)
        .string("cliPath", facts.cli_path.as_os_str().as_bytes())
        .boolean("cliWasPresent", facts.was_present)
        .nonempty("cliError", &facts.error);
    object.close();
    format!("{MARKER}{}", String::from_utf8_lossy(&json))
}

#[cfg(test)]
mod tests;
