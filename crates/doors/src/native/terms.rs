//! Decisions and grants as they are written on our own socket.
//!
//! Invariant: what is not understood is refused, never guessed: a decision has one word, a grant says all it gives.

use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::Covered;
use hostel_house::approvals::Glob;
use hostel_house::approvals::Grant;
use hostel_house::approvals::GrantTerms;
use hostel_house::approvals::Scope;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::code;
use crate::rpc::Failure;
use crate::zeroclaw::time;

/// The most of a reason that is passed on.
const REPLACEMENT: usize = 64 << 10;

/// The most answers to one question, and patterns of one grant.
const MOST: usize = 64;

fn bad(message: impl std::fmt::Display) -> Failure {
    Failure::new(code::PARAMS, format!("bad params: {message}"))
}

/// The decision in the parameters of `approval/decide`.
pub(super) fn decision(params: &Map<String, Value>) -> Result<Decision, Failure> {
    let word = params.get("decision").and_then(Value::as_str).ok_or_else(|| bad("missing field `decision`"))?;
    let replacement = match params.get("replacement") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(clean(text)),
        Some(_) => return Err(bad("`replacement` is not a text")),
    };
    match word {
        "allow_once" => Ok(Decision::AllowOnce),
        "allow_changeable" => Ok(Decision::AllowChangeable),
        "allow_always" => Ok(Decision::AllowAlways),
        "reject" => Ok(Decision::Reject(replacement.unwrap_or_default())),
        "reject_with_edit" => {
            replacement.map(Decision::RejectWithEdit).ok_or_else(|| bad("`reject_with_edit` needs a `replacement`"))
        }
        "answers" => answers(params.get("answers")).map(Decision::Answers),
        _ => Err(bad(
            "`decision` is one of allow_once, allow_changeable, allow_always, answers, reject and reject_with_edit",
        )),
    }
}

/// Whether a grant may come with it.
pub(super) fn approves(decision: &Decision) -> bool {
    *decision == Decision::AllowOnce
}

fn answers(value: Option<&Value>) -> Result<Vec<(String, String)>, Failure> {
    let wrong = || bad("`answers` is not an object of texts");
    let members = value.and_then(Value::as_object).filter(|members| members.len() <= MOST).ok_or_else(wrong)?;
    let pair = |(question, answer): (&String, &Value)| Some((question.clone(), clean(answer.as_str()?)));
    members.iter().map(|member| pair(member).ok_or_else(wrong)).collect()
}

/// Without control characters but ends of lines and tabs, and no longer than allowed.
fn clean(text: &str) -> String {
    let text = text.get(..text.floor_char_boundary(REPLACEMENT)).unwrap_or_default();
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

/// `{scope, seconds, count?, argv?, privileged?}`.
pub(super) fn grant(value: &Value) -> Result<GrantTerms, Failure> {
    let members = value.as_object().ok_or_else(|| bad("`grant` is not an object"))?;
    let known = ["scope", "seconds", "count", "argv", "privileged"];
    if let Some(odd) = members.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(bad(format!("a `grant` has no `{odd}`")));
    }
    let scope = match members.get("scope").and_then(Value::as_str) {
        Some("session") => Scope::Session,
        Some("requester") => Scope::Requester,
        _ => return Err(bad("the `scope` of a grant is session or requester")),
    };
    let seconds = members.get("seconds").and_then(Value::as_u64);
    let seconds = seconds.ok_or_else(|| bad("the `seconds` of a grant are not a whole number"))?;
    let count = match members.get("count") {
        None | Some(Value::Null) => None,
        Some(count) => {
            let count = count.as_u64().and_then(|count| u32::try_from(count).ok());
            Some(count.ok_or_else(|| bad("the `count` of a grant is not a whole number"))?)
        }
    };
    let covered = match members.get("argv") {
        None | Some(Value::Null) => Covered::Exact,
        Some(Value::Array(words)) if !words.is_empty() && words.len() <= MOST => {
            let glob = |word: &Value| {
                let text = word.as_str().ok_or_else(|| bad("the `argv` of a grant is not a list of texts"))?;
                Glob::new(text).map_err(bad)
            };
            Covered::Argv(words.iter().map(glob).collect::<Result<_, _>>()?)
        }
        Some(_) => return Err(bad("the `argv` of a grant is not a list of texts")),
    };
    let privileged = match members.get("privileged") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(privileged)) => *privileged,
        Some(_) => return Err(bad("`privileged` of a grant is not true or false")),
    };
    Ok(GrantTerms { scope, covered, lasts: Duration::from_secs(seconds), count, privileged })
}

