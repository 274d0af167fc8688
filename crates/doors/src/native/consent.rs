//! `approval/…`, `approver/…` and `audit/…`: the inbox for our own faces.
//!
//! Invariant: an unlock belongs to the one connection that showed the passphrase, is only in memory and ends with it.
//! Passphrases are taken out of a request here and go to the house; no answer, error or log holds one. Who may decide is
//! the house's business: it is told who is at the other end, as the system knows them.

use hostel_house::approvals::Approval;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Claim;
use hostel_house::approvals::DecideError;
use hostel_house::approvals::Face;
use hostel_house::approvals::FaceGuard;
use hostel_house::approvals::Looked;
use hostel_house::approvals::Passphrase;
use hostel_house::approvals::Record;
use hostel_house::approvals::Unlock;
use hostel_house::approvals::Why;
use hostel_house::insiders::Rights;
use hostel_house::pipelines::hex_of;
use hostel_house::sessions::Sessions;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::code;
use super::methods::refused;
use super::terms;
use super::trust;
use crate::rpc::Failure;
use crate::rpc::Outcome;
use crate::rpc::Writer;
use crate::zeroclaw::Door;
use crate::zeroclaw::Peer;
use crate::zeroclaw::PeerNames as _;
use crate::zeroclaw::Spelling;
use crate::zeroclaw::approvals::abridged;
use crate::zeroclaw::approvals::describe;
use crate::zeroclaw::approvals::weight;
use crate::zeroclaw::spell;
use crate::zeroclaw::time;

/// Whether a method is the inbox's.
pub(super) fn serves(method: &str) -> bool {
    ["approval/", "approver/", "audit/"].iter().any(|space| method.starts_with(space))
}

/// There is no such approval. The zeroclaw door's own number for what is not there.
const NO_APPROVAL: i64 = -32000;

/// Approvals of one answer, unless asked for fewer, and at most.
const LISTED: (usize, usize) = (100, 1000);

/// Records of one answer, likewise.
const RECORDS: (usize, usize) = (1000, 10_000);

/// Bytes of whole descriptions in one answer; further ones are abridged.
const LISTED_BYTES: usize = 4 << 20;

/// One connection's side of the inbox.
pub(super) struct Consent {
    approvals: Approvals,
    sessions: Sessions,
    peer: Peer,
    label: String,
    spelling: Spelling,
    unlock: Option<Unlock>,
    face: Option<FaceGuard>,
    watching: bool,
    rights: Rights,
}

impl Consent {
    /// The inbox of a house for whoever is at the other end.
    pub(super) fn new(door: &Door, peer: &Peer, rights: Rights) -> Self {
        Consent {
            approvals: door.0.approvals.clone(),
            sessions: door.0.sessions.clone(),
            peer: peer.clone(),
            label: peer.label(),
            spelling: door.0.settings.spelling,
            unlock: None,
            face: None,
            watching: false,
            rights,
        }
    }

    /// Serves one request. Keys of several words are spelled as the methods about sessions do it.
    pub(super) async fn call(&mut self, method: &str, params: &str) -> Outcome {
        let spelling = self.spelling;
        self.serve(method, params).await.map(|result| spell(result, spelling))
    }

