//! Tokens that hooks get: what one may ask of the daemon, and for how long.
//!
//! Invariant: a token is 32 random bytes that exist in memory and in the hook's environment only. It opens what its
//! event allows and nothing else, and no longer than the hook runs or five minutes, whichever is shorter. Comparing
//! takes the same time wherever the difference is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hostel_wire::frames::Kind;
use hostel_wire::ids;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::matching;
use super::name::HookName;
use super::policy::Scope;
use crate::inbox::InboxRow;

/// How long a token is good at the most.
const LIFE: Duration = Duration::from_secs(5 * 60);

/// What a token stands for.
pub struct Grant {
    token: Zeroizing<String>,
    pub(crate) hook: HookName,
    pub(crate) event_id: String,
    pub(crate) row: Arc<InboxRow>,
    scopes: Vec<Scope>,
    until: Instant,
    ended: AtomicBool,
    calls: AtomicU64,
    sends: AtomicU64,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant").field("hook", &self.hook).field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

impl Grant {
    fn is_good(&self) -> bool {
        !self.ended.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// How often it was shown.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The scope under which something may be sent to a member, as it is counted.
    pub(crate) fn may_write_to(&self, member_id: &str) -> Option<&'static str> {
        if !self.is_good() || member_id != self.row.sender_member_id {
            return None;
        }
        let direct = self.row.kind != Kind::Topic;
        self.scopes.iter().find_map(|scope| match scope {
            Scope::Reply if direct => Some("reply:event"),
            Scope::Sender(_) => Some("dm:send"),
            Scope::Reply | Scope::Topic(_) => None,
        })
    }

    /// The scope under which something may be posted to a topic, as it is counted.
    pub(crate) fn may_post_to(&self, topic: &str) -> Option<&'static str> {
        if !self.is_good() || self.row.topic.as_deref() != Some(topic) {
            return None;
        }
        self.scopes.iter().find_map(|scope| match scope {
            Scope::Reply => Some("reply:event"),
            Scope::Topic(_) => Some("topic:post"),
            Scope::Sender(_) => None,
        })
    }

    /// An id for the next message that is sent with it: the same ones in the same order when the hook is run again, so
    /// that what was sent is not sent twice.
    pub(crate) fn next_id(&self) -> String {
        let place = self.sends.fetch_add(1, Ordering::Relaxed) + 1;
        format!("hook:{}:{}:{place}", self.event_id, self.hook)
    }

    /// How many hooks in a row that will have been.
    pub(crate) fn hop(&self) -> u64 {
        matching::hops(self.row.meta.as_ref()).saturating_add(1)
    }
}

/// The tokens that are good now: as many as hooks run.
#[derive(Default)]
pub(super) struct Grants(Mutex<Vec<Arc<Grant>>>);

/// A token while its hook runs.
pub(super) struct Held<'a> {
    grants: &'a Grants,
    pub(super) grant: Arc<Grant>,
}

impl Held<'_> {
    /// For the hook's environment.
    pub(super) fn token(&self) -> &str {
        &self.grant.token
    }

    /// It is good for nothing any more.
    pub(super) fn end(&self) {
        self.grant.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.end();
        self.grants.0.lock().retain(|other| !Arc::ptr_eq(other, &self.grant));
    }
}

impl Grants {
    /// A token for the scopes that fit the event; none if none does.
    pub(super) fn mint(
        &self,
        hook: &HookName,
        event_id: &str,
        row: &Arc<InboxRow>,
        scopes: &[Scope],
    ) -> Option<Held<'_>> {
        let fits = |scope: &&Scope| match scope {
            Scope::Reply | Scope::Sender(None) => true,
            Scope::Sender(Some(key)) => *key == row.sender_pubkey || *key == row.sender_member_pubkey,
            Scope::Topic(name) => row.topic.as_ref() == Some(name),
        };
        let scopes: Vec<Scope> = scopes.iter().filter(fits).cloned().collect();
        if scopes.is_empty() {
            return None;
        }
        let grant = Arc::new(Grant {
            token: Zeroizing::new(ids::token()),
            hook: hook.clone(),
            event_id: event_id.to_owned(),
            row: Arc::clone(row),
            scopes,
            until: Instant::now() + LIFE,
            ended: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            sends: AtomicU64::new(0),
        });
        self.0.lock().push(Arc::clone(&grant));
        Some(Held { grants: self, grant })
    }

    /// What a token stands for, if it is good.
    pub(super) fn find(&self, token: &[u8]) -> Option<Arc<Grant>> {
        let mut found = None;
        // All of them are looked at, whichever it is.
        for grant in self.0.lock().iter() {
            if bool::from(grant.token.as_bytes().ct_eq(token)) && grant.is_good() {
                found = Some(Arc::clone(grant));
            }
        }
        if let Some(grant) = &found {
            grant.calls.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dm() -> Arc<InboxRow> {
        Arc::new(super::super::tests::row())
    }

    fn post() -> Arc<InboxRow> {
        Arc::new(InboxRow { kind: Kind::Topic, topic: Some("alerts".into()), ..super::super::tests::row() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_bound_to_its_event_and_its_time() {
        let grants = Grants::default();
        let scopes = [Scope::Reply, Scope::Topic("alerts".into())];
        let held = grants.mint(&HookName::Dm, "id", &dm(), &scopes).unwrap();
        let token = held.token().to_owned();
        let grant = grants.find(token.as_bytes()).unwrap();
        assert_eq!(grant.may_write_to("bob"), Some("reply:event"));
        assert_eq!(grant.may_write_to("eve"), None);
        assert_eq!(grant.may_post_to("alerts"), None, "the event did not come from there");
        assert!(grants.find(b"").is_none() && grants.find(&token.as_bytes()[1..]).is_none());
        assert_eq!(grant.calls(), 1);
        assert_eq!((grant.next_id(), grant.next_id()), ("hook:id:on-dm:1".into(), "hook:id:on-dm:2".into()));
        tokio::time::advance(LIFE).await;
        assert!(grants.find(token.as_bytes()).is_none() && grant.may_write_to("bob").is_none());
    }

    #[tokio::test]
    async fn it_ends_with_its_hook() {
        let grants = Grants::default();
        let held = grants.mint(&HookName::Message, "id", &post(), &[Scope::Topic("alerts".into())]).unwrap();
        let token = held.token().to_owned();
        let grant = grants.find(token.as_bytes()).unwrap();
        assert_eq!((grant.may_post_to("alerts"), grant.may_post_to("other")), (Some("topic:post"), None));
        assert_eq!(grant.may_write_to("bob"), None);
        drop(held);
        assert!(grants.find(token.as_bytes()).is_none() && grant.may_post_to("alerts").is_none());
    }

    #[tokio::test]
    async fn scopes_that_do_not_fit_give_no_token() {
        let grants = Grants::default();
        let mint = |row: &Arc<InboxRow>, scope: Scope| grants.mint(&HookName::Dm, "id", row, &[scope]).is_some();
        assert!(!mint(&dm(), Scope::Topic("alerts".into())) && !mint(&post(), Scope::Topic("other".into())));
        assert!(!mint(&dm(), Scope::Sender(Some("ab".repeat(32)))));
        assert!(mint(&dm(), Scope::Sender(Some("0b".repeat(32)))) && mint(&post(), Scope::Reply));
    }
}
