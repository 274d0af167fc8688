//! The gates every request passes before anybody is asked, in the contract's order and with its words.
//!
//! Invariant: a [`Screened`] request holds no character that an approver's screen must not get, an [`Accepted`] one is
//! fresh and brings only variables that may be brought. There is no other way to make either, so nothing that was not
//! judged can be shown or run.
//!
//! Whether an id was seen before is [`super::replay`]'s business: nothing here remembers anything.

use std::collections::BTreeMap;

use super::characters::has_forbidden;
use super::request::Action;
use super::request::Fields;
use super::time;
use super::time::Stale;
use super::time::Window;

/// Names a request may bring values for, besides those that start with `LC_`.
const NAMES: [&str; 5] = ["LANG", "TZ", "HOME", "DEBIAN_FRONTEND", "TERM"];

/// The one name that has its own refusal.
const AGENT: &str = "SSH_AUTH_SOCK";

/// Why a request goes no further, with the id it is answered under.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refused {
    pub(crate) id: String,
    pub(crate) message: String,
}

/// A request that can be shown.
#[derive(Debug)]
pub(crate) struct Screened(Fields);

/// A request that may be carried out, or put to a person, unless its id was used before.
#[derive(Debug)]
pub(crate) struct Accepted(Fields);

impl Screened {
    /// The third and the fourth gate: content, then agent forwarding.
    pub(crate) fn of(request: Fields, stages: usize) -> Result<Self, Refused> {
        let judged = content(&request, stages).and_then(|()| {
            let forbidden = request.forward_agent && request.privileged;
            if forbidden { Err("forward_agent is only allowed for unprivileged commands".to_owned()) } else { Ok(()) }
        });
        match judged {
            Ok(()) => Ok(Screened(request)),
            Err(message) => Err(Refused { id: request.id, message }),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    /// What it wants.
    pub(crate) fn action(&self) -> Action {
        self.0.action
    }

    /// The fifth and the sixth gate: freshness at the second `now`, then the names of variables.
    pub(crate) fn accept(self, now: i64, window: Window) -> Result<Accepted, Refused> {
        let fresh = time::judge(&self.0.time, now, window).map_err(|stale| match stale {
            Stale::Missing => "missing time field".to_owned(),
            Stale::Malformed => "malformed time field".to_owned(),
            Stale::Old(age) => format!("request too old: {age}s (max {}s)", window.age),
            Stale::Ahead(lead) => format!("request time is in the future: {lead}s (max {}s)", window.lead),
        });
        match fresh.and_then(|()| names(&self.0.env)) {
            Ok(()) => Ok(Accepted(self.0)),
            Err(message) => Err(Refused { id: self.0.id, message }),
        }
    }
}

impl std::ops::Deref for Accepted {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl Accepted {
    /// Everything of it.
    pub(crate) fn into_fields(self) -> Fields {
        self.0
    }
}

/// The first thing that is wrong with the content.
fn content(request: &Fields, stages: usize) -> Result<(), String> {
    if request.action == Action::Exec && request.pipeline.is_empty() {
        return Err("pipeline must not be empty".to_owned());
    }
    // One stage after the other, as the contract does it: whether it has words, then what they hold.
    for (stage, words) in request.pipeline.iter().enumerate() {
        if words.is_empty() {
            return Err(format!("pipeline stage {stage} must not be empty"));
        }
        if let Some(word) = words.iter().position(|word| has_forbidden(word)) {
            return Err(format!("pipeline[{stage}][{word}] contains forbidden control/bidi characters"));
        }
    }
    let count = request.pipeline.len();
    if count > stages {
        return Err(format!("pipeline has too many stages: {count} (max {stages})"));
    }
    for (name, value) in &request.env {
        if has_forbidden(name) {
            return Err(format!("env key '{name}' contains forbidden characters"));
        }
        if has_forbidden(value) {
            return Err("env value contains forbidden characters".to_owned());
        }
    }
    let fields = [
        ("reason", &request.reason),
        ("session", &request.session),
        ("host", &request.host),
        ("version", &request.version),
        ("id", &request.id),
        ("time", &request.time),
    ];
    match fields.iter().find(|(_, text)| has_forbidden(text)) {
        Some((field, _)) => Err(format!("{field} contains forbidden control/bidi characters")),
        None => Ok(()),
    }
}

fn names(env: &BTreeMap<String, String>) -> Result<(), String> {
    if env.contains_key(AGENT) {
        return Err(format!("{AGENT} cannot be set in request env; use forward_agent instead"));
    }
    match env.keys().find(|name| !is_allowed(name)) {
        Some(name) => Err(format!("environment variable not allowed: {name}")),
        None => Ok(()),
    }
}

/// Anything may follow `LC_` that a variable's name is made of; a `=` there would make another variable of it.
fn is_allowed(name: &str) -> bool {
    let locale = name.strip_prefix("LC_");
    NAMES.contains(&name)
        || locale.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::super::request::decode;
    use super::*;

    const WINDOW: Window = Window { age: 60, lead: 30 };
    const NOW: i64 = 1_770_993_000;

    fn pass(changes: &Value) -> Result<Accepted, String> {
        let mut request =
            json!({"id": "I", "time": "2026-02-13T14:30:00Z", "pipeline": [["a", "b"], ["c"]], "privileged": false});
        for (key, value) in changes.as_object().unwrap() {
            request[key] = value.clone();
        }
        let id = request["id"].as_str().unwrap().to_owned();
        let fields = decode(request.to_string().as_bytes()).unwrap();
        let passed = Screened::of(fields, 4).and_then(|screened| screened.accept(NOW, WINDOW));
        passed.map_err(|refused| {
            assert_eq!(refused.id, id, "a refusal carries the id as it was sent");
            refused.message
        })
    }

    fn refusal(changes: &Value) -> String {
        pass(changes).expect_err(&changes.to_string())
    }

    #[test]
    fn every_gate_has_its_words() {
        for (changes, message) in [
            (json!({"pipeline": []}), "pipeline must not be empty"),
            (json!({"pipeline": [["a"], []]}), "pipeline stage 1 must not be empty"),
            (json!({"pipeline": [["a"], ["b"], ["c"], ["d"], ["e"]]}), "pipeline has too many stages: 5 (max 4)"),
            (
                json!({"pipeline": [["a"], ["b", "c\u{9b}"]]}),
                "pipeline[1][1] contains forbidden control/bidi characters",
            ),
            (json!({"env": {"A\n": "1"}}), "env key 'A\n' contains forbidden characters"),
            (json!({"env": {"LANG": "\u{202e}"}}), "env value contains forbidden characters"),
            (json!({"reason": "\n"}), "reason contains forbidden control/bidi characters"),
            (json!({"session": "\n"}), "session contains forbidden control/bidi characters"),
            (json!({"host": "\n"}), "host contains forbidden control/bidi characters"),
            (json!({"version": "\n"}), "version contains forbidden control/bidi characters"),
            (json!({"id": "\n"}), "id contains forbidden control/bidi characters"),
            (json!({"time": "2026-02-13T14:30:00Z\n"}), "time contains forbidden control/bidi characters"),
            (
                json!({"forward_agent": true, "privileged": true}),
                "forward_agent is only allowed for unprivileged commands",
            ),
            (json!({"time": ""}), "missing time field"),
            (json!({"time": " "}), "malformed time field"),
            (json!({"time": "2026-02-13T14:28:59Z"}), "request too old: 61s (max 60s)"),
            (json!({"time": "2026-02-13T14:30:31Z"}), "request time is in the future: 31s (max 30s)"),
            (
                json!({"env": {"SSH_AUTH_SOCK": "x"}}),
                "SSH_AUTH_SOCK cannot be set in request env; use forward_agent instead",
            ),
            (json!({"env": {"PATH": "x"}}), "environment variable not allowed: PATH"),
            (json!({"env": {"lang": "x"}}), "environment variable not allowed: lang"),
            (json!({"env": {"LC_A=B": "x"}}), "environment variable not allowed: LC_A=B"),
        ] {
            assert_eq!(refusal(&changes), message);
        }
    }

    #[test]
    fn the_first_gate_that_closes_answers() {
        let mut all = json!({
            "pipeline": [[]], "env": {"A\n": "\n", "SSH_AUTH_SOCK": ""}, "reason": "\n", "session": "\n", "host": "\n",
            "version": "\n", "id": "\n", "time": "\n", "forward_agent": true, "privileged": true,
        });
        let steps = [
            ("pipeline stage 0 must not be empty", "pipeline", json!([["\n"]])),
            ("pipeline[0][0] contains forbidden control/bidi characters", "pipeline", json!([["a"]])),
            ("env key 'A\n' contains forbidden characters", "env", json!({"A": "\n", "SSH_AUTH_SOCK": ""})),
            ("env value contains forbidden characters", "env", json!({"A": "", "SSH_AUTH_SOCK": ""})),
            ("reason contains forbidden control/bidi characters", "reason", json!("")),
            ("session contains forbidden control/bidi characters", "session", json!("")),
            ("host contains forbidden control/bidi characters", "host", json!("")),
            ("version contains forbidden control/bidi characters", "version", json!("")),
            ("id contains forbidden control/bidi characters", "id", json!("")),
            ("time contains forbidden control/bidi characters", "time", json!("")),
            ("forward_agent is only allowed for unprivileged commands", "privileged", json!(false)),
            ("missing time field", "time", json!("x")),
            ("malformed time field", "time", json!("2026-02-13T14:30:00Z")),
            ("SSH_AUTH_SOCK cannot be set in request env; use forward_agent instead", "env", json!({"A": ""})),
            ("environment variable not allowed: A", "env", json!({})),
        ];
        for (message, key, better) in steps {
            assert_eq!(refusal(&all), message);
            all[key] = better;
        }
        pass(&all).unwrap();
    }

    #[test]
    fn what_may_be_brought() {
        let env = json!({
            "LANG": "C", "TZ": "UTC", "HOME": "/", "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb", "LC_ALL": "C",
            "LC_": "", "LC_x9_": "é\t",
        });
        assert_eq!(pass(&json!({"env": env})).unwrap().env.len(), 8);
    }

    #[test]
    fn control_requests_need_no_stages_but_theirs_are_judged() {
        assert!(pass(&json!({"action": "ping", "pipeline": []})).is_ok());
        assert_eq!(refusal(&json!({"action": "stop", "pipeline": [[]]})), "pipeline stage 0 must not be empty");
    }
}
