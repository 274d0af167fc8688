//! From a key of a member that is known to the member's other keys, by what both keys signed at each rotation.
//!
//! Guarantee: the key that counts changes only by a step that begins with it. Of two who have gone on from the same key,
//! the one that was heard first stays. Earlier keys are taken over only if the later key has acknowledged them.

use crate::encoding;
use crate::frames::client::Succession;
use crate::hello::is_succession;

/// Rotations that a body may carry.
pub const MAX_BODY_SUCCESSIONS: usize = 8;

/// A rotation in a body: old key, new key, time and both signatures.
const STEP: usize = 32 + 32 + 8 + 64 + 64;

/// The keys of a member that are proven, hex.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyHistory {
    /// The one that counts.
    pub current: String,
    /// Those it had before.
    pub earlier: Vec<String>,
}

impl KeyHistory {
    /// Whether a key is or was the member's.
    #[must_use]
    pub fn owns(&self, key: &str) -> bool {
        self.current == key || self.earlier.iter().any(|earlier| earlier == key)
    }
}

/// Follows rotations in both directions, as far as they are proven; `true` if a key was learned. At most
/// `max_earlier` earlier keys are kept, the latest ones.
pub fn follow(
    history: &mut KeyHistory,
    mesh_id: &str,
    member_id: &str,
    steps: &[Succession],
    max_earlier: usize,
) -> bool {
    let mut learned = false;
    // Each round uses up at least one step.
    for _ in 0..steps.len() {
        let is_new = |step: &&Succession| {
            let forward = step.old_pubkey == history.current && !history.owns(&step.new_pubkey);
            let back = history.owns(&step.new_pubkey) && !history.owns(&step.old_pubkey);
            let has_room = history.earlier.len() < max_earlier;
            (forward || (back && has_room)) && is_succession(mesh_id, member_id, step)
        };
        let Some(step) = steps.iter().find(is_new) else { break };
        match step.old_pubkey == history.current {
            true => {
                let old = std::mem::replace(&mut history.current, step.new_pubkey.clone());
                history.earlier.push(old);
            }
            // The oldest first.
            false => history.earlier.insert(0, step.old_pubkey.clone()),
        }
        learned = true;
        let excess = history.earlier.len().saturating_sub(max_earlier);
        history.earlier.drain(..excess);
    }
    learned
}

/// A rotation as a body has it, base64; none if it is none.
pub(crate) fn write_step(step: &Succession) -> Option<String> {
    let mut bytes = Vec::with_capacity(STEP);
    for key in [&step.old_pubkey, &step.new_pubkey] {
        bytes.extend_from_slice(&encoding::unhex_array::<32>(key)?);
    }
    bytes.extend_from_slice(&step.timestamp.to_be_bytes());
    for signature in [&step.signature, &step.proof] {
        bytes.extend_from_slice(&encoding::unhex_array::<64>(signature)?);
    }
    Some(encoding::b64(&bytes))
}

/// Reads what [`write_step`] wrote.
pub(crate) fn read_step(text: &str) -> Option<Succession> {
    let bytes = encoding::unb64_array::<STEP>(text)?;
    let (old, rest) = bytes.split_first_chunk::<32>()?;
    let (new, rest) = rest.split_first_chunk::<32>()?;
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let (signature, proof) = rest.split_first_chunk::<64>()?;
    Some(Succession {
        old_pubkey: encoding::hex(old),
        new_pubkey: encoding::hex(new),
        timestamp: u64::from_be_bytes(*time),
        signature: encoding::hex(signature),
        proof: encoding::hex(proof),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::succeed;
    use crate::keys::SecretKey;

    fn keys(count: usize) -> Vec<SecretKey> {
        (0..count).map(|_| SecretKey::generate()).collect()
    }

    fn steps(keys: &[SecretKey]) -> Vec<Succession> {
        keys.windows(2).map(|pair| succeed("mesh", "alice", &pair[0], &pair[1], 7)).collect()
    }

    fn history(key: &SecretKey) -> KeyHistory {
        KeyHistory { current: key.public().hex(), earlier: Vec::new() }
    }

    #[test]
    fn rotations_are_followed_in_both_directions_and_in_any_order() {
        let keys = keys(4);
        let mut steps = steps(&keys);
        steps.reverse();
        for known in 0..keys.len() {
            let mut history = history(&keys[known]);
            assert!(follow(&mut history, "mesh", "alice", &steps, 16));
            assert_eq!(history.current, keys[3].public().hex());
            assert_eq!(history.earlier, keys[..3].iter().map(|key| key.public().hex()).collect::<Vec<_>>());
            assert!(!follow(&mut history, "mesh", "alice", &steps, 16), "nothing is learned twice");
        }
    }

    #[test]
    fn what_is_not_proven_is_not_followed() {
        let keys = keys(3);
        let steps = steps(&keys);
        let before = history(&keys[0]);
        let other = SecretKey::generate();
        let mut forged = steps[0].clone();
        forged.new_pubkey = other.public().hex();
        // A stranger says that a member's key follows its own; the member's key has not signed that.
        let mut claimed = succeed("mesh", "alice", &other, &keys[0], 7);
        claimed.proof = claimed.signature.clone();
        for (mesh, member, step) in [
            ("mesh", "alice", &forged),
            ("mesh", "alice", &claimed),
            ("other", "alice", &steps[0]),
            ("mesh", "bob", &steps[0]),
        ] {
            let mut history = before.clone();
            assert!(!follow(&mut history, mesh, member, std::slice::from_ref(step), 16));
            assert_eq!(history, before);
        }
    }

    #[test]
    fn a_key_that_was_replaced_decides_nothing() {
        let keys = keys(2);
        let thief = SecretKey::generate();
        let mut history = history(&keys[0]);
        assert!(follow(&mut history, "mesh", "alice", &steps(&keys), 16));
        let stolen = succeed("mesh", "alice", &keys[0], &thief, 9);
        assert!(!follow(&mut history, "mesh", "alice", &[stolen], 16));
        assert_eq!(history.current, keys[1].public().hex());
        assert!(!history.owns(&thief.public().hex()));
    }

    #[test]
    fn earlier_keys_are_bounded() {
        let keys = keys(6);
        let mut history = history(&keys[0]);
        follow(&mut history, "mesh", "alice", &steps(&keys), 2);
        assert_eq!(history.current, keys[5].public().hex());
        assert_eq!(history.earlier, [keys[3].public().hex(), keys[4].public().hex()]);
    }

    #[test]
    fn a_rotation_travels_in_a_body() {
        let step = steps(&keys(2)).remove(0);
        let text = write_step(&step).unwrap();
        assert_eq!(read_step(&text), Some(step.clone()));
        assert_eq!(read_step(&text[4..]), None);
        assert_eq!(write_step(&Succession { proof: "x".into(), ..step }), None);
    }
}
