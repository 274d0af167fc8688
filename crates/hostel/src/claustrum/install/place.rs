//! Putting a program in place: decompress beside the final name, try it, rename.
//!
//! The temporary file has a name of its own, is made anew and never through a link, and is gone on every way out but
//! the successful one. Two installations at the same time do not disturb each other; the last rename wins.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hostel_house::workspace::{PathError, errno_of, errno_text};

use super::{InstallError, InstallLimits, probe};

/// What the names of our temporary files end with; such files never count as versions.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

const DIRECTORY_MODE: u32 = 0o700;
const PROGRAM_MODE: u32 = 0o755;
const EEXIST: i32 = 17;
const COPY_BUFFER: usize = 128 * 1024;
/// Names to try before giving up; a clash needs the same process number and the same moment.
const NAME_TRIES: u32 = 16;

/// Decompresses `blob` and makes it the program at `cli_path`, if it runs.
pub(super) async fn place(
    blob: Vec<u8>,
    directory: &Path,
    cli_path: &Path,
    limits: &InstallLimits,
) -> Result<(), InstallError> {
    let (directory, named) = (directory.to_path_buf(), cli_path.to_path_buf());
    let size_limit = limits.program;
    let unpacked = hostel_tasks::spawn_blocking(move || unpack(&blob, &directory, &named, size_limit)).await;
    let temporary = match unpacked {
        Ok(unpacked) => unpacked?,
        Err(failed) => return Err(InstallError::Decompress(failed.to_string())),
    };
    if !probe::runs(&temporary.path, limits.trial).await {
        return Err(InstallError::NotRunnable(cli_path.to_path_buf()));
    }
    temporary.rename(cli_path)
}

fn unpack(blob: &[u8], directory: &Path, cli_path: &Path, limit: u64) -> Result<Temporary, InstallError> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
        .map_err(|error| InstallError::MakeDirectory(PathError::new("mkdir", directory, &error)))?;
    let (temporary, mut file) = Temporary::create(cli_path)?;
    decompress(blob, &mut file, &temporary.path, limit)?;
    file.set_permissions(Permissions::from_mode(PROGRAM_MODE))
        .map_err(|error| PathError::new("chmod", &temporary.path, &error))?;
    Ok(temporary)
}

fn decompress(blob: &[u8], file: &mut File, path: &Path, limit: u64) -> Result<(), InstallError> {
    if blob.is_empty() {
        return Err(InstallError::Decompress("EOF".to_owned()));
    }
    let failed = |error: std::io::Error| InstallError::Decompress(error.to_string());
    let mut decoder = zstd::stream::read::Decoder::with_buffer(blob).map_err(failed)?;
    let mut buffer = vec![0; COPY_BUFFER];
    let mut written: u64 = 0;
    loop {
        let count = decoder.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok(());
        }
        written += count as u64;
        if written > limit {
            return Err(InstallError::Decompress(format!("decompressed CLI exceeds {limit} bytes")));
        }
        file.write_all(&buffer[..count])
            .map_err(|error| InstallError::Decompress(PathError::new("write", path, &error).to_string()))?;
    }
}

/// A file that vanishes unless it is given its final name.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn create(cli_path: &Path) -> Result<(Self, File), InstallError> {
        let mut attempt = 0;
        loop {
            let path = Self::name(cli_path, attempt);
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            match made {
                Ok(file) => return Ok((Self { path }, file)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < NAME_TRIES => {
                    attempt += 1;
                }
                Err(error) => return Err(PathError::new("open", &path, &error).into()),
            }
        }
    }

    fn name(cli_path: &Path, attempt: u32) -> PathBuf {
        let moment = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.subsec_nanos());
        let mut name = cli_path.as_os_str().to_owned();
        name.push(format!(".{}-{moment}-{attempt}{TEMPORARY_SUFFIX}", std::process::id()));
        PathBuf::from(name)
    }

    /// After this the file has its final name, and what is dropped no longer exists.
    fn rename(self, to: &Path) -> Result<(), InstallError> {
        fs::rename(&self.path, to).map_err(|error| {
            // A directory in the way is told as what it is to the caller: something that exists.
            let in_the_way = error.kind() == std::io::ErrorKind::IsADirectory;
            let errno = if in_the_way { EEXIST } else { errno_of(&error) };
            InstallError::Rename { from: self.path.clone(), to: to.to_path_buf(), text: errno_text(errno) }
        })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Fails when the file was renamed, which is the good case.
        drop(fs::remove_file(&self.path));
    }
}
