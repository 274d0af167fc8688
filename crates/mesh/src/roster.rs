//! Who is in the mesh, as the broker last said, kept over restarts: names resolve and messages can be queued and sealed
//! without a connection.
//!
//! Invariant: a member that was once known stays known, so that what it sent can still be attributed; whether its key
//! counts is a mark on it. Revisions only rise: an older list never overwrites a newer one. Keys and names are those that
//! are proven (see `authors`), not simply the last that the broker said.

use std::collections::btree_map::Values;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use hostel_syncpoint::points;
use hostel_wire::frames::server::{Member, RetiredKey, Roster as RosterFrame};
use hostel_wire::keys::PublicKey;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::authors::{Authors, Notice};
use crate::keep::Kept;
use crate::log::Log;

/// Members a mesh may have here; what a broker says beyond that is not kept.
const MOST: usize = 10_000;

/// Sessions that are known at once.
const SESSIONS: usize = 20_000;

/// By what a list of the broker's is judged.
pub(crate) struct Admission<'a> {
    pub(crate) authors: &'a Authors,
    pub(crate) mesh_id: &'a str,
    pub(crate) own_id: &'a str,
    /// Members that say so in a whole list must sign from this entry of the log on; none: not because of this list.
    pub(crate) signs_from: Option<u64>,
}

/// What became of a list of the broker's.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// A whole list is here.
    pub(crate) is_whole: bool,
    /// What a person should know.
    pub(crate) notices: Vec<Notice>,
}

/// Everybody who is or was in the mesh.
pub(crate) struct Roster {
    kept: Kept,
    log: Log,
    state: RwLock<Listed>,
    /// The beginning of a list that is too long for one frame.
    parts: Mutex<Option<RosterFrame>>,
    heard: AtomicBool,
    /// What the broker calls the list that we have, if it has said so in the life of this process.
    mark: Mutex<Option<String>>,
    /// Members with a connection, as far as we have heard on this connection of ours.
    online: RwLock<HashSet<String>>,
    changed: watch::Sender<u64>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Listed {
    rev: u64,
    members: BTreeMap<String, Member>,
    /// Sessions of members, by key: who they belong to and how they are called.
    #[serde(skip)]
    sessions: HashMap<String, SessionOf>,
}

/// A session of some member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionOf {
    /// The member's id.
    pub(crate) member_id: String,
    /// The session's id.
    pub(crate) session_id: String,
}

impl Roster {
    /// As it was kept.
    pub(crate) fn load(kept: Kept, log: Log) -> std::io::Result<Self> {
        let state: Listed = kept.load()?;
        let (changed, _) = watch::channel(0);
        let (parts, heard) = (Mutex::default(), AtomicBool::new(false));
        let (state, mark, online) = (RwLock::new(state), Mutex::default(), RwLock::default());
        Ok(Self { kept, log, state, parts, heard, mark, online, changed })
    }

    /// A list that was kept and does not know who we are is of the time before this host had this identity: until there is
    /// another, the name is ours, as it will be then, and not the earlier one's.
    pub(crate) fn settle(&self, me: Member) {
        let mut state = self.state.write();
        if state.members.is_empty() || state.members.contains_key(&me.id) {
            return;
        }
        let name = me.name.to_lowercase();
        for other in state.members.values_mut().filter(|other| other.name.to_lowercase() == name) {
            other.name.push_str("-old");
        }
        state.members.insert(me.id.clone(), me);
    }

    /// Takes a part of a whole list, and the list once all of it is here.
    pub(crate) fn take_part(&self, mut frame: RosterFrame, first: bool, admission: &Admission<'_>) -> Admitted {
        let mut parts = self.parts.lock();
        if first {
            *parts = None;
        } else if parts.as_ref().is_none_or(|before| before.rev != frame.rev) {
            // Only news, and no part of anything.
            drop(parts);
            return Admitted { is_whole: false, notices: self.change(frame, admission) };
        }
        if let Some(mut before) = parts.take() {
            before.members.append(&mut frame.members);
            frame.members = before.members;
        }
        if frame.more && frame.members.len() <= MOST {
            *parts = Some(frame);
            return Admitted::default();
        }
        drop(parts);
        Admitted { is_whole: true, notices: self.replace(frame, admission) }
    }

