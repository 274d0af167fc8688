//! What of a broker's roster is believed.
//!
//! | the broker says | of a member that never signed | of a member that signs |
//! |---|---|---|
//! | another key, with the rotations that lead to it | believed | believed |
//! | another key without them | believed, and nothing of the member counts as verified any more | not believed: messages for it stay sealed for the key that is known |
//! | earlier keys | believed, for messages that are unverified anyway | only those that are proven |
//! | another name | believed | only with the member's statement |
//!
//! Of two members that claim one name, the one that is known here by it keeps it. The other one is shown with the
//! beginning of its key behind the name, until the first gives the name up, leaves, or is replaced by the second with
//! the signatures of both.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use hostel_wire::authorship::follow;
use hostel_wire::frames::server::{Member, RetiredKey};
use hostel_wire::keys::PublicKey;
use serde_json::{Value, json};

use super::{Authors, MAX_EARLIER_KEYS, MAX_PINS, NEXT_CONNECTION, Pin, State};

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The broker gives a member another key, and the member has not signed that.
    UnprovenKey { member_id: String, name: String, key: String },
    /// The broker gives a member that signs another name, and the member has not signed that.
    UnprovenName { member_id: String, name: String, claimed: String },
    /// A member has the name of another one.
    NameTaken { member_id: String, name: String, shown: String },
    /// A member has the name of one that is gone.
    NameReused { member_id: String, name: String },
}

/// Characters of a key that tell two members of one name apart, and the longest name.
const KEY_PREFIX: usize = 8;
const MAX_NAME: usize = 64;

impl Authors {
    /// Takes members as this host had listed them, before anything is heard of a broker: what they have signed counts from
    /// the next connection on, also if its broker does not hand that out any more. Those that are known already stay as
    /// they are.
    pub(crate) fn remember(
        &self,
        mesh_id: &str,
        own_id: &str,
        members: &mut [Member],
        known: &mut BTreeMap<String, Member>,
    ) {
        let is_new = |id: &str| !self.0.lock().pins.contains_key(id);
        let new: Vec<String> =
            members.iter().map(|member| member.id.clone()).filter(|id| id != own_id && is_new(id)).collect();
        self.admit(mesh_id, own_id, members, known, None);
        let mut state = self.0.lock();
        for id in new {
            let State { pins, changed, .. } = &mut *state;
            // Only a statement that verified has a name.
            if let Some(pin) = pins.get_mut(&id).filter(|pin| pin.name.is_some())
                && pin.must_sign_from(NEXT_CONNECTION)
            {
                changed.insert(id);
            }
        }
    }

    /// Takes members as a broker lists them and makes them what is proven. `known` are the members as they are shown
    /// until now. With `signs_from`, members whose statements are new must sign from that entry of the log on.
    pub(crate) fn admit(
        &self,
        mesh_id: &str,
        own_id: &str,
        members: &mut [Member],
        known: &mut BTreeMap<String, Member>,
        signs_from: Option<u64>,
    ) -> Vec<Notice> {
        let mut state = self.0.lock();
        if let Some(seq) = signs_from {
            state.draw_lines(seq);
        }
        let mut notices = Vec::new();
        for member in members.iter_mut().filter(|member| member.id != own_id) {
            state.admit_key(mesh_id, member, &mut notices);
        }
        for member in members.iter() {
            state.admit_remint(mesh_id, member, known);
        }
        for member in members.iter_mut().filter(|member| member.id != own_id) {
            state.admit_statement(mesh_id, member, signs_from, &mut notices);
        }
        tell_names_apart(own_id, members, known, &mut notices);
        notices
    }
}