    async fn serve(&mut self, method: &str, params: &str) -> Outcome {
        let mut params = Params::read(params)?;
        match method {
            "approval/list" => self.list(&params).await,
            "approval/get" => {
                let approval = self.get(&params).await?;
                self.may_see(method, &approval).await?;
                Ok(json!({"approval": located(&self.sessions, &approval)}))
            }
            "approval/watch" => self.watch(&params).await,
            "approval/shown" => {
                self.may_decide().await?;
                self.approvals.shown(params.need("id")?).await.map_err(internal)?;
                Ok(json!({}))
            }
            "approval/unlock" => {
                let passphrase = params.passphrase("passphrase")?.ok_or_else(|| missing("passphrase"))?;
                self.unlock = None;
                let proof = self.approvals.approver().unlock(&passphrase, &self.peer, &self.label).await;
                self.unlock = Some(proof.map_err(|error| refusal(&error))?);
                Ok(json!({"unlocked": true}))
            }
            "approval/lock" => {
                self.unlock = None;
                Ok(json!({"unlocked": false}))
            }
            "approval/decide" => self.decide(&mut params).await,
            "approval/why" => {
                let id = params.need("id")?;
                let why = self.approvals.why(id).await.map_err(internal)?.ok_or_else(|| no_approval(id))?;
                self.may_see(method, &why.approval).await?;
                Ok(json!({"why": explain(&why)}))
            }
            "approval/grants" => {
                let grants = self.approvals.grants().await.map_err(internal)?;
                Ok(json!({"grants": grants.iter().map(terms::describe).collect::<Vec<_>>()}))
            }
            "approval/revoke" => {
                let claim = self.claim(params.passphrase("passphrase")?)?;
                let grant = params.number("grant")?.ok_or_else(|| missing("grant"))?;
                Ok(json!({"revoked": self.approvals.revoke(grant, &claim).await.map_err(|error| refusal(&error))?}))
            }
            "approver/status" => Ok(trust::status(&self.approvals, self.unlock.is_some())),
            "approver/confirm" => {
                let shown = params.passphrase("passphrase")?.ok_or_else(|| missing("passphrase"))?;
                let claim = self.claim(Some(shown))?;
                let confirmed = self.approvals.confirm(&claim).await.map_err(|error| refusal(&error))?;
                Ok(json!({"confirmed": confirmed}))
            }
            "approver/set" => {
                let old = params.passphrase("old")?;
                let new = params.passphrase("passphrase")?.ok_or_else(|| missing("passphrase"))?;
                let set = self.approvals.approver().set(new, old, &self.peer, &self.label).await;
                set.map_err(|error| refusal(&error))?;
                Ok(json!({"set": true}))
            }
            "approver/clear" => {
                let shown = params.passphrase("passphrase")?.ok_or_else(|| missing("passphrase"))?;
                let cleared = self.approvals.approver().clear(shown, &self.peer, &self.label).await;
                cleared.map_err(|error| refusal(&error))?;
                Ok(json!({"set": false}))
            }
            "audit/show" => {
                let after = params.number("after")?.unwrap_or(0);
                let limit = params.count("limit", RECORDS)?;
                let records = self.approvals.audit().show(after, limit).await.map_err(internal)?;
                Ok(json!({"records": records.iter().map(describe_record).collect::<Vec<_>>()}))
            }
            "audit/last" => Ok(json!({"no": self.approvals.audit().last().await.map_err(internal)?})),
            "audit/verify" => {
                let shown = params.passphrase("passphrase")?;
                if let Some(shown) = &shown {
                    let proof = self.approvals.approver().unlock(shown, &self.peer, &self.label).await;
                    proof.map_err(|error| refusal(&error))?;
                }
                Ok(trust::verified(&self.approvals.audit().verify(shown).await.map_err(internal)?))
            }
            other => Err(Failure::new(code::METHOD, format!("there is no method `{other}`"))),
        }
    }

    /// What is to be sent from now on, once `approval/watch` was answered; only the first time.
    pub(super) fn shows(&mut self, writer: &Writer) -> Option<impl Future<Output = ()> + use<>> {
        if std::mem::replace(&mut self.watching, true) {
            return None;
        }
        Some(show(self.approvals.clone(), self.sessions.clone(), self.spelling, writer.clone()))
    }

    async fn list(&self, params: &Params) -> Outcome {
        let limit = params.count("limit", LISTED)?;
        let found = match params.flag("all")? {
            true => self.approvals.list(limit).await.map_err(internal)?,
            false => self.approvals.pending(),
        };
        let mut seen = Vec::new();
        for approval in found {
            if seen.len() < limit && self.rights.sees_request(&approval.session).await {
                seen.push(approval);
            }
        }
        Ok(listed(&self.sessions, &seen))
    }

    async fn get(&self, params: &Params) -> Result<Approval, Failure> {
        let id = params.need("id")?;
        self.approvals.get(id).await.map_err(internal)?.ok_or_else(|| no_approval(id))
    }

