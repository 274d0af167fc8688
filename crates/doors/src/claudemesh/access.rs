//! What processes inside a house may do here: the table's rules, applied to who asks and what for.
//!
//! Invariant: a process inside a house speaks for the member only where the table allows it to everybody. With the token of
//! a session it has what that session has, and with a hook's token what that hook has.
//!
//! It looks a client up only where that matters.

use std::fs::File;
use std::path::PathBuf;

use hostel_house::insiders::table;
use hostel_house::insiders::{Door as Name, Refusal, Rule};
use hostel_mesh::{Caller, FilePlace};
use hyper::{Method, StatusCode};
use serde_json::json;

use super::answer::Refused;
use super::confined::{self, Use};
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

/// A file that a process inside a house may have shared or written.
pub(super) enum Named {
    /// To be shared.
    Opened(File),
    /// To be written.
    Place(FilePlace),
}

/// The file that a request names, if it is for somebody who has files shared and written only below their own working
/// directory: a process inside a house, and whoever shows the token of a session. None for the owner.
pub(super) async fn named_file(
    door: &Door,
    connection: &Connection,
    caller: &Caller,
    what: Use,
    path: &str,
) -> Result<Option<Named>, Refused> {
    if *caller == Caller::Member && !connection.is_inside().await {
        return Ok(None);
    }
    let own = connection.peer().directory().await;
    let (path, closed) = (PathBuf::from(path), door.closed.clone());
    let found = hostel_tasks::spawn_blocking(move || {
        let own = own.ok_or(confined::Refused::NoDirectory)?;
        match what {
            Use::Share => confined::open(own, &path, &closed()).map(Named::Opened),
            Use::Get => confined::place(own, &path, &closed()).map(Named::Place),
        }
    });
    let found = found.await.unwrap_or(Err(confined::Refused::NoDirectory));
    let (name, field, command) = match what {
        Use::Share => ("POST /v1/file/share", "path", "hostel mesh file share"),
        Use::Get => ("GET /v1/file/get", "out", "hostel mesh file get"),
    };
    let why = match found {
        Ok(named) => return Ok(Some(named)),
        Err(confined::Refused::Told(refusal)) => return Err(refusal.into()),
        Err(confined::Refused::NoDirectory) => "the working directory of this process cannot be found out".to_owned(),
        Err(confined::Refused::Outside(own)) => format!("this path is not below `{}`", own.display()),
        Err(confined::Refused::Closed) => {
            "this path leads through a symbolic link, or to what is closed to agents".to_owned()
        }
    };
    let who = "a process inside a house, or with a session's token, has files shared and written only below its own \
               working directory, and none that the guard hides or holds read-only";
    let how = format!("the owner of the house does it from outside with `{command}`");
    Err(refuse(door, connection, name, format!("{why}: {who}; {how}")).about(field))
}
