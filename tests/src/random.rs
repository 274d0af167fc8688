//! A small seeded generator, so that a run that failed can be repeated.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: enough for choosing moments and sizes, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }
}

/// The seed of this run: `HOSTEL_SEED` if set, else the clock. The caller prints it.
pub fn seed() -> u64 {
    env::var("HOSTEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() << 20 ^ u64::from(now.subsec_nanos())
    })
}