    /// Whether a whole list has come since we run: who is in none of what is kept is nobody.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// What the broker calls the list that we have: one that has the same list need not send it again.
    pub(crate) fn mark(&self) -> Option<String> {
        self.mark.lock().clone()
    }

    /// Takes a whole list. Members that it does not name are gone: they count as having left.
    pub(crate) fn replace(&self, frame: RosterFrame, admission: &Admission<'_>) -> Vec<Notice> {
        self.heard.store(true, Ordering::Relaxed);
        let mut state = self.state.write();
        let named: HashSet<String> = frame.members.iter().map(|member| member.id.clone()).collect();
        for (id, member) in &mut state.members {
            member.left |= !named.contains(id);
        }
        state.rev = frame.rev;
        *self.mark.lock() = frame.mark;
        self.take(state, frame.members, admission, admission.signs_from)
    }

    /// Takes members that changed.
    pub(crate) fn change(&self, frame: RosterFrame, admission: &Admission<'_>) -> Vec<Notice> {
        let mut state = self.state.write();
        if frame.rev < state.rev {
            return Vec::new();
        }
        state.rev = frame.rev;
        if let (Some(before), Some(after)) = (frame.mark_before, frame.mark) {
            // Something was missed where the marks do not follow each other.
            let mut mark = self.mark.lock();
            *mark = mark.take().filter(|known| *known == before).map(|_| after);
        }
        self.take(state, frame.members, admission, None)
    }

