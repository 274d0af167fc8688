//! The settings about consent that are in force: rules, `strict`, and what wrong passphrases lead to.
//!
//! Everybody who can write `hostel.toml` can write rules into it. So settings that would ask less of people are put in force
//! only if the approver confirms them, where there is an approver with a passphrase. Until then the stricter of the old and
//! the new settings apply. Settings that ask more apply at once.
//!
//! Guarantees: comparing and combining never loosens anything. Nothing here reads a file or writes a row.

use serde::{Deserialize, Serialize};

use super::lockout::Limits;
use super::rules::{Action, Rule};

/// See the module.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Whether the passphrase is demanded everywhere.
    pub strict: bool,
    /// What may happen unasked, and what never may.
    pub rules: Vec<Rule>,
    /// What wrong passphrases lead to.
    pub lockout: Limits,
}

/// Whether two rules do the same. What a rule is called does not matter.
fn is_same(one: &Rule, other: &Rule) -> bool {
    let unnamed = |rule: &Rule| Rule { name: String::new(), ..rule.clone() };
    unnamed(one) == unnamed(other)
}

impl Policy {
    /// As it is stored.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From where it is stored; none if that is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn has(&self, rule: &Rule) -> bool {
        self.rules.iter().any(|known| is_same(known, rule))
    }

    fn lacks(&self, rule: &Rule) -> bool {
        !self.has(rule)
    }

    /// In what this asks less of people than `before` did, one reason for each difference; nothing if it does not.
    #[must_use]
    pub fn looser_than(&self, before: &Policy) -> Vec<String> {
        let mut reasons = Vec::new();
        if before.strict && !self.strict {
            reasons.push("`approvals.strict` is switched off".to_owned());
        }
        let (new, old) = (self.lockout, before.lockout);
        if new.attempts > old.attempts || new.wait < old.wait || new.longest < old.longest {
            reasons.push("`approvals.lockout` takes more wrong passphrases".to_owned());
        }
        for rule in self.rules.iter().filter(|rule| rule.action == Action::Allow && before.lacks(rule)) {
            reasons.push(format!("the rule `{}` allows something new", rule.name));
        }
        for rule in before.rules.iter().filter(|rule| rule.action != Action::Allow && self.lacks(rule)) {
            reasons.push(format!("the rule `{}`, which says {}, is gone", rule.name, rule.action.word()));
        }
        reasons
    }

    /// What both allow, and everything that either of them refuses or asks about.
    #[must_use]
    pub fn stricter_of(&self, before: &Policy) -> Policy {
        let (new, old) = (self.lockout, before.lockout);
        let mut rules: Vec<Rule> =
            self.rules.iter().filter(|rule| rule.action != Action::Allow || before.has(rule)).cloned().collect();
        rules.extend(before.rules.iter().filter(|rule| rule.action != Action::Allow && self.lacks(rule)).cloned());
        Policy {
            strict: self.strict || before.strict,
            rules,
            lockout: Limits {
                attempts: new.attempts.min(old.attempts),
                wait: new.wait.max(old.wait),
                longest: new.longest.max(old.longest),
            },
        }
    }

    /// What is left where nobody knows what applied before: nothing is allowed unasked. `strict` says whether the
    /// passphrase is demanded everywhere.
    #[must_use]
    pub fn asking(&self, strict: bool) -> Policy {
        let rules = self.rules.iter().filter(|rule| rule.action != Action::Allow).cloned().collect();
        Policy { strict: self.strict || strict, rules, lockout: self.lockout }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Glob;
    use super::*;

    fn rule(name: &str, action: Action, word: &str) -> Rule {
        Rule {
            name: name.to_owned(),
            action,
            requester: None,
            session: None,
            cwd: None,
            tool: None,
            argv: Some(vec![Glob::new(word).unwrap()]),
            env: None,
            privileged: None,
        }
    }

    fn policy(strict: bool, rules: &[Rule]) -> Policy {
        Policy { strict, rules: rules.to_vec(), lockout: Limits::default() }
    }

    #[test]
    fn what_asks_less_is_found_and_what_asks_more_is_not() {
        let (allow, deny) = (rule("a", Action::Allow, "make"), rule("d", Action::Deny, "rm"));
        let before = policy(true, &[allow.clone(), deny.clone()]);
        assert!(before.looser_than(&before).is_empty());
        let renamed = policy(true, &[rule("z", Action::Deny, "rm"), rule("y", Action::Allow, "make")]);
        assert!(renamed.looser_than(&before).is_empty(), "other names and another order");
        let tighter = policy(true, &[deny.clone(), rule("e", Action::Deny, "mv"), rule("f", Action::Ask, "cp")]);
        assert!(tighter.looser_than(&before).is_empty());
        let told = |after: &Policy| after.looser_than(&before);
        assert_eq!(told(&policy(false, &before.rules)), ["`approvals.strict` is switched off"]);
        assert_eq!(told(&policy(true, std::slice::from_ref(&allow))), ["the rule `d`, which says deny, is gone"]);
        let more = policy(true, &[allow, deny, rule("b", Action::Allow, "sh")]);
        assert_eq!(told(&more), ["the rule `b` allows something new"]);
        for lockout in [
            Limits { attempts: 6, ..Limits::default() },
            Limits { wait: Duration::from_secs(29), ..Limits::default() },
            Limits { longest: Duration::from_secs(3599), ..Limits::default() },
        ] {
            assert_eq!(told(&Policy { lockout, ..before.clone() }).len(), 1, "{lockout:?}");
        }
    }

    #[test]
    fn the_stricter_of_two_is_looser_than_neither() {
        let rules = [
            rule("a", Action::Allow, "make"),
            rule("b", Action::Allow, "sh"),
            rule("c", Action::Ask, "cp"),
            rule("d", Action::Deny, "rm"),
        ];
        // Every pair of two choices of these rules.
        let choices: Vec<Policy> = (0..32_u32)
            .map(|choice| {
                let chosen = rules.iter().enumerate().filter(|(at, _)| choice >> at & 1 == 1);
                let attempts = 3 + choice % 3;
                let chosen: Vec<Rule> = chosen.map(|(_, rule)| rule.clone()).collect();
                Policy { lockout: Limits { attempts, ..Limits::default() }, ..policy(choice >> 4 == 1, &chosen) }
            })
            .collect();
        for (one, other) in choices.iter().flat_map(|one| choices.iter().map(move |other| (one, other))) {
            let both = one.stricter_of(other);
            assert!(both.looser_than(one).is_empty() && both.looser_than(other).is_empty(), "{one:?} {other:?}");
            assert!([true, false].iter().all(|strict| one.asking(*strict).looser_than(one).is_empty()), "{one:?}");
            assert!(one.asking(false).rules.iter().all(|rule| rule.action != Action::Allow));
        }
        assert_eq!(policy(false, &rules).stricter_of(&policy(false, &rules)), policy(false, &rules));
    }

    #[test]
    fn a_policy_is_read_back_as_it_was_written() {
        let policy = policy(true, &[rule("a", Action::Allow, "ma*"), rule("b", Action::Deny, "?")]);
        assert_eq!(Policy::read(&policy.text()), Some(policy));
        assert_eq!(Policy::read("{}"), None);
    }
}
