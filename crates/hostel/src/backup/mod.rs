//! `hostel backup` and `hostel restore`: a whole house and its meshes in one encrypted file.
//!
//! Invariant: a database is in it as it was at one moment, and what it refers to is at least as far: databases are taken
//! first, journals and other files after them. Whoever puts it back has what a machine that lost its power at that
//! moment would have, and everything here can live with that. What lets others in (tokens, sockets) is not part of it.
//! Memory does not grow with the house.
//!
//! A house is put back beside its place, checked to its last byte, and only then moved there.

pub(crate) mod cli;

pub(crate) mod leftovers;
mod meter;
mod pack;
mod reader;
mod source;
mod unpack;

pub(crate) use pack::run as backup;
pub(crate) use unpack::run as restore;

use hostel_wire::backup::BackupError;

use crate::error::CommandError;

/// Where the house is in the archive, and where the meshes are.
const HOUSE: &str = "house";
const MESHES: &str = "meshes";

/// The entry of `config.json`, beside a mesh's files.
const MEMBERSHIP: &str = "membership.json";

/// What a backup says of itself, before anything else.
#[derive(Debug, serde::Deserialize, serde::Serialize)]
struct Preface {
    format: u32,
    made_at: String,
    program: String,
}

const FORMAT: u32 = 1;

fn problem(what: &str, path: &std::path::Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failure(format!("cannot {what} `{}`: {error}", path.display()))
}

/// What is wrong with the file.
fn unreadable(path: &std::path::Path) -> impl Fn(BackupError) -> CommandError {
    let shown = path.display().to_string();
    move |error| {
        let failure = CommandError::failure(format!("`{shown}`: {error}"));
        match error {
            BackupError::Passphrase => failure.hint("the file is whole at its beginning; try the passphrase again"),
            BackupError::Damaged(_) => failure.hint("take another copy of it; nothing was changed"),
            BackupError::Other { .. } => failure.hint("restore it with `hostel mesh daemon restore --in PATH`"),
            _ => failure,
        }
    }
}
