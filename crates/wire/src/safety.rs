//! The number two members compare by voice, to be sure that no other key sits between them.

use sha2::{Digest, Sha512};

use crate::keys::PublicKey;

/// Thirty digits in six groups of five, the same from both sides.
#[must_use]
pub fn number(one: &PublicKey, other: &PublicKey) -> String {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    let mut hash = Sha512::new();
    hash.update(b"claudemesh-safety|");
    hash.update(first.0);
    hash.update(second.0);
    let digest = hash.finalize();
    let group = |bytes: &[u8]| {
        let value = bytes.iter().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
        format!("{:05}", value % 100_000)
    };
    let groups: Vec<_> = digest[..48].chunks_exact(8).map(group).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;

    #[test]
    fn the_same_from_both_sides() {
        let (one, other) = (SecretKey::from_seed(&[1; 32]).public(), SecretKey::from_seed(&[2; 32]).public());
        let text = number(&one, &other);
        assert_eq!(text, number(&other, &one));
        assert_eq!(text.split(' ').map(str::len).collect::<Vec<_>>(), [5; 6]);
        assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_digit()));
        assert_ne!(text, number(&one, &SecretKey::from_seed(&[3; 32]).public()));
    }
}
