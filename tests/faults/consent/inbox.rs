//! A house with a sudo-proxy door, and the person who answers there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hostel_tests::wait;
use serde_json::{Value, json};

use crate::sessions::native::{Native, Trouble};
use crate::sessions::resident::Resident;

/// What the person knows and nobody else.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// Only our own sockets, and a door for commands.
pub(crate) const SETTINGS: &str = "
[doors.sudo-proxy]
enabled = true
listen = []
[doors.mcp]
enabled = false
";

/// A running house whose approver has a passphrase.
pub(crate) fn house() -> Resident {
    let house = Resident::start_with(SETTINGS);
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
    house
}

/// Where commands are asked for.
pub(crate) fn door(house: &Resident) -> PathBuf {
    house.socket("sudo.sock")
}

/// A connection that may decide.
pub(crate) fn person(house: &Resident) -> Native {
    let mut native = house.native();
    native.ask("approval/unlock", json!({"passphrase": PASSPHRASE}));
    native
}

/// What waits: each approval's id by the id its client sent, which its command names.
pub(crate) fn pending(native: &mut Native, ids: &[String]) -> Result<BTreeMap<String, String>, Trouble> {
    let list = native.call("approval/list", json!({}))?;
    let mut found = BTreeMap::new();
    for approval in list["approvals"].as_array().into_iter().flatten() {
        let words = approval["subject"]["stages"][0]["argv"].to_string();
        let id = ids.iter().find(|id| words.contains(&format!("echo {id} ")));
        let id = id.unwrap_or_else(|| panic!("nobody asked for this: {approval}"));
        let before = found.insert(id.clone(), approval["id"].as_str().expect("an id").to_owned());
        assert_eq!(before, None, "{id} waits twice");
    }
    Ok(found)
}

/// Waits until exactly these wait.
pub(crate) fn wait_for(house: &Resident, ids: &[String]) -> BTreeMap<String, String> {
    let mut native = house.native();
    wait::until(wait::LIMIT, "every request to wait", || {
        pending(&mut native, ids).ok().filter(|pending| pending.len() == ids.len())
    })
}

/// What became of an attempt to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Counted,
    /// Somebody else was first, or the clock, or its client has left.
    Settled,
}

/// Decides; anything but success and "too late" ends the test.
pub(crate) fn decide(person: &mut Native, approval: &str, word: &str) -> Decided {
    match person.call("approval/decide", json!({"id": approval, "decision": word})) {
        Ok(_) => Decided::Counted,
        Err(Trouble::Refused(_, message)) if message.contains("already") => Decided::Settled,
        Err(trouble) => panic!("approval/decide: {trouble}"),
    }
}

/// An approval as it is kept.
pub(crate) fn get(native: &mut Native, approval: &str) -> Value {
    native.ask("approval/get", json!({"id": approval}))["approval"].take()
}

/// The record of everything is whole.
pub(crate) fn check_audit(native: &mut Native) {
    let verified = native.ask("audit/verify", json!({}));
    assert_eq!(verified["broken"], Value::Null, "{verified}");
}

/// Names for so many requests.
pub(crate) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number:02}")).collect()
}