    fn take(
        &self,
        mut state: parking_lot::RwLockWriteGuard<'_, Listed>,
        mut members: Vec<Member>,
        admission: &Admission<'_>,
        signs_from: Option<u64>,
    ) -> Vec<Notice> {
        let Admission { authors, mesh_id, own_id, .. } = admission;
        let notices = authors.admit(mesh_id, own_id, &mut members, &mut state.members, signs_from);
        for member in members {
            let fits = PublicKey::from_hex(&member.pubkey).is_some() && !member.id.is_empty() && member.id.len() <= 64;
            if fits && (state.members.contains_key(&member.id) || make_room(&mut state.members)) {
                state.members.insert(member.id.clone(), member);
            }
        }
        if let Err(error) = points::ROSTER_WRITTEN.reach_if_ok(self.kept.save(&*state, false)) {
            self.log.warn("roster_not_kept", serde_json::json!({"error": error.to_string()}));
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
        notices
    }

    /// What is kept of earlier times is known already: what a broker says later is measured by it.
    pub(crate) fn remember(&self, admission: &Admission<'_>) {
        let mut state = self.state.write();
        let mut members: Vec<Member> = state.members.values().cloned().collect();
        let Admission { authors, mesh_id, own_id, .. } = admission;
        authors.remember(mesh_id, own_id, &mut members, &mut state.members);
        state.members.extend(members.into_iter().map(|member| (member.id.clone(), member)));
    }

    /// Another key counts for a member, because a person on this host says so.
    pub(crate) fn set_key(&self, id: &str, key: &str) {
        let mut state = self.state.write();
        if let Some(member) = state.members.get_mut(id) {
            key.clone_into(&mut member.pubkey);
        }
        if let Err(error) = self.kept.save(&*state, false) {
            self.log.warn("roster_not_kept", serde_json::json!({"error": error.to_string()}));
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Changes whenever the list does.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// A member by id.
    pub(crate) fn member(&self, id: &str) -> Option<Member> {
        self.state.read().members.get(id).cloned()
    }

    /// A member's name.
    pub(crate) fn name(&self, id: &str) -> Option<String> {
        self.state.read().members.get(id).map(|member| member.name.clone())
    }

    /// Whether somebody else who is there has this name.
    pub(crate) fn is_name_of_other(&self, id: &str, name: &str) -> bool {
        let name = name.to_lowercase();
        let has =
            |member: &Member| member.id != id && !member.left && !member.revoked && member.name.to_lowercase() == name;
        self.state.read().members.values().any(has)
    }

    /// A member's key, for sealing.
    pub(crate) fn key(&self, id: &str) -> Option<PublicKey> {
        self.state.read().members.get(id).and_then(|member| PublicKey::from_hex(&member.pubkey))
    }

    /// Everybody, by id.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.state.read().members.values().cloned().collect()
    }

    /// Looks at everybody without copying.
    pub(crate) fn with<T>(&self, look: impl FnOnce(Values<'_, String, Member>) -> T) -> T {
        look(self.state.read().members.values())
    }

    /// The id of the member with this key.
    pub(crate) fn id_by_key(&self, pubkey: &str) -> Option<String> {
        self.with(|mut members| members.find(|member| member.pubkey == pubkey).map(|member| member.id.clone()))
    }

    /// The id of the member that has this key, else of one that had it.
    pub(crate) fn id_by_any_key(&self, pubkey: &str) -> Option<String> {
        let had = |member: &&Member| earlier(member).any(|key| key.pubkey == pubkey);
        self.id_by_key(pubkey).or_else(|| self.with(|mut members| members.find(had).map(|member| member.id.clone())))
    }

    /// Whether a key is a member's, or was when something was sent, in milliseconds since 1970. A key that was replaced
    /// counts for what was sent until the end of its grace, whenever that comes to us.
    pub(crate) fn owns(&self, id: &str, pubkey: &str, sent: Option<u64>) -> bool {
        let state = self.state.read();
        let Some(member) = state.members.get(id) else { return false };
        let then = |key: &RetiredKey| key.pubkey == pubkey && sent.is_none_or(|sent| sent <= key.until);
        member.pubkey == pubkey || earlier(member).any(then)
    }

    /// Whether somebody in the list has this x25519 key.
    pub(crate) fn has_x25519(&self, key: &[u8; 32]) -> bool {
        let is =
            |hex: &str| PublicKey::from_hex(hex).and_then(|public| public.x25519().ok()).is_some_and(|x| x == *key);
        let state = self.state.read();
        state.members.values().any(|member| is(&member.pubkey) || earlier(member).any(|old| is(&old.pubkey)))
    }

    /// Notes who has a connection, all at once; if these are not all of them, who is not named stays as it was.
    pub(crate) fn set_online(&self, members: HashSet<String>, sessions: HashMap<String, SessionOf>, all: bool) {
        let (mut online, mut state) = (self.online.write(), self.state.write());
        if all {
            online.clear();
            state.sessions.clear();
        }
        let room = MOST.saturating_sub(online.len());
        online.extend(members.into_iter().take(room));
        let room = SESSIONS.saturating_sub(state.sessions.len());
        state.sessions.extend(sessions.into_iter().take(room));
    }

    /// Notes that somebody came or went.
    pub(crate) fn set_present(&self, member_id: &str, present: bool) {
        let mut online = self.online.write();
        match present {
            true if online.len() < MOST => drop(online.insert(member_id.to_owned())),
            true => {}
            false => drop(online.remove(member_id)),
        }
    }

    /// Whether a member has a connection, as far as we know.
    pub(crate) fn is_online(&self, member_id: &str) -> bool {
        self.online.read().contains(member_id)
    }

    /// The session with this key.
    pub(crate) fn session(&self, pubkey: &str) -> Option<SessionOf> {
        self.state.read().sessions.get(pubkey).cloned()
    }
}

/// Keys that a member had.
fn earlier(member: &Member) -> impl Iterator<Item = &RetiredKey> {
    member.retired.iter().chain(&member.past)
}

/// Room for somebody new: whoever left first is forgotten when there is none. `false` if everybody is still there.
fn make_room(members: &mut BTreeMap<String, Member>) -> bool {
    if members.len() < MOST {
        return true;
    }
    // Ids begin with a time.
    let gone = members.iter().find(|(_, member)| member.left).map(|(id, _)| id.clone());
    gone.is_some_and(|gone| members.remove(&gone).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rev: u64, ids: &[&str], more: bool) -> RosterFrame {
        let member = |id: &&str| Member { id: (*id).to_owned(), pubkey: "a".repeat(64), ..Member::default() };
        RosterFrame { rev, members: ids.iter().map(member).collect(), more, ..RosterFrame::default() }
    }

    fn admission(authors: &Authors) -> Admission<'_> {
        Admission { authors, mesh_id: "mesh", own_id: "me", signs_from: None }
    }

    #[test]
    fn who_left_long_ago_makes_room_for_who_comes() {
        let roster = Roster::load(Kept::new(None, "r"), Log::silent()).unwrap();
        let authors = Authors::default();
        let how = admission(&authors);
        let ids: Vec<String> = (0..MOST).map(|number| format!("{number:05}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        roster.replace(frame(1, &ids, false), &how);
        roster.change(frame(2, &["x"], false), &how);
        assert!(roster.member("x").is_none(), "everybody is there");
        roster.replace(frame(3, &ids[2..], false), &how);
        roster.change(frame(4, &["x", "y"], false), &how);
        assert!(roster.member("x").is_some() && roster.member("y").is_some());
        assert!(
            roster.member("00000").is_none() && roster.member("00001").is_none() && roster.member("00002").is_some()
        );
    }

    #[test]
    fn the_mark_is_that_of_the_list_that_is_here() {
        let roster = Roster::load(Kept::new(None, "r"), Log::silent()).unwrap();
        let authors = Authors::default();
        let how = admission(&authors);
        let named = |mark: &str| Some(mark.to_owned());
        let whole = |rev, more, mark| RosterFrame { mark, ..frame(rev, &["a"], more) };
        roster.take_part(whole(1, true, None), true, &how);
        assert_eq!(roster.mark(), None, "not all of it is here");
        roster.take_part(whole(1, false, named("one")), false, &how);
        assert_eq!(roster.mark(), named("one"));
        let change = |rev, before: &str, after: &str| RosterFrame {
            mark_before: named(before),
            mark: named(after),
            ..frame(rev, &["b"], false)
        };
        roster.take_part(frame(2, &["c"], false), false, &how);
        assert_eq!(roster.mark(), named("one"), "there is more to come of this change");
        roster.take_part(change(2, "one", "two"), false, &how);
        assert_eq!(roster.mark(), named("two"));
        roster.take_part(change(4, "three", "four"), false, &how);
        assert_eq!(roster.mark(), None, "a change was missed");
        roster.take_part(change(5, "four", "five"), false, &how);
        assert_eq!(roster.mark(), None);
        roster.take_part(frame(6, &["a"], false), true, &how);
        assert_eq!(roster.mark(), None, "an older broker names no mark");
    }

    #[test]
    fn a_long_list_counts_when_all_of_it_is_here() {
        let roster = Roster::load(Kept::new(None, "r"), Log::silent()).unwrap();
        let authors = Authors::default();
        let how = admission(&authors);
        assert!(roster.take_part(frame(1, &["a", "b", "c"], false), true, &how).is_whole);
        let left = |id: &str| roster.member(id).unwrap().left;
        assert!(!roster.take_part(frame(2, &["a"], true), true, &how).is_whole);
        assert!(!left("c"), "it may be in the next part");
        assert!(!roster.take_part(frame(3, &["d"], false), false, &how).is_whole, "somebody new, meanwhile");
        assert!(!roster.take_part(frame(2, &["b"], true), false, &how).is_whole);
        assert!(roster.take_part(frame(2, &["e"], false), false, &how).is_whole);
        assert_eq!(["a", "b", "e"].map(left), [false; 3]);
        assert!(left("c"));
        // A connection that ended in the middle leaves nothing behind.
        assert!(!roster.take_part(frame(4, &["a"], true), true, &how).is_whole);
        assert!(roster.take_part(frame(5, &["a", "c"], false), true, &how).is_whole);
        assert!(!left("c") && left("b"));
    }
}