impl Notice {
    /// What an event and the log say of it.
    pub(crate) fn told(&self) -> (&'static str, Value) {
        match self {
            Self::UnprovenKey { member_id, name, key } => (
                "member_key_unproven",
                json!({"memberId": member_id, "name": name, "claimedPubkey": key,
                    "detail": "the broker names another key for this member, and the member has not signed that"}),
            ),
            Self::UnprovenName { member_id, name, claimed } => (
                "member_name_unproven",
                json!({"memberId": member_id, "name": name, "claimedName": claimed,
                    "detail": "the broker names this member otherwise, and the member has not signed that"}),
            ),
            Self::NameTaken { member_id, name, shown } => (
                "member_name_taken",
                json!({"memberId": member_id, "name": shown, "claimedName": name,
                    "detail": "another member is known here by this name"}),
            ),
            Self::NameReused { member_id, name } => (
                "member_name_reused",
                json!({"memberId": member_id, "name": name,
                    "detail": "a member of this name left; this is another one: compare safety numbers again"}),
            ),
        }
    }
}

impl State {
    /// A connection begins: who signs, since a time that nobody knows, does so from here on.
    fn draw_lines(&mut self, seq: u64) {
        let State { pins, changed, .. } = self;
        for (id, pin) in pins.iter_mut().filter(|(_, pin)| pin.signs_from == Some(NEXT_CONNECTION)) {
            pin.must_sign_from(seq);
            changed.insert(id.clone());
        }
    }

    fn admit_key(&mut self, mesh_id: &str, member: &mut Member, notices: &mut Vec<Notice>) {
        if PublicKey::from_hex(&member.pubkey).is_none() {
            return;
        }
        let has_room = self.pins.len() < MAX_PINS;
        let State { pins, changed, unproven, .. } = self;
        let pin = match pins.entry(member.id.clone()) {
            Entry::Occupied(pin) => pin.into_mut(),
            Entry::Vacant(place) if has_room => {
                let mut pin = Pin::new(&member.pubkey);
                follow(&mut pin.keys, mesh_id, &member.id, &member.lineage, MAX_EARLIER_KEYS);
                changed.insert(member.id.clone());
                place.insert(pin)
            }
            Entry::Vacant(_) => return,
        };
        if follow(&mut pin.keys, mesh_id, &member.id, &member.lineage, MAX_EARLIER_KEYS) {
            changed.insert(member.id.clone());
        }
        if pin.keys.owns(&member.pubkey) {
            // A broker that was set back may name an earlier one.
            member.pubkey.clone_from(&pin.keys.current);
            if let Some(claims) = unproven.get_mut(&member.id) {
                claims.key = None;
            }
        } else {
            let claimed = member.pubkey.clone();
            let claims = unproven.entry(member.id.clone()).or_default();
            if claims.key.replace(claimed.clone()).as_ref() != Some(&claimed) {
                let (member_id, name) = (member.id.clone(), member.name.clone());
                notices.push(Notice::UnprovenKey { member_id, name, key: claimed.clone() });
            }
            if pin.signs_from.is_some() {
                member.pubkey.clone_from(&pin.keys.current);
            } else {
                *pin = Pin { is_unproven: true, ..Pin::new(&claimed) };
                changed.insert(member.id.clone());
            }
        }
        if pin.signs_from.is_some() {
            let is_proven = |key: &RetiredKey| pin.keys.owns(&key.pubkey);
            member.retired.retain(is_proven);
            member.past.retain(is_proven);
        }
    }

    fn admit_statement(
        &mut self,
        mesh_id: &str,
        member: &mut Member,
        signs_from: Option<u64>,
        notices: &mut Vec<Notice>,
    ) {
        let Some(pin) = self.pins.get_mut(&member.id) else { return };
        let key = PublicKey::from_hex(&pin.keys.current);
        let said = member.statement.as_ref().zip(key);
        let said = said.filter(|(said, key)| !pin.is_unproven && said.verify(mesh_id, &member.id, key));
        let mut is_changed = false;
        match said {
            Some((said, _)) => {
                if said.at > pin.name_at {
                    (pin.name, pin.name_at) = (Some(said.name.clone()), said.at);
                    is_changed = true;
                }
                // One that comes later in a connection counts from the next one on: what the member sent before it
                // signed may still be on its way.
                if let (Some(seq), None) = (signs_from, pin.signs_from) {
                    is_changed |= pin.must_sign_from(seq);
                }
            }
            // What does not verify is kept by nobody.
            None => member.statement = None,
        }
        let proven = pin.name.clone().filter(|name| *name != member.name);
        if proven.is_none()
            && let Some(claims) = self.unproven.get_mut(&member.id)
        {
            claims.name = None;
            if claims.key.is_none() {
                self.unproven.remove(&member.id);
            }
        }
        if let Some(name) = proven {
            let claimed = std::mem::replace(&mut member.name, name.clone());
            let claims = self.unproven.entry(member.id.clone()).or_default();
            if claims.name.replace(claimed.clone()).as_ref() != Some(&claimed) {
                notices.push(Notice::UnprovenName { member_id: member.id.clone(), name, claimed });
            }
        }
        if is_changed {
            self.change(&member.id);
        }
    }

