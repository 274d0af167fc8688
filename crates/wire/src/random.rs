//! Random numbers, from the operating system and from nowhere else.
//!
//! Invariant: what is returned is fit for keys. Where the system has none to give, the process ends: a key or a nonce
//! that can be guessed is worse than a daemon that is down.

/// Fills `buffer`.
pub fn fill(buffer: &mut [u8]) {
    // The call is interrupted at most by signals, which getrandom itself retries; a second failure is final.
    if getrandom::fill(buffer).is_err() && getrandom::fill(buffer).is_err() {
        std::process::abort();
    }
}

/// An array of random bytes.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// A number below `end`, or 0 when `end` is 0. Not exactly even for very large ends; for choices, not for keys.
#[must_use]
pub fn below(end: u64) -> u64 {
    if end == 0 { 0 } else { u64::from_le_bytes(bytes()) % end }
}

/// `ms` with up to `percent` of it added or taken away, so that many that were told to wait do not come back at once.
#[must_use]
pub fn jittered(ms: u64, percent: u32) -> u64 {
    let spread = ms.saturating_mul(u64::from(percent.min(100))) / 100;
    ms.saturating_sub(spread).saturating_add(below(spread.saturating_mul(2).saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_share() {
        for _ in 0..1000 {
            let waited = jittered(1000, 25);
            assert!((750..=1250).contains(&waited), "{waited}");
        }
        assert_eq!(jittered(0, 25), 0);
        assert_eq!(jittered(500, 0), 500);
        assert_eq!(below(0), 0);
        assert_eq!(below(1), 0);
    }

    #[test]
    fn two_draws_differ() {
        assert_ne!(bytes::<32>(), bytes::<32>());
    }
}