    async fn watch(&mut self, params: &Params) -> Outcome {
        if params.flag("face")? && self.face.is_none() {
            // A face makes requests wait to be shown: not for who could not decide anyway.
            self.may_decide().await?;
            self.face = Some(self.approvals.face());
        }
        Ok(listed(&self.sessions, &self.approvals.pending()))
    }

    /// Whether the client may look at a request: a process inside the house at those of its own session only.
    async fn may_see(&self, method: &str, approval: &Approval) -> Result<(), Failure> {
        match self.rights.sees_request(&approval.session).await {
            true => Ok(()),
            false => Err(refused(&self.rights.refuse(method, &approval.id).await)),
        }
    }

    async fn may_decide(&self) -> Result<(), Failure> {
        self.approvals.may_decide(&self.peer).await.map_err(|why| Failure::new(code::REFUSED, why))
    }

    async fn decide(&mut self, params: &mut Params) -> Outcome {
        let claim = self.claim(params.passphrase("passphrase")?)?;
        let id = params.need("id")?;
        let decision = terms::decision(&params.0)?;
        let grant = params.0.get("grant").filter(|grant| !grant.is_null()).map(terms::grant).transpose()?;
        if let Some(seen) = params.text("digest")? {
            let asked = self.get(params).await?;
            if seen != hex_of(&asked.digest) {
                return Err(Failure::new(code::SETTLED, "what was seen is not what this request is about"));
            }
        }
        let (approval, number) = match grant {
            None => (self.approvals.decide(id, decision, &claim).await.map_err(|error| refusal(&error))?, None),
            Some(grant) if terms::approves(&decision) => {
                let decided = self.approvals.decide_with_grant(id, grant, &claim).await;
                decided.map(|(approval, number)| (approval, Some(number))).map_err(|error| refusal(&error))?
            }
            Some(_) => return Err(Failure::new(code::PARAMS, "bad params: only `allow_once` comes with a `grant`")),
        };
        let mut answer = json!({"approval": located(&self.sessions, &approval)});
        if let Some(number) = number {
            answer["grant"] = number.into();
        }
        Ok(answer)
    }

    /// Who decides: with a passphrase that is shown now, or by the unlock of this connection.
    fn claim(&self, shown: Option<Passphrase>) -> Result<Claim, Failure> {
        let face = match (shown, &self.unlock) {
            (Some(passphrase), _) => Face::Passphrase(passphrase),
            (None, Some(unlock)) => Face::Unlocked(unlock.clone()),
            (None, None) if !self.approvals.approver().is_set() => return Err(refusal(&DecideError::NoPassphraseSet)),
            (None, None) => {
                return Err(Failure::new(code::LOCKED, "this takes the approver's passphrase: unlock, or show it"));
            }
        };
        Ok(Claim { face, peer: self.peer.clone(), label: self.label.clone() })
    }
}

/// Sends what waits at every change, until the client leaves.
async fn show(approvals: Approvals, sessions: Sessions, spelling: Spelling, writer: Writer) {
    let mut changed = approvals.changed();
    // Something may have changed since the answer was made.
    changed.mark_changed();
    while changed.changed().await.is_ok() {
        let pending = spell(listed(&sessions, &approvals.pending()), spelling);
        if writer.notify("approval/changed", &pending).await.is_err() {
            return;
        }
    }
}

/// An approval with the directory its session works in.
fn located(sessions: &Sessions, approval: &Approval) -> Value {
    let mut entry = describe(approval);
    if let Some(session) = sessions.get(&approval.session) {
        entry["requester"]["cwd"] = session.cwd().to_string_lossy().into();
    }
    entry
}

fn listed(sessions: &Sessions, found: &[Approval]) -> Value {
    let mut room = LISTED_BYTES;
    let mut entry = |approval: &Approval| match room.checked_sub(weight(approval)) {
        Some(left) => {
            room = left;
            located(sessions, approval)
        }
        None => abridged(approval),
    };
    json!({"approvals": found.iter().take(LISTED.1).map(&mut entry).collect::<Vec<_>>()})
}

