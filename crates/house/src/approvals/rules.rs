//! What may happen unasked, what never may, and what a person is asked about.
//!
//! Invariant: the strictest rule that matches wins (deny, then ask, then allow); without one a person is asked. A
//! pipeline is allowed only if each of its stages is. Rules never touch what root does unless they say so, and a rule is
//! about whole words, each in its place.
//!
//! Guarantee: a rule that allows relies only on what the house has found out itself, never on what a requester says about
//! itself. The program of the requester is such a fact, but a weak one: a process can hand its connection to another. So
//! no rule allows root anything because of it. Code that others than root can change is never allowed to root by a rule.
//! A rule that allows a program by its name does not cover it with variables that can make it run other code (`injection`).
//!
//! It decides nothing by itself: whoever makes a request asks it inside the write that stores the request.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::changeable;
use super::glob::Glob;
use super::injection;
use super::types::{Kind, Requester, Subject};
use crate::pipelines::{Pipeline, Resolved, Stage};

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Let it happen unasked.
    Allow,
    /// Ask a person.
    Ask,
    /// Refuse.
    Deny,
}

impl Action {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

/// One rule: what it asks for must all be so.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Who asks: the door, the agent, or the program at the other end; never that program for what root does.
    pub requester: Option<Glob>,
    /// The session. For commands and questions that is only what the requester says: a rule that allows does not match
    /// them by it.
    pub session: Option<Glob>,
    /// Where it would happen: the session's directory, or the command's.
    pub cwd: Option<Glob>,
    /// The tool. A rule with one is about agents' tools only.
    pub tool: Option<Glob>,
    /// The words of a command, each in its place. A rule with some is about commands only.
    pub argv: Option<Vec<Glob>>,
    /// For a rule that allows by `argv`: names of variables that may be set although they can make programs run other code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<Glob>>,
    /// Only what root does, or only what root does not do. A rule that allows needs `true` to allow anything to root.
    pub privileged: Option<bool>,
}

/// What rules say about a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// What is to happen.
    pub action: Action,
    /// The rule that says so; empty if none does.
    pub rule: String,
}

/// What rules look at.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) kind: Kind,
    pub(super) subject: &'a Subject,
    pub(super) requester: &'a Requester,
    /// Where it would happen, if that is anywhere.
    pub(super) cwd: Option<&'a Path>,
}

impl Facts<'_> {
    /// The facts of a request about a pipeline or a question: a pipeline knows its place by itself.
    pub(super) fn of<'a>(subject: &'a Subject, requester: &'a Requester) -> Facts<'a> {
        let cwd = subject.pipeline().map(|pipeline| pipeline.cwd.as_path());
        Facts { kind: subject.kind(), subject, requester, cwd }
    }
}

/// The strictest of the rules that match.
pub(super) fn judge(rules: &[Rule], facts: Facts<'_>) -> Verdict {
    match facts.subject {
        Subject::Pipeline(pipeline) => judge_pipeline(rules, facts, pipeline),
        _ => {
            let matching = rules.iter().filter(|rule| rule.argv.is_none() && rule.concerns(facts).is_ok());
            strictest(matching).unwrap_or_else(asked)
        }
    }
}

/// The strictest over all stages, each judged on its own: whoever may run `a` and may run `b` may run `a | b`, and nothing
/// else makes a pipeline harmless.
fn judge_pipeline(rules: &[Rule], facts: Facts<'_>, pipeline: &Pipeline) -> Verdict {
    let verdict = judge_stages(rules, facts, pipeline);
    match verdict.action {
        Action::Allow if !changeable::code_of(facts.subject).is_empty() => asked(),
        _ => verdict,
    }
}

fn judge_stages(rules: &[Rule], facts: Facts<'_>, pipeline: &Pipeline) -> Verdict {
    let concerned: Vec<&Rule> = rules.iter().filter(|rule| rule.concerns(facts).is_ok()).collect();
    let of_stage = |stage: &Stage| {
        let matching = concerned.iter().copied().filter(|rule| rule.fits_words(stage).is_ok());
        strictest(matching).unwrap_or_else(asked)
    };
    // A pipeline without stages is nothing anybody has allowed.
    pipeline.stages.iter().map(of_stage).reduce(stricter).unwrap_or_else(asked)
}

fn asked() -> Verdict {
    Verdict { action: Action::Ask, rule: String::new() }
}

/// The first of the strictest.
fn stricter(one: Verdict, other: Verdict) -> Verdict {
    if other.action > one.action { other } else { one }
}

fn strictest<'a>(rules: impl Iterator<Item = &'a Rule>) -> Option<Verdict> {
    rules.map(|rule| Verdict { action: rule.action, rule: rule.name.clone() }).reduce(stricter)
}

