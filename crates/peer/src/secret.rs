//! The token clients must show.
//!
//! It is wiped from memory when dropped, never printed, and compared in a time that depends on its
//! length alone.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A token.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the token over.
    pub fn new(token: Vec<u8>) -> Self {
        Self(Zeroizing::new(token))
    }

    /// Whether `shown` is the token. An empty one never is, so a daemon without a token serves
    /// nobody instead of everybody.
    pub fn matches(&self, shown: &[u8]) -> bool {
        !shown.is_empty() && bool::from(self.0.ct_eq(shown))
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn only_the_whole_token_matches() {
        let secret = Secret::new(b"tok".to_vec());
        assert!(secret.matches(b"tok"));
        for wrong in ["", "to", "tok ", "toK", "token"] {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert!(!Secret::new(Vec::new()).matches(b""));
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
    }
}