fn explain(why: &Why) -> Value {
    let rule = |looked: &Looked| {
        let Looked { rule, action, matched, because } = looked;
        json!({"name": rule, "action": action.word(), "matched": matched, "words": because})
    };
    json!({
        "id": why.approval.id,
        "verdict": why.decided,
        "action": why.action.word(),
        "rule": why.rule,
        "steps": why.looked.iter().map(rule).collect::<Vec<_>>(),
        "grants": why.grants,
    })
}

fn describe_record(record: &Record) -> Value {
    json!({
        "no": record.no,
        "time": time::rfc3339(record.time_ns),
        "kind": record.kind,
        "approval": record.approval,
        "body": record.body,
        "previous": hex_of(&record.previous),
        "digest": hex_of(&record.digest),
    })
}

fn refusal(error: &DecideError) -> Failure {
    let code = match error {
        DecideError::NotFound(_) => NO_APPROVAL,
        DecideError::Settled(_) => code::SETTLED,
        DecideError::Refused(_) => code::REFUSED,
        DecideError::WrongPassphrase { .. } => code::WRONG_PASSPHRASE,
        DecideError::LockedOut { .. } => code::LOCKED_OUT,
        DecideError::NoPassphraseSet => code::NO_PASSPHRASE,
        DecideError::Store(_) => code::INTERNAL,
    };
    Failure::new(code, error.to_string())
}

fn no_approval(id: &str) -> Failure {
    Failure::new(NO_APPROVAL, format!("there is no approval `{id}`"))
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(code::INTERNAL, error.to_string())
}

fn missing(field: &str) -> Failure {
    Failure::new(code::PARAMS, format!("bad params: missing field `{field}`"))
}

fn wrong(field: &str, wanted: &str) -> Failure {
    Failure::new(code::PARAMS, format!("bad params: `{field}` is not {wanted}"))
}

/// Parameters by name. Their values are never repeated in an error: one of them may be a passphrase.
struct Params(Map<String, Value>);

impl Params {
    fn read(text: &str) -> Result<Self, Failure> {
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(Params(members)),
            Ok(Value::Null) => Ok(Params(Map::new())),
            _ => Err(Failure::new(code::PARAMS, "bad params: not an object")),
        }
    }

    fn text(&self, field: &str) -> Result<Option<&str>, Failure> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(field, "a text")),
        }
    }

    fn need(&self, field: &str) -> Result<&str, Failure> {
        self.text(field)?.ok_or_else(|| missing(field))
    }

    fn flag(&self, field: &str) -> Result<bool, Failure> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(field, "true or false")),
        }
    }

    fn number(&self, field: &str) -> Result<Option<u64>, Failure> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(field, "a whole number")),
        }
    }

    fn count(&self, field: &str, (usual, most): (usize, usize)) -> Result<usize, Failure> {
        let asked = self.number(field)?.map(|number| usize::try_from(number).unwrap_or(most));
        Ok(asked.unwrap_or(usual).clamp(1, most))
    }

    /// Takes a passphrase out of the parameters, so that nothing else comes by it.
    fn passphrase(&mut self, field: &str) -> Result<Option<Passphrase>, Failure> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(Passphrase::new(text))),
            Some(_) => Err(wrong(field, "a text")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_is_in_no_error() {
        let mut params = Params::read(r#"{"passphrase": 12345678, "old": "hidden-one"}"#).unwrap();
        let error = params.passphrase("passphrase").unwrap_err();
        assert_eq!(error.message, "bad params: `passphrase` is not a text");
        assert!(params.passphrase("old").unwrap().is_some() && params.0.is_empty());
        assert_eq!(Params::read("[\"hidden-one\"]").err().unwrap().message, "bad params: not an object");
    }

    #[test]
    fn bounds_of_lists() {
        let params = Params::read(r#"{"limit": 0, "many": 99999999999, "odd": -1}"#).unwrap();
        assert_eq!(params.count("limit", LISTED).unwrap(), 1);
        assert_eq!(params.count("many", LISTED).unwrap(), 1000);
        assert_eq!(params.count("none", LISTED).unwrap(), 100);
        assert_eq!(params.count("odd", LISTED).unwrap_err().code, code::PARAMS);
    }
}
