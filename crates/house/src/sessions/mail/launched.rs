//! Sessions that somebody launched into a mesh: that somebody sees to their place in it, for as long as it runs.
//!
//! Invariant: where such a session is stands in its own environment, which is on disk with it and never changes. Whether
//! it is there at this moment only the mesh knows, by the token in the file that is named here.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::sessions::session::Session;

/// The variables that lead what runs inside a session of a mesh to that session.
pub mod variables {
    /// The file with a session's token.
    pub const TOKEN_FILE: &str = "CLAUDEMESH_IPC_TOKEN_FILE";
    /// The token itself.
    pub const TOKEN: &str = "CLAUDEMESH_IPC_TOKEN";
    /// The mesh that is meant where none is named.
    pub const MESH: &str = "CLAUDEMESH_MESH";
    /// The name of a launched session: whoever has it is inside.
    pub const SESSION: &str = "CLAUDEMESH_SESSION";
    /// All of them.
    pub const ALL: [&str; 4] = [TOKEN_FILE, TOKEN, MESH, SESSION];
}

/// Where a launched session is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launched {
    /// What the mesh is called here; it is in no other.
    pub mesh: String,
    /// What the session is called there: the second half of `host/name`.
    pub name: String,
    /// The file with its token, which is gone with it.
    pub token_file: PathBuf,
}

/// Where a session with this environment was launched, if it was.
pub(in crate::sessions) fn launched(env: &[(OsString, OsString)]) -> Option<Launched> {
    let value = |name: &str| {
        let found = env.iter().find(|(known, _)| known == name)?;
        Some(&found.1).filter(|value| !value.is_empty())
    };
    let text = |name: &str| value(name)?.to_str().map(str::to_owned);
    Some(Launched {
        mesh: text(variables::MESH)?,
        name: text(variables::SESSION)?,
        token_file: value(variables::TOKEN_FILE)?.into(),
    })
}

impl Session {
    /// Where it was launched, if it was.
    #[must_use]
    pub fn launched(&self) -> Option<Launched> {
        launched(&self.env)
    }

    /// The file with its token in a mesh, where it has one.
    #[must_use]
    pub fn token_file(&self) -> Option<PathBuf> {
        let launched = self.launched().map(|launched| launched.token_file);
        launched.or_else(|| self.own_file().map(|(_, path)| path.into()))
    }

    /// Whether its environment has a token of its own: somebody else than the house sees to its place in a mesh.
    #[must_use]
    pub fn has_own_token(&self) -> bool {
        let tokens = [variables::TOKEN_FILE, variables::TOKEN];
        self.env.iter().any(|(name, _)| tokens.iter().any(|token| name == token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_all_three_was_launched() {
        let all = [(variables::MESH, "lab"), (variables::SESSION, "review"), (variables::TOKEN_FILE, "/run/t")];
        let env = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let found = launched(&env(&all)).unwrap();
        assert_eq!((found.mesh.as_str(), found.name.as_str(), found.token_file), ("lab", "review", "/run/t".into()));
        for missing in 0..all.len() {
            let mut some = all;
            some[missing].1 = "";
            assert_eq!(launched(&env(&some)), None);
            some[missing].0 = "OTHER";
            assert_eq!(launched(&env(&some)), None);
        }
    }
}