/// A grant as it is listed.
pub(super) fn describe(grant: &Grant) -> Value {
    let terms = &grant.terms;
    let scope = match terms.scope {
        Scope::Session => "session",
        Scope::Requester => "requester",
    };
    json!({
        "grant": grant.no,
        "approval": grant.approval,
        "decider": grant.decider,
        "scope": scope,
        "door": terms.door,
        "session": terms.session,
        "root_pid": terms.root.map(|(pid, _)| pid),
        "argv": terms.argv.as_ref().map(|words| words.iter().map(Glob::as_str).collect::<Vec<_>>()),
        "privileged": terms.privileged,
        "used": grant.used,
        "uses_left": grant.uses_left,
        "created_at": time::rfc3339(grant.created_ns),
        "expires_at": time::rfc3339(grant.expires_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(value: &Value) -> Result<Decision, String> {
        decision(value.as_object().unwrap()).map_err(|failure| failure.message)
    }

    #[test]
    fn decisions_have_one_word() {
        assert_eq!(decide(&json!({"decision": "allow_once"})), Ok(Decision::AllowOnce));
        assert_eq!(decide(&json!({"decision": "allow_always"})), Ok(Decision::AllowAlways));
        assert_eq!(decide(&json!({"decision": "allow_changeable"})), Ok(Decision::AllowChangeable));
        let rejected = decide(&json!({"decision": "reject", "replacement": "no\u{1b}[0m\n"}));
        assert_eq!(rejected, Ok(Decision::Reject("no[0m\n".to_owned())));
        let answered = decide(&json!({"decision": "answers", "answers": {"Which?": "a"}}));
        assert_eq!(answered, Ok(Decision::Answers(vec![("Which?".to_owned(), "a".to_owned())])));
        for wrong in [
            json!({}),
            json!({"decision": "yes"}),
            json!({"decision": 1}),
            json!({"decision": "reject_with_edit"}),
            json!({"decision": "reject", "replacement": 1}),
            json!({"decision": "answers"}),
            json!({"decision": "answers", "answers": {"a": 1}}),
        ] {
            assert!(decide(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_grant_says_all_it_gives() {
        let read = |value: Value| grant(&value).map_err(|failure| failure.message);
        let plain = read(json!({"scope": "session", "seconds": 600})).unwrap();
        assert_eq!((plain.scope, plain.lasts.as_secs(), plain.count), (Scope::Session, 600, None));
        assert!(plain.covered == Covered::Exact && !plain.privileged);
        let wide =
            read(json!({"scope": "requester", "seconds": 1, "count": 3, "argv": ["make", "**"], "privileged": true}));
        let wide = wide.unwrap();
        assert!(matches!(wide.covered, Covered::Argv(words) if words.len() == 2) && wide.privileged);
        for wrong in [
            json!(1),
            json!({"seconds": 1}),
            json!({"scope": "all", "seconds": 1}),
            json!({"scope": "session"}),
            json!({"scope": "session", "seconds": 1, "count": -1}),
            json!({"scope": "session", "seconds": 1, "argv": []}),
            json!({"scope": "session", "seconds": 1, "argv": ["[a"]}),
            json!({"scope": "session", "seconds": 1, "minutes": 1}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