impl Rule {
    /// Whether it is about such a request at all, whatever the words of its commands; why not, in words.
    pub(super) fn concerns(&self, facts: Facts<'_>) -> Result<(), String> {
        let root = facts.kind == Kind::Privileged;
        match (self.privileged, self.action) {
            (Some(wanted), _) if wanted != root => {
                return Err(match wanted {
                    true => "it is about what root does".to_owned(),
                    false => "it is about what root does not do".to_owned(),
                });
            }
            (None, Action::Allow) if root => {
                return Err("it does not say `privileged = true`".to_owned());
            }
            _ => {}
        }
        // Rules of before there was a mesh were not made for what strangers write.
        if facts.kind == Kind::Letter && self.action == Action::Allow && self.requester.is_none() {
            return Err("it does not say `requester = \"mesh\"`".to_owned());
        }
        match (&self.tool, facts.subject) {
            (Some(glob), Subject::Tool { tool, .. }) if !self.fits(glob, tool) => {
                return Err(format!("the tool is `{tool}`, not `{glob}`"));
            }
            (Some(_), Subject::Tool { .. }) | (None, _) => {}
            (Some(_), _) => return Err("it is about an agent's tools".to_owned()),
        }
        if self.argv.is_some() && matches!(facts.kind, Kind::Tool | Kind::Letter) {
            return Err("it is about commands".to_owned());
        }
        if self.argv.is_some()
            && self.action == Action::Allow
            && let Some(pipeline) = facts.subject.pipeline()
            && let Some(name) = injection::first_unnamed(pipeline, self.env.as_deref())
        {
            return Err(format!(
                "`{name}`, as it is set, could make the program run other code, and the rule does not name it in `env`"
            ));
        }
        if let Some(glob) = &self.requester
            && !self.requester_names(facts).any(|name| self.fits(glob, name))
        {
            return Err(format!("no name of who asks fits `{glob}`"));
        }
        if let Some(glob) = &self.session {
            let is_told = matches!(facts.kind, Kind::Pipeline | Kind::Privileged | Kind::Question);
            if is_told && self.action == Action::Allow {
                return Err("the session of such a request is only what the requester says".to_owned());
            }
            if !self.fits(glob, &facts.requester.session) {
                return Err(format!("the session is `{}`, not `{glob}`", facts.requester.session));
            }
        }
        match (&self.cwd, facts.cwd) {
            (None, _) => Ok(()),
            (Some(glob), Some(cwd)) if self.fits(glob, &cwd.to_string_lossy()) => Ok(()),
            (Some(glob), Some(cwd)) => Err(format!("the working directory is `{}`, not `{glob}`", cwd.display())),
            (Some(_), None) => Err("there is no working directory".to_owned()),
        }
    }

    /// Whether the words of one command are those of the rule.
    pub(super) fn fits_words(&self, stage: &Stage) -> Result<(), String> {
        let Some(patterns) = &self.argv else { return Ok(()) };
        fits_words(patterns, stage, self.action)
    }

    /// What the house knows of who asks, as far as this rule may rely on it.
    fn requester_names<'a>(&self, facts: Facts<'a>) -> impl Iterator<Item = &'a str> {
        let requester = facts.requester;
        // The house has named the agent itself; of others this is what they say.
        let agent = (facts.kind == Kind::Tool).then_some(requester.client.as_str());
        let allows_root = self.action == Action::Allow && facts.kind == Kind::Privileged;
        let program = requester.peer.as_ref().map(|peer| peer.program.as_str()).filter(|_| !allows_root);
        [Some(requester.door.as_str()), agent, program].into_iter().flatten().filter(|name| !name.is_empty())
    }

    fn fits(&self, glob: &Glob, text: &str) -> bool {
        match self.action {
            Action::Allow => glob.covers(text),
            Action::Ask | Action::Deny => glob.matches(text),
        }
    }
}

/// Whether the words of a command fit patterns, each in its place; a last `**` stands for any further words. What is
/// refused or asked about is recognised by more names than what is allowed.
pub(super) fn fits_words(patterns: &[Glob], stage: &Stage, action: Action) -> Result<(), String> {
    let allows = action == Action::Allow;
    let (patterns, open) = match patterns.split_last() {
        Some((last, others)) if last.as_str() == "**" => (others, true),
        _ => (patterns, false),
    };
    let counted = stage.argv.len() == patterns.len() || (open && stage.argv.len() > patterns.len());
    if !counted {
        let (have, wanted) = (stage.argv.len(), patterns.len());
        return Err(format!("the command has {have} words, not {wanted}{}", if open { " or more" } else { "" }));
    }
    for (position, (glob, word)) in patterns.iter().zip(&stage.argv).enumerate() {
        let fits = match (position, allows) {
            (0, true) => first_word_is_covered(glob, word, &stage.file),
            (0, false) => names_of_program(word, &stage.file).any(|name| glob.matches(&name)),
            // One word, whatever it is.
            (_, _) if glob.as_str() == "*" => true,
            (_, true) => glob.covers(word),
            (_, false) => glob.matches(word),
        };
        if !fits {
            return Err(format!("word {position} of the command does not fit `{glob}`"));
        }
    }
    Ok(())
}

/// A program is allowed by the word it is asked for with, or by the place where it was found.
fn first_word_is_covered(glob: &Glob, word: &str, file: &Resolved) -> bool {
    let found = match file {
        Resolved::Found { path, .. } => path.to_str().is_some_and(|path| glob.covers(path)),
        Resolved::Missing { .. } => false,
    };
    glob.covers(word) || found
}

/// Everything a program can be called by: what was asked for, where it was found, what it is in truth, and the last part
/// of each.
fn names_of_program<'a>(word: &'a str, file: &'a Resolved) -> impl Iterator<Item = std::borrow::Cow<'a, str>> {
    let (path, target) = match file {
        Resolved::Found { path, target, .. } => (Some(path.as_path()), Some(target.as_path())),
        Resolved::Missing { .. } => (None, None),
    };
    let whole = [Some(Path::new(word)), path, target].into_iter().flatten();
    whole.flat_map(|path| {
        let last = path.file_name().map(std::ffi::OsStr::to_string_lossy);
        [Some(path.to_string_lossy()), last].into_iter().flatten()
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
