//! The doors' methods against the table of what processes inside the house may do.
//!
//! Invariant: every method of every door is in the table, and the table names no method that does not exist. A method that
//! is for things of a process's own is one that its door looks at for that.

use std::collections::BTreeSet;

use hostel_house::insiders::Own;
use hostel_house::insiders::Rule;
use hostel_house::insiders::table;
use hostel_house::insiders::table::Door;

use crate::claudemesh;
use crate::claustrum;
use crate::codecast;
use crate::mcp;
use crate::native;
use crate::sudo_proxy;
use crate::zeroclaw;

fn named(door: Door) -> BTreeSet<String> {
    table::methods(door).map(str::to_owned).collect()
}

fn set<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect()
}

#[test]
fn every_method_of_every_door_is_in_the_table() {
    let contract = set(zeroclaw::methods::names(false));
    let mut own = set(native::METHODS);
    own.extend(set(zeroclaw::methods::names(true)).difference(&contract).cloned());
    for (door, methods) in [
        (Door::Native, own),
        (Door::Zeroclaw, contract),
        (Door::Claustrum, set(claustrum::request::METHODS.map(|(_, name)| name))),
        (Door::Codecast, set(codecast::METHODS)),
        (Door::Mcp, set(mcp::tool_names())),
        (Door::SudoProxy, set(sudo_proxy::action_names())),
        (Door::Claudemesh, set(claudemesh::endpoint_scopes().map(|(name, _)| name))),
    ] {
        let (missing, gone): (Vec<_>, Vec<_>) =
            (methods.difference(&named(door)).cloned().collect(), named(door).difference(&methods).cloned().collect());
        assert!(missing.is_empty(), "{door}: not in crates/house/src/insiders/table.rs: {missing:?}");
        assert!(gone.is_empty(), "{door}: in the table, but there is no such method: {gone:?}");
    }
}

/// A rule that a door does not know how to apply would be refused to everybody inside, or worse.
#[test]
fn every_door_knows_the_rules_of_its_methods() {
    use Own::{Configured, Content, Made, Mailbox, Name, NewSession, Prompted, Request, Seen, SeenList, Session};
    use Own::{SessionList, Started};
    let sessions = [Session, SessionList, Made, NewSession, Prompted, Configured];
    for entry in table::TABLE {
        let Rule::OwnOnly(own) = entry.rule else { continue };
        let known: &[Own] = match entry.door {
            Door::Native => &[Started, Seen, SeenList, Name, Request, Session],
            Door::Zeroclaw => &[Session, SessionList, Made, NewSession, Prompted, Configured, Content],
            Door::Claustrum => &[Started, Seen, Name],
            Door::Codecast => &sessions,
            Door::Mcp => &[SessionList, Session, Prompted, Mailbox],
            Door::SudoProxy => &[],
            Door::Claudemesh => &[Mailbox],
        };
        assert!(known.contains(&own), "{} {}: {own:?}", entry.door, entry.method);
    }
}

/// Whoever shows a session's token gets what sessions get: the table must not promise more.
#[test]
fn what_a_mesh_session_may_do_is_for_sessions() {
    for (name, for_sessions) in claudemesh::endpoint_scopes() {
        let own = matches!(table::rule(Door::Claudemesh, &name), Rule::OwnOnly(_));
        let denied = matches!(table::rule(Door::Claudemesh, &name), Rule::Denied(_));
        assert!(!own || for_sessions, "{name} is the member's alone");
        assert!(!denied || !for_sessions, "{name} is a session's too");
    }
}
