//! Where each agent keeps its configuration.

use std::path::Path;
use std::path::PathBuf;

use super::super::cli::Client;
use super::super::cli::Scope;
use super::super::terminal;
use crate::error::CommandError;

/// A file, and where the servers are in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    /// The objects that lead to the servers; nothing for a file that is not JSON.
    pub(super) path: Vec<String>,
}

impl Place {
    fn new(file: PathBuf, path: &[&str]) -> Self {
        Place { file, path: path.iter().map(|key| (*key).to_owned()).collect() }
    }
}

/// What the environment says.
struct Surroundings {
    home: Option<PathBuf>,
    current: PathBuf,
    variable: fn(&str) -> Option<PathBuf>,
}

/// The place of a client's configuration.
pub(super) fn find(client: Client, scope: Scope) -> Result<Place, CommandError> {
    let current = std::env::current_dir()
        .map_err(|error| CommandError::failure(format!("cannot tell the working directory: {error}")))?;
    let variable: fn(&str) -> Option<PathBuf> =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    place(client, scope, &Surroundings { home: variable("HOME"), current, variable })
}

fn place(client: Client, scope: Scope, around: &Surroundings) -> Result<Place, CommandError> {
    let home = || around.home.clone().ok_or_else(|| CommandError::usage("HOME is not set"));
    let project = |name: &str| around.current.join(name);
    let own = |variable: &str, folder: &str| match (around.variable)(variable) {
        Some(folder) => Ok(folder),
        None => home().map(|home| home.join(folder)),
    };
    Ok(match (client, scope) {
        (Client::Claude, Scope::Project) => Place::new(project(".mcp.json"), &["mcpServers"]),
        (Client::Claude, _) => {
            let folder = (around.variable)("CLAUDE_CONFIG_DIR").map_or_else(home, Ok)?;
            let file = folder.join(".claude.json");
            match scope {
                Scope::Local => Place::new(file, &["projects", utf8(&around.current)?, "mcpServers"]),
                _ => Place::new(file, &["mcpServers"]),
            }
        }
        (client, Scope::Local) => {
            return Err(CommandError::usage(format!("{} has no scope `local`", client.name()))
                .hint("use `--scope user` or `--scope project`"));
        }
        (Client::Codex, Scope::User) => Place::new(own("CODEX_HOME", ".codex")?.join("config.toml"), &[]),
        (Client::Codex, Scope::Project) => Place::new(project(".codex/config.toml"), &[]),
        (Client::Gemini, Scope::User) => {
            let folder = (around.variable)("GEMINI_CLI_HOME").map_or_else(home, Ok)?;
            Place::new(folder.join(".gemini/settings.json"), &["mcpServers"])
        }
        (Client::Gemini, Scope::Project) => Place::new(project(".gemini/settings.json"), &["mcpServers"]),
        (Client::Opencode, Scope::User) => {
            let folder = own("XDG_CONFIG_HOME", ".config")?.join("opencode");
            Place::new(first(&folder, &["opencode.jsonc", "opencode.json", "config.json"], "opencode.json"), &["mcp"])
        }
        (Client::Opencode, Scope::Project) => {
            Place::new(first(&around.current, &["opencode.jsonc", "opencode.json"], "opencode.json"), &["mcp"])
        }
    })
}

/// The first of these files that is there, else the one to be made.
fn first(folder: &Path, names: &[&str], new: &str) -> PathBuf {
    let found = names.iter().map(|name| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| folder.join(new))
}

fn utf8(path: &Path) -> Result<&str, CommandError> {
    path.to_str().ok_or_else(|| CommandError::failure(format!("`{}` is not UTF-8", path.display())))
}

/// This program's path, as long-lived as can be had: by the name it has on the search path, if that is it.
pub(super) fn own_program() -> Result<PathBuf, CommandError> {
    let own = std::env::current_exe()
        .map_err(|error| CommandError::failure(format!("cannot tell where this program is: {error}")))?;
    let named = terminal::find("hostel").filter(|found| found.canonicalize().is_ok_and(|found| found == own));
    Ok(named.unwrap_or(own))
}

/// Whether a home is the one that is taken unsaid.
pub(super) fn is_default_home(home: &Path) -> bool {
    std::env::var_os("HOME").is_some_and(|user| Path::new(&user).join(".hostel") == home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(current: &Path) -> Surroundings {
        Surroundings { home: Some(PathBuf::from("/u")), current: current.to_owned(), variable: |_| None }
    }

    #[test]
    fn the_files_of_each_client() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path();
        let file = |client, scope| place(client, scope, &around(here)).unwrap().file;
        assert_eq!(file(Client::Claude, Scope::User), Path::new("/u/.claude.json"));
        assert_eq!(file(Client::Claude, Scope::Project), here.join(".mcp.json"));
        assert_eq!(file(Client::Codex, Scope::User), Path::new("/u/.codex/config.toml"));
        assert_eq!(file(Client::Gemini, Scope::User), Path::new("/u/.gemini/settings.json"));
        assert_eq!(file(Client::Opencode, Scope::User), Path::new("/u/.config/opencode/opencode.json"));
        assert_eq!(file(Client::Opencode, Scope::Project), here.join("opencode.json"));
        std::fs::write(here.join("opencode.jsonc"), "{}").unwrap();
        assert_eq!(file(Client::Opencode, Scope::Project), here.join("opencode.jsonc"));
        let local = place(Client::Claude, Scope::Local, &around(here)).unwrap();
        assert_eq!(local.path, ["projects", here.to_str().unwrap(), "mcpServers"]);
        assert!(place(Client::Gemini, Scope::Local, &around(here)).is_err());
        let moved = Surroundings { variable: |_| Some("/elsewhere".into()), ..around(here) };
        assert_eq!(place(Client::Codex, Scope::User, &moved).unwrap().file, Path::new("/elsewhere/config.toml"));
        assert_eq!(place(Client::Claude, Scope::User, &moved).unwrap().file, Path::new("/elsewhere/.claude.json"));
    }
}
