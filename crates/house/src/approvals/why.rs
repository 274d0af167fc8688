//! Why a request stands where it stands: every rule that was looked at, and what it came to.
//!
//! Invariant: it tells what the rules say now, beside what was decided then. It changes nothing.

use std::path::Path;

use super::rules::{self, Action, Facts, Rule};
use super::types::{Approval, State, Subject};
use super::{Approvals, session_grant};
use crate::sessions::now_ns;
use crate::store::StoreError;

/// One rule, and whether it matched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Looked {
    /// The rule's name.
    pub rule: String,
    /// What it does.
    pub action: Action,
    /// Whether it matches the request, or a stage of it.
    pub matched: bool,
    /// In words.
    pub because: String,
}

/// Why a request stands where it stands.
#[derive(Clone, Debug)]
pub struct Why {
    /// The request.
    pub approval: Approval,
    /// What was decided, and by what, in a sentence.
    pub decided: String,
    /// What the rules say about it now.
    pub action: Action,
    /// The rule that says so; empty if none does.
    pub rule: String,
    /// Every rule that was looked at.
    pub looked: Vec<Looked>,
    /// Grants that would cover it now.
    pub grants: Vec<String>,
}

impl Approvals {
    /// Which rules were looked at, what matched, in words.
    pub async fn why(&self, id: &str) -> Result<Option<Why>, StoreError> {
        let Some(approval) = self.get(id).await? else { return Ok(None) };
        let cwd = match approval.session.is_empty() {
            true => None,
            false => self.cwd_of(approval.session.clone()).await?,
        };
        let place = cwd.as_deref().or_else(|| approval.subject.pipeline().map(|pipeline| pipeline.cwd.as_path()));
        let facts =
            Facts { kind: approval.kind, subject: &approval.subject, requester: &approval.requester, cwd: place };
        let policy = self.policy();
        let verdict = rules::judge(&policy.rules, facts);
        let looked = policy.rules.iter().map(|rule| look(rule, facts)).collect();
        let now = now_ns();
        let mut grants: Vec<String> = self
            .inner
            .grants
            .lock()
            .iter()
            .filter(|grant| grant.covers(&approval, now))
            .map(super::grants::Grant::name)
            .collect();
        if self.inner.session_grant.covers(&approval) {
            grants.push(session_grant::NAME.to_owned());
        }
        let decided = decided(&approval);
        Ok(Some(Why { decided, action: verdict.action, rule: verdict.rule, looked, grants, approval }))
    }

    async fn cwd_of(&self, session: String) -> Result<Option<std::path::PathBuf>, StoreError> {
        use std::os::unix::ffi::OsStrExt as _;
        let work = move |database: &rusqlite::Connection| {
            use rusqlite::OptionalExtension as _;
            let mut statement = database.prepare_cached("SELECT cwd FROM sessions WHERE id = ?")?;
            let found: Option<Vec<u8>> = statement.query_row([session], |row| row.get(0)).optional()?;
            Ok(found.map(|bytes| Path::new(std::ffi::OsStr::from_bytes(&bytes)).to_owned()))
        };
        self.inner.store.read(work).await
    }
}

fn look(rule: &Rule, facts: Facts<'_>) -> Looked {
    let result = rule.concerns(facts).and_then(|()| match facts.subject {
        Subject::Pipeline(pipeline) => {
            let fits: Vec<Result<(), String>> = pipeline.stages.iter().map(|stage| rule.fits_words(stage)).collect();
            match fits.iter().position(Result::is_ok) {
                Some(_) if fits.iter().all(Result::is_ok) => Ok(String::new()),
                Some(stage) => Ok(format!("stage {stage} only")),
                None => Err(fits.into_iter().find_map(Result::err).unwrap_or_default()),
            }
        }
        _ if rule.argv.is_some() => Err("it is about commands".to_owned()),
        _ => Ok(String::new()),
    });
    let (matched, because) = match result {
        Ok(only) if only.is_empty() => (true, "it matches".to_owned()),
        Ok(only) => (true, format!("it matches {only}")),
        Err(why) => (false, why),
    };
    Looked { rule: rule.name.clone(), action: rule.action, matched, because }
}

fn decided(approval: &Approval) -> String {
    let by = match (approval.rule.is_empty(), approval.decider.is_empty()) {
        (false, _) => format!(" by {}", approval.decider),
        (true, false) => format!(" by a person: {}", approval.decider),
        (true, true) => String::new(),
    };
    match approval.state {
        State::Pending => "it waits for a person".to_owned(),
        State::Approved => format!("it was approved{by}"),
        State::Denied => format!("it was denied{by}"),
        State::Expired => "nobody answered in time, so it was refused".to_owned(),
        State::Withdrawn => "whoever asked no longer wants to know".to_owned(),
    }
}
