//! `session/approve`: a person's answer to what an agent asks.
//!
//! Invariant: only the request's id counts, it is about an agent's tool or a message for one, and who may answer is the house's business: a
//! process of the keeper's tree or of the requester's own, or one that cannot be recognised, decides nothing, and where
//! the settings demand the passphrase it has to come along. An unknown or settled request is acknowledged all the same.

use hostel_agents::Decision;
use hostel_house::approvals::Claim;
use hostel_house::approvals::DecideError;
use hostel_house::approvals::Face;
use hostel_house::approvals::Kind;
use hostel_house::approvals::Passphrase;
use serde_json::Value;
use serde_json::json;

use super::Params;
use super::PeerNames as _;
use super::code;
use super::visitor::Visitor;
use super::visitor::internal;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// The most of a replacement that is passed on.
const REPLACEMENT: usize = 64 << 10;

/// The most answers to one question.
const ANSWERS: usize = 64;

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(code::PARAMS, message)
}

/// Takes the answer.
pub(crate) async fn approve(visitor: &Visitor, params: &Params) -> Outcome {
    let session = params.need("session_id")?;
    let request = params.need("request_id")?;
    let decision = decision(params)?;
    let passphrase = params.text("passphrase")?.map(|text| Passphrase::new(text.to_owned()));
    decide(visitor, request, decision, passphrase).await?;
    Ok(json!({"session_id": session, "request_id": request, "acknowledged": true}))
}

/// Settles a request, if the client may.
pub(super) async fn settle(visitor: &Visitor, request: &str, decision: Decision) -> Result<(), Failure> {
    decide(visitor, request, decision, None).await
}

async fn decide(
    visitor: &Visitor,
    request: &str,
    decision: Decision,
    passphrase: Option<Passphrase>,
) -> Result<(), Failure> {
    let approvals = &visitor.house().approvals;
    let who = visitor.identity().map(|identity| identity.id).unwrap_or_default();
    let face = match passphrase {
        None => Face::Socket,
        // It proves more, and decides no more by this way.
        Some(passphrase) => match approvals.get(request).await.map_err(internal)? {
            Some(approval) if matches!(approval.kind, Kind::Tool | Kind::Letter) => Face::Passphrase(passphrase),
            _ => Face::Socket,
        },
    };
    let claim = Claim { face, peer: visitor.peer.clone(), label: format!("{} ({who})", visitor.peer.label()) };
    match approvals.decide(request, decision, &claim).await {
        Ok(_) | Err(DecideError::NotFound(_) | DecideError::Settled(_)) => Ok(()),
        Err(DecideError::Store(error)) => Err(internal(error)),
        Err(
            refused @ (DecideError::Refused(_)
            | DecideError::WrongPassphrase { .. }
            | DecideError::LockedOut { .. }
            | DecideError::NoPassphraseSet),
        ) => Err(Failure::new(code::NOT_OWNER, refused.to_string())),
    }
}

fn decision(params: &Params) -> Result<Decision, Failure> {
    let word = params.need("decision")?;
    let replacement = params.text("replacement")?;
    let answers = answers(params.get("answers")?)?;
    match (word, answers) {
        ("allow_once" | "answers", Some(answers)) => Ok(Decision::Answers(answers)),
        ("allow_once", None) => Ok(Decision::AllowOnce),
        ("allow_always", _) => Ok(Decision::AllowAlways),
        ("reject" | "reject_once", _) => Ok(Decision::Reject(replacement.map(clean).unwrap_or_default())),
        ("reject_with_edit", _) => match replacement {
            Some(text) => Ok(Decision::RejectWithEdit(clean(text))),
            None => Err(bad("`reject_with_edit` needs a `replacement`")),
        },
        _ => Err(bad(format!(
            "there is no decision `{word}`: allow_once, allow_always, reject, reject_once or reject_with_edit"
        ))),
    }
}

/// Answers by question: a text each, or a list of them.
fn answers(value: Option<&Value>) -> Result<Option<Vec<(String, String)>>, Failure> {
    let Some(value) = value else { return Ok(None) };
    let wrong = || bad("`answers` is not an object of strings");
    let members = value.as_object().filter(|members| members.len() <= ANSWERS).ok_or_else(wrong)?;
    let mut answers = Vec::with_capacity(members.len());
    for (question, answer) in members {
        let text = match answer {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
                parts.ok_or_else(wrong)?.join(", ")
            }
            _ => return Err(wrong()),
        };
        answers.push((question.clone(), clean(&text)));
    }
    Ok(Some(answers))
}

/// Without control characters but ends of lines and tabs, and no longer than allowed.
fn clean(text: &str) -> String {
    let end = text.floor_char_boundary(REPLACEMENT);
    let kept = |character: &char| !character.is_control() || matches!(character, '\n' | '\t');
    text.get(..end).unwrap_or_default().chars().filter(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(params: Value) -> Result<Decision, i64> {
        decision(&Params::read(params, &[]).unwrap()).map_err(|failure| failure.code)
    }

    #[test]
    fn the_contracts_words() {
        assert_eq!(decide(json!({"decision": "allow_once"})), Ok(Decision::AllowOnce));
        assert_eq!(decide(json!({"decision": "allow_always"})), Ok(Decision::AllowAlways));
        for word in ["reject", "reject_once"] {
            assert_eq!(decide(json!({"decision": word})), Ok(Decision::Reject(String::new())));
        }
        let edited = json!({"decision": "reject_with_edit", "replacement": "no\u{1b}[0m,\nrather\tthis\u{0}"});
        assert_eq!(decide(edited), Ok(Decision::RejectWithEdit("no[0m,\nrather\tthis".to_owned())));
        for wrong in
            [json!({}), json!({"decision": "maybe"}), json!({"decision": 1}), json!({"decision": "reject_with_edit"})]
        {
            assert_eq!(decide(wrong.clone()), Err(code::PARAMS), "{wrong}");
        }
    }

    #[test]
    fn answers_to_choices() {
        let chosen = decide(json!({"decision": "allow_once", "answers": {"Which?": "a", "Both?": ["x", "y"]}}));
        let expected = vec![("Both?".to_owned(), "x, y".to_owned()), ("Which?".to_owned(), "a".to_owned())];
        assert_eq!(chosen, Ok(Decision::Answers(expected)));
        assert_eq!(decide(json!({"decision": "allow_once", "answers": [1]})), Err(code::PARAMS));
        assert_eq!(decide(json!({"decision": "allow_once", "answers": {"q": 1}})), Err(code::PARAMS));
    }

    #[test]
    fn a_replacement_is_cut_between_characters() {
        assert_eq!(clean(&"x".repeat(REPLACEMENT + 5)).len(), REPLACEMENT);
        assert_eq!(clean(&"ä".repeat(REPLACEMENT)).len(), REPLACEMENT);
        assert_eq!(clean(&format!("x{}", "ä".repeat(REPLACEMENT))).len(), REPLACEMENT - 1);
    }
}
