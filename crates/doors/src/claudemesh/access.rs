//! What processes inside a house may do here: the table's rules, applied to who asks and what for.
//!
//! Invariant: a process inside a house speaks for the member only where the table allows it to everybody. With the token of
//! a session it has what that session has, and with a hook's token what that hook has.
//!
//! It looks a client up only where that matters.

use std::path::{Path, PathBuf};

use hostel_house::insiders::table;
use hostel_house::insiders::{Door as Name, Refusal, Rule};
use hostel_mesh::Caller;
use hyper::{Method, StatusCode};
use serde_json::json;

use super::answer::Refused;
use super::connection::Connection;
use super::door::Door;

/// Whether somebody who may speak for `caller` may use an endpoint, as the table calls it by method and template.
pub(super) async fn check(
    door: &Door,
    connection: &Connection,
    caller: &Caller,
    method: &Method,
    template: &str,
) -> Result<(), Refused> {
    let name = format!("{method} {template}");
    let rule = table::rule(Name::Claudemesh, &name);
    let free = match rule {
        Rule::Allowed => true,
        Rule::OwnOnly(_) => *caller != Caller::Member,
        Rule::Denied(_) => false,
    };
    if free || !connection.is_inside().await {
        return Ok(());
    }
    let why = Refusal::of(&name, rule).map(|refusal| refusal.text().to_owned()).unwrap_or_default();
    Err(refuse(door, connection, &name, why))
}

fn refuse(door: &Door, connection: &Connection, name: &str, why: String) -> Refused {
    door.alarm("ipc_insider_refused", json!({"request": name, "peer": connection.peer().to_string()}));
    Refused::new(StatusCode::FORBIDDEN, "forbidden", why)
}

/// Whether the daemon may read or write a file by its path for a client: not one of its own directories or of a house for
/// a process inside a house, which may be kept from them.
pub(super) async fn may_name_file(door: &Door, connection: &Connection, path: &str) -> Result<(), Refused> {
    if !connection.is_inside().await {
        return Ok(());
    }
    let (path, private) = (PathBuf::from(path), door.private.clone());
    let hidden = hostel_tasks::spawn_blocking(move || is_in(&path, &private)).await.unwrap_or(true);
    match hidden {
        false => Ok(()),
        true => {
            let why = "a process that runs inside a house has no files of the house or of the mesh sent or written; the \
                       owner of the house may do it from outside";
            Err(refuse(door, connection, "file", why.to_owned()).about("path"))
        }
    }
}

/// Whether a file is, or would be made, in one of these directories. One whose place cannot be found out is.
fn is_in(path: &Path, directories: &[PathBuf]) -> bool {
    let real = match std::fs::canonicalize(path) {
        Ok(real) => real,
        // What is not there yet will be where its directory is.
        Err(_) => match path.parent().map(std::fs::canonicalize) {
            Some(Ok(parent)) => parent,
            _ => return true,
        },
    };
    directories.iter().any(|directory| {
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
        real.starts_with(directory)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_where_they_really_are() {
        let root = tempfile::tempdir().unwrap();
        let [open, private] = ["open", "private"].map(|name| root.path().join(name));
        std::fs::create_dir(&open).unwrap();
        std::fs::create_dir(&private).unwrap();
        std::fs::write(private.join("key"), "").unwrap();
        std::os::unix::fs::symlink(&private, open.join("link")).unwrap();
        let hidden = |path: PathBuf| is_in(&path, std::slice::from_ref(&private));
        assert!(!hidden(open.join("new")) && !hidden(open.clone()));
        for path in [private.join("key"), private.join("new"), open.join("link/key"), open.join("link/new")] {
            assert!(hidden(path.clone()), "{}", path.display());
        }
        assert!(hidden(root.path().join("open/../private/key")));
        assert!(hidden(root.path().join("nowhere/file")), "what cannot be found out");
    }
}