    /// A member that has taken the place of another one, with the signatures of both, gets its name.
    fn admit_remint(&mut self, mesh_id: &str, member: &Member, known: &mut BTreeMap<String, Member>) {
        let Some(remint) = &member.remint else { return };
        let Some(key) = self.pins.get(&member.id).and_then(|pin| PublicKey::from_hex(&pin.keys.current)) else {
            return;
        };
        let Some(old) = self.pins.get_mut(&remint.member_id) else { return };
        let is_new = old.name.is_some() && old.name_at < remint.timestamp;
        if is_new && !old.is_unproven && old.keys.owns(&remint.old_pubkey) && remint.verify(mesh_id, &key) {
            (old.name, old.name_at) = (None, remint.timestamp);
            self.change(&remint.member_id);
            if let Some(old) = known.get_mut(&remint.member_id).filter(|old| old.name == member.name) {
                // Until the broker says what it is called now.
                old.name.push_str("-old");
            }
        }
    }
}

/// Gives members of one name different ones, as far as they are there.
fn tell_names_apart(own_id: &str, members: &mut [Member], known: &BTreeMap<String, Member>, notices: &mut Vec<Notice>) {
    let is_gone = |member: &Member| member.left || member.revoked;
    let lower = |member: &Member| member.name.to_lowercase();
    let listed: HashSet<String> = members.iter().map(|member| member.id.clone()).collect();
    // Who keeps a name when all of this is taken: ourselves, else who had it here, else the oldest (ids begin with a
    // time). Who is not listed stays as it is.
    let mut keepers: HashMap<String, (bool, bool, String)> = HashMap::new();
    let others = known.values().filter(|member| !listed.contains(&member.id));
    for member in others.chain(members.iter()).filter(|member| !is_gone(member) && !member.name.is_empty()) {
        let name = lower(member);
        let had = known.get(&member.id).is_some_and(|known| lower(known) == name && !is_gone(known));
        let place = (member.id != own_id, !had, member.id.clone());
        let keeper = keepers.entry(name).or_insert_with(|| place.clone());
        *keeper = place.min(keeper.clone());
    }
    let left: HashSet<String> = known.values().filter(|member| is_gone(member)).map(lower).collect();
    for member in members.iter_mut().filter(|member| member.id != own_id && !is_gone(member)) {
        let name = lower(member);
        let Some((_, _, keeper)) = keepers.get(&name) else { continue };
        let before = known.get(&member.id);
        if *keeper != member.id {
            let key: String = member.pubkey.chars().take(KEY_PREFIX).collect();
            let base: String = member.name.chars().take(MAX_NAME - KEY_PREFIX - 1).collect();
            let (shown, member_id) = (format!("{base}-{key}"), member.id.clone());
            // Told once: then it is known by that name.
            if before.is_none_or(|before| before.name != shown) {
                notices.push(Notice::NameTaken { member_id, name: member.name.clone(), shown: shown.clone() });
            }
            member.name = shown;
        } else if before.is_none() && left.contains(&name) {
            notices.push(Notice::NameReused { member_id: member.id.clone(), name: member.name.clone() });
        }
    }
}
