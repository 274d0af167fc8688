//! The params of every method that takes any.
//!
//! Fields are shared by namespace where the contract shares them: a field that this method ignores
//! but another one of the namespace reads must still have the right type. Every `decode` is a pure
//! function of the params text, and one that fails means `Invalid params`.

use super::gojson::decode::{
    boolean, field_of, members, optional_boolean, optional_signed, optional_unsigned, signed, string, string_map,
    strings, unsigned,
};
use super::gojson::{Malformed, Scanner};
use std::borrow::Cow;

/// `files.list`, `files.validate`, `files.stat`, `files.read`.
#[derive(Debug, Default, PartialEq)]
pub struct PathParams<'a> {
    /// The file or directory.
    pub path: Cow<'a, str>,
    /// The largest size the caller takes; zero and below mean no limit.
    pub max_bytes: i64,
}

/// `files.extract_tar`.
#[derive(Debug, Default, PartialEq)]
pub struct ExtractParams<'a> {
    /// The archive to unpack and remove.
    pub archive_path: Cow<'a, str>,
    /// The directory to replace.
    pub dest_dir: Cow<'a, str>,
}

/// Every `git.*` method.
#[derive(Debug, Default, PartialEq)]
pub struct GitParams<'a> {
    /// The repository, for the methods that look.
    pub path: Cow<'a, str>,
    /// The repository, for the worktree methods.
    pub base_repo: Cow<'a, str>,
    /// The branch to make.
    pub branch_name: Cow<'a, str>,
    /// Where the worktree is or will be.
    pub worktree_path: Cow<'a, str>,
    /// What the new branch starts from.
    pub source_branch: Cow<'a, str>,
}

/// `process.spawn`.
#[derive(Debug, Default, PartialEq)]
pub struct SpawnParams<'a> {
    /// The name the caller gives the process.
    pub id: Cow<'a, str>,
    /// The program, bare or as a path.
    pub command: Cow<'a, str>,
    /// Its arguments, without the program's own name.
    pub args: Vec<String>,
    /// Its directory; empty means the daemon's.
    pub cwd: Cow<'a, str>,
    /// What is laid over the daemon's environment.
    pub env: Vec<(String, String)>,
    /// Whether the reply is to name pid and start time.
    pub want_pid: bool,
}

/// `process.stdin`.
#[derive(Debug, Default, PartialEq)]
pub struct StdinParams<'a> {
    /// The process.
    pub id: Cow<'a, str>,
    /// The bytes in base64.
    pub data: Cow<'a, str>,
    /// Where the caller believes these bytes start.
    pub offset: Option<u64>,
}

/// `process.kill`.
#[derive(Debug, Default, PartialEq)]
pub struct KillParams<'a> {
    /// The process.
    pub id: Cow<'a, str>,
    /// The signal's name.
    pub signal: Cow<'a, str>,
}

/// `process.killAndWait`.
#[derive(Debug, Default, PartialEq)]
pub struct KillAndWaitParams<'a> {
    /// The process.
    pub id: Cow<'a, str>,
    /// The first signal's name.
    pub signal: Cow<'a, str>,
    /// How long to wait for it.
    pub timeout_ms: Option<i64>,
    /// Whether to kill after that.
    pub escalate: Option<bool>,
}

/// `process.reattach`.
#[derive(Debug, Default, PartialEq)]
pub struct ReattachParams<'a> {
    /// The process.
    pub id: Cow<'a, str>,
    /// The last frame the caller has.
    pub from_seq: u64,
    /// Whether the reply is to name pid and start time.
    pub want_pid: bool,
}

impl<'a> PathParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        fill(params, &["path", "maxBytes"], |field, scanner| match field {
            0 => string(scanner, &mut read.path),
            _ => signed(scanner, &mut read.max_bytes),
        })?;
        Ok(read)
    }
}

impl<'a> ExtractParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        fill(params, &["archivePath", "destDir"], |field, scanner| {
            string(
                scanner,
                match field {
                    0 => &mut read.archive_path,
                    _ => &mut read.dest_dir,
                },
            )
        })?;
        Ok(read)
    }
}

impl<'a> GitParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        const NAMES: [&str; 5] = ["path", "baseRepo", "branchName", "worktreePath", "sourceBranch"];
        let mut read = Self::default();
        fill(params, &NAMES, |field, scanner| {
            string(
                scanner,
                match field {
                    0 => &mut read.path,
                    1 => &mut read.base_repo,
                    2 => &mut read.branch_name,
                    3 => &mut read.worktree_path,
                    _ => &mut read.source_branch,
                },
            )
        })?;
        Ok(read)
    }
}

impl<'a> SpawnParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        const NAMES: [&str; 6] = ["id", "command", "args", "cwd", "env", "wantPid"];
        let mut read = Self::default();
        fill(params, &NAMES, |field, scanner| match field {
            0 => string(scanner, &mut read.id),
            1 => string(scanner, &mut read.command),
            2 => strings(scanner, &mut read.args),
            3 => string(scanner, &mut read.cwd),
            4 => string_map(scanner, &mut read.env),
            _ => boolean(scanner, &mut read.want_pid),
        })?;
        Ok(read)
    }
}

impl<'a> StdinParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        fill(params, &["id", "data", "offset"], |field, scanner| match field {
            0 => string(scanner, &mut read.id),
            1 => string(scanner, &mut read.data),
            _ => optional_unsigned(scanner, &mut read.offset),
        })?;
        Ok(read)
    }
}

impl<'a> KillParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        fill(params, &["id", "signal"], |field, scanner| match field {
            0 => string(scanner, &mut read.id),
            _ => string(scanner, &mut read.signal),
        })?;
        Ok(read)
    }
}

impl<'a> KillAndWaitParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        const NAMES: [&str; 4] = ["id", "signal", "timeoutMs", "escalate"];
        let mut read = Self::default();
        fill(params, &NAMES, |field, scanner| match field {
            0 => string(scanner, &mut read.id),
            1 => string(scanner, &mut read.signal),
            2 => optional_signed(scanner, &mut read.timeout_ms),
            _ => optional_boolean(scanner, &mut read.escalate),
        })?;
        Ok(read)
    }
}

impl<'a> ReattachParams<'a> {
    /// Reads the params text.
    pub fn decode(params: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        fill(params, &["id", "fromSeq", "wantPid"], |field, scanner| match field {
            0 => string(scanner, &mut read.id),
            1 => unsigned(scanner, &mut read.from_seq),
            _ => boolean(scanner, &mut read.want_pid),
        })?;
        Ok(read)
    }
}

/// Reads an object, handing each member whose key is one of `names` to `set` by its place there.
fn fill<'a>(
    params: &'a [u8],
    names: &[&str],
    mut set: impl FnMut(usize, &mut Scanner<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    members(params, |key, scanner| match field_of(key, names) {
        Some(field) => set(field, scanner).map(|()| true),
        None => Ok(false),
    })
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
